"""Sampling: the draw, its power against a reference, and what replaying says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.stats import hypergeom

from traceaudit.errors import UsageError
from traceaudit.runs import sampling, toy
from traceaudit.runs.schema import NOT_MEASURED, Outcome, Run

IDS = [f"run-{number}" for number in range(30)]


def test_sample_is_seeded_and_has_no_order() -> None:
    drawn = sampling.sample(IDS, 5, 1)
    assert drawn == sampling.sample(reversed(IDS + IDS), 5, 1)
    assert len(set(drawn)) == 5
    assert drawn != sampling.sample(IDS, 5, 2)
    assert sampling.sample(IDS, 9, 1)[:5] == drawn  # a larger sample holds the smaller one


@pytest.mark.parametrize("size", [-1, 31])
def test_sample_of_impossible_size(size: int) -> None:
    with pytest.raises(UsageError):
        sampling.sample(IDS, size, 0)


def test_sample_is_even() -> None:
    """Every run is drawn about as often as any other: 3,000 draws of 3 of 30, expected 300 each."""
    counts = dict.fromkeys(IDS, 0)
    for seed in range(3000):
        for name in sampling.sample(IDS, 3, seed):
            counts[name] += 1
    assert min(counts.values()) > 230 and max(counts.values()) < 370


@given(st.integers(1, 400), st.data())
def test_chance_is_the_hypergeometric_one(total: int, data: st.DataObject) -> None:
    forged = data.draw(st.integers(0, total))
    size = data.draw(st.integers(0, total))
    exact = sampling.chance(total, forged, size)
    assert exact == pytest.approx(1 - hypergeom.pmf(0, total, forged, size), abs=1e-10)
    assert exact >= sampling.chance_of_share(forged / total, size) - 1e-12


@pytest.mark.parametrize(
    ("total", "forged", "size", "expected"),
    [
        (10, 0, 10, 0.0),  # nothing forged
        (10, 3, 0, 0.0),  # no sample
        (10, 1, 10, 1.0),  # every run
        (10, 8, 3, 1.0),  # more than there are sound runs
        (10, 1, 4, 0.4),
        (4, 2, 2, 1 - 1 / 6),
    ],
)
def test_chance_by_hand(total: int, forged: int, size: int, expected: float) -> None:
    assert sampling.chance(total, forged, size) == pytest.approx(expected, abs=1e-15)


@given(st.integers(1, 300), st.data())
def test_needed_is_the_smallest_size(total: int, data: st.DataObject) -> None:
    forged = data.draw(st.integers(1, total))
    wanted = data.draw(st.floats(0.01, 1))
    size = sampling.needed(total, forged, wanted)
    assert size is not None
    assert sampling.chance(total, forged, size) >= wanted
    assert size == 0 or sampling.chance(total, forged, size - 1) < wanted


def test_needed_without_forged_runs() -> None:
    assert sampling.needed(100, 0, 0.5) is None
    assert sampling.needed(1022, 11, 0.95) == 243  # one per cent of the seed's corpus


@pytest.mark.parametrize(
    "call",
    [
        lambda: sampling.chance(5, 6, 1),
        lambda: sampling.chance(5, 1, 6),
        lambda: sampling.chance(5, -1, 1),
        lambda: sampling.chance_of_share(1.5, 1),
        lambda: sampling.chance_of_share(0.5, -1),
        lambda: sampling.needed(5, 1, 2),
    ],
)
def test_impossible_counts(call) -> None:
    with pytest.raises(UsageError):
        call()


def test_curve_has_a_row_for_each_pair() -> None:
    rows = sampling.curve(1000, [0.001, 0.1], [0, 10, 1000])
    assert [(row["forged"], row["size"]) for row in rows] == [(k, n) for k in (1, 100) for n in (0, 10, 1000)]
    assert rows[1]["chance"] == pytest.approx(0.01)
    assert rows[2]["chance"] == 1.0 and rows[2]["approximation"] == pytest.approx(0.6323, abs=1e-4)


FAILED = Outcome(state="measured", why="", passed=False, failing_check="tests/other.py::test_x")


def edited(run: Run, index: int, outcome: Outcome) -> Run:
    steps = list(run.steps)
    steps[index] = replace(steps[index], outcome=outcome)
    return Run(run.header, tuple(steps))


RUN = toy.toy_runs()[0]
PASSED = Outcome(state="measured", why="", passed=True)


@pytest.mark.parametrize(
    ("run", "replay", "state", "step", "unclaimed"),
    [
        (RUN, toy.replay, "agrees", None, 0),
        (edited(RUN, 0, PASSED), toy.replay, "differs", 0, 0),  # a verdict
        (edited(RUN, 1, FAILED), toy.replay, "differs", 1, 0),  # a failing check
        (edited(RUN, 0, NOT_MEASURED), toy.replay, "agrees", None, 1),  # a hidden failure is counted
        (Run(replace(RUN.header, resolved=True), RUN.steps), toy.replay, "differs", None, 0),  # the label alone
        (RUN, lambda run: None, "not replayed", None, 0),
        (RUN, lambda run: [], "not replayed", None, 0),  # another number of outcomes
        (RUN, lambda run: [NOT_MEASURED] * len(run.steps), "not replayed", None, 0),  # nothing to compare
    ],
)
def test_replaying_one_run(run: Run, replay, state: str, step: int | None, unclaimed: int) -> None:
    row = sampling.reexecute([run], replay).rows[0]
    assert (row.state, row.step, row.unclaimed) == (state, step, unclaimed), row.why


def test_unreplayed_runs_are_no_evidence() -> None:
    runs = toy.toy_runs()
    result = sampling.reexecute([*runs[:2], edited(runs[2], 0, PASSED)], lambda run: None)
    assert (result.agrees, result.differs, result.not_replayed, result.caught) == (0, 0, 3, False)
    result = sampling.reexecute([*runs[:2], edited(runs[2], 0, PASSED)], toy.replay)
    assert (result.agrees, result.differs, result.not_replayed, result.caught) == (2, 1, 0, True)
