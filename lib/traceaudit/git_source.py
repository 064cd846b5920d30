"""A git repository as a source: pinned blobs read straight from its objects, without checkout, network or trust.

Git is run on an empty repository of our own that borrows the object store of the one to read. So nothing of the
latter's configuration counts: no lazy fetching of a partial clone, no replace refs, no hooks, no question who owns it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from .errors import NothingToCheck, PinMismatch
from .pins import Pin, git_object_id
from .reading import LARGEST, Source

__all__ = ["GitSource", "find_objects", "git_environment", "run_git"]

# Of the caller's GIT_* variables only what says how to reach a server may pass, and only to a fetch.
_CONNECTION = ("GIT_ALLOW_PROTOCOL", "GIT_ASKPASS", "GIT_CONFIG", "GIT_HTTP", "GIT_PROXY", "GIT_SSH", "GIT_SSL")


def git_environment(environ: Mapping[str, str], *, home: Path | None = None) -> dict[str, str]:
    """Variables to run git with.

    Args:
        environ: The caller's variables.
        home: A folder that stands in for the user's, so that no configuration of user or system counts, and no
            transport is allowed; ``None``: for a fetch, which needs the user's proxies and the like.
    """
    clean = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or (home is None and name.startswith(_CONNECTION))
    }
    clean |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0"}
    if home is None:
        clean.setdefault("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
        clean.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
        return clean
    nothing = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull}
    return (
        clean
        | nothing
        | {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
        }
    )


def run_git(arguments: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start git.

    Raises:
        NothingToCheck: git is not installed.
    """
    try:
        return subprocess.Popen(["git", *arguments], **options)
    except FileNotFoundError:
        raise NothingToCheck(
            "git is not installed", next_step="install git, or give a plain folder with the upstream layout"
        ) from None


def find_objects(folder: Path) -> Path | None:
    """The object store of a repository: bare, with a ``.git`` folder, or a worktree's or submodule's ``.git`` file."""
    for candidate in (folder, folder / ".git"):
        place = _pointed(candidate, b"gitdir: ") if candidate.is_file() else candidate
        if place is None or not (place / "HEAD").is_file():
            continue
        common = place / "commondir"
        if common.is_file():
            place = _pointed(common, b"") or place
        if (place / "objects").is_dir():
            return (place / "objects").resolve()
    return None


def _pointed(file: Path, prefix: bytes) -> Path | None:
    with file.open("rb") as stream:
        text = stream.read(5000).rstrip(b"\r\n")
    if not text.startswith(prefix) or len(text) == 5000 or b"\0" in text:
        return None
    return file.parent / os.fsdecode(text.removeprefix(prefix))


class GitSource(Source):
    """The pinned commit of a git repository.

    Args:
        objects: The repository's object store; objects it borrows from others (alternates) are read too.
        pin: What may be read.
        place: Where the repository is, for messages.
        kind: ``git``, or ``cache`` for the cached one.

    Raises:
        NothingToCheck: the commit is not in the repository, or git is not installed.
        PinMismatch: the commit's bytes do not have the pinned id, or name another tree.
    """

    def __init__(self, objects: Path, pin: Pin, place: str, *, kind: str = "git") -> None:
        self.kind, self.place, self.pin, self.problems = kind, place, pin, {}
        self.label = f"{'cached git repository' if kind == 'cache' else 'git repository'} at {pin.commit[:12]}"
        self._objects = objects
        ((_, type_, commit),) = self._objects_of([pin.commit])
        if pin.commit in self.problems:
            raise self.problems[pin.commit]
        if commit is None:
            raise NothingToCheck(
                "the git repository lacks the pinned commit",
                where=place,
                expected=f"commit {pin.commit}",
                next_step=f"git fetch --depth 1 {pin.repository} {pin.commit} there, or traceaudit fetch",
            )
        found = git_object_id(type_, commit)
        tree = commit.partition(b"\n")[0].decode("ascii", "replace")
        for expected, got in ((f"commit {pin.commit}", f"{type_} {found}"), (f"tree {pin.tree}", tree)):
            if expected != got:
                raise PinMismatch(
                    "the commit is not the pinned one",
                    where=place,
                    expected=expected,
                    got=got,
                    next_step="run git fsck there, or use another repository",
                )

    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        self.problems.clear()
        paths = list(paths)
        known = [path for path in paths if path in self.pin.files]
        yield from ((path, None) for path in paths if path not in self.pin.files)
        ids = [self.pin.files[path].blob for path in known]
        for path, (id, type_, data) in zip(known, self._objects_of(ids), strict=True):
            if id in self.problems:
                problem = self.problems.pop(id)
                self._refuse(path, problem.what, expected=f"blob {id}", got=problem.got)
            elif data is not None and type_ != "blob":
                self._refuse(path, "the object is no file", expected=f"blob {id}", got=type_)
                data = None
            yield path, data

    def names(self) -> frozenset[str]:
        blobs = [file.blob for file in self.pin.files.values()]
        with self._git(["cat-file", "--batch-check"], blobs) as (output, _):
            there = {line.split()[0].decode() for line in output if line.split()[1:2] == [b"blob"]}
        return frozenset(path for path, file in self.pin.files.items() if file.blob in there)

    def listing(self, directory: str) -> tuple[str, ...]:
        return tuple(sorted(path for path in self.pin.files if path.rpartition("/")[0] == directory))

    def _git(self, arguments: list[str], ids: list[str]) -> _Borrowed:
        return _Borrowed(self._objects, arguments, ids)

    def _objects_of(self, ids: list[str]) -> Iterator[tuple[str, str, bytes | None]]:
        """(id, type, body) for each id in order; body ``None`` for absent ones and those that get a problem."""
        position = 0
        while position < len(ids):
            with self._git(["cat-file", "--batch", "--buffer"], ids[position:]) as (output, said):  # moves on each time
                while position < len(ids):
                    id = ids[position]
                    header = output.readline().split()
                    if len(header) != 3:  # absent, damaged, or git gave up
                        gave_up = header[1:] != [b"missing"]
                        message = said(wait=gave_up, about=id)
                        if gave_up or message:
                            self._refuse(id, "git cannot read the object", got=message or "no answer from git")
                        position += 1
                        yield id, "", None
                        if gave_up:
                            break
                        continue
                    size = int(header[2])
                    if size > LARGEST:
                        self._refuse(
                            id, "the object is too large", expected=f"at most {LARGEST:,} bytes", got=f"{size:,}"
                        )
                        position += 1
                        yield id, "", None
                        break
                    body = output.read(size + 1)
                    position += 1
                    if len(body) != size + 1:
                        self._refuse(id, "git cannot read the object", got=said(wait=True) or "a torn object")
                        yield id, "", None
                        break
                    yield id, header[1].decode(), body[:-1]


class _Borrowed:
    """A running git command on an empty repository that borrows an object store; ended and removed on exit."""

    def __init__(self, objects: Path, arguments: list[str], ids: list[str]) -> None:
        self._objects, self._arguments, self._ids = objects, arguments, ids

    def __enter__(self) -> tuple[IO[bytes], Callable[..., str]]:
        self._home = tempfile.TemporaryDirectory(prefix="traceaudit-git-")
        home = Path(self._home.name)
        try:
            (home / "HEAD").write_text("ref: refs/heads/none\n")
            (home / "refs").mkdir()
            asked = home / "asked"
            asked.write_text("".join(f"{id}\n" for id in self._ids))
            environment = git_environment(os.environ, home=home) | {
                "GIT_DIR": str(home),
                "GIT_OBJECT_DIRECTORY": str(self._objects),
            }
            with asked.open("rb") as stdin, (home / "said").open("wb") as stderr:
                self._process = run_git(
                    self._arguments, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, env=environment, cwd=home
                )
        except BaseException:
            self._home.cleanup()
            raise
        self._output = cast(IO[bytes], self._process.stdout)  # it is a pipe
        return self._output, self._said

    def _said(self, *, wait: bool = False, about: str = "") -> str:
        """Git's complaints so far (on ``wait``: until its end), only those naming an object if one is given."""
        if wait:
            self._output.close()
            self._process.wait()
        lines = (Path(self._home.name) / "said").read_text(encoding="utf-8", errors="replace").splitlines()
        hints = (about, f"{about[:2]}/{about[2:]}")
        return "; ".join(line for line in lines if wait or not about or any(hint in line for hint in hints))[:500]

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._output.close()
        self._process.wait()
        self._home.cleanup()
