"""Seven predictors, each declaring what it may read: what a score is worth shows in who reaches it.

Three never see the gold, which is what makes their scores a statement about the metric. A predictor is handed exactly
what it declares to read and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["HEADLINE", "PREDICTORS", "Predictor", "TraceView", "predict", "replies"]

Errors = list[dict[str, Any]]


@dataclass(frozen=True)
class TraceView:
    """What a predictor that reads spans sees of a trace.

    Attributes:
        spans: Span ids, depth first, duplicates kept.
        taxonomy: The labels, in the scorer's order.
    """

    spans: tuple[str, ...]
    taxonomy: tuple[str, ...]

    @property
    def distinct(self) -> tuple[str, ...]:
        """The distinct span ids, in order of first occurrence."""
        return tuple(dict.fromkeys(self.spans))


@dataclass(frozen=True)
class Predictor:
    """A rule that writes the errors of one trace.

    Attributes:
        name: Its permanent name.
        reads: ``spans`` (the index and the taxonomy alone) or ``gold`` (the gold errors as well).
        says: What it does, one clause.
        rule: ``rule(view)`` or, where it reads gold, ``rule(view, gold_errors)`` -> errors.
    """

    name: str
    reads: str
    says: str
    rule: Callable[..., Errors]

    @property
    def slug(self) -> str:
        """The name as an identifier, for value names."""
        return self.name.replace("-", "_")


def _error(location: Any, category: Any) -> dict[str, Any]:
    return {"category": category, "location": location}


def _cross(locations: Sequence[Any], labels: Sequence[str]) -> Errors:
    return [_error(location, label) for location in locations for label in labels]


def _silent(view: TraceView) -> Errors:
    return []


def _gold_exact(view: TraceView, gold: Errors) -> Errors:
    return [_error(error.get("location"), error.get("category")) for error in gold]


def _gold_mispaired(view: TraceView, gold: Errors) -> Errors:
    following = gold[1:] + gold[:1]
    return [_error(here.get("location"), there.get("category")) for here, there in zip(gold, following, strict=True)]


def _every_span_once(view: TraceView) -> Errors:
    return _cross(view.distinct, view.taxonomy[:1])


def _gold_spans_all_categories(view: TraceView, gold: Errors) -> Errors:
    locations = [error.get("location") for error in gold]
    return _cross(tuple(dict.fromkeys(where for where in locations if isinstance(where, Hashable))), view.taxonomy)


def _all_spans_all_categories(view: TraceView) -> Errors:
    return _cross(view.distinct, view.taxonomy)


def _one_span_all_categories(view: TraceView) -> Errors:
    return _cross(view.spans[:1], view.taxonomy)


PREDICTORS: Mapping[str, Predictor] = {
    predictor.name: predictor
    for predictor in (
        Predictor("silent", "spans", "emits nothing", _silent),
        Predictor("gold-exact", "gold", "repeats the answer key", _gold_exact),
        Predictor(
            "gold-mispaired", "gold", "keeps each location and takes the category of the next error", _gold_mispaired
        ),
        Predictor("every-span-once", "spans", "flags each distinct span once, with the first label", _every_span_once),
        Predictor(
            "gold-spans-all-categories",
            "gold",
            "names every label at each location of the answer key",
            _gold_spans_all_categories,
        ),
        Predictor(
            "all-spans-all-categories", "spans", "names every label at each distinct span", _all_spans_all_categories
        ),
        Predictor(
            "one-span-all-categories", "spans", "names every label at the first span alone", _one_span_all_categories
        ),
    )
}

HEADLINE: tuple[str, ...] = tuple(name for name in PREDICTORS if name != "one-span-all-categories")
"""The six predictors of the headline table; the seventh belongs to the claim on category F1."""


def predict(predictor: Predictor, view: TraceView, gold: Any = None) -> Errors:
    """The errors that ``predictor`` writes for one trace.

    Args:
        predictor: One of :data:`PREDICTORS`.
        view: Spans and labels.
        gold: The parsed gold file, or ``None`` where it cannot be read; only a predictor that declares ``gold`` is
            shown its errors. Without readable gold such a predictor emits nothing.
    """
    if predictor.reads == "spans":
        return predictor.rule(view)
    found = gold.get("errors") if isinstance(gold, Mapping) else None
    errors = [error for error in found if isinstance(error, dict)] if isinstance(found, list) else []
    return predictor.rule(view, errors)


def replies(
    predictor: Predictor, spans: Mapping[str, Sequence[str]], taxonomy: Sequence[str], gold: Mapping[str, Any]
) -> dict[str, bytes]:
    """One prediction file a trace, as a judge would write it: trace id -> JSON bytes.

    Args:
        predictor: One of :data:`PREDICTORS`.
        spans: trace id -> span ids; a trace of ``gold`` that is absent here has no spans.
        taxonomy: The labels.
        gold: trace id -> parsed gold (or ``None``); its ids are the traces to answer.
    """
    out = {}
    for trace, parsed in gold.items():
        view = TraceView(tuple(spans.get(trace, ())), tuple(taxonomy))
        out[trace] = json.dumps({"errors": predict(predictor, view, parsed)}).encode()
    return out
