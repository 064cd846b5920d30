"""One comparison of a published figure with what other figures make of it.

Kept apart so that every list of checks, whatever it is about, gives rows of one shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "Kind", "near", "same"]

Kind = Literal[
    "sum", "share", "operating point", "ladder", "capture", "admissibility", "history", "sentence", "expectation"
]
Raw = int | float | str


@dataclass(frozen=True)
class Check:
    """One comparison of a published figure with what other published figures make of it.

    Attributes:
        id: Its permanent name.
        kind: What sort of comparison it is.
        says: What the published figure is said to be.
        published: The figure as published; for an ``expectation``, which is printed nowhere, what a reader would
            assume.
        computed: The same from the others.
        agrees: They are equal as far as the digits printed allow.
        note: How it was computed and what follows.
    """

    id: str
    kind: Kind
    says: str
    published: Raw
    computed: Raw
    agrees: bool
    note: str


def same(id: str, kind: Kind, says: str, published: int, computed: int, note: str) -> Check:
    """Agrees where both are equal."""
    return Check(id, kind, says, published, computed, published == computed, note)


def near(
    id: str, kind: Kind, says: str, published: float, computed: float, digits: int, note: str, slack: float = 0.0
) -> Check:
    """Agrees where rounding to ``digits`` explains the difference; ``slack`` is what rounded inputs add."""
    return Check(
        id, kind, says, published, computed, abs(computed - published) <= 0.5 * 10**-digits + slack + 1e-9, note
    )
