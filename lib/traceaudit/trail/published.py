"""The figures that the paper prints, as pinned numbers, so that nothing published is typed into a chapter."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..committed import committed_bytes
from ..errors import PinMismatch

__all__ = ["TABLE5", "Published", "Row", "load"]

TABLE5: Mapping[str, str] = {
    "traces": "total traces",
    "spans": "total spans",
    "errors": "total errors",
    "error_spans": "unique error spans",
    "traces_with_error": "traces with an error",
}
"""Rows of Table 5: key -> wording in our tables."""


@dataclass(frozen=True)
class Row:
    """One judge of Table 1 on one split: weighted category F1, location accuracy, joint accuracy, rho."""

    model: str
    weighted_f1: float
    location: float
    joint: float
    rho: float


@dataclass(frozen=True)
class Published:
    """What is printed about one split.

    Attributes:
        paper: Where it is printed.
        rows: The judges of Table 1 that ran on this split, in the table's order.
        table5: key of :data:`TABLE5` -> printed count.
        abstract_percent: The headline percentage of the abstract.
        traces: Number of traces stated in prose, all splits.
        errors: Number of errors stated in prose, all splits.
    """

    paper: str
    rows: tuple[Row, ...]
    table5: Mapping[str, int]
    abstract_percent: float
    traces: int
    errors: int

    def best(self, column: str) -> Row:
        """The row with the highest ``joint``, ``location`` or ``weighted_f1``; the first of equals."""
        return max(self.rows, key=lambda row: getattr(row, column))


def load(folder: Path | None = None) -> dict[str, Published]:
    """Read ``trail-published.toml``, verified: split -> what is printed about it.

    Raises:
        PinMismatch: it differs from its committed digest, is not TOML, or a field is missing or malformed.
    """
    name = "trail-published.toml"
    body = committed_bytes(name, folder)
    try:
        data = tomllib.loads(body.decode("utf-8"))
        return {
            split: Published(
                paper=data["paper"],
                rows=tuple(Row(row["model"], *row[split]) for row in data["table1"] if split in row),
                table5={key: int(counts[key]) for key in TABLE5},
                abstract_percent=data["abstract_percent"],
                traces=data["traces"],
                errors=data["errors"],
            )
            for split, counts in data["table5"].items()
        }
    except (KeyError, TypeError, ValueError) as error:  # TOML errors are value errors
        raise PinMismatch(
            "the published figures cannot be read", where=name, got=f"{type(error).__name__}: {error}"
        ) from None
