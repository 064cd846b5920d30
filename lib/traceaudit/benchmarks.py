"""Benchmarks: what computing the report costs, from a table that ``make bench`` wrote.

Times belong to a machine and a day, so a page never takes them: the table keeps ratios and curves relative to their
own smallest size, with the machine and the date, and this reads it, fits the curves and makes them values.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .committed import committed_bytes
from .errors import PinMismatch
from .values import Value, count, measure, ratio, score, text

__all__ = ["TABLE", "Curve", "Fit", "Ratio", "Run", "Table", "benchmarks", "decode", "encode", "fit", "load", "merge"]

TABLE = "benchmarks.toml"
FEWEST_SIZES = 6
CONFIDENCE = 0.95
HEAD = """\
# What computing costs, as ratios; written by `make bench WRITE=1` and valid for the machine and day it names alone.
# times, least, most: median, smallest and largest over the rounds. A curve's are relative to its own smallest size;
# its memory is the peak at the largest size over the peak at the smallest. Scoring is counted in time of the processor,
# builds and chapters by the clock. A row with a run of its own was not measured in the last run and is kept from an
# earlier one.
"""

_Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*$")]
_Words = Annotated[str, Meta(min_length=1)]
_Whole = Annotated[int, Meta(ge=1)]
_Times = Annotated[float, Meta(gt=0)]


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When and where rows were measured.

    Attributes:
        date: ISO date.
        cpu: The processor's own name.
        cores: Number of processors.
        python: Version of the interpreter.
        platform: System and architecture.
    """

    date: str
    cpu: _Words
    cores: _Whole
    python: _Words
    platform: _Words

    def __post_init__(self) -> None:
        datetime.date.fromisoformat(self.date)

    @property
    def machine(self) -> str:
        """Everything but the date, as one phrase."""
        return f"{self.cpu}, {self.cores} cores, {self.platform}, Python {self.python}"


class Ratio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many times as long one thing takes as another; both were timed in turn within each round.

    Attributes:
        name: The benchmark's name.
        compares: What is compared with what, in words; the first is the numerator.
        size: How much both worked on.
        unit: What ``size`` counts.
        rounds: Number of rounds.
        times: Median of the ratios of the rounds.
        least: Smallest of them.
        most: Largest of them.
        run: Where it was measured, if not in the table's own run.
    """

    name: _Name
    compares: _Words
    size: _Whole
    unit: _Words
    rounds: _Whole
    times: _Times
    least: _Times
    most: _Times
    run: Run | UnsetType = UNSET

    def __post_init__(self) -> None:
        _spread(self.least, self.times, self.most)


class Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the time to score grows with one size of a synthetic corpus.

    Attributes:
        name: The benchmark's name.
        engine: The engine that scored.
        grows: What the sizes count.
        corpus: What else the corpus holds, in words.
        rounds: How often each size was timed.
        sizes: At least six, growing.
        times: Median time at each size, over that at the smallest.
        least: The shortest, over the same.
        most: The longest, over the same.
        memory: Peak memory at the largest size over that at the smallest.
        run: Where it was measured, if not in the table's own run.
    """

    name: _Name
    engine: _Name
    grows: _Words
    corpus: _Words
    rounds: _Whole
    sizes: Annotated[tuple[_Whole, ...], Meta(min_length=FEWEST_SIZES)]
    times: tuple[_Times, ...]
    least: tuple[_Times, ...]
    most: tuple[_Times, ...]
    memory: _Times
    run: Run | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not len(self.sizes) == len(self.times) == len(self.least) == len(self.most):
            raise ValueError("sizes, times, least and most differ in length")
        if any(a >= b for a, b in pairwise(self.sizes)):
            raise ValueError("the sizes do not grow")
        if self.times[0] != 1:
            raise ValueError("the first time is not 1, so the times are not relative to the smallest size")
        for point in zip(self.least, self.times, self.most, strict=True):
            _spread(*point)
        if not math.isfinite(self.memory):
            raise ValueError("memory is not finite")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table: the last run, and a row for each benchmark.

    Attributes:
        run: The last run.
        ratio: The ratios.
        curve: The scaling curves.
    """

    run: Run
    ratio: tuple[Ratio, ...] = ()
    curve: tuple[Curve, ...] = ()

    def __post_init__(self) -> None:
        names = [row.name for row in self.rows]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"a name occurs twice: {', '.join(twice)}")

    @property
    def rows(self) -> list[Ratio | Curve]:
        """All rows."""
        return [*self.ratio, *self.curve]

    def run_of(self, row: Ratio | Curve) -> Run:
        """Where a row was measured."""
        return self.run if row.run is UNSET else row.run


def _spread(least: float, times: float, most: float) -> None:
    if not (least <= times <= most < math.inf):
        raise ValueError(f"least, times and most must be finite and in this order, not {least}, {times}, {most}")


def decode(data: bytes) -> Table:
    """The table that these bytes of TOML hold.

    Raises:
        PinMismatch: they are no TOML, a field is missing, unknown or of the wrong type, or a row contradicts itself.
    """
    try:
        return msgspec.toml.decode(data, type=Table)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise PinMismatch(
            "the table of benchmarks cannot be read", where=TABLE, got=str(error), next_step="make bench WRITE=1"
        ) from None


def load(folder: Path | None = None) -> Table:
    """The committed table.

    Args:
        folder: The pins folder, by default the project's.

    Raises:
        PinMismatch: it differs from its digest, or is malformed.
    """
    return decode(committed_bytes(TABLE, folder))


def encode(table: Table) -> bytes:
    """The table as TOML; :func:`decode` gives it back."""
    lines = [HEAD, "[run]", *_fields(table.run)]
    for kind, rows in (("ratio", table.ratio), ("curve", table.curve)):
        for row in rows:
            lines += ["", f"[[{kind}]]", *_fields(row)]
            if row.run is not UNSET:
                lines += [f"[{kind}.run]", *_fields(row.run)]
    return ("\n".join(lines) + "\n").encode("utf-8")


def _fields(row: msgspec.Struct) -> list[str]:
    """One line a field; JSON's texts, numbers and lists are TOML's too, but for DEL, which TOML wants escaped."""
    held = {name: getattr(row, name) for name in row.__struct_fields__ if name != "run"}
    return [f"{name} = {json.dumps(value)}" for name, value in held.items()]


def merge(former: Table | None, fresh: Table) -> Table:
    """The fresh rows, and those of the former table that were not measured again, said to be of their own run.

    Rows keep the order of the former table; new ones follow. A kept row of the same day, machine and interpreter is of
    the same run.
    """
    if former is None:
        return fresh
    return Table(
        run=fresh.run,
        ratio=_merged(former, fresh.run, former.ratio, fresh.ratio),
        curve=_merged(former, fresh.run, former.curve, fresh.curve),
    )


def _merged(former: Table, run: Run, old: Sequence[Any], new: Sequence[Any]) -> tuple[Any, ...]:
    runs = {row.name: former.run_of(row) for row in old}
    rows = {
        row.name: msgspec.structs.replace(row, run=UNSET if runs[row.name] == run else runs[row.name]) for row in old
    }
    return tuple((rows | {row.name: row for row in new}).values())


@dataclass(frozen=True)
class Fit:
    """A power law fitted to the upper half of a curve.

    Attributes:
        exponent: Slope of the least-squares line through (log size, log time); ``None`` with fewer than two points.
        low: Lower end of its confidence interval, from its standard error; ``None`` with fewer than three points.
        high: Upper end.
        smallest: Smallest size that was fitted.
        largest: Largest size that was fitted.
        n: Number of points that were fitted.
    """

    exponent: float | None
    low: float | None
    high: float | None
    smallest: float
    largest: float
    n: int


def fit(sizes: Sequence[float], times: Sequence[float], *, confidence: float = CONFIDENCE) -> Fit:
    """Fit ``time = c * size ** exponent`` to the upper half of the sizes (of an odd number, the middle one included).

    The lower half is left out because a fixed cost per call bends it. The interval is the usual one of a regression
    (Student's t with n - 2 degrees of freedom times the standard error); it says how well the points lie on a line,
    not what another machine would give.

    Args:
        sizes: At least one, growing.
        times: As many, above zero.
        confidence: Share of intervals that hold the exponent, if scatter about the line is normal.
    """
    from scipy import stats

    first = len(sizes) // 2 if len(sizes) > 1 else 0
    x, y = [math.log(size) for size in sizes[first:]], [math.log(time) for time in times[first:]]
    exponent = low = high = None
    if len(x) > 1:
        line = stats.linregress(x, y)
        exponent = float(line.slope)
        if len(x) > 2:
            error = 0.0 if len(set(y)) == 1 else float(line.stderr)  # equal times leave SciPy's undefined
            half = float(stats.t.ppf((1 + confidence) / 2, len(x) - 2)) * error
            low, high = exponent - half, exponent + half
    return Fit(exponent, low, high, sizes[first], sizes[-1], len(x))


@measure()
def benchmarks(study: Any) -> Iterator[Value]:
    """The committed ratios and curves, and the exponent fitted to each curve; nothing of the study is used."""
    yield from values_of(load())


def values_of(table: Table) -> Iterator[Value]:
    """The values of a table: for each row its figures, spread, size and date, each named after the row."""
    yield text("benchmark_date", table.run.date, unit="date")
    yield text("benchmark_machine", table.run.machine)
    yield count("benchmark_ratios", len(table.ratio), "ratios")
    yield count("benchmark_curves", len(table.curve), "curves")
    yield count("benchmark_kept", sum(row.run is not UNSET for row in table.rows), "rows")
    for row in table.ratio:
        for field in ("times", "least", "most"):
            yield _ratio(f"{row.name}_{field}", getattr(row, field), row.rounds)
        yield count(f"{row.name}_size", row.size, row.unit)
        yield count(f"{row.name}_rounds", row.rounds, "rounds")
        yield from _run(row.name, table.run_of(row))
    for curve in table.curve:
        yield from _curve(curve)
        yield from _run(curve.name, table.run_of(curve))


def _curve(row: Curve) -> Iterator[Value]:
    name, fitted = row.name, fit(row.sizes, row.times)
    yield score(f"{name}_exponent", fitted.exponent, digits=2, unit="exponent", n=fitted.n)
    yield score(f"{name}_low", fitted.low, digits=2, unit="exponent", n=fitted.n)
    yield score(f"{name}_high", fitted.high, digits=2, unit="exponent", n=fitted.n)
    yield count(f"{name}_fitted_from", int(fitted.smallest), row.grows)
    yield count(f"{name}_fitted_to", int(fitted.largest), row.grows)
    yield _ratio(f"{name}_growth", row.sizes[-1] / row.sizes[0], None)
    yield _ratio(f"{name}_memory", row.memory, None)
    yield count(f"{name}_rounds", row.rounds, "rounds")
    yield count(f"{name}_sizes", len(row.sizes), "sizes")
    for place, size in enumerate(row.sizes):
        yield count(f"{name}_{place + 1}_size", size, row.grows)
        for field in ("times", "least", "most"):
            yield _ratio(f"{name}_{place + 1}_{field}", getattr(row, field)[place], row.rounds)


def _run(name: str, run: Run) -> Iterator[Value]:
    yield text(f"{name}_date", run.date, unit="date")
    yield text(f"{name}_machine", run.machine)


def _ratio(name: str, raw: float, n: int | None) -> Value:
    """A multiple with about three significant digits."""
    return ratio(name, raw, digits=0 if raw >= 100 else 1 if raw >= 10 else 2, n=n)
