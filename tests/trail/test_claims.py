"""Every claim can fail and can hold: one change in the input moves it, undoing the change brings HELD."""

from __future__ import annotations

import dataclasses
import json

import pytest

from traceaudit.claims import Finding, Verdict
from traceaudit.trail import demo
from traceaudit.trail.audit import CLAIM_MEASURES, audit
from traceaudit.trail.gold import Gold
from traceaudit.trail.published import Row
from traceaudit.trail.study import open_study

from .doubles import Paired, Placed, StrictNames, taxonomy

H, V, L = Verdict.HELD, Verdict.VIOLATED, Verdict.LATENT


def finding(study, id: str) -> Finding:
    (found,) = [item for item in CLAIM_MEASURES[id](study) if isinstance(item, Finding)]
    assert found.id == id
    return found


def opened(defects=demo.DEFECTS, engine=None):
    study = open_study("demo", engine="independent", defects=defects)
    return study if engine is None else dataclasses.replace(study, engine=engine, memo={})


# claim, the defect that breaks it, the verdict with it, the verdict without it
BY_DEFECT = [
    ("P2", "stray-location", V, H),
    ("P3", "trailing-comma", V, H),
    ("P4", "drifted-label", V, H),
    ("P8", "null-category", V, L),  # without one in the gold the pairing is still wrong, and nothing moves
    ("P9", "miscounted", V, H),
    ("P5", "ambiguous-label", V, L),  # without one in the gold the order still decides, and nothing moves
]


@pytest.mark.parametrize(("id", "defect", "with_it", "without_it"), BY_DEFECT)
def test_one_defect_moves_the_verdict(id, defect, with_it, without_it):
    assert finding(opened([]), id).verdict == without_it
    assert finding(opened([defect]), id).verdict == with_it
    others = [name for name in demo.DEFECTS if name != defect]
    assert finding(opened([*others, defect]), id).verdict == with_it


# claim, an engine with the fault mended
MENDED = [
    ("P5", StrictNames),  # no containment: order decides nothing
    ("P6", StrictNames),  # no containment: no scrap reaches a label
    ("P7", Placed),  # columns that notice places
    ("P8", Paired),  # pairs that stay together
]


@pytest.mark.parametrize(("id", "engine"), MENDED)
def test_an_engine_without_the_fault_holds(id, engine):
    study = opened([] if id != "P7" else demo.DEFECTS)
    assert finding(study, id).verdict != H
    if id in ("P5", "P6"):
        names = {"drifted-label", "ambiguous-label"}
        study = opened([name for name in demo.DEFECTS if name not in names])
    assert finding(dataclasses.replace(study, engine=engine(taxonomy()), memo={}), id).verdict == H


def test_volume_holds_against_a_judge_that_scores_as_well():
    study = opened()
    assert finding(study, "P1").verdict == V
    perfect = dataclasses.replace(study.corpus.published, rows=(Row("an invented perfect judge", 1.0, 1.0, 1.0, 1.0),))
    better = dataclasses.replace(study.corpus, published=perfect)
    assert finding(dataclasses.replace(study, corpora={"demo": better}, memo={}), "P1").verdict == H


@pytest.mark.parametrize("id", CLAIM_MEASURES)
def test_every_claim_fails_on_the_demo(id):
    assert finding(opened(), id).verdict == V


def changed(study, edit):
    """The study with one gold file changed by ``edit``."""
    gold = dict(study.corpus.gold.bytes)
    trace = sorted(gold)[0]
    value = json.loads(gold[trace])
    edit(value)
    gold[trace] = json.dumps(value).encode()
    corpus = dataclasses.replace(study.corpus, gold=Gold(gold))
    return dataclasses.replace(study, corpora={study.split: corpus}, memo={})


def test_one_changed_gold_label_moves_a_magnitude():
    study = opened([])
    before = audit(study)
    label = next(name for name in study.taxonomy if name not in study.corpus.gold.spellings)
    after = audit(changed(study, lambda value: value["errors"][0].update(category=label)))
    moved = [v.name for v in before.values if v.raw != after.values[v.name].raw]
    assert "demo_order_spellings" in moved


def test_absorbed_spellings_are_latent():
    study = changed(opened([]), lambda value: value["errors"][0].update(category=" LANGUAGE-ONLY"))
    found = finding(study, "P4")
    assert (found.verdict, found.magnitude.split(",")[0]) == (
        L,
        "1 of " + found.magnitude.split(" of ")[1].split(",")[0],
    )


def test_a_claim_without_its_data_is_not_measured():
    study = opened()
    bare = dataclasses.replace(study, has=frozenset(), lacks={"gold": "nothing here"})
    for id, found in audit(bare).findings.items():
        assert (found.verdict, found.magnitude) == (Verdict.NOT_MEASURED, "nothing here"), id
