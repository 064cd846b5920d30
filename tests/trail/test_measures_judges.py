"""What real judges score: known figures, ranks, intervals and categories, and the same from both engines."""

from __future__ import annotations

import dataclasses
import io
import json
import tarfile
from collections.abc import Iterable

import pytest

from traceaudit.chapter import Chapter
from traceaudit.cli import main
from traceaudit.trail import demo
from traceaudit.trail import judges as judge_pin
from traceaudit.trail.gold import Gold
from traceaudit.trail.judges import JudgeRun, load
from traceaudit.trail.judges_source import Given, TarSource
from traceaudit.trail.measures.judges import judge_categories, judges, rank, ranked
from traceaudit.trail.study import Study, open_study
from traceaudit.values import Values

from ..conftest import REAL
from ..sources_support import flipped

SPLITS = ("gaia", "swe-bench")
TRAIN = "openai-gemini-2.5-flash-GAIA-graph_causal_only_train"
FLASH = "gemini-2.5-flash-GAIA"
SILENT = "openai-minimax-m1-80k-GAIA-graph_causal_only_span_index"

# run -> value -> as shown; the first two as the seed and the facts have them, the last never produced an answer
FIGURES = {
    TRAIN: {
        "answered": "116", "missing": "0", "scored": "62", "dropped": "54", "joint": "0.2187",
        "joint_all_traces": "0.1169", "sprayed_joint": "0.5669", "emitted": "181", "rank_reported": "1",
        "rank_all_traces": "4", "rank_change": "3 down", "notes": "8",
    },
    f"gemini-{FLASH}": {"scored": "108", "joint": "0.1452", "sprayed_joint": "0.4350", "rank_change": "1 up"},
    SILENT: {
        "answered": "116", "scored": "0", "dropped": "116", "notes": "116", "joint": "undefined",
        "location": "undefined", "weighted_f1": "undefined", "sprayed_joint": "undefined",
        "per_gold_error": "undefined", "joint_common": "undefined", "joint_all_traces": "0.0000",
        "rank_reported": "undefined", "rank_all_traces": "7", "rank_change": "undefined",
    },
    "gemini-gemini-2.5-flash-SWE Bench": {
        "answered": "14", "missing": "17", "dropped": "5", "scored": "9", "joint": "0.0000", "rank_change": "same",
    },
}  # fmt: skip

# split -> value over all its judges -> as shown
TOGETHER = {
    "gaia": {
        "judges_count": "7", "judges_traces": "116", "judges_unreadable": "1", "judges_dropped": "278",
        "judges_rank_moved": "4", "judges_above_published": "2", "judges_above_published_all_traces": "0",
        "judges_steps": "6", "judges_steps_apart": "1", "judges_unscored": "1",
        "judges_categories": "1,475", "judges_off": "40", "judges_lost": "40", "judges_wordy": "16",
        "judges_promoted": "0", "judges_ambiguous": "0", "judges_null": "0", "judges_figures_moved": "0",
    },
    "swe-bench": {
        "judges_count": "2", "judges_traces": "31", "judges_missing": "17", "judges_rank_moved": "0",
        "judges_steps_apart": "0", "judges_categories": "140", "judges_off": "2", "judges_lost": "2",
        "judges_ambiguous": "0", "judges_null": "0", "judges_figures_moved": "0",
    },
}  # fmt: skip


def measured(study: Study) -> Values:
    return Values([*judges(study), *judge_categories(study)])


def shown(value) -> str:
    """Scores with four decimals, as the facts give them; all else as readers see it."""
    return f"{value.raw:.4f}" if isinstance(value.raw, float) and not value.shown.endswith("x") else value.shown


def numbers(values: Values) -> dict[str, int]:
    """Name of a judge -> its number."""
    return {values[f"judge_{n}_name"].raw: n for n in range(1, values.judges_count.raw + 1)}


def differences(values: Values, split: str) -> list[str]:
    wanted = dict(TOGETHER[split])
    known = numbers(values)
    for name, figures in FIGURES.items():
        if name in known:
            wanted |= {f"judge_{known[name]}_{column}": text for column, text in figures.items()}
    return [
        f"{name}: {shown(values[name])}, not {text}" for name, text in wanted.items() if shown(values[name]) != text
    ]


@pytest.fixture(scope="session")
def archive() -> str:
    path = REAL / "judges" / "outputs.tar.xz"
    if not path.is_file():
        pytest.skip("the judges' replies are not beside this repository (../shared/data/judges)")
    return str(path)


@pytest.mark.real
@pytest.mark.parametrize("split", SPLITS)
def test_known_figures(split, archive, trail_source):
    with open_study(split, str(trail_source), engine="independent", judges=archive) as study:
        values = measured(study)
    assert {value.mode for value in values} == {"measured"}
    assert differences(values, split) == []


def test_every_known_run_is_pinned():
    assert set(FIGURES) <= set(load().runs)


@pytest.mark.upstream
@pytest.mark.parametrize("split", SPLITS)
def test_both_engines_agree(split, archive, scorer_source):
    """Every figure of every run, as text and to 1e-12."""
    both = []
    for engine in ("upstream", "independent"):
        with open_study(split, scorer_source, engine=engine, judges=archive) as study:
            assert study.engine.name == engine
            both.append(measured(study))
    theirs, ours = both
    assert differences(theirs, split) == []
    assert theirs.names() == ours.names()
    for value in theirs:
        other = ours[value.name]
        assert (value.shown, value.n, value.dropped) == (other.shown, other.n, other.dropped)
        assert value.raw == (pytest.approx(other.raw, abs=1e-12) if isinstance(value.raw, float) else other.raw)


@pytest.mark.real
def test_all_traces_is_the_reported_mean_times_the_share_that_was_scored(archive, trail_source):
    with open_study("gaia", str(trail_source), engine="independent", judges=archive) as study:
        rows = ranked(study)
        values = Values(judges(study))
    for n, row in enumerate(rows, 1):
        if row.joint is not None:
            share = len(row.result.figures) / len(row.result.traces)
            assert values[f"judge_{n}_joint_all_traces"].raw == pytest.approx(row.joint * share, abs=1e-12)
        low, high = (values[f"judge_{n}_joint_all_traces_{end}"].raw for end in ("low", "high"))
        assert low <= values[f"judge_{n}_joint_all_traces"].raw <= high
        assert values[f"judge_{n}_dropped"].raw == sum(
            values[f"judge_{n}_dropped_{k}"].raw for k in range(1, values.judges_reasons.raw + 1)
        )


# scores -> places
RANKS = [
    ([], []),
    ([0.2, 0.3, 0.1], [2, 1, 3]),
    ([0.2, 0.3, 0.2, 0.1], [2, 1, 2, 4]),  # equal scores share the better place, and the next one is skipped
    ([0.1 + 0.2, 0.3], [1, 1]),  # equal but for rounding
    ([None, 0.0, 0.5], [None, 2, 1]),  # undefined is not zero
    ([None, None], [None, None]),
]


@pytest.mark.parametrize(("scores", "places"), RANKS)
def test_rank(scores, places):
    assert rank(scores) == places


LABEL = "Goal Deviation"

# a category -> the kinds it is counted as, beside being an error
KINDS = [
    (LABEL, set()),
    ("goal deviation", {"off"}),  # absorbed by the exact pass
    (f"{LABEL} (at the end)", {"off", "lost", "wordy"}),
    ("Something Else Entirely", {"off", "lost"}),
    ("deviation", {"off", "promoted", "short"}),
    ("Incorrect Problem Identificatio", {"off", "promoted"}),
    ("error", {"off", "promoted", "short", "ambiguous"}),
    (" ", {"off", "promoted", "short", "ambiguous"}),  # white space alone lies in every label
    (None, {"null"}),
    ("", {"null"}),
]


def with_runs(*runs: JudgeRun, defects: Iterable[str] = ()) -> Study:
    """The demo with other judges, and by default without a planted defect."""
    study = open_study("demo", engine="independent", defects=defects)
    return dataclasses.replace(study, judges_given=Given("ours", lambda split: runs), memo={})


def reply(*categories: object) -> bytes:
    return json.dumps({"errors": [{"category": category, "location": "x"} for category in categories]}).encode()


@pytest.mark.parametrize(("category", "kinds"), KINDS)
def test_kinds_of_categories(category, kinds):
    study = with_runs()
    trace = next(iter(study.corpus.gold))
    values = Values(judge_categories(with_runs(JudgeRun("one", "demo", {trace: reply(category, LABEL)}))))
    counted = {kind: values[f"judges_{kind}"].raw for kind in
               ("off", "lost", "wordy", "promoted", "short", "ambiguous", "null")}  # fmt: skip
    assert {kind for kind, n in counted.items() if n} == kinds
    assert set(counted.values()) <= {0, 1}
    assert values.judges_categories.raw == 2


def test_a_judge_that_is_never_scored_is_undefined_and_not_zero():
    study = with_runs()
    silent = JudgeRun("silent", "demo", dict.fromkeys(study.corpus.gold, b"no answer"))
    absent = JudgeRun("absent", "demo", {})
    values = measured(with_runs(silent, absent))
    for n in (1, 2):
        for column in ("joint", "location", "weighted_f1", "joint_precision", "sprayed_joint", "rank_reported"):
            assert values[f"judge_{n}_{column}"].raw is None, column
        assert values[f"judge_{n}_joint_all_traces"].raw == 0.0
        assert values[f"judge_{n}_rank_all_traces"].raw == 1
    assert "judges_top_reported_name" not in values
    assert (values.judges_notes.raw, values.judge_1_missing.raw) == (14, 14)  # in order of names: absent, silent
    assert values.judge_1_next_p.raw == 1.0


def test_without_judges_or_readable_gold_nothing_raises():
    assert Values(judges(with_runs())).judges_count.raw == 0
    assert Values(judge_categories(with_runs())).judges_categories.raw == 0
    study = with_runs(JudgeRun("one", "demo", {"a": reply(LABEL)}))
    corpus = dataclasses.replace(study.corpus, gold=Gold({"a": b"no json"}))
    values = measured(dataclasses.replace(study, corpora={"demo": corpus}))
    assert values.judge_1_joint_all_traces.raw is None
    assert values.judges_traces.raw == 0


def test_leaving_out_what_was_answered_badly_raises_the_reported_score_alone():
    """The one thing this chapter is about, on the demo: a judge drops its worst replies."""
    with open_study("demo", engine="independent") as study:
        (honest,) = [run for run in study.judges if run.name == "invented-answers-everything"]
        worst = [trace for trace, figures in ranked(study)[0].result.figures.items() if not figures.joint]
    assert worst
    torn = JudgeRun("torn", "demo", {t: b"{" if t in worst else data for t, data in honest.replies.items()})
    values = measured(with_runs(honest, torn, defects=demo.DEFECTS))
    by_name = numbers(values)
    reported = {name: values[f"judge_{n}_joint"].raw for name, n in by_name.items()}
    everywhere = {name: values[f"judge_{n}_joint_all_traces"].raw for name, n in by_name.items()}
    assert reported["torn"] > reported[honest.name]
    assert everywhere["torn"] == pytest.approx(everywhere[honest.name])


def test_the_demo_shows_every_kind_of_judge():
    with open_study("demo", engine="independent") as study:
        values = measured(study)
    raw = {name: values[name].raw for name in values.names()}
    assert raw["judges_count"] == 4
    assert raw["judges_rank_moved"] > 0
    for name in ("judges_missing", "judges_dropped", "judges_notes", "judges_off", "judges_lost", "judges_wordy",
                 "judges_promoted", "judges_short", "judges_ambiguous", "judges_null"):  # fmt: skip
        assert raw[name] > 0, name


def test_without_judges_the_record_is_recalled(monkeypatch):
    monkeypatch.delenv("TRACEAUDIT_JUDGES", raising=False)
    with open_study("gaia", judges="") as study:
        chapter = Chapter("trail-judges", study)
        taken: list[object] = []
        monkeypatch.setattr("traceaudit.chapter.emit", lambda *args: taken.append(args))
        chapter.measure(judges, judge_categories)
    assert {value.mode for value in chapter.values} == {"recalled"}
    assert len(taken) == len(chapter.values)
    assert differences(chapter.values, "gaia") == []


@pytest.mark.real
def test_the_real_archive_holds_every_pinned_reply(archive, capsys):
    assert main(["fetch", "--judges", "--check", "--source", archive]) == 0
    assert "864 of 864 files verified" in capsys.readouterr().err
    assert main(["fetch", "--judges", "--source", archive]) == 64


@pytest.mark.real
def test_one_changed_byte_in_the_real_archive(archive, tmp_path, capsys):
    """The archive packed anew with one byte of one reply changed: exit 1, with what is pinned and what is there."""
    changed = tmp_path / "changed.tar"
    with tarfile.open(archive) as whole, tarfile.open(changed, "w") as out:
        files = [item for item in whole if item.isreg()]
        for at, item in enumerate(files):
            data = whole.extractfile(item).read()
            data = flipped(data, len(data) // 2) if at == 400 else data
            out.addfile(item, io.BytesIO(data))
    assert main(["fetch", "--judges", "--check", "--source", str(changed)]) == 1
    said = capsys.readouterr().err
    assert files[400].name in said
    assert load().flat.files[files[400].name].blob in said
    assert "found: blob" in said


@pytest.mark.real
def test_a_real_archive_without_one_run_is_lacking(archive, trail_source, tmp_path):
    part = tmp_path / "part.tar"
    with tarfile.open(archive) as whole, tarfile.open(part, "w") as out:
        for item in whole:
            if item.isreg() and "SWE" not in item.name:
                out.addfile(item, whole.extractfile(item))
    source = TarSource(part, load(), "part")
    assert len(judge_pin.missing(source, load(), "swe-bench")) == 45
    with open_study("swe-bench", str(trail_source), engine="independent", judges=str(part)) as study:
        assert study.lacks["judges"].startswith("45 of 45 judges' replies are not in this source")
    with open_study("gaia", str(trail_source), engine="independent", judges=str(part)) as study:
        assert "judges" in study.has
