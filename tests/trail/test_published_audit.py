"""The figures of the audit that this one repeats, to their last printed digit, from the JSON and from the records.

They are facts of a published audit of the same pinned bytes; whatever we compute must show them.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from traceaudit import records
from traceaudit.cli import main
from traceaudit.trail.audit import audit
from traceaudit.trail.measures.category_f1 import SHOWN
from traceaudit.trail.predictors import PREDICTORS
from traceaudit.trail.study import open_study, slug

# split, predictor -> joint, location, emitted, per gold error, joint precision, location precision
HEADLINE = {
    ("gaia", "silent"): ("0.000", "0.000", "0", "0.0x", "0.000", "0.000"),
    ("gaia", "gold-exact"): ("0.974", "0.974", "580", "1.0x", "0.974", "0.974"),
    ("gaia", "gold-mispaired"): ("0.553", "0.974", "580", "1.0x", "0.559", "0.974"),
    ("gaia", "every-span-once"): ("0.088", "0.974", "3,565", "6.1x", "0.023", "0.130"),
    ("gaia", "gold-spans-all-categories"): ("0.973", "0.974", "8,064", "13.9x", "0.083", "0.974"),
    ("gaia", "all-spans-all-categories"): ("0.973", "0.974", "74,865", "129.1x", "0.011", "0.130"),
    ("swe-bench", "silent"): ("0.000", "0.000", "0", "0.0x", "0.000", "0.000"),
    ("swe-bench", "gold-exact"): ("0.968", "0.968", "256", "1.0x", "0.968", "0.968"),
    ("swe-bench", "gold-mispaired"): ("0.538", "0.968", "256", "1.0x", "0.555", "0.968"),
    ("swe-bench", "every-span-once"): ("0.040", "0.961", "1,046", "4.1x", "0.014", "0.191"),
    ("swe-bench", "gold-spans-all-categories"): ("0.960", "0.968", "4,032", "15.8x", "0.062", "0.968"),
    ("swe-bench", "all-spans-all-categories"): ("0.958", "0.961", "21,966", "85.8x", "0.013", "0.191"),
}
COLUMNS = ("joint", "location", "emitted", "per_gold_error", "joint_precision", "location_precision")

# split, predictor -> joint, location, weighted F1, labels at full recall, labels with support
CATEGORY_F1 = {
    ("gaia", "gold-exact"): ("0.974", "0.974", "1.0000", "19", "19"),
    ("gaia", "gold-spans-all-categories"): ("0.973", "0.974", "0.4817", "19", "19"),
    ("gaia", "all-spans-all-categories"): ("0.973", "0.974", "0.4725", "19", "19"),
    ("gaia", "one-span-all-categories"): ("0.000", "0.000", "0.4725", "19", "19"),
    ("swe-bench", "gold-exact"): ("0.968", "0.968", "1.0000", "13", "13"),
    ("swe-bench", "gold-spans-all-categories"): ("0.960", "0.968", "0.7205", "13", "13"),
    ("swe-bench", "all-spans-all-categories"): ("0.958", "0.961", "0.7066", "13", "13"),
    ("swe-bench", "one-span-all-categories"): ("0.000", "0.000", "0.7066", "13", "13"),
}

# Table 5: row -> GAIA paper, GAIA here, SWE Bench paper, SWE Bench here
TABLE5 = {
    "traces": ("118", "117", "31", "31"),
    "spans": ("977", "3,579", "1,010", "1,047"),
    "errors": ("579", "580", "256", "256"),
    "error_spans": ("383", "384", "192", "191"),
    "traces_with_error": ("115", "113", "31", "30"),
}

# spelling -> errors, caught by, becomes
DRIFT = {
    " Incorrect Problem Identification": ("1", "exact", "Incorrect Problem Identification"),
    "Context Handling Failure": ("5", "containment", "Context Handling Failures"),
    "Formatting Error": ("1", "containment", "Formatting Errors"),
    "Goal deviation": ("1", "exact", "Goal Deviation"),
    "Instruction Non-Compliance": ("2", "exact", "Instruction Non-compliance"),
    "Instruction non complience": ("1", "neither", "instruction non complience"),
    "Language-Only": ("3", "exact", "Language-only"),
    "Poor Information retrieval": ("1", "exact", "Poor Information Retrieval"),
    "Task Orchestration Error": ("1", "neither", "task orchestration error"),
    "Task Orchestration Errors": ("2", "neither", "task orchestration errors"),
    "Tool Selection": ("1", "containment", "Tool Selection Errors"),
}

# value (of both splits together unless it names one) -> shown
SINGLE = {
    "gaia_gold_files": "117",
    "gaia_gold_files_scored": "116",
    "gaia_gold_errors": "580",
    "gaia_ceiling": "0.974",
    "gaia_traces_carrying_error": "113",
    "swe_bench_gold_files": "31",
    "swe_bench_gold_files_scored": "31",
    "swe_bench_gold_errors": "256",
    "swe_bench_ceiling": "0.968",
    "swe_bench_traces_carrying_error": "30",
    "gaia_published_best_joint": "0.183",
    "gaia_published_best_location": "0.546",
    "swe_bench_published_best_joint": "0.050",
    "swe_bench_published_best_location": "0.238",
    "stray_locations": "2",
    "gold_locations": "836",
    "stray_text": "Span ID not found for this shard",
    "gold_files_parsed": "147",
    "gold_files_all": "148",
    "errors_unread": "5",
    "spellings_drifted": "11",
    "spellings": "31",
    "errors_drifted": "19",
    "substrings": "3,205",
    "substrings_ambiguous": "237",
    "substrings_moved": "115",
    "order_spellings_ambiguous": "0",
    "order_figures": "24",
    "order_figures_moved": "0",
    "shortest_label": "12",
    "labels_reached_by_two": "21",
    "labels_reached_by_one": "8",
    "labels_reached_short": "21",
    "example_1_label": "Tool Selection Errors",
    "example_2_label": "Resource Not Found",
    "example_3_label": "Tool-related",
    "example_4_label": "Language-only",
    "gaia_f1_columns_same": "21",
    "swe_bench_f1_columns_same": "21",
    "pairing_null_in_gold_joint": "0.000",
    "pairing_null_in_gold_location": "0.667",
    "pairing_clean_joint": "1.000",
    "pairing_clean_location": "1.000",
    "pairing_null_in_prediction_joint": "0.000",
    "pairing_null_in_prediction_location": "1.000",
    "null_categories": "0",
    "errors_paired": "836",
    "files_mispaired": "0",
    "table5_cells": "10",
    "table5_cells_disagree": "8",
}

VERDICTS = {
    "P1": "VIOLATED",
    "P2": "VIOLATED",
    "P3": "VIOLATED",
    "P4": "VIOLATED",
    "P5": "LATENT",
    "P6": "VIOLATED",
    "P7": "VIOLATED",
    "P8": "LATENT",
    "P9": "VIOLATED",
}

# Claims found by exploration, with what the facts of that exploration give.
EXPLORED = {
    "W1": "VIOLATED",
    "W2": "VIOLATED",
    "W3": "VIOLATED",
    "W4": "VIOLATED",
    "W5": "VIOLATED",
    "W6": "LATENT",
    "W7": "LATENT",
    "W8": "VIOLATED",
    "W9": "LATENT",
    "W10": "VIOLATED",
    "W11": "LATENT",
    "W12": "VIOLATED",
}
EXPLORED_FIGURES = {
    "gaia_withhold_all_but_one_joint": "1.000",
    "gaia_withhold_exact_joint": "1.000",
    "gaia_unparsed_replaced": "58",  # of 116
    "gaia_error_free_traces": "3",
    "swe_bench_error_free_traces": "1",
    "repeated_errors": "5",
    "odd_errors": "1",
    "odd_missing_fields": "description",
    "odd_stray_fields": "2",
    "gaia_dimension_security_distinct": "1",
    "gaia_dimension_security_lowest": "5.00",
    "gaia_counted_errors_described": "579",
    "swe_bench_counted_error_spans_trace": "192",
    "swe_bench_counted_traces_with_error_all": "31",
    "gaia_exposed_traces": "113",
    "swe_bench_exposed_traces": "25",
    "gaia_exposed_elsewhere": "1",
}


def compare(shown) -> list[str]:
    """Every figure above against ``shown(name)``; the differences."""
    wanted = dict(SINGLE)
    for (split, name), texts in HEADLINE.items():
        wanted |= {f"{slug(split)}_{c}_{PREDICTORS[name].slug}": t for c, t in zip(COLUMNS, texts, strict=True)}
    for (split, name), texts in CATEGORY_F1.items():
        columns = ("f1_joint", "f1_location", "weighted_f1", "f1_full_recall", "f1_supported")
        wanted |= {f"{slug(split)}_{c}_{PREDICTORS[name].slug}": t for c, t in zip(columns, texts, strict=True)}
    for row, texts in TABLE5.items():
        places = (
            "gaia_table5_{}_paper",
            "gaia_table5_{}_here",
            "swe_bench_table5_{}_paper",
            "swe_bench_table5_{}_here",
        )
        wanted |= {place.format(row): text for place, text in zip(places, texts, strict=True)}
    for position, (spelling, texts) in enumerate(sorted(DRIFT.items()), 1):
        parts = zip(("spelling", "errors", "route", "label"), (spelling, *texts), strict=True)
        wanted |= {f"drift_{position}_{part}": text for part, text in parts}
    return [f"{name}: expected {text!r}, shown {shown(name)!r}" for name, text in wanted.items() if shown(name) != text]


@functools.cache
def real(source: str, engine: str):
    with open_study("all", source, engine=engine) as study:
        assert study.engine.name == engine
        return audit(study)


def test_the_tables_above_are_whole():
    assert {name for _, name in CATEGORY_F1} == set(SHOWN)
    assert len(HEADLINE) == 12


@pytest.mark.real
def test_independent_engine(trail_source):
    done = real(str(trail_source), "independent")
    assert {value.mode for value in done.values} == {"measured"}
    assert compare(lambda name: done.values[name].shown) == []
    assert {id: str(found.verdict) for id, found in done.findings.items()} == VERDICTS | EXPLORED
    assert {name: done.values[name].shown for name in EXPLORED_FIGURES} == EXPLORED_FIGURES


@pytest.mark.upstream
def test_pinned_scorer(scorer_source):
    done = real(scorer_source, "upstream")
    assert compare(lambda name: done.values[name].shown) == []
    assert {id: str(found.verdict) for id, found in done.findings.items()} == VERDICTS | EXPLORED


def test_the_record_of_the_overview(root: Path):
    record = records.load(records.path_of("overview", "all", root))
    assert compare(lambda name: record.values[name].shown if name in record.values else None) == []
    assert {id: str(found.verdict) for id, found in record.findings.items()} == VERDICTS | EXPLORED
    # the abstract's 11 percent: plain mean, by gold files, by gold errors
    shown = [record.values[f"abstract_{name}"].shown for name in ("percent", "plain", "by_files", "by_errors")]
    assert shown == ["11", "11.6", "15.5", "14.2"]


@pytest.mark.real
def test_p2_is_held_on_one_split_and_violated_on_the_other(trail_source):
    parts = real(str(trail_source), "independent").findings["P2"].per_split
    assert {split: str(part.verdict) for split, part in parts.items()} == {"gaia": "HELD", "swe-bench": "VIOLATED"}


@pytest.mark.real
@pytest.mark.parametrize("split", ["gaia", "swe-bench", "all"])
def test_json_of_the_audit(split, trail_source, tmp_path, capsys):
    out = tmp_path / "audit.json"
    assert main(["trail", "audit", "--split", split, "--source", str(trail_source), "--json", str(out)]) == 3
    printed = capsys.readouterr().out
    data = json.loads(out.read_text(encoding="utf-8"))
    assert [finding["id"] for finding in data["findings"]] == [*VERDICTS, *EXPLORED]
    for finding in data["findings"]:
        assert finding["verdict"] in printed
        assert set(finding) == {"id", "verdict", "magnitude", "values", "per_split"}
        assert set(finding["values"]) <= set(data["values"])
    for value in data["values"].values():
        assert set(value) == {"raw", "shown", "unit", "n", "dropped"}
    for name, table in data["splits"].items():
        assert set(table) == {"gold_files", "gold_files_scored", "gold_errors", "ceiling", "predictors"}
        assert set(table["predictors"]) == set(PREDICTORS)
        for (where, predictor), texts in HEADLINE.items():
            if where == name:
                row = table["predictors"][predictor]
                assert f"{row['joint']:.3f}" == texts[0]
                assert f"{row['location_precision']:.3f}" == texts[5]
                assert row["emitted"] == int(texts[2].replace(",", ""))
        assert f"{table['predictors']['one-span-all-categories']['weighted_f1']:.4f}" == CATEGORY_F1[name, SHOWN[3]][2]


def test_demo_needs_no_source_and_says_so_on_standard_output(capsys):
    assert main(["trail", "audit", "--split", "demo", "--json", "-"]) == 3
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert data["provenance"]["source"] == "built from a seed"
    assert list(data["splits"]) == ["demo"]


# arguments -> exit code, words on standard error
REFUSED = [
    (["--split", "gaia"], 2, "no claim can be measured"),  # no source at all
    (["--split", "nonsense"], 64, "unknown split"),
    (["--split", "demo", "--engine", "nonsense"], 64, "unknown engine"),
    (["--split", "demo", "--engine", "upstream"], 2, "the pinned scorer is not in this source"),
    (["--split", "gaia", "--source", "/nowhere/at/all"], 2, "/nowhere/at/all"),
    (["--nonsense"], 64, "unrecognized arguments"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), REFUSED)
def test_refusals(arguments, code, words, capsys):
    try:
        got = main(["trail", "audit", *arguments])
    except SystemExit as end:
        got = end.code
    assert got == code
    assert words in capsys.readouterr().err
