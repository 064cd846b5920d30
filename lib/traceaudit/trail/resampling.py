"""Resampling over traces: intervals of a judge's mean score, and paired tests between judges.

Two judges who differ by less than the draw of traces could have brought about must not be told apart by a rank, so
every rank is shown with what resampling says about it. All judges meet the same resampled traces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["DRAWS", "LEVEL", "SEED", "TIE", "bootstrap_means", "holm", "intervals", "sign_flip", "weights"]

DRAWS = 10_000
LEVEL = 0.95
SEED = 20260827
TIE = 1e-12  # differences up to this are rounding, so that a count does not depend on the order of a sum


def weights(traces: int, *, draws: int = DRAWS, seed: int = SEED) -> np.ndarray:
    """How often each trace occurs in each bootstrap sample.

    Args:
        traces: Number of traces n, at least one; each sample draws n of them with replacement.
        draws: Number of samples.
        seed: Of NumPy's PCG64 generator; same seed, same samples.

    Returns:
        Whole numbers, shape (draws, traces); every row adds up to ``traces``.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    drawn = generator.integers(0, traces, size=(draws, traces))
    rows = np.arange(draws)[:, None] * traces
    return np.bincount((drawn + rows).ravel(), minlength=draws * traces).reshape(draws, traces)


def bootstrap_means(scores: np.ndarray, occurs: np.ndarray) -> np.ndarray:
    """The mean of each row of scores in each bootstrap sample.

    Args:
        scores: Shape (rows, traces): judges, or differences of two judges, by trace.
        occurs: What :func:`weights` gives.

    Returns:
        Shape (draws, rows): Σ occurs · score / traces.
    """
    return occurs @ np.asarray(scores, dtype=float).T / occurs.shape[1]


def intervals(means: np.ndarray, *, level: float = LEVEL) -> list[tuple[float, float]]:
    """Percentile intervals (Efron and Tibshirani 1993, chapter 13), one for each column of bootstrap means.

    Args:
        means: Shape (draws, rows).
        level: Share of the samples between the two ends; the quantiles are interpolated linearly.
    """
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def sign_flip(differences: np.ndarray, *, draws: int = DRAWS, seed: int = SEED) -> list[float]:
    """Two-sided p of a paired randomisation test, for each row of differences by trace.

    If two judges do equally well, each trace's difference could as well have had the other sign. So the signs are drawn
    anew, and p = (1 + number of draws whose absolute mean is at least the observed one) / (1 + draws) (Phipson and
    Smyth 2010, so that p is never 0). All rows meet the same signs.

    Args:
        differences: Shape (rows, traces); a row of zeros has p = 1.
        draws: Number of draws.
        seed: Of NumPy's PCG64 generator.
    """
    rows = np.asarray(differences, dtype=float)
    generator = np.random.Generator(np.random.PCG64(seed))
    signs = 2 * generator.integers(0, 2, size=(draws, rows.shape[1]), dtype=np.int8) - 1
    drawn = np.abs(signs @ rows.T) / rows.shape[1]
    reached = (drawn >= np.abs(rows.mean(axis=1)) - TIE).sum(axis=0)
    return [(1 + int(n)) / (1 + draws) for n in reached]


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for there being several tests (Holm 1979), in the order given.

    The i-th smallest of m (from 0) is multiplied by m - i, made at least as large as the one before, and cut at 1.
    """
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = largest
    return adjusted
