"""Reading gold files: what the scorer's loader accepts, what it refuses, and where exactly a refusal sits.

A gold file is somebody else's data, so nothing in it raises: a file that does not parse, is no object or holds odd
JSON is described and counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

__all__ = ["Gold", "GoldFile", "merged_spellings", "parse_gold", "place"]

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(?=\s*[\]}])")


@dataclass(frozen=True)
class GoldFile:
    """One gold file as read.

    Attributes:
        trace: Trace id.
        value: The parsed JSON, ``None`` where it does not parse.
        problem: Why it does not parse, empty where it does; independent of the Python version.
        line: Line of the problem, 1-based, where there is one.
        column: Column of the problem, 1-based.
        oddities: What parses but is not plain JSON or not the expected shape, in words.
        repaired: The value after a trailing comma was removed, where that alone makes the file parse.
    """

    trace: str
    value: Any
    problem: str = ""
    line: int | None = None
    column: int | None = None
    oddities: tuple[str, ...] = ()
    repaired: Any = None

    @property
    def parses(self) -> bool:
        """Whether the scorer's loader reads the file at all."""
        return not self.problem

    @cached_property
    def errors(self) -> tuple[dict[str, Any], ...]:
        """The annotated errors that are objects; none where the file or its ``errors`` has another shape."""
        return tuple(_errors(self.value))

    @cached_property
    def errors_unread(self) -> tuple[dict[str, Any], ...]:
        """The errors of a file that only parses once its trailing comma is removed."""
        return tuple(_errors(self.repaired))


def _errors(value: Any) -> Iterator[dict[str, Any]]:
    found = value.get("errors") if isinstance(value, Mapping) else None
    if isinstance(found, list):
        yield from (error for error in found if isinstance(error, dict))


def parse_gold(trace: str, data: bytes) -> GoldFile:
    """Parse one gold file as ``json.load`` on a UTF-8 text file does, keeping what that loader passes over.

    Args:
        trace: Trace id.
        data: The file's bytes.

    Returns:
        The file; duplicate keys, numbers that are not finite and a wrong shape are ``oddities``, never errors.
    """
    oddities: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [key for key, n in Counter(key for key, _ in items).items() if n > 1]
        oddities.extend(f"key {key!r} occurs twice in one object" for key in twice)
        return dict(items)

    def constant(name: str) -> float:
        oddities.append(f"the number {name} is not JSON")
        return float(name)

    try:
        body = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return GoldFile(trace, None, f"not UTF-8 at byte {error.start}")
    try:
        value = json.loads(body, object_pairs_hook=pairs, parse_constant=constant)
    except RecursionError:
        return GoldFile(trace, None, "nested too deeply")
    except ValueError as error:
        return _unparsed(trace, body, error)
    if not isinstance(value, dict):
        oddities.append(f"the file is a {type(value).__name__}, not an object")
    elif not isinstance(value.get("errors"), list):
        oddities.append("'errors' is not a list")
    elif any(not isinstance(error, dict) for error in value["errors"]):
        oddities.append("an error is not an object")
    return GoldFile(trace, value, oddities=tuple(dict.fromkeys(oddities)))


def _unparsed(trace: str, body: str, error: ValueError) -> GoldFile:
    # Messages differ between Python versions, so a trailing comma is found by us: outside strings, before a bracket.
    masked = _STRING.sub(lambda match: "_" * len(match.group()), body)
    comma = _TRAILING_COMMA.search(masked)
    if comma is None:
        line, column = getattr(error, "lineno", None), getattr(error, "colno", None)
        return GoldFile(trace, None, "not JSON", line, column)
    line = body.count("\n", 0, comma.start()) + 1
    column = comma.start() - (body.rfind("\n", 0, comma.start()) + 1) + 1
    without, last = [], 0
    for match in _TRAILING_COMMA.finditer(masked):
        without.append(body[last : match.start()])
        last = match.end()
    try:
        repaired = json.loads("".join(without) + body[last:])
    except (ValueError, RecursionError):
        repaired = None
    return GoldFile(trace, None, "trailing comma", line, column, repaired=repaired)


class Gold(Mapping[str, GoldFile]):
    """The gold files of one split: trace id -> :class:`GoldFile`, with the counts that several measures share."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.bytes = dict(files)

    @cached_property
    def _files(self) -> dict[str, GoldFile]:
        return {trace: parse_gold(trace, data) for trace, data in sorted(self.bytes.items())}

    def __getitem__(self, trace: str) -> GoldFile:
        return self._files[trace]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @cached_property
    def parsed(self) -> dict[str, Any]:
        """trace id -> parsed JSON, ``None`` where the file does not parse."""
        return {trace: file.value for trace, file in self._files.items()}

    @cached_property
    def unread(self) -> tuple[GoldFile, ...]:
        """The files that do not parse."""
        return tuple(file for file in self._files.values() if not file.parses)

    def each_error(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every error of the files that parse, with its trace id."""
        for trace, file in self._files.items():
            for error in file.errors:
                yield trace, error

    @cached_property
    def error_count(self) -> int:
        """Number of errors in the files that parse."""
        return sum(len(file.errors) for file in self._files.values())

    @cached_property
    def spellings(self) -> Counter[str]:
        """How often each category text occurs; a category that is not text counts under its JSON form."""
        return Counter(_as_text(error.get("category")) for _, error in self.each_error())


def place(error: Mapping[str, Any]) -> str:
    """An error's location as text: itself where it is text, else its JSON form in brackets."""
    return _as_text(error.get("location"))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else f"({json.dumps(value, sort_keys=True)})"


def merged_spellings(golds: Iterable[Gold]) -> Counter[str]:
    """The spellings of several splits together."""
    total: Counter[str] = Counter()
    for gold in golds:
        total.update(gold.spellings)
    return total
