"""Pins: which files of somebody else's repository may be read, and how each one's bytes are verified.

A figure about a benchmark is worth no more than the certainty that it was computed from the bytes it names; so every
file is held against the git blob id of the pinned commit before anything is done with it.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from .errors import NothingToCheck, PinMismatch

__all__ = [
    "Corpus",
    "Pin",
    "PinnedFile",
    "corpus_digest",
    "data_pins",
    "gather",
    "git_blob_id",
    "git_object_id",
    "git_tree_id",
    "load_pin",
    "sha256_hex",
]

RESTORE = "restore data-pins/ from version control"
_HEADER = "path\tblob\tsize"
_TEXTS = ("name", "repository", "commit", "tree", "licence", "copyright")
_SHA1 = re.compile(r"[0-9a-f]{40}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def data_pins() -> Path:
    """The folder of committed pins: inside an installed wheel's package, or else at the repository's root."""
    packaged = Path(__file__).resolve().parent / "data-pins"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "data-pins"


def git_object_id(kind: str, body: bytes) -> str:
    """The id git gives an object: SHA-1 of ``<kind> <size>\\0`` and the body, in hexadecimal."""
    digest = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(body)), usedforsecurity=False)
    digest.update(body)
    return digest.hexdigest()


def git_blob_id(data: bytes) -> str:
    """The id under which git stores a file of these bytes."""
    return git_object_id("blob", data)


def sha256_hex(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def git_tree_id(blobs: Mapping[str, str]) -> str:
    """The id of the git tree made of these files and nothing else.

    Args:
        blobs: posix path -> blob id; every file an ordinary one (mode 100644).

    Returns:
        The root tree's id; that of the empty tree for no file.
    """
    files: dict[str, str] = {}
    folders: dict[str, dict[str, str]] = {}
    for path, blob in blobs.items():
        head, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(head, {})[rest] = blob
        else:
            files[head] = blob
    entries = [(name.encode(), b"100644", blob) for name, blob in files.items()]
    entries += [(name.encode(), b"40000", git_tree_id(inner)) for name, inner in folders.items()]
    entries.sort(key=lambda entry: entry[0] + (b"/" if entry[1] == b"40000" else b""))  # git's own order
    return git_object_id("tree", b"".join(b"%s %s\0" % (mode, name) + bytes.fromhex(id) for name, mode, id in entries))


@dataclass(frozen=True)
class PinnedFile:
    """One file of the pinned tree.

    Attributes:
        path: Posix path, relative to the tree's root.
        blob: Its git blob id.
        size: Its size in bytes, ``None`` where it is not known beforehand.
        sha256: Its SHA-256, where that is pinned too.
    """

    path: str
    blob: str
    size: int | None = None
    sha256: str | None = None

    def described(self) -> str:
        """The pinned facts as one phrase."""
        parts = [f"blob {self.blob}"]
        parts += [f"{self.size:,} bytes"] if self.size is not None else []
        parts += [f"SHA-256 {self.sha256}"] if self.sha256 else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Corpus:
    """The part of the tree that has a published digest of its own.

    Attributes:
        digest: The published SHA-256.
        paths: The files in the order in which the digest takes them.
        bytes: Their total size.
    """

    digest: str
    paths: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class Pin:
    """One repository at one commit.

    Attributes:
        name: Short lower-case name, also of its place in the cache.
        repository: Address it can be fetched from.
        commit: Commit id.
        tree: Id of the commit's root tree.
        licence: Licence of the repository.
        copyright: Year and holder.
        terms: What a reader must know before fetching, one sentence each.
        files: posix path -> :class:`PinnedFile`.
        corpus: The part with a published digest, if there is one.
        extra: The subject's own tables of the pin file.
        folder: Where the pin file lies.
    """

    name: str
    repository: str
    commit: str
    tree: str
    licence: str
    terms: tuple[str, ...]
    files: Mapping[str, PinnedFile]
    copyright: str = ""
    corpus: Corpus | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        """The files that are read: the corpus and whatever has a SHA-256; all of them where no corpus is named."""
        if self.corpus is None:
            return tuple(self.files)
        return self.corpus.paths + tuple(path for path, file in self.files.items() if file.sha256)

    def difference(self, path: str, data: bytes) -> PinMismatch | None:
        """How these bytes differ from the pinned file, or ``None`` if they do not."""
        file = self.files.get(path)
        if file is None:
            return PinMismatch(
                "no pinned file has this path", where=path, expected=f"one of the {len(self.files)} pinned files"
            )
        blob = git_blob_id(data)
        found = PinnedFile(path, blob, len(data), sha256_hex(data) if file.sha256 else None)
        if blob == file.blob and file.size in (None, found.size) and found.sha256 == file.sha256:
            return None
        step = "get the file again (traceaudit fetch), or find out who changed it"
        if b"\r\n" in data and git_blob_id(data.replace(b"\r\n", b"\n")) == file.blob:
            step = "only the line endings were converted: check it out with core.autocrlf=false"
        return PinMismatch(
            "the bytes differ from their pin",
            where=path,
            expected=file.described(),
            got=found.described(),
            next_step=step,
        )

    def verify(self, path: str, data: bytes) -> None:
        """Hold one file's bytes against the pin.

        Raises:
            PinMismatch: they differ, or no pinned file has this path.
        """
        problem = self.difference(path, data)
        if problem is not None:
            raise problem


def gather(problems: Iterable[PinMismatch]) -> PinMismatch | None:
    """Many mismatches as one error: the first in the headline, every other one listed; ``None`` for none."""
    problems = list(problems)
    if len(problems) < 2:
        return problems[0] if problems else None
    first = problems[0]
    others = [
        f"    {problem.where}: {problem.what}; expected {problem.expected}; found {problem.got}"
        for problem in problems[1:]
    ]
    return PinMismatch(
        f"{first.what} (and {len(others)} further file{'s' if len(others) > 1 else ''}, listed below)",
        where=first.where,
        expected=first.expected,
        got="\n".join([first.got, "  further:", *others]),
        next_step=first.next_step,
    )


def corpus_digest(pin: Pin, files: Mapping[str, str | bytes]) -> str | None:
    """The corpus digest by its published recipe.

    SHA-256 of one line ``<path>  <SHA-256 of the bytes>\\n`` for each corpus file, directory by directory in the pinned
    order, the files of each sorted by posix path (the recipe's source is named in the pin file).

    Args:
        pin: The pin.
        files: path -> the file's bytes or its SHA-256; others are ignored.

    Returns:
        The digest, or ``None`` while a single corpus file is missing (or the pin names no corpus).
    """
    if pin.corpus is None or not all(path in files for path in pin.corpus.paths):
        return None
    whole = hashlib.sha256()
    for path in pin.corpus.paths:
        known = files[path]
        whole.update(f"{path}  {sha256_hex(known) if isinstance(known, bytes) else known}\n".encode())
    return whole.hexdigest()


def load_pin(path: Path, *, extra: Iterable[str] = ()) -> Pin:
    """Read and check a pin file and the file list that it pins.

    Args:
        path: The ``.toml`` file; the list lies beside it.
        extra: Names of the subject's own tables, which must all be there and are handed on as they are.

    Raises:
        NothingToCheck: there is no such pin file.
        PinMismatch: a field is missing, unknown or malformed; or the file list is not the pinned one, holds a
            malformed or repeated entry, or does not make the pinned tree.
    """
    if not path.is_file():
        raise NothingToCheck("the pin file is absent", where=path.name, next_step=RESTORE)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PinMismatch("the pin file is not TOML", where=path.name, got=str(error), next_step=RESTORE) from None
    extra = tuple(extra)
    _fields(path.name, table, {"schema": int, "terms": list, "files": dict, **dict.fromkeys(_TEXTS, str)},
            optional={"sha256": dict, "corpus": dict}, tables=extra)  # fmt: skip
    _must(table["schema"] == 1, path.name, "schema", "1", table["schema"])
    for name in ("commit", "tree"):
        _must(_SHA1.match(table[name]), path.name, name, "40 hexadecimal digits", table[name])
    _must(re.fullmatch(r"[a-z][a-z0-9-]*", table["name"]), path.name, "name", "a lower-case name", table["name"])
    for name in ("repository", "licence"):
        _must(table[name].strip(), path.name, name, "a text that is not empty", table[name])
    terms = table["terms"]
    _must(terms and all(isinstance(line, str) and line.strip() for line in terms), path.name, "terms",
          "a list of sentences", terms)  # fmt: skip
    files = _file_list(path, table)
    return Pin(
        **{name: table[name] for name in _TEXTS},
        terms=tuple(terms),
        files=files,
        corpus=_corpus(path.name, table["corpus"], files) if "corpus" in table else None,
        extra={name: table[name] for name in extra},
        folder=path.parent,
    )


def _must(holds: Any, where: str, name: str, expected: str, got: Any) -> None:
    if not holds:
        raise PinMismatch(
            "a field is malformed", where=f"{where}, {name}", expected=expected, got=repr(got), next_step=RESTORE
        )


def _fields(
    where: str,
    table: Mapping[str, Any],
    required: Mapping[str, type],
    *,
    optional: Mapping[str, type] | None = None,
    tables: Iterable[str] = (),
) -> None:
    known = {**required, **(optional or {}), **dict.fromkeys(tables, dict)}
    for word, names in (
        ("unknown", sorted(set(table) - set(known))),
        ("missing", sorted({*required, *tables} - set(table))),
    ):
        if names:
            raise PinMismatch(
                f"a pin has {word} fields",
                where=where,
                expected=", ".join(sorted(known)),
                got=f"{word}: {', '.join(names)}",
                next_step=RESTORE,
            )
    for name, value in table.items():
        kind = known[name]
        right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        _must(right, where, name, f"a value of type {kind.__name__}", value)


def _file_list(path: Path, table: Mapping[str, Any]) -> dict[str, PinnedFile]:
    where, about = path.name, table["files"]
    _fields(f"{where}, files", about, {"list": str, "sha256": str, "count": int, "complete": bool})
    _must(about["list"] == PurePosixPath(about["list"]).name, where, "files.list", "a plain file name", about["list"])
    data = pinned_bytes(path.parent / about["list"], about["sha256"])
    lines = data.decode("utf-8", "replace").split("\n")
    name = about["list"]
    _must(lines[0] == _HEADER and lines[-1] == "", name, "line 1", repr(_HEADER), lines[0])
    shas = table.get("sha256", {})
    files: dict[str, PinnedFile] = {}
    for number, line in enumerate(lines[1:-1], start=2):
        cells = line.split("\t")
        right = len(cells) == 3 and _SHA1.match(cells[1]) and re.fullmatch(r"-|0|[1-9][0-9]{0,14}", cells[2])
        _must(right and _is_plain(cells[0]), name, f"line {number}", "path, blob id, size or -", line)
        _must(cells[0] not in files, name, f"line {number}", "every path once", cells[0])
        files[cells[0]] = PinnedFile(cells[0], cells[1], None if cells[2] == "-" else int(cells[2]), shas.get(cells[0]))
    _must(len(files) == about["count"], name, "number of files", str(about["count"]), len(files))
    for known, digest in shas.items():
        _must(known in files, where, f"sha256.{known}", "a path of the file list", known)
        _must(
            isinstance(digest, str) and _SHA256.match(digest), where, f"sha256.{known}", "64 hexadecimal digits", digest
        )
    if about["complete"]:
        tree = git_tree_id({path: file.blob for path, file in files.items()})
        if tree != table["tree"]:
            raise PinMismatch(
                "the file list does not make the pinned tree",
                where=name,
                expected=f"tree {table['tree']}",
                got=f"tree {tree}",
                next_step=RESTORE,
            )
    return files


def pinned_bytes(path: Path, sha256: str) -> bytes:
    """The bytes of a committed file that a pin file pins by SHA-256.

    Raises:
        PinMismatch: the file is absent, or its SHA-256 is another.
    """
    _must(_SHA256.match(sha256), path.name, "sha256", "64 hexadecimal digits", sha256)
    data = path.read_bytes() if path.is_file() else None
    found = "no such file" if data is None else f"SHA-256 {sha256_hex(data)}"
    if data is None or found != f"SHA-256 {sha256}":
        raise PinMismatch(
            "a committed file differs from its pin",
            where=path.name,
            expected=f"SHA-256 {sha256}",
            got=found,
            next_step=RESTORE,
        )
    return data


def _is_plain(path: str) -> bool:
    """Whether a path stays inside the tree on every system: relative, posix, no dots for folders, nothing odd in it."""
    parts = path.split("/")
    return all(part not in ("", ".", "..") for part in parts) and path.isprintable() and not set(path) & set("\\:")


def _corpus(where: str, about: Mapping[str, Any], files: Mapping[str, PinnedFile]) -> Corpus:
    _fields(f"{where}, corpus", about, {"digest": str, "files": int, "bytes": int, "directories": list})
    _must(_SHA256.match(about["digest"]), where, "corpus.digest", "64 hexadecimal digits", about["digest"])
    paths: list[str] = []
    for directory in about["directories"]:
        inside = sorted(path for path in files if path.startswith(f"{directory}/"))
        _must(inside, where, "corpus.directories", "directories of the file list", directory)
        paths += inside
    _must(len(set(paths)) == len(paths) == about["files"], where, "corpus.files", "the number of files", len(paths))
    return Corpus(about["digest"], tuple(paths), about["bytes"])
