"""Replay: the plan and its refusals, the gate, and a small repository replayed step by step in a git worktree."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from traceaudit.errors import NothingToCheck
from traceaudit.runs import executor as executors
from traceaudit.runs.executor import ContainerExecutor, LocalExecutor, image_name
from traceaudit.runs.grading import Grade
from traceaudit.runs.replay import (
    Admission,
    Execution,
    Patch,
    Spec,
    adjudicate,
    admit,
    admit_logs,
    instrument_digest,
    plan,
    replay,
    stamp,
)
from traceaudit.runs.schema import Header, Outcome, Run, Step

LABELS = Path(__file__).resolve().parents[3] / "shared" / "data" / "trajectories" / "swe_smith" / "labels"

BUG = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 2\n"
FIXED = BUG.replace("a - b", "a + b")
WORSE = FIXED.replace("a * 2", "a * 3")
OLD_TESTS = """import unittest

import sums


class SumsTest(unittest.TestCase):
    def test_double(self):
        self.assertEqual(sums.double(2), 4)
"""
NEW_TESTS = (
    OLD_TESTS
    + """
    def test_add(self):
        self.assertEqual(sums.add(1, 2), 3)
"""
)
ADD, DOUBLE = "test_add (test_sums.SumsTest.test_add)", "test_double (test_sums.SumsTest.test_double)"
COMMAND = (sys.executable, "-m", "unittest", "-v", "test_sums")


def git(folder, *arguments, text=None):
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(folder), *arguments],
        input=text,
        capture_output=True,
        check=True,
    )
    return done.stdout


class Small:
    """A repository with a bug, its history, and diffs against its base."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        # Ignored byte code outlives a clean; BUG and FIXED have one size, so it would be taken for that of the other.
        files = {"sums.py": BUG, "test_sums.py": OLD_TESTS, "build.cfg": "level = 1\n", ".gitignore": "__pycache__/\n"}
        for name, text in files.items():
            (folder / name).write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "base")
        self.base = git(folder, "rev-parse", "HEAD").decode().strip()

    def diff(self, **files):
        """The diff that gives these files (``name__py=text``), the worktree being left as it was."""
        before = {}
        for name, text in files.items():
            path = self.folder / name.replace("__", ".")
            before[path] = path.read_text() if path.exists() else None
            path.write_text(text)
        git(self.folder, "add", "-N", ".")
        out = git(self.folder, "diff", "--binary")
        git(self.folder, "reset", "-q")
        for path, text in before.items():
            path.unlink() if text is None else path.write_text(text)
        return out

    def spec(self, **changed):
        fields = {
            "instance_id": "small__sums-1",
            "base_commit": self.base,
            "command": COMMAND,
            "f2p": (ADD,),
            "p2p": (DOUBLE,),
            "gold_patch": self.diff(sums__py=FIXED),
            "test_patch": self.diff(test_sums__py=NEW_TESTS),
            "seconds": 60.0,
        }
        return Spec(**(fields | changed))


@pytest.fixture
def small(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    made = Small(tmp_path / "small")
    yield made
    assert list(scratch.iterdir()) == []  # whatever happened, nothing stays
    assert git(made.folder, "worktree", "list").count(b"\n") == 1
    assert git(made.folder, "rev-parse", "HEAD").decode().strip() == made.base
    assert git(made.folder, "branch", "--list").strip() == b"* main"


def a_run(n_steps, captures, resolved=True, **changed):
    header = Header(
        run_id="small__sums-1__m__a",
        n_steps=n_steps,
        instance_id="small__sums-1",
        captures=captures,
        resolved=resolved,
        content_sha256="old",
    )
    steps = tuple(Step(index=n, outcome=Outcome(state="measured", why="", passed=True)) for n in range(n_steps))
    return Run(msgspec.structs.replace(header, **changed), steps)


def replayed(small, captures, spec=None, executor=None, **options):
    spec, executor = spec or small.spec(), executor or LocalExecutor(small.folder)
    run = a_run(len(captures) + 1, len(captures))
    return run, replay(plan(run, captures, spec, executor), captures, spec, executor, **options)


def short(outcome):
    return outcome.passed if outcome.state == "measured" else outcome.why


def test_a_run_is_replayed_step_by_step(small):
    diffs = [
        b"",  # looked only
        small.diff(sums__py=FIXED),  # mends it
        small.diff(sums__py=WORSE),  # mends it and breaks another test
        b"diff --git a/sums.py b/sums.py\n--- a/sums.py\n+++ b/sums.py\n@@ -1 +1 @@\n-no such line\n+x\n",
        small.diff(sums__py=FIXED, test_sums__py="raise SystemExit(0)\n"),  # its edit of the tests is put back
        small.diff(sums__py="def add(:\n"),  # cannot be imported: no test ran
        small.diff(sums__py=FIXED, new__py="x = 1\n"),
        b"",  # and nothing of the step before is left
    ]
    run, found = replayed(small, dict(enumerate(diffs)))
    assert found.admission == Admission(True)
    assert [short(found.outcomes[n]) for n in range(len(diffs))] == [
        False,
        True,
        False,
        "instrument failure: the step diff does not apply",
        True,
        "instrument failure: collection or build",
        True,
        False,
    ]
    assert [found.outcomes[n].failing_check for n in (0, 2, 7)] == [ADD, DOUBLE, ADD]
    assert [found.outcomes[n].confirmed for n in (0, 1, 2, 3)] == [True, None, True, None]
    assert found.counts["verdicts"] == {"failed": 3, "not measured": 2, "passed": 3}
    assert found.counts["exit_code"] == {"compared": 6}
    stamped = stamp(run, found)
    assert stamped.stamped
    assert (stamped.header.instrument, stamped.header.content_sha256) == (found.instrument, "")
    assert {step.outcome.instrument for step in stamped.steps if step.outcome.exit_code is not None} == {
        found.instrument
    }
    assert stamped.steps[-1].outcome == Outcome(state="measured", why="", passed=True)  # the label
    assert [step.outcome.contradiction for step in stamped.steps if step.outcome.contradiction] == []


def test_a_flaky_failure_is_not_confirmed(small, tmp_path):
    """The planted test fails whenever a counter outside the workspace is odd: each failure passes the second time."""
    counter = tmp_path / "counter"
    flaky = NEW_TESTS + (
        "\n    def test_flaky(self):\n"
        f"        n = len(open({str(counter)!r}).read())\n"
        f"        open({str(counter)!r}, 'a').write('x')\n"
        "        self.assertEqual(n % 2, 0)\n"
    )
    name = "test_flaky (test_sums.SumsTest.test_flaky)"
    spec = small.spec(test_patch=small.diff(test_sums__py=flaky), p2p=(DOUBLE, name))
    counter.write_text("x")
    fixed = small.diff(sums__py=FIXED)
    _, found = replayed(small, {0: fixed, 1: small.diff(sums__py=WORSE)}, spec, admission=Admission(True))
    assert (short(found.outcomes[0]), found.outcomes[0].failing_check, found.outcomes[0].confirmed) == (
        False,
        name,
        False,
    )
    assert (found.outcomes[1].failing_check, found.outcomes[1].confirmed) == (DOUBLE, True)  # a real one
    counter.write_text("x")
    _, found = replayed(small, {0: fixed}, spec, admission=Admission(True), confirm_failures=False)
    assert (short(found.outcomes[0]), found.outcomes[0].confirmed) == (False, None)


def test_a_timeout_is_not_measured_and_leaves_no_process(small, tmp_path):
    mark = tmp_path / "late"
    slow = f"import subprocess\nsubprocess.run(['sh', '-c', 'sleep 2; touch {mark}'])\n"
    spec = small.spec(seconds=0.5)
    executor = LocalExecutor(small.folder)
    with executor.open(spec) as session:
        took = session.execute((Patch("step", small.diff(sums__py=slow)), Patch("test", spec.test_patch)))
    assert adjudicate(took, spec).why == "incomplete: timeout"
    assert took.exit_code is None
    assert not mark.exists()
    subprocess.run(["sleep", "2.5"], check=True)
    assert not mark.exists()  # its child was ended with it


def test_too_much_output_is_not_measured(small):
    spec = small.spec(command=(sys.executable, "-c", "while True: print('x' * 10_000)"))
    with LocalExecutor(small.folder, most_output=100_000).open(spec) as session:
        assert adjudicate(session.execute(()), spec).why == "instrument failure: the output is over its limit"


@pytest.mark.parametrize("held", [False, True], ids=["not in the diff", "in the diff"])
def test_the_build_edit_is_present_exactly_once(small, held):
    """The image's own edit was not staged; a step's diff may hold it (``git diff HEAD``) or not."""
    edit = "level = 2\nadded = 1\n"
    diff = small.diff(sums__py=FIXED, **({"build__cfg": edit} if held else {}))
    spec = small.spec(command=(sys.executable, "-c", "print(open('build.cfg').read(), open('sums.py').read())"))
    (small.folder / "build.cfg").write_text(edit)
    with LocalExecutor(small.folder).open(spec) as session:
        for _ in range(2):
            seen = session.execute((Patch("step", diff),))
            assert seen == Execution(exit_code=0, log=f"{edit} {FIXED}\n")
        clash = small.diff(build__cfg="level = 3\n")  # the step edited the same line otherwise
        assert session.execute((Patch("step", clash),)).failed == "the build edit does not apply"
    assert (small.folder / "build.cfg").read_text() == edit
    (small.folder / "build.cfg").write_text("level = 1\n")


def test_a_command_that_stages_or_commits_does_not_reach_the_next_step(small):
    command = (
        "sh",
        "-c",
        "cat sums.py; echo '# x' >> sums.py; git add -A; git -c user.name=t -c user.email=t@t commit -qm x",
    )
    spec = small.spec(command=command)
    with LocalExecutor(small.folder).open(spec) as session:
        assert [session.execute(()).log for _ in range(3)] == [BUG] * 3


def test_the_environment_is_emptied_and_hooks_do_not_run(small, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    hook = small.folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'hooked'}\n")
    hook.chmod(0o755)
    spec = small.spec(command=(sys.executable, "-c", "import os; print(sorted(os.environ), os.environ['HOME'])"))
    with LocalExecutor(small.folder, environment={"GIVEN": "1"}).open(spec) as session:
        log = session.execute(()).log
    assert "SECRET_TOKEN" not in log
    assert "'GIVEN'" in log
    assert "PYTHONPATH" not in log
    assert os.environ.get("HOME", "/root") not in log.split()[-1:]
    assert not (tmp_path / "hooked").exists()


@pytest.mark.parametrize(
    "raising",
    [
        RuntimeError("inside"),
        KeyboardInterrupt(),
    ],
    ids=["error", "interrupt"],
)
def test_the_workspace_goes_whatever_happens(small, raising):
    with pytest.raises(type(raising)), LocalExecutor(small.folder).open(small.spec()):
        raise raising


def test_a_diff_cannot_write_outside_the_workspace(small, tmp_path):
    outside = (
        b"diff --git a/../../out b/../../out\nnew file mode 100644\n--- /dev/null\n+++ b/../../out\n@@ -0,0 +1 @@\n+x\n"
    )
    with LocalExecutor(small.folder).open(small.spec()) as session:
        assert session.execute((Patch("step", outside),)).failed == "the step diff does not apply"


@pytest.mark.parametrize(
    ("folder", "commit"), [("small", "0" * 40), ("empty", "HEAD"), ("absent", "HEAD")], ids=["commit", "git", "folder"]
)
def test_no_repository_or_no_commit_is_nothing_to_check(small, tmp_path, folder, commit):
    (tmp_path / "empty").mkdir()
    with (
        pytest.raises(NothingToCheck, match="no worktree can be made"),
        LocalExecutor(tmp_path / folder).open(small.spec(base_commit=commit)),
    ):
        pass


def test_a_command_that_is_not_there_is_a_failed_stage(small):
    spec = small.spec(command=("no-such-command-here",))
    with LocalExecutor(small.folder).open(spec) as session:
        assert session.execute(()).failed == "the command cannot be started (FileNotFoundError)"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"gold_patch": b""}, "gold fails"),
        ({"f2p": (DOUBLE,), "p2p": ()}, "base passes"),
        ({"f2p": (DOUBLE,), "p2p": (ADD,)}, "base fails on no FAIL_TO_PASS test"),
        ({"f2p": ("test_other",)}, "the base leg was not measured: every FAIL_TO_PASS test is absent"),
        ({"test_patch": b"garbage"}, "the base leg was not measured: instrument failure: the test diff does not apply"),
        ({"gold_patch": b"garbage"}, "the gold leg was not measured: instrument failure: the gold diff does not apply"),
    ],
)
def test_a_task_that_cannot_tell_base_from_gold_clears_every_outcome(small, changed, why):
    run, found = replayed(small, {0: small.diff(sums__py=FIXED)}, small.spec(**changed))
    assert found.admission == Admission(False, why)
    assert found.outcomes == {0: Outcome(why=f"task not admitted: {why}")}
    cleared = stamp(run, found)
    assert not cleared.stamped
    assert cleared.header.instrument is None


def test_a_sample_is_executed_and_the_rest_is_named(small):
    fixed = small.diff(sums__py=FIXED)
    _, found = replayed(small, {0: fixed, 1: fixed, 2: b""}, only={1}, admission=Admission(True))
    assert [short(found.outcomes[n]) for n in range(3)] == ["not sampled", True, "not sampled"]
    assert found.counts["verdicts"] == {"passed": 1}


class Never:
    """An executor that must not be opened."""

    name = "never"

    def commands(self, spec, roles):
        return (f"run {' '.join(roles)}",)

    def open(self, spec):
        raise AssertionError("opened")


SPEC = Spec(instance_id="small__sums-1", base_commit="b", command=("true",), f2p=("a",), gold_patch=b"gold")


REFUSED = [
    # captures in the header, captures here, changes of the header, part of the refusal
    (3, None, {}, "the captures are missing: 3"),
    (3, {}, {}, "the captures are missing: 3"),
    (None, {0: b"", 1: b""}, {}, "the header does not say"),
    (None, None, {}, "the header does not say"),
    (3, {0: b"", 1: b""}, {}, "the header says 3, 2 are here"),
    (0, {0: b""}, {}, "the header says 0, 1 are here"),
    (2, {0: b"", 1: b""}, {"instance_id": "other__task-1"}, "the task is small__sums-1"),
]


@pytest.mark.parametrize(("said", "here", "changed", "refusal"), REFUSED)
def test_a_run_whose_captures_are_not_all_here_is_refused_and_kept(said, here, changed, refusal):
    planned = plan(a_run(4, said, **changed), here, SPEC, Never())
    assert [refusal in text for text in planned.refusals] == [True]
    assert planned.steps == planned.gate == ()
    assert all("refused" in line for line in planned.lines())
    with pytest.raises(NothingToCheck):
        replay(planned, here or {}, SPEC, Never())


def test_nothing_captured_is_not_missing():
    run = a_run(4, 0)
    planned = plan(run, None, SPEC, Never())
    assert planned.nothing_captured
    found = replay(planned, {}, SPEC, Never())
    assert (found.admission, found.outcomes) == (None, {})
    assert not stamp(run, found).stamped


def test_the_plan_lists_what_would_be_executed_and_executes_nothing():
    captures = {0: b"one", 2: b"", 4: b"last", 9: b"of no step"}
    planned = plan(a_run(5, 4), captures, SPEC, Never())
    assert [step.label for step in planned.steps] == ["0", "2"]
    assert planned.without_capture == (1, 3)
    assert planned.terminal_skipped
    assert planned.orphans == (9,)
    assert [(leg.label, leg.commands) for leg in planned.gate] == [
        ("base", ("run test",)),
        ("gold", ("run gold test",)),
    ]
    assert len(planned.lines()) == 2 * (2 + 2)
    with pytest.raises(NothingToCheck, match="not the one that was planned"):
        replay(planned, captures | {2: b"other"}, SPEC, Never())


def test_the_plan_names_every_command_of_an_executor():
    local = LocalExecutor(Path("x")).commands(SPEC, ("step", "test"))
    assert [line.split()[1] for line in local[:3]] == ["checkout", "reset", "clean"]
    assert local[-1] == "true"
    assert sum("<step diff>" in line for line in local) == 1
    assert not any("<test diff>" in line for line in LocalExecutor(Path("x")).commands(SPEC, ("step",)))
    container = ContainerExecutor().commands(SPEC, ("gold", "test"))
    assert all(line.startswith("docker exec") for line in container)
    assert all(image_name("small__sums-1") in line for line in container)
    assert not any("--3way" in line or "--index" in line for line in (*local, *container))


def test_a_replay_is_stamped_on_its_own_run_only():
    found = replay(plan(a_run(4, 0), None, SPEC, Never()), {}, SPEC, Never())
    with pytest.raises(NothingToCheck, match="of another run"):
        stamp(a_run(4, 0, run_id="other"), found)


def test_the_instrument_is_what_grades():
    digest = instrument_digest(SPEC, Never())
    for field, value in (("command", ("x",)), ("f2p", ("b",)), ("test_patch", b"t"), ("parser", "sympy")):
        assert instrument_digest(msgspec.structs.replace(SPEC, **{field: value}), Never()) != digest
    assert instrument_digest(SPEC, LocalExecutor(Path("x"))) != digest
    # and not where it stands
    assert instrument_digest(SPEC, LocalExecutor(Path("x"))) == instrument_digest(SPEC, LocalExecutor(Path("y")))


@pytest.mark.parametrize(
    ("instance", "image"),
    [
        ("astropy__astropy-12907", "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest"),
        ("Sphinx-doc__Sphinx-1", "swebench/sweb.eval.x86_64.sphinx-doc_1776_sphinx-1:latest"),
    ],
)
def test_the_name_of_an_image(instance, image):
    assert image_name(instance) == image


@pytest.mark.parametrize(
    ("here", "running", "words"),
    [
        ((), (), ["there is no container engine", "docker or podman", "install"]),
        (("docker",), (), ["no container engine answers", "docker or podman", "start the engine"]),
        (("docker", "podman"), (), ["docker and podman without one"]),
        (("podman",), ("podman",), ["specified and not built"]),
    ],
)
def test_the_container_executor_refuses_and_says_why(here, running, words):
    executor = ContainerExecutor(find=lambda name: name if name in here else None, answers=lambda name: name in running)
    with pytest.raises(NothingToCheck) as caught:
        executor.open(SPEC)
    assert [word for word in words if word not in str(caught.value)] == []
    assert caught.value.exit_code == 2


def test_an_engine_that_fails_does_not_answer(tmp_path):
    assert executors._answers(str(tmp_path / "absent")) is False
    assert executors._answers("false") is False


def measured(passed, check=None):
    return Grade(state="measured", passed=passed, failing_check=check)


LOST = Grade(state="not measured", why="w")


@pytest.mark.parametrize(
    ("base", "gold", "why"),
    [
        (measured(False, "a"), measured(True), ""),
        (measured(False, "a"), measured(False, "b"), "gold fails"),
        (measured(True), measured(True), "base passes"),
        (measured(False, "b"), measured(True), "base fails on no FAIL_TO_PASS test"),
        (LOST, measured(True), "the base leg was not measured: w"),
        (measured(False, "a"), LOST, "the gold leg was not measured: w"),
    ],
)
def test_the_gate(base, gold, why):
    assert admit(base, gold, ("a",)) == Admission(not why, why)


@pytest.mark.real
def test_the_gate_on_a_real_pair_of_logs():
    """SWE-smith plants a bug: its log before the planting is the gold leg, the one after it the base leg."""
    if not LABELS.is_dir():
        pytest.skip("the real logs are not beside this repository (../shared/data/trajectories)")
    lists = msgspec.json.decode((LABELS / "run_validation~report.json").read_bytes())
    spec = Spec(
        instance_id="pandas-dev__pandas.95280573.pr_53652",
        base_commit="",
        command=("pytest",),
        f2p=tuple(lists["FAIL_TO_PASS"]),
        p2p=tuple(lists["PASS_TO_PASS"]),
    )
    planted = (LABELS / "run_validation~test_output.txt").read_text()
    sound = (LABELS / "run_validation~test_output_pre_gold.txt").read_text()
    assert admit_logs(planted, sound, spec) == Admission(True)
    assert admit_logs(sound, planted, spec) == Admission(False, "base passes")
    assert admit_logs(planted, planted, spec) == Admission(False, "gold fails")
    assert admit_logs(planted, "", spec).why.startswith("the gold leg was not measured")
