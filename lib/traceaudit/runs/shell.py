"""Reading of shell commands: which of them ran git, which paths they staged, and whether they wrote a file.

An audit of captures has to know what an agent's command did to the index. A search for words finds ``git add`` in
quotes, comments and files that are being written; here a command line is taken apart as a shell does it, and where that
is not possible the reading says so and whoever uses it abstains.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from .shell_words import Command, split_script

__all__ = ["UNDO", "Add", "Reading", "read_script"]

UNDO = frozenset({"checkout", "restore", "reset", "stash", "revert", "clean"})
"""Subcommands of git that can take an edit back."""
_DEPTH = 5
_MOVES = frozenset({"cd", "pushd", "popd"})
_WRITERS = frozenset({"tee", "patch", "rm", "mv", "cp", "applypatch"})
_TOOLS = frozenset(
    {"edit", "create", "insert", "str_replace_editor", "str_replace_based_edit_tool", "edit_file", "write"}
)
"""Editing tools of scaffolds; what they do is not ``view`` writes."""
_GIT_WRITERS = frozenset({"apply", "am", "mv", "rm", "merge", "rebase", "cherry-pick", "pull"})
_SHELLS = frozenset({"bash", "sh", "dash", "zsh"})
_PYTHON = re.compile(r"(python|pypy)[0-9.]*\Z")
_IN_PLACE = {"sed": re.compile(r"-[nErsuz]*i|--in-place"), "perl": re.compile(r"-[0-9a-hj-zA-Z]*i")}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_WRAPPERS = {  # command: options of its own that take a value
    "sudo": frozenset({"-u", "-g", "-C"}),
    "env": frozenset({"-u", "-C", "-S"}),
    "command": frozenset(),
    "builtin": frozenset(),
    "exec": frozenset({"-a"}),
    "nohup": frozenset(),
    "time": frozenset({"-f", "-o"}),
    "nice": frozenset({"-n"}),
    "timeout": frozenset({"-s", "-k"}),
    "xargs": frozenset({"-I", "-n", "-P", "-d", "-L", "-a", "-E", "-s"}),
}
_GIT_VALUES = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})
_ADD_FLAGS = {"--all": "A", "--no-ignore-removal": "A", "--update": "u", "--intent-to-add": "N", "--dry-run": "n"}
_ADD_FLAGS |= {"--refresh": "n", "--patch": "p", "--interactive": "p", "--edit": "p", "--pathspec-from-file": "p"}


class Add(msgspec.Struct, frozen=True):
    """One ``git add`` that stages contents.

    Attributes:
        specs: Its pathspecs from the root of the repository; ``""`` is the whole of it.
        known: Whether it is known what was staged (not with ``-p``, ``xargs``, or in an unknown folder).
    """

    specs: tuple[str, ...]
    known: bool = True

    def covers(self, path: str) -> bool:
        """Whether a pathspec is the path, a folder that holds it, or a pattern that matches either."""
        if not self.known:
            return False
        parts = path.split("/")
        heads = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
        return any(not spec or any(_matches(spec, head) for head in heads) for spec in self.specs)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a script did to a git repository, as far as its text tells.

    Attributes:
        adds: Each ``git add`` that stages contents (``-N`` and ``--dry-run`` stage none).
        verbs: Subcommands of git that it ran.
        writes: Whether it holds a command that writes a file of the workspace.
        whole: Whether all of it could be read.
    """

    adds: tuple[Add, ...] = ()
    verbs: frozenset[str] = frozenset()
    writes: bool = False
    whole: bool = True

    @property
    def undoes(self) -> bool:
        """Whether it ran a subcommand that can take an edit back."""
        return bool(self.verbs & UNDO)

    @property
    def evidence(self) -> str:
        """Why a capture may be empty: ``staged``, ``committed``, ``stashed``, ``reverted`` or ``unexplained``."""
        if self.adds:
            return "staged"
        if "commit" in self.verbs:
            return "committed"
        if "stash" in self.verbs:
            return "stashed"
        return "reverted" if self.verbs & {"checkout", "reset", "restore"} else "unexplained"

    def stages(self, path: str) -> bool:
        """Whether the path was staged and nothing else here explains that it is gone from the worktree's diff."""
        return self.whole and not self.undoes and not self.writes and any(add.covers(path) for add in self.adds)


def _matches(spec: str, name: str) -> bool:
    if not any(mark in spec for mark in "*?["):
        return spec == name
    parts, names = spec.split("/"), name.split("/")
    return len(parts) == len(names) and all(map(fnmatch.fnmatchcase, names, parts))


@lru_cache(maxsize=4096)
def read_script(script: str, root: str = "/testbed") -> Reading:
    """Read what an agent's command line did.

    Quotes, comments, heredocs, lists, pipes, subshells, substitutions, ``cd``, ``git -C``, wrappers (``sudo``, ``env``,
    ``timeout`` …) and scripts given to ``bash -c``, ``eval`` or a heredoc of ``bash`` are followed. Not followed are
    aliases, scripts in files and variables.

    Args:
        script: The command line or lines.
        root: Folder of the repository; a script starts there.

    Returns:
        The reading. Text that ends inside a quote or a substitution is read as far as it goes and ``whole`` is False.
        A redirect to ``/dev`` or ``/tmp`` and one between streams writes no file of the workspace.
    """
    return _read(script, root, "", _DEPTH)


def _read(script: str, root: str, folder: str | None, depth: int) -> Reading:
    commands, whole = split_script(script)
    adds: list[Add] = []
    verbs: set[str] = set()
    writes = False
    stack: list[str | None] = []
    for command in commands:
        if command.kind == "open":
            stack.append(folder)
        elif command.kind == "close":
            folder = stack.pop() if stack else folder
        else:
            writes |= any(map(_is_file, command.outputs))
            words, wrapped = _unwrapped(command.words)
            if not words:
                continue
            name = posixpath.basename(words[0])
            if name in _MOVES:
                folder = None if name == "popd" else _inside(folder, words[1:], root)
            elif name == "git":
                verb, arguments, place = _git(words, folder, root)
                verbs |= {verb} if _acts(verb, arguments) else set()
                writes |= verb in _GIT_WRITERS and "--check" not in arguments and "--stat" not in arguments
                if verb in ("add", "stage") and (add := _add(arguments, place, root, wrapped == "xargs")):
                    adds.append(add)
            elif (inner := _script_of(name, words, command)) is not None:
                found = _read(inner, root, folder, depth - 1) if depth else Reading(whole=False)
                adds, verbs, writes = [*adds, *found.adds], verbs | found.verbs, writes or found.writes
                whole &= found.whole
            else:
                writes |= _writes(name, words, command)
    return Reading(adds=tuple(adds), verbs=frozenset(verbs), writes=writes, whole=whole)


def _is_file(target: str) -> bool:
    return not target.startswith(("/dev/", "/tmp/", "&"))


def _unwrapped(words: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The command without assignments and wrappers, and the last wrapper."""
    wrapped, at = "", 0
    while at < len(words):
        name = posixpath.basename(words[at])
        if _ASSIGNMENT.match(words[at]):
            at += 1
        elif name in _WRAPPERS:
            values, wrapped, at = _WRAPPERS[name], name, at + 1
            while at < len(words) and words[at].startswith("-"):
                at += 2 if words[at] in values else 1
            at += name == "timeout"
        else:
            break
    return words[at:], wrapped


def _script_of(name: str, words: tuple[str, ...], command: Command) -> str | None:
    """The script that a shell is given, where it is at hand."""
    if name == "eval":
        return " ".join(words[1:])
    if name not in _SHELLS:
        return None
    for at, word in enumerate(words[1:], 1):
        if re.match(r"-[a-z]*c\Z", word):
            return words[at + 1] if at + 1 < len(words) else ""
        if not word.startswith("-"):
            return None
    return command.stdin


def _writes(name: str, words: tuple[str, ...], command: Command) -> bool:
    if name in _TOOLS:
        return words[1:2] != ("view",)
    if name == "find":
        return "-delete" in words or any(posixpath.basename(word) in ("rm", "mv", "cp", "sed") for word in words)
    if _PYTHON.match(name):
        return "-c" in words or "-" in words or command.stdin is not None
    in_place = _IN_PLACE.get(name)
    return name in _WRITERS or (in_place is not None and any(map(in_place.match, words[1:])))


def _inside(folder: str | None, targets: Iterable[str], root: str) -> str | None:
    """The folder from the root after ``cd``; None where it is not known or is outside."""
    target = next((word for word in targets if not re.match(r"-[LPe@]*\Z", word) or word == "-"), None)
    if target is None or target == "-" or re.search(r"[$`~]", target):
        return None
    if target.startswith("/"):
        target = posixpath.normpath(target)
        if target != root and not target.startswith(f"{root}/"):
            return None
        return target[len(root) + 1 :]
    return None if folder is None else _joined(folder, target)


def _joined(folder: str, name: str) -> str | None:
    path = posixpath.normpath(posixpath.join(folder, name))
    return None if path.startswith("..") else "" if path == "." else path


def _git(words: tuple[str, ...], folder: str | None, root: str) -> tuple[str, tuple[str, ...], str | None]:
    """Subcommand, its arguments and the folder it works in, from the root (None: unknown)."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        option, value = words[at], words[at + 1 : at + 2]
        if option == "-C":
            folder = _inside(folder, value, root)
        if option.startswith(("--git-dir", "--work-tree")):
            folder = None
        at += 2 if option in _GIT_VALUES else 1
    return (words[at], words[at + 1 :], folder) if at < len(words) else ("", (), folder)


def _acts(verb: str, arguments: tuple[str, ...]) -> bool:
    if verb == "stash":
        return arguments[:1] not in (("list",), ("show",))
    return bool(verb) and not (verb in ("commit", "clean") and ("--dry-run" in arguments or "-n" in arguments[:1]))


def _add(arguments: tuple[str, ...], folder: str | None, root: str, from_stdin: bool) -> Add | None:
    """What ``git add`` stages; None where it stages nothing."""
    flags: set[str] = set()
    specs: list[str] = []
    only_paths = False
    for word in arguments:
        if only_paths or not word.startswith("-") or word == "-":
            specs.append(word)
        elif word == "--":
            only_paths = True
        elif word.startswith("--"):
            flags.add(_ADD_FLAGS.get(word.split("=")[0], ""))
        else:
            flags |= {{"i": "p", "e": "p"}.get(letter, letter) for letter in word[1:]}
    if flags & {"N", "n"}:
        return None
    excluding = any(spec.startswith((":!", ":^", ":(")) for spec in specs)
    if from_stdin or "p" in flags or excluding or folder is None:
        return Add((), known=False)
    return Add(tuple(_specs(specs, folder, root)) if specs else ("",))


def _specs(specs: list[str], folder: str, root: str) -> Iterator[str]:
    """Pathspecs from the root; one that cannot be told (a variable, a place outside) covers nothing and is left out."""
    for spec in specs:
        if spec.startswith(":/"):
            yield spec[2:].strip("/")
        elif spec == "*":
            yield folder
        elif (path := _inside(folder, [spec], root)) is not None:
            yield path
