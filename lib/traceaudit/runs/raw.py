"""Raw files of others: which ones to look at, their bytes, and the JSON in them.

A folder of raw runs holds torn downloads, pointers and files that only look like JSON; each of them is named here, so
that the formats see decoded data and nothing else.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import zstandard

from .files import POINTER, is_pointer, open_plain, shown
from .formats import PYTHON_REPR, detect, is_python_repr
from .issues import Issue

__all__ = ["CANDIDATES", "MOST_RAW", "Document", "RawFile", "documents", "is_candidate", "raw_stem", "read_raw", "walk"]

CANDIDATES = (".traj.json", ".json", ".jsonl", ".traj")
"""Endings of files that may hold runs, each also packed as .gz or .zst."""
MOST_RAW = 1 << 30
"""Bytes of an unpacked raw file."""
_PACKED = (".gz", ".zst")
_BOM = b"\xef\xbb\xbf"
_HALF = re.compile("[\ud800-\udfff]")


class RawFile(NamedTuple):
    """What was read of a raw file: its unpacked bytes without byte order mark; digest and size as it lies there."""

    content: bytes
    sha256: str
    size: int


class Document(NamedTuple):
    """One JSON value of a raw file, with its line where the file holds one a line."""

    line: int | None
    data: Any


def _unpacked(name: str) -> str:
    return next((name[: -len(ending)] for ending in _PACKED if name.endswith(ending)), name)


def is_candidate(name: str) -> bool:
    """Whether a file of this name may hold runs."""
    return not name.startswith(".") and _unpacked(name).endswith(CANDIDATES)


def raw_stem(name: str) -> str:
    """The name of a raw file without folder and endings (``a/b.slim.traj.gz`` gives ``b.slim``)."""
    base = _unpacked(name.rsplit("/", 1)[-1])
    return next((base[: -len(ending)] for ending in CANDIDATES if base.endswith(ending)), base)


def walk(source: Path, without: tuple[Path, ...] = ()) -> tuple[list[tuple[str, Path]], int]:
    """The candidate files with their names below ``source``, sorted by name, and how many other files are there.

    A single file is taken whatever its name. Folders in ``without`` and hidden ones are not entered; links to folders
    are not followed.
    """
    if not source.is_dir():
        return [(source.name, source)], 0
    found: list[tuple[str, Path]] = []
    others = 0
    barred = {folder.resolve() for folder in without}
    for place, folders, names in os.walk(source):
        here = Path(place)
        folders[:] = [name for name in folders if not name.startswith(".") and (here / name).resolve() not in barred]
        for name in names:
            path = here / name
            if is_candidate(name):
                found.append((path.relative_to(source).as_posix(), path))
            else:
                others += 1
    return sorted(found), others


def read_raw(path: Path, name: str, issues: list[Issue]) -> RawFile:
    """Read a raw file and unpack it; where there is nothing to decode, the content is empty and an issue says why."""
    packed = name.endswith(_PACKED)
    digest, size = "", 0
    try:
        if packed:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
        with open_plain(path) as file:
            raw = _limited(file, path.stat().st_size)
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        issues.append(Issue(name, "the packed file is damaged", got=shown(error)))
        return RawFile(b"", digest, size)
    except OSError as error:
        issues.append(Issue(name, "the file cannot be read", got=shown(error.strerror or error)))
        return RawFile(b"", digest, size)
    if not packed:
        digest, size = hashlib.sha256(raw).hexdigest(), len(raw)
    if is_pointer(raw):
        issues.append(Issue(name, POINTER))
    elif len(raw) > MOST_RAW:
        issues.append(Issue(name, f"the file unpacks to more than {MOST_RAW:,} bytes"))
    elif not raw.strip():
        issues.append(Issue(name, "the file is empty"))
    else:
        return RawFile(raw.removeprefix(_BOM), digest, size)
    return RawFile(b"", digest, size)


def _limited(file: BinaryIO, likely: int) -> bytes:
    """All of a file, or one byte more than the limit; in pieces, since asking for the limit would take that memory."""
    parts, left = [], MOST_RAW + 1
    size = min(likely + 1, left)
    while left > 0 and (part := file.read(min(size, left))):
        parts.append(part)
        left, size = left - len(part), 1 << 20
    return parts[0] if len(parts) == 1 else b"".join(parts)


def documents(raw: bytes, name: str, issues: list[Issue]) -> list[Document]:
    """The JSON values of a raw file: one, or one a line; what is no JSON becomes an issue with its line.

    A file is read by lines where its name says so or where it is no single JSON value but its first line is one. Lines
    that are of no format each but are the events of one run together are given as one list.
    """
    by_line = _unpacked(name).endswith(".jsonl")
    first, _, rest = raw.lstrip().partition(b"\n")
    if not by_line or not _decodes(first):
        wrong: list[Issue] = []
        data = _decode(raw, name, None, wrong)
        if data is not _NOTHING:
            issues.extend(wrong)
            return [Document(None, data)]
        if not rest.strip() or not _decodes(first) or not first.startswith((b"{", b"[")):
            issues.extend(wrong)
            return []
    found = list(_by_line(raw, name, issues))
    if len(found) > 1 and all(isinstance(one.data, dict) for one in found):
        together = [one.data for one in found]
        if detect(together[0]) is None and detect(together) is not None:
            return [Document(None, together)]
    return found


class _Nothing:
    """Marks that nothing could be decoded (None is a JSON value)."""


_NOTHING = _Nothing()


def _by_line(raw: bytes, name: str, issues: list[Issue]) -> Iterator[Document]:
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            data = _decode(line, name, number, issues)
            if data is not _NOTHING:
                yield Document(number, data)


def _decodes(line: bytes) -> bool:
    return _decode(line, "", None, []) is not _NOTHING


def _decode(raw: bytes, name: str, line: int | None, issues: list[Issue]) -> Any:
    """Decoded JSON; what Python alone takes for JSON (NaN, half surrogate pairs) is read too, with an issue."""
    try:
        return msgspec.json.decode(raw)
    except RecursionError:
        issues.append(Issue(name, "the JSON is nested too deeply", line))
        return _NOTHING
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        fault = str(error)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        issues.append(Issue(name, "this is not UTF-8", line, f"byte {error.start}"))
        return _NOTHING
    try:
        data = _whole(json.loads(text))
    except RecursionError:
        issues.append(Issue(name, "the JSON is nested too deeply", line))
        return _NOTHING
    except ValueError as error:
        issues.append(Issue(name, _fault(text, error), line, shown(error)))
        return _NOTHING
    issues.append(Issue(name, "JSON that only Python reads (NaN, half a surrogate pair …)", line, fault))
    return data


def _fault(text: str, error: ValueError) -> str:
    if is_python_repr(text):
        return PYTHON_REPR
    at = getattr(error, "pos", 0)
    torn = at >= len(text.rstrip()) or "Unterminated string" in str(error)
    return "the JSON is torn" if torn and text.lstrip()[:1] in ("{", "[", '"') else "this is not JSON"


def _whole(data: Any) -> Any:
    """The data with halves of surrogate pairs replaced, so that every text can be written as UTF-8."""
    if isinstance(data, str):
        return _HALF.sub("\ufffd", data)
    if isinstance(data, list):
        return [_whole(part) for part in data]
    if isinstance(data, dict):
        return {_whole(name): _whole(part) for name, part in data.items()}
    return data
