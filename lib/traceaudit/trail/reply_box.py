"""What a set of replies may be: names that stand for a trace, bytes within limits, everything else named.

The readers of :mod:`.replies` hand every name and every stream to one box, so that the rules are the same for a folder,
for lines and for each kind of archive.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

from ..errors import UsageError

__all__ = ["LIMITS", "MIB", "Box", "Limits", "Replies", "shown", "size", "too_large"]

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What is read at most.

    Attributes:
        file: Bytes of one reply; a longer one is refused and named.
        total: Bytes of an archive as it lies there, of what it unpacks to, and of all replies together.
        entries: Names or lines.
    """

    file: int = 8 * MIB
    total: int = 512 * MIB
    entries: int = 100_000


LIMITS = Limits()


@dataclass(frozen=True)
class Replies:
    """What was found.

    Attributes:
        files: trace id -> bytes of the reply.
        unknown: Names (or, of lines, ids) that belong to no trace of the split, as found, sorted; characters that do
            not print are shown by their code.
        refused: Name or ``line N`` -> why it was not read. Its trace has no reply.
    """

    files: Mapping[str, bytes]
    unknown: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 over ids and bytes, the same for the same replies in a folder, in lines or in an archive."""
        digest = hashlib.sha256()
        for trace, data in sorted(self.files.items()):
            digest.update(f"{trace} {hashlib.sha256(data).hexdigest()}\n".encode())
        return digest.hexdigest()


class Box:
    """Takes names, one by one, and the bytes behind those that are known."""

    def __init__(self, ids: frozenset[str], limits: Limits, archive: str) -> None:
        self.ids, self.limits, self.archive = ids, limits, shown(archive)
        self.files: dict[str, bytes] = {}
        self.unknown: list[str] = []
        self.refused: dict[str, str] = {}
        self._seen: dict[str, str] = {}  # trace id -> the name or line that claims it
        self._folders: dict[str, str] = {}  # folder -> the first known name in it
        self._entries = self._bytes = 0

    def found(self) -> Iterator[str]:
        """What was found instead, for a message."""
        if self.unknown:
            yield f"{len(self.unknown)} unknown names, {min(self.unknown)} first"
        if self.refused:
            name, why = min(self.refused.items())
            yield f"{len(self.refused)} refused, {name} first: {why}"

    def count(self, entries: int = 0, read: int = 0) -> None:
        """Count names and bytes.

        Raises:
            UsageError: over the limit.
        """
        self._entries, self._bytes = self._entries + entries, self._bytes + read
        if self._entries > self.limits.entries:
            raise too_large(self.archive, f"{self.limits.entries} names or lines", "more")
        if self._bytes > self.limits.total:
            raise too_large(self.archive, size(self.limits.total), "more in all replies together")

    def refuse(self, name: str, why: str) -> None:
        """Name something that is not read."""
        self.refused[shown(name)] = why

    def offer(self, name: str, problem: str = "") -> str | None:
        """The trace to which a path in a folder or archive belongs; ``None``, and named, if to none or not readable."""
        self.count(entries=1)
        parts = [part for part in name.split("/") if part != "."]
        leads_away = name.startswith("/") or "\\" in name or "\0" in name or any(part in ("", "..") for part in parts)
        if leads_away or not parts:
            self.refuse(name, "the name leads elsewhere")
            return None
        trace = parts[-1].removesuffix(".json")
        known = len(parts) <= 2 and parts[-1].endswith(".json") and trace in self.ids
        if known:
            self._one_folder("/".join(parts[:-1]), name)
            self.claim(trace, name)
        if problem:
            self.refuse(name, problem)
            return None
        if not known:
            self.unknown.append(shown(name))
            return None
        return trace

    def _one_folder(self, folder: str, name: str) -> None:
        self._folders.setdefault(folder, name)
        if len(self._folders) > 1:
            raise UsageError(
                "replies lie in several folders",
                where=self.archive,
                expected="one set of replies, at the top or in one folder",
                got=" and ".join(shown(first) for first in self._folders.values()),
                next_step="give one of the folders, or an archive of one",
            )

    def claim(self, trace: str, name: str) -> None:
        """Note which name stands for a trace.

        Raises:
            UsageError: another does already.
        """
        if trace in self._seen:
            raise UsageError(
                "a trace has two replies, and a score must not depend on which comes last",
                where=f"{self.archive}, trace {trace}",
                got=f"{shown(self._seen[trace])} and {shown(name)}",
                next_step="remove one of them",
            )
        self._seen[trace] = name

    def take(self, trace: str, name: str, stream: IO[bytes]) -> None:
        """Read one reply, within the limits."""
        self.keep(trace, name, stream.read(self.limits.file + 1))

    def keep(self, trace: str, name: str, data: bytes) -> None:
        """Keep the bytes of one reply, within the limits."""
        self.count(read=len(data))
        if len(data) > self.limits.file:
            self.refuse(name, f"larger than {size(self.limits.file)}")
        else:
            self.files[trace] = data


def shown(name: str) -> str:
    """A name from outside as one harmless line."""
    return "".join(letter if letter.isprintable() else f"<U+{ord(letter):04X}>" for letter in name[:200])


def size(n: int) -> str:
    return f"{n // MIB} MiB" if n >= MIB and n % MIB == 0 else f"{n} bytes"


def too_large(archive: str, most: str, got: str) -> UsageError:
    return UsageError(
        "the predictions are too large",
        where=archive,
        expected=f"at most {most}",
        got=got,
        next_step="give the replies of one judge on one split alone",
    )
