"""Paths in a unified diff of git, from its headers.

A capture says which files differ by its headers alone; names may be quoted, hold spaces, or differ by a rename, and
git itself tells ambiguous headers apart by the lines that follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

__all__ = ["diff_paths"]

_PREFIX = re.compile(r"[abciow]/")
_HEADER = re.compile(rb"^diff --(?:git|cc|combined) ", re.MULTILINE)
_HUNK = re.compile(rb"^(?:@@|GIT binary patch|Binary files )", re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_NAMED = (b"rename to ", b"copy to ")


def diff_paths(diff: bytes) -> frozenset[str]:
    """The files of a diff, by the new side of each header; the old side for a file whose new side is ``/dev/null``.

    Quoted names are unquoted, bytes that are not UTF-8 are kept as surrogates, ``a/`` and ``b/`` (and the prefixes of
    ``diff.mnemonicPrefix``) are taken off where the two sides have them. A header without any readable name gives no
    path; lines within hunks are no headers.
    """
    return frozenset(filter(None, _paths(diff)))


def _paths(diff: bytes) -> Iterator[str]:
    starts = [found.start() for found in _HEADER.finditer(diff)]
    for start, end in pairwise([*starts, len(diff)]):
        part = diff[start:end]
        hunk = _HUNK.search(part)
        lines = part[: hunk.start() if hunk else len(part)].split(b"\n")
        yield _path([line.removesuffix(b"\r") for line in lines])


def _path(lines: list[bytes]) -> str:
    first = lines[0]
    if not first.startswith(b"diff --git "):
        return _text(_unquoted(first.split(b" ", 2)[2]))
    for line in lines[1:]:
        for start in _NAMED:
            if line.startswith(start):
                return _text(_unquoted(line[len(start) :]))
    names = _sides(first[len(b"diff --git ") :])
    for line in lines[1:]:  # a name with spaces: the line of the new side is not ambiguous
        if names is None and line.startswith(b"+++ ") and line[4:] != b"/dev/null":
            return _bare(_text(_unquoted(line[4:].removesuffix(b"\t"))))
    if names is None:
        return ""
    old, new = map(_text, names)
    if old == new:  # --no-prefix
        return new
    return _bare(old) if new == "/dev/null" else _bare(new)


def _bare(name: str) -> str:
    return name[2:] if _PREFIX.match(name) else name


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _unquoted(name: bytes) -> bytes:
    if not (name.startswith(b'"') and name.endswith(b'"') and len(name) > 1):
        return name
    return _ESCAPE.sub(_letter, name[1:-1])


def _letter(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 255]) if code[:1].isdigit() else _LETTERS.get(code, code)


def _sides(rest: bytes) -> tuple[bytes, bytes] | None:
    """Both names of a header; None where spaces make them ambiguous."""
    if rest.startswith(b'"'):
        if found := re.match(rb'("(?:[^"\\]|\\.)*") (.+)\Z', rest, re.DOTALL):
            return _unquoted(found[1]), _unquoted(found[2])
        return None
    if rest.endswith(b'"') and (at := rest.find(b' "')) >= 0:
        return rest[:at], _unquoted(rest[at + 1 :])
    half = len(rest) // 2  # the same name on both sides
    old, new = rest[:half], rest[half + 1 :]
    if rest[half : half + 1] == b" " and (old == new or (old[2:] == new[2:] and old[1:2] == b"/")):
        return old, new
    parts = rest.split(b" ")
    return (parts[0], parts[1]) if len(parts) == 2 else None
