"""How high a useless score gets: AUROC, and three ways of dealing the labels out again.

Runs of one task share its difficulty and long runs fail more, so a null that treats runs as independent is too narrow;
each of the three keeps one such tie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from ..errors import ValueProblem

__all__ = [
    "DRAWS",
    "FEWEST_DRAWS",
    "Null",
    "auroc",
    "aurocs",
    "block_draws",
    "bootstrap_share",
    "draws_of",
    "length_bins",
    "length_draws",
    "length_only",
    "null_of",
    "numbered",
    "stratified_auroc",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DRAWS = 2000
FEWEST_DRAWS = 200
"""With fewer draws the 97.5th percentile rests on fewer than five of them."""
_AT_ONCE = 2_000_000
"""Cells of the matrix of dealt labels held in memory at a time."""
_BLOCK, _LENGTH, _BOOTSTRAP = 1, 2, 3


@dataclass(frozen=True)
class Null:
    """Where one null distribution lies and what it says of the observed value.

    Attributes:
        name: ``challenge block``, ``family-wise`` or ``length-stratified``.
        draws: How many draws it has.
        p: (1 + draws at or above the observed value) / (draws + 1); never below 1 / (draws + 1).
        mean, sd: Of the draws; ``sd`` divides by draws - 1.
        low, high: 2.5th and 97.5th percentile, linearly interpolated.
        beats: The observed value lies strictly above ``high``.
    """

    name: str
    draws: int
    p: float
    mean: float
    sd: float
    low: float
    high: float
    beats: bool


def numbered(names: Sequence[str]) -> Ints:
    """Each name's number, in order of first appearance."""
    seen: dict[str, int] = {}
    return np.asarray([seen.setdefault(name, len(seen)) for name in names], dtype=np.int64)


def _ranks(scores: Floats) -> Floats:
    return np.asarray(rankdata(scores, method="average", axis=0), dtype=np.float64)


def _from_rank_sums(sums: Floats, positive: int, negative: int) -> Floats:
    """Half-integer rank sums are exact in floating point, so equal draws compare equal to the observed value."""
    if not positive or not negative:
        return np.full_like(sums, 0.5)
    return np.asarray((sums - positive * (positive + 1) / 2) / (positive * negative), dtype=np.float64)


def aurocs(scores: Floats, failed: Bools) -> Floats:
    """Area under the ROC curve of each column of ``scores`` for telling failed runs from the others.

    U / (failed x others) with average ranks for ties; for a score of zeros and ones that is (1 + TPR - FPR) / 2. With
    one class only, or no runs, 0.5: nothing can be told apart.

    Args:
        scores: Shape (runs, columns).
        failed: Shape (runs,).
    """
    if not len(scores):
        return np.full(scores.shape[1], 0.5)
    positive = int(failed.sum())
    return _from_rank_sums(failed.astype(np.float64) @ _ranks(scores), positive, len(failed) - positive)


def auroc(score: Floats, failed: Bools) -> float:
    """:func:`aurocs` of one score."""
    return float(aurocs(np.asarray(score, dtype=np.float64)[:, None], failed)[0])


def stratified_auroc(score: Floats, failed: Bools, strata: Sequence[str]) -> tuple[float | None, int]:
    """AUROC within strata, weighted by pairs (failed x others), and the number of strata of one class, which drop out.

    None where every stratum has one class.
    """
    total, weight, dropped = 0.0, 0, 0
    of = numbered(strata)
    for stratum in range(int(of.max()) + 1 if len(of) else 0):
        rows = of == stratum
        pairs = int(failed[rows].sum()) * int((~failed[rows]).sum())
        if pairs:
            total, weight = total + pairs * auroc(score[rows], failed[rows]), weight + pairs
        else:
            dropped += 1
    return (total / weight if weight else None), dropped


def length_only(score: Floats, length: Ints, failed: Bools) -> float:
    """What the number of steps alone reaches: AUROC of "at least t steps".

    For a score of zeros and ones, t is the k-th largest length with k the number of ones, so that it fires about as
    often (ties fire more); k = 0 gives 0.5. For any other score it is the AUROC of the length itself.
    """
    if not np.isin(score, (0.0, 1.0)).all():
        return auroc(length.astype(np.float64), failed)
    ones = int(score.sum())
    if not ones:
        return 0.5
    return auroc((length >= np.sort(length)[-ones]).astype(np.float64), failed)


def length_bins(length: Ints, bins: int = 10) -> Ints:
    """Bin of each run by length, in bins of equal count: rank x bins // runs; equal lengths rank in their order."""
    rank = np.empty(len(length), dtype=np.int64)
    rank[np.argsort(length, kind="stable")] = np.arange(len(length))
    return rank * bins // max(len(length), 1)


def _pieces(draws: int, width: int) -> Iterator[int]:
    most = max(1, _AT_ONCE // max(width, 1))
    for start in range(0, draws, most):
        yield min(most, draws - start)


def block_draws(failed: Bools, blocks: Sequence[str], draws: int = DRAWS, seed: int = 0) -> Iterator[Bools]:
    """Labels dealt out again by whole blocks, in pieces of shape (some draws, runs).

    The blocks (runs of one task) are put in a random order, their labels strung together, and the string is dealt to
    the runs taken block by block in order of first appearance. The order is that of uniform numbers, one row of them a
    draw, from ``default_rng((seed, 1))``, so the pieces do not change the draws.
    """
    of = numbered(blocks)
    grouped = np.argsort(of, kind="stable")
    block, labels = of[grouped], failed[grouped]
    random = np.random.default_rng((seed, _BLOCK))
    count = int(of.max()) + 1 if len(of) else 0
    places = np.arange(len(of))
    for some in _pieces(draws, len(of)):
        place = random.random((some, count)).argsort(axis=1).argsort(axis=1)
        order = (place[:, block] * len(of) + places).argsort(axis=1)
        dealt = np.empty((some, len(of)), dtype=np.bool_)
        dealt[:, grouped] = labels[order]
        yield dealt


def length_draws(failed: Bools, length: Ints, draws: int = DRAWS, seed: int = 0, bins: int = 10) -> Iterator[Bools]:
    """Labels shuffled among runs of like length, in pieces of shape (some draws, runs).

    Within each of :func:`length_bins` the order is that of uniform numbers, one row a draw over the runs sorted by
    bin, from ``default_rng((seed, 2))``.
    """
    of = length_bins(length, bins)
    grouped = np.argsort(of, kind="stable")
    bin_of, labels = of[grouped].astype(np.float64), failed[grouped]
    random = np.random.default_rng((seed, _LENGTH))
    for some in _pieces(draws, len(of)):
        order = (bin_of + random.random((some, len(of)))).argsort(axis=1)
        dealt = np.empty((some, len(of)), dtype=np.bool_)
        dealt[:, grouped] = labels[order]
        yield dealt


def draws_of(scores: Floats, failed: Bools, dealt: Iterator[Bools]) -> Floats:
    """AUROC of every column of ``scores`` under every deal, of shape (draws, columns)."""
    ranks = _ranks(scores)
    positive = int(failed.sum())
    negative = len(failed) - positive
    parts = [_from_rank_sums(some.astype(np.float64) @ ranks, positive, negative) for some in dealt]
    return np.concatenate(parts) if parts else np.empty((0, scores.shape[1]))


def null_of(name: str, observed: float, draws: Floats) -> Null:
    """The summary of one null distribution.

    Args:
        name: What it is called.
        observed: The value it is held against.
        draws: One value a draw.

    Raises:
        ValueProblem: fewer than :data:`FEWEST_DRAWS` draws.
    """
    if len(draws) < FEWEST_DRAWS:
        raise ValueProblem("too few draws for a band", where=name, expected=f">= {FEWEST_DRAWS}", got=str(len(draws)))
    low, high = np.percentile(draws, [2.5, 97.5])
    at_least = int((draws >= observed).sum())
    return Null(
        name=name,
        draws=len(draws),
        p=(1 + at_least) / (len(draws) + 1),
        mean=float(draws.mean()),
        sd=float(draws.std(ddof=1)),
        low=float(low),
        high=float(high),
        beats=bool(observed > high),
    )


def bootstrap_share(
    part: Bools, whole: Bools, blocks: Sequence[str], resamples: int = 1000, seed: int = 0
) -> tuple[float, float, int] | None:
    """95 % interval of the share of ``part`` in ``whole``, resampling whole blocks with replacement.

    Returns:
        2.5th and 97.5th percentile and the number of resamples without any of ``whole``, which drop out; None where
        all drop out.
    """
    of = numbered(blocks)
    count = int(of.max()) + 1 if len(of) else 0
    if not count:
        return None
    picked = np.random.default_rng((seed, _BOOTSTRAP)).integers(count, size=(resamples, count))
    above = np.bincount(of, weights=part & whole, minlength=count)[picked].sum(axis=1)
    below = np.bincount(of, weights=whole, minlength=count)[picked].sum(axis=1)
    used = below > 0
    if not used.any():
        return None
    low, high = np.percentile(above[used] / below[used], [2.5, 97.5])
    return float(low), float(high), int((~used).sum())
