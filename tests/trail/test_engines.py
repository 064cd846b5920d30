"""The independent engine against the pinned scorer: on all real gold, on generated documents, under other label orders.

The tests marked ``upstream`` need the scorer; the ones marked ``real`` hold our engine, without it, to figures that the
scorer gave.
"""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traceaudit.errors import UsageError
from traceaudit.trail.upstream import taxonomy_from_source

from .engines_support import ODD_TEXTS, comparable, documents, predictions
from .fake_scorer import FAKE

SPLITS = ["GAIA", "SWE Bench"]
NAMES = [
    "silent",
    "gold bytes",
    "gold, every third trace",
    "gold mispaired",
    "all spans, all labels",
    "random",
    "gold in prose, half torn",
]
GENERATED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

# What the pinned scorer gives: (split, predictor) -> joint, location, weighted F1, number scored.
FIGURES = {
    ("GAIA", "silent"): (0.0, 0.0, 0.0, 116),
    ("GAIA", "gold bytes"): (0.9741379310344828, 0.9741379310344828, 1.0, 116),
    ("GAIA", "gold, every third trace"): (0.9743589743589743, 0.9743589743589743, 1.0, 39),
    ("GAIA", "gold mispaired"): (0.40801224637431543, 0.9741379310344828, 0.9558163117485151, 116),
    ("GAIA", "all spans, all labels"): (0.9733542319749217, 0.9741379310344828, 0.4725428164419759, 116),
    ("GAIA", "random"): (0.02472922192749779, 0.4158353858784894, 0.3790985824957979, 116),
    ("GAIA", "gold in prose, half torn"): (1.0, 1.0, 1.0, 58),
    ("SWE Bench", "silent"): (0.0, 0.0, 0.0, 31),
    ("SWE Bench", "gold bytes"): (0.967741935483871, 0.967741935483871, 1.0, 31),
    ("SWE Bench", "gold, every third trace"): (0.9090909090909091, 0.9090909090909091, 1.0, 11),
    ("SWE Bench", "gold mispaired"): (0.48202621751008856, 0.967741935483871, 0.9858260019550342, 31),
    ("SWE Bench", "all spans, all labels"): (0.9577592658237819, 0.9612251547735419, 0.7066078270562196, 31),
    ("SWE Bench", "random"): (0.0063984402694080116, 0.3133931480705674, 0.4497317222487002, 31),
    ("SWE Bench", "gold in prose, half torn"): (1.0, 1.0, 1.0, 15),
}


@pytest.mark.real
@pytest.mark.parametrize(("split", "name"), FIGURES)
def test_figures_of_the_pinned_scorer(split, name, independent, real_gold, real_spans):
    """Our engine gives the figures that the pinned scorer gave, on every split and predictor."""
    gold = real_gold[split]
    report = independent.score(gold, predictions(gold, real_spans[split], independent.taxonomy)[name])
    assert (report.joint, report.location, report.weighted_f1) == pytest.approx(FIGURES[split, name][:3], abs=1e-12)
    assert len(report.scored) == FIGURES[split, name][3]


@pytest.mark.upstream
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", NAMES)
def test_real_gold(split, name, upstream, independent, real_gold, real_spans):
    """Both engines agree in every leaf, to the last bit, and the figures above are the scorer's."""
    gold = real_gold[split]
    replies = predictions(gold, real_spans[split], upstream.taxonomy)[name]
    theirs, ours = upstream.score(gold, replies), independent.score(gold, replies)
    assert comparable(ours) == comparable(theirs)
    found = (theirs.joint, theirs.location, theirs.weighted_f1)
    assert found == pytest.approx(FIGURES[split, name][:3], abs=1e-12)


@pytest.mark.upstream
def test_taxonomy(upstream, scorer_bytes, labels):
    """The committed labels are those of the scorer's syntax tree, in its order."""
    assert taxonomy_from_source(scorer_bytes) == upstream.taxonomy == labels


@pytest.mark.upstream
def test_scores_of_generated_documents(upstream, independent, labels):
    """Three generated traces at a time, as files."""

    @GENERATED
    @given(st.lists(st.tuples(documents(labels), documents(labels)), min_size=1, max_size=3))
    def check(pairs):
        gold = {f"t{at}": json.dumps(pair[0]).encode() for at, pair in enumerate(pairs)}
        replies = {f"t{at}": json.dumps(pair[1]).encode() for at, pair in enumerate(pairs)}
        assert comparable(independent.score(gold, replies)) == comparable(upstream.score(gold, replies))

    check()


@pytest.mark.upstream
def test_traces_of_generated_documents(upstream, independent, labels):
    """One trace at a time, under a shuffled order of labels; the same type of exception, where there is one."""

    @GENERATED
    @given(documents(labels), documents(labels), st.permutations(labels))
    def check(gold, prediction, order):
        gold, prediction = json.loads(json.dumps(gold)), json.loads(json.dumps(prediction))
        answers = [attempt(engine.trace, gold, prediction, order) for engine in (upstream, independent)]
        assert answers[0] == answers[1]
        many = [engine.trace_many([(gold, prediction)] * 2, order) for engine in (upstream, independent)]
        assert many[0] == many[1] == ([None] * 2 if isinstance(answers[0], type) else [answers[0]] * 2)

    check()


@pytest.mark.upstream
def test_normaliser(upstream, independent, labels):
    """Labels, parts of labels, odd texts and generated ones, under thirty orders."""
    draw = random.Random(11)
    parts = [label[a : a + draw.randint(1, 9)] for label in labels for a in range(0, len(label), 3)]
    texts = [*labels, *parts, *ODD_TEXTS, *(label.upper() + " " for label in labels), None, 0, [], {}]
    for _ in range(30):
        order = draw.sample(labels, len(labels))
        assert independent.normalise(texts, order) == upstream.normalise(texts, order)
    assert independent.normalise(texts) == upstream.normalise(texts)

    @GENERATED
    @given(st.lists(st.text(max_size=12), max_size=40))
    def check(generated):
        assert independent.normalise(generated) == upstream.normalise(generated)

    check()


@pytest.mark.upstream
@pytest.mark.parametrize("value", [1, True, [1], {"a": 1}, 2.5], ids=str)
def test_normaliser_of_no_text(value, upstream, independent):
    """What has no lower case raises the same in both."""
    for engine in (upstream, independent):
        with pytest.raises(AttributeError, match="lower"):
            engine.normalise([value])


@pytest.mark.upstream
def test_extraction(upstream, independent):
    """The scorer's own extraction, on generated texts."""

    @GENERATED
    @given(st.text(alphabet='{}[]",: \n\ta1', max_size=30))
    def check(text):
        assert repr(attempt(independent.extract, text)) == repr(attempt(upstream.extract, text))

    check()


@pytest.mark.upstream
def test_counted_above_the_line_only(upstream, independent):
    """An error in the score columns comes after the sums: the average exceeds 1, and the trace is dropped."""
    scores = [{"overall": 3}]
    gold = {
        name: json.dumps({"errors": [{"category": "Rate Limiting", "location": "s"}], "scores": scores}).encode()
        for name in ("a", "b", "c")
    }
    replies = gold | {"b": gold["b"].replace(b"3", b"[3]"), "c": gold["c"].replace(b"3", b"[3]")}
    for engine in (upstream, independent):
        report = engine.score(gold, replies)
        assert (report.joint, report.location) == (3.0, 3.0)
        assert report.scored == ("a",)
        assert {reason.partition(":")[0] for reason in report.dropped.values()} == {"TypeError"}
        assert report.categories["Rate Limiting"].support == 3


@pytest.mark.upstream
def test_same_bits_again(upstream, real_gold, real_spans):
    """The order of a directory does not show in the last bit of a sum: two runs over new folders are equal."""
    gold = real_gold["GAIA"]
    replies = predictions(gold, real_spans["GAIA"], upstream.taxonomy)["random"]
    shuffled = dict(random.Random(2).sample(list(gold.items()), len(gold)))
    assert upstream.score(gold, replies) == upstream.score(shuffled, replies)


# Ids that would leave the folder, vanish from a directory listing, or be a pattern.
@pytest.mark.parametrize("trace", ["", ".hidden", "../up", "a/b", "a\\b", "a\0b", "\u00e9", "x" * 129, "a*", "a\n", 7])
def test_ids_that_are_no_file_names(trace, independent, engine_from):
    """Both engines refuse them before anything is read or written, on either side."""
    for engine in (independent, engine_from(FAKE)):
        with pytest.raises(UsageError, match="plain file name"):
            engine.score({trace: b"{}"}, {})
        with pytest.raises(UsageError, match="plain file name"):
            engine.score({}, {trace: b"{}"})


def attempt(function, *arguments):
    """The result, or the type of the exception."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)
