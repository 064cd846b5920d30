"""Stored records and the list of their digests, so that one changed byte of a record is not shown as a result.

Where nothing can be measured a page shows its record; then nothing else would notice that the record was altered.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path

from .errors import PinMismatch
from .records import Record, load, path_of

__all__ = ["DIGESTS", "digests", "dump_digests", "stored"]

DIGESTS = "data-pins/records/digests.toml"


def digests(root: Path) -> dict[str, str]:
    """Record file -> SHA-256, from ``data-pins/records/digests.toml``; empty where there is no such list.

    Raises:
        PinMismatch: the list is not a table of texts.
    """
    path = root / DIGESTS
    if not path.is_file():
        return {}
    try:
        listed = tomllib.loads(path.read_text(encoding="utf-8"))["sha256"]
        return {str(name): str(digest) for name, digest in listed.items()}
    except (KeyError, AttributeError, ValueError) as error:
        raise PinMismatch(
            "the list of records cannot be read", where=path.name, got=str(error), next_step="restore the file"
        ) from None


def dump_digests(listed: Mapping[str, str]) -> bytes:
    """The bytes of ``digests.toml``."""
    head = "# SHA-256 of every stored record, written with them by `traceaudit build --record`.\n\n[sha256]\n"
    return (head + "".join(f'"{name}" = "{digest}"\n' for name, digest in sorted(listed.items()))).encode()


def stored(chapter: str, split: str, root: Path) -> Record:
    """A stored record whose bytes are those that were written with the list of records.

    Raises:
        NothingToCheck: there is no such record.
        PinMismatch: it is not well-formed, or its bytes are not those listed.
    """
    path = path_of(chapter, split, root)
    record = load(path)
    wanted, found = digests(root).get(path.name, "none listed"), hashlib.sha256(path.read_bytes()).hexdigest()
    if found != wanted:
        raise PinMismatch(
            "a stored record differs from its digest",
            where=path.name,
            expected=wanted,
            got=found,
            next_step="restore it, or write it anew with `traceaudit build --record`",
        )
    return record
