"""How much of a corpus is stamped, by model and by outcome, and whether what was dropped differs in its outcome.

A drop that depends on the model can be cut away by looking at one model; a drop that depends on the outcome bends
every figure of the stamped runs, so it is looked for within the models too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .schema import Run

__all__ = ["OUTCOMES", "Coverage", "Table", "conditional", "difference", "mantel_haenszel", "wilson"]

OUTCOMES = ("resolved", "failed", "unlabelled")
Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""
Table = tuple[int, int, int, int]
"""One stratum: failed dropped, failed kept, resolved dropped, resolved kept."""


def wilson(part: int, whole: int, z: float = Z) -> tuple[float, float] | None:
    """Score interval of a share, 95 % unless told (Wilson 1927); None where there is nothing to share."""
    if not whole:
        return None
    share, square = part / whole, z * z
    middle = share + square / (2 * whole)
    half = z * math.sqrt(share * (1 - share) / whole + square / (4 * whole * whole))
    scale = 1 + square / whole
    # the two ends are 0 and 1 exactly where the share is; rounding would put them beside
    low = 0.0 if part == 0 else (middle - half) / scale
    return low, 1.0 if part == whole else (middle + half) / scale


def difference(part1: int, whole1: int, part2: int, whole2: int) -> tuple[float, float, float] | None:
    """Difference of two independent shares with its 95 % interval (Newcombe 1998, method 10); None without both."""
    one, two = wilson(part1, whole1), wilson(part2, whole2)
    if one is None or two is None:
        return None
    p1, p2 = part1 / whole1, part2 / whole2
    low = p1 - p2 - math.hypot(p1 - one[0], two[1] - p2)
    high = p1 - p2 + math.hypot(one[1] - p1, p2 - two[0])
    return p1 - p2, low, high


def mantel_haenszel(tables: Sequence[Table]) -> dict[str, float | int | None]:
    """Test of Cochran, Mantel and Haenszel: dropped against failed within strata, without continuity correction.

    ``statistic`` = (Σa - ΣE)² / ΣV with E = n₁m₁/n and V = n₁n₂m₁m₂/(n²(n-1)); ``p`` from chi-square with one degree of
    freedom; ``odds_ratio`` = Σ(ad/n) / Σ(bc/n). A stratum that has one outcome only, or no drop or nothing else, says
    nothing and is left out (``strata`` counts the others). With none left, all three are None; the odds ratio is None
    too where its denominator is 0. (Source: Mantel and Haenszel 1959; Agresti, Categorical Data Analysis, 6.3.2.)
    """
    surplus = variance = above = below = 0.0
    used = 0
    for a, b, c, d in tables:
        n, failed, dropped = a + b + c + d, a + b, a + c
        if not (0 < failed < n and 0 < dropped < n):
            continue
        used += 1
        surplus += a - failed * dropped / n
        variance += failed * (n - failed) * dropped * (n - dropped) / (n * n * (n - 1))
        above += a * d / n
        below += b * c / n
    if not used:
        return {"strata": 0, "statistic": None, "p": None, "odds_ratio": None}
    statistic = surplus * surplus / variance
    p = math.erfc(math.sqrt(statistic / 2))
    return {"strata": used, "statistic": statistic, "p": p, "odds_ratio": above / below if below else None}


def _hypergeometric(failed: int, dropped: int, n: int) -> tuple[int, NDArray[np.float64]]:
    """Smallest number of failed runs among the dropped, and the chances from there on, if chance alone drops."""
    low, high = max(0, failed + dropped - n), min(failed, dropped)

    def choose(total: int, part: int) -> float:
        return math.lgamma(total + 1) - math.lgamma(part + 1) - math.lgamma(total - part + 1)

    logs = np.array([choose(failed, k) + choose(n - failed, dropped - k) for k in range(low, high + 1)])
    chances = np.exp(logs - logs.max())
    return low, chances / chances.sum()


def conditional(tables: Sequence[Table]) -> dict[str, float | int | None]:
    """Exact test of the same question: failed runs among the dropped, over all strata, if chance dropped in each.

    What a permutation of labels within strata approaches, computed whole: the distribution of Σa is the convolution of
    the strata's hypergeometric ones. ``p`` is two-sided, twice the smaller tail and at most 1; ``observed`` and
    ``expected`` are Σa and its mean. Without a stratum that says something, p is None.
    """
    observed, least, used = 0, 0, 0
    chances = np.ones(1)
    for a, b, c, d in tables:
        n, failed, dropped = a + b + c + d, a + b, a + c
        if not (0 < failed < n and 0 < dropped < n):
            continue
        low, more = _hypergeometric(failed, dropped, n)
        chances = np.convolve(chances, more)
        observed, least, used = observed + a, least + low, used + 1
    if not used:
        return {"strata": 0, "observed": None, "expected": None, "p": None}
    at = observed - least
    tail = min(math.fsum(chances[: at + 1]), math.fsum(chances[at:]))
    expected = least + math.fsum(place * chance for place, chance in enumerate(chances.tolist()))
    return {"strata": used, "observed": observed, "expected": expected, "p": min(1.0, 2 * tail)}


def _outcome(resolved: bool | None) -> str:
    return "unlabelled" if resolved is None else "resolved" if resolved else "failed"


def _sum(cells: Iterable[tuple[int, int]]) -> tuple[int, int]:
    kept = dropped = 0
    for one, other in cells:
        kept, dropped = kept + one, dropped + other
    return kept, dropped


def _row(kept: int, dropped: int) -> dict[str, Any]:
    total = kept + dropped
    interval = wilson(dropped, total)
    return {
        "trajectories": total,
        "stamped": kept,
        "unstamped": dropped,
        "stamped_share": kept / total if total else None,
        "drop_rate": dropped / total if total else None,
        "drop_rate_interval": None if interval is None else list(interval),
    }


class Coverage:
    """Stamped and unstamped runs by model and outcome, as a fold; memory grows with the number of models alone."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str | None, str, bool]] = Counter()

    def add(self, run: Run) -> None:
        """Count one run."""
        self._counts[run.header.model, _outcome(run.header.resolved), run.stamped] += 1

    def merge(self, other: Coverage) -> None:
        """Take in what another part of the corpus counted; the other stays as it is."""
        self._counts.update(other._counts)

    def result(self) -> dict[str, Any]:
        """Stamped shares and drop rates (unstamped / runs, with Wilson's 95 % interval), and the test of the drop.

        Returns:
            ``all``; ``by_model`` rows by name, the model None last; ``by_outcome`` rows resolved, failed, unlabelled;
            ``by_model_and_outcome`` rows, combinations without a run left out; ``models_apart``: {lowest, highest}
            {model, drop_rate}, None without a run; ``drop_by_outcome``: ``difference`` of the drop rates (failed less
            resolved) with ``interval`` (Newcombe), None where no outcome or no drop varies; ``within_models``: the
            tests :func:`mantel_haenszel` and :func:`conditional` stratified by model; ``not_measured``: why there is
            no test within models, empty where there is one. Runs that nobody labelled are in no test.
        """
        models = sorted({model for model, *_ in self._counts}, key=lambda model: (model is None, model or ""))
        cells: dict[tuple[str | None, str], tuple[int, int]] = {
            (model, outcome): (self._counts[model, outcome, True], self._counts[model, outcome, False])
            for model in models
            for outcome in OUTCOMES
        }
        rows = [{"model": model, **_row(*_sum(cells[model, outcome] for outcome in OUTCOMES))} for model in models]
        extremes = sorted(rows, key=lambda row: row["drop_rate"])
        brief = [{"model": row["model"], "drop_rate": row["drop_rate"]} for row in extremes]
        return {
            "all": _row(*_sum(cells.values())),
            "by_model": rows,
            "by_outcome": [
                {"outcome": outcome, **_row(*_sum(cells[model, outcome] for model in models))} for outcome in OUTCOMES
            ],
            "by_model_and_outcome": [
                {"model": model, "outcome": outcome, **_row(*cell)}
                for (model, outcome), cell in cells.items()
                if sum(cell)
            ],
            "models_apart": {"lowest": brief[0], "highest": brief[-1]} if brief else None,
            "drop_by_outcome": _drop([(*cells[m, "failed"][::-1], *cells[m, "resolved"][::-1]) for m in models]),
        }


def _drop(tables: Sequence[Table]) -> dict[str, Any]:
    a, b, c, d = (sum(table[place] for table in tables) for place in range(4))
    tests = {"mantel_haenszel": mantel_haenszel(tables), "exact": conditional(tables)}
    why = ""
    if not a + b + c + d:
        why = "no run is labelled"
    elif not (a + b and c + d):
        why = "every labelled run has the same outcome"
    elif not (a + c and b + d):
        why = "no labelled run is stamped" if a + c else "every labelled run is stamped"
    apart = None if why else difference(a, a + b, c, c + d)
    if not why and not tests["exact"]["strata"]:
        why = "no model has both outcomes and both stamped and unstamped runs"
    return {
        "failed_dropped": a,
        "failed": a + b,
        "resolved_dropped": c,
        "resolved": c + d,
        "dropped_failed_share": a / (a + c) if a + c else None,
        "difference": None if apart is None else apart[0],
        "interval": None if apart is None else [apart[1], apart[2]],
        "within_models": tests,
        "not_measured": why,
    }
