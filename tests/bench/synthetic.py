"""Invented corpora of any size for the scaling curves, in the style of the demo and from a seed.

One size grows and the others stay near those of the real corpus, so that a curve shows the cost of that size alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from traceaudit.trail.demo import DIMENSIONS, SEED

TRACES, SPANS, GOLD, PREDICTIONS = 148, 31, 6, 3
"""About what the real corpus has: traces; spans, gold errors and errors of a real judge's reply a trace."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a corpus: traces, and for each of them spans, gold errors and errors of the reply."""

    traces: int = TRACES
    spans: int = SPANS
    gold: int = GOLD
    predictions: int = PREDICTIONS


@dataclass(frozen=True)
class Growth:
    """What grows along a curve: what its sizes count, what else the corpus holds, and the shape at a factor."""

    counts: str
    corpus: str

    def shape(self, factor: float) -> Shape:
        """The shape at a multiple of the smallest size."""
        if self is GROWTHS["traces"]:
            return Shape(traces=round(TRACES * factor))
        if self is GROWTHS["spans"]:
            spans = round(SPANS * factor)
            return Shape(spans=spans, gold=round(GOLD * factor), predictions=spans)
        return Shape(predictions=round(PREDICTIONS * factor))

    def size(self, shape: Shape) -> int:
        """The size of a shape that this curve is about."""
        return {"traces": shape.traces, "spans": shape.spans}.get(self.counts.split()[0], shape.predictions)


GROWTHS = {
    "traces": Growth("traces", f"{SPANS} spans, {GOLD} gold errors and {PREDICTIONS} predicted errors in each trace"),
    "spans": Growth(
        "spans of a trace", f"{TRACES} traces, a prediction at each span, gold errors at {GOLD} of {SPANS} spans"
    ),
    "predictions": Growth(
        "predicted errors of a trace", f"{TRACES} traces of {SPANS} spans and {GOLD} gold errors each"
    ),
}


def factors(most: float, n: int) -> list[float]:
    """``n`` factors on a log grid from 1 to ``most``."""
    return [most ** (place / (n - 1)) for place in range(n)]


def write(folder: Path, shape: Shape, labels: Sequence[str], *, seed: int = SEED) -> None:
    """Write a corpus as two folders, ``gold`` and ``replies``, of one file a trace; same seed, same bytes."""
    draw = random.Random(seed)
    for side in ("gold", "replies"):
        (folder / side).mkdir(parents=True)
    for _ in range(shape.traces):
        trace = f"{draw.getrandbits(128):032x}"
        spans = [f"{draw.getrandbits(64):016x}" for _ in range(shape.spans)]
        gold = [(at, draw.choice(labels)) for at in draw.sample(spans, shape.gold)]
        if shape.predictions == shape.spans:
            reply = [(at, draw.choice(labels)) for at in spans]
        else:
            chosen = draw.sample(range(len(spans) * len(labels)), shape.predictions)
            reply = [(spans[place // len(labels)], labels[place % len(labels)]) for place in chosen]
        for side, errors in (("gold", gold), ("replies", reply)):
            (folder / side / f"{trace}.json").write_text(_document(trace, errors, draw), encoding="utf-8")


def _document(trace: str, errors: Sequence[tuple[str, str]], draw: random.Random) -> str:
    scores: dict[str, float] = {f"{name}_score": draw.randint(1, 5) for name in DIMENSIONS}
    scores["overall"] = sum(scores.values()) / len(DIMENSIONS)
    rows = [
        {
            "category": label,
            "location": at,
            "evidence": "invented evidence",
            "description": "invented description",
            "impact": draw.choice(("LOW", "MEDIUM", "HIGH")),
        }
        for at, label in errors
    ]
    return json.dumps({"trace_id": trace, "errors": rows, "scores": [scores]}, indent=4)
