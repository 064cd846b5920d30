"""Predictors read what they declare and nothing else."""

from __future__ import annotations

import json

import pytest

from traceaudit.trail import pin
from traceaudit.trail.predictors import HEADLINE, PREDICTORS, TraceView, predict, replies
from traceaudit.trail.study import REAL_SPLITS, open_study

LABELS = ("One", "Two", "Three")
VIEW = TraceView(spans=("a", "b", "a"), taxonomy=LABELS)
GOLD = {"errors": [{"location": "a", "category": "Two"}, {"location": "b", "category": "Three"}]}

# predictor -> what it writes for VIEW and GOLD, as (location, category)
WRITES = {
    "silent": [],
    "gold-exact": [("a", "Two"), ("b", "Three")],
    "gold-mispaired": [("a", "Three"), ("b", "Two")],  # each takes the next category, the last one the first
    "every-span-once": [("a", "One"), ("b", "One")],  # the span listed twice is flagged once
    "gold-spans-all-categories": [(where, label) for where in "ab" for label in LABELS],
    "all-spans-all-categories": [(where, label) for where in "ab" for label in LABELS],
    "one-span-all-categories": [("a", label) for label in LABELS],
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(name):
    said = predict(PREDICTORS[name], VIEW, GOLD)
    assert [(error["location"], error["category"]) for error in said] == WRITES[name]


def test_all_are_tested_and_six_are_in_the_headline():
    assert set(WRITES) == set(PREDICTORS)
    assert len(PREDICTORS) == 7
    assert set(PREDICTORS) - set(HEADLINE) == {"one-span-all-categories"}


@pytest.mark.parametrize("name", [name for name, rule in PREDICTORS.items() if rule.reads == "gold"])
@pytest.mark.parametrize(
    "gold",
    [
        None,  # the file did not parse
        [],  # not an object
        {},  # no errors
        {"errors": None},
        {"errors": "text"},
        {"errors": ["text", 7]},  # no error is an object
    ],
)
def test_without_readable_gold_nothing_is_written(name, gold):
    assert predict(PREDICTORS[name], VIEW, gold) == []


def test_odd_gold_does_not_stop_a_predictor():
    gold = {"errors": [{"location": ["list"], "category": 3}, {}]}
    for predictor in PREDICTORS.values():
        json.dumps(predict(predictor, VIEW, gold))


def test_a_trace_without_spans_is_answered_with_nothing():
    view = TraceView(spans=(), taxonomy=LABELS)
    for predictor in PREDICTORS.values():
        if predictor.reads == "spans":
            assert predict(predictor, view, GOLD) == []


@pytest.mark.real
@pytest.mark.parametrize("split", REAL_SPLITS)
@pytest.mark.parametrize("name", [name for name, rule in PREDICTORS.items() if rule.reads == "spans"])
def test_a_gold_blind_predictor_writes_the_same_against_nonsense(name, split, trail_source):
    with open_study(split, str(trail_source)) as study:
        real = study.corpus.gold.parsed
        nonsense = {trace: {"errors": [{"location": "nowhere", "category": "nothing"}] * 9} for trace in real}
        written = [replies(PREDICTORS[name], study.corpus.spans, pin.taxonomy(), gold) for gold in (real, nonsense)]
    assert len(real) == len(written[0])
    assert written[0] == written[1]
