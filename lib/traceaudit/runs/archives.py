"""Archives of captures: the form they have, and a reader that trusts nothing in them.

An archive comes from another host, so a number is all that is taken from a member's name, and whatever is not what
:func:`pack` writes (a link, a device, another name, the same twice, too much) refuses the whole of it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ..limited import LimitedReader, TooMuchError
from .files import is_pointer, shown

__all__ = [
    "BadArchiveError",
    "Captures",
    "IndexEntry",
    "Limits",
    "captures_digest",
    "entry_of",
    "member_name",
    "pack",
    "read_captures",
    "tar_bytes",
    "unpack",
]

_MEMBER = re.compile(r"step_(\d{4,9})\.diff\Z")
_BLOCK = 512
_RECORD = 20 * _BLOCK
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a folder",
    b"6": "a pipe",
}

Captures = Mapping[int, bytes]
"""Diffs of the workspace by the index of the step after which they were taken."""


class BadArchiveError(Exception):
    """An archive or a folder of captures is not what it must be; whoever reads turns this into an issue."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one run may hold: bytes of its archive, bytes unpacked, and captures."""

    packed: int = 256 << 20
    plain: int = 256 << 20
    members: int = 100_000


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an archive restores to: the number of captures, the bytes of all, and :func:`captures_digest`."""

    steps: int
    bytes: int
    content_sha256: str


_LIMITS = Limits()


def member_name(index: int) -> str:
    """``step_NNNN.diff``: the number of the step with at least four digits."""
    return f"step_{index:04d}.diff"


def _number(name: str) -> int | None:
    found = _MEMBER.match(name)
    return int(found[1]) if found and member_name(int(found[1])) == name else None


def captures_digest(captures: Captures) -> str:
    """SHA-256 over ``<index> <length>`` and a line feed, then the bytes, for each capture by index.

    Source: trajectory-corpus-facts.md, section 4.3.
    """
    digest = hashlib.sha256()
    for index in sorted(captures):
        digest.update(f"{index} {len(captures[index])}\n".encode("ascii"))
        digest.update(captures[index])
    return digest.hexdigest()


def entry_of(captures: Captures) -> IndexEntry:
    """What the index says of these captures."""
    size = sum(map(len, captures.values()))
    return IndexEntry(steps=len(captures), bytes=size, content_sha256=captures_digest(captures))


def tar_bytes(captures: Captures) -> bytes:
    """The tar file inside of an archive."""
    out = io.BytesIO()
    for index in sorted(captures):
        data = captures[index]
        head = bytearray(_BLOCK)
        for at, text in (
            (0, member_name(index)),
            (100, "0000644\0"),
            (108, "0000000\0"),
            (116, "0000000\0"),
            (124, f"{len(data):011o}\0"),
            (136, f"{0:011o}\0"),
            (148, " " * 8),
            (156, "0"),
            (257, "ustar  \0"),
        ):
            head[at : at + len(text)] = text.encode("ascii")
        head[148:156] = f"{sum(head):06o}\0 ".encode("ascii")
        out.write(head)
        out.write(data)
        out.write(bytes(-len(data) % _BLOCK))
    out.write(bytes(2 * _BLOCK))
    out.write(bytes(-out.tell() % _RECORD))
    return out.getvalue()


def pack(captures: Captures) -> bytes:
    """The archive of a run: equal captures give equal bytes (of one zlib; the tar inside is equal everywhere).

    GNU tar, members by ascending number, time 0, mode 0644, owner 0 without names; gzip of level 9, time 0, no name.

    Raises:
        BadArchiveError: an index is negative, has more than nine digits, or a capture has 8 GiB and more.
    """
    for index, data in captures.items():
        if _number(member_name(index)) != index or len(data) >= 8 << 30:
            raise BadArchiveError(f"capture {index} cannot be packed")
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as file:
        file.write(tar_bytes(captures))
    return out.getvalue()


def unpack(data: bytes, limits: Limits = _LIMITS) -> dict[int, bytes]:
    """The captures of an archive by step index; nothing is written, and a path is never made from a member's name.

    Raises:
        BadArchiveError: it is no gzip or tar, is torn, holds a link, a device, a folder, another name than
            ``step_NNNN.diff``, the same twice or anything behind its end, or is over a limit.
    """
    if is_pointer(data):
        raise BadArchiveError("this is a Git LFS pointer, not the file")
    if len(data) > limits.packed:
        raise BadArchiveError(f"the archive has more than {limits.packed:,} bytes")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            plain = _all(LimitedReader(file, limits.plain + limits.members * 2 * _BLOCK + 2 * _RECORD))
    except TooMuchError:
        raise BadArchiveError("the archive unpacks to more than its limit") from None
    except (OSError, EOFError, zlib.error) as error:
        raise BadArchiveError(f"the archive is no whole gzip file ({shown(error)})") from None
    return _members(plain, limits)


def _all(reader: LimitedReader) -> bytes:
    parts = []
    while part := reader.read(1 << 20):
        parts.append(part)
    return b"".join(parts)


def _members(plain: bytes, limits: Limits) -> dict[int, bytes]:
    captures: dict[int, bytes] = {}
    at = total = 0
    while True:
        head = plain[at : at + _BLOCK]
        if len(head) < _BLOCK:
            raise BadArchiveError("the archive has no end")
        if not any(head):
            break
        index, size = _head(head)
        total += size
        if total > limits.plain or len(captures) >= limits.members:
            raise BadArchiveError("the archive unpacks to more than its limit")
        data = plain[at + _BLOCK : at + _BLOCK + size]
        if len(data) < size:
            raise BadArchiveError("the archive is torn")
        if index in captures:
            raise BadArchiveError(f"the archive holds {member_name(index)} twice")
        captures[index] = data
        at += _BLOCK + size + -size % _BLOCK
    if plain[at:].strip(b"\0"):
        raise BadArchiveError("the archive holds something behind its end")
    return captures


def _head(head: bytes) -> tuple[int, int]:
    """Number and size of a member."""
    try:
        stated = int(head[148:156].strip(b"\0 ") or b"-1", 8)
    except ValueError:
        stated = -1
    if stated != sum(head[:148]) + 8 * 32 + sum(head[156:]):
        raise BadArchiveError("the archive is no tar file, or is damaged")
    name = shown(head[:100].split(b"\0", 1)[0], 60)
    kind = head[156:157]
    if kind not in (b"0", b"\0"):
        raise BadArchiveError(f"the archive holds {_KINDS.get(kind, 'an extension of the tar format')} ({name})")
    index = _number(head[:100].split(b"\0", 1)[0].decode("latin-1"))
    if index is None or (head[257:263] == b"ustar\0" and head[345:346] != b"\0"):
        raise BadArchiveError(f"the archive holds another name than step_NNNN.diff ({name})")
    size = head[124:136].strip(b"\0 ")
    if not re.fullmatch(rb"[0-7]{1,11}", size):
        raise BadArchiveError(f"the archive states no size of {name}")
    return index, int(size, 8)


def read_captures(folder: Path) -> dict[int, bytes]:
    """The captures of one run in a folder of ``step_NNNN.diff`` files.

    Raises:
        BadArchiveError: it holds anything else: another name, a link, a folder.
    """
    captures = {}
    for path in sorted(folder.iterdir()):
        index = _number(path.name)
        if index is None:
            raise BadArchiveError(f"the folder holds another name than step_NNNN.diff ({shown(path.name, 60)})")
        if path.is_symlink() or not path.is_file():
            raise BadArchiveError(f"the folder holds what is no ordinary file ({path.name})")
        captures[index] = path.read_bytes()
    return captures
