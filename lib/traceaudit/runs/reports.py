"""SWE-bench reports: which of them gives a run its terminal label.

A report names an instance and perhaps a model; it grades one run, so where several runs could be meant none gets it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from ..errors import NothingToCheck
from .files import shown
from .issues import Issue
from .schema import slug

__all__ = ["RESOLVED_BY", "Report", "Reports", "load_reports"]

RESOLVED_BY = "swebench report"
_ENDING = "report.json"
_MOST = 64 << 20


class Report(msgspec.Struct, frozen=True):
    """The verdict of one report on one instance.

    Attributes:
        file: Its name below the folder of labels.
        instance_id: From the content, else from the file's name or folder.
        resolved: The verdict.
        sha256: Of the file.
        places: The folders that it lies in, slugged; a run's model among them ties the report to that model.
    """

    file: str
    instance_id: str
    resolved: bool
    sha256: str
    places: frozenset[str] = frozenset()


class Reports:
    """The reports of a folder by instance, and what is wrong with some of them."""

    def __init__(self, reports: list[Report], issues: list[Issue]) -> None:
        self.issues = issues
        self.by_instance: dict[str, list[Report]] = {}
        for report in reports:
            self.by_instance.setdefault(report.instance_id, []).append(report)

    def __len__(self) -> int:
        return sum(map(len, self.by_instance.values()))

    def of(self, instance: str | None, model: str | None) -> Report | None:
        """The one report of an instance; of several equal ones the first, of others the one in the model's folder."""
        found = self.by_instance.get(instance or "", [])
        if len({report.sha256 for report in found}) > 1:
            found = [report for report in found if model and slug(model) in report.places]
        return found[0] if len({report.sha256 for report in found}) == 1 else None

    def without_run(self, instances: set[str]) -> list[Report]:
        """Reports on instances of which there is no run."""
        return [found[0] for instance, found in self.by_instance.items() if instance not in instances]


def _instance(path: Path) -> str:
    """From the file's name (``<id>.report.json``, ``…~<id>~report.json``), else its folder's (``<id>/report.json``)."""
    own = path.name[: -len(_ENDING)].rstrip("._~-")
    return own.rsplit("~", 1)[-1] if own else path.parent.name


def load_reports(folder: Path | None) -> Reports:
    """Every ``report.json`` and ``<id>.report.json`` below a folder; no folder, no reports.

    A report is ``{"<id>": {"resolved": bool, …}}``, or what stands under the id alone. What is no such report,
    and one that claims success of a patch that did not apply, is an issue.

    Raises:
        NothingToCheck: the folder is absent.
    """
    issues: list[Issue] = []
    reports: list[Report] = []
    if folder is None:
        return Reports(reports, issues)
    if not folder.is_dir():
        raise NothingToCheck("there is no folder of labels here", where=str(folder), next_step="give another --labels")
    for path in sorted(folder.rglob(f"*{_ENDING}")):
        if path.is_file() and not path.name.startswith("."):
            reports += _read(path, path.relative_to(folder), issues)
    return Reports(reports, issues)


def _read(path: Path, name: Path, issues: list[Issue]) -> list[Report]:
    file = name.as_posix()
    try:
        with path.open("rb") as opened:
            raw = opened.read(_MOST)
        data = msgspec.json.decode(raw)
    except OSError as error:
        issues.append(Issue(file, "a report cannot be read", got=shown(error.strerror or error)))
        return []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        issues.append(Issue(file, "a report is not JSON", got=shown(error)))
        return []
    verdicts: dict[str, Any] = data if isinstance(data, dict) else {}
    if not verdicts or not all(isinstance(part, dict) and "resolved" in part for part in verdicts.values()):
        verdicts = {_instance(path): data}
    digest = hashlib.sha256(raw).hexdigest()
    places = frozenset(map(slug, name.parent.parts))
    found = []
    for instance, verdict in verdicts.items():
        resolved = verdict.get("resolved") if isinstance(verdict, dict) else None
        if not isinstance(resolved, bool):
            issues.append(Issue(file, "a report says not whether it is resolved", got=instance[:80]))
            continue
        if resolved and verdict.get("patch_successfully_applied") is False:
            issues.append(Issue(file, "a report calls resolved what it says did not apply", got=instance[:80]))
        found.append(Report(file, instance, resolved, digest, places))
    return found
