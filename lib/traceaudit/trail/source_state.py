"""What a source holds, in one verified digest and one line: the key of a page, and the first thing a build says."""

from __future__ import annotations

import hashlib

from .. import sources
from ..reading import SourceState
from . import pin
from .study import REAL_SPLITS

__all__ = ["source_state"]


def source_state(source: str | None = None) -> SourceState:
    """Verify every pinned file that the source holds and say what is there and how to get the rest.

    Raises:
        NothingToCheck: a source was named and is not there.
        PinMismatch: bytes differ from their pin.
    """
    pinned = pin.load()
    found = sources.find_source(source, pinned.pin)
    if found is None:
        return SourceState(
            "none",
            "TRAIL: no source; real splits show their records. For the data: make report FETCH=1, or SOURCE=DIR",
        )
    groups = {
        "scorer": [pinned.scorer_path],
        "gold files": [path for split in REAL_SPLITS for path in pinned.gold_paths(split)],
        "traces": [path for split in REAL_SPLITS for path in pinned.trace_paths(split)],
    }
    held: list[str] = []
    parts = []
    for name, paths in groups.items():
        there = sources.read_verified(found, pinned.pin, paths).files
        held += sorted(there)
        parts.append(f"{name} {len(there)} of {len(paths)}")
    complete = len(held) == sum(map(len, groups.values()))
    rest = "" if complete else "; for the rest: make report FETCH=1"
    digest = hashlib.sha256("\n".join(held).encode()).hexdigest()
    return SourceState(digest, f"TRAIL, {found.label}, all verified: {', '.join(parts)}{rest}")
