"""Claims, verdicts and findings: a sentence fixed beforehand, what became of it, and the values that prove it.

Only a measure writes a verdict. A claim says when it was fixed and what was known then, since a claim fixed after the
first look is worth less than one fixed before it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from .committed import committed_bytes
from .errors import PinMismatch, ValueProblem

__all__ = ["Claim", "Definition", "Finding", "Verdict", "combine", "load_claims", "load_definitions"]


class Verdict(StrEnum):
    """What became of a claim."""

    HELD = "HELD"
    VIOLATED = "VIOLATED"  # it fails, and a published number moves
    LATENT = "LATENT"  # it fails, and nothing on this data moves
    NOT_MEASURED = "NOT MEASURED"  # with the reason


@dataclass(frozen=True)
class Claim:
    """A sentence fixed in ``data-pins/claims.toml``.

    Attributes:
        id: Short permanent name, such as ``P1``.
        subject: The package the claim belongs to.
        sentence: The property, as a sentence that can fail.
        title: A few words for tables.
        fixed: ISO date at which the wording was fixed.
        kind: ``replication`` (results known from earlier work), ``preregistered`` or ``exploration``.
        known: What was known of the result when the claim was fixed.
        chapter: The chapter that measures it.
    """

    id: str
    subject: str
    sentence: str
    title: str
    fixed: str
    kind: str
    known: str
    chapter: str


@dataclass(frozen=True)
class Finding:
    """A claim's verdict with its size and its evidence.

    Attributes:
        id: The claim's id.
        verdict: One of :class:`Verdict`.
        magnitude: How far off it is, a sentence built from values (for NOT MEASURED: the reason).
        values: Names of the values that prove it.
        per_split: The findings of the single splits, where this one combines several.
        measure: Name of the measure that wrote it, so that a page can recall it.
        mode: ``measured`` or ``recalled``.
    """

    id: str
    verdict: Verdict
    magnitude: str
    values: tuple[str, ...] = ()
    per_split: Mapping[str, Finding] | None = None
    measure: str = ""
    mode: str = "measured"

    def as_json(self) -> dict[str, Any]:
        """The stored form, without ``mode``."""
        out: dict[str, Any] = {
            "verdict": str(self.verdict),
            "magnitude": self.magnitude,
            "values": list(self.values),
        }
        if self.measure:
            out["measure"] = self.measure
        if self.per_split is not None:
            out["per_split"] = {split: part.as_json() for split, part in self.per_split.items()}
        return out

    @classmethod
    def from_json(cls, id: str, data: Mapping[str, Any], *, mode: str = "measured") -> Finding:
        """Rebuild a finding from its stored form."""
        parts = data.get("per_split")
        return cls(
            id=id,
            verdict=Verdict(data["verdict"]),
            magnitude=data["magnitude"],
            values=tuple(data["values"]),
            per_split=None
            if parts is None
            else {split: cls.from_json(id, part, mode=mode) for split, part in parts.items()},
            measure=data.get("measure", ""),
            mode=data.get("mode", mode),
        )

    def prefixed(self, prefix: str) -> Finding:
        """The same finding with its values under ``<prefix>_<name>``."""
        return replace(self, values=tuple(f"{prefix}_{name}" for name in self.values))


# A combined verdict is the gravest of its parts; a part that could not be measured outweighs one that held.
_GRAVITY = (Verdict.VIOLATED, Verdict.LATENT, Verdict.NOT_MEASURED, Verdict.HELD)


def combine(
    parts: Mapping[str, Finding], magnitude: str | None = None, *, names: Mapping[str, str] | None = None
) -> Finding:
    """One finding over several splits: the gravest verdict, all values, the parts kept.

    Args:
        parts: split -> finding of the same claim, values already prefixed; at least one.
        magnitude: The sentence for the whole; by default the parts' sentences, each with its split.
        names: How a split is called in that sentence; by default as its key.

    Raises:
        ValueProblem: no part, or parts of different claims.
    """
    ids = {part.id for part in parts.values()}
    if len(ids) != 1:
        raise ValueProblem("findings of one claim are needed", got=", ".join(sorted(ids)) or "none")
    verdict = next(v for v in _GRAVITY if any(part.verdict == v for part in parts.values()))
    said = "; ".join(f"{(names or {}).get(split, split)}: {part.magnitude}" for split, part in parts.items())
    values = tuple(name for part in parts.values() for name in part.values)
    return Finding(ids.pop(), verdict, magnitude or said, tuple(dict.fromkeys(values)), per_split=dict(parts))


@dataclass(frozen=True)
class Definition:
    """A way of counting that was fixed before anything was counted with it.

    Attributes:
        id: Its permanent name.
        row: What it counts.
        says: The rule, in words.
    """

    id: str
    row: str
    says: str


def load_definitions(folder: Path | None = None) -> dict[str, Definition]:
    """Read the counting definitions of ``claims.toml``, verified: id -> definition, in file order.

    Raises:
        PinMismatch: as :func:`load_claims`.
    """
    return {row["id"]: Definition(**row) for row in _rows("definition", Definition, folder)}


def load_claims(*, subjects: Iterable[str] | None = None, folder: Path | None = None) -> dict[str, Claim]:
    """Read ``claims.toml``, verified: id -> claim, in file order.

    Args:
        subjects: Keep only these subjects' claims.
        folder: The folder of pins; by default the committed one.

    Raises:
        PinMismatch: it differs from its committed digest, is not TOML, a field is missing, unknown or empty, or an id
            occurs twice.
    """
    claims = {row["id"]: Claim(**row) for row in _rows("claim", Claim, folder)}
    wanted = None if subjects is None else set(subjects)
    return {id: claim for id, claim in claims.items() if wanted is None or claim.subject in wanted}


def _rows(table: str, kind: type[Claim | Definition], folder: Path | None) -> list[dict[str, str]]:
    name = "claims.toml"
    try:
        rows: list[dict[str, str]] = tomllib.loads(committed_bytes(name, folder).decode("utf-8")).get(table, [])
    except ValueError as error:  # TOML and Unicode errors
        raise PinMismatch("the claims are not TOML", where=name, got=str(error), next_step="restore the file") from None
    expected = {field.name for field in fields(kind)}
    seen: set[str] = set()
    for row in rows:
        if set(row) != expected or not all(isinstance(value, str) and value.strip() for value in row.values()):
            raise PinMismatch(
                f"a {table} needs exactly these fields, none empty",
                where=f"{name}, {table} {row.get('id', len(seen) + 1)}",
                expected=", ".join(sorted(expected)),
                got=", ".join(sorted(row)),
            )
        if row["id"] in seen:
            raise PinMismatch(f"a {table} id occurs twice", where=f"{name}, {table} {row['id']}")
        seen.add(row["id"])
    return rows
