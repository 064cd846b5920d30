"""Check the report: re-run chapters and hold what they record against the committed records.

Nothing is written; what could only be recalled is listed, because a recalled value agrees with its record by nature.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import records
from .errors import RecordMismatch
from .instances import Instance, choose, load_chapters
from .pool import Parameters, Progress, Say, run_all
from .records import Comparison, path_of

__all__ = ["CheckReport", "Checked", "check"]


@dataclass(frozen=True)
class Checked:
    """One instance re-run: how it compares, and what it could only recall, which proves nothing.

    ``recalled_throughout``: it has findings and measured none of them.
    """

    instance: Instance
    comparison: Comparison
    recalled: tuple[str, ...] = ()
    recalled_throughout: bool = False


@dataclass(frozen=True)
class CheckReport:
    """Every instance re-run against its record.

    Attributes:
        checked: The instances that have a record.
        missing: Instances without a record.
        stale: Names of record files that no instance owns.
    """

    checked: tuple[Checked, ...] = ()
    missing: tuple[Instance, ...] = ()
    stale: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Nothing differs, nothing is missing, nothing is stale."""
        return not (self.missing or self.stale or any(not each.comparison.equal for each in self.checked))

    def problems(self) -> list[str]:
        """One line each, with chapter, leaf, was and is."""
        lines = [f"{each.instance}: {d}" for each in self.checked for d in each.comparison.differences]
        lines += [f"{instance}: no record is stored" for instance in self.missing]
        return lines + [f"{name}: no chapter instance makes this record" for name in self.stale]

    def raise_if_unequal(self) -> None:
        """Raise :class:`RecordMismatch` with every problem."""
        if not self.equal:
            raise RecordMismatch(
                "the records do not hold:\n  " + "\n  ".join(self.problems()),
                where="data-pins/records",
                next_step="mend the library, or record anew with `traceaudit build --record` and say why in the commit",
            )


def check(
    root: Path,
    *,
    parameters: Parameters,
    only: Iterable[str] | None = None,
    workers: int = 2,
    say: Say = lambda line: None,
    env: Mapping[str, str | None] | None = None,
) -> CheckReport:
    """Re-run chapter instances and compare with the committed records; writes no page and no record.

    Arguments as for :func:`~traceaudit.build.build`.

    Returns:
        The comparisons. ``equal`` decides the exit code; :meth:`CheckReport.raise_if_unequal` raises it.

    Raises:
        PinMismatch: a record is malformed (before anything runs).
        ChapterFailed: chapters failed.
    """
    root = root.resolve()
    instances = load_chapters(root / "chapters" / "chapters.toml")
    chosen = choose(instances, only)
    stored = {i: records.load(path) for i in chosen if (path := path_of(i.chapter, i.split, root)).is_file()}
    owned = {path_of(i.chapter, i.split, root).name for i in instances}
    stale = tuple(sorted(p.name for p in (root / "data-pins" / "records").glob("*.json") if p.name not in owned))
    with tempfile.TemporaryDirectory(prefix="traceaudit-", ignore_cleanup_errors=True) as aside:
        results = run_all(root, chosen, parameters, workers, Path(aside), env or {}, Progress(say, len(chosen)))
    checked = []
    for instance, executed in results.items():
        if instance in stored:
            now = executed.record(instance.chapter, instance.split)
            parts = (("values", executed.values), ("findings", executed.findings))
            recalled = tuple(
                f"{part}.{name}" for part, items in parts for name, item in items.items() if item.mode != "measured"
            )
            modes = {finding.mode for finding in executed.findings.values()}
            comparison = records.compare(stored[instance], now)
            checked.append(Checked(instance, comparison, recalled, modes == {"recalled"}))
    return CheckReport(tuple(checked), tuple(i for i in chosen if i not in stored), stale)
