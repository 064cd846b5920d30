"""Committed data files that no other pin covers, held to the digests in ``committed.toml``.

A claim or a published figure that changes by one byte must not pass for the one that was reviewed, so these files are
read through here alone.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from .errors import PinMismatch
from .pins import data_pins, sha256_hex

__all__ = ["LIST", "committed_bytes", "digests"]

LIST = "committed.toml"


def digests(folder: Path | None = None) -> dict[str, str]:
    """File name -> SHA-256, as committed.

    Raises:
        PinMismatch: the list is absent or not a table of texts.
    """
    path = (folder or data_pins()) / LIST
    try:
        listed = tomllib.loads(path.read_text(encoding="utf-8"))["sha256"]
    except (OSError, KeyError, ValueError) as error:
        raise PinMismatch(
            "the list of committed files cannot be read",
            where=path.name,
            got=f"{type(error).__name__}: {error}",
            next_step="restore it from version control",
        ) from None
    return {str(name): str(digest) for name, digest in listed.items()}


def committed_bytes(name: str, folder: Path | None = None) -> bytes:
    """The bytes of a listed file.

    Raises:
        PinMismatch: it is absent, not listed, or its SHA-256 is another.
    """
    path, wanted = (folder or data_pins()) / name, digests(folder).get(name, "none listed")
    data = path.read_bytes() if path.is_file() else None
    found = "no such file" if data is None else sha256_hex(data)
    if data is None or found != wanted:
        raise PinMismatch(
            "a committed file differs from its digest",
            where=name,
            expected=wanted,
            got=found,
            next_step=f"restore it, or, if it was changed on purpose, put its new digest into {LIST}",
        )
    return data
