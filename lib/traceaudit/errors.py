"""Errors a reader can act on: one base class, one subclass per thing to do next.

A message says what, where, expected, got and the next step; the class carries the exit code of the command line, so
that a script can tell "the bytes are wrong" from "there is nothing here".
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ChapterFailed",
    "GuardFailed",
    "NothingToCheck",
    "PinMismatch",
    "RecordMismatch",
    "TraceAuditError",
    "UsageError",
    "ValueProblem",
    "WorkerFailed",
]


class TraceAuditError(Exception):
    """Base of every error this library raises on purpose.

    Args:
        what: What went wrong, one clause.
        where: The file, id or line it is about.
        expected: What should have been there.
        got: What was found instead.
        next_step: What the reader can do about it.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", expected: str = "", got: str = "", next_step: str = "") -> None:
        self.what, self.where, self.expected, self.got, self.next_step = what, where, expected, got, next_step
        lines = [f"{where}: {what}" if where else what]
        lines += [
            f"  {label}: {text}"
            for label, text in (("expected", expected), ("found", got), ("next", next_step))
            if text
        ]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:  # keyword-only arguments must survive the way out of a worker process
        return (_rebuild, (type(self), self.what, self.where, self.expected, self.got, self.next_step))


def _rebuild(
    kind: type[TraceAuditError], what: str, where: str, expected: str, got: str, next_step: str
) -> TraceAuditError:
    return kind(what, where=where, expected=expected, got=got, next_step=next_step)


class PinMismatch(TraceAuditError):
    """Bytes differ from their pin: restore the file or look for who changed it."""

    exit_code = 1


class RecordMismatch(TraceAuditError):
    """A measured value differs from the stored record: find out which of the two is right."""

    exit_code = 1


class ChapterFailed(TraceAuditError):
    """A chapter did not run to its end: open it and run it alone."""

    exit_code = 1


class GuardFailed(TraceAuditError):
    """Prose, a citation or a record broke a rule of the report: mend the sentence."""

    exit_code = 1


class ValueProblem(TraceAuditError):
    """A value is unknown, recorded twice or malformed: mend the chapter's cell."""

    exit_code = 1


class WorkerFailed(TraceAuditError):
    """A worker process died, ran out of time or of memory: raise the limit or shrink the input."""

    exit_code = 1


class NothingToCheck(TraceAuditError):
    """No usable source is here: give one, or fetch it."""

    exit_code = 2


class UsageError(TraceAuditError):
    """The command was called with something it does not know: correct the call."""

    exit_code = 64
