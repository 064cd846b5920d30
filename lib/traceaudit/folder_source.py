"""A plain folder with the upstream layout as a source, with the traces packed beside it if need be.

Names inside a folder or an archive are somebody else's: a file is read only if it lies inside the folder, a member
only if its name is exactly an asked path, and nothing is ever unpacked to disk.
"""

from __future__ import annotations

import lzma
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from .errors import NothingToCheck, PinMismatch
from .limited import LimitedReader, TooMuchError
from .pins import Pin
from .reading import LARGEST, Source

__all__ = ["ARCHIVE", "FolderSource"]

ARCHIVE = "traces.tar.xz"
UNPACKED = 1 << 29  # bytes; an archive that unpacks to more is refused
_DAMAGED = (tarfile.TarError, lzma.LZMAError, EOFError, OSError, ValueError, OverflowError)


class FolderSource(Source):
    """A folder that holds (some of) the pinned files under their upstream paths.

    An archive ``traces.tar.xz`` in it stands for the files that the folder itself lacks.

    Args:
        root: The folder.
        pin: What may be read.
        place: The folder as the reader named it, for messages; by default its path.
        kind: ``folder``, or ``cache`` for the cached one.

    Raises:
        NothingToCheck: the folder does not have the upstream layout.
    """

    def __init__(self, root: Path, pin: Pin, place: str = "", *, kind: str = "folder") -> None:
        self.kind, self.place, self.pin, self.problems = kind, place or str(root), pin, {}
        self.label = "cached folder" if kind == "cache" else "folder"
        self._root = root.resolve()
        self._members: tuple[str, ...] | None = None
        packed = self._root / ARCHIVE
        self._archive = packed if packed.is_file() else None
        if self._archive is not None:
            self.label += f" with {ARCHIVE}"
        folders = {path.rpartition("/")[0] for path in pin.files} - {""}
        deep = {folder for folder in folders if not any(other.startswith(f"{folder}/") for other in folders)}
        found = any((self._root / folder).is_dir() for folder in deep or {"."})
        if not found and not any((self._root / path).is_file() for path in pin.files if "/" in path):
            inside = self._root.name in {path.partition("/")[0] for path in pin.files if "/" in path}
            raise NothingToCheck(
                f"the folder does not hold the upstream layout of {pin.name}",
                where=self.place,
                expected=f"one of {', '.join(sorted(deep))}",
                got=_glimpse(self._root),
                next_step=f"give the folder above ({self._root.parent})"
                if inside
                else "give a clone, or a folder with these inside; or run traceaudit fetch",
            )

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        self.problems.clear()
        lacking = []
        for path in paths:
            data = self._file(path)
            if data is None and path not in self.problems:
                lacking.append(path)
            else:
                yield path, data
        if lacking and self._archive is not None:
            packed = set(lacking)
            for path, data in self._unpack(self._archive, frozenset(packed)):
                packed.discard(path)
                yield path, data
            lacking = [path for path in lacking if path in packed]
        yield from ((path, None) for path in lacking)

    def names(self) -> frozenset[str]:
        there = {path for path in self.pin.files if (self._root / path).is_file()}
        return frozenset(there | set(self._packed()) & set(self.pin.files))

    def listing(self, directory: str) -> tuple[str, ...]:
        place = self._root / directory
        loose = {f"{directory}/{entry.name}" for entry in place.iterdir()} if place.is_dir() else set()
        packed = {name for name in self._packed() if name.rpartition("/")[0] == directory}
        return tuple(sorted(path for path in loose | packed if path in packed or (self._root / path).is_file()))

    def _file(self, path: str) -> bytes | None:
        place = self._root / path
        try:
            if not place.resolve(strict=True).is_relative_to(self._root):
                self._refuse(path, "the file is a link that leaves the folder", got=f"a link to {place.resolve()}")
                return None
            with open(place, "rb", opener=_at_once) as stream:
                status = os.fstat(stream.fileno())
                if not stat.S_ISREG(status.st_mode):
                    self._refuse(path, "this is not an ordinary file", got=stat.filemode(status.st_mode))
                    return None
                data = stream.read(LARGEST + 1)
        except (FileNotFoundError, NotADirectoryError):
            if place.is_symlink():
                self._refuse(path, "the file is a link to nowhere", got=f"a link to {place.readlink()}")
            return None
        except (OSError, RuntimeError, ValueError) as error:
            self._refuse(path, "the file cannot be read", got=str(getattr(error, "strerror", None) or error))
            return None
        if len(data) > LARGEST:
            self._refuse(path, "the file is too large", expected=f"at most {LARGEST:,} bytes", got="more")
            return None
        return data

    def _packed(self) -> tuple[str, ...]:
        """Names of the ordinary files in the archive, as they are written there."""
        if self._members is None and self._archive is not None:
            self.problems.clear()
            for _ in self._unpack(self._archive, frozenset()):
                pass
            if ARCHIVE in self.problems:
                raise self.problems[ARCHIVE]
        return self._members or ()

    def _unpack(self, packed: Path, wanted: frozenset[str]) -> Iterator[tuple[str, bytes | None]]:
        """Read the archive once from end to end; yields the wanted members that are ordinary files."""
        names: dict[str, bool] = {}
        try:
            if not packed.resolve(strict=True).is_relative_to(self._root):
                self._refuse(ARCHIVE, "the archive is a link that leaves the folder")
                return
            with (
                lzma.open(packed) as plain,
                tarfile.open(fileobj=LimitedReader(plain, UNPACKED), mode="r|") as archive,
            ):
                for member in archive:
                    name = member.name
                    if name in names and name in wanted:
                        self._refuse(name, f"{ARCHIVE} holds this file twice", expected="one member of this name")
                    if not member.isreg():
                        if name in wanted:
                            self._refuse(name, f"its member of {ARCHIVE} is no ordinary file", got="a link or the like")
                            yield name, None
                        continue
                    repeated = name in names
                    names[name] = True
                    if name not in wanted or repeated:
                        continue
                    if member.size > LARGEST or member.issparse():
                        most, got = f"at most {LARGEST:,} bytes, none left out", f"{member.size:,} bytes"
                        self._refuse(name, f"its member of {ARCHIVE} is too large", expected=most, got=got)
                        yield name, None
                        continue
                    stream = archive.extractfile(member)
                    data = stream.read() if stream else b""
                    if len(data) != member.size:
                        raise EOFError("the archive ends in the middle of a file")
                    yield name, data
            self._members = tuple(names)
        except TooMuchError:
            most = f"at most {UNPACKED:,} bytes unpacked"
            self._refuse(ARCHIVE, "the archive is too large", expected=most, got="more")
        except _DAMAGED as error:
            step = str(error) or type(error).__name__
            self.problems[ARCHIVE] = PinMismatch(
                "the archive is damaged", where=ARCHIVE, expected="a tar archive packed with xz", got=step,
                next_step="get the archive again",
            )  # fmt: skip


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a named pipe must not keep us waiting


def _glimpse(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir())
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "") or "an empty folder"
