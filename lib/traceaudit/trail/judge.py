"""What a judge's own replies score, and what the score costs: the figures of a receipt, trace by trace.

The scorer reports a mean over the traces it could use. Beside it stand the mean over all traces, what was said for it,
and what the same answer scores once every flagged span carries every label.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .engine import ScoreReport
from .extraction import extract, reply_text
from .scoring import label_map, pair_sets
from .study import Corpus, Study

__all__ = ["JudgeScore", "TraceFigures", "reason", "score_judge"]


@dataclass(frozen=True)
class TraceFigures:
    """One scored trace.

    Attributes:
        joint: |gold pairs ∩ predicted pairs| / |gold pairs|, 0 where the gold has none.
        location: The same over locations.
        joint_precision: The same intersection / |predicted pairs|, 0 where nothing was predicted.
        location_precision: The same over locations.
        sprayed_joint: ``joint`` once every flagged location carries every label.
        emitted: Errors in the reply.
        gold_errors: Errors in the gold.
    """

    joint: float
    location: float
    joint_precision: float
    location_precision: float
    sprayed_joint: float
    emitted: int
    gold_errors: int


@dataclass(frozen=True)
class JudgeScore:
    """A judge on one split.

    Attributes:
        report: The engine's answer over the split.
        traces: Ids of the traces whose gold can be read, sorted: the denominator of the ``*_all_traces`` figures.
        unreadable: Ids of the traces whose gold cannot, which no judge can be scored on.
        figures: trace id -> figures, for the scored traces.
        dropped: reason -> number of ``traces`` that were answered and left out.
    """

    report: ScoreReport
    traces: tuple[str, ...]
    unreadable: tuple[str, ...]
    figures: Mapping[str, TraceFigures]
    dropped: Mapping[str, int]

    @cached_property
    def missing(self) -> int:
        """Number of ``traces`` without a reply."""
        return len(set(self.report.missing) & set(self.traces))

    @property
    def answered(self) -> int:
        """Number of ``traces`` with a reply, whatever became of it."""
        return len(self.traces) - self.missing

    def over_all(self, column: str) -> float | None:
        """A column of :class:`TraceFigures` as a mean over all ``traces``; one that was not scored counts 0."""
        return self._total(column) / len(self.traces) if self.traces else None

    def over_scored(self, column: str) -> float | None:
        """The same as a mean over the scored traces; ``None`` where none was."""
        return self._total(column) / len(self.figures) if self.figures else None

    def _total(self, column: str) -> float:
        return math.fsum(getattr(figure, column) for figure in self.figures.values())

    @property
    def emitted(self) -> int:
        """Errors in the replies of the scored traces."""
        return sum(figure.emitted for figure in self.figures.values())

    @property
    def gold_errors(self) -> int:
        """Gold errors of the scored traces."""
        return sum(figure.gold_errors for figure in self.figures.values())

    @property
    def per_gold_error(self) -> float | None:
        """``emitted / gold_errors``; ``None`` where there is no gold error."""
        return self.emitted / self.gold_errors if self.gold_errors else None


def score_judge(study: Study, corpus: Corpus, replies: Mapping[str, bytes]) -> JudgeScore:
    """Score a judge's replies on one split.

    Args:
        study: Gives the engine and the labels.
        corpus: The split, with all its gold.
        replies: trace id -> bytes of the reply; ids that the gold does not have are not looked at.

    Returns:
        The engine's report with the figures behind it; every dropped trace has a reason in words that are the same
        for both engines.
    """
    known = {trace: data for trace, data in replies.items() if trace in corpus.gold}
    report = study.engine.score(corpus.gold.bytes, known)
    said = {trace: list(extract(reply_text(known[trace])).get("errors", [])) for trace in report.scored}
    labels = label_map(study, (error for errors in said.values() for error in errors), corpus)
    readable = tuple(trace for trace, file in corpus.gold.items() if file.parses)
    dropped = Counter(reason(known[trace], why) for trace, why in report.dropped.items() if corpus.gold[trace].parses)
    return JudgeScore(
        report=report,
        traces=readable,
        unreadable=tuple(file.trace for file in corpus.gold.unread),
        figures={trace: _figures(corpus.gold[trace].errors, said[trace], labels, study) for trace in report.scored},
        dropped=dict(sorted(dropped.items())),
    )


def _figures(gold_errors: Any, said: list[Any], labels: Mapping[Any, Any], study: Study) -> TraceFigures:
    gold, places = pair_sets(gold_errors, labels)
    pairs, flagged = pair_sets(said, labels)
    sprayed = sum(place in flagged and label in study.taxonomy for place, label in gold)
    return TraceFigures(
        joint=_share(len(gold & pairs), gold),
        location=_share(len(places & flagged), places),
        joint_precision=_share(len(gold & pairs), pairs),
        location_precision=_share(len(places & flagged), flagged),
        sprayed_joint=_share(sprayed, gold),
        emitted=len(said),
        gold_errors=len(gold_errors),
    )


def _share(part: int, whole: set[Any]) -> float:
    return part / len(whole) if whole else 0.0


def reason(reply: bytes, why: str) -> str:
    """Why a reply was left out, in words that do not depend on the engine or the Python version.

    Args:
        reply: Its bytes.
        why: The engine's ``Class: message``.
    """
    kind = why.partition(":")[0]
    if not reply.strip():
        return "empty reply"
    try:
        text = reply_text(reply)
    except UnicodeDecodeError:
        return "not UTF-8"
    if kind == "RecursionError":
        return "nested too deeply"
    try:
        extract(text)
    except (ValueError, RecursionError):
        opened, closed = text.find("{"), text.rfind("}")
        return "no JSON object in the reply" if opened < 0 or closed < opened else "the JSON does not parse"
    return "a field has the wrong type"
