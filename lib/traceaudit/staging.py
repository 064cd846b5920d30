"""Staging: one build at a time, everything written aside, and a swap that a kill cannot leave half done.

A build directory ``.traceaudit/build-<pid>`` holds the new files. Once all are there a plan is written, the files are
moved one by one, and the directory goes. Whoever comes next finishes a plan that was cut short, or clears away what
never got one; a record set that was put in place for the last chapters is taken back the same way.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .errors import TraceAuditError
from .records import write_whole

__all__ = ["Staging", "clear_up", "explain_full_disk", "lock"]

PLAN, UNDO = "plan.json", "undo.json"


@contextmanager
def lock(root: Path, *, wait: float, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the build lock of ``root``; it goes with the process, so a killed build never leaves it behind.

    Args:
        root: The project.
        wait: Seconds to wait for another build.
        say: Told once, if there is something to wait for.

    Raises:
        TraceAuditError: another build still runs after ``wait`` seconds.
    """
    path = root / ".traceaudit" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        deadline, told = time.monotonic() + wait, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TraceAuditError(
                        f"another build is still at work after {wait:g} s",
                        where=str(path),
                        next_step="wait for it, or end it, and build again",
                    ) from None
                if not told:
                    say("another build is at work here; waiting for it")
                    told = True
                time.sleep(0.1)
        yield


@contextmanager
def explain_full_disk(root: Path) -> Iterator[None]:
    """Turn "no space left" (or a quota) into an error that says what is safe and what to do.

    Raises:
        TraceAuditError: the disk or the quota is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise TraceAuditError(
            "the disk is full",
            where=str(root),
            got=str(error),
            next_step="free some space and build again; the former pages and records are untouched",
        ) from None


class Staging:
    """The directory of one build.

    Args:
        root: The project; every target is relative to it.
        name: By default ``build-<pid>``.
    """

    def __init__(self, root: Path, name: str | None = None) -> None:
        self.root = root
        self.directory = root / ".traceaudit" / (name or f"build-{os.getpid()}")
        self._targets: list[str] = []
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)

    def add(self, target: str, content: bytes) -> Path:
        """Write a file aside that the swap will move to ``target``; a second one replaces the first."""
        aside = self.directory / "files" / target
        write_whole(aside, content)
        if target not in self._targets:
            self._targets.append(target)
        return aside

    def put_now(self, targets: Mapping[str, bytes]) -> None:
        """Put files in place before the swap, keeping what they replace; :meth:`take_back` restores that."""
        kept = [target for target in targets if (self.root / target).is_file()]
        for target in kept:
            write_whole(self.directory / "undo" / target, (self.root / target).read_bytes())
        note = {"kept": kept, "new": [target for target in targets if target not in kept]}
        write_whole(self.directory / UNDO, json.dumps(note).encode("utf-8"))
        for target, content in targets.items():
            write_whole(self.root / target, content)

    def swap(self, remove: Iterable[str] = ()) -> None:
        """Move every file to its target and remove stale ones; from the moment the plan is written it will be done."""
        plan = {"move": self._targets, "remove": list(remove)}
        write_whole(self.directory / PLAN, json.dumps(plan).encode("utf-8"))
        _finish(self.root, self.directory)

    def discard(self) -> None:
        """Take back what was put in place early and remove the directory."""
        _take_back(self.root, self.directory)
        shutil.rmtree(self.directory, ignore_errors=True)


def _finish(root: Path, directory: Path) -> None:
    plan = json.loads((directory / PLAN).read_bytes())
    (directory / UNDO).unlink(missing_ok=True)  # from here on there is no way back
    for target in plan["move"]:
        aside, place = directory / "files" / target, root / target
        if aside.is_file():  # else it was moved before the kill
            place.parent.mkdir(parents=True, exist_ok=True)
            aside.replace(place)
    for target in plan["remove"]:
        (root / target).unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def _take_back(root: Path, directory: Path) -> None:
    if not (directory / UNDO).is_file():
        return
    note = json.loads((directory / UNDO).read_bytes())
    for target in note["kept"]:
        if (directory / "undo" / target).is_file():  # else it was taken back before a kill
            (directory / "undo" / target).replace(root / target)
    for target in note["new"]:
        (root / target).unlink(missing_ok=True)
    (directory / UNDO).unlink()


def clear_up(root: Path, say: Callable[[str], None]) -> None:
    """Finish or clear away what a killed build left; call it with the lock held."""
    for directory in sorted((root / ".traceaudit").glob("build-*")):
        if (directory / PLAN).is_file():
            say("finishing what an earlier build had ready when it was cut short")
            _finish(root, directory)
        else:
            say("clearing away an earlier build that was cut short")
            _take_back(root, directory)
            shutil.rmtree(directory, ignore_errors=True)
