"""How a benchmark is timed and where its row goes: all sides in turn within each round, rows into one table.

With TRACEAUDIT_WRITE_BENCHMARKS set (``make bench WRITE=1``), whatever was measured is written, also where it missed
its bound, so that no bad ratio is left out; rows that were not measured are kept and said to be of their own date. The
clock is the module's ``CLOCK``, by default that of the wall.
"""

from __future__ import annotations

import datetime
import gc
import os
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from traceaudit import benchmarks
from traceaudit.pins import data_pins, sha256_hex

from .scorers import Call

ROWS = pytest.StashKey[dict[str, list]]()
ENOUGH = 0.05  # seconds that a timing takes at least, by repeating the call


def pytest_configure(config):
    config.stash[ROWS] = {"ratio": [], "curve": []}


@pytest.fixture(autouse=True)
def clock(request) -> Callable[[], float]:
    """What tells the time, to us and to pytest-benchmark; before its own fixture, which reads the marker."""
    told = getattr(request.module, "CLOCK", time.perf_counter)
    request.node.add_marker(pytest.mark.benchmark(timer=told))
    return told


@pytest.fixture
def compare(benchmark, clock, request) -> Callable[..., float]:
    """Time two calls in turn, ``rounds`` times; the row is named after the test. Gives the median ratio."""

    def compare(
        long: Call,
        short: Call,
        *,
        compares: str,
        size: int,
        unit: str,
        rounds: int = 21,
        warm_up: int = 1,
        between: Call = gc.collect,
    ) -> float:
        shorter: list[float] = []

        def first() -> None:
            gc.collect()
            start = clock()
            short()
            shorter.append(clock() - start)
            between()

        benchmark.pedantic(long, setup=first, rounds=rounds, warmup_rounds=warm_up)
        ratios = [a / b for a, b in zip(benchmark.stats.stats.data, shorter[warm_up:], strict=True)]
        least, middle, most = (rounded(f(ratios), 3) for f in (min, statistics.median, max))
        name = request.node.originalname.removeprefix("test_")
        row = benchmarks.Ratio(name, compares, size, unit, rounds, middle, least, most)
        request.config.stash[ROWS]["ratio"].append(row)
        print(f"\n{name}: {middle}x ({least}x to {most}x over {rounds} rounds)")
        return middle

    return compare


@pytest.fixture
def scale(benchmark, clock, request) -> Callable[..., benchmarks.Fit]:
    """Time one call a size, all sizes in turn, ``rounds`` times; gives the fit."""

    def scale(
        calls: Sequence[Call], sizes: Sequence[int], *, name: str, engine: str, grows: str, corpus: str, rounds: int = 9
    ) -> benchmarks.Fit:
        repeats = [max(1, round(ENOUGH / timed(call, clock))) for call in calls]
        seconds: list[list[float]] = [[] for _ in calls]

        def turn() -> None:
            for kept, call, repeat in zip(seconds, calls, repeats, strict=True):
                kept.append(timed(call, clock, repeat))

        benchmark.pedantic(turn, rounds=rounds)
        base = statistics.median(seconds[0])
        middle, least, most = (
            tuple(rounded(f(kept) / base, 4) for kept in seconds) for f in (statistics.median, min, max)
        )
        memory = rounded(peak(calls[-1]) / peak(calls[0]), 3)
        row = benchmarks.Curve(name, engine, grows, corpus, rounds, tuple(sizes), middle, least, most, memory)
        request.config.stash[ROWS]["curve"].append(row)
        fitted = benchmarks.fit(row.sizes, row.times)
        print(
            f"\n{name}: exponent {fitted.exponent:.2f} ({fitted.low:.2f} to {fitted.high:.2f}) from {fitted.smallest} "
            f"to {fitted.largest}; {middle[-1]}x the time, {memory}x the memory at {sizes[-1] / sizes[0]:.0f}x the size"
        )
        return fitted

    return scale


def timed(call: Call, clock: Callable[[], float], repeat: int = 1) -> float:
    """Seconds a call."""
    gc.collect()
    start = clock()
    for _ in range(repeat):
        call()
    return (clock() - start) / repeat


def peak(call: Call) -> int:
    """The most bytes that Python objects took during a call, beyond what was there before."""
    call()  # whatever is kept from one call to the next is there now
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def rounded(number: float, digits: int) -> float:
    return float(f"{number:.{digits}g}")


def here() -> benchmarks.Run:
    """This machine, today."""
    return benchmarks.Run(
        date=datetime.date.today().isoformat(),
        cpu=processor(),
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
    )


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def pytest_sessionfinish(session):
    rows = session.config.stash.get(ROWS, {})
    if not os.environ.get("TRACEAUDIT_WRITE_BENCHMARKS") or not any(rows.values()):
        return
    path = data_pins() / benchmarks.TABLE
    former = benchmarks.decode(path.read_bytes()) if path.is_file() else None
    fresh = benchmarks.Table(here(), tuple(rows["ratio"]), tuple(rows["curve"]))
    path.write_bytes(benchmarks.encode(benchmarks.merge(former, fresh)))
    print(f'\nfor committed.toml: "{benchmarks.TABLE}" = "{sha256_hex(path.read_bytes())}"')
