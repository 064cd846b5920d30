"""Resampling against loops that anybody can read, and against cases whose answer is known."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from traceaudit.trail.resampling import SEED, bootstrap_means, holm, intervals, sign_flip, weights

SCORES = np.array([[0.0, 0.5, 1.0, 0.25, 0.0], [1.0, 0.5, 0.0, 0.25, 0.75]])


def test_bootstrap_equals_a_loop():
    """One sample after the other, one trace after the other, from the same generator."""
    generator = np.random.Generator(np.random.PCG64(7))
    drawn = generator.integers(0, 5, size=(200, 5))
    slow = [[sum(row[trace] for trace in sample) / 5 for row in SCORES] for sample in drawn.tolist()]
    fast = bootstrap_means(SCORES, weights(5, draws=200, seed=7))
    assert fast.shape == (200, 2)
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-15)


def test_every_sample_draws_as_many_traces_as_there_are():
    occurs = weights(31, draws=500)
    assert occurs.shape == (500, 31)
    assert set(occurs.sum(axis=1).tolist()) == {31}


def test_judges_share_the_samples_so_that_differences_are_paired():
    occurs = weights(5)
    means = bootstrap_means(SCORES, occurs)
    paired = bootstrap_means(SCORES[:1] - SCORES[1:], occurs)[:, 0]
    np.testing.assert_allclose(means[:, 0] - means[:, 1], paired, rtol=0, atol=1e-15)


def test_intervals_are_percentiles():
    means = np.arange(1001.0)[:, None] * [1, 2]  # 0 ... 1000, and twice that
    np.testing.assert_allclose(intervals(means), [(25, 975), (50, 1950)], rtol=1e-12)
    np.testing.assert_allclose(intervals(means, level=0.5)[0], (250, 750), rtol=1e-12)


# scores by trace -> the interval (what never varies has none)
CONSTANT = [([0.0] * 6, (0.0, 0.0)), ([0.5] * 6, (0.5, 0.5)), ([1.0], (1.0, 1.0))]


@pytest.mark.parametrize(("scores", "ends"), CONSTANT)
def test_a_constant_score_has_no_width(scores, ends):
    assert intervals(bootstrap_means(np.array([scores]), weights(len(scores)))) == [ends]


def test_an_interval_covers_as_often_as_it_says():
    """A thousand worlds with a known mean; the percentile interval holds it in about 95 percent of them."""
    worlds = np.random.Generator(np.random.PCG64(3)).random((1000, 40))
    ends = intervals(bootstrap_means(worlds, weights(40, draws=2000)))
    assert 0.92 < sum(low <= 0.5 <= high for low, high in ends) / 1000 < 0.97


def test_sign_flip_equals_a_loop():
    row = [0.25, -0.5, 0.75, 1.0, 0.0]
    generator = np.random.Generator(np.random.PCG64(SEED))
    signs = (2 * generator.integers(0, 2, size=(300, 5), dtype=np.int8) - 1).tolist()
    observed = abs(sum(row)) / 5
    reached = sum(abs(sum(s * d for s, d in zip(each, row, strict=True))) / 5 >= observed - 1e-12 for each in signs)
    assert sign_flip(np.array([row]), draws=300) == [(1 + reached) / 301]


def test_sign_flip_comes_near_the_exact_test():
    row = np.array([0.3, 0.1, 0.4, 0.1, 0.5, 0.9, -0.2, 0.6, 0.5, 0.3])
    flips = np.array(list(itertools.product((-1, 1), repeat=len(row))))
    exact = float((np.abs(flips @ row) >= abs(row.sum()) - 1e-12).mean())
    assert sign_flip(row[None, :])[0] == pytest.approx(exact, abs=0.003)


# differences by trace -> p is at least, at most
KNOWN = [
    ([0.0] * 8, 1.0, 1.0),  # no difference anywhere
    ([1.0, -1.0] * 6, 1.0, 1.0),  # as often for one as for the other
    ([1.0] + [0.0] * 9, 1.0, 1.0),  # one trace alone decides nothing
    ([0.5] * 30, 1e-5, 1e-3),  # always the same one is better
]


@pytest.mark.parametrize(("row", "least", "most"), KNOWN)
def test_sign_flip_in_clear_cases(row, least, most):
    (p,) = sign_flip(np.array([row]))
    assert least <= p <= most
    assert sign_flip(-np.array([row])) == [p]  # two-sided


def test_same_seed_same_samples_and_another_seed_others():
    assert (weights(9) == weights(9)).all()
    assert (weights(9) != weights(9, seed=1)).any()


# p-values -> adjusted ones
HOLM = [
    ([], []),
    ([0.04], [0.04]),
    ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),  # 3 x 0.01, then 2 x 0.03, then no less than that
    ([0.9, 0.8], [1.0, 1.0]),  # cut at 1
    ([0.02, 0.02], [0.04, 0.04]),
]


@pytest.mark.parametrize(("given", "adjusted"), HOLM)
def test_holm(given, adjusted):
    assert holm(given) == pytest.approx(adjusted)


def test_all_judges_together_take_less_than_two_seconds():
    """Nine judges and 116 traces, as many as there are: intervals of two columns and of the steps, and the test."""
    scores = np.random.Generator(np.random.PCG64(1)).random((9, 116))
    begun = time.perf_counter()
    occurs = weights(116)
    for rows in (scores, scores, scores[:-1] - scores[1:]):
        intervals(bootstrap_means(rows, occurs))
    sign_flip(scores[:-1] - scores[1:])
    assert time.perf_counter() - begun < 2
