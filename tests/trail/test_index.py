"""The span index: the order of spans, and damage found and named."""

from __future__ import annotations

import json
import shutil

import pytest

from traceaudit.errors import NothingToCheck, PinMismatch, UsageError
from traceaudit.pins import data_pins, sha256_hex
from traceaudit.sources import open_source, read_verified
from traceaudit.trail import index
from traceaudit.trail import pin as trail_pin
from traceaudit.trail.index import build_index, check_index, dump_index, index_digest, load_index

from ..sources_support import NO_SHARED, SHARED, flipped


def span(id, *children):
    return {"span_id": id, "child_spans": list(children), "logs": [{"span_id": "not this one"}]}


def trace(*spans):
    return json.dumps({"trace_id": "t", "spans": list(spans)}).encode()


def nested(depth):
    """A trace of spans in spans, written without recursion."""
    opening = "".join(f'{{"span_id": "s{level}", "child_spans": [' for level in range(depth))
    return f'{{"spans": [{opening}{"]}" * depth}]}}'.encode()


ORDERS = {  # a trace: its span ids
    "no span": (trace(), []),
    "one": (trace(span("a")), ["a"]),
    "depth first, not breadth first": (trace(span("a", span("b", span("c")), span("d")), span("e")), list("abcde")),
    "two roots in document order": (trace(span("z"), span("a")), ["z", "a"]),
    "a repeated id is listed twice": (trace(span("a", span("b")), span("b")), ["a", "b", "b"]),
    "no child_spans at all": (b'{"spans": [{"span_id": "a"}, {"span_id": "b"}]}', ["a", "b"]),
    "the empty text is an id": (trace(span("")), [""]),
    "NaN elsewhere, which is no JSON but common": (b'{"x": NaN, "spans": [{"span_id": "a", "y": -Infinity}]}', ["a"]),
    "a byte order mark": (b"\xef\xbb\xbf" + trace(span("a")), ["a"]),
    "a lone surrogate elsewhere": (b'{"x": "\\ud800", "spans": [{"span_id": "a"}]}', ["a"]),
    "the last of two names counts": (b'{"spans": [], "spans": [{"span_id": "a"}]}', ["a"]),
}


@pytest.mark.parametrize("name", ORDERS)
def test_order_of_spans(name):
    data, ids = ORDERS[name]
    built = build_index({"demo": {"t": data}})
    assert built == {"demo": {"t": ids}} and built.malformed == ()


@pytest.mark.parametrize("depth", [100, 500, 2_000, 100_000])
def test_depth_is_no_limit(depth):
    assert index.span_ids(nested(depth)) == [f"s{level}" for level in range(depth)]


MALFORMED = {  # bytes: what the reason says
    "empty": (b"", "Expecting value"),
    "not JSON": (b"{", "Expecting"),
    "cut short": (trace(span("a"))[:-2], "Expecting"),
    "more behind it": (trace(span("a")) + b"x", "Extra data"),
    "not text": (b'{"spans": "\xff"}', "can't decode"),
    "a list": (b"[]", "must be an object"),
    "no spans": (b"{}", "list named spans"),
    "spans no list": (b'{"spans": {}}', "list named spans"),
    "spans null": (b'{"spans": null}', "list named spans"),
    "a span that is text": (b'{"spans": ["a"]}', "span 1"),
    "a span without id": (b'{"spans": [{"span_id": "a"}, {"id": "b"}]}', "span 2"),
    "an id that is a number": (b'{"spans": [{"span_id": 1}]}', "span 1"),
    "an id that is null": (b'{"spans": [{"span_id": null}]}', "span 1"),
    "children no list": (b'{"spans": [{"span_id": "a", "child_spans": {}}]}', "child_spans must be a list"),
    "children null": (b'{"spans": [{"span_id": "a", "child_spans": null}]}', "child_spans must be a list"),
    "a null child": (b'{"spans": [{"span_id": "a", "child_spans": [null]}]}', "span 2"),
    "deep and cut short": (nested(5000)[:-1], "Expecting"),
    "deep and more behind it": (nested(5000) + b"]", "Extra data"),
    "a number too long to read": (b'{"spans": [' + b"9" * 5000 + b"]}", ""),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_trace_is_a_finding_and_hides_no_other(name):
    data, reason = MALFORMED[name]
    built = build_index({"gaia": {"bad": data, "good": trace(span("a"))}, "swe-bench": {"t": trace()}})
    assert built == {"gaia": {"good": ["a"]}, "swe-bench": {"t": []}}
    (bad,) = built.malformed
    assert (bad.split, bad.trace) == ("gaia", "bad")
    assert reason in bad.reason


def test_the_committed_index():
    committed = load_index()
    assert committed.committed
    assert committed.digest == "4370086c255bdc6bc90a0af032ef68f72a23bc2c362234058c7d82258a52b928"
    assert index_digest(committed.spans) == committed.digest
    assert {split: len(traces) for split, traces in committed.spans.items()} == {"gaia": 117, "swe-bench": 31}
    assert {split: sum(map(len, traces.values())) for split, traces in committed.spans.items()} == {
        "gaia": 3_579,
        "swe-bench": 1_047,
    }
    distinct = sum(len(set(ids)) for ids in committed.spans["swe-bench"].values())
    assert distinct == 1_046  # one trace lists an id twice
    assert dump_index(committed.spans) == (data_pins() / "trail-spans.json").read_bytes()


def test_digest_does_not_depend_on_order_or_type():
    one = {"gaia": {"a": ["1"], "b": []}, "swe-bench": {}}
    assert index_digest(one) == index_digest({"swe-bench": {}, "gaia": {"b": (), "a": ("1",)}})
    text = '{"GAIA":{"a":["1"],"b":[]},"SWE Bench":{}}'
    assert index_digest(one) == sha256_hex(text.encode())
    assert index_digest({"gaia": {"a": ["1", "1"]}}) != index_digest({"gaia": {"a": ["1"]}})


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(data_pins(), tmp_path / "pins")


@pytest.mark.parametrize("at", [0, 20, 50_000, -20, -1])
def test_one_flipped_byte_in_the_committed_index(folder, at):
    path = folder / "trail-spans.json"
    expected = sha256_hex(path.read_bytes())
    path.write_bytes(flipped(path.read_bytes(), at))
    with pytest.raises(PinMismatch) as caught:
        load_index(pinned=trail_pin.load(folder))
    error = caught.value
    assert (error.where, error.exit_code) == ("trail-spans.json", 1)
    assert expected in error.expected and sha256_hex(path.read_bytes()) in error.got


def test_a_changed_index_whose_file_digest_was_adapted(folder):
    path = folder / "trail-spans.json"
    old = path.read_bytes()
    new = old.replace(b'"77fb7128d6f04862"', b'"77fb7128d6f04863"', 1)
    path.write_bytes(new)
    pin_file = folder / "trail.toml"
    pin_file.write_text(pin_file.read_text().replace(sha256_hex(old), sha256_hex(new)))
    with pytest.raises(PinMismatch, match="differs from its pin") as caught:
        load_index(pinned=trail_pin.load(folder))
    assert "4370086c" in caught.value.expected


def test_the_committed_index_absent(folder):
    (folder / "trail-spans.json").unlink()
    with pytest.raises(PinMismatch, match="no such file"):
        load_index(pinned=trail_pin.load(folder))


FIRST = trail_pin.load().trace_ids("gaia")[0]


def test_another_index_may_have_any_digest(tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"GAIA": {FIRST: ["a", "a"]}}))
    other = load_index(path)
    assert not other.committed
    assert other.spans == {"gaia": {FIRST: ("a", "a")}, "swe-bench": {}}
    assert other.digest != load_index().digest
    same = tmp_path / "same.json"
    same.write_bytes(dump_index(load_index().spans))
    assert load_index(str(same)).digest == load_index().digest
    assert not load_index(str(same)).committed  # equal, but it was not the committed file that was read


BAD_INDEXES = {
    "not JSON": b"{",
    "empty": b"",
    "not text": b"\xff",
    "a list": b"[]",
    "an unknown split": b'{"Other": {}}',
    "our own name of a split": b'{"gaia": {}}',
    "a split that is a list": b'{"GAIA": []}',
    "an unknown trace": b'{"GAIA": {"x": []}}',
    "a trace of the other split": json.dumps({"SWE Bench": {FIRST: []}}).encode(),
    "ids no list": json.dumps({"GAIA": {FIRST: "a"}}).encode(),
    "an id no text": json.dumps({"GAIA": {FIRST: [1]}}).encode(),
    "a split twice": b'{"GAIA": {}, "GAIA": {}}',
    "a trace twice": f'{{"GAIA": {{"{FIRST}": [], "{FIRST}": []}}}}'.encode(),
    "too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("name", BAD_INDEXES)
def test_a_file_that_is_no_index(tmp_path, name):
    (tmp_path / "bad.json").write_bytes(BAD_INDEXES[name])
    with pytest.raises(UsageError, match="no span index") as caught:
        load_index(tmp_path / "bad.json")
    assert "bad.json" in caught.value.where and caught.value.got


def test_no_such_index(tmp_path):
    with pytest.raises(NothingToCheck):
        load_index(tmp_path / "none.json")


KNOWN = {"gaia": {"a": ["1", "2"], "b": ["3"]}, "swe-bench": {"c": ["4", "4"]}}
CHECKS = {  # rebuilt: (moved, number checked, unchecked)
    "nothing at hand": ({}, [], 0, [("gaia", "a"), ("gaia", "b"), ("swe-bench", "c")]),
    "all equal": (KNOWN, [], 3, []),
    "one equal": ({"gaia": {"b": ("3",)}}, [], 1, [("gaia", "a"), ("swe-bench", "c")]),
    "one more id": ({"gaia": {"a": ["1", "2", "3"]}}, [("gaia", "a")], 1, [("gaia", "b"), ("swe-bench", "c")]),
    "another order": ({"gaia": {"a": ["2", "1"], "b": ["3"]}}, [("gaia", "a")], 2, [("swe-bench", "c")]),
    "a duplicate lost": ({"swe-bench": {"c": ["4"]}}, [("swe-bench", "c")], 1, [("gaia", "a"), ("gaia", "b")]),
    "a trace the index lacks": (
        {"gaia": {"z": []}},
        [("gaia", "z")],
        1,
        [*(("gaia", t) for t in "ab"), ("swe-bench", "c")],
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_check_index(name):
    rebuilt, moved, checked, unchecked = CHECKS[name]
    result = check_index(KNOWN, rebuilt)
    assert (list(result.moved), len(result.checked), list(result.unchecked)) == (moved, checked, unchecked)


@pytest.mark.real
@pytest.mark.skipif(not SHARED.is_dir(), reason=NO_SHARED)
def test_the_committed_index_against_the_139_real_traces():
    trail = trail_pin.load()
    source = open_source(SHARED, trail.pin)
    traces = {}
    for split in trail.splits:
        files = read_verified(source, trail.pin, trail.trace_paths(split)).files
        traces[split] = {trail_pin.trace_id(path): data for path, data in files.items()}
    built = build_index(traces)
    result = check_index(load_index(), built)
    assert built.malformed == ()
    assert (result.moved, len(result.checked), len(result.unchecked)) == ((), 139, 9)
    assert built["swe-bench"]["72822db6e120878d916b515c2501246b"].count("b14646a5fcac02fd") == 2
