"""What the committed data files hold, counted on every run rather than promised once.

The files in ``data-pins`` may hold identifiers, counts, digests and the benchmark's own label words; no gold label of a
trace, no trace text and no byte of a scorer. The counts let a reader see that.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Disclosed", "disclose"]

IDENTIFIER = re.compile(r"[0-9a-f]{16,64}")
_FIELDS = re.compile(r"[\t\n]")


@dataclass(frozen=True)
class Disclosed:
    """Counts of one committed file.

    Attributes:
        path: Relative to the pins folder.
        size: Bytes.
        strings: Distinct strings, keys included.
        identifiers: Those that are hexadecimal identifiers or digests of 16 to 64 digits.
        words: Those that are words of the benchmark (labels and gold spellings).
        long: Those of more than three words.
    """

    path: str
    size: int
    strings: int
    identifiers: int
    words: int
    long: int


def disclose(
    folder: Path, words: Collection[str], *, leave_out: Callable[[str], bool] = lambda _: False
) -> list[Disclosed]:
    """Count every file below a folder.

    Args:
        folder: The pins folder.
        words: The benchmark's own words.
        leave_out: Says of a relative path whether it is passed over (a page cannot count its own record).

    Returns:
        One row a file, sorted by path.
    """
    vocabulary = set(words)
    rows = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or leave_out(name):
            continue
        data = path.read_bytes()
        found = set(_strings(path.suffix, data.decode("utf-8", errors="replace")))
        rows.append(
            Disclosed(
                path=name,
                size=len(data),
                strings=len(found),
                identifiers=sum(IDENTIFIER.fullmatch(text) is not None for text in found),
                words=len(found & vocabulary),
                long=sum(len(text.split()) > 3 for text in found),
            )
        )
    return rows


def _strings(suffix: str, body: str) -> Iterator[str]:
    if suffix == ".json":
        yield from _walk(json.loads(body))
    elif suffix == ".toml":
        yield from _walk(tomllib.loads(body))
    else:
        yield from (field for field in _FIELDS.split(body) if field)


def _walk(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
