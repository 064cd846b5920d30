"""Sources: where the pinned bytes come from on this machine.

The order is fixed and never involves the network: the source that was named, the environment, the cache; only
:mod:`traceaudit.fetching` goes further, and only when asked.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_cache_path

from .errors import NothingToCheck, UsageError
from .folder_source import ARCHIVE, FolderSource
from .git_source import GitSource, find_objects
from .pins import Pin
from .reading import Reading, Source, Survey, read_verified, survey

__all__ = [
    "ARCHIVE",
    "FolderSource",
    "GitSource",
    "Reading",
    "Source",
    "Survey",
    "cache_dir",
    "cached_source",
    "find_source",
    "is_remote",
    "open_source",
    "pin_cache",
    "read_verified",
    "survey",
]

VARIABLE = "TRACEAUDIT_SOURCE"
CURRENT = "current"  # names the cache folder in use; replaced in one step


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where fetched data are kept: ``TRACEAUDIT_CACHE``, or else the user's cache folder."""
    given = environ.get("TRACEAUDIT_CACHE", "")
    return Path(given).expanduser() if given else user_cache_path("traceaudit")


def pin_cache(pin: Pin, environ: Mapping[str, str] = os.environ) -> Path:
    """The cache's folder for one pin: another commit never meets the files of this one."""
    return cache_dir(environ) / f"{pin.name}-{pin.commit[:12]}"


def is_remote(spec: str | Path) -> bool:
    """Whether this is an address (``https://…``, ``file://…``, ``host:path``) and not a place on this machine."""
    text = str(spec)
    return "://" in text or (re.match(r"[^/\\:]{2,}:", text) is not None and not Path(text).exists())


def open_source(spec: str | Path, pin: Pin) -> Source:
    """Open a place on this machine.

    A git repository that has the pinned commit is read from its objects; any other folder must have the upstream
    layout.

    Args:
        spec: A git repository (bare or not, also a worktree or its ``.git``), or a folder.
        pin: What is to be read.

    Raises:
        UsageError: it is an address.
        NothingToCheck: there is no such folder, or neither the pinned commit nor the upstream layout is in it.
        PinMismatch: the repository's commit is not the pinned one.
    """
    if is_remote(spec):
        raise UsageError(
            "an address can only be fetched from",
            where=shown_address(str(spec)),
            next_step=f"traceaudit fetch --source {shown_address(str(spec))}, then run this again without --source",
        )
    folder = Path(spec)
    with contextlib.suppress(RuntimeError):  # "~somebody" without such a user is a name like any other
        folder = folder.expanduser()
    return _open(folder, pin, None)


def shown_address(address: str) -> str:
    """An address without the name and password that may be in it."""
    return re.sub(r"(?<=://)[^/@]*@", "", address)


def _open(folder: Path, pin: Pin, kind: str | None) -> Source:
    problems: list[NothingToCheck] = []
    try:
        objects = find_objects(folder)
        if objects is None and not folder.is_dir():
            raise NothingToCheck(
                "this is not a folder" if folder.exists() else "there is no such folder",
                where=str(folder),
                expected="a git repository, or a folder with the upstream layout",
                next_step=f"give the folder in which {folder.name} lies" if folder.is_file() else "correct the path",
            )
        if objects is not None:
            try:
                return GitSource(objects, pin, str(folder), kind=kind or "git")
            except NothingToCheck as error:
                problems.append(error)
        if folder.is_dir():
            try:
                return FolderSource(folder, pin, str(folder), kind=kind or "folder")
            except NothingToCheck as error:
                problems.append(error)
    except OSError as error:
        raise NothingToCheck(
            "the source cannot be opened",
            where=str(folder),
            got=error.strerror or str(error),
            next_step="correct the path or its permissions",
        ) from None
    raise problems[0]


def cached_source(pin: Pin, environ: Mapping[str, str] = os.environ) -> Source | None:
    """What was fetched before, or ``None``."""
    home = pin_cache(pin, environ)
    try:
        name = (home / CURRENT).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    if not re.fullmatch(r"(git|folder)-[A-Za-z0-9_]+", name) or not (home / name).is_dir():
        return None
    return _open(home / name, pin, "cache")


def find_source(spec: str | None, pin: Pin, *, environ: Mapping[str, str] = os.environ) -> Source | None:
    """The first source there is: the given one, ``TRACEAUDIT_SOURCE``, the cache.

    Args:
        spec: The given one; ``None`` and ``""`` count as none.
        pin: What is to be read.
        environ: The caller's variables.

    Returns:
        ``None`` where none is given and nothing was fetched. A source that is given but unusable is an error, never
        passed over.
    """
    for given in (spec, environ.get(VARIABLE)):
        if given:
            return open_source(given, pin)
    return cached_source(pin, environ)
