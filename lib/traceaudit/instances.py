"""Chapter instances: which chapter runs on which split, on which page, and when it must run again.

``chapters/chapters.toml`` is the one list; the runner, the page checks and the test of ``_quarto.yml`` all read it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .errors import NothingToCheck, PinMismatch, UsageError

__all__ = ["Inputs", "Instance", "choose", "key_of", "load_chapters"]

NAME = re.compile(r"[a-z0-9][a-z0-9-]*\Z")
PAGE = "report/{name}-{split}.ipynb"
TIMEOUT = 300
FIELDS = {"name": str, "title": str, "splits": list, "page": str, "timeout": int, "last": bool}


@dataclass(frozen=True)
class Instance:
    """One chapter on one split.

    Attributes:
        chapter: The chapter's name; its source is ``chapters/<chapter>.ipynb``.
        split: One of those that ``chapters.toml`` names; ``all`` for a chapter with a single page.
        title: The page's title; the split's name is part of it.
        page: The executed copy, relative to the root, with forward slashes.
        timeout: Seconds for the whole chapter.
        last: Executed after the records of all others are written, because it counts them.
    """

    chapter: str
    split: str
    title: str
    page: str
    timeout: int = TIMEOUT
    last: bool = False

    @property
    def id(self) -> str:
        """``<chapter>.<split>``, as in the names of records."""
        return f"{self.chapter}.{self.split}"

    def __str__(self) -> str:
        return f"{self.chapter} {self.split}"

    def source(self, root: Path) -> Path:
        """Its source notebook."""
        return root / "chapters" / f"{self.chapter}.ipynb"


def load_chapters(path: Path) -> list[Instance]:
    """Read ``chapters.toml``: the instances in file order, those that run last at the end.

    Raises:
        NothingToCheck: there is no such file, or it lists no chapter.
        PinMismatch: it is not TOML, a field is missing, unknown or of the wrong type, a name, split or page occurs
            twice, or a page lies outside the root.
    """
    if not path.is_file():
        raise NothingToCheck("the list of chapters is absent", where=path.name, next_step="restore it")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(path, "is not TOML", got=str(error)) from None
    if unknown := set(data) - {"chapter", "splits"}:
        raise _wrong(path, "has an unknown key", expected="chapter, splits", got=", ".join(sorted(unknown)))
    rows, splits = data.get("chapter", []), data.get("splits", {})
    if not isinstance(splits, dict) or not all(NAME.match(k) and isinstance(v, str) for k, v in splits.items()):
        raise _wrong(path, "splits must map each split to the name it has in titles", got=repr(splits))
    if not isinstance(rows, list) or not rows:
        raise NothingToCheck("no chapter is listed", where=path.name, next_step="add a [[chapter]]")
    instances: list[Instance] = []
    for number, row in enumerate(rows, 1):
        instances += _instances(path, row, splits, f"chapter {row.get('name', number)}")
    for what in ("page", "id"):
        seen = [getattr(instance, what) for instance in instances]
        if twice := sorted({each for each in seen if seen.count(each) > 1}):
            raise _wrong(
                path, f"a {'page' if what == 'page' else 'chapter and split'} occurs twice", got=", ".join(twice)
            )
    return [i for i in instances if not i.last] + [i for i in instances if i.last]


def _instances(path: Path, row: Mapping[str, Any], splits: Mapping[str, str], where: str) -> list[Instance]:
    if unknown := set(row) - set(FIELDS):
        raise _wrong(path, f"{where} has an unknown key", expected=", ".join(FIELDS), got=", ".join(sorted(unknown)))
    if missing := {"name", "title", "splits"} - set(row):
        raise _wrong(path, f"{where} lacks a key", expected=", ".join(sorted(missing)))
    for key, value in row.items():
        if type(value) is not FIELDS[key]:
            raise _wrong(path, f"{where}: {key} has the wrong type", expected=FIELDS[key].__name__, got=repr(value))
    if not NAME.match(row["name"]):
        raise _wrong(path, f"{where}: a name is lower-case letters, digits and hyphens", got=repr(row["name"]))
    if not row["splits"] or any(split not in splits for split in row["splits"]):
        raise _wrong(path, f"{where} has an unknown split, or none", expected=", ".join(splits), got=str(row["splits"]))
    if row.get("timeout", TIMEOUT) <= 0:
        raise _wrong(path, f"{where}: the timeout must be positive", got=str(row["timeout"]))
    out = []
    for split in row["splits"]:
        try:
            page = row.get("page", PAGE).format(name=row["name"], split=split)
        except (KeyError, IndexError, ValueError) as error:
            raise _wrong(path, f"{where}: page may hold {{name}} and {{split}} only", got=str(error)) from None
        pure = PurePosixPath(page)
        inside = page == "index.ipynb" or (pure.parts[0] == "report" and len(pure.parts) == 2 and ".." not in page)
        if not inside or pure.suffix != ".ipynb":
            raise _wrong(path, f"{where}: a page is index.ipynb or report/*.ipynb", got=page)
        title = f"{row['title']}: {splits[split]}" if splits[split] else row["title"]
        out.append(Instance(row["name"], split, title, page, row.get("timeout", TIMEOUT), row.get("last", False)))
    return out


def _wrong(path: Path, what: str, *, expected: str = "", got: str = "") -> PinMismatch:
    return PinMismatch(what, where=path.name, expected=expected, got=got, next_step="correct the list of chapters")


def choose(instances: list[Instance], only: Iterable[str] | None) -> list[Instance]:
    """The instances named by chapter (all its splits), by page, or as ``<chapter>.<split>``; all without names.

    Raises:
        UsageError: a name fits none.
    """
    if only is None:
        return instances
    wanted = list(only)
    names = {i: {i.chapter, i.id, i.page, f"{i.chapter}-{i.split}"} for i in instances}
    if unknown := [name for name in wanted if not any(name in known for known in names.values())]:
        raise UsageError(
            "no such chapter",
            got=", ".join(unknown),
            expected=", ".join(dict.fromkeys(i.chapter for i in instances)),
            next_step="name a chapter, or <chapter>.<split>",
        )
    return [i for i in instances if names[i] & set(wanted)]


class Inputs:
    """Digests of everything a page depends on besides its own chapter and parameters.

    The library, everything under ``data-pins`` (records among it, since a page may recall them), the lock file and
    the interpreter's version.
    """

    def __init__(self, root: Path) -> None:
        here = Path(__file__).resolve().parent
        library = (root / "lib").resolve()
        trees = [library] if here.is_relative_to(library) else [library, here]
        lock = root / "requirements.lock"
        self._fixed = {
            "library": [tree_digest(tree) for tree in trees],
            "pins": tree_digest(root / "data-pins", leave_out="records"),
            "records": tree_digest(root / "data-pins" / "records"),
            "lock": hashlib.sha256(lock.read_bytes()).hexdigest() if lock.is_file() else "absent",
            "python": sys.version,
        }

    def differ_in_records_alone(self, other: Inputs) -> bool:
        """Whether nothing but records changed between two readings."""
        return {**self._fixed, "records": ""} == {**other._fixed, "records": ""}

    def key(self, root: Path, instance: Instance, parameters: Mapping[str, Any], extra: str) -> str:
        """The key of one instance: it changes exactly when something the page depends on does."""
        return key_of(instance.source(root), instance, parameters, {**self._fixed, "extra": extra})


def key_of(source: Path, instance: Instance, parameters: Mapping[str, Any], more: Mapping[str, Any]) -> str:
    """SHA-256 over the chapter's bytes, the instance, its parameters and ``more``.

    Raises:
        UsageError: the chapter's source is absent.
    """
    if not source.is_file():
        raise UsageError("a listed chapter has no source", where=source.name, next_step="correct chapters.toml")
    parts = {
        "source": hashlib.sha256(source.read_bytes()).hexdigest(),
        "instance": [instance.chapter, instance.split, instance.title, instance.page, instance.last],
        "parameters": dict(parameters),
        "more": dict(more),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode("utf-8")).hexdigest()


def tree_digest(top: Path, *, leave_out: str = "") -> str:
    """SHA-256 over the paths and bytes of all files below ``top``, compiled Python and hidden files apart.

    Args:
        top: The folder; an absent one is as good as an empty one.
        leave_out: A folder directly below it that does not count.
    """
    digest = hashlib.sha256()
    for path in sorted(top.rglob("*")):
        relative = path.relative_to(top)
        if (
            path.is_file()
            and relative.parts[0] != leave_out
            and not any(part == "__pycache__" or part.startswith(".") for part in relative.parts)
        ):
            content = path.read_bytes()
            digest.update(f"{relative.as_posix()}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
            digest.update(content)
    return digest.hexdigest()
