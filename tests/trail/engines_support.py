"""Helpers of the engine tests: small predictors, comparable forms, and generated documents."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import strategies as st

from traceaudit.trail.engine import ScoreReport

ODD_TEXTS = ["", " ", "e", "Resource", "FORMATTING errors", "Goal\u00a0Deviation", "Rate Limiting!", "\ud800", "s1"]
SPANS = ["s1", "s2", "s3", "S1", ""]
COLUMNS = ["reliability_score", "security_score", "instruction_adherence_score", "plan_opt_score", "overall"]


def rows(pairs: list[tuple[Any, Any]]) -> bytes:
    """A reply that lists (category, location) pairs."""
    return json.dumps({"errors": [{"category": c, "location": at} for c, at in pairs]}).encode()


def readable(data: bytes) -> list[tuple[Any, Any]]:
    """The (category, location) pairs of a gold file, none where it is broken."""
    try:
        errors = json.loads(data)["errors"]
    except ValueError:
        return []
    return [(error["category"], error["location"]) for error in errors]


def predictions(
    gold: dict[str, bytes], spans: dict[str, list[str]], labels: tuple[str, ...]
) -> dict[str, dict[str, bytes]]:
    """Name -> trace -> reply, for a handful of predictors that leave few figures at 0 or 1."""
    draw = random.Random(5)
    pairs = {trace: readable(data) for trace, data in gold.items()}
    distinct = {trace: list(dict.fromkeys(spans[trace])) for trace in gold}
    some = sorted(gold)[::3]
    return {
        "silent": {trace: rows([]) for trace in gold},
        "gold bytes": dict(gold),
        "gold, every third trace": {trace: gold[trace] for trace in some},
        "gold mispaired": {
            trace: rows([(None, "nowhere"), *found, ("Goal Deviation", "nowhere")]) for trace, found in pairs.items()
        },
        "all spans, all labels": {
            trace: rows([(label, at) for at in ids for label in labels]) for trace, ids in distinct.items()
        },
        "random": {
            trace: rows([(draw.choice([*labels, *ODD_TEXTS[:7]]), draw.choice([*ids, "none"])) for _ in range(12)])
            for trace, ids in distinct.items()
        },
        "gold in prose, half torn": {
            trace: b"Errors: " + data[: len(data) if at % 2 else len(data) // 2] + b" (end)"
            for at, (trace, data) in enumerate(gold.items())
        },
    }


def comparable(report: ScoreReport) -> dict[str, Any]:
    """A report as plain data, without the messages of exceptions."""
    return {
        "figures": [report.joint, report.location, report.weighted_f1],
        "categories": {k: [c.precision, c.recall, c.f1, c.support] for k, c in report.categories.items()},
        "correlations": {k: [repr(c.r), repr(c.p), c.n] for k, c in report.correlations.items()},
        "scored": list(report.scored),
        "missing": list(report.missing),
        "dropped": {trace: reason.partition(":")[0] for trace, reason in report.dropped.items()},
    }


@st.composite
def junk(draw: st.DrawFn) -> Any:
    """Anything that JSON can hold where something else is expected."""
    kinds = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 6),
        st.sampled_from([10**30, -(10**400)]),
        st.floats(allow_nan=True, allow_infinity=True, width=32),
        st.sampled_from(["4", " 3.5 ", "nan", "1e400", "1_0", "\u0663", "high", ""]),
        st.sampled_from([[], {}, [1], {"a": 1}, {"0": {}}]),
    )
    return draw(kinds)


@st.composite
def documents(draw: st.DrawFn, labels: tuple[str, ...]) -> Any:
    """Gold or predictions: mostly well formed, with junk here and there."""
    category = st.one_of(st.sampled_from(labels), st.sampled_from(ODD_TEXTS), st.text(max_size=6), junk())
    location = st.one_of(st.sampled_from(SPANS), st.sampled_from(SPANS), junk())
    good = st.fixed_dictionaries({"category": st.sampled_from(labels[:4]), "location": st.sampled_from(SPANS)})
    odd = st.fixed_dictionaries({}, optional={"category": category, "location": location, "impact": junk()})
    errors = st.lists(st.one_of(good, good, good, odd), max_size=6)
    number = st.one_of(st.integers(0, 5), st.floats(0, 5), junk())
    scores = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(COLUMNS, number)), max_size=2)
    either = {"errors": st.one_of(errors, errors, errors, junk()), "scores": st.one_of(scores, scores, junk())}
    return draw(st.fixed_dictionaries({}, optional=either))
