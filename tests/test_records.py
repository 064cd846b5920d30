"""Records: saved in one byte form, loaded as strictly as a pin, compared leaf by leaf."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from traceaudit import records
from traceaudit.claims import Finding, Verdict
from traceaudit.errors import NothingToCheck, PinMismatch, ValueProblem
from traceaudit.records import ABSENT, Record, compare, load, parse, path_of, save
from traceaudit.values import Value

NAME = "trail-headline.demo.json"


def value(name: str = "share", raw=0.25, shown: str = "0.250", **more) -> Value:
    return Value(name, raw, shown, unit="share", n=4, dropped={"no gold": 1}, **more)


def record(*values: Value, findings: tuple[Finding, ...] = (), provenance=None) -> Record:
    return Record(
        "trail-headline",
        "demo",
        provenance=provenance or {"engine": "independent"},
        values={v.name: v for v in values},
        findings={f.id: f for f in findings},
    )


HELD = Finding("P1", Verdict.HELD, "none of 4", ("share",), measure="headline")
WHOLE = record(value(measure="headline", of="errors", traces="abc"), value("label", "a|b", "a|b"), findings=(HELD,))


def test_path_names_chapter_and_split():
    assert path_of("a-b", "gaia", Path("r")).as_posix() == "r/data-pins/records/a-b.gaia.json"


def test_a_saved_record_is_loaded_as_it_was(tmp_path):
    save(WHOLE, tmp_path / NAME)
    got = load(tmp_path / NAME)
    assert compare(WHOLE, got).equal and (got.chapter, got.split) == ("trail-headline", "demo")
    assert got.provenance == WHOLE.provenance
    # what comes from a record is recalled, whatever it was when it was saved
    assert {v.mode for v in got.values.values()} == {got.findings["P1"].mode} == {"recalled"}


def test_equal_records_have_equal_bytes_whatever_their_order(tmp_path):
    backwards = replace(WHOLE, values=dict(reversed(WHOLE.values.items())))
    assert records.to_bytes(WHOLE) == records.to_bytes(backwards)
    assert records.to_bytes(WHOLE).endswith(b"}\n")


def test_a_failed_save_leaves_the_former_record(tmp_path, monkeypatch):
    save(WHOLE, tmp_path / NAME)
    before = (tmp_path / NAME).read_bytes()
    monkeypatch.setattr(records.os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space"):
        save(record(value()), tmp_path / NAME)
    assert (tmp_path / NAME).read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [NAME]  # nothing half-written lies about


@pytest.mark.parametrize(
    ("provenance", "why"),
    [
        ({"source": "/home/someone/trail"}, "a path"),  # an absolute path
        ({"inputs": [{"from": "~/trail"}]}, "a path"),  # deep inside, of a home
        ({"run": "at 12:30"}, "a time of day"),
        ({"run": "2026-08-27T12:30:59"}, "a time of day"),
        ({"host": records.socket.gethostname()}, "host"),
        ({"score": float("nan")}, "not JSON"),  # NaN is no JSON
        ({"what": object()}, "not JSON"),
        ({"text": "\ud800"}, "not JSON"),  # a lone surrogate has no UTF-8 form
    ],
)
def test_what_must_not_be_recorded(provenance, why, tmp_path):
    with pytest.raises(ValueProblem, match=why):
        save(record(value(), provenance=provenance), tmp_path / NAME)
    assert not list(tmp_path.iterdir())


def test_dates_and_digests_may_be_recorded(tmp_path):
    save(record(value(), provenance={"fixed": "2026-08-27", "commit": "12ab", "python": "3.11.7"}), tmp_path / NAME)


def changed(path: str, to) -> bytes:
    """The whole record as bytes with one leaf set (or, with ..., removed)."""
    data = json.loads(records.to_bytes(WHOLE))
    *above, last = path.split("/")
    part = data
    for key in above:
        part = part[key]
    if to is ...:
        del part[last]
    else:
        part[last] = to
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not strict JSON"),  # an empty file
        (b"\xff{}", "not strict JSON"),  # not UTF-8
        (b"\xef\xbb\xbf{}", "not strict JSON"),  # a byte order mark
        (b"[]", "wrong type"),  # not an object
        (b'{"schema": 1, "schema": 1}', "'schema' occurs twice"),  # duplicate keys
        (b'{"schema": NaN}', "NaN is not"),
        (b"[" * 100_000, "not strict JSON"),  # deep nesting
        (changed("schema", 2), "schema is another"),
        (changed("schema", True), "schema is another"),  # True == 1 in Python
        (changed("provenance", ...), "lacks a field"),
        (changed("more", 1), "unknown field"),
        (changed("values", []), "values has the wrong type"),
        (changed("values/share", 1), "values.share has the wrong type"),
        (changed("values/share/raw", [1]), "values.share.raw has the wrong type"),
        (changed("values/share/raw", ...), "values.share lacks a field"),
        (changed("values/share/shown", 1), "values.share.shown has the wrong type"),
        (changed("values/share/n", True), "values.share.n has the wrong type"),  # a truth value is no count
        (changed("values/share/n", 1.0), "values.share.n has the wrong type"),
        (changed("values/share/dropped", {"why": "1"}), "values.share.dropped.why has the wrong type"),
        (changed("values/share/mode", "measured"), "unknown field"),  # a mode belongs to a page
        (changed("values/Share", json.loads(changed("x", 1))["values"]["share"]), "lower-case identifier"),
        (changed("findings/P1/verdict", "FINE"), "verdict is unknown"),
        (changed("findings/P1/values", "share"), "findings.P1.values has the wrong type"),
        (changed("findings/P1/values", ["other"]), "rests on values the record does not hold"),
        (changed("findings/P1/per_split", {"gaia": {}}), "findings.P1.per_split.gaia lacks a field"),
    ],
)
def test_a_malformed_record_is_a_mismatch_that_names_file_and_leaf(content, says):
    with pytest.raises(PinMismatch, match=says) as caught:
        parse(content, NAME)
    assert caught.value.where == NAME and caught.value.exit_code == 1


def test_an_infinite_number_written_as_one_is_refused():
    content = records.to_bytes(WHOLE).replace(b"0.25,", b"1e999,")
    with pytest.raises(PinMismatch, match="not finite"):
        parse(content, NAME)


def test_a_file_of_another_name_is_no_record():
    with pytest.raises(PinMismatch, match="file's name"):
        parse(records.to_bytes(WHOLE), "notes.json")


def test_an_absent_record_is_nothing_to_check(tmp_path):
    with pytest.raises(NothingToCheck) as caught:
        load(tmp_path / NAME)
    assert caught.value.exit_code == 2


BASE = value()


@pytest.mark.parametrize(
    ("was", "now", "leaves"),
    [
        (BASE, BASE, []),  # equal
        (BASE, replace(BASE, raw=0.25 + 1e-13), []),  # within the tolerance
        (BASE, replace(BASE, raw=0.25 + 1e-11), ["values.share.raw"]),  # beyond it
        (replace(BASE, raw=1e6), replace(BASE, raw=1e6 + 1e-7), []),  # relative above one
        (replace(BASE, raw=0.0), replace(BASE, raw=1e-13), []),  # absolute near zero
        (BASE, replace(BASE, shown="0.251"), ["values.share.shown"]),  # shown is text: equal or not
        (replace(BASE, raw=4), replace(BASE, raw=5), ["values.share.raw"]),  # a count
        (replace(BASE, raw=1), replace(BASE, raw=1.0), ["values.share.raw"]),  # a count is no float
        (replace(BASE, raw=1), replace(BASE, raw=True), ["values.share.raw"]),
        (replace(BASE, raw=None), replace(BASE, raw=0.0), ["values.share.raw"]),  # undefined is not zero
        (BASE, replace(BASE, n=5), ["values.share.n"]),
        (BASE, replace(BASE, unit="errors"), ["values.share.unit"]),
        (BASE, replace(BASE, dropped={"no gold": 2}), ["values.share.dropped.no gold"]),
        (BASE, replace(BASE, dropped={}), ["values.share.dropped.no gold"]),
        (BASE, replace(BASE, mode="recalled"), []),  # modes are not compared
        (BASE, replace(BASE, traces="abc"), ["values.share.traces"]),  # one of the two knows no traces
        (BASE, replace(BASE, name="other"), ["values.other", "values.share"]),  # one missing, one extra
    ],
)
def test_values_are_compared_leaf_by_leaf(was, now, leaves):
    got = compare(record(was), record(now))
    assert [d.leaf for d in got.differences] == leaves
    assert got.equal is (not leaves) and got.not_comparable == ()


def test_a_difference_says_what_was_and_what_is():
    got = compare(record(BASE), record(replace(BASE, shown="0.251")))
    assert str(got.differences[0]) == "values.share.shown: was '0.250', is '0.251'"
    (extra,) = compare(record(), record(BASE)).differences
    assert extra.was is ABSENT and str(extra) == "values.share: was absent, is '0.250'"


def test_provenance_is_not_compared():
    assert compare(record(BASE, provenance={"engine": "a"}), record(BASE, provenance={"engine": "b"})).equal


def test_findings_are_compared():
    was, now = record(BASE, findings=(HELD,)), record(BASE, findings=(replace(HELD, verdict=Verdict.LATENT),))
    assert [d.leaf for d in compare(was, now).differences] == ["findings.P1.verdict"]
    assert [d.leaf for d in compare(was, record(BASE)).differences] == ["findings.P1"]


def test_another_set_of_traces_is_not_comparable_and_listed():
    other = value("steady", 1, "1")
    was = record(value(traces="abc"), other, findings=(HELD, replace(HELD, id="P2", values=("steady",))))
    now = record(
        value(raw=0.5, shown="0.500", traces="def"),
        other,
        findings=(
            replace(HELD, verdict=Verdict.VIOLATED),
            replace(HELD, id="P2", values=("steady",), verdict=Verdict.LATENT),
        ),
    )
    got = compare(was, now)
    assert got.not_comparable == ("values.share", "findings.P1")  # the finding rests on the value
    assert [d.leaf for d in got.differences] == ["findings.P2.verdict"]  # what does not is compared


def test_the_same_set_of_traces_is_compared():
    got = compare(record(value(traces="abc")), record(value(raw=0.5, traces="abc")))
    assert [d.leaf for d in got.differences] == ["values.share.raw"] and not got.not_comparable


def test_the_record_of_a_run_keeps_modes(tmp_path):
    content = records.dump(WHOLE.as_json(modes=True) | {"build": {}}, where=NAME)
    assert parse(content, NAME, modes=True).values["share"].mode == "measured"
    with pytest.raises(PinMismatch, match="unknown field"):
        parse(content, NAME)
