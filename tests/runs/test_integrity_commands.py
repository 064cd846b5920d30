"""Commands of integrity: exit codes and what they say."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from traceaudit.errors import UsageError
from traceaudit.runs import integrity_commands, layers, manifest, toy


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    integrity_commands.add_integrity(parser.add_subparsers())
    arguments = parser.parse_args([str(word) for word in words])
    return arguments.run(arguments)


def test_sign_and_verify(tmp_path: Path, capsys) -> None:
    corpus, key = tmp_path / "corpus", tmp_path / "k"
    toy.toy_corpus(corpus)
    assert run("verify", corpus) == 1  # there is no manifest
    assert run("keygen", key) == 0
    assert run("sign", corpus, "--key", key, "--at", "June") == 0
    said = capsys.readouterr().err
    assert "signed 12 runs, 24 files" in said and "publish this head: 1:" in said
    assert run("verify", corpus, "--key", f"{key}.pub") == 0
    said = capsys.readouterr().err
    head = said.split("head of the chain: ")[1].split()[0]
    assert "0 errors, 0 warnings" in said
    manifest.run_files(corpus)[0].unlink()
    assert run("sign", corpus, "--key", key) == 0
    assert run("verify", corpus, "--key", f"{key}.pub", "--head", head) == 0  # a warning: the signer removed it
    assert run("verify", corpus, "--key", f"{key}.pub", "--head", "9:00") == 1
    manifest.run_files(corpus)[0].unlink()
    capsys.readouterr()
    assert run("verify", corpus, "--key", f"{key}.pub", "--json") == 1
    data = json.loads(capsys.readouterr().out)
    assert data["rules"] == {"chain.removal": 1, "manifest.orphan": 1, "signed.manifest": 1, "signed.removed": 1}
    assert data["errors"] == 3 and len(data["problems"]) == 4


def test_without_a_key_it_says_what_it_cannot(tmp_path: Path, capsys) -> None:
    toy.toy_corpus(tmp_path)
    run("verify", tmp_path)
    assert "nothing here says who collected the runs" in capsys.readouterr().err


def test_attack_on_the_made_up_corpus(tmp_path: Path, capsys) -> None:
    assert run("attack", "--out", tmp_path / "out", "--json", tmp_path / "rows.json") == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    said = capsys.readouterr().err
    assert all(row["layers"]["remembered_head"]["caught"] for row in rows)
    assert all(layer.cannot in said for layer in layers.LAYERS)
    assert (tmp_path / "out" / "relabel").is_dir()


def test_attack_without_replay_marks_it(tmp_path: Path, capsys) -> None:
    """Runs of another format are not replayed by the toy, so the layer could not look."""
    toy.toy_corpus(tmp_path / "c")
    for path in manifest.run_files(tmp_path / "c"):
        path.write_bytes(path.read_bytes().replace(b'"toy-1"', b'"other"'))
    assert run("attack", tmp_path / "c", "--out", tmp_path / "out", "--json", "-") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["layers"]["reexecution"]["caught"] for row in rows} == {None}


def test_target_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        run("attack", "--out", tmp_path)
