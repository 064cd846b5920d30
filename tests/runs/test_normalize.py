"""Normalizing: every raw file ends as runs or as an issue, a second call does nothing, no run takes another's place."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traceaudit.errors import NothingToCheck, UsageError
from traceaudit.runs import normalize as module
from traceaudit.runs import raw as raw_module
from traceaudit.runs.digests import content_digest
from traceaudit.runs.files import iter_runs
from traceaudit.runs.normalize import STATE, normalize

from ..conftest import REAL
from . import real_400
from .made import kinds, names, put, raw, read, report
from .test_mini_swe_agent import PROMPT, file

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 31534\n"


def test_a_run_keeps_what_the_raw_file_has(source, target):
    content = raw()
    put(source, "deep/a__b-1.traj.json", content)
    put(source, "notes.md", b"x")
    summary = normalize(source, target, fields={"licence": "MIT", "dataset": "d", "arm": ""})
    assert names(target) == ["a__b-1__p_m__default.jsonl"]
    assert (summary.files, summary.ignored, summary.written, summary.runs, summary.steps) == (1, 1, 1, 1, 1)
    header = read(target, "a__b-1__p_m__default.jsonl").header
    assert (header.instance_id, header.repository, header.model, header.arm) == ("a__b-1", "a", "p/m", None)
    assert (header.licence, header.dataset, header.resolved, header.resolved_by) == ("MIT", "d", None, "")
    assert header.source["name"] == "deep/a__b-1.traj.json" and header.source["bytes"] == len(content)
    assert header.content_sha256 == content_digest(read(target, "a__b-1__p_m__default.jsonl").steps)
    assert summary.issues == []


BAD = [  # name, content, what is said of it
    ("x.json", b"", "the file is empty"),
    ("x.json", b" \n", "the file is empty"),
    ("x.traj", POINTER, "this is a Git LFS pointer, not the file"),
    ("x.json", raw()[:-30], "the JSON is torn"),
    ("x.json", b'{"messages": [', "the JSON is torn"),
    ("x.json", b"nonsense", "this is not JSON"),
    ("x.json", b'{"a": "\xff"}', "this is not UTF-8"),
    ("x.json", b"[" * 200_000, "the JSON is nested too deeply"),
    ("x.json", b'{"a": 1}', "this is of no known format"),
    ("x.json", b"[]", "this is of no known format"),
    ("x.json", b'{"schema": "traceaudit-run-1"}', "this is a run in our own form already"),
    ("x.json", b"[{'role': 'user', 'content': 'x'}]", "Python repr text posing as JSON"),
    ("x.json", json.dumps("State(key=full, value={'id': 1})").encode(), "Python repr text posing as JSON"),
    ("x.json", json.dumps(["{'action': 'run'}"]).encode(), "Python repr text posing as JSON"),
    ("x.json.gz", gzip.compress(raw())[:-9], "the packed file is damaged"),
    ("x.json.zst", b"nonsense", "the packed file is damaged"),
    ("x.json", json.dumps(file([])).encode(), "the run has no decision"),
]


@pytest.mark.parametrize(("name", "content", "what"), BAD, ids=[f"{n}-{what[:20]}" for n, (*_, what) in enumerate(BAD)])
def test_a_bad_file_is_named_and_the_others_go_on(source, target, name, content, what):
    put(source, name, content)
    put(source, "good.json", raw())
    summary = normalize(source, target)
    assert kinds(summary) == {(name, what)}
    assert (summary.runs, summary.files) == (1, 2)
    again = normalize(source, target)  # a file that is skipped keeps its issues
    assert (again.skipped, again.written, kinds(again)) == (2, 0, kinds(summary))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json.gz", gzip.compress(raw())),
        ("x.traj.zst", zstandard.compress(raw())),
        ("x.json", b"\xef\xbb\xbf" + raw()),
        ("x.jsonl", json.dumps(json.loads(raw()), indent=1).encode()),  # one value over many lines
    ],
)
def test_forms_of_a_file_that_are_read_without_a_word(source, target, name, content):
    put(source, name, content)
    summary = normalize(source, target)
    assert (summary.runs, summary.issues) == (1, [])


def test_records_of_a_jsonl_file_are_runs_of_their_own(source, target):
    lines = [raw("a__b-1"), b"{", raw("a__b-2"), b'{"a": 1}', b""]
    put(source, "all.jsonl", b"\n".join(lines))
    summary = normalize(source, target)
    assert names(target) == ["a__b-1__p_m__default.jsonl", "a__b-2__p_m__default.jsonl"]
    assert [(issue.line, issue.what) for issue in summary.issues] == [
        (2, "the JSON is torn"),
        (4, "this is of no known format"),
    ]
    assert read(target, "a__b-2__p_m__default.jsonl").header.source["line"] == 3


def test_what_only_python_reads_is_read_and_named(source, target):
    put(source, "x.json", raw().replace(b"0.25", b"NaN").replace(b"I look", b"\\ud83d look"))
    summary = normalize(source, target)
    assert [issue.what for issue in summary.issues] == ["JSON that only Python reads (NaN, half a surrogate pair …)"]
    step = read(target, "a__b-1__p_m__default.jsonl").steps[0]
    assert step.cost is None and step.text.startswith("\ufffd look")


def test_runs_of_one_id_get_numbers_and_keep_them(source, target):
    put(source, "b.json", raw(command="second"))
    put(source, "c.json", raw(command="third"))
    normalize(source, target)
    put(source, "a.json", raw(command="late"))  # first by name, last to come
    put(source, "d.json", raw(command="third"))
    summary = normalize(source, target)
    commands = {run.header.run_id: run.steps[0].calls[0].arguments for run in iter_runs(target, [])}
    base = "a__b-1__p_m__default"
    assert commands == {base: "second", f"{base}__2": "third", f"{base}__3": "late", f"{base}__4": "third"}
    assert kinds(summary) == {("d.json", "the same bytes as another raw file")}
    assert (summary.skipped, summary.written) == (2, 2)


def test_a_foreign_file_in_the_target_is_never_overwritten(source, target):
    put(source, "a.json", raw())
    put(target, "a__b-1__p_m__default.jsonl", b"someone's")
    normalize(source, target)
    assert (target / "a__b-1__p_m__default.jsonl").read_bytes() == b"someone's"
    assert read(target, "a__b-1__p_m__default__2.jsonl")


@pytest.mark.parametrize("left", [b"", b"nonsense\n{", None])
def test_a_lost_or_torn_state_changes_no_file(source, target, left):
    put(source, "a.json", raw())
    put(source, "b.json", raw(command="other"))
    normalize(source, target)
    before = {name: (target / name).read_bytes() for name in names(target)}
    state = target / STATE
    state.write_bytes(state.read_bytes()[:-9] if left is None else left)
    summary = normalize(source, target)
    assert {name: (target / name).read_bytes() for name in names(target)} == before
    assert summary.runs == 2 and normalize(source, target).skipped == 2


def test_a_state_of_others_names_no_path_outside(source, target):
    put(source, "a.json", raw())
    normalize(source, target)
    outside = put(target.parent, "precious.jsonl", b"x")
    state = target / STATE
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"  # of b"x"
    done = json.loads(state.read_bytes())
    done["outputs"][0] |= {"run_id": "../precious", "sha256": digest, "base": "z"}
    state.write_bytes(json.dumps(done).encode() + b"\n")
    put(source, "a.json", raw(command="new"))
    normalize(source, target)
    assert outside.read_bytes() == b"x"


def test_a_changed_file_replaces_its_own_runs_and_no_others(source, target):
    put(source, "a.jsonl", raw() + b"\n" + raw("a__b-2"))
    put(source, "b.json", raw(command="other"))
    normalize(source, target)
    put(source, "a.jsonl", raw(command="new"))
    summary = normalize(source, target)
    commands = {run.header.run_id: run.steps[0].calls[0].arguments for run in iter_runs(target, [])}
    assert commands == {"a__b-1__p_m__default": "new", "a__b-1__p_m__default__2": "other"}
    assert [issue.what for issue in summary.issues] == ["a run that its raw file no longer gives was removed"]
    assert (summary.skipped, summary.written) == (1, 1)


@pytest.mark.parametrize("touch", ["edited", "deleted", "options", "program"])
def test_what_does_not_fit_the_state_is_converted_again(source, target, monkeypatch, touch):
    put(source, "a.json", raw())
    normalize(source, target)
    path = target / "a__b-1__p_m__default.jsonl"
    before, fields = path.read_bytes(), {}
    if touch == "edited":
        path.write_bytes(before.replace(b"I look", b"I lie "))
    elif touch == "deleted":
        path.unlink()
    elif touch == "options":
        fields = {"licence": "MIT"}
    else:
        monkeypatch.setattr(module, "_program", lambda: "other")
    assert normalize(source, target, fields=fields).written == 1
    assert (path.read_bytes() == before) is (touch != "options")


def test_a_raw_file_that_is_gone_leaves_its_run_and_a_word(source, target):
    put(source, "a.json", raw())
    gone = put(source, "b.json", raw("a__b-2"))
    normalize(source, target)
    gone.unlink()
    summary = normalize(source, target)
    assert len(names(target)) == 2 and summary.runs == 1
    assert kinds(summary) == {("b.json", "the raw file of runs in the target is gone")}


def test_labels_inside_the_source_are_not_taken_for_runs(source, target):
    put(source, "trajs/a.json", raw())
    put(source, "logs/a__b-1/report.json", report(True))
    summary = normalize(source, source / "out", labels=source / "logs")
    assert (summary.files, summary.labelled, summary.issues) == (1, 1, [])
    assert normalize(source, source / "out", labels=source / "logs").files == 1


def test_spellings_of_a_model_are_counted(source, target):
    put(source, "a.json", raw())
    put(source, "b.json", raw("a__b-2", model="M"))
    assert [(i.what, i.got) for i in normalize(source, target).issues] == [
        ("a model under several spellings", "p/m 1, M 1")
    ]


@pytest.mark.parametrize(
    "instance", ["..", "../../x", "a/b", "", "x" * 900, "\u4e2d", ".hidden", "CON", "a\nb", "a\x00b"]
)
def test_hostile_ids_stay_in_the_folder_and_visible(source, target, instance):
    put(source, "s.json", raw(instance))
    summary = normalize(source, target)
    (run,) = iter_runs(target, [])
    assert summary.runs == 1 and run.header.instance_id == (instance or None)
    assert sorted(path.name for path in target.parent.iterdir()) == ["dst", "src"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda s, t: normalize(s / "absent", t), NothingToCheck),
        (lambda s, t: normalize(s, t), NothingToCheck),  # nothing in it
        (lambda s, t: normalize(put(s, "a.json", raw()), t, format="no such"), UsageError),
        (lambda s, t: normalize(put(s, "a.json", raw()), t, labels=s / "absent"), NothingToCheck),
        (lambda s, t: normalize(put(s, "a.json", raw()), put(s, "f", b"")), UsageError),
        (lambda s, t: normalize(put(s, "a.json", raw()).parent, s), UsageError),
        (lambda s, t: normalize(put(s, "a.json", raw()), t, workers=0), UsageError),
    ],
)
def test_wrong_calls(source, target, call, error):
    with pytest.raises(error):
        call(source, target)


def test_a_single_file_and_a_forced_format(source, target):
    path = put(source, "a.json", json.dumps([*PROMPT, {"role": "assistant", "content": "hi"}]).encode())
    assert [issue.what for issue in normalize(path, target).issues] == ["this is of no known format"]
    assert normalize(path, target, format="mini-swe-agent").runs == 1


def test_a_reader_that_fails_hides_no_other_file(source, target, monkeypatch):
    from traceaudit.runs.formats.mini_swe_agent import MiniSweAgent

    real = MiniSweAgent.parse

    def parse(self, data, name):
        if name == "b.json":
            raise KeyError("boom")
        return real(self, data, name)

    monkeypatch.setattr(MiniSweAgent, "parse", parse)
    for name in "abc":
        put(source, f"{name}.json", raw(f"a__b-{ord(name)}"))
    summary = normalize(source, target)
    assert summary.runs == 2
    assert kinds(summary) == {("b.json", "the reader of mini-swe-agent failed on this")}


def test_a_file_that_unpacks_to_too_much_is_an_issue(source, target, monkeypatch):
    monkeypatch.setattr(raw_module, "MOST_RAW", 100)
    put(source, "a.json.gz", gzip.compress(b" " * 1000))
    assert [issue.what for issue in normalize(source, target).issues] == ["the file unpacks to more than 100 bytes"]


@pytest.mark.slow
def test_workers_give_the_same_bytes(source, target, tmp_path):
    for number in range(12):
        put(source, f"{number}.json", raw(f"a__b-{number % 5}", command=str(number)))
    put(source, "bad.json", b"{")
    lines = []
    one = normalize(source, target, say=lines.append)
    two = normalize(source, tmp_path / "two", workers=2)
    assert one == two and names(target) == names(tmp_path / "two")
    assert all((target / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names(target))
    assert lines[-1] == "13 of 13 files, 0 unchanged, 12 runs written"


def test_the_summary_is_plain_json(source, target):
    put(source, "a.json", raw())
    put(source, "b.json", b"{")
    data = json.loads(json.dumps(normalize(source, target).as_json()))
    assert data["issues"] == {"the JSON is torn": 1} and data["details"][0]["file"] == "b.json"
    assert (data["files"], data["runs"], data["steps"], data["skipped"]) == (2, 1, 1, 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_mutated_files_end_as_runs_or_issues(tmp_path_factory, data):
    """Parts of a sound file are replaced, then bytes are cut: never an exception, never a file without a word."""
    content = json.loads(raw())
    places = [(content, key) for key in content]
    places += [(message, key) for message in content["messages"] for key in message]
    extra = content["messages"][2]["extra"]["response"]
    places += [(extra, key) for key in extra] + [(extra["usage"], key) for key in extra["usage"]]
    for _ in range(data.draw(st.integers(0, 3))):
        where, key = data.draw(st.sampled_from(places))
        where[key] = data.draw(JSON)
    encoded = json.dumps(content).encode()
    encoded = encoded[: data.draw(st.sampled_from([len(encoded), len(encoded) // 2, len(encoded) - 1]))]
    folder = tmp_path_factory.mktemp("fuzz")
    put(folder / "src", "a.json", encoded)
    summary = normalize(folder / "src", folder / "dst")
    issues = []
    assert sum(1 for _ in iter_runs(folder / "dst", issues)) == summary.runs
    assert issues == [] and (summary.runs or summary.issues)


@pytest.mark.real
@pytest.mark.slow
def test_the_400_runs_with_their_labels(tmp_path_factory, target):
    folder = real_400(tmp_path_factory)
    summary = normalize(folder / "trajs", target, labels=folder / "logs")
    assert (summary.files, summary.runs, summary.steps) == (400, 400, 16_214)
    assert (summary.labelled, summary.resolved) == (400, 297)
    assert summary.kinds == {"a model under several spellings": 1}
    issues = []
    assert sum(len(run.steps) for run in iter_runs(target, issues)) == 16_214 and issues == []
    assert normalize(folder / "trajs", target, labels=folder / "logs").skipped == 400


@pytest.mark.real
def test_the_real_small_files(target):
    folder = REAL / "trajectories" / "mini_swe_agent"
    if not folder.is_dir():
        pytest.skip("the real trajectories are not beside this repository (../shared/data/trajectories)")
    summary = normalize(folder, target, labels=folder / "labels")
    assert (summary.runs, summary.labelled, summary.resolved, summary.issues) == (3, 2, 1, [])
