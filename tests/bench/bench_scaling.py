"""How the time to score grows with traces, with spans of a trace and with errors of a reply, on invented corpora.

The independent engine up to a hundred times the real corpus; the pinned scorer, where its bytes are, up to thirty.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from traceaudit.trail import pin

from . import synthetic
from .scorers import Call, independent, upstream

CLOCK = time.process_time
GROWS = tuple(synthetic.GROWTHS)
FACTORS = {"independent": synthetic.factors(100, 9), "upstream": synthetic.factors(30, 7)}
NAMES = tuple(f"{engine}_{grows}" for engine in FACTORS for grows in GROWS)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Gone after the test: the largest corpora take some hundred megabytes."""
    with tempfile.TemporaryDirectory(prefix="traceaudit-bench-") as name:
        yield Path(name)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("grows", GROWS)
def test_independent(grows, folder, scale):
    run(grows, "independent", independent, folder, scale)


@pytest.mark.upstream
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("grows", GROWS)
def test_upstream(grows, folder, scale, scorer_bytes):
    run(grows, "upstream", lambda files: upstream(files, scorer_bytes), folder, scale)


def run(grows: str, engine: str, open_engine: Callable[[Path], Call], folder: Path, scale) -> None:
    growth = synthetic.GROWTHS[grows]
    shapes = [growth.shape(factor) for factor in FACTORS[engine]]
    sizes = [growth.size(shape) for shape in shapes]
    for size, shape in zip(sizes, shapes, strict=True):
        synthetic.write(folder / str(size), shape, pin.taxonomy())
    calls = [open_engine(folder / str(size)) for size in sizes]
    scale(calls, sizes, name=f"{engine}_{grows}", engine=engine, grows=growth.counts, corpus=growth.corpus)
