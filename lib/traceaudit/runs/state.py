"""The state plane: per-step captures of a run, packed so that the same captures give the same archive everywhere.

Captures lie on the host that ran the agent and are needed wherever a run is replayed; an archive comes from elsewhere,
so nothing in it names a path, a run is restored whole or not at all, and an index says what it must restore to.
"""

from __future__ import annotations

import contextlib
import gzip
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from ..errors import NothingToCheck, PinMismatch, TraceAuditError
from ..records import write_whole
from .archives import (
    BadArchiveError,
    Captures,
    IndexEntry,
    Limits,
    entry_of,
    member_name,
    pack,
    read_captures,
    tar_bytes,
    unpack,
)
from .files import is_pointer, shown
from .issues import Issue

__all__ = [
    "INDEX",
    "Moved",
    "export_state",
    "import_state",
    "load_index",
    "stored_captures",
    "verify_state",
]

INDEX = "index.json"
_ENDING = ".tar.gz"
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}\Z")


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What an export or an import did, by run id: written, there already, and what is wrong with the others."""

    written: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    issues: tuple[Issue, ...] = ()


_LIMITS = Limits()
_INDEX = msgspec.json.Decoder(dict[str, IndexEntry])


def load_index(state: Path) -> dict[str, IndexEntry]:
    """The index of a state folder; empty where there is none.

    Raises:
        PinMismatch: it is not an index, or a run id in it is none.
    """
    path = state / INDEX
    if not path.exists():
        return {}
    raw = path.read_bytes()
    try:
        index = _INDEX.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        got = "a Git LFS pointer" if is_pointer(raw) else shown(error)
        raise PinMismatch("the index of captures cannot be read", where=INDEX, got=got, next_step=_RESTORE) from None
    if (bad := next((name for name in index if not _ID.match(name)), None)) is not None:
        raise PinMismatch("the index names what is no run id", where=INDEX, got=shown(bad, 60), next_step=_RESTORE)
    return index


_RESTORE = "restore the file; nothing was written"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer at a time in this folder, on systems that have ``flock``."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError):
            import fcntl  # not on every system

            fcntl.flock(stack.enter_context((folder / ".lock").open("wb")), fcntl.LOCK_EX)
        yield


def _runs(scratch: Path) -> Iterator[Path]:
    yield from sorted(path for path in scratch.iterdir() if path.is_dir() and not path.name.startswith("."))


def export_state(scratch: Path, state: Path, *, force: bool = False) -> Moved:
    """Pack the captures of every run in ``scratch`` into ``state`` and add them to its index.

    An archive that restores to the same captures is left alone, and entries of runs that are not here stay.

    Args:
        scratch: Folder with a folder of captures per run.
        state: Folder of the archives and the index.
        force: Replace an archive of this run with other captures, which is refused without.

    Raises:
        NothingToCheck: there is no such folder.
        PinMismatch: the index that is there cannot be read; it is not replaced.
    """
    if not scratch.is_dir():
        raise NothingToCheck("there is no folder of captures", where=str(scratch), next_step="name another folder")
    written, present, issues = [], [], []
    with _locked(state):
        index = load_index(state)
        before = dict(index)
        for folder in _runs(scratch):
            name, archive = folder.name, state / f"{folder.name}{_ENDING}"
            try:
                if not _ID.match(name) or folder.is_symlink():
                    raise BadArchiveError("the folder's name is no run id, or it is a link")
                captures = read_captures(folder)
                if not captures:
                    raise BadArchiveError("the folder holds no capture")
                entry = entry_of(captures)
                if entry == index.get(name, entry) and _restores(archive, entry):
                    present.append(name)
                elif name in index and index[name] != entry and not force:
                    raise BadArchiveError("other captures of this run were exported before")
                else:
                    write_whole(archive, pack(captures))
                    written.append(name)
                index[name] = entry
            except (BadArchiveError, OSError) as error:
                issues.append(Issue(name, *_said(error)))
        if index != before:
            write_whole(state / INDEX, _index_bytes(index))
    return Moved(written=tuple(written), present=tuple(present), issues=tuple(issues))


def _index_bytes(index: Mapping[str, IndexEntry]) -> bytes:
    plain = msgspec.json.encode({name: index[name] for name in sorted(index)}, order="sorted")
    return msgspec.json.format(plain, indent=2) + b"\n"


def _said(error: Exception) -> tuple[str, None, str]:
    if isinstance(error, OSError):
        return "a file cannot be read or written", None, shown(error.strerror or error)
    return shown(error, 200), None, ""


def _read_archive(path: Path, limits: Limits) -> bytes:
    if not path.is_file() or path.is_symlink():
        raise BadArchiveError("the archive is missing")
    with path.open("rb") as file:
        return file.read(limits.packed + 1)


def _restored(path: Path, entry: IndexEntry, limits: Limits) -> dict[int, bytes]:
    captures = unpack(_read_archive(path, limits), limits)
    if (got := entry_of(captures)) != entry:
        raise BadArchiveError(
            f"the archive does not restore to what the index says ({got.steps} of {entry.steps} steps)"
        )
    return captures


def _restores(path: Path, entry: IndexEntry) -> bool:
    try:
        return bool(_restored(path, entry, _LIMITS))
    except (BadArchiveError, OSError):
        return False


def import_state(state: Path, scratch: Path, *, force: bool = False, limits: Limits = _LIMITS) -> Moved:
    """Restore every run of the index, each whole or not at all.

    A run whose captures are here already is left alone; one with other captures here is refused unless ``force``.

    Raises:
        NothingToCheck: there is no index.
        PinMismatch: it cannot be read.
    """
    index = load_index(state)
    if not (state / INDEX).exists():
        raise NothingToCheck(
            "there is no index of captures",
            where=str(state / INDEX),
            next_step="export the captures on the host that ran the agent: traceaudit runs state export",
        )
    written, present, issues = [], [], []
    with _locked(scratch):
        for name, entry in sorted(index.items()):
            target = scratch / name
            try:
                captures = _restored(state / f"{name}{_ENDING}", entry, limits)
                if target.is_symlink() or (target.exists() and not target.is_dir()):
                    raise BadArchiveError("what is in its place is no folder")
                if target.exists() and _same(target, entry):
                    present.append(name)
                    continue
                if target.exists() and any(target.iterdir()) and not force:
                    raise BadArchiveError("other captures of this run are here")
                _restore(captures, target)
                written.append(name)
            except (BadArchiveError, OSError) as error:
                issues.append(Issue(name, *_said(error)))
    return Moved(written=tuple(written), present=tuple(present), issues=tuple(issues))


def _same(folder: Path, entry: IndexEntry) -> bool:
    try:
        return entry_of(read_captures(folder)) == entry
    except BadArchiveError:
        return False


def _restore(captures: Captures, target: Path) -> None:
    """Write the captures aside and swap the folders; a reader sees the former captures or all of the new."""
    aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:80]}."))
    try:
        new, old = aside / "new", aside / "old"
        new.mkdir()
        for index, data in captures.items():
            (new / member_name(index)).write_bytes(data)
        if target.exists():
            target.rename(old)
        try:
            new.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def verify_state(state: Path, scratch: Path | None = None, *, limits: Limits = _LIMITS) -> list[Issue]:
    """Whether the archives are what the index says, and the captures here what was exported.

    Returns:
        An issue each, sorted: no index; an archive missing, unreadable, that restores to other captures, not in the
        canonical form, or not in the index; captures here that differ, or that were never exported. Captures that are
        not here are no issue.
    """
    try:
        index = load_index(state)
    except TraceAuditError as error:
        return [Issue(INDEX, error.what, got=error.got)]
    issues = []
    if not (state / INDEX).exists():
        issues.append(Issue(INDEX, "absent: there is no index of captures"))
    for name, entry in index.items():
        issues += [Issue(name, what) for what in _wrong(state / f"{name}{_ENDING}", entry, limits)]
        if scratch is not None and (scratch / name).exists() and not _same(scratch / name, entry):
            issues.append(Issue(name, "drift: the captures here are not those that were exported"))
    here = _runs(scratch) if scratch is not None and scratch.is_dir() else ()
    issues += [
        Issue(path.name, "unexported: the captures here are in no archive") for path in here if path.name not in index
    ]
    for path in sorted(state.glob(f"*{_ENDING}")):
        if path.name.removesuffix(_ENDING) not in index:
            issues.append(Issue(path.name, "unlisted: the archive is not in the index"))
    return sorted(issues, key=str)


def _wrong(path: Path, entry: IndexEntry, limits: Limits) -> Iterator[str]:
    try:
        data = _read_archive(path, limits)
    except (BadArchiveError, OSError):
        yield "missing: the index lists an archive that is not here"
        return
    try:
        captures = unpack(data, limits)
    except BadArchiveError as error:
        yield f"unreadable: {error}"
        return
    if entry_of(captures) != entry:
        yield "digest mismatch: the archive restores to other captures than the index says"
    elif gzip.decompress(data) != tar_bytes(captures):
        yield "form: the archive is not in the form that we write"


def stored_captures(
    scratch: Path | None, state: Path | None, *, limits: Limits = _LIMITS
) -> Callable[[str], dict[int, bytes] | None]:
    """A function from run id to its captures: those here, else those of its archive; None where there are none.

    The function raises :class:`BadArchiveError` where there are some and they cannot be relied on.
    """
    index = load_index(state) if state is not None else {}

    def find(run_id: str) -> dict[int, bytes] | None:
        if not _ID.match(run_id):
            return None
        if scratch is not None and (scratch / run_id).is_dir():
            return read_captures(scratch / run_id) or None
        if state is not None and run_id in index:
            return _restored(state / f"{run_id}{_ENDING}", index[run_id], limits) or None
        return None

    return find
