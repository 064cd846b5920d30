"""Hostile inputs: the independent engine, and the pinned scorer itself, against the scorer's stored outcomes."""

from __future__ import annotations

import json

import pytest

from traceaudit.trail import columns, documents, hostile, independent, normaliser
from traceaudit.trail.hostile import cases, differences, digest, outcome, outcomes, read_outcomes, write_outcomes


@pytest.fixture(scope="module")
def table(outcomes_path):
    return read_outcomes(outcomes_path)


def test_the_cases(table):
    """At least 300, told apart by id and by bytes, each described; the table was made from exactly these."""
    found = cases()
    assert len(found) >= 300
    assert len({case.id for case in found}) == len({(case.gold, case.reply) for case in found}) == len(found)
    assert all(case.about for case in found)
    assert {case.id: digest(case) for case in found} == {name: row["input"] for name, row in table.items()}
    assert cases() == found


def test_the_table_is_about_something(table, outcomes_path):
    """Every way out of a trace occurs, no control is ever lost, and no message of an exception is stored."""
    statuses = {row["outcome"]["status"] for row in table.values()}
    assert statuses == {
        *("scored", "missing", "AttributeError", "TypeError", "KeyError", "ValueError", "OverflowError"),
        *("JSONDecodeError", "UnicodeDecodeError", "RecursionError"),
    }
    assert not [name for name, row in table.items() if "lost" in row["outcome"]]
    stored = outcomes_path.read_text("utf-8")
    assert not [words for words in ("Expecting", "object has no", "unhashable", "codec") if words in stored]


def test_independent_engine(independent, table):
    """Every leaf of every outcome."""
    assert differences({name: row["outcome"] for name, row in table.items()}, outcomes(independent)) == []


@pytest.mark.upstream
def test_upstream_engine(upstream, table, tmp_path):
    """The scorer still gives what is stored, and the table is written by the engine that it names."""
    written = tmp_path / "outcomes.json"
    assert write_outcomes(upstream, written) == len(table)
    assert differences(table, read_outcomes(written)) == []
    assert json.loads(written.read_text())["made_by"] == {"engine": "upstream", "sha256": upstream.sha256}


def _found_although_short(text):
    return json.JSONDecoder().raw_decode(text[text.find("{") :])[0]


def _no_containment(self, text):
    lowered = text.lower().strip()
    return self._exact.get(lowered.replace(" ", ""), lowered)


def _zero_stays(self, gold, prediction):
    for name, key in columns.COLUMNS.items():
        if gold and prediction and key in gold and key in prediction:
            self._pairs[name][0].append(float(gold[key]))
            self._pairs[name][1].append(float(prediction[key]))


def _lenient_scores(document):
    scores = document.get("scores")
    return scores[0] if scores and isinstance(scores, list) else {}


def _no_shift(self, texts):
    return [self.normalise(text) for text in texts]


# One thing changed in our engine: (where, name, changed, case that must show it).
CHANGES = [
    (documents, "extract", _found_although_short, "text-empty-letter-brace"),
    (normaliser.Normaliser, "_answer", _no_containment, "label-singular"),
    (normaliser.Normaliser, "present", _no_shift, "pairs-shift-helps"),
    (columns.Columns, "add", _zero_stays, "reply-overall-zero"),
    (independent, "first_scores", _lenient_scores, "reply-scores-keyed-object"),
]


@pytest.mark.parametrize(("where", "name", "changed", "shows"), CHANGES, ids=[row[3] for row in CHANGES])
def test_a_change_is_seen(where, name, changed, shows, monkeypatch, labels, table):
    """The comparison notices one changed thing, and only since it was changed."""
    case = next(case for case in cases() if case.id == shows)
    engine = independent.IndependentEngine(labels)
    assert differences(table[shows]["outcome"], outcome(engine, case)) == []
    normaliser.normaliser.cache_clear()
    monkeypatch.setattr(where, name, changed)
    try:
        assert differences(table[shows]["outcome"], outcome(engine, case))
    finally:
        normaliser.normaliser.cache_clear()


# Expected, measured, lines.
DIFFERENCES = [
    ({"a": 1.0}, {"a": 1.0 + 1e-13}, 0),  # within the tolerance
    ({"a": 1.0}, {"a": 1.0 + 1e-11}, 1),  # beyond it
    ({"a": "nan"}, {"a": "nan"}, 0),  # undefined equals undefined
    ({"a": "nan"}, {"a": 0.0}, 1),  # and nothing else
    ({"a": [1, 2]}, {"a": [1]}, 1),  # a list of another length
    ({"a": {"b": 1}}, {"a": {}}, 1),  # absent
    ({"a": {}}, {"a": {"b": 1}}, 1),  # unexpected
    ({"a": "scored"}, {"a": "TypeError"}, 1),  # another status
]


@pytest.mark.parametrize(("expected", "measured", "lines"), DIFFERENCES)
def test_differences(expected, measured, lines):
    assert len(differences(expected, measured)) == lines


def test_controls_alone(independent):
    """The controls are scored, and none of their figures is 0 or 1, so that every effect of a case can show."""
    gold = {trace: pair[0] for trace, pair in hostile.CONTROLS.items()}
    report = independent.score(gold, {trace: pair[1] for trace, pair in hostile.CONTROLS.items()})
    assert report.scored == tuple(hostile.CONTROLS)
    assert all(0 < figure < 1 for figure in (report.joint, report.location, report.weighted_f1))
    assert len(report.correlations) == 5
