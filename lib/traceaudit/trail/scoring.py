"""Scores of the predictors on one split, with the precision that the scorer does not report.

The precision divides the same intersections by what was predicted; before any of it is shown, the recall built from
the same pairs must equal the scorer's own figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import RecordMismatch
from .engine import ScoreReport
from .predictors import PREDICTORS, Predictor, TraceView, predict, replies
from .study import Corpus, Study

__all__ = ["Scored", "ceiling", "dropped_reasons", "scored"]

TOLERANCE = 1e-12


@dataclass(frozen=True)
class Scored:
    """One predictor on one split.

    Attributes:
        report: The engine's answer.
        joint_precision: Mean over scored traces of |gold pairs ∩ predicted pairs| / |predicted pairs|, 0/0 = 0.
        location_precision: The same over locations.
        emitted: Errors emitted, over scored traces.
        gold_errors: Gold errors in the same traces.
        per_gold_error: ``emitted / gold_errors``, ``None`` where there is no gold error.
    """

    report: ScoreReport
    joint_precision: float | None
    location_precision: float | None
    emitted: int
    gold_errors: int

    @property
    def per_gold_error(self) -> float | None:
        return self.emitted / self.gold_errors if self.gold_errors else None


def scored(study: Study, corpus: Corpus, predictor: str) -> Scored:
    """Score one of the seven predictors on a split, once per study.

    Raises:
        RecordMismatch: the recall built from our pairs is not the scorer's.
    """
    return study.once((corpus.split, predictor), lambda: _score(study, corpus, PREDICTORS[predictor]))


def _score(study: Study, corpus: Corpus, predictor: Predictor) -> Scored:
    written = replies(predictor, corpus.spans, study.taxonomy, corpus.gold.parsed)
    report = study.engine.score(corpus.gold.bytes, written)
    said = {
        trace: predict(
            predictor, TraceView(tuple(corpus.spans.get(trace, ())), study.taxonomy), corpus.gold.parsed[trace]
        )
        for trace in report.scored
    }
    labels = label_map(study, (error for errors in said.values() for error in errors), corpus)
    recalls, precisions, emitted, wanted = [], [], 0, 0
    for trace in report.scored:
        gold_errors = corpus.gold[trace].errors
        gold, predicted = pair_sets(gold_errors, labels), pair_sets(said[trace], labels)
        recalls.append([_share(g & p, g) for g, p in zip(gold, predicted, strict=True)])
        precisions.append([_share(g & p, p) for g, p in zip(gold, predicted, strict=True)])
        emitted += len(said[trace])
        wanted += len(gold_errors)
    ours, theirs = _means(recalls), (report.joint, report.location)
    if report.scored and not all(abs(a - b) <= TOLERANCE for a, b in zip(ours, theirs, strict=True)):
        raise RecordMismatch(
            "the recall of our pairs is not the scorer's, so no precision can be shown",
            where=f"{corpus.split}, {predictor.name}",
            expected=f"joint {theirs[0]!r}, location {theirs[1]!r}",
            got=f"joint {ours[0]!r}, location {ours[1]!r}",
            next_step="compare the pair building with the pinned scorer's",
        )
    joint, location = _means(precisions) if report.scored else (None, None)
    return Scored(report, joint, location, emitted, wanted)


def label_map(study: Study, errors: Iterable[Mapping[str, Any]], corpus: Corpus) -> dict[Any, Any]:
    """Every category that occurs in ``errors`` or in the gold -> its normalised form, asked of the engine once each."""
    gold = (error for _, error in corpus.gold.each_error())
    texts = list(
        dict.fromkeys(c for source in (errors, gold) for e in source if isinstance(c := e.get("category"), str))
    )
    return dict(zip(texts, study.engine.normalise(texts), strict=True))


def pair_sets(errors: Sequence[Mapping[str, Any]], labels: Mapping[Any, Any]) -> tuple[set[Any], set[Any]]:
    """The (location, label) pairs and the locations of a list of errors, paired by position as the scorer does.

    Falsy categories are left out before the pairing, locations are not, so one null category shifts all that follow.
    """
    locations = [error.get("location", "") for error in errors]
    categories = [labels[error["category"]] for error in errors if error.get("category", "")]
    return set(zip(locations, categories, strict=False)), set(locations)


def _share(common: set[Any], whole: set[Any]) -> float:
    return len(common) / len(whole) if whole else 0.0


def _means(rows: Sequence[Sequence[float]]) -> tuple[float, float]:
    if not rows:
        return 0.0, 0.0
    joint, location = zip(*rows, strict=True)
    return math.fsum(joint) / len(rows), math.fsum(location) / len(rows)


def ceiling(study: Study, corpus: Corpus) -> tuple[float | None, tuple[str, ...], tuple[str, ...]]:
    """What anything that answers every trace can reach: the share of scored traces whose gold carries an error.

    Returns:
        The share (``None`` without a scored trace), the scored traces, and those of them that carry an error.
    """
    traces = scored(study, corpus, "silent").report.scored
    carrying = tuple(trace for trace in traces if corpus.gold[trace].errors)
    return (len(carrying) / len(traces) if traces else None), traces, carrying


def dropped_reasons(report: ScoreReport, corpus: Corpus) -> dict[str, int]:
    """Why traces are not in the average: reason -> number of traces."""
    reasons: dict[str, int] = {}
    for trace in report.dropped:
        reason = "scoring raised an error" if corpus.gold[trace].parses else "gold file does not parse"
        reasons[reason] = reasons.get(reason, 0) + 1
    if report.missing:
        reasons["no prediction file"] = len(report.missing)
    return reasons
