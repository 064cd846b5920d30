"""How long the JSON of a malformed reply is looked for, by length; with TRACEAUDIT_WRITE_TIMES=1 the table is written.

    TRACEAUDIT_SCORER_SOURCE=<source> TRACEAUDIT_WRITE_TIMES=1 make bench

The fitted exponent of the pinned scorer and of our engine is printed; the committed table is what the chapter shows.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import platform
import time
from pathlib import Path

import pytest

from traceaudit.trail import pin
from traceaudit.trail.extraction import extract
from traceaudit.trail.measures.cost import LINEAR, TABLE, exponent
from traceaudit.trail.upstream import UpstreamEngine

UPSTREAM_SIZES = (4_000, 8_000, 16_000, 32_000)
INDEPENDENT_SIZES = (125_000, 250_000, 500_000, 1_000_000, 2_000_000)
MOST_SECONDS = 60.0


def malformed(size: int) -> str:
    """A torn reply: an object with many errors whose last bracket never came, and a brace at the very end."""
    error = '{"category": "Goal Deviation", "location": "0123456789abcdef"}, '
    body = '{"errors": [' + error * (size // len(error) + 1)
    return body[: size - 1] + "}"


def timed(call, text: str, rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        with contextlib.suppress(ValueError):
            call(text)
        best = min(best, time.perf_counter() - start)
    return best


@pytest.mark.upstream
def test_time_against_length(root: Path, scorer_bytes: bytes):
    with UpstreamEngine(scorer_bytes, sha256=pin.load().scorer_sha256) as engine:
        with contextlib.suppress(ValueError):
            engine.extract("start {")
        theirs = [timed(engine.extract, malformed(size), 2) for size in UPSTREAM_SIZES]
    ours = [timed(extract, malformed(size), 9) for size in INDEPENDENT_SIZES]
    fitted = exponent(UPSTREAM_SIZES, theirs), exponent(INDEPENDENT_SIZES, ours)
    print(f"\nexponents: upstream {fitted[0]:.2f}, independent {fitted[1]:.2f}")
    assert sum(theirs) + sum(ours) < MOST_SECONDS
    assert fitted[1] <= LINEAR
    if os.environ.get("TRACEAUDIT_WRITE_TIMES"):
        write(root / "data-pins" / TABLE, theirs, ours)


def write(path: Path, theirs: list[float], ours: list[float]) -> None:
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python "
    machine += platform.python_version()
    lines = [
        "# Seconds to look for the JSON of a malformed reply, by its length; written by `make bench`, valid for that",
        "# machine and day alone. The claim it serves is about the exponent.",
        "",
        f'machine = "{machine}"',
        f'date = "{datetime.date.today().isoformat()}"',
    ]
    for engine, sizes, seconds in (("upstream", UPSTREAM_SIZES, theirs), ("independent", INDEPENDENT_SIZES, ours)):
        lines += ["", f"[{engine}]", f"bytes = {list(sizes)}", f"seconds = {[float(f'{s:.3g}') for s in seconds]}"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"SHA-256 for committed.toml: {hashlib.sha256(path.read_bytes()).hexdigest()}")
