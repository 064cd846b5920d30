"""What a published trajectory corpus says of itself, as pinned figures, so that none is typed into a chapter.

The trajectories behind these figures cannot be read here, so they are facts about documents, each with its source;
whether they agree with each other is computed in ``published_checks``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..committed import committed_bytes
from ..errors import PinMismatch

__all__ = ["FILE", "Generation", "ModelRow", "Published", "PublishedRung", "Source", "load", "parse"]

FILE = "runs-published.toml"


@dataclass(frozen=True)
class Source:
    """A document: id, path in its repository, commit (empty where a reader counted it)."""

    id: str
    path: str
    commit: str


@dataclass(frozen=True)
class ModelRow:
    """One model of the published census; ``terminal_failure`` is over all its runs, steps are non-terminal ones."""

    model: str
    runs: int
    stamped: int
    share: float
    drop_percent: float
    steps: int
    red_steps: int
    terminal_failure: float

    @property
    def failed(self) -> int:
        """The only whole number of failed runs that the printed share allows (found by rounding)."""
        return round(self.terminal_failure * self.runs)


@dataclass(frozen=True)
class PublishedRung:
    """One rung of the published ladder; the last three are 97.5th percentiles of the three nulls."""

    min_share: float
    models: int
    n: int
    retained: float
    auroc: float
    delta: float
    length_only: float
    block_high: float
    family_high: float
    length_high: float


@dataclass(frozen=True)
class Generation:
    """An earlier state of the corpus; what was not published of it is None."""

    source: str
    runs: int
    steps: int
    stamped: int
    base: float
    auroc: float | None = None
    rungs: int | None = None
    lowest_share: float | None = None
    highest_share: float | None = None
    last_rung_percent: float | None = None
    null_top: float | None = None
    glm: tuple[int, int] | None = None
    qwen: tuple[int, int] | None = None


@dataclass(frozen=True)
class Published:
    """Everything pinned.

    Attributes:
        sources: By id.
        per_model: In the printed order.
        rungs: From the lowest cut up.
        generations: Oldest first.
        tables: The other tables by name (census, operating, as_shipped, continuous, probe, admissibility, capture,
            state, instrument, said, said_claim, ladder), each with the id of its ``source``.
    """

    sources: Mapping[str, Source]
    per_model: tuple[ModelRow, ...]
    rungs: tuple[PublishedRung, ...]
    generations: tuple[Generation, ...]
    tables: Mapping[str, Mapping[str, Any]]

    def source_of(self, table: str) -> Source:
        """Where a table comes from."""
        return self.sources[self.tables[table]["source"]]


_TABLES = (
    "census",
    "per_model",
    "ladder",
    "operating",
    "as_shipped",
    "continuous",
    "probe",
    "admissibility",
    "capture",
    "state",
    "instrument",
    "said",
    "said_claim",
)


def _generation(fields: dict[str, Any]) -> Generation:
    return Generation(**fields)


def parse(data: Mapping[str, Any]) -> Published:
    """The pinned figures from the parsed file.

    Raises:
        PinMismatch: a table or field is missing or malformed, or names a source that is not listed.
    """
    try:
        sources = {row["id"]: Source(**row) for row in data["source"]}
        out = Published(
            sources=sources,
            per_model=tuple(ModelRow(*row) for row in data["per_model"]["rows"]),
            rungs=tuple(PublishedRung(*row) for row in data["ladder"]["rows"]),
            generations=tuple(
                _generation({key: tuple(x) if isinstance(x, list) else x for key, x in row.items()})
                for row in data["generation"]
            ),
            tables={name: data[name] for name in _TABLES},
        )
        named = [table["source"] for table in out.tables.values()] + [row.source for row in out.generations]
        unknown = sorted(set(named) - set(sources))
    except (KeyError, TypeError, ValueError) as error:
        raise PinMismatch(
            "the published figures lack a field",
            where=FILE,
            got=f"{type(error).__name__}: {error}",
            next_step="restore it from version control",
        ) from None
    if unknown:
        raise PinMismatch("a table names a source that is not listed", where=FILE, got=", ".join(unknown))
    return out


def load(folder: Path | None = None) -> Published:
    """Read ``runs-published.toml``, verified against ``committed.toml``.

    Raises:
        PinMismatch: it differs from its committed digest, is not TOML, or a field is missing or malformed.
    """
    try:
        data = tomllib.loads(committed_bytes(FILE, folder).decode("utf-8"))
    except ValueError as error:  # TOML and Unicode errors
        raise PinMismatch("the published figures are not TOML", where=FILE, got=str(error)) from None
    return parse(data)
