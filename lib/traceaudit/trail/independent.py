"""The independent engine: our own implementation of the pinned scorer's semantics.

It needs neither the scorer nor a worker process, is fast enough to rescan a split under thousands of label orders, and
is held equal to the pinned scorer on real, fixed and generated inputs; where the two differ, this one is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from . import documents
from .columns import Columns, first_scores
from .documents import Sides, load_gold, sides
from .engine import CategoryScore, ScoreReport, TraceScore
from .extraction import extract
from .normaliser import Normaliser, normaliser
from .tally import category_figures
from .trace_ids import check_trace_ids

__all__ = ["IndependentEngine"]


class _Outcome(NamedTuple):
    joint: float
    location: float
    gold_categories: list[Any]
    predicted_categories: list[Any]
    gold_scores: Any
    predicted_scores: Any


class IndependentEngine:
    """See :class:`~traceaudit.trail.engine.Engine`; stateless but for kept normaliser answers.

    Args:
        taxonomy: The labels, in the pinned scorer's order.
    """

    name = "independent"

    def __init__(self, taxonomy: Sequence[str]) -> None:
        self.taxonomy = tuple(taxonomy)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.taxonomy)} labels)"

    def score(self, gold: Mapping[str, bytes], replies: Mapping[str, bytes]) -> ScoreReport:
        """Score one split; see :meth:`Engine.score <traceaudit.trail.engine.Engine.score>`.

        A trace is counted in two steps, like in the pinned scorer: first its joint, its location and its category
        vectors, then its score columns, then the file as processed. An exception in the second step drops the trace
        from the denominator only, so that an average can exceed 1. Such a trace is in ``dropped``.

        Sums run in the order of the sorted ids.

        Raises:
            UsageError: an id is not a plain file name.
        """
        table, columns = normaliser(self.taxonomy), Columns()
        scored, missing, dropped = [], [], {}
        joint = location = 0.0
        gold_bits: list[int] = []
        predicted_bits: list[int] = []
        check_trace_ids(replies)
        for trace in check_trace_ids(gold):
            if trace not in replies:
                missing.append(trace)
                continue
            try:
                parsed, reply = load_gold(gold[trace]), documents.load_reply(replies[trace])
                outcome = _compare(sides(parsed), reply if isinstance(reply, Sides) else sides(reply), table)
                gold_bits.append(table.bits(outcome.gold_categories))
                predicted_bits.append(table.bits(outcome.predicted_categories))
                joint, location = joint + outcome.joint, location + outcome.location
                columns.add(outcome.gold_scores, outcome.predicted_scores)
            except Exception as error:  # as wide as the pinned scorer's own
                dropped[trace] = f"{type(error).__name__}: {error}"
            else:
                scored.append(trace)
        n = len(scored)
        if n:
            figures, weighted = category_figures(self.taxonomy, gold_bits, predicted_bits)
            joint, location = joint / n, location / n
        else:
            figures, weighted = dict.fromkeys(self.taxonomy, CategoryScore(0.0, 0.0, 0.0, 0)), 0.0
            joint = location = 0.0
        return ScoreReport(
            joint, location, weighted, figures, columns.correlations(), tuple(scored), tuple(missing), dropped
        )

    def trace(self, gold: Any, prediction: Any, taxonomy: Sequence[str] | None = None) -> TraceScore:
        """Score one parsed trace; see :meth:`Engine.trace <traceaudit.trail.engine.Engine.trace>`.

        The documents are what ``json.loads`` gives; two NaN are the same location only if they are the same object,
        which those from ``json.loads`` are.
        """
        outcome = _compare(sides(gold), sides(prediction), self._table(taxonomy))
        return TraceScore(
            float(outcome.joint),
            float(outcome.location),
            tuple(outcome.gold_categories),
            tuple(outcome.predicted_categories),
        )

    def trace_many(
        self, pairs: Sequence[tuple[Any, Any]], taxonomy: Sequence[str] | None = None
    ) -> list[TraceScore | None]:
        """:meth:`trace` over many (gold, prediction) pairs; ``None`` where it raises."""
        order = self.taxonomy if taxonomy is None else tuple(taxonomy)
        answers: list[TraceScore | None] = []
        for gold, prediction in pairs:
            try:
                answers.append(self.trace(gold, prediction, order))
            except Exception:  # whatever the pinned scorer would have skipped the trace for
                answers.append(None)
        return answers

    def normalise(self, texts: Sequence[Any], taxonomy: Sequence[str] | None = None) -> list[Any]:
        """The normaliser's answers; see :class:`~traceaudit.trail.normaliser.Normaliser`."""
        table = self._table(taxonomy)
        return [table.normalise(text) for text in texts]

    def extract(self, text: str) -> Any:
        """The object inside a reply; see :func:`~traceaudit.trail.extraction.extract`."""
        return extract(text)

    def close(self) -> None:
        """Nothing to release."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _table(self, taxonomy: Sequence[str] | None) -> Normaliser:
        return normaliser(self.taxonomy if taxonomy is None else tuple(taxonomy))


def _compare(gold: Sides, prediction: Sides, table: Normaliser) -> _Outcome:
    """One trace, in the order of steps in which the pinned scorer meets an exception (lines 33-74).

    Categories lose their falsy entries before they are paired with the locations by position, so that an entry without
    a category shifts all later ones and the last location has no pair. Every predicted location must be hashable,
    paired or not; this is looked at apart, since an intersection stops looking once it is complete.
    """
    gold_categories, predicted_categories = table.present(gold.categories), table.present(prediction.categories)
    gold_pairs = set(zip(gold.locations, gold_categories, strict=False))
    if not prediction.plain:
        set(prediction.locations)  # raises TypeError where the pinned scorer does
    common = gold_pairs.intersection(zip(prediction.locations, predicted_categories, strict=False))
    joint = len(common) / len(gold_pairs) if gold_pairs else 0
    gold_locations = set(gold.locations)
    shared = gold_locations.intersection(prediction.locations)
    location = len(shared) / len(gold_locations) if gold_locations else 0
    return _Outcome(
        joint,
        location,
        gold_categories,
        predicted_categories,
        first_scores(gold.document),
        first_scores(prediction.document),
    )
