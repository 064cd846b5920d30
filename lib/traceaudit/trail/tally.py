"""The tally: category figures over all traces, from one bit set per trace and side.

Its formulas are those of the pinned scorer and of scikit-learn's weighted F1, in the same order of operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .engine import CategoryScore

__all__ = ["category_figures"]


def category_figures(
    labels: Sequence[str], gold: Sequence[int], predicted: Sequence[int]
) -> tuple[dict[str, CategoryScore], float]:
    """Per-label figures and the weighted F1.

    Args:
        labels: The taxonomy; bit i stands for label i.
        gold: One bit set per trace.
        predicted: Likewise, same length and order.

    Returns:
        label -> precision = tp / predicted, recall = tp / gold, F1 = their harmonic mean, support = gold, counted in
        traces; and sum(support · 2 tp / (gold + predicted)) / sum(support). Every 0/0 is 0, as in the scorer.
    """
    size = len(labels)
    true, found = _matrix(gold, size), _matrix(predicted, size)
    hits, support, answers = (true & found).sum(axis=0), true.sum(axis=0), found.sum(axis=0)
    figures = {
        label: _figures(int(tp), int(of_gold), int(of_predicted))
        for label, tp, of_gold, of_predicted in zip(labels, hits, support, answers, strict=True)
    }
    total = int(support.sum())
    if not total:
        return figures, 0.0
    both = (support + answers).astype(float)
    f1 = np.divide(2.0 * hits, both, out=np.zeros(size), where=both > 0)
    return figures, float(np.average(f1, weights=support.astype(float)))


def _matrix(rows: Sequence[int], size: int) -> np.ndarray:
    return np.array([[row >> bit & 1 for bit in range(size)] for row in rows], dtype=np.int64).reshape(len(rows), size)


def _figures(hits: int, gold: int, predicted: int) -> CategoryScore:
    precision = hits / predicted if predicted else 0.0
    recall = hits / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return CategoryScore(precision, recall, f1, gold)
