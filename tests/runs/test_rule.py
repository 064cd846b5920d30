"""The escalation rule: a table of small runs, a step-by-step reference, and what counts as an edit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceaudit.errors import ValueProblem
from traceaudit.runs import rule
from traceaudit.runs.formats.mini_swe_agent import MiniSweAgent
from traceaudit.runs.ladder_rows import LadderRows
from traceaudit.runs.rule import CELLS, Cell, RunSteps, cell_scores, edit_like, fires, max_recurrence
from traceaudit.runs.schema import Call, Header, Outcome, Run, Step

from ..conftest import REAL

EDITS = [
    "sed -i 's/a/b/' f.py",
    "sed -n -i.bak 1p f",
    "sed --in-place s/a/b/ f",
    "perl -pi -e 's/a/b/' f",
    "patch -p1 < fix.diff",
    "patch f < fix.diff",
    "applypatch <<'EOF'",
    "cd /testbed && git apply fix.diff",
    "git -C /testbed add -A",
    "git commit -m x",
    "ls | tee out.txt",
    "cat > f.py <<'EOF'\nx\nEOF",
    "cat <<'EOF' > f.py\nx\nEOF",
    "echo x >> f.py",
    "printf x > f",
    "python -c \"open('f', 'w').close()\"",
    "python - <<'E'\np.write_text('x')\nE",
    "rm f.py",
    "cd a && mv b c",
    "cp a b",
    "ls\nrm x",
]
NO_EDITS = [
    "",
    "ls -la",
    "cat f.py",
    "sed -n '1,5p' f.py",
    "grep -rn 'rm' src",
    "git diff",
    "git status",
    "echo done",
    "echo x > /tmp/f",
    "cat <<'EOF' > /tmp/t.py\nimport os\nEOF",
    "python -c \"print(open('f').read())\"",
    "pytest -x tests 2>&1 | tail -5",
    "cat f 2>/dev/null",
    "rmdir x",
    "echo 'a -> b'",
    "cat f > /dev/null",
    "form a",
]


@pytest.mark.parametrize(("action", "edit"), [(a, True) for a in EDITS] + [(a, False) for a in NO_EDITS])
def test_edit_like(action: str, edit: bool) -> None:
    assert edit_like(action) is edit


def made(text: str, gap: int = 1) -> RunSteps:
    """A run from letters: a-d fails with that key, A-D the same but not countable, ! fails without a key, + passes,
    . was not measured, and e before any of them is an edit."""
    marks: list[tuple[str, bool]] = []
    edit = False
    for letter in text:
        if letter == "e":
            edit = True
        else:
            marks.append((letter, edit))
            edit = False
    return RunSteps(
        decision=[number * gap for number in range(len(marks))],
        failed=[mark not in "+." for mark, _ in marks],
        passed=[mark == "+" for mark, _ in marks],
        countable=[mark in "abcd!" for mark, _ in marks],
        key=[mark.lower() if mark in "abcdABCD" else None for mark, _ in marks],
        edit=[edited for _, edited in marks],
    )


@pytest.mark.parametrize(
    ("run", "gap", "ten", "thousand"),
    [
        ("", 1, 0, 0),
        ("aaaa", 1, 0, 0),  # no edit, so the gate never opens
        ("aaea", 1, 1, 1),  # the edit's own step counts, the ones before do not
        ("eaa", 1, 2, 2),
        ("eab", 1, 1, 1),
        ("eaba", 1, 2, 2),
        ("ea+a", 1, 1, 1),  # a pass forgets
        ("+ea.a", 1, 2, 2),  # what was not measured changes nothing
        ("e!!", 1, 0, 0),  # a failure without a key
        ("eAAa", 1, 1, 1),  # not confirmed
        ("ea........b.a", 1, 1, 2),  # 11 decisions apart
        ("ea........a", 1, 2, 2),  # 9 apart: within 10
        ("ea.........a", 1, 1, 2),  # 10 apart: just outside
        ("eaaaaaaaaaaaaaa", 1, 10, 14),  # a window of ten holds ten
        ("eaaa", 5, 2, 3),
        ("eabababab", 1, 4, 4),
    ],
)
def test_recurrence(run: str, gap: int, ten: int, thousand: int) -> None:
    assert max_recurrence([made(run, gap)]).tolist() == [[ten, thousand]]


def test_as_shipped_has_no_gate() -> None:
    assert max_recurrence([made("aaa")], edit_gated=False).tolist() == [[3, 3]]
    assert fires(made("aa"), edit_gated=False) and not fires(made("aa"))


def by_steps(run: RunSteps, cell: Cell, gated: bool) -> bool:
    """The rule as it is told: step by step, with the log it keeps and empties."""
    log: list[tuple[int, str, bool]] = []
    is_open = not gated
    fired = False
    for step, now in enumerate(run.decision):
        is_open = is_open or run.edit[step]
        if not is_open:
            continue
        if run.passed[step]:
            log = []
        key = run.key[step]
        if run.failed[step] and key:
            log.append((now, key, run.countable[step]))
        log = [event for event in log if now - event[0] < cell.window]
        for name in {event[1] for event in log}:
            if sum(event[1] == name and event[2] for event in log) >= cell.n:
                fired, log = True, []
                break
    return fired


@given(st.lists(st.tuples(st.text("abA!+.e", max_size=40), st.integers(0, 4)), max_size=6), st.booleans())
def test_all_cells_are_those_of_the_rule_step_by_step(texts: list[tuple[str, int]], gated: bool) -> None:
    runs = [made(text, gap) for text, gap in texts]
    scores = cell_scores(max_recurrence(runs, edit_gated=gated))
    assert scores.shape == (len(runs), 30)
    told = [[float(by_steps(run, cell, gated)) for cell in CELLS] for run in runs]
    assert scores.tolist() == told


def test_thirty_cells_and_none_of_a_narrow_window_above_its_size() -> None:
    assert len(set(CELLS)) == 30
    run = max_recurrence([made("e" + "a" * 60)])
    fired = {cell for cell, score in zip(CELLS, cell_scores(run)[0], strict=True) if score}
    assert fired == {cell for cell in CELLS if cell.window == 1000 or cell.n <= 10}


@pytest.mark.parametrize(
    "columns",
    [
        ([0, 1], [True], [False, False], [True, True], ["a", "a"], [True, True]),
        ([1, 0], [True, True], [False, False], [True, True], ["a", "a"], [True, True]),
    ],
)
def test_a_malformed_run_is_refused(columns: tuple[list, ...]) -> None:
    with pytest.raises(ValueProblem):
        RunSteps(*columns)


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueProblem):
        max_recurrence([made("ea")], (0,))


def failed_step(index: int, command: str, confirmed: bool | None = None, check: str | None = "t") -> Step:
    outcome = Outcome(state="measured", why="", passed=False, failing_check=check, confirmed=confirmed)
    return Step(index=index, calls=(Call(arguments=command),), outcome=outcome)


@pytest.mark.parametrize(
    ("confirmed", "unconfirmed", "most"), [(None, True, 2), (None, False, 0), (True, False, 2), (False, False, 0)]
)
def test_a_failure_nobody_repeated(confirmed: bool | None, unconfirmed: bool, most: int) -> None:
    """Three red steps; the last carries the label and is not read."""
    steps = tuple(failed_step(index, "rm x", confirmed) for index in range(3))
    run = Run(Header(run_id="r", n_steps=3), steps)
    assert max_recurrence([rule.steps_of(run, unconfirmed=unconfirmed)]).tolist() == [[most, most]]


def test_rows_of_partitions_are_those_of_the_whole() -> None:
    def run(name: str, resolved: bool | None, steps: int) -> Run:
        header = Header(run_id=name, n_steps=steps, instance_id="a__b-1", resolved=resolved)
        return Run(header, tuple(failed_step(index, "rm x", check="t" if index else None) for index in range(steps)))

    runs = [run("a", True, 1), run("b", False, 5), run("c", None, 9), run("d", True, 3)]
    whole, left, right = LadderRows(), LadderRows(), LadderRows()
    for one in runs:
        whole.add(one)
    for one in runs[:2]:
        right.add(one)
    for one in runs[2:]:
        left.add(one)
    left.merge(right)
    first, second = whole.result(), left.result()
    assert first.most.tolist() == second.most.tolist() == [[0, 0], [3, 3], [1, 1]]
    assert first.table.failed.tolist() == second.table.failed.tolist() == [False, True, False]
    assert first.table.stamped.tolist() == second.table.stamped.tolist() == [False, True, True]
    assert list(first.table.model) == ["unknown"] * 3 and list(first.table.instance) == ["a__b-1"] * 3
    assert first.unlabelled == second.unlabelled == 1 and first.keyless == second.keyless == 2


@pytest.mark.real
def test_edits_of_a_real_run() -> None:
    """A real run that was resolved changed something, and not with every step; nothing of it was measured."""
    import json

    folder = REAL / "trajectories" / "mini_swe_agent"
    files = sorted(folder.glob("*django*.traj.json")) if folder.is_dir() else []
    if not files:
        pytest.skip("no real trajectories beside this repository (../shared/data/trajectories)")
    for path in files:
        for parsed in MiniSweAgent().parse(json.loads(path.read_bytes()), path.name):
            run = Run(Header(run_id="r", n_steps=len(parsed.steps)), tuple(parsed.steps))
            steps = rule.steps_of(run)
            assert 0 < sum(steps.edit) < len(steps.edit)
            assert np.all(max_recurrence([steps]) == 0)
