"""Engines of ours with one fault mended, to see a claim held: test doubles, never a proposal."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from traceaudit.trail import pin
from traceaudit.trail.engine import CategoryScore, ScoreReport, TraceScore
from traceaudit.trail.independent import IndependentEngine


class StrictNames(IndependentEngine):
    """Takes only a text that equals a label, blanks and case aside."""

    name = "double: strict names"

    def normalise(self, texts: Sequence[Any], taxonomy: Sequence[str] | None = None) -> list[Any]:
        labels = {label.lower().replace(" ", ""): label for label in taxonomy or self.taxonomy}
        return [labels.get(str(text).lower().replace(" ", ""), text) for text in texts]


class Paired(IndependentEngine):
    """Scores a trace on pairs that stay together."""

    name = "double: paired"

    def trace_many(self, pairs, taxonomy=None):
        kept = [
            tuple({"errors": [error for error in side["errors"] if error["category"]]} for side in pair)
            for pair in pairs
        ]
        return super().trace_many(kept, taxonomy)


class Placed(IndependentEngine):
    """Its category columns notice places: they are scaled by the location score."""

    name = "double: placed"

    def score(self, gold, replies) -> ScoreReport:
        report = super().score(gold, replies)
        scaled = {
            label: CategoryScore(c.precision * report.location, c.recall, c.f1 * report.location, c.support)
            for label, c in report.categories.items()
        }
        return dataclasses.replace(report, categories=scaled)


def taxonomy() -> tuple[str, ...]:
    return pin.taxonomy()


__all__ = ["Paired", "Placed", "StrictNames", "TraceScore", "taxonomy"]
