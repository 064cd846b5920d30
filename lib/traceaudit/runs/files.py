"""Run files: write a run whole or not at all, and read one so that every fault has its file and line.

A corpus is read by many programs and edited by some; a reader that fills in what is missing would make two different
files equal, so a missing field is as much a fault as an unknown one.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec
import zstandard

from ..records import write_whole
from .issues import Issue
from .schema import SCHEMA, Call, Header, Outcome, Run, Step, Tokens

__all__ = [
    "ENDINGS",
    "LONGEST_LINE",
    "MOST_BYTES",
    "POINTER",
    "PackedFileError",
    "encode_line",
    "is_pointer",
    "iter_runs",
    "open_plain",
    "read_header",
    "read_run",
    "run_bytes",
    "run_paths",
    "shown",
    "stem",
    "write_run",
]

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
LONGEST_LINE = 64 << 20
"""Bytes of a line; a longer one is an issue and is not held in memory."""
MOST_BYTES = 4 << 30
"""Bytes of an unpacked file, so that a small packed file cannot fill a machine."""
POINTER = "this is a Git LFS pointer, not the file"
_POINTER_START = b"version https://git-lfs.github.com/spec/"
_BOM = b"\xef\xbb\xbf"
_NON_ASCII = re.compile("[^\x00-\x7f]+")
_ENCODE = msgspec.json.Encoder().encode
_HEADER = msgspec.json.Decoder(Header)
_STEP = msgspec.json.Decoder(Step)
_Record = TypeVar("_Record", Header, Step)


class PackedFileError(Exception):
    """A .gz or .zst file cannot be unpacked; whoever reads turns this into an issue."""


def is_pointer(start: bytes) -> bool:
    """Whether a file that starts like this is a Git LFS pointer."""
    return start.startswith(_POINTER_START)


def shown(data: object, most: int = 80) -> str:
    """A short printable form of what was found."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def stem(path: Path) -> str:
    """The name of a run file without its ending."""
    return next((path.name[: -len(ending)] for ending in reversed(ENDINGS) if path.name.endswith(ending)), path.name)


def encode_line(record: Header | Step) -> bytes:
    """One line of a run file without its end: JSON with all fields in the order of the schema, in ASCII.

    Raises:
        UnicodeEncodeError: a text holds half a surrogate pair.
    """
    line = _ENCODE(record)
    if line.isascii():
        return line
    text = line.decode("utf-8")
    return _NON_ASCII.sub(lambda found: encode_basestring_ascii(found[0])[1:-1], text).encode("ascii")


def run_bytes(run: Run) -> bytes:
    """The whole content of a run's file; equal runs give equal bytes."""
    return b"\n".join([encode_line(run.header), *map(encode_line, run.steps), b""])


def write_run(run: Run, folder: Path) -> Path:
    """Write ``<run_id>.jsonl`` (header line, then a line per step) whole or not at all; gives its path."""
    path = folder / f"{run.header.run_id}.jsonl"
    write_whole(path, run_bytes(run))
    return path


def open_plain(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked where its name ends with .gz or .zst."""
    if path.name.endswith(".gz"):
        return io.BufferedReader(gzip.open(path, "rb"), 1 << 20)
    if path.name.endswith(".zst"):
        unpacker = zstandard.ZstdDecompressor()
        reader = unpacker.stream_reader(path.open("rb"), read_across_frames=True, closefd=True)
        return io.BufferedReader(reader, 1 << 20)
    return path.open("rb")


def _lines(path: Path, name: str, issues: list[Issue]) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers, without their ends; what is wrong with the lines as such is noted.

    Raises:
        PackedFileError: it cannot be unpacked, or unpacks to too much.
    """
    total = 0
    try:
        with open_plain(path) as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number, total = number + 1, total + len(line)
                if len(line) > LONGEST_LINE:
                    raise PackedFileError(f"a line is longer than {LONGEST_LINE:,} bytes", number)
                if total > MOST_BYTES:
                    raise PackedFileError(f"the file unpacks to more than {MOST_BYTES:,} bytes", number)
                if number == 1 and line.startswith(_BOM):
                    issues.append(Issue(name, "the file starts with a byte order mark", 1))
                    line = line[len(_BOM) :]
                if not line.endswith(b"\n"):
                    issues.append(Issue(name, "the last line has no end", number))
                elif line.endswith(b"\r\n"):
                    issues.append(Issue(name, "a line ends with CRLF", number))
                yield number, line.rstrip(b"\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise PackedFileError("the packed file is damaged", None, shown(error)) from None


def _absent(data: Any, kind: type[msgspec.Struct], where: str = "") -> Iterator[str]:
    """Names of fields that the schema has and the data lacks."""
    for field in kind.__struct_fields__:
        if field not in data:
            yield where + field
    for field, part in (("tokens", Tokens), ("outcome", Outcome)):
        if kind is Step and isinstance(data.get(field), dict):
            yield from _absent(data[field], part, f"{where}{field}.")
    if kind is Step:
        for position, call in enumerate(data.get("calls") or ()):
            yield from _absent(call, Call, f"{where}calls[{position}].")


def _twice(found: list[str]) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(items)
        if len(data) != len(items):
            names = [name for name, _ in items]
            found.extend(sorted({name for name in names if names.count(name) > 1}))
        return data

    return pairs


def _record(
    line: bytes, number: int, decoder: msgspec.json.Decoder[_Record], kind: type[_Record], at: Issue
) -> _Record | list[Issue]:
    """One line as a record, or what is wrong with it."""

    def wrong(what: str, got: object = "") -> list[Issue]:
        return [Issue(at.file, what, number, shown(got))]

    try:
        record = decoder.decode(line)
    except msgspec.ValidationError as error:
        return wrong(_named(str(error)), error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as bad:
            return wrong("this is not UTF-8", bad)
        return wrong("the line is torn" if "truncated" in str(error) else "this is not JSON", line)
    try:
        if encode_line(record) == line:
            return record
    except UnicodeEncodeError as error:
        return wrong("a text holds half a surrogate pair", error)
    twice: list[str] = []
    data = json.loads(line, object_pairs_hook=_twice(twice))
    if twice:
        return wrong("a field is given twice", ", ".join(twice))
    if absent := list(_absent(data, kind)):
        return wrong("a field is missing", ", ".join(absent))
    return record


def _named(message: str) -> str:
    if "unknown field" in message:
        return "an unknown field"
    return "a field is missing" if "missing required field" in message else "a value of the wrong type"


def _header(line: bytes, name: str) -> Header | list[Issue]:
    if is_pointer(line):
        return [Issue(name, POINTER, 1)]
    header = _record(line, 1, _HEADER, Header, Issue(name, ""))
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return header
    if not isinstance(data, dict):
        return [Issue(name, "the first line is no object", 1, shown(line))]
    if data.get("schema") != SCHEMA:
        return [Issue(name, "this is no run of our schema version", 1, shown(data.get("schema", "no schema named")))]
    return header


def read_run(path: Path, issues: list[Issue]) -> Run | None:
    """Read one run strictly.

    Every fault is added to ``issues`` with file and line. What can be read whole is given in spite of a fault (a byte
    order mark, CRLF, a blank line, no end of the last line, ``n_steps`` that differs from the lines, an outcome that
    contradicts itself, a file name that is not the run id), so that the checks of a corpus can look at it; whatever
    could not be read makes the run None, since half a run is another run. Step numbers are left to ``verify``.
    """
    name = path.name
    steps: list[Step] = []
    header: Header | None = None
    bad = False
    try:
        for number, line in _lines(path, name, issues):
            if not line.strip():
                issues.append(Issue(name, "a blank line", number))
                continue
            if header is None:
                first = _header(line, name)
                if isinstance(first, list):
                    issues.extend(first)
                    return None
                header = first
                continue
            step = _record(line, number, _STEP, Step, Issue(name, ""))
            if isinstance(step, list):
                issues.extend(step)
                bad = True
                continue
            if reason := step.outcome.contradiction:
                issues.append(Issue(name, "an outcome contradicts itself", number, reason))
            steps.append(step)
    except PackedFileError as error:
        what, at, *got = error.args
        issues.append(Issue(name, what, at, *got))
        return None
    except OSError as error:
        issues.append(Issue(name, "the file cannot be read", None, shown(error.strerror or error)))
        return None
    if header is None:
        issues.append(Issue(name, "the file is empty"))
        return None
    if bad:
        return None
    if header.n_steps != len(steps):
        issues.append(
            Issue(name, "the header counts other steps than follow", 1, f"header {header.n_steps}, lines {len(steps)}")
        )
    if header.run_id != stem(path):
        issues.append(Issue(name, "the file is not named for its run", 1, shown(header.run_id)))
    return Run(header, tuple(steps))


def read_header(path: Path) -> Header | None:
    """The header of a run file alone; None where it cannot be read."""
    try:
        line = next((line for _, line in _lines(path, path.name, [])), b"")
    except (PackedFileError, OSError):
        return None
    header = _header(line, path.name)
    return None if isinstance(header, list) else header


def run_paths(folder: Path) -> list[Path]:
    """The run files of a corpus: at the top of the folder, by their ending, hidden ones left out, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS) and not path.name.startswith("."))


def iter_runs(folder: Path, issues: list[Issue]) -> Iterator[Run]:
    """The readable runs of a corpus one after the other, sorted by name; one is in memory at a time."""
    for path in run_paths(folder):
        if (run := read_run(path, issues)) is not None:
            yield run
