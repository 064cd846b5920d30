"""Where the judges' replies come from here: a git repository, a folder, a tar archive, or the cache.

An archive is somebody else's, so nothing of it is unpacked to disk and a member counts only if its name is exactly a
pinned path, it is an ordinary file, and it stays within the limits.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import fetching, sources
from ..errors import NothingToCheck, PinMismatch, UsageError
from ..folder_source import FolderSource
from ..limited import LimitedReader, TooMuchError
from ..reading import Source, SourceState, survey
from .judges import JudgeRun, JudgesPin, load, missing, read_runs

__all__ = [
    "NOT_ASKED",
    "VARIABLE",
    "Given",
    "TarSource",
    "fetch",
    "find",
    "given",
    "open_judges",
    "state",
]

VARIABLE = "TRACEAUDIT_JUDGES"
MEMBER = 1 << 24  # bytes; no member is read beyond this
UNPACKED = 1 << 28  # bytes; an archive that unpacks to more is refused
PACKED: Mapping[bytes, Callable[..., Any]] = {
    b"\xfd7zXZ\x00": lzma.open, b"\x1f\x8b": gzip.open, b"BZh": bz2.open,
}  # fmt: skip
_DAMAGED = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError, OverflowError)


class TarSource(Source):
    """A tar archive, plain or packed with xz, gzip or bzip2, that holds (some of) the pinned files.

    Its members are named either as in the pinned tree or with nothing above the runs' folders.

    Args:
        file: The archive.
        pinned: The pinned runs.
        place: The archive as the reader named it, for messages.

    Raises:
        NothingToCheck: no member has the name of a pinned file.
        PinMismatch: the archive is damaged or too large.
    """

    def __init__(self, file: Path, pinned: JudgesPin, place: str) -> None:
        self.kind, self.label, self.place, self.problems = "tar", "tar archive", place, {}
        self._file = file
        self.pin = pinned.pin
        self._members: tuple[str, ...] = ()
        for _ in self._unpack(frozenset()):
            pass
        if file.name in self.problems:
            raise self.problems[file.name]
        self.pin = max((pinned.flat, pinned.pin), key=lambda pin: len(pin.files.keys() & set(self._members)))
        if not self.names():
            first = next(iter(pinned.flat.files))
            raise NothingToCheck(
                "no member of this archive has the name of a pinned file",
                where=place,
                expected=f"members such as {first}, or the same below {pinned.home}",
                got=", ".join(self._members[:3]) or "an empty archive",
                next_step="pack the runs' folders themselves, without ./ before their names",
            )

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        self.problems.clear()
        wanted = set(paths)
        for path, data in self._unpack(frozenset(wanted)):
            wanted.discard(path)
            yield path, data
        yield from ((path, None) for path in sorted(wanted))

    def names(self) -> frozenset[str]:
        return frozenset(self.pin.files.keys() & set(self._members))

    def listing(self, directory: str) -> tuple[str, ...]:
        return tuple(sorted(name for name in self._members if name.rpartition("/")[0] == directory))

    def _unpack(self, wanted: frozenset[str]) -> Iterator[tuple[str, bytes | None]]:
        """Read the archive once from end to end; yields the wanted members that are ordinary files, each once."""
        seen: dict[str, bool] = {}  # every member's name -> whether it is an ordinary file
        try:
            with (
                _plain(self._file) as plain,
                tarfile.open(fileobj=LimitedReader(plain, UNPACKED), mode="r|") as archive,
            ):
                for member in archive:
                    name, repeated = member.name, member.name in seen
                    seen[name] = member.isreg() and seen.get(name, True)
                    if name not in wanted:
                        continue
                    problem = _problem(member, repeated)
                    if problem:
                        self._refuse(name, f"its member of the archive {problem[0]}", expected=problem[1])
                        if not repeated:
                            yield name, None
                        continue
                    stream = archive.extractfile(member)
                    data = stream.read() if stream else b""
                    if len(data) != member.size:
                        raise EOFError("the archive ends in the middle of a file")
                    yield name, data
            self._members = tuple(name for name, plain in seen.items() if plain)
        except TooMuchError:
            self.problems[self._file.name] = PinMismatch(
                "the archive is too large", where=self.place, expected=f"at most {UNPACKED:,} bytes unpacked",
                got="more", next_step="pack the runs' folders alone",
            )  # fmt: skip
        except _DAMAGED as error:
            self.problems[self._file.name] = PinMismatch(
                "the archive is damaged", where=self.place, expected="a tar archive, plain or packed with xz, gzip or "
                "bzip2", got=str(error) or type(error).__name__, next_step="get the archive again",
            )  # fmt: skip


def _problem(member: tarfile.TarInfo, repeated: bool) -> tuple[str, str] | None:
    if repeated:
        return "occurs twice", "one member of this name"
    if not member.isreg():
        return "is a link or the like", "an ordinary file"
    if member.size > MEMBER or member.issparse():
        return f"is too large ({member.size:,} bytes)", f"at most {MEMBER:,} bytes, none left out"
    return None


def _head(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(512)


def _plain(file: Path) -> io.BufferedIOBase:
    head = _head(file)
    opener: Callable[..., Any] = next((each for magic, each in PACKED.items() if head.startswith(magic)), Path.open)
    return opener(file, "rb")


def _is_archive(file: Path) -> bool:
    head = _head(file)
    return head[257:262] == b"ustar" or any(head.startswith(magic) for magic in PACKED)


def open_judges(spec: str | Path, pinned: JudgesPin) -> Source:
    """Open a place on this machine.

    Args:
        spec: A git repository that has the pinned commit; a folder with the upstream layout or with the runs' folders
            directly in it; or a tar archive of either.
        pinned: The pinned runs.

    Raises:
        UsageError: it is an address.
        NothingToCheck: there is no such place, or nothing of the runs is in it.
        PinMismatch: the repository's commit is not the pinned one, or the archive is damaged.
    """
    if sources.is_remote(spec):
        raise UsageError(
            "an address can only be fetched from",
            where=sources.shown_address(str(spec)),
            next_step="traceaudit fetch --judges --source ADDRESS, then run this again without --judges",
        )
    place = Path(spec).expanduser() if str(spec).startswith("~/") else Path(spec)
    try:
        if place.is_file() and _is_archive(place):
            return TarSource(place, pinned, str(spec))
    except OSError as error:
        raise NothingToCheck(
            "the archive cannot be opened", where=str(spec), got=error.strerror or str(error),
            next_step="correct the path or its permissions",
        ) from None  # fmt: skip
    try:
        return sources.open_source(place, pinned.pin)
    except NothingToCheck as problem:
        if not any((place / run.folder).is_dir() for run in pinned.runs.values()):
            raise NothingToCheck(
                "nothing of the judges' replies is here",
                where=str(spec),
                expected="a git repository with the pinned commit, a folder that holds "
                f"{next(iter(pinned.runs.values())).folder} and the like, or a tar archive of these",
                got=problem.got or problem.what,
                next_step="correct the path, give the archive itself, or run traceaudit fetch --judges",
            ) from None
        return FolderSource(place, pinned.flat, str(spec))


def find(spec: str | None, pinned: JudgesPin, *, environ: Mapping[str, str] = os.environ) -> Source | None:
    """The first source of replies there is: the given one, ``TRACEAUDIT_JUDGES``, the cache; never the network.

    Returns:
        ``None`` where none is given and nothing was fetched. A source that is given but unusable is an error.
    """
    for given in (spec, environ.get(VARIABLE)):
        if given:
            return open_judges(given, pinned)
    return sources.cached_source(pinned.pin, environ)


@dataclass(frozen=True)
class Given:
    """Where a study's judges come from.

    Attributes:
        label: One phrase, the same on every machine; empty where nobody asked for judges.
        load: Reads and verifies the runs of one split.
        lack: Why they cannot be measured, empty where they can.
        commit: The pinned commit they are of, empty for invented ones.
    """

    label: str = ""
    load: Callable[[str], tuple[JudgeRun, ...]] = lambda split: ()
    lack: str = ""
    commit: str = ""

    @property
    def provenance(self) -> dict[str, str]:
        """What is said of pinned ones where values rest on them."""
        return {"judges_commit": self.commit, "judges_source": self.label} if self.commit else {}


NOT_ASKED = Given()


def given(spec: str, splits: Iterable[str]) -> Given:
    """Where the runs of these splits come from: see :func:`find` for the order of places.

    All of a split's replies are needed, since a figure over some of them would pass for the judge's.

    Raises:
        NothingToCheck: a source was named and is not there.
        PinMismatch: the source is not the pinned one, or a damaged archive.
    """
    pinned, splits = load(), tuple(splits)
    found = find(spec, pinned)
    if found is None:
        lack = f"no judges' replies were given (--judges, {VARIABLE} or traceaudit fetch --judges)"
        return Given("no source", lack=lack, commit=pinned.pin.commit)
    absent = [path for split in splits for path in missing(found, pinned, split)]
    needed = sum(len(run.files) for split in splits for run in pinned.of_split(split))
    return Given(
        found.label,
        lambda split: read_runs(found, pinned, split),
        f"{len(absent)} of {needed} judges' replies are not in this source, {absent[0]} first" if absent else "",
        pinned.pin.commit,
    )


def fetch(
    source: str | None, *, check: bool, say: fetching.Say, environ: Mapping[str, str] = os.environ
) -> fetching.FetchReport:
    """Fetch the judges' commit into the cache, or verify every pinned reply that is here.

    Args:
        source: An address, or a place on this machine; by default the pin's repository, for a check
            ``TRACEAUDIT_JUDGES`` and then the cache.
        check: Change nothing.
        say: Takes one line for the reader at a time.
        environ: The caller's variables.

    Raises:
        NothingToCheck: nothing is here, or the fetch failed.
        PinMismatch: bytes differ from their pin.
        UsageError: an archive was given to fetch from, which is used as it is.
    """
    pinned = load()
    if not check:
        if source and not sources.is_remote(source) and Path(source).is_file() and _is_archive(Path(source)):
            raise UsageError(
                "an archive is used as it is and need not be fetched", where=source,
                next_step=f"--judges {source}, or {VARIABLE}",
            )  # fmt: skip
        return fetching.fetch(pinned.pin, source, check=False, say=say, environ=environ)
    found = find(source, pinned, environ=environ)
    if found is None:
        raise NothingToCheck(
            "nothing of the judges' replies is here",
            expected=f"--source, {VARIABLE} or a filled cache",
            next_step="traceaudit fetch --judges, or name a source",
        )
    held = survey(found, found.pin)
    if not held.verified:
        raise NothingToCheck(
            "no file of the judges' replies is in this source", where=str(found),
            expected=f"some of {len(found.pin.files)} files", next_step="traceaudit fetch --judges",
        )  # fmt: skip
    return fetching.FetchReport("checked", str(found), len(held.verified), len(found.pin.files), held.missing, None)


def state(spec: str | None = None) -> SourceState:
    """Verify every pinned reply that is here and say how to get the rest.

    Raises:
        NothingToCheck: a source was named and is not there.
        PinMismatch: bytes differ from their pin.
    """
    pinned = load()
    found = find(spec, pinned)
    if found is None:
        step = f"traceaudit fetch --judges, or {VARIABLE}"
        return SourceState("none", f"judges: no replies; their pages show the records. For the data: {step}")
    held = survey(found, found.pin)
    digest = hashlib.sha256("\n".join(sorted(held.digests.values())).encode()).hexdigest()
    line = f"judges, {found.label}, all verified: replies {len(held.verified)} of {len(found.pin.files)}"
    return SourceState(digest, line)
