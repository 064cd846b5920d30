"""Every chapter, executed with nbclient: on the demo always, on the real gold where it is, without a source at all."""

from __future__ import annotations

import dataclasses
import json

import pytest

from traceaudit import guards, records
from traceaudit.claims import Finding
from traceaudit.trail.gold import Gold
from traceaudit.trail.measures.corpus import labels
from traceaudit.trail.study import open_study
from traceaudit.values import Value

from .running import INSTANCES, JUDGES, ROOT, run

DEMO = [each.id for each in INSTANCES if each.split == "demo"]
REAL_SPLITS = [each.id for each in INSTANCES if each.split != "demo"]
NEEDS_SCORER = {"citations_held", "engines"}  # measures that CI can only recall
NEEDS_JUDGES = {"judges", "judge_categories"}  # likewise where the judges' replies are not beside the repository


def differences(ran) -> list[str]:
    record = records.load(records.path_of(ran.instance.chapter, ran.instance.split, ROOT))
    return [str(each) for each in records.compare(record, ran.record).differences]


@pytest.mark.parametrize("id", DEMO)
def test_demo_is_measured_and_equals_its_record(id):
    ran = run(id)
    assert ran.modes == {"measured"}
    assert differences(ran) == []
    assert ran.provenance["source"] == "built from a seed"


@pytest.mark.real
@pytest.mark.parametrize("id", REAL_SPLITS)
def test_real_gold_is_measured_and_equals_its_record(id, trail_source):
    ran = run(id, str(trail_source))
    recalled = {item.measure for item in (*ran.values.values(), *ran.findings.values()) if item.mode == "recalled"}
    assert recalled <= NEEDS_SCORER | (set() if JUDGES.is_file() else NEEDS_JUDGES)
    assert not any(finding.mode == "recalled" for finding in ran.findings.values())
    assert differences(ran) == []


@pytest.mark.parametrize("id", ["overview.all", "trail-headline.gaia", "trail-corpus.swe-bench"])
def test_without_a_source_the_record_is_shown(id):
    ran = run(id)
    assert ran.modes >= {"recalled"}
    assert {finding.mode for finding in ran.findings.values()} == {"recalled"}
    assert differences(ran) == []
    assert "Recalled." in str([cell.get("outputs", "") for cell in ran.notebook.cells])


@pytest.mark.parametrize("split", ["gaia", "swe-bench"])
def test_without_judges_their_record_is_shown(split):
    ran = run(f"trail-judges.{split}")
    recalled = {value.measure for value in ran.values.values() if value.mode == "recalled"}
    assert recalled == NEEDS_JUDGES
    assert differences(ran) == []
    assert "Recalled." in str([cell.get("outputs", "") for cell in ran.notebook.cells])


@pytest.mark.upstream
@pytest.mark.parametrize("split", ["gaia", "swe-bench"])
def test_the_pinned_scorer_equals_the_record_of_the_judges(split, scorer_source):
    if not JUDGES.is_file():
        pytest.skip("the judges' replies are not beside this repository (../shared/data/judges)")
    ran = run(f"trail-judges.{split}", scorer_source)
    assert ran.modes == {"measured"}
    assert differences(ran) == []


@pytest.mark.upstream
def test_the_pinned_scorer_equals_the_record(scorer_source):
    ran = run("method.all", scorer_source)
    assert ran.modes == {"measured"}
    assert differences(ran) == []
    assert ran.values["engine_figures_differing"].raw == 0


@pytest.mark.parametrize("id", [each.id for each in INSTANCES])
def test_prose_names_recorded_values_only_and_types_none(id):
    (instance,) = [each for each in INSTANCES if each.id == id]
    record = records.load(records.path_of(instance.chapter, instance.split, ROOT))
    notebook = json.loads(instance.source(ROOT).read_text(encoding="utf-8"))
    name = instance.source(ROOT).name
    guards.raise_if(
        guards.check_stripped(name, notebook)
        + guards.check_prose(name, notebook, record.values.values())
        + guards.check_inline_names(name, notebook, record.values)
    )


def test_each_record_has_a_chapter_and_each_chapter_a_record():
    stored = {path.name for path in (ROOT / "data-pins" / "records").glob("*.json")}
    assert stored == {f"{each.id}.json" for each in INSTANCES}


def test_records_were_made_by_the_pinned_scorer_and_the_committed_index():
    for each in INSTANCES:
        told = records.load(records.path_of(each.chapter, each.split, ROOT)).provenance
        assert (told["engine"], told["recordable"]) == ("upstream", "yes"), each.id


@pytest.mark.real
def test_one_changed_gold_label_fails_the_comparison(trail_source):
    """In memory: the label of one real error becomes another, and the record no longer holds."""
    with open_study("swe-bench", str(trail_source)) as study:
        trace = next(trace for trace, file in study.corpus.gold.items() if file.errors)
        value = json.loads(study.corpus.gold.bytes[trace])
        value["errors"][0]["category"] = "no label of theirs"
        changed = Gold({**study.corpus.gold.bytes, trace: json.dumps(value).encode()})
        corpus = dataclasses.replace(study.corpus, gold=changed)
        items = labels(dataclasses.replace(study, corpora={"swe-bench": corpus}, memo={}))
        unchanged = labels(study)
    stored = records.load(records.path_of("trail-corpus", "swe-bench", ROOT))

    def compared(items):
        values = {item.name: item for item in items if isinstance(item, Value)}
        findings = {item.id: item for item in items if isinstance(item, Finding)}
        was = dataclasses.replace(
            stored,
            values={name: each for name, each in stored.values.items() if each.measure == "labels"},
            findings={"P4": stored.findings["P4"]},
        )
        return records.compare(was, dataclasses.replace(was, values=values, findings=findings))

    assert compared(unchanged).equal
    leaves = {difference.leaf for difference in compared(items).differences}
    assert "values.errors_lost.raw" in leaves
    assert "findings.P4.magnitude" in leaves
