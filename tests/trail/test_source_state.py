"""What a source holds and what follows: the state that keys a page, what a study can measure, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import marshal
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from traceaudit import execute, report
from traceaudit.cli import main
from traceaudit.errors import NothingToCheck, PinMismatch, UsageError
from traceaudit.trail import index, pin
from traceaudit.trail.audit import CLAIM_MEASURES, WITHOUT_ERRORS
from traceaudit.trail.independent import IndependentEngine
from traceaudit.trail.source_state import source_state
from traceaudit.trail.study import REAL_SPLITS, open_study

GAIA, SWE = "processed_annotations_gaia", "processed_annotations_swe_bench"
ID = "0035f455b3ff2295167a844f04d85d34"  # one trace of GAIA


@pytest.fixture
def source(trail_source, tmp_path) -> Path:
    """A copy of the real gold, without traces and scorer, to take away from."""
    return Path(shutil.copytree(trail_source / "benchmarking", tmp_path / "source" / "benchmarking")).parent


def audited(source: Path, split: str, out: Path, *more: str) -> tuple[int, dict]:
    """Exit code and JSON of ``trail audit``; no JSON where it was not written."""
    code = main(["trail", "audit", "--split", split, "--source", str(source), "--json", str(out), *more])
    return code, json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {}


# --------------------------------------------------------------------------------------------------- state


@pytest.mark.real
def test_the_state_counts_what_is_held(source):
    line = source_state(str(source)).line
    assert line == (
        "TRAIL, folder, all verified: scorer 0 of 1, gold files 148 of 148, traces 0 of 148; "
        "for the rest: make report FETCH=1"
    )


@pytest.mark.real
def test_the_state_changes_with_what_is_held_and_with_nothing_else(source, tmp_path):
    digest = source_state(str(source)).digest
    assert source_state(str(shutil.copytree(source, tmp_path / "elsewhere"))).digest == digest  # not with the place
    (source / "benchmarking" / "notes.txt").write_text("not pinned")
    (source / "benchmarking" / GAIA / "more.json").write_text("{}")
    assert source_state(str(source)).digest == digest  # not with what no pin knows
    (source / "benchmarking" / GAIA / f"{ID}.json").unlink()
    lost = source_state(str(source))
    assert lost.digest != digest and "gold files 147 of 148" in lost.line


@pytest.mark.real
def test_a_changed_byte_is_no_state(source):
    path = source / "benchmarking" / GAIA / f"{ID}.json"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(PinMismatch, match=ID):
        source_state(str(source))


def test_without_a_source_the_state_says_how_to_get_one():
    state = source_state()
    assert state.digest == "none"
    assert "make report FETCH=1" in state.line and "records" in state.line


def test_a_source_that_is_named_and_not_there_is_an_error(monkeypatch):
    with pytest.raises(NothingToCheck):
        source_state("no/such/place")
    monkeypatch.setenv("TRACEAUDIT_SOURCE", "no/such/place")
    with pytest.raises(NothingToCheck):
        source_state()


# ------------------------------------------------------------------------------------------- missing gold


@pytest.mark.real
def test_missing_gold_of_one_split_leaves_the_other_measured(source, tmp_path, capsys):
    names = sorted(path.name for path in (source / "benchmarking" / SWE).iterdir())
    for name in names[:2]:
        (source / "benchmarking" / SWE / name).unlink()
    code, data = audited(source, "all", tmp_path / "out.json")
    assert code == 3
    reason = f"2 of 31 gold files are not in this source: {names[0]}, {names[1]}"
    assert f"lacking: 2 of 148 gold files are not in this source: {names[0]}, {names[1]}" in capsys.readouterr().err
    assert [finding["id"] for finding in data["findings"]] == list(CLAIM_MEASURES)
    for finding in data["findings"]:
        if {"gold", "traces"} & CLAIM_MEASURES[finding["id"]].needs and finding["per_split"]:
            part = finding["per_split"]["swe-bench"]
            assert (part["verdict"], part["magnitude"], part["values"]) == ("NOT MEASURED", reason, []), finding["id"]
    (first,) = [finding for finding in data["findings"] if finding["id"] == "P1"]
    assert first["verdict"] == "VIOLATED" and first["per_split"]["gaia"]["verdict"] == "VIOLATED"
    assert data["values"]["gaia_gold_files"]["raw"] == 117
    assert not [name for name in data["values"] if name.startswith("swe_bench_joint")]
    assert data["splits"]["swe-bench"] == {} and data["splits"]["gaia"]["gold_files"] == 117


@pytest.mark.real
@pytest.mark.parametrize(
    ("gone", "split", "code"),
    [
        ((GAIA, SWE), "all", 2),  # nothing is left to measure
        ((GAIA,), "gaia", 2),
        ((SWE,), "swe-bench", 2),
    ],
)
def test_without_any_gold_there_is_nothing_to_check(gone, split, code, source, tmp_path, capsys):
    for name in gone:
        for path in (source / "benchmarking" / name).iterdir():
            path.unlink()
    assert audited(source, split, tmp_path / "out.json") == (code, {})
    said = capsys.readouterr().err
    assert "no claim can be measured" in said and "gold files are not in this source" in said
    assert "and 112 more" in said or "and 26 more" in said or "and 143 more" in said  # five are named


@pytest.mark.real
def test_one_missing_file_takes_its_split_alone(source):
    """A figure over most of the gold would pass for the split's."""
    (source / "benchmarking" / GAIA / f"{ID}.json").unlink()
    with open_study("all", str(source)) as study:
        assert "gold" not in study.has
        assert {split: "gold" in study.only(split).has for split in REAL_SPLITS} == {"gaia": False, "swe-bench": True}
        assert study.only("gaia").lacks["gold"] == f"1 of 117 gold files are not in this source: {ID}.json"
        assert "gold" not in study.only("swe-bench").lacks
    assert main(["trail", "audit", "--split", "gaia", "--source", str(source)]) == 2


@pytest.mark.real
def test_a_changed_gold_file_stops_the_audit(source, tmp_path, capsys):
    path = source / "benchmarking" / SWE / sorted(p.name for p in (source / "benchmarking" / SWE).iterdir())[0]
    path.write_bytes(path.read_bytes().replace(b"LOW", b"low", 1) + b" ")
    assert audited(source, "swe-bench", tmp_path / "out.json") == (1, {})
    assert path.name in capsys.readouterr().err


# --------------------------------------------------------------------------------------------- span index


def spans() -> dict[str, dict[str, list[str]]]:
    """The committed index, to change."""
    return {split: {id: list(ids) for id, ids in table.items()} for split, table in index.load_index().spans.items()}


def cut(table: dict, split: str) -> None:
    del table[split][sorted(table[split])[0]]


def empty(table: dict, split: str) -> None:
    table[split][sorted(table[split])[0]] = []


# what another index lacks -> words of the refusal
LACKING = [
    (lambda table: cut(table, "gaia"), "split gaia: the span index lists no span of some traces"),
    (lambda table: empty(table, "gaia"), "1 of 117 traces, 0"),  # listed, and without a span
    (lambda table: cut(table, "swe-bench"), "split swe-bench"),
    (lambda table: table.update(gaia={}), "117 of 117 traces"),
    (lambda table: table.pop("gaia"), "117 of 117 traces"),  # not even named
]


@pytest.mark.parametrize(("change", "words"), LACKING)
def test_an_index_that_lacks_traces_is_wrong_usage(change, words, tmp_path, capsys):
    table = spans()
    change(table)
    (tmp_path / "index.json").write_bytes(index.dump_index(table))
    assert main(["trail", "audit", "--split", "all", "--index", str(tmp_path / "index.json")]) == 64
    said = capsys.readouterr().err
    assert words in said and "give an index of all traces" in said


def test_an_index_that_lacks_traces_of_another_split_will_do(tmp_path):
    table = spans()
    cut(table, "swe-bench")
    (tmp_path / "index.json").write_bytes(index.dump_index(table))
    with open_study("gaia", index_path=str(tmp_path / "index.json")) as study:
        assert len(study.corpus.spans) == 117


@pytest.mark.real
def test_a_fabricated_index_shows_and_cannot_be_recorded(source, tmp_path):
    """Every trace has its spans, all of them invented."""
    table = {split: {id: [f"{n:016x}" for n in range(3)] for id in rows} for split, rows in spans().items()}
    path = tmp_path / "index.json"
    path.write_bytes(index.dump_index(table))
    with open_study("all", str(source), index_path=str(path)) as study:
        told = study.provenance()
    assert told["index_digest"] == index.index_digest(table) != pin.load().index_digest
    assert told["spans_from"] == "another index than the committed one"
    assert "another span index than the committed one was used" in told["recordable"]
    executed = execute.Executed("x", {}, None, {}, {}, told)
    assert report._may_record(executed) == told["recordable"]
    assert str(tmp_path) not in json.dumps(told)
    code, data = audited(source, "swe-bench", tmp_path / "out.json", "--index", str(path))
    assert code == 3
    assert data["provenance"]["index_digest"] == told["index_digest"]
    assert data["values"]["swe_bench_stray_locations"]["raw"] > 200  # the gold points at none of them


def test_a_copy_of_the_committed_index_is_another_one_all_the_same(tmp_path):
    (tmp_path / "index.json").write_bytes(index.dump_index(spans()))
    with open_study("gaia", index_path=str(tmp_path / "index.json")) as study:
        assert study.index_digest == pin.load().index_digest
        assert "another span index" in study.recordable


# what makes a study not recordable -> the reason
REASONS = [
    ({}, "the engine was not the pinned scorer"),
    ({"unpinned": True}, "the source was read without verification; the engine was not the pinned scorer"),
]


@pytest.mark.parametrize(("how", "reason"), REASONS)
def test_what_keeps_a_study_from_being_recorded(how, reason):
    with open_study("gaia", engine="independent", **how) as study:
        assert study.provenance()["recordable"] == study.recordable == reason


# ------------------------------------------------------------------------------------- demo and wrong sources


@pytest.mark.parametrize("variable", ["/no/such/place", "README.md"])
def test_the_demo_works_under_a_wrong_environment(variable, monkeypatch, capsys):
    monkeypatch.setenv("TRACEAUDIT_SOURCE", variable)
    assert main(["trail", "audit", "--split", "demo"]) == 3
    assert "source: built from a seed" in capsys.readouterr().err


# split, source, engine under a wrong TRACEAUDIT_SOURCE -> what is raised
WRONG = [
    ("gaia", None, "auto", NothingToCheck),  # a real split needs it
    ("all", None, "independent", NothingToCheck),
    ("demo", "/no/such/place", "auto", NothingToCheck),  # somebody asked for it
    ("demo", None, "upstream", NothingToCheck),  # the scorer would be in it
    ("nonsense", None, "auto", UsageError),
    ("demo", None, "nonsense", UsageError),
]


@pytest.mark.parametrize(("split", "source", "engine", "kind"), WRONG)
def test_a_wrong_source_is_passed_over_by_nobody_else(split, source, engine, kind, monkeypatch):
    monkeypatch.setenv("TRACEAUDIT_SOURCE", "/no/such/place")
    with pytest.raises(kind):
        open_study(split, source, engine=engine)


@pytest.mark.real
def test_the_demo_is_the_same_with_and_without_a_source(source):
    with open_study("demo", str(source)) as beside, open_study("demo") as alone:
        assert beside.provenance() == alone.provenance()
        assert beside.corpus.gold.bytes == alone.corpus.gold.bytes


@pytest.mark.real
def test_a_study_of_two_splits_is_the_two_studies(source):
    with open_study("all", str(source)) as study:
        for split in REAL_SPLITS:
            part = study.only(split)
            with open_study(split, str(source)) as own:
                assert part.has == own.has and dict(part.lacks) == dict(own.lacks)
                assert part.corpus.gold.bytes == own.corpus.gold.bytes
                assert part.traces_digest == own.traces_digest
        with pytest.raises(ValueError):
            _ = study.corpus  # which of the two?


def test_a_study_without_a_source_lacks_everything_and_says_so():
    with open_study("all") as study:
        assert study.has == frozenset()
        assert study.source == "no source"
        assert study.lacks == {
            "gold": "no source was given and the cache is empty",
            "traces": "no trace file is in this source",
            "scorer": "the pinned scorer is not in this source",
        }
        told = study.provenance()
    assert told["gold_files"] == {"gaia": 0, "swe-bench": 0}
    assert told["traces_digest"] == pin.traces_digest([])


# ------------------------------------------------------------------------------------- gold without errors


@pytest.fixture
def blank(tmp_path) -> Path:
    """Gold files of some traces of GAIA, none of which holds an error."""
    folder = tmp_path / "blank" / "benchmarking" / GAIA
    folder.mkdir(parents=True)
    for position, trace in enumerate(pin.load().trace_ids("gaia")[:6]):
        scores = [{"reliability_score": position % 5, "security_score": 5, "overall": 3.0}]
        (folder / f"{trace}.json").write_text(json.dumps({"errors": [], "scores": scores}))
    return tmp_path / "blank"


def test_gold_without_errors_measures_two_claims_alone(blank, tmp_path):
    _, data = audited(blank, "gaia", tmp_path / "out.json", "--unpinned")
    measured = {finding["id"] for finding in data["findings"] if finding["verdict"] != "NOT MEASURED"}
    assert measured == WITHOUT_ERRORS == {"P3", "W9"}
    for finding in data["findings"]:
        if finding["id"] in measured:
            continue
        reason = (
            "no trace file is in this source" if finding["id"] == "W11" else "the gold that can be read holds no error"
        )
        assert finding["magnitude"] == reason, finding["id"]
    assert data["values"]["gaia_gold_errors"]["raw"] == 0
    assert "read without verification" in data["provenance"]["recordable"]


def test_one_error_is_enough_to_ask(blank, tmp_path):
    path = blank / "benchmarking" / GAIA / f"{ID}.json"
    path.write_text(json.dumps({"errors": [{"category": "Goal Deviation", "location": "x"}], "scores": []}))
    code, data = audited(blank, "gaia", tmp_path / "out.json", "--unpinned")
    assert code == 3
    left = {finding["id"] for finding in data["findings"] if finding["verdict"] == "NOT MEASURED"}
    assert "P2" not in left and "P4" not in left


# ------------------------------------------------------------------------------------- forged compiled code


def forge(folder: Path, name: str) -> Path:
    """A ``__pycache__`` whose compiled module, believed by Python at once, leaves a trace when it runs."""
    code = compile(f"open({str(folder / 'it-ran')!r}, 'w').close()\n", f"{name}.py", "exec")
    head = importlib.util.MAGIC_NUMBER + (0b01).to_bytes(4, "little") + bytes(8)  # hash-based and never checked
    path = folder / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(head + marshal.dumps(code))
    return path


def test_the_forgery_is_one(tmp_path):
    """An ordinary import believes it, whatever the source beside it says."""
    (tmp_path / "calculate_scores.py").write_text("x = 1\n")
    forge(tmp_path, "calculate_scores")
    subprocess.run([sys.executable, "-c", "import calculate_scores"], cwd=tmp_path, check=True)
    assert (tmp_path / "it-ran").exists()


@pytest.mark.real
def test_forged_compiled_code_in_a_source_is_nothing(source):
    before = source_state(str(source))
    forge(source / "benchmarking", "calculate_scores")
    forge(source, "sitecustomize")
    assert source_state(str(source)) == before
    with open_study("swe-bench", str(source)) as study:
        assert "scorer" in study.lacks and study.engine.name == "independent"
        study.engine.score(study.corpus.gold.bytes, study.corpus.gold.bytes)
    assert not list(source.rglob("it-ran"))


@pytest.mark.real
@pytest.mark.upstream
def test_forged_compiled_code_beside_the_scorer_is_not_run(source, scorer_bytes):
    place = source / pin.load().scorer_path
    place.write_bytes(scorer_bytes)
    forge(place.parent, place.stem)
    with open_study("swe-bench", str(source)) as study:
        assert study.engine.name == "upstream"
        theirs = study.engine.score(study.corpus.gold.bytes, study.corpus.gold.bytes)
    ours = IndependentEngine(pin.taxonomy()).score(study.corpus.gold.bytes, study.corpus.gold.bytes)
    assert abs(theirs.joint - ours.joint) < 1e-12
    assert not list(source.rglob("it-ran"))


@pytest.mark.real
def test_a_forged_scorer_is_not_run(source):
    place = source / pin.load().scorer_path
    place.write_text(f"open({str(source / 'it-ran')!r}, 'w').close()\n")
    for engine in ("auto", "upstream", "independent"):
        with pytest.raises(PinMismatch, match=place.name):
            open_study("swe-bench", str(source), engine=engine)
    assert main(["trail", "audit", "--split", "swe-bench", "--source", str(source)]) == 1
    assert not list(source.rglob("it-ran"))
