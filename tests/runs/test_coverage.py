"""Coverage by model and outcome: intervals and tests against published and independent figures, and planted drops."""

from __future__ import annotations

import itertools
import math

import pytest
from scipy import stats

from traceaudit.runs.coverage import Coverage, conditional, difference, mantel_haenszel, wilson
from traceaudit.runs.schema import Header, Outcome, Run, Step

RED = Outcome(state="measured", why="", passed=False)


def runs(model, resolved, kept, dropped):
    for at in range(kept + dropped):
        outcome = RED if at < kept else Outcome()
        header = Header(run_id=f"{model}{resolved}{at}", n_steps=2, model=model, resolved=resolved)
        yield Run(header, (Step(index=0, outcome=outcome), Step(index=1, outcome=outcome)))


def coverage(*groups) -> dict:
    fold = Coverage()
    for one in itertools.chain.from_iterable(runs(*group) for group in groups):
        fold.add(one)
    return fold.result()


@pytest.mark.parametrize(("part", "whole"), [(0, 1), (1, 1), (0, 30), (30, 30), (7, 20), (72, 407), (33, 615)])
def test_the_score_interval_is_that_of_scipy(part, whole):
    theirs = stats.binomtest(part, whole).proportion_ci(0.95, method="wilson")
    assert wilson(part, whole) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_no_share_of_nothing():
    assert wilson(0, 0) is None
    assert difference(0, 0, 1, 2) is None and difference(1, 2, 0, 0) is None


@pytest.mark.parametrize(  # Newcombe 1998, Table II, method 10, contrasts (a), (b), (e) and (f)
    ("counts", "published"),
    [
        ((56, 70, 48, 80), (0.0524, 0.3339)),
        ((9, 10, 3, 10), (0.1705, 0.8090)),
        ((5, 56, 0, 29), (-0.0381, 0.1926)),
        ((0, 10, 0, 20), (-0.1611, 0.2775)),
    ],
)
def test_the_interval_of_a_difference_is_the_published_one(counts, published):
    found = difference(*counts)
    assert (round(found[1], 4), round(found[2], 4)) == published
    turned = difference(*counts[2:], *counts[:2])
    assert turned == pytest.approx((-found[0], -found[2], -found[1]))


@pytest.mark.parametrize("table", [(3, 7, 5, 40), (14, 79, 6, 173), (1, 1, 1, 1), (9, 10, 1, 11)])
def test_one_stratum_against_scipy(table):
    a, b, c, d = table
    n = sum(table)
    found = mantel_haenszel([table])
    pearson = stats.chi2_contingency([[a, b], [c, d]], correction=False).statistic
    assert found["statistic"] == pytest.approx(pearson * (n - 1) / n)
    assert found["p"] == pytest.approx(stats.chi2.sf(found["statistic"], 1))
    assert found["odds_ratio"] == pytest.approx(a * d / (b * c))
    exact = conditional([table])
    law = stats.hypergeom(n, a + b, a + c)
    assert exact["expected"] == pytest.approx(law.mean())
    assert exact["p"] == pytest.approx(min(1.0, 2 * min(law.cdf(a), law.sf(a - 1))))


def test_the_admissions_of_berkeley():
    """Men admitted, men rejected, women admitted, women rejected, by department (R, ``mantelhaen.test``)."""
    departments = [
        (512, 313, 89, 19), (353, 207, 17, 8), (120, 205, 202, 391), (138, 279, 131, 244), (53, 138, 94, 299),
        (22, 351, 24, 317),
    ]  # fmt: skip
    found = mantel_haenszel(departments)
    assert found["odds_ratio"] == pytest.approx(0.9046968, abs=1e-7)
    assert 0.2 < found["p"] < 0.25
    assert conditional(departments)["p"] == pytest.approx(found["p"], abs=0.03)
    assert mantel_haenszel([tuple(map(sum, zip(*departments, strict=True)))])["p"] < 1e-20  # and the paradox is gone


def test_the_exact_test_is_what_all_permutations_give():
    tables = [(2, 1, 1, 3), (1, 2, 0, 2)]
    chances = {0: 1.0}
    for a, b, c, d in tables:  # every way to choose the dropped runs of a stratum
        n, more = a + b + c + d, {}
        for chosen in itertools.combinations(range(n), a + c):
            k = sum(at < a + b for at in chosen)
            more[k] = more.get(k, 0) + 1 / math.comb(n, a + c)
        both: dict[int, float] = {}
        for (x, p), (y, q) in itertools.product(chances.items(), more.items()):
            both[x + y] = both.get(x + y, 0) + p * q
        chances = both
    upper = sum(p for k, p in chances.items() if k >= 3)
    lower = sum(p for k, p in chances.items() if k <= 3)
    found = conditional(tables)
    assert found["observed"] == 3 and found["strata"] == 2
    assert found["p"] == pytest.approx(min(1.0, 2 * min(upper, lower)))


SAYS_NOTHING = [(0, 0, 3, 4), (3, 4, 0, 0), (2, 0, 2, 0), (0, 2, 0, 2), (0, 0, 0, 0), (0, 1, 0, 0)]


def test_strata_that_say_nothing_change_nothing():
    table = (14, 79, 6, 173)
    assert mantel_haenszel([*SAYS_NOTHING, table]) == mantel_haenszel([table])
    assert conditional([*SAYS_NOTHING, table]) == conditional([table])
    assert mantel_haenszel(SAYS_NOTHING)["p"] is None and conditional(SAYS_NOTHING)["p"] is None


def test_an_odds_ratio_without_a_denominator_is_undefined():
    assert mantel_haenszel([(2, 0, 0, 2)])["odds_ratio"] is None


def test_a_drop_that_goes_with_the_outcome_is_found():
    result = coverage(("m", False, 60, 40), ("m", True, 95, 5), ("n", False, 30, 20), ("n", True, 100, 0))
    drop = result["drop_by_outcome"]
    assert drop["difference"] == pytest.approx(60 / 150 - 5 / 200) and drop["interval"][0] > 0.2
    assert drop["within_models"]["mantel_haenszel"]["p"] < 1e-9 and drop["within_models"]["exact"]["p"] < 1e-9
    assert drop["dropped_failed_share"] == 60 / 65 and drop["not_measured"] == ""


def test_a_drop_that_goes_with_the_model_alone_is_none_within_models():
    """Model m loses half of its runs and fails often, n loses a tenth and fails seldom."""
    result = coverage(("m", False, 40, 40), ("m", True, 10, 10), ("n", False, 18, 2), ("n", True, 162, 18))
    drop = result["drop_by_outcome"]
    assert drop["interval"][0] > 0.1  # all together it looks as if it went with the outcome
    assert drop["within_models"]["mantel_haenszel"]["p"] > 0.9 and drop["within_models"]["exact"]["p"] > 0.9
    assert drop["within_models"]["mantel_haenszel"]["odds_ratio"] == pytest.approx(1.0)


NO_TEST = {  # why there is no test -> runs
    "no run is labelled": [("m", None, 3, 3)],
    "every labelled run has the same outcome": [("m", True, 3, 3), ("m", None, 1, 1)],
    "every labelled run is stamped": [("m", True, 3, 0), ("m", False, 3, 0), ("m", None, 0, 2)],
    "no labelled run is stamped": [("m", True, 0, 3), ("m", False, 0, 3)],
    "no model has both outcomes and both stamped and unstamped runs": [("m", True, 3, 1), ("n", False, 3, 1)],
}


@pytest.mark.parametrize("why", NO_TEST)
def test_what_cannot_be_tested_says_why(why):
    drop = coverage(*NO_TEST[why])["drop_by_outcome"]
    assert drop["not_measured"] == why
    assert drop["within_models"]["mantel_haenszel"]["p"] is drop["within_models"]["exact"]["p"] is None
    assert (drop["difference"] is None) == (not why.startswith("no model"))


def test_no_run_at_all():
    result = coverage()
    assert result["all"]["drop_rate"] is None and result["models_apart"] is None and result["by_model"] == []
    assert result["drop_by_outcome"]["not_measured"] == "no run is labelled"


def test_the_rows_add_up_and_name_the_models_apart():
    result = coverage(("m", False, 3, 1), ("m", True, 5, 1), ("n", None, 1, 3), (None, True, 2, 0))
    assert [row["model"] for row in result["by_model"]] == ["m", "n", None]
    assert [row["unstamped"] for row in result["by_outcome"]] == [1, 1, 3]
    for name in ("by_model", "by_outcome", "by_model_and_outcome"):
        assert sum(row["stamped"] for row in result[name]) == result["all"]["stamped"] == 11
        assert sum(row["unstamped"] for row in result[name]) == result["all"]["unstamped"] == 5
    apart = result["models_apart"]
    assert apart == {"lowest": {"model": None, "drop_rate": 0.0}, "highest": {"model": "n", "drop_rate": 0.75}}
    assert len(result["by_model_and_outcome"]) == 4  # combinations without a run are left out
