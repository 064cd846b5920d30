"""The commands of corpora, from the command line: what they write, say and end with."""

from __future__ import annotations

import json

import pytest

from traceaudit.cli import main
from traceaudit.runs.files import write_run
from traceaudit.runs.toy import toy_runs


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for run in toy_runs(seed=0, graded=True):
        write_run(run, folder)
    return folder


def test_the_card_has_what_it_promises_and_counts_what_is_there(corpus, tmp_path, capsys):
    target = tmp_path / "card.json"
    assert main(["runs", "card", str(corpus), "--json", str(target)]) == 0
    card = json.loads(target.read_bytes())
    runs = list(toy_runs(seed=0, graded=True))
    assert card["trajectories"] == len(runs) == len(list(corpus.glob("*.jsonl")))
    assert card["steps"] == sum(len(run.steps) for run in runs)
    assert card["stamped"] + card["unstamped"] == len(runs)
    assert {"empty", "constant", "duplicate"} <= card["columns"].keys()
    assert sum(row["trajectories"] for row in card["per_model"]) == len(runs)
    assert f"digest {card['digest']}" in capsys.readouterr().err


def test_the_dask_engine_gives_the_same_card(corpus, tmp_path):
    pytest.importorskip("dask")
    made = {}
    for engine in ("plain", "dask"):
        target = tmp_path / f"{engine}.json"
        assert main(["runs", "card", str(corpus), "--engine", engine, "--json", str(target)]) == 0
        made[engine] = json.loads(target.read_bytes())
    assert made["plain"] == made["dask"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["card", "{absent}"], 64, "there is no such folder"),
        (["card", "{empty}"], 2, "no run"),
        (["inputs", "{absent}"], 2, "there is no such folder"),
        (["inputs", "{corpus}"], 2, "inputs are missing"),
        (["normalize", "{empty}", "{target}"], 2, "no file here may hold runs"),
        (["export", "{empty}", "{target}"], 2, "0 runs"),
        (["verify", "{corpus}"], 1, "manifest"),
        (["nothing"], 64, "invalid choice"),
    ],
)
def test_how_a_command_ends(arguments, code, said, corpus, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    places = {name: tmp_path / name for name in ("absent", "empty", "corpus", "target")}
    try:
        ended = main(["runs", *(part.format(**places) for part in arguments)])
    except SystemExit as left:
        ended = left.code
    assert ended == code
    assert said in capsys.readouterr().err


def test_an_export_holds_no_free_text(corpus, tmp_path):
    assert main(["runs", "export", str(corpus), str(tmp_path / "out")]) == 0
    texts = {call.arguments for run in toy_runs(seed=0, graded=True) for step in run.steps for call in step.calls}
    written = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert written and not [text for text in texts if len(text) > 8 and text in written]
