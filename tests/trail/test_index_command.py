"""``traceaudit trail index``: builds the committed index from every trace, or checks it against those at hand."""

from __future__ import annotations

import json

import pytest

from traceaudit.errors import NothingToCheck, PinMismatch, UsageError
from traceaudit.pins import data_pins, git_blob_id, git_tree_id, sha256_hex
from traceaudit.trail import index
from traceaudit.trail import pin as trail_pin
from traceaudit.trail.index import command_index, dump_index, index_digest, load_index

from ..sources_support import NO_SHARED, SHARED, write_files


def span(id, *children):
    return {"span_id": id, "child_spans": list(children), "logs": [{"span_id": "not this one"}]}


def trace(*spans):
    return json.dumps({"trace_id": "t", "spans": list(spans)}).encode()


GOLD = {"gaia": "benchmarking/processed_annotations_gaia", "swe-bench": "benchmarking/processed_annotations_swe_bench"}
DATA = {"gaia": "benchmarking/data/GAIA", "swe-bench": "benchmarking/data/SWE Bench"}
SPANS = {"gaia": {"a1": ["s1", "s2"], "a2": ["s3"]}, "swe-bench": {"b1": ["s4", "s4"], "b2": []}}
TREE = {
    "benchmarking/calculate_scores.py": b"pass\n",
    **{f"{GOLD[split]}/{id}.json": b"{}" for split, traces in SPANS.items() for id in traces},
    **{
        f"{DATA[split]}/{id}.json": trace(*map(span, ids))
        for split, traces in SPANS.items()
        for id, ids in traces.items()
    },
}


@pytest.fixture
def pins(tmp_path, monkeypatch):
    """The committed pin file, cut down to the tiny tree, as the pin that the command sees."""
    folder = tmp_path / "pins"
    folder.mkdir()
    blobs = {path: git_blob_id(data) for path, data in TREE.items()}
    listed = "path\tblob\tsize\n" + "".join(f"{path}\t{blob}\t-\n" for path, blob in sorted(blobs.items()))
    (folder / "trail-files.tsv").write_text(listed)
    (folder / "trail-spans.json").write_bytes(dump_index(SPANS))
    original = trail_pin.load()
    text = (data_pins() / "trail.toml").read_text()
    for old, new in (
        (sha256_hex((data_pins() / "trail-files.tsv").read_bytes()), sha256_hex(listed.encode())),
        (original.index_sha256, sha256_hex(dump_index(SPANS))),
        (original.index_digest, index_digest(SPANS)),
        (original.pin.tree, git_tree_id(blobs)),
        (original.scorer_sha256, sha256_hex(b"pass\n")),
        ("count = 302", f"count = {len(TREE)}"),
        ("files = 296", f"files = {len(TREE) - 1}"),
        ("count = 117", "count = 2"),
        ("count = 31", "count = 2"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "trail.toml").write_text(text)
    monkeypatch.setattr(index, "load", lambda: trail_pin.load(folder))
    monkeypatch.setenv("TRACEAUDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TRACEAUDIT_SOURCE", raising=False)
    return folder


@pytest.fixture
def source(tmp_path):
    return write_files(tmp_path / "source", TREE)


def drop(source, *ids):
    for id in ids:
        (path,) = source.glob(f"benchmarking/data/*/{id}.json")
        path.unlink()


def command(source, *, check=False, out=None):
    said = []
    return command_index(None if source is None else str(source), check, out, said.append), said


def test_command_builds_the_committed_index(pins, source):
    committed = pins / "trail-spans.json"
    expected = committed.read_bytes()
    committed.unlink()
    code, said = command(source)
    assert code == 0 and committed.read_bytes() == expected
    assert "4 of 4 traces" in said[0] and index_digest(SPANS) in said[-1]
    assert sorted(path.name for path in pins.iterdir()) == ["trail-files.tsv", "trail-spans.json", "trail.toml"]


def test_command_needs_every_trace_for_the_committed_index(pins, source):
    drop(source, "a2", "b1")
    before = (pins / "trail-spans.json").read_bytes()
    with pytest.raises(NothingToCheck, match="needs every trace") as caught:
        command(source)
    assert "2; " in caught.value.got and "a2" in caught.value.got and caught.value.exit_code == 2
    assert (pins / "trail-spans.json").read_bytes() == before


def test_command_writes_another_file_from_what_is_there(pins, source, tmp_path):
    drop(source, "a2", "b1")
    code, _ = command(source, out=str(tmp_path / "new" / "some.json"))
    assert code == 0
    other = load_index(tmp_path / "new" / "some.json", pinned=index.load())
    assert other.spans == {"gaia": {"a1": ("s1", "s2")}, "swe-bench": {"b2": ()}} and not other.committed


@pytest.mark.parametrize("use", [{}, {"check": True}, {"out": "x.json"}])
def test_command_without_traces(pins, source, tmp_path, monkeypatch, use):
    monkeypatch.chdir(tmp_path)
    drop(source, "a1", "a2", "b1", "b2")
    for place in (source, None):
        with pytest.raises(NothingToCheck, match="no trace is at hand") as caught:
            command(place, **use)
        assert caught.value.exit_code == 2 and caught.value.next_step
    assert not (tmp_path / "x.json").exists()


def test_command_check_and_out_together(pins, source):
    with pytest.raises(UsageError):
        command(source, check=True, out="x.json")


def test_command_check_passes_and_lists_what_it_could_not_check(pins, source):
    assert command(source, check=True)[0] == 0
    drop(source, "a2", "b1")
    code, said = command(source, check=True)
    assert code == 0
    assert "2 traces checked, 0 moved" in said
    assert [line.split() for line in said[-2:]] == [["gaia", "a2"], ["swe-bench", "b1"]]


MOVES = {  # edit of the committed index: lines that name what moved
    "one id": ((b'"s3"', b'"s9"'), ["gaia a2, span 1: expected s3 (the trace), found s9 (the index)"]),
    "an id lost": ((b'"s1","s2"', b'"s1"'), ["gaia a1, span 2: expected s2 (the trace), found nothing (the index)"]),
    "an id too many": (
        (b"[]", b'["s5"]'),
        ["swe-bench b2, span 1: expected nothing (the trace), found s5 (the index)"],
    ),
    "a trace lost": ((b'\n"a2": ["s3"]', b""), None),
}


@pytest.mark.parametrize("name", MOVES)
def test_command_check_names_each_trace_that_moved(pins, source, name):
    (old, new), lines = MOVES[name]
    path = pins / "trail-spans.json"
    changed = path.read_bytes().replace(old, new)
    assert changed != path.read_bytes()
    path.write_bytes(changed.replace(b",\n}", b"\n}"))
    before = path.read_bytes()
    code, said = command(source, check=True)
    moved = [line.removeprefix("moved: ") for line in said if line.startswith("moved: ")]
    assert code == 1 and "4 traces checked, 1 moved" in said
    assert moved == (lines or ["gaia a2, span 1: expected s3 (the trace), found nothing (the index)"])
    assert path.read_bytes() == before


@pytest.mark.parametrize("old_new", [(b'"s3"', b'"s9"'), (b": [", b":  [")])
def test_command_check_finds_a_change_in_a_trace_that_is_not_at_hand(pins, source, old_new):
    drop(source, "a2")
    path = pins / "trail-spans.json"
    path.write_bytes(path.read_bytes().replace(*old_new))
    with pytest.raises(PinMismatch) as caught:
        command(source, check=True)
    assert caught.value.where == "trail-spans.json"


def test_command_check_of_an_absent_or_torn_index(pins, source):
    (pins / "trail-spans.json").write_bytes(b"{")
    with pytest.raises(PinMismatch, match="no span index"):
        command(source, check=True)
    (pins / "trail-spans.json").unlink()
    with pytest.raises(PinMismatch, match="absent"):
        command(source, check=True)


def test_command_refuses_a_changed_trace(pins, source):
    path = next(source.glob("benchmarking/data/*/a1.json"))
    path.write_bytes(path.read_bytes().replace(b"s2", b"s8"))
    for use in ({}, {"check": True}):
        with pytest.raises(PinMismatch) as caught:
            command(source, **use)
        assert caught.value.where == "benchmarking/data/GAIA/a1.json"


@pytest.mark.real
@pytest.mark.skipif(not SHARED.is_dir(), reason=NO_SHARED)
def test_the_command_on_the_real_folder(capsys):
    said = []
    assert command_index(str(SHARED), True, None, said.append) == 0
    assert "139 of 148 traces" in said[0] and "139 traces checked, 0 moved" in said
    assert "9 not at hand, so not checked:" in said
    assert capsys.readouterr().out == ""
