"""Engines of ours with one fault mended, to see a claim held: test doubles, never a proposal."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from typing import Any

from traceaudit.trail import pin
from traceaudit.trail.engine import CategoryScore, Correlation, ScoreReport, TraceScore
from traceaudit.trail.extraction import extract
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


class Whole(IndependentEngine):
    """Divides by every readable gold trace, counts what it cannot score as wrong, and credits a right silence."""

    name = "double: whole"

    def score(self, gold, replies) -> ScoreReport:
        empty = b'{"errors": []}'
        answered = {trace: replies.get(trace, empty) for trace in gold}
        report = super().score(gold, answered)
        pairs = {trace: (gold[trace], answered[trace]) for trace in gold}
        rows = [self._one(*pair) for pair in pairs.values()]
        readable = [row for row in rows if row is not None]
        n = len(readable) or 1
        joint, location = sum(row[0] for row in readable) / n, sum(row[1] for row in readable) / n
        every = tuple(sorted(trace for trace, row in zip(pairs, rows, strict=True) if row is not None))
        return dataclasses.replace(report, joint=joint, location=location, scored=every, missing=(), dropped={})

    def _one(self, gold: bytes, reply: bytes) -> tuple[float, float] | None:
        try:
            wanted = json.loads(gold)
        except ValueError:
            return None
        try:
            found = self.trace(wanted, extract(reply.decode()))
        except Exception:
            return 0.0, 0.0
        return found.joint, found.location

    def trace(self, gold, prediction, taxonomy=None) -> TraceScore:
        found = super().trace(gold, prediction, taxonomy)
        right = not gold["errors"] and not prediction["errors"]
        return dataclasses.replace(found, joint=1.0, location=1.0) if right else found


class Precise(IndependentEngine):
    """Divides the joint score by what was said as well, as an F1 would."""

    name = "double: precise"

    def score(self, gold, replies) -> ScoreReport:
        report = super().score(gold, replies)
        said = sum(len(json.loads(reply)["errors"]) for trace, reply in replies.items() if trace in report.scored)
        wanted = sum(len(json.loads(gold[trace])["errors"]) for trace in report.scored)
        return dataclasses.replace(report, joint=report.joint * min(1.0, wanted / said if said else 0.0))


class ZerosKept(IndependentEngine):
    """Correlates what was said: a zero stays zero."""

    name = "double: zeros kept"

    def score(self, gold, replies) -> ScoreReport:
        report = super().score(gold, replies)
        key, rows = "reliability_score", []
        for trace in report.scored:
            said = (json.loads(replies[trace]).get("scores") or [{}])[0]
            if key in said:
                rows.append((float(json.loads(gold[trace])["scores"][0][key]), float(said[key])))
        if len(rows) < 2:
            return report
        r = statistics.correlation(*zip(*rows, strict=True))
        kept = {**report.correlations, "reliability": Correlation(r, 0.0, len(rows))}
        return dataclasses.replace(report, correlations=kept)


def taxonomy() -> tuple[str, ...]:
    return pin.taxonomy()


__all__ = ["Paired", "Placed", "Precise", "StrictNames", "Whole", "ZerosKept", "taxonomy"]
