"""Score columns: the five numbers that gold and prediction give a trace as a whole, and how they correlate.

The conversions of the pinned scorer decide which traces are dropped and after what has already been counted, so they
are kept step by step.
"""

from __future__ import annotations

import warnings
from typing import Any

from .engine import Correlation

__all__ = ["COLUMNS", "Columns", "first_scores"]

COLUMNS = {
    "reliability": "reliability_score",
    "security": "security_score",
    "instruction_adherence": "instruction_adherence_score",
    "plan_optimization": "plan_opt_score",
    "overall": "overall",
}


def first_scores(document: Any) -> Any:
    """The first entry of ``scores``; an empty object where ``scores`` is absent or falsy.

    Raises:
        KeyError, TypeError: ``scores`` is truthy and has no item 0 (an object without the key, a number, ``true``).
    """
    scores = document.get("scores")
    return scores[0] if scores else {}


class Columns:
    """The pairs of numbers of each score column over the traces seen so far."""

    def __init__(self) -> None:
        self._pairs: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in COLUMNS}

    def add(self, gold: Any, prediction: Any) -> None:
        """Add the columns that both entries have (pinned scorer, from line 169 on).

        Nothing is added where either entry is falsy. A falsy number becomes -1 on both sides. Gold goes through
        ``float``; so does the prediction, except reliability, which goes through ``int`` and is truncated. Where a
        conversion raises ``ValueError`` (text that is no number, NaN to ``int``) the prediction becomes -1. Columns
        are added one after the other: what precedes a failing one stays.

        Raises:
            ValueError: gold is text that is no number.
            TypeError: a value is no number at all, or an entry is a number and has no keys.
            OverflowError: infinity to ``int``, or an integer beyond the range of ``float``.
            AttributeError: an entry is text or a list that contains a column's key.
        """
        if not (gold and prediction):
            return
        for name, key in COLUMNS.items():
            if key in gold and key in prediction:
                true, predicted = gold.get(key) or -1, prediction.get(key) or -1
                try:
                    true = float(true)
                    predicted = int(predicted) if name == "reliability" else float(predicted)
                except ValueError:
                    true, predicted = float(true), -1
                golds, predictions = self._pairs[name]
                golds.append(true)
                predictions.append(predicted)

    def correlations(self) -> dict[str, Correlation]:
        """Pearson's r of each column that has a pair; see :class:`~traceaudit.trail.engine.Correlation`."""
        return {name: _pearson(golds, found) for name, (golds, found) in self._pairs.items() if golds}


def _pearson(golds: list[float], predictions: list[float]) -> Correlation:
    from scipy.stats import pearsonr  # the pinned scorer's own function: its edge cases are part of the figures

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            r, p = pearsonr(golds, predictions)
        except Exception:  # as wide as the pinned scorer's own: under two pairs, integers beyond a float
            r, p = 0, 1
    return Correlation(float(r), float(p), len(golds))
