"""The receipt: the scorer's own figures, what they cost, and a signature that says what may be compared."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import shutil
import tarfile

import pytest

from traceaudit.errors import NothingToCheck, PinMismatch, UsageError
from traceaudit.trail.gold import Gold
from traceaudit.trail.hostile import differences
from traceaudit.trail.measures.receipt import receipt_measure
from traceaudit.trail.receipt import Receipt, make_receipt, notes, open_scoring, signature, text
from traceaudit.trail.replies import Replies, load_replies
from traceaudit.trail.study import open_study

KEYS = [
    *("split", "engine", "traces_gold", "answered", "missing", "dropped", "scored", "joint", "location", "weighted_f1"),
    *("joint_all_traces", "location_all_traces", "emitted", "per_gold_error", "joint_precision", "location_precision"),
    *("sprayed_joint", "signature"),
]
TORN = b'{"errors": [{"category": "' + b"}" * 200_000  # 200 kB that never parse


@pytest.fixture(scope="module")
def demo():
    with open_scoring("demo", engine="independent") as study:
        yield study


def receipt_of(study, files, **more) -> Receipt:
    return make_receipt(study, Replies(files, **more))


def exact(study) -> dict[str, bytes]:
    """The gold as replies."""
    return {trace: file for trace, file in study.corpus.gold.bytes.items() if study.corpus.gold[trace].parses}


def with_wrong_score(data: bytes) -> bytes:
    """The same reply with a list where its overall score was."""
    value = json.loads(data)
    value["scores"][0]["overall"] = [4]
    return json.dumps(value).encode()


def test_the_keys_come_in_their_order_and_the_json_is_strict(demo):
    found = receipt_of(demo, exact(demo), unknown=("x.txt",), refused={"y.json": "a symbolic link"}).as_json()
    assert list(found)[: len(KEYS)] == KEYS
    assert {"unreadable_gold", "unknown_files", "refused", "sprayed_over", "provenance"} <= set(found)
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again["unknown_files"] == ["x.txt"]
    assert again["refused"] == {"y.json": "a symbolic link"}
    assert (again["traces_gold"], len(again["unreadable_gold"])) == (13, 1)


GOOD = b'{"errors": []}'
# the reply of one trace -> why it is dropped (None: scored)
DROPPED = [
    (GOOD, None),
    (b"", "empty reply"),
    (b" \n", "empty reply"),
    (b"I cannot help with that.", "no JSON object in the reply"),
    (b"} {", "no JSON object in the reply"),
    (b'{"errors": [', "no JSON object in the reply"),
    (b'{"errors": [}', "the JSON does not parse"),
    (TORN, "the JSON does not parse"),
    (b"{" * 200_000, "no JSON object in the reply"),
    (b'\xff{"errors": []}', "not UTF-8"),
    (b'{"errors": ' + b"[" * 100_000 + b"}", "nested too deeply"),
    (b'{"errors": NaN}', "a field has the wrong type"),
    (b'{"errors": null}', "a field has the wrong type"),
    (b'{"errors": [1]}', "a field has the wrong type"),
    (b'{"errors": [{"category": 4, "location": "a"}]}', "a field has the wrong type"),
    (b'{"errors": [{"category": "x", "location": []}]}', "a field has the wrong type"),
    (b'{"errors": [{"category": "x", "location": NaN}]}', None),  # odd, and a place like any other
    (b'{"errors": [{"category": null, "location": null}]}', None),
    (b'{"errors": {}}', None),  # nothing to go through
]


def check_dropped(study, reply, reason):
    first, second, *_ = exact(study)
    found = receipt_of(study, {first: reply, second: GOOD})
    assert dict(found.dropped) == ({reason: 1} if reason else {})
    assert (found.answered, found.missing, found.scored) == (2, 11, 1 if reason else 2)
    assert found.answered + found.missing == found.traces_gold
    assert found.scored + sum(found.dropped.values()) == found.answered


@pytest.mark.parametrize(("reply", "reason"), DROPPED, ids=lambda part: repr(part)[:30])
def test_every_dropped_reply_has_its_reason(reply, reason, demo):
    check_dropped(demo, reply, reason)


@pytest.mark.upstream
@pytest.mark.parametrize(("reply", "reason"), DROPPED, ids=lambda part: repr(part)[:30])
def test_every_dropped_reply_has_the_same_reason_upstream(reply, reason, demo, upstream):
    check_dropped(dataclasses.replace(demo, engine=upstream, memo={}), reply, reason)


# what the judge answered -> figures that are undefined, and which of the scorer's are 0/0
UNDEFINED = [
    ("nothing usable", ["joint", "location", "weighted_f1"], True, True),
    ("nothing named", [], False, True),
    ("error-free traces only", ["joint", "location", "weighted_f1"], False, True),
]


@pytest.mark.parametrize(("what", "zeros", "unscored", "unnamed"), UNDEFINED)
def test_undefined_is_a_value(what, zeros, unscored, unnamed, demo):
    gold = demo.corpus.gold
    free = [trace for trace, file in gold.items() if file.parses and not file.errors]
    files = {
        "nothing usable": dict.fromkeys(exact(demo), b"no"),
        "nothing named": dict.fromkeys(exact(demo), GOOD),
        "error-free traces only": dict.fromkeys(free, GOOD),
    }[what]
    found = receipt_of(demo, files)
    assert list(found.undefined) == zeros
    assert (found.joint, found.location, found.weighted_f1) == (0.0, 0.0, 0.0)  # the scorer's own
    assert (found.sprayed_joint is None) is unscored
    assert (found.joint_precision is None) is unnamed
    assert found.joint_all_traces == 0.0
    assert ("0 (0/0)" in text(found)) is bool(zeros)


def test_an_exact_judge_costs_nothing_but_what_the_metric_costs(demo):
    found = receipt_of(demo, exact(demo))
    assert (found.scored, found.missing, dict(found.dropped)) == (13, 0, {})
    assert found.joint == found.joint_all_traces == found.joint_scored
    assert (found.per_gold_error, found.weighted_f1) == (1.0, 1.0)


def test_silence_is_not_free_over_all_traces(demo):
    carrying = [trace for trace in exact(demo) if demo.corpus.gold[trace].errors]
    found = receipt_of(demo, {carrying[0]: exact(demo)[carrying[0]]})
    assert (found.joint, found.joint_all_traces) == (1.0, pytest.approx(1 / 13))


def check_above_one(study):
    first, second, *_ = [trace for trace in exact(study) if study.corpus.gold[trace].errors]
    files = {first: with_wrong_score(exact(study)[first]), second: exact(study)[second]}
    found = receipt_of(study, files)
    assert (found.joint, found.location) == (2.0, 2.0)  # two exact replies over one that counts
    assert (found.joint_scored, found.location_scored) == (1.0, 1.0)
    assert (found.scored, found.summed_unscored, dict(found.dropped)) == (1, 1, {"a field has the wrong type": 1})
    assert any("1 trace failed" in note and "1.0000" in note for note in notes(found))
    assert "2.0000" in text(found)
    assert "no means" in next(v.raw for v in receipt_measure(Replies(files))(study) if v.name == "averages")


def test_an_average_above_one_is_shown_with_the_mean(demo):
    check_above_one(demo)


@pytest.mark.upstream
def test_an_average_above_one_is_shown_upstream_too(demo, upstream):
    check_above_one(dataclasses.replace(demo, engine=upstream, memo={}))


def test_the_text_of_a_receipt_names_what_was_not_read_without_control_characters(demo, tmp_path):
    for name in ("\x1b[31m.json", "\u202egnp.json", "x.txt"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / f"{min(exact(demo))}.json").write_bytes(GOOD)
    (tmp_path / "link.json").symlink_to("x.txt")
    shown = text(make_receipt(demo, load_replies(tmp_path, demo.corpus.gold)))
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert "link.json (a symbolic link)" in shown
    assert "<U+001B>[31m.json" in shown


def changed_gold(study):
    trace, data = next(iter(study.corpus.gold.bytes.items()))
    gold = Gold({**study.corpus.gold.bytes, trace: data + b" "})
    return dataclasses.replace(study, corpora={"demo": dataclasses.replace(study.corpus, gold=gold)}, memo={})


class Named:
    """An engine of another name."""

    name = "upstream"


# one change -> the part of the signature that moves with it
SIGNED = {
    "engine": lambda study: dataclasses.replace(study, engine=Named()),
    "index": lambda study: dataclasses.replace(study, index_digest="0" * 64),
    "gold": changed_gold,
    "options": lambda study: open_scoring("demo", engine="independent", unpinned=True),
}


def parts(line: str) -> dict[str, str]:
    assert "\n" not in line
    first, *rest = line.split("|")
    return {"benchmark": first, **dict(part.split(":", 1) for part in rest)}


@pytest.mark.parametrize("part", SIGNED)
def test_one_change_moves_one_part_of_the_signature(part, demo):
    was, now = parts(signature(demo)), parts(signature(SIGNED[part](demo)))
    assert {key for key in was if was[key] != now[key]} == {part}


def test_another_version_moves_the_signature(demo, monkeypatch):
    was = parts(signature(demo))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")
    assert parts(signature(demo)) == was | {"traceaudit": "9.9"}


@pytest.mark.real
def test_the_signature_depends_on_the_split_and_not_on_the_path(trail_source, tmp_path):
    kept = "benchmarking/processed_annotations_gaia"
    shutil.copytree(trail_source / kept, tmp_path / "elsewhere" / kept)
    with open_scoring("gaia", str(trail_source), engine="independent") as study:
        line = signature(study)
    with open_scoring("gaia", str(tmp_path / "elsewhere"), engine="independent") as study:
        assert signature(study) == line
    with open_scoring("swe-bench", str(trail_source), engine="independent") as study:
        assert {k for k, part in parts(signature(study)).items() if part != parts(line)[k]} == {"split", "gold"}
    assert line.startswith("trail@0ffbed9db859|split:gaia|engine:independent|scorer:ed81ebd529da|gold:116@")


# how a split is opened -> the error
OPENED = [
    ({"split": "all"}, UsageError),
    ({"split": "GAIA"}, UsageError),
    ({"split": "demo", "engine": "best"}, UsageError),
    ({"split": "gaia"}, NothingToCheck),  # no source
    ({"split": "demo", "engine": "upstream"}, NothingToCheck),  # no scorer
    ({"split": "gaia", "source": "no/such/place"}, NothingToCheck),
]


@pytest.mark.parametrize(("how", "error"), OPENED)
def test_what_cannot_be_opened(how, error):
    with pytest.raises(error):
        open_scoring(**how)


@pytest.mark.real
def test_a_changed_gold_file_is_a_mismatch_unless_unpinned(trail_source, tmp_path):
    kept = "benchmarking/processed_annotations_gaia"
    shutil.copytree(trail_source / kept, tmp_path / kept)
    path = min((tmp_path / kept).iterdir())
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(PinMismatch):
        open_scoring("gaia", str(tmp_path), engine="independent")
    with open_scoring("gaia", str(tmp_path), engine="independent", unpinned=True) as study:
        assert "|options:unpinned|" in signature(study)


# Real judges: run -> scored, missing, joint, joint over all traces, sprayed joint, errors named.
RUNS = {
    "outputs_Tongyi-Zhiwen-QwenLong-L1-32B-GAIA": (76, 0, 0.0274, 0.0180, 0.1171, 118),
    "outputs_Tongyi-Zhiwen-QwenLong-L1-32B-GAIA_span_index": (75, 0, 0.0540, 0.0349, 0.2224, 154),
    "outputs_gemini-gemini-2.5-flash-GAIA": (108, 0, 0.1452, 0.1352, 0.4350, 332),
    "outputs_gemini-gemini-2.5-flash-GAIA-graph_causal_only": (108, 0, 0.1663, 0.1549, 0.4563, 349),
    "outputs_gemini-gemini-2.5-flash-GAIA-graph_causal_only_span_index": (105, 0, 0.1863, 0.1686, 0.4551, 341),
    "outputs_gemini-gemini-2.5-flash-SWE Bench": (9, 17, 0.0, 0.0, 0.0417, 45),
    "outputs_gemini-gemini-2.5-flash-SWE Bench-graph_suppes_t0.1": (22, 0, 0.0, 0.0, 0.0521, 95),
    "outputs_openai-gemini-2.5-flash-GAIA-graph_causal_only_train": (62, 0, 0.2187, 0.1169, 0.5669, 181),
    "outputs_openai-minimax-m1-80k-GAIA-graph_causal_only_span_index": (0, 0, 0.0, 0.0, None, 0),
}


@pytest.fixture(scope="module")
def judges(root, tmp_path_factory):
    """The folder with the nine runs."""
    packed = root.parent / "shared/data/judges/outputs.tar.xz"
    if not packed.is_file():
        pytest.skip("the judges' replies are not beside this repository (../shared/data/judges)")
    folder = tmp_path_factory.mktemp("judges")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder


def split_of(run: str) -> str:
    return "swe-bench" if "SWE Bench" in run else "gaia"


@pytest.mark.real
@pytest.mark.parametrize("run", RUNS)
def test_receipts_of_real_judges(run, judges, trail_source):
    with open_scoring(split_of(run), str(trail_source), engine="independent") as study:
        found = make_receipt(study, load_replies(judges / run, study.corpus.gold))
    figures = (found.joint, found.joint_all_traces, found.sprayed_joint)
    rounded = tuple(None if figure is None else round(figure, 4) for figure in figures)
    assert (found.scored, found.missing, *rounded, found.emitted) == RUNS[run]
    gold = {"gaia": (116, 1), "swe-bench": (31, 0)}[found.split]
    assert (found.traces_gold, len(found.unreadable_gold)) == gold
    assert found.joint == pytest.approx(found.joint_scored or 0.0, abs=1e-12)
    assert sum(found.dropped.values()) == found.answered - found.scored


@pytest.mark.real
def test_the_receipt_of_the_example(judges, trail_source):
    """The run that drops nearly half of its traces and is reported above every published score."""
    run = "outputs_openai-gemini-2.5-flash-GAIA-graph_causal_only_train"
    with open_scoring("gaia", str(trail_source), engine="independent") as study:
        found = make_receipt(study, load_replies(judges / run, study.corpus.gold))
    assert dict(found.dropped) == {"no JSON object in the reply": 10, "the JSON does not parse": 44}
    assert (found.sprayed_over, found.unreadable_gold) == (62, ("a96c6811716c0473b86a23321db79c34",))


@pytest.mark.real
@pytest.mark.upstream
@pytest.mark.parametrize("run", RUNS)
def test_receipts_equal_the_pinned_scorer(run, judges, scorer_source):
    """The scorer on the files as they are, and the receipt by either engine."""
    found = []
    with open_study(split_of(run), scorer_source, engine="upstream") as study:
        files = load_replies(judges / run, study.corpus.gold).files
        theirs = study.engine.score(study.corpus.gold.bytes, files)
    for engine in ("upstream", "independent"):
        with open_scoring(split_of(run), scorer_source, engine=engine) as study:
            found.append(make_receipt(study, Replies(files)).as_json())
    for each in found:
        ours = (each["joint"], each["location"], each["weighted_f1"])
        assert ours == pytest.approx((theirs.joint, theirs.location, theirs.weighted_f1), abs=1e-12)
    different = ("engine", "signature", "short_circuited", "provenance")
    ours, theirs = ({key: part for key, part in each.items() if key not in different} for each in found)
    assert differences(theirs, ours) == []
