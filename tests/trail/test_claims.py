"""Every claim can fail and can hold: one change in the input moves it, undoing the change brings HELD."""

from __future__ import annotations

import dataclasses
import json

import pytest

from traceaudit.claims import Finding, Verdict
from traceaudit.trail import demo
from traceaudit.trail.audit import CLAIM_MEASURES, audit
from traceaudit.trail.gold import Gold
from traceaudit.trail.measures import cost
from traceaudit.trail.published import Row
from traceaudit.trail.study import open_study

from .doubles import Paired, Placed, Precise, StrictNames, Whole, ZerosKept, taxonomy

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
    ("W5", "error-free", V, L),  # without such a trace a constructed one still earns nothing
    ("W6", "repeated-error", L, H),  # sets hide a repetition from the scores
    ("W7", "torn-error", L, H),  # the scorer reads neither the missing nor the stray fields
    ("W10", "miscounted", V, H),
    ("W11", "exposed-answer", L, H),
]


@pytest.mark.parametrize(("id", "defect", "with_it", "without_it"), BY_DEFECT)
def test_one_defect_moves_the_verdict(id, defect, with_it, without_it):
    assert finding(opened([]), id).verdict == without_it
    assert finding(opened([defect]), id).verdict == with_it
    others = [name for name in demo.DEFECTS if name != defect]
    assert finding(opened([*others, defect]), id).verdict == with_it


def test_the_rows_above_and_below_name_every_claim():
    by_engine = {id for id, _ in MENDED} | {"P1", "W8", "W9"}
    assert {id for id, *_ in BY_DEFECT} | by_engine == set(CLAIM_MEASURES)


# claim, an engine with the fault mended
MENDED = [
    ("P5", StrictNames),  # no containment: order decides nothing
    ("P6", StrictNames),  # no containment: no scrap reaches a label
    ("P7", Placed),  # columns that notice places
    ("P8", Paired),  # pairs that stay together
    ("W1", Whole),  # a trace left out counts as wrong
    ("W2", Whole),  # so does a reply that cannot be read
    ("W3", Whole),  # and one with a field of the wrong type
    ("W4", Precise),  # what was said is in the denominator
    ("W5", Whole),  # a right silence earns full credit
    ("W12", Whole),  # nothing is summed that is not counted
]


@pytest.mark.parametrize(("id", "engine"), MENDED)
def test_an_engine_without_the_fault_holds(id, engine):
    study = opened([] if id[0] != "W" and id != "P7" else demo.DEFECTS)
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
    latent = {"W6", "W7", "W9", "W11"}  # nothing on the demo moves with these
    assert finding(opened(), id).verdict == (L if id in latent else V)


def test_score_columns_hold_when_they_vary_and_zeros_stay():
    plain, constant = opened([]), opened(["constant-dimension"])
    assert finding(plain, "W8").verdict == V  # zeros become minus one
    kept = dataclasses.replace(plain, engine=ZerosKept(taxonomy()), memo={})
    assert finding(kept, "W8").verdict == H
    assert finding(dataclasses.replace(constant, engine=kept.engine, memo={}), "W8").verdict == V


@pytest.mark.parametrize(
    ("power", "verdict"),
    [(1.0, H), (1.2, H), (1.6, L), (2.0, L)],  # linear, nearly linear, not linear
)
def test_the_exponent_decides_about_the_cost(power, verdict, tmp_path, monkeypatch):
    sizes = [1000, 2000, 4000]
    table = {
        "machine": "a machine of the test",
        "date": "2026-11-30",
        "upstream": {"bytes": sizes, "seconds": [(size / 1000) ** power for size in sizes]},
        "independent": {"bytes": sizes, "seconds": [size / 1e6 for size in sizes]},
    }
    monkeypatch.setattr(cost, "load_table", lambda: table)
    found = finding(opened([]), "W9")
    assert found.verdict == verdict
    assert f"the power {power:.2f} of" in found.magnitude


def test_a_field_that_the_scorer_reads_makes_the_torn_error_count():
    study = changed(opened([]), lambda value: value["errors"][0].pop("location"))
    assert finding(study, "W7").verdict == V


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
    assert found.verdict == L
    assert "1 differ from every label" in found.magnitude


def test_a_claim_without_its_data_is_not_measured():
    study = opened()
    bare = dataclasses.replace(study, has=frozenset(), lacks={"gold": "nothing here"}, lacks_by_split={})
    for id, found in audit(bare).findings.items():
        if id == "W9":  # its table is committed
            continue
        assert found.verdict == Verdict.NOT_MEASURED, id
        assert "nothing here" in found.magnitude
