"""The projection: no free text leaves, by construction, and a new field without a decision fails here."""

from __future__ import annotations

import json
import types
import typing

import msgspec
import pytest

from traceaudit.errors import NothingToCheck, UsageError, ValueProblem
from traceaudit.runs import projection, schema
from traceaudit.runs.files import write_run
from traceaudit.runs.projection import DECISIONS, Projected, encode, export, project
from traceaudit.runs.schema import Call, Header, Outcome, Run, Step, Tokens

from .test_secrets import runs_400

STRUCTS = {
    name: item
    for name, item in vars(schema).items()
    if isinstance(item, type)
    and issubclass(item, msgspec.Struct)
    and item.__module__ == schema.__name__
    and name != "Run"
}
CLOSED = {"Header.schema", "Call.paired", "Outcome.state"}
"""Fields that the reader itself admits a few values for."""


def kinds(annotation) -> set[type]:
    """The plain types in an annotation, with those of keys and values of a dict."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) in (typing.Union, dict, tuple):
        return set().union(*map(kinds, typing.get_args(annotation)))
    return {annotation}


FIELDS = [
    (f"{name}.{field}", kind) for name, item in STRUCTS.items() for field, kind in typing.get_type_hints(item).items()
]
TEXTS = [where for where, kind in FIELDS if str in kinds(kind)]


def full(canary) -> Run:
    """A run in which every field that can hold text holds a canary of its own."""

    def fields(name):
        made = {}
        for field, kind in typing.get_type_hints(STRUCTS[name]).items():
            where = f"{name}.{field}"
            if where in CLOSED or str not in kinds(kind):
                continue
            text = canary(where)
            if typing.get_origin(kind) is dict:
                made[field] = {text: text, "a": text} | ({text + "k": 1} if int in kinds(kind) else {})
            else:
                made[field] = text
        return made

    outcome = Outcome(**fields("Outcome") | {"state": "measured", "passed": False})
    call = Call(**fields("Call"), paired="position", exit_code=1)
    step = Step(**fields("Step"), index=0, calls=(call,), outcome=outcome, tokens=Tokens(input=1), cost=0.5)
    return Run(Header(**fields("Header"), n_steps=1), (step,))


def test_every_field_has_a_decision_and_every_decision_a_field():
    assert {name: set(item.__struct_fields__) for name, item in STRUCTS.items()} == {
        name: set(fields) for name, fields in DECISIONS.items()
    }


def test_a_field_with_text_is_never_decided_to_be_a_number():
    """A field that the schema gives text may leave as an identifier, time, digest or enumeration, or not at all."""
    decided = {f"{name}.{field}": decision for name, fields in DECISIONS.items() for field, decision in fields.items()}
    assert {decided[where] for where in TEXTS} <= {
        "identifier", "run id", "time", "digest", "enumeration", "hashed", "left out", "numbers",
    }  # fmt: skip
    free = {"Step.text", "Step.metadata", "Call.arguments", "Call.result", "Call.id", "Header.source"}
    assert {where for where, decision in decided.items() if decision == "left out"} == free
    assert len(TEXTS) > 25


CANARIES = [  # what stands in each field, and from which decisions it may leave as it is
    (lambda where: f"canary in {where}", ()),
    (lambda where: f"canary-{where}\n", ()),
    (lambda where: f"ca\u00f1ary-{where}", ()),
    (lambda where: f'canary"{where}', ()),
    (lambda where: "canary" + where * 60, ()),
    (lambda where: f"ghp_canary{where.replace('.', '0').replace('_', '0'):Q<13}aB3dE5gH7jK9mN1pQ2rS4tU6"[:40], None),
    (lambda where: f"canary-{where}", ("identifier", "run id")),
]


@pytest.mark.parametrize(("canary", "may"), CANARIES, ids=range(len(CANARIES)))
def test_no_canary_leaves(canary, may):
    """A canary in every text field: what has no strict form stays here, and a word leaves by identifiers alone."""
    projected = project(full(canary))
    data = encode(projected).decode()
    left = {where for where in TEXTS if where not in CLOSED and json.dumps(canary(where))[1:-1].strip() in data}
    decided = {f"{name}.{field}": decision for name, fields in DECISIONS.items() for field, decision in fields.items()}
    assert left == {where for where in TEXTS if where not in CLOSED and decided[where] in (may or ())}
    if not may:
        assert "canary" not in data and "ca\\u00f1ary" not in data
        assert sum(projected.hashed.values()) >= 20


def test_the_exported_bytes_hold_no_canary(tmp_path):
    """The same on the write path: a corpus is exported, and what was written is searched."""
    corpus, target = tmp_path / "corpus", tmp_path / "target"
    corpus.mkdir()
    run = full(lambda where: f"canary in {where}")
    outcome = Outcome(state="measured", why="", passed=False, failing_check="canary in test")
    step = msgspec.structs.replace(run.steps[0], outcome=outcome)
    write_run(Run(msgspec.structs.replace(run.header, run_id="a__b-1__m__x"), (step,)), corpus)
    (corpus / "broken.jsonl").write_bytes(b'{"canary": 1}\n')
    done = export(corpus, target)
    assert (done.runs, done.steps) == (1, 1)
    assert [issue.file for issue in done.issues] == ["broken.jsonl"]
    assert [path.name for path in target.iterdir()] == ["a__b-1__m__x.jsonl"]
    assert all(b"canary" not in path.read_bytes() for path in target.iterdir())
    assert done.hashed["Call.tool"] == 1 and done.hashed["Step.signals (left out)"] == 3


def sound() -> Run:
    outcome = Outcome(state="measured", why="", passed=False, failing_check="tests/x.py::t[free text]", confirmed=True)
    call = Call(
        id="call_1", tool="bash", arguments="ls", result="x", exit_code=0, paired="id", time="2025-11-19T00:01:56Z"
    )
    signals = {"retry_count": 1, "edit": True, "share": float("nan"), "said": "free text", "Bad name": 1}
    step = Step(
        index=0, text="free text", calls=(call,), model="p/m-1", cost=0.25, tokens=Tokens(input=7), outcome=outcome,
        signals=signals, time="2025-11-19T00:01:50.123+00:00",
    )  # fmt: skip
    header = Header(
        run_id="a__b-1__m__x", n_steps=1, format="mini-swe-agent-1", licence="MIT", model="p/m-1", resolved=False,
        resolved_by="swebench report", exit_status="Submitted", instrument="0" * 64, content_sha256="a" * 64,
        source={"name": "/home/me/x.json", "bytes": 9, "sha256": "b" * 64}, captured_at="2025-11-19T00:01:50.123+00:00",
    )  # fmt: skip
    return Run(header, (step,))


def test_what_may_leave_does():
    header, step = map(json.loads, encode(project(sound())).splitlines())
    kept = {"run_id", "n_steps", "format", "licence", "model", "resolved", "resolved_by", "exit_status", "instrument"}
    plain = json.loads(msgspec.json.encode(sound().header))
    assert all(header[name] == plain[name] for name in kept | {"captured_at", "content_sha256", "schema"})
    assert (header["source_bytes"], header["source_sha256"], header["arm"]) == (9, "b" * 64, None)
    assert step["signals"] == {"retry_count": 1, "edit": True, "share": None}
    assert step["calls"] == [
        {"tool": "bash", "answered": True, "exit_code": 0, "time": "2025-11-19T00:01:56Z", "paired": "id"}
    ]
    assert (step["cost"], step["tokens"]["input"], step["outcome"]["passed"]) == (0.25, 7, False)
    assert step["outcome"]["failing_check"].startswith("sha256:") and step["outcome"]["check"] is None
    assert project(sound()).hashed == {"Step.signals (left out)": 2}


def test_names_of_tests_leave_with_permission_only_and_redacted():
    secret = "ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2"
    run = sound()
    outcome = msgspec.structs.replace(run.steps[0].outcome, failing_check=f"t[{secret}]")
    run = Run(run.header, (msgspec.structs.replace(run.steps[0], outcome=outcome),))
    permitted = project(run, checks=True)
    assert json.loads(encode(permitted).splitlines()[1])["outcome"]["check"] == "t[<redacted:github-token>]"
    header = msgspec.structs.replace(permitted.header, names_checks=False)
    with pytest.raises(ValueProblem, match="without permission"):
        encode(Projected(header, permitted.steps))


def put(record, path, value):
    """A projected record with one field changed, at any depth."""
    name, _, rest = path.partition(".")
    return msgspec.structs.replace(record, **{name: put(getattr(record, name), rest, value) if rest else value})


REFUSED = [  # a field of a projected run that code set to what it must not hold
    ("header.run_id", "../../etc/passwd"),
    ("header.model", "free text"),
    ("header.cost", "free text"),
    ("header.exit_status", "line\n"),
    ("header.resolved_by", "free text"),
    ("header.captured_at", "yesterday"),
    ("header.content_sha256", "free"),
    ("header.n_steps", None),
    ("step.time", "free text"),
    ("step.signals", {"said": "free text"}),
    ("step.signals", {"free text": 1}),
    ("step.outcome.why", "free text"),
    ("step.outcome.failing_check", "tests/x.py::t"),
    ("step.tokens", {"free": "text"}),
    ("step.model", object()),
]


@pytest.mark.parametrize(("path", "value"), REFUSED)
def test_the_write_path_refuses_what_has_no_place(path, value):
    projected = project(sound())
    where, _, field = path.partition(".")
    if where == "header":
        changed = Projected(put(projected.header, field, value), projected.steps)
    else:
        changed = Projected(projected.header, (put(projected.steps[0], field, value),))
    with pytest.raises(ValueProblem) as caught:
        encode(changed)
    assert "free text" not in str(caught.value) and "passwd" not in str(caught.value)


def test_a_field_of_the_wrong_type_is_an_issue_and_hides_no_other_run(tmp_path, monkeypatch):
    bad = Run(msgspec.structs.replace(sound().header, run_id="bad", cost="free text"), sound().steps)
    twice = [sound(), bad, sound()]
    monkeypatch.setattr(projection, "iter_runs", lambda folder, issues: iter(twice))
    done = export(tmp_path, tmp_path / "target")
    assert done.runs == 1
    assert [(issue.file, issue.what) for issue in done.issues] == [
        ("bad.jsonl", "a projected run holds what its type has no place for"),
        ("a__b-1__m__x.jsonl", "a second run of this id is not exported"),
    ]
    assert "free text" not in str(done.issues)


def test_an_export_needs_a_corpus_and_another_place(tmp_path):
    with pytest.raises(NothingToCheck):
        export(tmp_path / "none", tmp_path)
    with pytest.raises(UsageError):
        export(tmp_path, tmp_path / "x" / "..")


def test_the_types_have_no_plain_text_but_permitted_names():
    """By introspection: a plain ``str`` in the projected types is ``check`` and nothing else."""
    plain = set()
    for name, item in vars(projection).items():
        if name.startswith("Projected") and name != "Projected":
            for field, kind in typing.get_type_hints(item, include_extras=True).items():
                if str in kinds(kind):
                    plain.add(f"{name}.{field}")
    assert plain == {"ProjectedOutcome.check"}


@pytest.mark.real
def test_the_400_real_runs_leave_without_text(tmp_path_factory):
    """No line of any thought, command or observation of 30 or more characters is in the bytes of its projection."""
    hashed = set()
    for run in runs_400(tmp_path_factory):
        projected = project(run)
        data = encode(projected)
        hashed |= set(projected.hashed)
        assert len(projected.steps) == len(run.steps)
        for step in run.steps:
            for text in (
                step.text,
                *(call.arguments for call in step.calls),
                *(call.result or "" for call in step.calls),
            ):
                for line in text.splitlines():
                    ours = line.strip()
                    if len(ours) >= 30 and " " in ours:
                        assert json.dumps(ours)[1:-1].encode() not in data
    assert hashed <= {"Header.exit_status", "Step.signals (left out)"}
