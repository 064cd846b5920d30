"""The capture audit: both rules, marks, records and the guard, by table and against a real git repository."""

from __future__ import annotations

import random
import subprocess

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceaudit.runs.capture import (
    EMPTY,
    PARTIAL,
    WHY,
    Loss,
    actions_of,
    losses_a,
    losses_b,
    mark,
    return_codes_of,
    undecided_b,
)
from traceaudit.runs.capture_audit import AuditCount, guard, load_records, record, records_bytes, save_records
from traceaudit.runs.diff_paths import diff_paths
from traceaudit.runs.schema import Call, Header, Outcome, Run, Step
from traceaudit.runs.shell import read_script

FAIL = Outcome(state="measured", why="", passed=False, failing_check="t", instrument="0" * 64)
ADD = "git add -A"


def run_of(actions, *, stamped=(), captures=None, run_id="a__b-1__m__x", codes=None):
    codes = codes or [0] * len(actions)
    steps = tuple(
        Step(
            index=index,
            text=f"thought {index}",
            calls=(Call(tool="bash", arguments=action, exit_code=code),),
            outcome=FAIL if index in stamped else Outcome(),
        )
        for index, (action, code) in enumerate(zip(actions, codes, strict=True))
    )
    instrument = "0" * 64 if stamped else None
    return Run(Header(run_id=run_id, n_steps=len(steps), captures=captures, instrument=instrument), steps)


def diff(*names):
    return "".join(
        f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-a\n+b\n" for name in names
    ).encode()


RULE_A = [  # sizes by step, actions by step, (step, evidence) of each loss; the last step is never one
    ({0: 0, 1: 0}, ["ls"] * 3, []),  # empties before the first capture with something are genuine
    ({0: 5, 1: 7, 2: 1}, ["ls"] * 4, []),
    ({0: 5, 1: 0}, ["ls", ADD, "ls"], [(1, "staged")]),
    ({0: 5, 1: 0, 2: 0}, ["ls", ADD, "git stash", "ls"], [(1, "staged"), (2, "continuation")]),
    ({0: 5, 1: 0, 2: 6, 3: 0}, ["", "git commit -am x", "", "git stash", ""], [(1, "committed"), (3, "stashed")]),
    ({0: 5, 1: 0}, ["ls", "git checkout .", "ls"], [(1, "reverted")]),  # marked all the same
    ({0: 5, 1: 0}, ["ls", "rm x", "ls"], [(1, "unexplained")]),
    ({0: 5, 1: 0}, ["ls", ADD], []),  # the last step
    ({0: 5, 2: 0}, ["ls", ADD, "ls", "ls"], [(2, "unexplained")]),  # a missing capture does not close
    ({0: 5, 1: 0, 3: 0}, ["ls", ADD, "ls", "ls", "ls"], [(1, "staged"), (3, "continuation")]),
    ({0: 5, 1: 0, 7: 0}, ["ls", ADD, "ls"], [(1, "staged")]),  # 7 is no step of this run
    ({-1: 5, 0: 0}, ["ls", "ls"], [(0, "unexplained")]),
    ({}, [], []),
]


@pytest.mark.parametrize(("sizes", "actions", "expected"), RULE_A)
def test_rule_a(sizes, actions, expected):
    losses = losses_a(actions, sizes, [None] * len(actions))
    assert [(loss.step, loss.evidence) for loss in losses] == expected
    assert all(loss.kind == EMPTY for loss in losses)


def test_rule_a_keeps_the_return_code_and_needs_none():
    assert [loss.exit_code for loss in losses_a(["", ADD, ""], {0: 1, 1: 0}, [0, 128])] == [128]
    assert [loss.exit_code for loss in losses_a(["", ADD, ""], {0: 1, 1: 0}, [])] == [None]


X, Y, Z = "x.py", "lib/y.py", "z.py"
RULE_B = [  # actions, paths by step, steps lost, steps undecided
    (["", ADD, ""], {0: {X}, 1: {X}}, [], []),
    (["", "", "git add x.py", ""], {0: set(), 1: {X, Y}, 2: {Y}}, [2], []),
    (["", "", "git add lib", ""], {0: set(), 1: {X, Y}, 2: {X}}, [2], []),
    (["", "", "git add lib", ""], {0: set(), 1: {X, Y}, 2: {Y}}, [], [2]),  # another path was added
    (["", "", "git add -N x.py", ""], {0: set(), 1: {X, Y}, 2: {Y}}, [], [2]),
    (["", "", "ls", ""], {0: set(), 1: {X, Y}, 2: {Y}}, [], [2]),
    (["", "", "git checkout x.py", ""], {0: set(), 1: {X, Y}, 2: {Y}}, [], [2]),
    (["", "", "git add x.py && sed -i s/a/b/ x.py", ""], {0: set(), 1: {X, Y}, 2: {Y}}, [], [2]),
    (["", "", ADD, "", ""], {0: {X}, 1: {X, Y}, 2: {Y}, 3: {Y}}, [], []),  # x was in the first: the build's own
    (["", "", "git add x.py", "ls", "ls", ""], {0: set(), 1: {X, Y}, 2: {Y}, 3: {Y}, 4: {X, Y}}, [2, 3], []),
    # an undo verb makes an open claim hazy, for good
    (["", "", "git add x.py", "git reset", "ls", ""], {0: set(), 1: {X, Y}, 2: {Y}, 3: {Y}, 4: {Y}}, [2], [3, 4]),
    # one hazy path holds the whole step back
    (["", "", "git add x.py", "rm lib/y.py", ""], {0: set(), 1: {X, Y, Z}, 2: {Y, Z}, 3: {Z}}, [2], [3]),
    # the path comes back, and a later claim counts anew
    (
        ["", "", "ls", "ls", "git add x.py", ""],
        {0: set(), 1: {X, Y}, 2: {Y}, 3: {X, Y}, 4: {Y}},
        [4],
        [2],
    ),
    # an empty capture is rule A's; its claims stay open
    (["", "", ADD, "echo 1 > z.py", ""], {0: set(), 1: {X}, 2: set(), 3: {Z}}, [3], []),
    # without a capture in between, what was done since counts together
    (["", "", "git add x.py", "ls", ""], {0: set(), 1: {X, Y}, 3: {Y}}, [3], []),
    (["", "", "git checkout .", ADD, ""], {0: set(), 1: {X, Y}, 3: {Y}}, [], [3]),
    (["", "", "git add x.py"], {0: set(), 1: {X, Y}, 2: {Y}}, [], []),  # the last step
    (["", "", "git add x.py", ""], {0: set(), 1: {X, Y}, 2: {X, Y}, 9: {Y}}, [], []),  # 9 is no step of this run
    ([], {}, [], []),
]


@pytest.mark.parametrize(("actions", "paths", "lost", "undecided"), RULE_B)
def test_rule_b(actions, paths, lost, undecided):
    losses = losses_b(actions, paths)
    assert [loss.step for loss in losses] == lost
    assert list(undecided_b(actions, paths)) == undecided
    assert all(loss.kind == PARTIAL and loss.staged for loss in losses)


def test_rule_b_says_which_path_was_staged_where():
    losses = losses_b(["", "", "git add x.py", "ls", ""], {0: set(), 1: {X, Y}, 2: {Y}, 3: {Y}})
    assert [loss.staged for loss in losses] == [{X: 2}, {X: 2}]


PATHS = [
    (b"diff --git a/x.py b/x.py\n", {"x.py"}),
    (b"diff --git a/lib/a b.py b/lib/a b.py\n", {"lib/a b.py"}),  # the same name on both sides
    (b"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n", {"x"}),
    (b"diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n", {"x"}),
    (b"diff --git a/x /dev/null\n", {"x"}),
    (b"diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n", {"y"}),
    (b"diff --git a/x y b/y z\nrename from x y\nrename to y z\n", {"y z"}),
    (b"diff --git a/x y b/q\n--- a/x y\t\n+++ b/q r\t\n", {"q r"}),
    (b"diff --git a/x b/y\ncopy from x\ncopy to y\n", {"y"}),
    (rb'diff --git "a/tab\there" "b/tab\there"' + b"\n", {"tab\there"}),
    (rb'diff --git "a/\303\244.py" "b/\303\244.py"' + b"\n", {"ä.py"}),
    (rb'diff --git "a/\"q\".py" "b/\"q\".py"' + b"\n", {'"q".py'}),
    (rb'diff --git a/plain "b/\303\244"' + b"\nrename from plain\n" + rb'rename to "\303\244"' + b"\n", {"ä"}),
    (rb'diff --git a/plain "b/\303\244"' + b"\n", {"ä"}),
    (b"diff --git i/x.py w/x.py\n", {"x.py"}),  # diff.mnemonicPrefix
    (b"diff --git a/x.py a/x.py\n", {"a/x.py"}),  # --no-prefix
    (b"diff --git x.py x.py\n", {"x.py"}),
    (b"diff --cc lib/x.py\nindex 1,2..3\n", {"lib/x.py"}),
    (b"diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+diff --git a/no b/no\n diff --git a/no b/no\n", {"x"}),
    (b"diff --git a/x b/x\n@@ -1 +1,2 @@\n+rename to no\nrename to no\n", {"x"}),
    (b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\ndiff --git a/y b/y\n", {"x", "y"}),
    (b"diff --git a/x b/x\r\n", {"x"}),
    (b"warning: LF will be replaced\ndiff --git a/x b/x\n", {"x"}),
    (b"", set()),
    (b"fatal: not a git repository\n", set()),
    (b"diff --git \n", set()),
]


@pytest.mark.parametrize(("data", "expected"), PATHS)
def test_paths_of_a_diff(data, expected):
    assert diff_paths(data) == expected


@given(st.binary(max_size=200))
def test_any_bytes_have_paths(data):
    diff_paths(data)
    diff_paths(b"diff --git " + data)


ACTIONS = [
    (Call(tool="bash", arguments="git add x"), "git add x"),
    (Call(tool="run", arguments='{"command": "git add x", "thought": ""}'), "git add x"),
    (Call(tool="execute_bash", arguments='{"command": "git add x"}'), "git add x"),
    (Call(tool="bash", arguments='{"cmd": 1}'), ""),
    (Call(tool="bash", arguments="{ git add x; }"), "{ git add x; }"),
    (Call(tool="str_replace_editor", arguments='{"command": "view", "path": "/x"}'), "str_replace_editor view"),
    (Call(tool="write", arguments='{"path": "/x", "content": "git add x"}'), "write"),
    (Call(tool="edit", arguments="edit 1:2\ngit add x\nend_of_edit"), "edit 1:2"),
    (Call(tool="git", arguments="git add x"), "git add x"),
]


@pytest.mark.parametrize(("call", "action"), ACTIONS)
def test_actions_of_calls(call, action):
    run = Run(Header(run_id="r", n_steps=2), (Step(index=0, calls=(call,)), Step(index=1)))
    assert actions_of(run) == [action, ""]
    assert return_codes_of(run) == [None, None]


def test_parallel_calls_are_one_action():
    calls = (Call(tool="bash", arguments="cd lib", exit_code=0), Call(tool="bash", arguments="ls", exit_code=3))
    run = Run(Header(run_id="r", n_steps=1), (Step(index=0, calls=calls),))
    assert actions_of(run) == ["cd lib\nls"] and return_codes_of(run) == [3]


def test_mark_changes_outcomes_alone_and_once():
    run = run_of(["ls", ADD, "ls", "ls"], stamped=(0, 1, 2, 3))
    losses = (Loss(step=1, kind=EMPTY, evidence="staged"), Loss(step=3, kind=EMPTY, evidence="continuation"))
    made = mark(run, losses)
    assert [step.outcome.state for step in made.steps] == ["measured", "not measured", "measured", "measured"]
    assert made.steps[1].outcome == Outcome(why=WHY)
    assert made.header.content_sha256 == "" and made.header.instrument == run.header.instrument
    for before, after in zip(run.steps, made.steps, strict=True):
        assert msgspec.structs.replace(after, outcome=before.outcome) == before
    assert mark(made, losses) == made
    assert mark(run, ()) is run
    assert mark(run, [Loss(step=9, kind=EMPTY, evidence="staged")]) is run


def test_mark_takes_the_instrument_where_nothing_is_left():
    run = run_of(["ls", ADD, "ls"], stamped=(1,))
    assert mark(run, [Loss(step=1, kind=EMPTY, evidence="staged")]).header.instrument is None


def audited(**more):
    """A run that lost one step by each rule, with an orphan and a capture of its last step."""
    actions = ["ls", "echo 1 > x.py", ADD, "echo 1 > z.py", "ls", "submit"]
    captures = {0: b"", 1: diff(X), 2: b"", 3: diff(Z), 4: diff(Z), 5: b"", 8: b""}
    return run_of(actions, **more), captures


def test_the_record_of_a_run():
    run, captures = audited()
    made = record(run, captures)
    assert [(loss.step, loss.kind, loss.evidence) for loss in made.losses] == [
        (2, EMPTY, "staged"),
        (3, PARTIAL, "staged"),
        (4, PARTIAL, "staged"),
    ]
    assert made.marked == (2, 3, 4)
    assert (made.n_steps, made.seen, made.orphans, made.orphans_lost) == (6, ((0, 5), (8, 8)), (8,), 1)
    assert made.terminal_skipped is True and made.undecided == () and made.without_header == ()
    assert record(mark(run, made.losses), captures) == made
    assert record(run, {0: b"fatal: no repository"}).without_header == (0,)


def test_records_go_through_their_file(tmp_path):
    run, captures = audited()
    records = {
        name: record(msgspec.structs.replace(run, header=Header(run_id=name, n_steps=6)), captures) for name in "ba"
    }
    path = tmp_path / "capture.json"
    save_records(records, path)
    issues = []
    assert load_records(path, issues) == records and issues == []
    lines = path.read_text().splitlines()
    assert len(lines) == 4 and lines[1].startswith('"a": ') and lines[2].startswith('"b": ')
    assert load_records(tmp_path / "none", issues) == {} and issues == []


BAD_RECORDS = [
    (b"{", "the records cannot be read"),
    (b"[]", "the records cannot be read"),
    (b"version https://git-lfs.github.com/spec/v1\n", "the records cannot be read"),
    (b'{"a": {"run_id": "a"}}', "a record cannot be read"),
    (None, "a record is of another run than it is listed for"),
]


@pytest.mark.parametrize(("content", "what"), BAD_RECORDS)
def test_bad_records_hide_no_other(tmp_path, content, what):
    run, captures = audited(run_id="good")
    good = records_bytes({"good": record(run, captures)})
    if content is None:
        content = good.replace(b'"good": ', b'"other": ', 1)
    path = tmp_path / "capture.json"
    path.write_bytes(good.replace(b"{\n", content[:-1] + b",\n", 1) if what == "a record cannot be read" else content)
    issues = []
    found = load_records(path, issues)
    assert [issue.what for issue in issues] == [what]
    assert ("good" in found) is (what == "a record cannot be read")


def guarded(run, told, here):
    records = {run.header.run_id: told} if told else {}
    return [issue.what.split(":")[0] for issue in guard([run], records, {run.header.run_id: here}.get)]


def test_the_guard():
    run, captures = audited()
    told = record(run, captures)
    stamped, _ = audited(stamped=(0, 1))
    after, _ = audited(stamped=(0, 2))
    clean, few = run_of(["ls", "ls", "ls"], stamped=(0,)), {0: b"", 1: b""}
    other = msgspec.structs.replace(told, rules="older rules")
    shorter = run_of(["ls"] * 5)
    counted, _ = audited(captures=3)
    rows = [  # run, record, captures here, issues
        (run, None, None, []),  # nothing is claimed of it
        (stamped, None, None, ["unaudited"]),
        (stamped, None, {}, ["unaudited"]),  # an empty folder is no capture
        (stamped, None, captures, ["unrecorded"]),
        (clean, None, few, ["unrecorded"]),
        (stamped, told, None, []),
        (stamped, told, captures, []),
        (mark(after, told.losses), told, captures, []),
        (stamped, told, {**captures, 4: diff(X, Z)}, ["mismatch"]),
        (stamped, other, None, ["mismatch"]),
        (shorter, told, None, ["mismatch"]),
        (counted, told, None, ["mismatch"]),
        (after, told, None, ["stamped after loss"]),
        (after, None, captures, ["unrecorded", "stamped after loss"]),
        (clean, record(clean, {1: b""}), None, ["unseen"]),
    ]
    for number, (one, told_one, here, expected) in enumerate(rows):
        assert guarded(one, told_one, here) == expected, number
    assert [issue.what for issue in guard([], {"gone": told})] == ["record of no run that is here"]
    assert guard([stamped], {stamped.header.run_id: told}) == []  # no captures anywhere


def test_the_count_of_an_audit_has_two_denominators():
    run, captures = audited(stamped=(0,))
    more = run_of(["ls"] * 24, run_id="z", stamped=(0,))
    records = {run.header.run_id: record(run, captures)}
    one, two, both = AuditCount(records), AuditCount(records), AuditCount(records)
    one.add(run)
    two.add(more)
    for each in (more, run):
        both.add(each)
    one.merge(two)
    assert one.result() == both.result()
    result = both.result()
    assert (result["runs"], result["audited_runs"], result["stamped"], result["audited_stamped"]) == (2, 1, 2, 1)
    assert result["marked_share_of_all"] == 3 / 30 and result["marked_share_of_audited"] == 3 / 6
    assert result["empty_after_nonempty.staged"] == 1 and result["partial_stage_loss.staged"] == 2
    assert AuditCount({}).result()["marked_share_of_all"] is None


COMMANDS = [
    "echo {n} > x.py",
    "echo {n} > lib/y.py",
    "echo {n} > z.py",
    "git add x.py",
    "git add lib",
    "git add -A",
    "git -C lib add y.py",
    "git commit -q -m {n} --allow-empty",
    "git stash -q",
    "git checkout -q -- .",
    "git reset -q",
    "git status",
    "ls",
    "git add x.py && git commit -q -m {n} --allow-empty",
    "cat <<'EOF' > z.py\ngit add -A {n}\nEOF",
]


def git(folder, *arguments):
    call = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(folder), *arguments]
    return subprocess.run(call, capture_output=True, check=True).stdout


FIGURES = (57, 63, 47, 38)
"""Of 168 captures: those that lost a path, marked steps, those of them that lost one, marked ones without an undo."""


@pytest.mark.slow
def test_rules_on_what_git_really_does(tmp_path):
    """Old captures (``git diff``) against the truth (a diff of the tracked files with the base commit).

    A marked step whose capture was right is a false alarm; only an empty one after an undo may be one.
    """
    rng = random.Random(5)
    marked = found = certain = true_losses = 0
    for trial in range(12):
        work = tmp_path / str(trial)
        (work / "lib").mkdir(parents=True)
        git(tmp_path, "init", "-q", str(work))
        for name in ("x.py", "lib/y.py", "z.py"):
            (work / name).write_text("0\n")
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", "base")
        base = git(work, "rev-parse", "HEAD").decode().strip()
        for name, value in (("user.name", "t"), ("user.email", "t@t")):
            git(work, "config", name, value)
        actions, captures, truth = [], {}, {}
        for step in range(14):
            action = rng.choice(COMMANDS).format(n=rng.randrange(10**6))
            subprocess.run(["bash", "-c", action], cwd=work, capture_output=True)
            actions.append(action)
            captures[step], truth[step] = git(work, "diff"), git(work, "diff", base)
        made = record(run_of([*actions, "submit"]), captures)
        lost = {step for step in captures if diff_paths(captures[step]) < diff_paths(truth[step])}
        true_losses += len(lost)
        onset = 0
        for loss in made.losses:
            onset = onset if loss.evidence == "continuation" else loss.step
            undone = any(read_script(action).undoes for action in actions[onset : loss.step + 1])
            marked += 1
            found += loss.step in lost
            certain += not undone
            assert loss.step in lost or (undone and loss.kind == EMPTY), (trial, loss, actions)
    assert (true_losses, marked, found, certain) == FIGURES
