"""Missing inputs: each of eight can be missing on its own and can be satisfied; the commands of captures."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil

import pytest

from traceaudit.errors import NothingToCheck, TraceAuditError
from traceaudit.runs import inputs as module
from traceaudit.runs.archives import member_name
from traceaudit.runs.capture_commands import RECORDS, add_captures
from traceaudit.runs.digests import content_digest
from traceaudit.runs.executor import image_name
from traceaudit.runs.files import read_run, write_run
from traceaudit.runs.inputs import inputs, run_inputs
from traceaudit.runs.schema import Call, Header, Outcome, Run, Step
from traceaudit.runs.state import export_state

NAMES = [
    "runs",
    "labels",
    "captures",
    "state.index",
    "dataset.rows",
    "container.engine",
    "container.images",
    "graded.logs",
]
TASKS = ("a__b-1", "a__b-2")
CHANGED = b"diff --git a/x.py b/x.py\n"


def write(folder, task, *, resolved=True, captures=3, stamped=()):
    actions = ["echo 1 > x.py", "git add -A", "ls", "submit"]
    outcome = Outcome(state="measured", why="", passed=False, failing_check="t", instrument="0" * 64)
    steps = tuple(
        Step(
            index=index,
            calls=(Call(tool="bash", arguments=action),),
            outcome=outcome if index in stamped else Outcome(),
        )
        for index, action in enumerate(actions)
    )
    header = Header(
        run_id=f"{task}__m__x",
        n_steps=4,
        instance_id=task,
        model="m",
        arm="x",
        resolved=resolved,
        resolved_by="swebench report" if resolved is not None else "",
        captures=captures,
        instrument="0" * 64 if stamped else None,
        content_sha256=content_digest(steps),
    )
    write_run(Run(header, steps), folder)


def rows(folder, tasks=TASKS, revision="r1"):
    row = {
        "repo": "a/b",
        "base_commit": "0",
        "patch": "p",
        "test_patch": "t",
        "FAIL_TO_PASS": "[]",
        "PASS_TO_PASS": "[]",
    }
    content = "".join(json.dumps({"instance_id": task, **row}) + "\n" for task in tasks).encode()
    place = folder / "dataset"
    place.mkdir(exist_ok=True)
    (place / "rows.jsonl").write_bytes(content)
    pin = {"dataset": "d", "revision": revision, "sha256": hashlib.sha256(content).hexdigest()}
    (place / "pin.json").write_text(json.dumps(pin))


@pytest.fixture
def whole(tmp_path):
    """A corpus that has everything."""
    folder = tmp_path / "corpus"
    for task in TASKS:
        write(folder, task)
        place = folder / "captures" / f"{task}__m__x"
        place.mkdir(parents=True)
        for index, data in enumerate((CHANGED, b"", b"")):
            (place / member_name(index)).write_bytes(data)
    export_state(folder / "captures", folder / "state")
    rows(folder)
    for name in ("a__b-1", "a__b-2__m__x"):
        (folder / "logs" / name).mkdir(parents=True)
        (folder / "logs" / name / "test_output.txt").write_text("1 passed\n")
    return folder


def found(folder, *, engines=("docker",), answering=("docker",), images=None):
    have = {image_name(task) for task in TASKS} if images is None else images
    return {
        requirement.name: requirement
        for requirement in inputs(
            folder,
            find=lambda name: name if name in engines else None,
            answers=lambda name: name in answering,
            has_image=lambda engine, image: engine in answering and image in have,
        )
    }


def missing(folder, **machine):
    return [name for name, requirement in found(folder, **machine).items() if not requirement.satisfied]


def test_everything_can_be_satisfied(whole):
    assert list(found(whole)) == NAMES
    assert missing(whole) == []
    assert missing(whole, engines=("podman",), answering=("podman",)) == []


def drop(*names):
    def act(folder):
        for name in names:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return act


def bad_row(folder):
    path = folder / "dataset" / "rows.jsonl"
    lines = path.read_text().splitlines()
    content = f"not JSON\n{lines[0]}\n{lines[1].replace('base_commit', 'other')}\n".encode()
    path.write_bytes(content)
    pin = {"dataset": "d", "revision": "r", "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "dataset" / "pin.json").write_text(json.dumps(pin))


RUN = "a__b-2__m__x"
SPOILED = [  # what is done, what is then missing, a part of the detail
    (lambda f: (f / "z.jsonl").write_text("torn"), ["runs"], "1 files have faults (z.jsonl)"),
    (lambda f: (f / "z.jsonl").write_text("version https://git-lfs.github.com/spec/v1\n"), ["runs"], "1 are Git LFS"),
    (lambda f: write(f, TASKS[1], resolved=None), ["labels"], f"1 of 2 runs have a label or a report; not {RUN}"),
    (drop(f"captures/{RUN}", f"state/{RUN}.tar.gz"), ["captures", "state.index"], "not those of"),
    (drop(f"captures/{RUN}", "state"), ["captures", "state.index"], f"none of {RUN}"),
    (drop("state"), ["state.index"], "there is no state/index.json"),
    (drop("state/index.json"), ["state.index"], "there is no state/index.json"),
    (lambda f: (f / "state" / "index.json").write_text("{"), ["state.index"], "cannot be read"),
    (lambda f: (f / "state" / f"{RUN}.tar.gz").write_bytes(b"x"), ["state.index"], "unreadable"),
    (drop(f"captures/{RUN}/step_0001.diff"), ["captures"], f"{RUN} (2 of 3)"),
    (lambda f: (f / "captures" / RUN / "x").write_text(""), ["captures"], "another name"),
    (lambda f: write(f, TASKS[1], captures=None), ["captures"], "1 headers do not say how many there were"),
    (drop("dataset"), ["dataset.rows"], "no dataset/rows.jsonl and no dataset/pin.json"),
    (drop("dataset/pin.json"), ["dataset.rows"], "there is no dataset/pin.json"),
    (lambda f: (f / "dataset" / "rows.jsonl").write_text("{}\n"), ["dataset.rows"], "not those of the pin"),
    (lambda f: (f / "dataset" / "pin.json").write_text('{"dataset": "d"}'), ["dataset.rows"], "cannot be read"),
    (lambda f: rows(f, TASKS[:1]), ["dataset.rows"], "1 of 2 tasks in d at r1; no whole row of a__b-2"),
    (bad_row, ["dataset.rows"], "no whole row of a__b-2"),
    (drop("logs"), ["graded.logs"], "logs of 0 of 2 tasks"),
    (lambda f: (f / "logs" / "a__b-1" / "test_output.txt").write_text(""), ["graded.logs"], "logs of 1 of 2 tasks"),
]


@pytest.mark.parametrize(("spoil", "expected", "detail"), SPOILED)
def test_what_is_missing_is_named(whole, spoil, expected, detail):
    spoil(whole)
    assert missing(whole) == expected
    requirement = found(whole)[expected[0]]
    assert detail in requirement.detail
    assert requirement.remedy and requirement.remedy in str(requirement)


MACHINES = [
    ({"engines": (), "answering": ()}, ["container.engine", "container.images"], "neither docker nor podman"),
    ({"answering": ()}, ["container.engine", "container.images"], "docker without an engine that answers"),
    (
        {"images": {image_name(TASKS[0])}},
        ["container.images"],
        "1 of 2 images; not swebench/sweb.eval.x86_64.a_1776_b-2",
    ),
    ({"engines": (), "answering": ("docker",)}, ["container.engine", "container.images"], "neither"),
]


@pytest.mark.parametrize(("machine", "expected", "detail"), MACHINES)
def test_what_the_machine_lacks(whole, machine, expected, detail):
    assert missing(whole, **machine) == expected
    assert detail in found(whole, **machine)[expected[0]].detail


def test_a_run_that_captured_nothing_misses_nothing(whole):
    write(whole, TASKS[1], captures=0)
    drop(f"captures/{RUN}", f"state/{RUN}.tar.gz", "state")(whole)
    export_state(whole / "captures", whole / "state")
    assert missing(whole) == []


def test_a_report_is_as_good_as_a_label(whole):
    write(whole, TASKS[1], resolved=None)
    (whole / "labels").mkdir()
    (whole / "labels" / "a__b-2.report.json").write_text('{"a__b-2": {"resolved": true}}')
    assert missing(whole) == []


def test_an_empty_folder_misses_everything_but_the_engine(tmp_path):
    assert missing(tmp_path) == [name for name in NAMES if name != "container.engine"]
    with pytest.raises(NothingToCheck):
        inputs(tmp_path / "none")


def test_the_command_names_all_and_exits_2(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "inputs", lambda folder: list(found(folder).values()))
    said = []
    assert run_inputs(whole, said.append) == 0 and said[-1] == "every input is here" and len(said) == 9
    said.clear()
    drop("logs", "dataset")(whole)
    assert run_inputs(whole, said.append) == 2
    assert [line for line in said if line.startswith("MISS")] == [
        "MISS dataset.rows: there is no dataset/rows.jsonl and no dataset/pin.json",
        "MISS graded.logs: logs of 0 of 2 tasks; not a__b-1, a__b-2",
    ]
    assert sum(line.startswith("     next: ") for line in said) == 2 and said[-1] == "2 of 8 inputs are missing"


def run_command(*argv):
    parser = argparse.ArgumentParser()
    add_captures(parser.add_subparsers(required=True))
    arguments = parser.parse_args([str(part) for part in argv])
    try:
        return arguments.run(arguments)
    except TraceAuditError as error:
        return f"{error.exit_code} {error.what}"


def test_the_state_commands(whole, capsys):
    assert run_command("state", "verify", whole) == 0
    shutil.rmtree(whole / "captures")
    assert run_command("state", "import", whole) == 0
    assert "2 runs written, 0 there already, 0 refused" in capsys.readouterr().err
    assert run_command("state", "export", whole) == 0
    (whole / "captures" / RUN / member_name(0)).write_bytes(b"changed")
    assert [run_command("state", name, whole) for name in ("export", "import", "verify")] == [1, 1, 1]
    assert "drift" in capsys.readouterr().err
    assert run_command("state", "import", whole, "--force") == 0
    assert run_command("state", "verify", whole) == 0
    assert run_command("state", "export", whole, "--captures", whole / "none") == "2 there is no folder of captures"


def test_the_captures_command_audits_marks_and_guards(whole, capsys):
    write(whole, TASKS[0], stamped=(0, 1, 2))
    path = whole / "a__b-1__m__x.jsonl"
    before = path.read_bytes()
    assert run_command("captures", whole) == 1
    assert "stamped after loss" in capsys.readouterr().err and path.read_bytes() == before
    assert run_command("captures", whole, "--write") == 0
    said = capsys.readouterr().err
    assert "marked steps: 4" in said and "marked share of audited steps: 0.500" in said
    issues = []
    run = read_run(path, issues)
    assert [step.outcome.state for step in run.steps[:3]] == ["measured", "not measured", "not measured"]
    assert run.header.content_sha256 == content_digest(run.steps) and not issues
    once = path.read_bytes(), (whole / RECORDS).read_bytes()
    assert run_command("captures", whole, "--write") == run_command("captures", whole) == 0
    assert (path.read_bytes(), (whole / RECORDS).read_bytes()) == once
    shutil.rmtree(whole / "captures")  # the archives are as good
    assert run_command("captures", whole) == 0
    (whole / RECORDS).write_text("{")
    assert run_command("captures", whole, "--write").startswith("1 the records that are there cannot be read")
    assert (whole / RECORDS).read_text() == "{"
    assert run_command("captures", whole / "logs").startswith("2 ")


def test_captures_that_cannot_be_relied_on_are_named(whole, capsys):
    write(whole, TASKS[0], stamped=(0,))
    (whole / "captures" / "a__b-1__m__x" / "odd").write_text("")
    assert run_command("captures", whole, "--write") == 1
    said = capsys.readouterr().err
    assert "the captures cannot be read" in said and "unaudited" in said
