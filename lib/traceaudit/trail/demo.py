"""The demo split: an invented corpus with every defect of the claims planted, built from a seed and nothing else.

The whole report can be built from it offline, and a test can plant one defect or none and see a verdict move. Its
ids, texts, "published" rows and counts are invented; none of them says anything about TRAIL.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .published import Published, Row

__all__ = ["DEFECTS", "SEED", "Demo", "build"]

SEED = 20260827
TRACES = 14
DIMENSIONS = ("reliability", "security", "instruction_adherence", "plan_opt")

DEFECTS: Mapping[str, str] = {
    "stray-location": "two gold errors give a sentence instead of a span id",
    "trailing-comma": "one gold file ends a list with a comma",
    "drifted-label": "gold spellings differ from the labels in each of the three ways",
    "ambiguous-label": "one gold spelling is contained in more than one label",
    "null-category": "one gold error carries a null category",
    "error-free": "one trace has no error",
    "miscounted": "the invented table of counts disagrees with the corpus",
    "repeated-error": "one gold error is listed twice",
    "torn-error": "one gold error lacks a field and holds two stray ones",
    "constant-dimension": "one score dimension is the same on every trace",
    "exposed-answer": "the record of the task, answer included, is in the log of one span of most traces",
}
"""Defects that can be planted: name -> what it is."""

STRAY = "no span for this part"


@dataclass(frozen=True)
class Demo:
    """An invented split.

    Attributes:
        gold: trace id -> bytes of the gold file.
        traces: trace id -> bytes of the trace file.
        spans: trace id -> span ids, depth first, duplicates kept.
        published: Invented judges and counts.
    """

    gold: Mapping[str, bytes]
    traces: Mapping[str, bytes]
    spans: Mapping[str, tuple[str, ...]]
    published: Published


def build(taxonomy: tuple[str, ...], *, seed: int = SEED, defects: Iterable[str] = DEFECTS) -> Demo:
    """Build the demo split.

    Args:
        taxonomy: The labels to annotate with, at least one.
        seed: Same seed, same bytes.
        defects: Names from :data:`DEFECTS`; an empty list gives a clean corpus.
    """
    planted = set(defects)
    unknown = planted - set(DEFECTS)
    if unknown:
        raise KeyError(", ".join(sorted(unknown)))
    draw = random.Random(seed)
    ids = sorted(f"{draw.getrandbits(128):032x}" for _ in range(TRACES))
    gold: dict[str, Any] = {}
    traces: dict[str, bytes] = {}
    spans: dict[str, tuple[str, ...]] = {}
    for trace in ids:
        tree, order = _trace(trace, draw)
        if "exposed-answer" in planted and trace != ids[0]:
            tree["spans"][0]["logs"] = [{"body": {"example": {"true_answer": "an invented answer"}}}]
        traces[trace] = json.dumps(tree).encode()
        spans[trace] = tuple(order)
        gold[trace] = _annotation(trace, order, taxonomy, draw)
    _plant(gold, ids, taxonomy, planted)
    files = {trace: json.dumps(value, indent=4).encode() for trace, value in gold.items()}
    if "trailing-comma" in planted:
        body = files[ids[5]].decode()
        files[ids[5]] = body.replace('\n    ],\n    "scores"', ',\n    ],\n    "scores"', 1).encode()
    read = {trace: value for trace, value in gold.items() if not (trace == ids[5] and "trailing-comma" in planted)}
    return Demo(files, traces, spans, _published(read, ids, spans, "miscounted" in planted))


def _trace(trace: str, draw: random.Random) -> tuple[dict[str, Any], list[str]]:
    order: list[str] = []

    def span(depth: int, parent: str | None) -> dict[str, Any]:
        own = f"{draw.getrandbits(64):016x}"
        order.append(own)
        children = draw.randint(1, 3) if depth < 3 else 0
        return {
            "trace_id": trace,
            "span_id": own,
            "parent_span_id": parent,
            "span_name": draw.choice(("plan", "search", "read", "answer")),
            "status_code": "Unset",
            "logs": [],
            "child_spans": [span(depth + 1, own) for _ in range(children)],
        }

    root = span(0, None)
    if len(order) % 2:  # as in the real corpus, a trace can list one span twice
        root["child_spans"].append({**root["child_spans"][0], "child_spans": []})
        order.append(root["child_spans"][0]["span_id"])
    return {"trace_id": trace, "spans": [root]}, order


def _annotation(trace: str, order: list[str], taxonomy: tuple[str, ...], draw: random.Random) -> dict[str, Any]:
    errors = [
        {
            "category": draw.choice(taxonomy),
            "location": where,
            "evidence": "invented evidence",
            "description": "invented description",
            "impact": draw.choice(("LOW", "MEDIUM", "HIGH")),
        }
        for where in draw.sample(order[1:], k=draw.randint(2, min(5, len(order) - 1)))
    ]
    scores: dict[str, Any] = {f"{name}_score": draw.randint(1, 5) for name in DIMENSIONS}
    scores["overall"] = sum(scores.values()) / len(DIMENSIONS)
    return {"trace_id": trace, "errors": errors, "scores": [scores]}


def _plant(gold: dict[str, Any], ids: list[str], taxonomy: tuple[str, ...], planted: set[str]) -> None:
    def errors(position: int) -> list[dict[str, Any]]:
        return gold[ids[position]]["errors"]

    if "stray-location" in planted:
        errors(0)[0]["location"] = errors(1)[0]["location"] = STRAY
    if "drifted-label" in planted:
        errors(2)[0]["category"] = f" {taxonomy[5].upper()}"  # caught by the exact pass
        errors(2)[1]["category"] = taxonomy[7][:-1]  # caught by containment
        errors(3)[0]["category"] = f"{taxonomy[-1]} Errors"  # caught by neither
    if "ambiguous-label" in planted:
        # Under the listed order this text and the next error's label are one label, under another they are two.
        errors(4)[0]["category"] = "error"
        errors(4)[1]["category"] = next((label for label in taxonomy if "error" in label.lower()), taxonomy[0])
    if "null-category" in planted:
        errors(6)[0]["category"] = None
    if "repeated-error" in planted:
        errors(8).append(dict(errors(8)[0]))
    if "torn-error" in planted:
        torn = errors(9)[0]
        del torn["description"]
        torn |= {"a torn": "piece", "of text": "here"}
    if "constant-dimension" in planted:
        for value in gold.values():
            value["scores"][0]["security_score"] = 5
    if "error-free" in planted:
        gold[ids[7]]["errors"] = []


def _published(
    gold: Mapping[str, Any], ids: list[str], spans: Mapping[str, tuple[str, ...]], miscounted: bool
) -> Published:
    errors = [error for value in gold.values() for error in value["errors"]]
    counts = {
        "traces": len(ids),
        "spans": sum(len(order) for order in spans.values()),
        "errors": len(errors),
        "error_spans": len({error["location"] for error in errors}),
        "traces_with_error": sum(bool(value["errors"]) for value in gold.values()),
    }
    if miscounted:
        counts["spans"] += 1
        counts["errors"] -= 1
    rows = (Row("invented judge A", 0.300, 0.500, 0.150, 0.400), Row("invented judge B", 0.250, 0.350, 0.090, 0.500))
    return Published("invented for the demo", rows, counts, 12, len(ids), counts["errors"])
