"""A chapter at work: measures what the source allows, recalls the rest from its record, and emits every value.

The same cells run in every mode; only the banner and the values' ``mode`` differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from . import records
from .claims import Finding
from .errors import NothingToCheck, ValueProblem
from .pins import data_pins
from .values import MIME, Measure, Value, Values

__all__ = ["FINDING_MIME", "PROVENANCE_MIME", "Chapter"]

FINDING_MIME = "application/vnd.traceaudit.finding+json"
PROVENANCE_MIME = "application/vnd.traceaudit.provenance+json"


class StudyLike(Protocol):
    """What the core asks of a subject's study."""

    split: str
    source: str

    @property
    def has(self) -> frozenset[str]: ...

    @property
    def lacks(self) -> Mapping[str, str]: ...

    def provenance(self) -> dict[str, Any]: ...


class Chapter:
    """The values and findings of one chapter on one split.

    Attributes:
        name: The chapter's name, as in ``chapters.toml``.
        study: What it is measured on.
        values: The values so far, by name.
        findings: The findings so far: claim id -> finding.
    """

    def __init__(self, name: str, study: StudyLike, *, root: Path | None = None) -> None:
        self.name, self.study = name, study
        self.values = Values()
        self.findings: dict[str, Finding] = {}
        self._root = root
        self._record: records.Record | None = None

    @property
    def record(self) -> records.Record:
        """The stored record of this chapter and split.

        Raises:
            NothingToCheck: there is none.
        """
        if self._record is None:
            path = records.path_of(self.name, self.study.split, self._root or data_pins().parent)
            if not path.is_file():
                raise NothingToCheck(
                    "this cannot be measured here and no record of it is stored",
                    where=f"{self.name}, {self.study.split}",
                    got="; ".join(self.study.lacks.values()),
                    next_step="give a source that holds the data (--source, TRACEAUDIT_SOURCE or traceaudit fetch)",
                )
            self._record = records.load(path)
        return self._record

    def measure(self, *measures: Measure) -> None:
        """Measure each, or recall it where the study lacks what it needs, and emit every value and finding.

        Raises:
            NothingToCheck: neither a source nor a record has it.
            ValueProblem: a name was recorded twice.
        """
        for measure in measures:
            if measure.needs <= self.study.has:
                self._take(measure(self.study))
            else:
                self._take(self._recall(measure))

    def _recall(self, measure: Measure) -> Iterable[Value | Finding]:
        stored = self.record
        for value in stored.values.values():
            if value.measure == measure.name:
                yield replace(value, mode="recalled")
        for finding in stored.findings.values():
            if finding.measure == measure.name:
                yield replace(finding, mode="recalled")

    def _take(self, items: Iterable[Value | Finding]) -> None:
        for item in items:
            if isinstance(item, Value):
                self.values.add(item)
                emit(MIME, {**item.as_json(), "name": item.name, "mode": item.mode}, f"{item.name} = {item.shown}")
            elif item.id in self.findings:
                raise ValueProblem("a finding of this claim is recorded already", where=item.id)
            else:
                self.findings[item.id] = item
                stated = {**item.as_json(), "id": item.id, "mode": item.mode}
                emit(FINDING_MIME, stated, f"{item.id}: {item.verdict}, {item.magnitude}")

    @property
    def mode(self) -> str:
        """``measured``, ``recalled`` or ``partly recalled``, over all values and findings."""
        modes = {item.mode for item in (*self.values, *self.findings.values())}
        return modes.pop() if len(modes) == 1 else "partly recalled" if modes else "measured"

    def provenance(self) -> dict[str, Any]:
        """What the values rest on: the study's own provenance, or the record's where everything was recalled."""
        if self.mode == "recalled":
            return dict(self.record.provenance)
        return self.study.provenance()

    def close(self) -> None:
        """Emit the provenance; call it in the last cell."""
        told = self.provenance()
        emit(PROVENANCE_MIME, told, f"{self.name}, {self.study.split}: {self.mode}")


def emit(mime: str, data: Mapping[str, Any], plain: str) -> None:
    """One display output under a private MIME type, beside plain text for a reader of the notebook."""
    from IPython.display import display

    display({mime: dict(data), "text/plain": plain}, raw=True)
