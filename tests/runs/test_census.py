"""The census against counts made by hand: denominators, what is missing, and parts that add up."""

from __future__ import annotations

import random
import statistics
from collections import Counter

import pytest

from traceaudit.runs.census import Census, median
from traceaudit.runs.schema import Header, Outcome, Run, Step

GREEN = Outcome(state="measured", why="", passed=True)
RED = Outcome(state="measured", why="", passed=False, failing_check="t", confirmed=True, exit_code=1, instrument="i")
BARE = Outcome(state="measured", why="", passed=False, confirmed=False)
NEVER, LOST = Outcome(), Outcome(why="state not observed")


def run(*outcomes: Outcome, instance="a__b-1", model="m", arm="x", resolved=None, **more) -> Run:
    header = Header(
        run_id="r", n_steps=len(outcomes), instance_id=instance, model=model, arm=arm, resolved=resolved, **more
    )
    return Run(header, tuple(Step(index=at, outcome=outcome) for at, outcome in enumerate(outcomes)))


RUNS = [
    run(RED, RED, GREEN, resolved=True, licence="MIT", format="f", captures=2),  # stamped
    run(GREEN, BARE, LOST, BARE, resolved=False, instance="a__b-2", redacted=3, captures=0),  # stamped
    run(LOST, LOST, GREEN, resolved=False, model="n", arm="y", instance="c__d-1"),  # the last step stamps no run
    run(NEVER, model="n", arm=None, instance=None, repository="c/d"),  # nobody labelled it
    run(model=None, resolved=False, dataset_revision="1"),  # without a step, without a model
]


def census(runs) -> dict:
    fold = Census()
    for one in runs:
        fold.add(one)
    return fold.result()


COUNTED = {  # name -> by hand, over RUNS
    "trajectories": 5,
    "steps": 11,
    "nonterminal_steps": 7,
    "instances": 3,
    "repositories": 3,  # a, c and c/d
    "models": 2,
    "arms": 2,
    "stamped": 2,
    "unstamped": 3,
    "stamped_share": 0.4,
    "median_steps": 3,
    "min_steps": 0,
    "max_steps": 4,
    "labelled": 4,
    "unlabelled": 1,
    "terminal_failures": 3,
    "terminal_failure_rate": 0.75,
    "labelled_stamped": 2,
    "terminal_failures_stamped": 1,
    "terminal_failure_rate_stamped": 0.5,
    "failed_nonterminal_steps": 3,
    "failed_nonterminal_steps_with_check": 2,
    "unnamed": {"instance": 1, "repository": 0, "arm": 1, "model": 1},
    "outcomes": {
        "measured": 7,
        "passed": 3,
        "failed": 4,
        "confirmed_failures": 2,
        "failures_not_reproduced": 2,
        "with_exit_code": 2,
        "not_measured": 4,
    },
    "not_measured": [
        {"why": "never graded", "steps": 1, "runs": 1},
        {"why": "state not observed", "steps": 3, "runs": 2},
    ],
    "instruments": [{"instrument": "i", "steps": 2, "models": {"m": 2}}],
    "captures": {"steps": 2, "runs_unknown": 3, "runs_without": 1},
    "redacted": {"passages": 3, "runs": 1},
    "formats": {"f": 1},
    "licences": {"with": 1, "without": 4, "values": {"MIT": 1}},
    "dataset_revisions": {"with": 1, "without": 4, "values": {"1": 1}},
}


@pytest.mark.parametrize("name", COUNTED)
def test_each_count_by_hand(name):
    assert census(RUNS)[name] == COUNTED[name]


def test_the_rows_per_model_add_up_to_the_whole():
    result = census(RUNS)
    rows = result["per_model"]
    assert [row["model"] for row in rows] == ["m", "n", None]
    for name in ("trajectories", "steps", "stamped", "unstamped", "labelled", "unlabelled", "terminal_failures"):
        assert sum(row[name] for row in rows) == result[name]
    assert rows[1]["terminal_failure_rate"] == 1.0 and rows[1]["labelled"] == 1


def test_no_run_at_all_gives_no_rate():
    result = census([])
    assert result["trajectories"] == result["steps"] == result["models"] == 0
    undefined = ("median_steps", "min_steps", "max_steps", "stamped_share", "terminal_failure_rate")
    assert [result[name] for name in (*undefined, "terminal_failure_rate_stamped")] == [None] * 6
    assert result["per_model"] == []


def test_runs_that_nobody_labelled_are_in_no_rate():
    assert census([run(RED, RED)])["terminal_failure_rate"] is None
    assert census([run(RED, RED), run(RED, RED, resolved=True)])["terminal_failure_rate"] == 0.0


@pytest.mark.parametrize(
    "lengths", [[], [1], [1, 2], [1, 3], [1, 1, 9], [0, 0], [5, 1, 4, 1], list(range(101)), [7] * 6 + [8] * 6]
)
def test_the_median_is_that_of_the_standard_library(lengths):
    assert median(Counter(lengths)) == (statistics.median(lengths) if lengths else None)


def test_any_partition_gives_the_same_census():
    draw, runs = random.Random(1), RUNS * 3
    whole = census(runs)
    for _ in range(20):
        parts = [Census() for _ in range(4)]
        for one in draw.sample(runs, len(runs)):
            draw.choice(parts).add(one)
        left, right = parts[0], parts[2]
        left.merge(parts[1])
        right.merge(parts[3])
        right.merge(left)
        assert right.result() == whole


def test_merging_leaves_the_other_part_as_it_is():
    part, other = Census(), Census()
    other.add(RUNS[0])
    before = other.result()
    part.merge(other)
    part.add(RUNS[0])
    assert other.result() == before and part.result()["trajectories"] == 2
