"""The table of benchmarks: the fit, the reader, the writer and the values. Nothing here takes a time."""

from __future__ import annotations

import math
import random
import re
import tomllib

import msgspec
import pytest

from traceaudit import benchmarks
from traceaudit.benchmarks import Curve, Ratio, Run, Table, decode, encode, fit, merge, values_of
from traceaudit.committed import LIST
from traceaudit.errors import PinMismatch
from traceaudit.pins import data_pins, sha256_hex

from .bench import bench_builds, bench_engines, bench_scaling, synthetic

RUN = Run("2026-01-02", 'A "fast" processor \\ \x7f', 2, "3.11.9", "Linux x86_64")
EARLIER = Run("2025-12-24", "Another", 8, "3.12.1", "Darwin arm64")
SIZES = (10, 18, 32, 56, 100, 178)
POINTS = (1.0, 1.8, 3.2, 5.6, 10.0, 17.8)


def quick(name: str = "quick", times: float = 2.5, **more) -> Ratio:
    return Ratio(name, "this, against that", 148, "traces", 7, times, times / 2, times * 2, **more)


def growing(name: str = "grows", **more) -> Curve:
    given = {"sizes": SIZES, "times": POINTS, "least": POINTS, "most": POINTS, "memory": 12.5} | more
    return Curve(name, "independent", "traces", "two spans each", 5, **given)


TABLE = Table(RUN, (quick(), quick("slow", run=EARLIER)), (growing(), growing("other", run=EARLIER)))


# --- the fit


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.63, 2.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 40.0])
def test_a_known_exponent_is_recovered(exponent, scale):
    found = fit(SIZES, [scale * size**exponent for size in SIZES])
    assert found.exponent == pytest.approx(exponent, abs=1e-9)
    assert (found.low, found.high) == (pytest.approx(exponent, abs=1e-6), pytest.approx(exponent, abs=1e-6))


def test_the_lower_half_does_not_count():
    """A fixed cost bends it; wild times there change nothing."""
    sizes = [10, 20, 40, 80, 160, 320]
    wild = fit(sizes, [7.0, 0.1, 9.0, 80.0, 160.0, 320.0])
    assert (wild.smallest, wild.largest, wild.n) == (80, 320, 3)
    assert wild.exponent == pytest.approx(1.0)
    assert fit([*sizes, 640], [1.0] * 7).smallest == 80  # of seven, the middle one is fitted
    assert fit(sizes, [7.0, 0.1, 9.0, 80.0, 160.0, 640.0]).exponent > 1.2  # and the upper half does count


def test_the_interval_holds_the_exponent_about_as_often_as_it_says():
    draw, held, tries = random.Random(20260827), 0, 400
    sizes = [10 ** (place / 4) for place in range(9)]
    for _ in range(tries):
        found = fit(sizes, [size**1.2 * math.exp(draw.gauss(0, 0.1)) for size in sizes])
        held += found.low <= 1.2 <= found.high
    assert 0.91 <= held / tries <= 0.98


# sizes, times -> how many ends of the fit are undefined
FEW = [
    ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 0),  # three points
    ([1, 2, 3, 4], [1, 2, 3, 4], 2),  # two points: a line, and no scatter to judge it by
    ([1, 2], [1, 2], 3),  # one point
    ([1], [1], 3),
]


@pytest.mark.parametrize(("sizes", "times", "undefined"), FEW)
def test_with_too_few_points_the_fit_is_undefined(sizes, times, undefined):
    found = fit(sizes, times)
    assert [found.exponent, found.low, found.high].count(None) == undefined


# --- the writer and the reader


def test_what_is_written_is_read_back():
    assert decode(encode(TABLE)) == TABLE
    assert encode(decode(encode(TABLE))) == encode(TABLE)
    assert decode(encode(Table(RUN))) == Table(RUN)


def test_no_second_is_written():
    """The table holds ratios alone, under these fields."""
    data = tomllib.loads(encode(TABLE).decode())
    assert data["ratio"][0].keys() == {"name", "compares", "size", "unit", "rounds", "times", "least", "most"}
    assert data["curve"][1].keys() == {
        *("name", "engine", "grows", "corpus", "rounds", "sizes", "times", "least", "most", "memory", "run")
    }


# what is replaced in the bytes, by what -> words of the error
BROKEN = [
    ("[run]", "[run", "Expected"),  # no TOML
    ('date = "2026-01-02"', 'date = "yesterday"', "isoformat"),
    ('date = "2026-01-02"\n', "", "date"),  # a field is missing
    ("cores = 2", "cores = 0", "cores"),
    ("cores = 2", 'cores = "2"', "cores"),
    ("cores = 2", "cores = 2\nsockets = 1", "sockets"),  # one too many
    ('name = "quick"', 'name = "Quick one"', "regex"),
    ('name = "slow"', 'name = "quick"', "twice"),
    ('name = "other"', 'name = "quick"', "twice"),  # a curve named like a ratio
    ("times = 2.5", "times = 0.0", "times"),
    ("times = 2.5", "times = nan", "times"),
    ("times = 2.5", "times = 9.5", "in this order"),  # beyond its own spread
    ("most = 5.0", "most = inf", "finite"),
    ("memory = 12.5", "memory = inf", "finite"),
    ("memory = 12.5", "memory = -1.0", "memory"),
    ("sizes = [10, 18, 32, 56, 100, 178]", "sizes = [10, 18, 32, 56, 100]", "length"),  # too few
    ("sizes = [10, 18, 32, 56, 100, 178]", "sizes = [10, 18, 32, 56, 100, 178, 316]", "differ in length"),
    ("sizes = [10, 18,", "sizes = [10, 10,", "do not grow"),
    ("sizes = [10, 18,", "sizes = [10, 18.5,", "int"),
    ("[1.0, 1.8,", "[1.1, 1.8,", "not relative"),  # all three lists, so that the spread is right
    ("[[curve]]", "[[curves]]", "curves"),
]


@pytest.mark.parametrize(("old", "new", "words"), BROKEN)
def test_a_malformed_table_is_refused(old, new, words):
    data = encode(TABLE).decode()
    assert old in data
    with pytest.raises(PinMismatch, match=re.escape(words)) as caught:
        decode(data.replace(old, new).encode())
    assert caught.value.where == benchmarks.TABLE and "make bench" in caught.value.next_step


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(PinMismatch):
        decode(b"\xff\xfe")


def test_it_is_read_only_as_committed(tmp_path):
    data = encode(TABLE)
    (tmp_path / benchmarks.TABLE).write_bytes(data)
    (tmp_path / LIST).write_text(f'[sha256]\n"{benchmarks.TABLE}" = "{sha256_hex(data)}"\n')
    assert benchmarks.load(tmp_path) == TABLE
    (tmp_path / benchmarks.TABLE).write_bytes(data.replace(b"2.5", b"2.6"))
    with pytest.raises(PinMismatch, match="differs from its digest"):
        benchmarks.load(tmp_path)


def test_rows_not_measured_again_are_kept_and_keep_their_run():
    today = msgspec.structs.replace(RUN, date="2026-02-03")
    merged = merge(TABLE, Table(today, (quick(times=3.0), quick("new")), (growing("other"),)))
    assert [row.name for row in merged.ratio] == ["quick", "slow", "new"]
    runs = {row.name: merged.run_of(row) for row in (*merged.ratio, *merged.curve)}
    assert runs == {"quick": today, "slow": EARLIER, "new": today, "grows": RUN, "other": today}
    assert merged.ratio[0].times == 3.0
    assert decode(encode(merged)) == merged
    assert merge(None, TABLE) == TABLE
    again = merge(TABLE, Table(RUN, (quick(times=3.0),)))  # the same day and machine: nothing is kept from before
    assert [row.name for row in (*again.ratio, *again.curve) if row.run is not msgspec.UNSET] == ["slow", "other"]


# --- the values


def test_the_values_of_a_table():
    values = {value.name: value for value in values_of(TABLE)}
    shown = {
        "benchmark_date": "2026-01-02",
        "benchmark_kept": "2",
        "quick_times": "2.50x",
        "quick_least": "1.25x",
        "quick_most": "5.00x",
        "quick_size": "148",
        "quick_date": "2026-01-02",
        "slow_date": "2025-12-24",  # kept from another run
        "slow_machine": "Another, 8 cores, Darwin arm64, Python 3.12.1",
        "grows_exponent": "1.00",
        "grows_fitted_from": "56",
        "grows_fitted_to": "178",
        "grows_growth": "17.8x",
        "grows_memory": "12.5x",
        "grows_sizes": "6",
        "grows_6_size": "178",
        "grows_6_times": "17.8x",
        "grows_1_least": "1.00x",
    }
    assert {name: values[name].shown for name in shown} == shown
    assert (values["quick_times"].n, values["grows_exponent"].n) == (7, 3)
    assert (values["quick_size"].unit, values["grows_6_size"].unit) == ("traces", "traces")


@pytest.mark.parametrize(
    ("times", "shown"), [(0.5, "0.50x"), (9.99, "9.99x"), (10.04, "10.0x"), (99.5, "99.5x"), (123.0, "123x")]
)
def test_a_ratio_shows_three_digits(times, shown):
    assert next(v for v in values_of(Table(RUN, (quick(times=times),))) if v.name == "quick_times").shown == shown


def test_the_measure_asks_nothing_of_a_study():
    assert benchmarks.benchmarks.needs == frozenset()
    assert [value.name for value in benchmarks.benchmarks(None)] == [v.name for v in values_of(benchmarks.load())]


# --- the committed table, and the benchmarks themselves


def test_each_committed_row_is_a_benchmark_that_exists_and_each_benchmark_has_a_row():
    table = decode((data_pins() / benchmarks.TABLE).read_bytes())
    tests = {name for module in (bench_engines, bench_builds) for name in vars(module) if name.startswith("test_")}
    assert {f"test_{row.name}" for row in table.ratio} == tests
    assert {row.name for row in table.curve} == set(bench_scaling.NAMES)


def test_the_committed_curves_go_up_to_what_the_benchmarks_draw():
    for row in decode((data_pins() / benchmarks.TABLE).read_bytes()).curve:
        growth = synthetic.GROWTHS[row.name.removeprefix(f"{row.engine}_")]
        sizes = [growth.size(growth.shape(factor)) for factor in bench_scaling.FACTORS[row.engine]]
        assert (list(row.sizes), row.grows, row.corpus) == (sizes, growth.counts, growth.corpus)


@pytest.mark.parametrize("grows", synthetic.GROWTHS)
def test_a_curve_reaches_a_hundred_times_its_smallest_size(grows):
    growth = synthetic.GROWTHS[grows]
    sizes = [growth.size(growth.shape(factor)) for factor in bench_scaling.FACTORS["independent"]]
    assert sizes[-1] == 100 * sizes[0]


@pytest.mark.parametrize("grows", synthetic.GROWTHS)
def test_an_invented_corpus_has_its_shape_and_both_sides_parse(grows, tmp_path):
    shape = synthetic.GROWTHS[grows].shape(2)
    labels = tuple(f"label {letter}" for letter in "abcdefgh")
    for folder in ("one", "two"):
        synthetic.write(tmp_path / folder, shape, labels)
    for side, n in (("gold", shape.gold), ("replies", shape.predictions)):
        files = sorted((tmp_path / "one" / side).iterdir())
        assert len(files) == shape.traces
        for file in files:
            errors = msgspec.json.decode(file.read_bytes())["errors"]
            assert len({(error["location"], error["category"]) for error in errors}) == len(errors) == n
            assert file.read_bytes() == (tmp_path / "two" / side / file.name).read_bytes()  # same seed, same bytes
