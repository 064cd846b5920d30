"""Fetching: bring the pinned files into the cache, or say what a source holds.

What lands in the cache was verified before it got its name there, so an interrupted, failing or doubled fetch leaves
what was there before; and the network is touched nowhere else in this project.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .errors import NothingToCheck, PinMismatch
from .folder_source import FolderSource
from .git_source import GitSource, git_environment, run_git
from .pins import Pin
from .reading import Source, Survey, survey
from .sources import CURRENT, cached_source, find_source, is_remote, open_source, pin_cache, shown_address

__all__ = ["FetchReport", "fetch"]

ATTEMPTS = 3
PAUSE = 2.0  # seconds before the second attempt, doubled after each
_REFUSED = ("not our ref", "unadvertised object", "not allow request", "couldn't find remote ref")
_FINAL = (
    *_REFUSED, "not found", "does not exist", "does not appear to be a git repository", "Authentication failed",
    "could not read Username", "Permission denied", "not allowed", "not a valid", "No space left", "dubious ownership",
    "unable to find remote helper", "not supported",
)  # fmt: skip

Say = Callable[[str], None]


@dataclass(frozen=True)
class FetchReport:
    """What a fetch or a check came to.

    Attributes:
        action: ``fetched`` (network), ``copied`` (a place on this machine), ``present`` (the cache was complete) or
            ``checked``.
        source: The source, with its place.
        verified: Number of needed files that are there and right.
        needed: Number of files that the project reads.
        missing: Those that are not there, in pinned order.
        corpus: The corpus digest, equal to the published one; ``None`` while a corpus file is missing.
    """

    action: str
    source: str
    verified: int
    needed: int
    missing: tuple[str, ...]
    corpus: str | None

    def lines(self) -> list[str]:
        """The report as lines for a terminal."""
        out = [f"{self.action}: {self.source}", f"{self.verified} of {self.needed} files verified"]
        if self.corpus:
            out.append(f"corpus digest {self.corpus}, as published")
        if self.missing:
            out.append(f"{len(self.missing)} missing (what needs them is not measured):")
            out += [f"  {path}" for path in self.missing]
        return out


def fetch(
    pin: Pin, source: str | None, *, check: bool, say: Say, environ: Mapping[str, str] = os.environ
) -> FetchReport:
    """Fetch the pinned commit into the cache, or check what is there.

    Args:
        pin: What to fetch.
        source: An address, or a place on this machine to copy from; by default the pin's repository.
        check: Change nothing: verify the given source, or ``TRACEAUDIT_SOURCE``, or the cache.
        say: Takes one line for the reader at a time.
        environ: The caller's variables.

    Returns:
        What is there afterwards. A place on this machine may lack files: what it has is copied beside what the cache
        had, and the rest is named.

    Raises:
        NothingToCheck: no source, an empty one, or the fetch failed (with git's own words).
        PinMismatch: bytes differ from their pin; nothing of them is kept.
        UsageError: an address where only a place on this machine can be checked.
    """
    if check:
        found = find_source(source or None, pin, environ=environ)
        if found is None:
            raise NothingToCheck(
                f"nothing of {pin.name} is here",
                expected="--source, TRACEAUDIT_SOURCE or a filled cache",
                next_step="traceaudit fetch, or name a source",
            )
        return _report("checked", str(found), survey(found, pin), pin)
    for line in pin.terms:
        say(line)
    home = pin_cache(pin, environ)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home, say):
            _sweep(home)
            if source and not is_remote(source):
                return _copy(pin, open_source(source, pin), home, environ, say)
            return _download(pin, source or pin.repository, home, environ, say)
    except OSError as error:
        raise NothingToCheck(
            "the cache cannot be written",
            where=str(home),
            got=error.strerror or str(error),
            next_step="make room there, or name another folder in TRACEAUDIT_CACHE",
        ) from None


def _report(action: str, label: str, held: Survey, pin: Pin) -> FetchReport:
    needed = len(pin.needed)
    if len(held.missing) == needed:
        raise NothingToCheck(
            f"no file of {pin.name} is in this source", where=label, expected=f"some of {needed} files",
            got="none of them", next_step="traceaudit fetch, or name another source",
        )  # fmt: skip
    return FetchReport(action, label, needed - len(held.missing), needed, held.missing, held.corpus)


def _cached(pin: Pin, environ: Mapping[str, str], say: Say) -> tuple[Source | None, Survey]:
    """The cache and what it holds; a damaged one counts as empty."""
    try:
        cached = cached_source(pin, environ)
        return (cached, survey(cached, pin)) if cached else (None, Survey(missing=pin.needed))
    except (PinMismatch, NothingToCheck) as error:
        say(f"the cache is damaged and will be replaced ({error.where}: {error.what})")
        return None, Survey(missing=pin.needed)


def _download(pin: Pin, address: str, home: Path, environ: Mapping[str, str], say: Say) -> FetchReport:
    cached, held = _cached(pin, environ, say)
    if cached and not held.missing:
        return _report("present", str(cached), held, pin)
    shown = shown_address(address)
    with _aside(home) as folder:
        git = ["--git-dir", str(folder)]
        quiet = ["-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", f"core.hooksPath={os.devnull}"]
        slow = ["-c", "http.lowSpeedLimit=500", "-c", "http.lowSpeedTime=60", "-c", "protocol.version=2"]
        _git(["init", "--quiet", "--bare", "--template=", str(folder)], shown, address, environ)
        options = ["--quiet", "--depth", "1", "--no-tags", "--no-recurse-submodules"]
        wanted = f"+{pin.commit}:refs/heads/pinned"
        for attempt in range(1, ATTEMPTS + 1):
            say(f"fetching {pin.commit[:12]} from {shown}" + (f" (attempt {attempt})" if attempt > 1 else ""))
            try:
                _git([*git, *quiet, *slow, "fetch", *options, "--", address, wanted], shown, address, environ)
                break
            except NothingToCheck as error:
                if attempt == ATTEMPTS or any(word in error.got for word in _FINAL):
                    raise
                time.sleep(PAUSE * 2 ** (attempt - 1))
        fetched = GitSource(folder / "objects", pin, f"{shown} at {pin.commit[:12]}")
        held = survey(fetched, pin)
        absent = [path for path in pin.files if path not in held.digests]
        if absent:
            raise PinMismatch(
                f"the fetched commit lacks {len(absent)} pinned files", where=absent[0], expected="all of them",
                got=f"{len(held.verified)} of {len(pin.files)}", next_step="fetch from another address",
            )  # fmt: skip
        _adopt(home, folder, "git")
    return _report("fetched", fetched.place, held, pin)


def _git(arguments: list[str], shown: str, address: str, environ: Mapping[str, str]) -> None:
    process = run_git(
        arguments, env=git_environment(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said, _ = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode == 0:
        return
    message = said.decode("utf-8", "replace").replace(address, shown).strip()
    refused = any(word in message for word in _REFUSED)
    raise NothingToCheck(
        "the server does not hand out the bare commit" if refused else "git could not fetch the pinned commit",
        where=shown,
        expected="a server that has the commit and allows asking for it by its id" if refused else "",
        got="; ".join(message.splitlines()[-5:]) or f"git ended with {process.returncode}",
        next_step="clone it yourself and give the clone: traceaudit fetch --source DIR"
        if refused
        else "check address and network, or give a clone: traceaudit fetch --source DIR",
    )


def _copy(pin: Pin, source: Source, home: Path, environ: Mapping[str, str], say: Say) -> FetchReport:
    """Copy what a place on this machine has, beside what the cache had, in the upstream layout."""
    cached, before = _cached(pin, environ, say)
    with _aside(home) as folder:

        def keep(path: str, data: bytes) -> None:
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)

        say(f"copying from {source}")
        held = survey(source, pin, keep)
        report = _report("copied", str(source), held, pin)
        news = set(held.verified) - set(before.verified)
        if cached and not news:
            return _report("present", str(cached), before, pin)
        if cached:
            for path, data in cached.read(set(before.verified) - set(held.verified)):
                if data is None or pin.difference(path, data):
                    raise PinMismatch("the cache changed while it was read", where=path, next_step="fetch again")
                keep(path, data)
            union = FolderSource(folder, pin)
            report = _report("copied", f"{source}, beside {cached}", survey(union, pin), pin)
        _adopt(home, folder, "folder")
    return report


@contextmanager
def _locked(home: Path, say: Say) -> Iterator[None]:
    """One fetch at a time; the system lets go of the lock when its holder dies, so it cannot be left behind."""
    import fcntl  # not on every system, and needed for a fetch alone

    with (home / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another fetch is running; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _aside(home: Path) -> Iterator[Path]:
    """A folder to fill; gone afterwards unless it was adopted."""
    folder = Path(tempfile.mkdtemp(prefix="partial-", dir=home))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _adopt(home: Path, folder: Path, kind: str) -> None:
    """Give a filled and verified folder its name in the cache, in one step for every reader."""
    name = f"{kind}-{secrets.token_hex(6)}"
    folder.rename(home / name)
    note = home / "partial-current"
    note.write_text(name + "\n", encoding="utf-8")
    note.replace(home / CURRENT)


def _sweep(home: Path) -> None:
    """Remove what killed fetches left and what was replaced before; the replaced one stays until the next fetch."""
    current = home / CURRENT
    name = current.read_text(encoding="utf-8", errors="replace").strip() if current.is_file() else ""
    for entry in home.iterdir():
        if entry.name.startswith(("partial-", "git-", "folder-")) and entry.name != name:
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)
