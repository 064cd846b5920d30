"""A chapter at work: measures what the source allows, recalls the rest from its record, and emits every value.

The same cells run in every mode; only the banner and the values' ``mode`` differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from . import records, stored
from .claims import Finding
from .errors import NothingToCheck, ValueProblem
from .pins import data_pins
from .values import MIME, Measure, Value, Values

__all__ = ["EMITTED", "FINDING_MIME", "PROVENANCE_MIME", "Chapter"]

FINDING_MIME = "application/vnd.traceaudit.finding+json"
PROVENANCE_MIME = "application/vnd.traceaudit.provenance+json"
EMITTED = "emitted"
"""In the provenance output: number of values and findings, so that an output lost on its way is noticed."""

_HALF = re.compile("[\ud800-\udfff]")


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
        self._modes: dict[str, str] = {}
        self._record: records.Record | None = None

    @property
    def record(self) -> records.Record:
        """The stored record of this chapter and split.

        Raises:
            NothingToCheck: there is none.
        """
        if self._record is None:
            root = self._root or data_pins().parent
            if not records.path_of(self.name, self.study.split, root).is_file():
                raise NothingToCheck(
                    "this cannot be measured here and no record of it is stored",
                    where=f"{self.name}, {self.study.split}",
                    got="; ".join(self.study.lacks.values()),
                    next_step="give a source that holds the data (--source, TRACEAUDIT_SOURCE or traceaudit fetch)",
                )
            self._record = stored.stored(self.name, self.study.split, root)
        return self._record

    def measure(self, *measures: Measure) -> None:
        """Measure each, or recall it where the study lacks what it needs, and emit every value and finding.

        Raises:
            NothingToCheck: neither a source nor a record has it.
            ValueProblem: a name was recorded twice.
        """
        for measure in measures:
            if measure.needs <= self.study.has:
                mode = "measured"
                self._take(measure(self.study))
            else:
                mode = "recalled"
                recalled = list(self._recall(measure))
                if not recalled:
                    raise NothingToCheck(
                        "this cannot be measured here and its record does not hold it",
                        where=f"{self.name}, {self.study.split}, measure {measure.name}",
                        got="; ".join(self.study.lacks.values()),
                        next_step="give a source that holds the data, or record the chapter anew",
                    )
                self._take(recalled)
            if measure.needs:
                self._modes[measure.name] = mode

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
        """``measured``, ``recalled`` or ``partly recalled``.

        Measures that need nothing of a source (pinned facts, say) are measured everywhere and do not count.
        """
        modes = set(self._modes.values())
        return modes.pop() if len(modes) == 1 else "partly recalled" if modes else "measured"

    @property
    def recalled(self) -> tuple[str, ...]:
        """Names of the measures that were recalled."""
        return tuple(name for name, mode in self._modes.items() if mode == "recalled")

    def provenance(self) -> dict[str, Any]:
        """What the values rest on: the record's own where all were recalled, else the study's, with what was."""
        if self.mode == "recalled":
            return dict(self.record.provenance)
        told = self.study.provenance()
        if self.recalled:
            told["recalled"] = {
                "measures": ", ".join(self.recalled),
                "engine": self.record.provenance.get("engine", ""),
                "source": self.record.provenance.get("source", ""),
            }
        return told

    def close(self) -> None:
        """Emit the provenance and how much was recorded; call it in the last cell."""
        told = {**self.provenance(), EMITTED: len(self.values) + len(self.findings)}
        emit(PROVENANCE_MIME, told, f"{self.name}, {self.study.split}: {self.mode}")  # the page shows it otherwise


def emit(mime: str, data: Mapping[str, Any], plain: str) -> None:
    """One display output under a private MIME type, beside plain text for a reader of the notebook."""
    from IPython.display import display

    _keep_every_output()
    display({mime: _storable(data), "text/plain": _storable(plain)}, raw=True)


def _storable(part: Any) -> Any:
    """The same data with each lone surrogate as its code, as a page shows it: no message or file could hold one."""
    if isinstance(part, str):
        return _HALF.sub(lambda match: f"<U+{ord(match.group()):04X}>", part)
    if isinstance(part, Mapping):
        return {_storable(key): _storable(value) for key, value in part.items()}
    return [_storable(each) for each in part] if isinstance(part, list | tuple) else part


def _keep_every_output() -> None:
    """Let the kernel queue outputs without limit; by default it drops them, silently, once a thousand are waiting."""
    from IPython import get_ipython

    thread = getattr(getattr(get_ipython(), "kernel", None), "iopub_thread", None)
    if thread is None or thread in _UNLIMITED:
        return
    import zmq

    _UNLIMITED.append(thread)
    thread.schedule(lambda: thread.socket.setsockopt(zmq.SNDHWM, 0))


_UNLIMITED: list[Any] = []
"""The output threads (one a kernel) that were told so."""
