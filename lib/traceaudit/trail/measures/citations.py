"""Lines of the pinned scorer that the report cites, as values: prose names a line and never types its number."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ... import guards
from ...committed import committed_bytes
from ...errors import PinMismatch
from ...values import Value, count, measure
from ..study import Study

__all__ = ["citations", "citations_held", "load_lines"]

FIELDS = {"name", "number", "digest", "says"}


def load_lines(folder: Path | None = None) -> list[dict[str, Any]]:
    """The rows of ``trail-lines.toml``, verified: name, number, digest of the stripped line, what stands there.

    Raises:
        PinMismatch: it differs from its committed digest, is not TOML, or a row has other fields.
    """
    name = "trail-lines.toml"
    body = committed_bytes(name, folder)
    try:
        rows = tomllib.loads(body.decode("utf-8"))["line"]
    except (KeyError, ValueError) as error:
        raise PinMismatch("the cited lines cannot be read", where=name, got=str(error)) from None
    for row in rows:
        if set(row) != FIELDS:
            raise PinMismatch(
                "a cited line needs exactly these fields",
                where=f"{name}, {row.get('name', '?')}",
                expected=", ".join(sorted(FIELDS)),
                got=", ".join(sorted(row)),
            )
    return rows


@measure()
def citations(study: Study) -> Iterator[Value]:
    """Each cited line as ``line_<name>``, shown as "line 54"."""
    for row in load_lines():
        yield Value(f"line_{row['name']}", row["number"], f"line {row['number']}", unit="of the pinned scorer")


@measure(needs={"scorer"})
def citations_held(study: Study) -> Iterator[Value]:
    """How many cited lines are what their digest says, in the scorer's bytes at hand.

    Raises:
        PinMismatch: one of them is not.
    """
    rows = load_lines()
    cited = [{key: row[key] for key in ("name", "number", "digest")} for row in rows]
    problems = guards.check_lines("trail-lines.toml", cited, study.scorer)
    if problems:
        raise PinMismatch(
            "a cited line is not what its digest says",
            where="trail-lines.toml",
            got="; ".join(str(problem) for problem in problems[:3]),
            next_step="correct the number or the digest",
        )
    yield count("lines_cited", len(rows), "lines")
    yield count("lines_held", len(rows) - len(problems), "lines", n=len(rows))
