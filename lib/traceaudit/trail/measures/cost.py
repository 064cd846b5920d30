"""Claim W9: how the time to score a malformed reply grows with its length, from a table that the benchmark wrote.

Times belong to a machine and a day, so they are not measured here: ``make bench`` measures them and writes the table,
and this reads it.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...claims import Finding, Verdict
from ...committed import committed_bytes
from ...errors import PinMismatch
from ...values import Value, count, measure, score, text
from ..study import Study

__all__ = ["LINEAR", "TABLE", "cost", "exponent", "load_table"]

TABLE = "trail-extraction-times.toml"
LINEAR = 1.3
"""An exponent up to this is taken for linear; measured times scatter."""


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float | None:
    """Slope of the least-squares line through (log size, log seconds); ``None`` with fewer than two sizes."""
    x, y = [math.log(size) for size in sizes], [math.log(second) for second in seconds]
    if len(set(x)) < 2:
        return None
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    above = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / math.fsum((a - mean_x) ** 2 for a in x)


def load_table(folder: Path | None = None) -> dict[str, Any]:
    """The committed timings: machine, date, and per engine the sizes in bytes and the seconds.

    Raises:
        PinMismatch: the table differs from its digest or lacks a field.
    """
    table = tomllib.loads(committed_bytes(TABLE, folder).decode("utf-8"))
    for engine in ("upstream", "independent"):
        rows = table.get(engine, {})
        if not rows.get("bytes") or len(rows["bytes"]) != len(rows.get("seconds", ())):
            raise PinMismatch("the timings lack sizes or seconds", where=f"{TABLE}, {engine}", next_step="make bench")
    return table


@measure()
def cost(study: Study) -> Iterator[Value | Finding]:
    """W9: the recorded times and the fitted exponent of each engine; LATENT where the scorer's is not linear.

    No published figure moves with the time that scoring takes, so the claim is never worse than LATENT.
    """
    table = load_table()
    yield text("cost_machine", table["machine"])
    yield text("cost_date", table["date"])
    fitted = {}
    for engine in ("upstream", "independent"):
        sizes, seconds = table[engine]["bytes"], table[engine]["seconds"]
        fitted[engine] = exponent(sizes, seconds)
        yield count(f"cost_{engine}_sizes", len(sizes), "sizes")
        for position, (size, second) in enumerate(zip(sizes, seconds, strict=True), 1):
            yield count(f"cost_{engine}_{position}_bytes", size, "bytes")
            yield Value(f"cost_{engine}_{position}_seconds", second, f"{second:.2g}", unit="seconds")
        yield score(f"cost_{engine}_exponent", fitted[engine], digits=2, unit="exponent", n=len(sizes))
    scorer = fitted["upstream"]
    largest, longest = table["upstream"]["bytes"][-1], table["upstream"]["seconds"][-1]
    yield Finding(
        "W9",
        Verdict.HELD if scorer is not None and scorer <= LINEAR else Verdict.LATENT,
        f"the time to look for the JSON of a malformed reply grows with the power {scorer:.2f} of its length, "
        f"{longest:.1f} seconds at {largest:,} bytes on the machine of the benchmark",
        ("cost_upstream_exponent",),
    )
