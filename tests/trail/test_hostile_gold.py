"""Hostile gold under ``--unpinned``: counted and shown, never an exception, never a record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from traceaudit.cli import main

GOOD = {"category": "Goal Deviation", "location": "a"}
SCORES = [{"reliability_score": 3, "security_score": 5, "overall": 4.0}]

# what the gold file of one trace holds: one situation a row
HOSTILE = {
    "not JSON": b"{",
    "empty": b"",
    "not UTF-8": b"\xff\xfe\x00",
    "a list": b"[]",
    "null": b"null",
    "a number": b"7",
    "no errors": b"{}",
    "errors null": b'{"errors": null}',
    "errors a text": b'{"errors": "x"}',
    "errors an object": b'{"errors": {"a": 1}}',
    "an error is a text": b'{"errors": ["x"]}',
    "an error is empty": b'{"errors": [{}]}',
    "duplicate keys": b'{"errors": [], "errors": [{"category": "Goal Deviation", "location": "a"}]}',
    "NaN": b'{"errors": [{"category": NaN, "location": NaN}], "scores": [{"reliability_score": NaN}]}',
    "a big integer": b'{"errors": [{"category": "x", "location": ' + b"9" * 400 + b"}]}",
    "too many digits": b'{"errors": [{"category": "x", "location": ' + b"9" * 5000 + b"}]}",
    "deep": b'{"errors": ' + b"[" * 100_000 + b"}",
    "a lone surrogate": b'{"errors": [{"category": "\\ud800", "location": "\\udfff"}]}',
    "scores a text": json.dumps({"errors": [GOOD], "scores": "x"}).encode(),
    "scores of texts": json.dumps({"errors": [GOOD], "scores": ["reliability_score"]}).encode(),
    "a score is a list": json.dumps({"errors": [GOOD], "scores": [{"overall": [1]}]}).encode(),
    "a score is huge": json.dumps({"errors": [GOOD], "scores": [{"overall": 10**400}]}).encode(),
    **{
        f"{field} {kind}": json.dumps({"errors": [{**GOOD, field: value}], "scores": SCORES}).encode()
        for field in ("category", "location")
        for kind, value in {
            "null": None,
            "a number": 3,
            "a list": [],
            "a full list": ["a"],
            "an object": {},
            "true": True,
            "empty": "",
            "a blank": " ",
            "markup": "<script>|`*",
        }.items()
    },
}


def source(folder: Path, hostile: bytes) -> Path:
    """A folder with the upstream layout and three gold files, one of them hostile."""
    files = folder / "benchmarking" / "processed_annotations_gaia"
    files.mkdir(parents=True)
    (folder / "benchmarking" / "processed_annotations_swe_bench").mkdir()
    good = json.dumps({"errors": [GOOD, {**GOOD, "location": "b"}], "scores": SCORES}).encode()
    other = json.dumps({"errors": [GOOD], "scores": [{**SCORES[0], "reliability_score": 1}]}).encode()
    names = ("0035f455b3ff2295167a844f04d85d34", "0140b3f657eddf76ca82f72c49ac8e58", "0242ca2533fac5b8b604a9060b3e15d6")
    for name, data in zip(names, (good, hostile, other), strict=True):
        (files / f"{name}.json").write_bytes(data)
    return folder


def audited(folder: Path, out: Path, *more: str) -> dict:
    code = main(["trail", "audit", "--split", "gaia", "--unpinned", "--source", str(folder), "--json", str(out), *more])
    assert code == 3
    return json.loads(out.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_gold_is_counted_and_never_raises(name, tmp_path, capsys):
    data = audited(source(tmp_path / "s", HOSTILE[name]), tmp_path / "out.json")
    assert "read without verification" in data["provenance"]["recordable"]
    assert data["splits"]["gaia"]["gold_files"] == 3
    assert 2 <= data["splits"]["gaia"]["gold_files_scored"] <= 3
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.upstream
@pytest.mark.parametrize("name", ["NaN", "location a list", "category an object", "deep", "an error is empty"])
def test_both_engines_say_the_same(name, tmp_path, scorer_bytes):
    folder = source(tmp_path / "s", HOSTILE[name])
    (folder / "benchmarking" / "calculate_scores.py").write_bytes(scorer_bytes)
    both = [audited(folder, tmp_path / f"{engine}.json", "--engine", engine) for engine in ("upstream", "independent")]
    assert both[0]["splits"] == both[1]["splits"]
    assert both[0]["findings"] == both[1]["findings"]


def test_a_string_of_fifty_megabytes(tmp_path):
    huge = json.dumps({"errors": [{**GOOD, "evidence": "x" * 50_000_000}]}).encode()
    assert audited(source(tmp_path / "s", huge), tmp_path / "out.json")["splits"]["gaia"]["gold_files_scored"] == 3
