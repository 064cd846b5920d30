"""Issues: what is wrong with a file of runs, counted and shown, so that one bad file hides no other."""

from __future__ import annotations

import msgspec

__all__ = ["Issue"]


class Issue(msgspec.Struct, frozen=True, order=True):
    """One thing that is wrong.

    Attributes:
        file: Name of the file, relative to what was read.
        what: What is wrong, the same words for the same fault.
        line: Line from 1, where there is one.
        got: What was found, shortened.
    """

    file: str
    what: str
    line: int | None = None
    got: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.what}" + (f" ({self.got})" if self.got else "")
