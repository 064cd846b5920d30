"""The audit of captures kept beside a corpus: a record per run, and the guard that it covers every stamped run.

An audit that looked at a part of the runs reads like one that found the others sound; so what was looked at is part of
the record, and a stamped run without one is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ..records import write_whole
from .archives import captures_digest
from .capture import Loss, actions_of, empty_after, losses_a, losses_b, return_codes_of, undecided_b
from .diff_paths import diff_paths
from .files import is_pointer, shown
from .issues import Issue
from .schema import Run

__all__ = [
    "RULES",
    "AuditCount",
    "Record",
    "guard",
    "load_records",
    "record",
    "records_bytes",
    "save_records",
]

RULES = "empty-after-non-empty 1, staged-path-missing-from-non-empty-capture 1"
"""Which rules a record was made with; a record of others is audited again."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The audit of one run.

    Attributes:
        run_id: The run.
        rules: :data:`RULES`.
        n_steps: Steps of the run that was audited.
        seen: Steps that have a capture, as ranges from first to last.
        captures_sha256: Digest of the captures.
        losses: By step.
        undecided: Steps where a path is missing and rule B abstains.
        terminal_skipped: Whether the last step has a capture; it carries the label and is not audited.
        orphans: Captures of steps that the run does not have; they mark nothing. ``orphans_lost`` of them are losses
            by rule A.
        without_header: Captures that are not empty and hold no header of a diff.
    """

    run_id: str
    rules: str
    n_steps: int
    seen: tuple[tuple[int, int], ...]
    captures_sha256: str
    losses: tuple[Loss, ...] = ()
    undecided: tuple[int, ...] = ()
    terminal_skipped: bool = False
    orphans: tuple[int, ...] = ()
    orphans_lost: int = 0
    without_header: tuple[int, ...] = ()

    @property
    def marked(self) -> tuple[int, ...]:
        """Indexes of the steps that are not measured for this audit."""
        return tuple(loss.step for loss in self.losses)

    def saw(self, step: int) -> bool:
        """Whether the step had a capture when this was made."""
        return any(first <= step <= last for first, last in self.seen)


def record(run: Run, captures: Mapping[int, bytes]) -> Record:
    """Audit one run by both rules; the record does not depend on the run's outcomes, so marking does not change it."""
    actions = actions_of(run)
    sizes = {step: len(data) for step, data in captures.items()}
    paths = {step: diff_paths(data) for step, data in captures.items()}
    lost = [*losses_a(actions, sizes, return_codes_of(run)), *losses_b(actions, paths)]
    orphans = tuple(step for step in sorted(captures) if not 0 <= step < len(actions))
    return Record(
        run_id=run.header.run_id,
        rules=RULES,
        n_steps=len(actions),
        seen=_ranges(sorted(captures)),
        captures_sha256=captures_digest(captures),
        losses=tuple(sorted(lost, key=lambda loss: loss.step)),
        undecided=undecided_b(actions, paths),
        terminal_skipped=len(actions) - 1 in captures,
        orphans=orphans,
        orphans_lost=sum(step in orphans for step, _ in empty_after(sizes)),
        without_header=tuple(step for step in sorted(captures) if sizes[step] and not paths[step]),
    )


def _ranges(steps: Sequence[int]) -> tuple[tuple[int, int], ...]:
    ranges: list[tuple[int, int]] = []
    for step in steps:
        if ranges and ranges[-1][1] == step - 1:
            ranges[-1] = (ranges[-1][0], step)
        else:
            ranges.append((step, step))
    return tuple(ranges)


def records_bytes(records: Mapping[str, Record]) -> bytes:
    """The file of records: a JSON object by run id, sorted, a record a line."""
    rows = [f"{json.dumps(name)}: {json.dumps(msgspec.to_builtins(records[name]))}" for name in sorted(records)]
    return ("{\n" + ",\n".join(rows) + "\n}\n").encode("ascii")


def save_records(records: Mapping[str, Record], path: Path) -> None:
    """Write the file of records whole or not at all."""
    write_whole(path, records_bytes(records))


def load_records(path: Path, issues: list[Issue]) -> dict[str, Record]:
    """Read a file of records; what is wrong with one is an issue, and the others are given.

    No file gives no records, and the guard then finds every stamped run unaudited.
    """
    if not path.exists():
        return {}
    records: dict[str, Record] = {}
    raw = path.read_bytes()
    try:
        parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        got = "a Git LFS pointer" if is_pointer(raw) else shown(error)
        issues.append(Issue(path.name, "the records cannot be read", got=got))
        return {}
    for name, part in parts.items():
        try:
            made = msgspec.json.decode(part, type=Record)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            issues.append(Issue(path.name, "a record cannot be read", got=shown(f"{name}: {error}")))
            continue
        if made.run_id == name:
            records[name] = made
        else:
            issues.append(Issue(path.name, "a record is of another run than it is listed for", got=shown(name)))
    return records


def guard(
    runs: Iterable[Run],
    records: Mapping[str, Record],
    captures: Callable[[str], Mapping[int, bytes] | None] | None = None,
) -> list[Issue]:
    """Whether the audit covers every stamped run, and no step that lost its state is measured.

    Args:
        runs: All runs of the corpus, one after the other.
        records: The records by run id.
        captures: Captures of a run that are here; None, or a function that gives None or nothing, where they are not.

    Returns:
        Issues by run: unaudited (stamped, no record, no captures), unrecorded (captures and no record, with or without
        losses), mismatch (the record is of other captures, steps or rules than these), unseen (a measured step of which
        the record saw no capture), stamped after loss, and records of no run here.
    """
    issues: list[Issue] = []
    ids = set()
    for run in runs:
        ids.add(run.header.run_id)
        stored = captures(run.header.run_id) if captures is not None else None
        issues += _guarded(run, records.get(run.header.run_id), record(run, stored) if stored else None)
    return issues + [Issue(name, "record of no run that is here") for name in sorted(set(records) - ids)]


def _guarded(run: Run, told: Record | None, fresh: Record | None) -> Iterator[Issue]:
    name = run.header.run_id
    measured = [step.index for step in run.steps[:-1] if step.outcome.state == "measured"]
    if told is None and fresh is not None:
        lost = f"{len(fresh.losses)} losses" if fresh.losses else "no loss"
        yield Issue(name, "unrecorded: the captures are here and no record of their audit", got=lost)
    elif told is None and measured:
        yield Issue(name, "unaudited: a stamped run without record and captures", got=f"{len(measured)} steps")
    if told is not None:
        yield from _mismatches(run, told, fresh)
        unseen = [step for step in measured if not told.saw(step)]
        if unseen:
            yield Issue(name, "unseen: a measured step had no capture when it was audited", got=_list(unseen))
    lost_steps = {step for made in (told, fresh) if made is not None for step in made.marked}
    if after := [step for step in measured if step in lost_steps]:
        yield Issue(name, "stamped after loss: a step whose state was lost is measured", got=_list(after))


def _mismatches(run: Run, told: Record, fresh: Record | None) -> Iterator[Issue]:
    name, saw = run.header.run_id, sum(last - first + 1 for first, last in told.seen)
    if told.rules != RULES:
        yield Issue(name, "mismatch: the record was made by other rules", got=shown(told.rules))
    elif told.n_steps != len(run.steps):
        yield Issue(name, "mismatch: the record is of another number of steps", got=f"{told.n_steps}, {len(run.steps)}")
    elif fresh is not None and fresh != told:
        differ = [field for field in Record.__struct_fields__ if getattr(fresh, field) != getattr(told, field)]
        yield Issue(name, "mismatch: the record is not that of the captures here", got=", ".join(differ))
    elif run.header.captures not in (None, saw):
        yield Issue(name, "mismatch: the record saw another number of captures", got=f"{saw}, {run.header.captures}")


def _list(steps: Sequence[int]) -> str:
    return f"{len(steps)}: " + shown(", ".join(map(str, steps)))


class AuditCount:
    """A fold: how much of a corpus was audited, and the share of steps that is not measured for it.

    The share has two denominators, since a step that nobody audited is not a step that was found sound.
    """

    def __init__(self, records: Mapping[str, Record]) -> None:
        self._records = records
        self._counts: dict[str, int] = {}

    def _add(self, name: str, amount: int) -> None:
        self._counts[name] = self._counts.get(name, 0) + amount

    def add(self, run: Run) -> None:
        """Count one run."""
        told = self._records.get(run.header.run_id)
        self._add("runs", 1)
        self._add("steps", len(run.steps))
        self._add("stamped", run.stamped)
        if told is None:
            return
        self._add("audited_runs", 1)
        self._add("audited_steps", len(run.steps))
        self._add("audited_stamped", run.stamped)
        self._add("marked_runs", bool(told.losses))
        self._add("marked_steps", len(told.losses))
        self._add("undecided_steps", len(told.undecided))
        for loss in told.losses:
            self._add(f"{loss.kind}.{loss.evidence}", 1)

    def merge(self, other: AuditCount) -> None:
        """Add the counts of another part of the corpus."""
        for name, amount in other._counts.items():
            self._add(name, amount)

    def result(self) -> dict[str, int | float | None]:
        """All counts, and the marked share of all steps and of audited steps; None for a share of nothing."""
        names = ("runs", "steps", "stamped", "audited_runs", "audited_steps", "audited_stamped", "marked_runs")
        out: dict[str, int | float | None] = dict.fromkeys((*names, "marked_steps", "undecided_steps"), 0)
        out |= dict(sorted(self._counts.items()))
        for name, of in (("marked_share_of_all", "steps"), ("marked_share_of_audited", "audited_steps")):
            total = self._counts.get(of, 0)
            out[name] = self._counts.get("marked_steps", 0) / total if total else None
        return out
