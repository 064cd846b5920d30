"""A judge's replies as it left them: a folder, a list of lines or an archive, read into trace id -> bytes.

They are somebody else's files. So nothing is unpacked to disk, a name is only ever compared with the trace ids that are
known, every size is bounded while it is read, and what is passed over is named with the reason.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, Self

from ..errors import NothingToCheck, TraceAuditError, UsageError
from .reply_box import LIMITS, MIB, Box, Limits, Replies, shown, size, too_large

__all__ = ["LIMITS", "Limits", "Replies", "load_replies"]

KIND = re.compile(
    r"\.(?:(?P<zip>zip)|(?P<kind>tar|jsonl)(?:\.(?P<packed>gz|bz2|xz|zst))?|(?P<short>tgz|tbz2?|txz|tzst))\Z",
    re.IGNORECASE,
)
SHORT = {"tgz": "gz", "tbz": "bz2", "tbz2": "bz2", "txz": "xz", "tzst": "zst"}
KINDS = "a folder, .jsonl, .zip, .tar, or .jsonl and .tar with .gz, .bz2, .xz or .zst behind"
LINK, ODD = "a symbolic link", "not a regular file"


def load_replies(path: str | Path, ids: Iterable[str], *, limits: Limits = LIMITS) -> Replies:
    """Read a judge's replies.

    Args:
        path: A folder or an archive (``.zip``, ``.tar``, compressed ``.tar``) with a file ``<trace id>.json`` for each
            trace, at the top or in one folder: the name that the pinned scorer looks for, so another suffix counts as
            unknown. Or a ``.jsonl`` (plain or compressed) of ``{"trace_id": ..., "reply": ...}``, where the reply is a
            text or an object; an object is written as JSON again (ASCII, keys in order, of duplicate keys the last).
        ids: The trace ids of the split.
        limits: What is read at most.

    Returns:
        The replies. Links, devices, sparse and encrypted files, names that lead elsewhere, members and lines that
        cannot be read and replies over the limit are ``refused``. Empty replies are replies.

    Raises:
        NothingToCheck: there is no such file, it is damaged, or it holds no reply to any of ``ids``.
        UsageError: it is of another kind or over a limit, this Python cannot decompress it, or a trace has two replies
            (a score must not depend on which comes last), in one folder or in several.
    """
    path = Path(path)
    box = Box(frozenset(ids), limits, path.name)
    try:
        about = path.stat()
    except (OSError, ValueError) as error:
        raise NothingToCheck(
            "the predictions cannot be found",
            where=shown(str(path)),
            got=getattr(error, "strerror", None) or str(error),
            next_step="correct the path",
        ) from None
    try:
        if stat.S_ISDIR(about.st_mode):
            _read_folder(path, box)
        else:
            _read_file(path, about, box)
    except TraceAuditError:
        raise
    except Exception as error:  # whatever the parser of an archive made by strangers comes upon
        raise NothingToCheck(
            "the predictions are damaged or cannot be read",
            where=shown(path.name),
            got=shown(f"{type(error).__name__}: {error}"),
            next_step="make the archive anew; nothing was scored, since what is behind the damage is unknown",
        ) from None
    if not box.files:
        raise NothingToCheck(
            "no reply to a trace of this split was found",
            where=shown(path.name),
            expected=f"{min(box.ids, default='<trace id>')}.json and so on, {len(box.ids)} in all",
            got="; ".join(box.found()) or "nothing",
            next_step="give the folder in which the replies lie, and check the split",
        )
    return Replies(box.files, tuple(sorted(box.unknown)), dict(sorted(box.refused.items())))


def _read_folder(top: Path, box: Box) -> None:
    below = []
    for entry in _entries(top):
        if entry.is_dir(follow_symlinks=False):
            below.append(entry.name)
        else:
            _read_entry(entry, entry.name, box)
    for folder in below:
        for entry in _entries(top / folder):
            name = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                box.count(entries=1)
                box.unknown.append(shown(f"{name}/"))
            else:
                _read_entry(entry, name, box)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)


def _read_entry(entry: os.DirEntry[str], name: str, box: Box) -> None:
    problem = LINK if entry.is_symlink() else "" if entry.is_file(follow_symlinks=False) else ODD
    trace = box.offer(name, problem)
    if trace is None:
        return
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(entry.path, flags), "rb") as stream:
            if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):  # it may have become another since it was listed
                box.take(trace, name, stream)
            else:
                box.refuse(name, ODD)
    except OSError as error:
        box.refuse(name, f"cannot be read: {error.strerror}")


def _read_file(path: Path, about: os.stat_result, box: Box) -> None:
    match = KIND.search(path.name)
    if match is None or not stat.S_ISREG(about.st_mode):
        raise UsageError(
            "these predictions are of no known kind",
            where=shown(path.name),
            expected=KINDS,
            next_step="give the folder of replies, or pack it",
        )
    if about.st_size > box.limits.total:
        raise too_large(box.archive, size(box.limits.total), size(about.st_size))
    if match["zip"]:
        _read_zip(path, box)
        return
    packed = SHORT[match["short"].lower()] if match["short"] else (match["packed"] or "").lower()
    with _opened(path, packed) as inner:
        stream = io.BufferedReader(_Counted(inner, box), MIB)
        if (match["kind"] or "tar").lower() == "tar":
            _read_tar(stream, box)
        else:
            _read_lines(stream, box)


def _opened(path: Path, packed: str) -> IO[bytes]:
    if packed == "zst":
        try:
            from compression import zstd
        except ImportError:
            raise UsageError(
                "this Python cannot read zstd",
                where=shown(path.name),
                expected="Python 3.14 or newer",
                next_step="decompress the file first, or pack it as .tar.xz",
            ) from None
        return zstd.open(path, "rb")
    openers: dict[str, Callable[..., Any]] = {"": Path.open, "gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
    return openers[packed](path, "rb")


class _Counted(io.RawIOBase):
    """A stream that ends with an error once more was read from it than the limit: small archives can be large."""

    def __init__(self, inner: IO[bytes], box: Box) -> None:
        self._inner, self._box, self._left = inner, box, box.limits.total

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._inner.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise too_large(self._box.archive, size(self._box.limits.total), "more once it is decompressed")
        buffer[: len(data)] = data
        return len(data)


class _Member(tarfile.TarInfo):
    """A member; where the archive does not end with its end mark, it is damaged and not just at its end."""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tar)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # Python has it, its stubs lack it
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"no end mark ({error})") from None


def _read_tar(stream: IO[bytes], box: Box) -> None:
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member, encoding="utf-8") as archive:
        for member in archive:
            if member.isdir():
                box.count(entries=1)
                continue
            kinds = ((member.issym(), LINK), (member.islnk(), "a hard link"), (not member.isreg(), ODD))
            problem = next((why for holds, why in (*kinds, (member.issparse(), "a sparse file")) if holds), "")
            trace = box.offer(member.name, problem)
            if trace is not None and (inner := archive.extractfile(member)):  # none for what is no file
                box.take(trace, member.name, inner)


def _read_zip(path: Path, box: Box) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.is_dir() and kind in (0, stat.S_IFDIR):
                box.count(entries=1)
                continue
            odd = LINK if kind == stat.S_IFLNK else "" if kind in (0, stat.S_IFREG) else ODD
            trace = box.offer(member.filename, odd or ("encrypted" if member.flag_bits & 1 else ""))
            if trace is None:
                continue
            try:
                with archive.open(member) as stream:
                    box.take(trace, member.filename, stream)
            except TraceAuditError:
                raise
            except Exception as error:  # each member stands alone: the others can still be read
                box.refuse(member.filename, f"damaged, or packed in an unknown way ({type(error).__name__})")


def _read_lines(stream: IO[bytes], box: Box) -> None:
    longest = 6 * box.limits.file + MIB  # a character may take six bytes as an escape
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        where = f"line {number}"
        if len(line) > longest:
            box.refuse(where, f"larger than {size(longest)}")
            while line and not line.endswith(b"\n"):
                line = stream.readline(MIB)
        elif line.strip():
            box.count(entries=1)
            _read_line(line, where, box)


def _read_line(line: bytes, where: str, box: Box) -> None:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        box.refuse(where, "not UTF-8")
        return
    except (ValueError, RecursionError):
        box.refuse(where, "not JSON" if line.endswith(b"\n") else "not JSON; the file may have been cut short here")
        return
    trace, reply = (row.get("trace_id"), row.get("reply")) if isinstance(row, dict) else (None, None)
    if not isinstance(trace, str) or not isinstance(reply, str | dict):
        box.refuse(where, "not an object with a trace_id (text) and a reply (text or object)")
    elif trace not in box.ids:
        box.unknown.append(shown(trace))
    else:
        box.claim(trace, where)
        try:
            data = reply.encode("utf-8") if isinstance(reply, str) else json.dumps(reply).encode("ascii")
        except UnicodeEncodeError:
            box.refuse(where, "the reply holds half a surrogate pair, which no text file can")
        else:
            box.keep(trace, where, data)
