"""Run files: what is written is read back equal, and every fault of a file is an issue with its line."""

from __future__ import annotations

import gzip
import json

import msgspec
import pytest
import zstandard

from traceaudit.runs import files
from traceaudit.runs.files import iter_runs, read_header, read_run, run_bytes, write_run
from traceaudit.runs.schema import Call, Header, Outcome, Run, Step, Tokens

STEPS = (
    Step(index=0, text="look \u00e9\u4e2d\U0001f600\x7f", calls=(Call(tool="bash", arguments="ls", exit_code=0),)),
    Step(index=1, cost=0.5, tokens=Tokens(input=3), outcome=Outcome(state="measured", why="", passed=False)),
)
RUN = Run(Header(run_id="a__b-1__m__default", n_steps=2, source={"name": "x", "bytes": 3}), STEPS)
GOOD = run_bytes(RUN)
LINES = GOOD.splitlines()


def changed(line: int, change) -> bytes:
    """The good file with one line changed as data."""
    rows = [json.loads(row) for row in LINES]
    change(rows[line])
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def without(field):
    return lambda row: row.pop(field)


def test_a_run_is_read_back_equal_and_in_ascii(tmp_path):
    path = write_run(RUN, tmp_path)
    issues = []
    assert path.name == "a__b-1__m__default.jsonl"
    assert path.read_bytes().isascii() and path.read_bytes().count(b"\n") == 3
    assert read_run(path, issues) == RUN and issues == []
    assert read_header(path) == RUN.header


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
def test_packed_files_are_read_as_plain_ones(tmp_path, ending, pack):
    path = tmp_path / f"{RUN.header.run_id}.jsonl{ending}"
    path.write_bytes(pack(GOOD[:90]) + pack(GOOD[90:]))  # two members
    issues = []
    assert read_run(path, issues) == RUN and issues == []


BAD = [  # content, words of the issue, line, whether the run is given all the same
    (GOOD[:-20], "torn", 3, False),
    (GOOD[:-1], "no end", 3, True),
    (b"\xef\xbb\xbf" + GOOD, "byte order mark", 1, True),
    (GOOD.replace(b"\n", b"\r\n"), "CRLF", 1, True),
    (LINES[0] + b"\n\n" + b"\n".join(LINES[1:]) + b"\n", "blank line", 2, True),
    (GOOD.replace(b"look", b"l\xffok"), "not UTF-8", 2, False),
    (b"", "empty", None, False),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "LFS pointer", 1, False),
    (b"[1]\n" + b"\n".join(LINES[1:]), "no object", 1, False),
    (b"nonsense\n", "not JSON", 1, False),
    (changed(0, lambda row: row.update(schema="traceaudit-run-2")), "schema version", 1, False),
    (changed(0, without("schema")), "schema version", 1, False),
    (changed(0, lambda row: row.update(colour="red")), "unknown field", 1, False),
    (changed(0, without("licence")), "missing", 1, False),
    (changed(0, without("n_steps")), "missing", 1, False),
    (changed(0, lambda row: row.update(n_steps="2")), "wrong type", 1, False),
    (changed(0, lambda row: row.update(n_steps=3)), "counts other steps", 1, True),
    (changed(0, lambda row: row.update(run_id="other")), "not named for its run", 1, True),
    (changed(1, lambda row: row.update(colour="red")), "unknown field", 2, False),
    (changed(1, without("metadata")), "missing", 2, False),
    (changed(1, lambda row: row["calls"][0].pop("paired")), "missing", 2, False),
    (changed(2, lambda row: row["tokens"].pop("output")), "missing", 3, False),
    (changed(2, lambda row: row["outcome"].pop("instrument")), "missing", 3, False),
    (changed(2, lambda row: row["outcome"].update(passed=None)), "contradicts itself", 3, True),
    (changed(2, lambda row: row["outcome"].update(state="green")), "wrong type", 3, False),
    (GOOD.replace(b'"index":1', b'"index":1,"index":1'), "given twice", 3, False),
    (GOOD.replace(b"look", b"\\ud800"), "not JSON", 2, False),
    (GOOD.replace(b'"cost":0.5', b'"cost":NaN'), "not JSON", 3, False),
    (GOOD.replace(b'"look', b"[" * 9000), "wrong type", 2, False),
]


@pytest.mark.parametrize(
    ("content", "what", "line", "given"), BAD, ids=[f"{what}-{n}" for n, (_, what, *_) in enumerate(BAD)]
)
def test_every_fault_has_its_line(tmp_path, content, what, line, given):
    path = tmp_path / f"{RUN.header.run_id}.jsonl"
    path.write_bytes(content)
    issues = []
    run = read_run(path, issues)
    assert (run is not None) is given
    assert [(issue.file, issue.line) for issue in issues if what in issue.what][:1] == [(path.name, line)], issues


def test_other_spacing_is_no_fault(tmp_path):
    path = tmp_path / f"{RUN.header.run_id}.jsonl"
    path.write_bytes(changed(1, lambda row: None))
    issues = []
    assert read_run(path, issues) == RUN and issues == []


@pytest.mark.parametrize(
    ("limit", "what"), [("LONGEST_LINE", "a line is longer"), ("MOST_BYTES", "the file unpacks to more")]
)
def test_a_huge_line_is_an_issue(tmp_path, monkeypatch, limit, what):
    monkeypatch.setattr(files, limit, 60)
    path = write_run(RUN, tmp_path)
    issues = []
    assert read_run(path, issues) is None
    assert len(issues) == 1 and issues[0].what.startswith(what) and issues[0].line == 1


@pytest.mark.parametrize(
    ("ending", "content"),
    [(".gz", gzip.compress(GOOD)[:-9]), (".gz", b"nonsense"), (".zst", b"nonsense"), (".gz", b"\x1f\x8b\x08\x00" * 5)],
)
def test_a_damaged_package_is_an_issue(tmp_path, ending, content):
    path = tmp_path / f"{RUN.header.run_id}.jsonl{ending}"
    path.write_bytes(content)
    issues = []
    assert read_run(path, issues) is None
    assert "damaged" in issues[-1].what


def test_a_folder_is_read_in_the_order_of_names_and_a_bad_file_hides_no_other(tmp_path):
    for name in ("c", "a", "b"):
        header = msgspec.structs.replace(RUN.header, run_id=name)
        write_run(Run(header, STEPS), tmp_path)
    (tmp_path / "b.jsonl").write_bytes(b"{")
    (tmp_path / ".hidden.jsonl").write_bytes(b"{")
    (tmp_path / "notes.txt").write_bytes(b"x")
    issues = []
    assert [run.header.run_id for run in iter_runs(tmp_path, issues)] == ["a", "c"]
    assert {issue.file for issue in issues} == {"b.jsonl"}
