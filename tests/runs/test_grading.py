"""Grading: the order of the rules, what the exit code may say, reports, and the flake guard on a planted flaky test."""

import json
import random
from pathlib import Path

import pytest

from traceaudit.runs.grading import Grade, GradeCount, classify, confirm, grade, read_report, status_of
from traceaudit.runs.log_parsers import parse

HERE = Path(__file__).resolve()
LABELS = HERE.parents[3] / "shared" / "data" / "trajectories" / "swe_smith" / "labels"
MINI = HERE.parents[3] / "shared" / "data" / "trajectories" / "mini_swe_agent" / "labels"

P, F, E, S, X = "PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL"
RED = "1 failed, 3 passed"

VERDICTS = [
    # statuses, f2p, p2p, passed, failing check
    ({"a": P, "b": P}, ["a"], ["b"], True, None),
    ({"a": X, "b": X}, ["a"], ["b"], True, None),  # an expected failure passes
    ({"a": F, "b": P}, ["a"], ["b"], False, "a"),
    ({"a": E, "b": P}, ["a"], ["b"], False, "a"),
    ({"a": P, "b": F}, ["a"], ["b"], False, "b"),  # the whole list: a broken P2P test is a failure
    ({"a": P, "b": P}, ["a"], ["b", "c"], False, "c"),  # absent fails
    ({"a": P, "b": P}, ["a", "c"], ["b"], False, "c"),  # one absent F2P test beside others is a failure
    ({"a": P, "b": S}, ["a"], ["b"], True, None),  # a skipped P2P test is left out
    ({"a": P, "b": S, "c": F}, ["a"], ["b", "c"], False, "c"),
    ({"a": F, "b": F}, ["a"], ["b"], False, "a"),  # F2P is named before P2P
    ({"a": F, "c": F}, ["c", "a"], [], False, "c"),  # in the order of the list
    ({"a": P, "z": F}, ["a"], [], True, None),  # a test of no list decides nothing
    ({"a": F}, ["a"], ["b"], False, "a"),  # P2P never ran, but F2P failed: measured
]


@pytest.mark.parametrize(("statuses", "f2p", "p2p", "passed", "check"), VERDICTS)
def test_every_test_of_both_lists_has_to_pass(statuses, f2p, p2p, passed, check):
    found = grade(statuses, f2p, p2p, exit_code=1, log=RED)
    assert (found.state, found.passed, found.failing_check, found.why) == ("measured", passed, check, "")
    assert found.outcome().contradiction == ""


LOST = [
    # statuses, f2p, p2p, exit code, log, why
    ({"a": P}, ["a"], [], 0, ">>>>> Tests Timed Out", "incomplete: timeout"),
    ({"a": P}, ["a"], [], 0, ">>>>> Tests Errored", "incomplete: tests error"),
    ({"a": P}, ["a"], [], 0, ">>>>> Patch Apply Failed", "incomplete: patch apply failed"),
    ({"a": P}, ["a"], [], 0, ">>>>> Reset Failed", "incomplete: reset failed"),
    ({"a": F}, [], [], 137, ">>>>> Tests Timed Out", "incomplete: timeout"),  # the mark is before the exit code
    ({"a": P}, ["a"], [], 137, "", "instrument failure: exit code 137"),
    ({"a": P}, ["a"], [], -9, "", "instrument failure: exit code -9"),
    ({"a": P}, [], [], 4, "", "instrument failure: exit code 4"),  # before the empty list
    ({"a": P}, ["a"], [], 1, "ERROR collecting t.py", "instrument failure: collection or build"),
    ({"b": P}, [], ["b"], 0, "", "no FAIL_TO_PASS test is listed"),
    ({}, [], [], 0, "", "no FAIL_TO_PASS test is listed"),
    ({"a": S, "b": F}, ["b", "a"], [], 1, RED, "a FAIL_TO_PASS test was skipped"),  # even beside a failure
    ({"a": S}, ["a", "b"], [], 0, "", "a FAIL_TO_PASS test was skipped"),
    ({"z": F}, ["a", "b"], ["z"], 1, RED, "every FAIL_TO_PASS test is absent"),
    ({}, ["a"], ["b"], 0, "", "every FAIL_TO_PASS test is absent"),
    ({"a": P}, ["a"], ["b", "c"], 0, "", "no PASS_TO_PASS test was decided"),
    ({"a": P, "b": S}, ["a"], ["b", "c"], 0, "", "no PASS_TO_PASS test was decided"),
]


@pytest.mark.parametrize(("statuses", "f2p", "p2p", "code", "log", "why"), LOST)
def test_what_the_instrument_lost_is_not_measured(statuses, f2p, p2p, code, log, why):
    found = grade(statuses, f2p, p2p, exit_code=code, log=log)
    assert (found.state, found.passed, found.why, found.failing_check) == ("not measured", None, why, None)
    assert not found.disagreement
    assert found.outcome(confirmed=True).contradiction == ""


@pytest.mark.parametrize(
    ("statuses", "code", "passed", "disagreement"),
    [
        ({"a": P}, 0, True, False),
        ({"a": P}, 1, True, True),  # 37 of 199 gold legs
        ({"a": F}, 1, False, False),
        ({"a": F}, 0, False, True),
        ({"a": P}, None, True, False),  # nothing to compare
        ({"a": F}, None, False, False),
    ],
)
def test_the_exit_code_gives_no_verdict(statuses, code, passed, disagreement):
    found = grade(statuses, ["a"], [], exit_code=code, log=RED)
    assert (found.passed, found.disagreement, found.exit_code) == (passed, disagreement, code)


def test_grades_are_counted_and_counts_merge():
    grades = [
        grade({"a": P}, ["a"], [], exit_code=1, log=RED),
        grade({"a": P}, ["a"], [], exit_code=0, log=""),
        grade({"a": F}, ["a"], [], exit_code=0, log=RED),
        grade({"a": F}, ["a"], [], exit_code=None, log=RED),
        grade({}, ["a"], [], exit_code=0, log=""),
    ]
    whole, left, right = GradeCount(), GradeCount(), GradeCount()
    for number, one in enumerate(grades):
        whole.add(one)
        (left if number % 2 else right).add(one)
    left.merge(right)
    assert left.result() == whole.result()
    assert whole.result() == {
        "verdicts": {"failed": 2, "not measured": 1, "passed": 2},
        "reasons": {"every FAIL_TO_PASS test is absent": 1},
        "exit_code": {"compared": 3, "failed, exit code 0": 1, "passed, exit code not 0": 1},
    }


CLASSES = [
    (0, "3 passed in 0.1s", "pass"),
    (0, "", "pass"),
    (0, "collected 0 items", "unknown"),
    (0, "Ran 0 tests in 0.0s\n\nOK", "unknown"),
    (0, "no tests ran in 0.01s", "unknown"),
    (0, "?  pkg [no test files]", "unknown"),
    (0, "1..0", "unknown"),
    (0, "collected 0 items\n3 passed", "pass"),  # one folder was empty, another was not
    (5, "no tests ran", "infra"),
    (2, "interrupted", "infra"),
    (2, "There was 1 failure:\n\nFAILURES!", "fail"),  # PHPUnit
    (130, RED, "infra"),
    (-11, RED, "infra"),
    (1, RED, "fail"),
    (1, "ERROR collecting t.py\n2 failed", "fail"),  # the proof wins over the phrase
    (1, "ModuleNotFoundError: No module named 'x'", "infra"),
    (1, "bash: pytest: command not found", "infra"),
    (1, "something", "fail"),
    (1, '<testsuite tests="3" failures="0" errors="0">', "pass"),  # a report is believed
    (0, '<testsuite tests="3" failures="1" errors="0">', "fail"),
    (1, '<testsuite tests="0" failures="0" errors="0">', "fail"),  # a report of nothing says nothing
    (1, "1..2\nok 1 a\nok 2 b", "pass"),
    (0, "1..2\nok 1 a\nnot ok 2 b", "fail"),
    (0, "1..2\nok 1 a\nnot ok 2 b # TODO later", "pass"),
    (None, "3 passed", "pass"),
    (None, RED, "fail"),
    (None, "", "unknown"),
    (None, "SyntaxError: x", "infra"),
]


@pytest.mark.parametrize(("code", "text", "kind"), CLASSES)
def test_the_generic_classifier(code, text, kind):
    found = classify(code, text)
    assert found.kind == kind
    assert (found.check is not None) == (kind == "fail")


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("at 0xdeadbeef", "at 0xcafe1234", True),
        ("Using --random-seed=123", "Using --random-seed=9", True),
        ("wrote /tmp/pytest-0/x", "wrote /tmp/pytest-7/y", True),
        ("2026-01-01T10:00:00Z died", "2026-01-02T11:00:01Z died", True),
        ("pid 12 died in 1.20s", "pid 77 died in 3.01s", True),
        ("  0.01s call     t.py::a", "  0.02s setup    t.py::b", True),  # the order of slow tests
        ("value 3", "value 4", False),
    ],
)
def test_a_failure_without_a_name_is_named_by_what_does_not_change(one, two, same):
    first, second = classify(1, one).check, classify(1, two).check
    assert first.startswith("text:")
    assert (first == second) is same
    assert classify(1, f"{one}\nFAILED t.py::x - no").check == "t.py::x"


@pytest.mark.parametrize(
    ("check", "statuses", "expected"),
    [
        ("t[a", {"t[a b]": P, "t[a c]": X}, P),  # a cut name stands for all, if they agree
        ("t[a", {"t[a b]": P, "t[a c]": F}, None),
        ("t[a", {"t[b]": P}, None),
        ("t[a]", {"t[a] b": P}, None),  # a whole name is met whole
        ("t", {"test": P}, None),
        ("t[a", {"t[a": F, "t[a b]": P}, F),  # the exact name first
    ],
)
def test_a_name_that_was_cut_in_its_parameter(check, statuses, expected):
    assert status_of(check, statuses) == expected


def report(f2p=(1, 0), p2p=(1, 0), resolved=True, applied=True, none=False, **more):
    sides = {
        key: {"success": [f"{key}{n}" for n in range(good)], "failure": [f"{key}-{n}" for n in range(bad)]}
        for key, (good, bad) in (("FAIL_TO_PASS", f2p), ("PASS_TO_PASS", p2p))
    }
    return {
        "patch_is_None": none,
        "patch_successfully_applied": applied,
        "resolved": resolved,
        "tests_status": sides,
    } | more


REPORTS = [
    # report, recomputed, issues
    (report(), True, []),
    (report(f2p=(1, 1), resolved=False), False, []),
    (report(p2p=(5, 1), resolved=False), False, []),
    (report(p2p=(0, 0)), True, []),
    ({"x__y-1": report()}, True, []),  # under its id
    (report(f2p=(1, 1)), False, ["resolved differs from the lists of tests"]),
    (report(resolved=False), True, ["resolved differs from the lists of tests"]),
    (report(applied=False), True, ["resolved, although the patch was not applied"]),
    (report(applied=False, resolved=False, f2p=(0, 1)), False, []),
    (report(none=True), True, ["resolved without a patch"]),
    (report(f2p=(0, 0)), None, ["no FAIL_TO_PASS test is listed"]),
    (report(tests_status=None), None, ["resolved without a list of tests"]),
    (report(tests_status=None, resolved=False), None, []),
]


@pytest.mark.parametrize(("content", "recomputed", "whats"), REPORTS)
def test_a_report_is_recomputed(content, recomputed, whats):
    issues = []
    found = read_report(json.dumps(content).encode(), "report.json", issues)
    assert found.recomputed is recomputed
    assert [issue.what for issue in issues] == whats
    assert (found.failing_check is not None) == (recomputed is False)


def test_a_test_in_both_lists_is_an_issue():
    content = report(f2p=(0, 1), resolved=False)
    content["tests_status"]["FAIL_TO_PASS"]["success"] = ["FAIL_TO_PASS-0"]
    issues = []
    assert read_report(json.dumps(content).encode(), "r", issues).recomputed is False
    assert [issue.what for issue in issues] == ["tests listed both as passed and as failed"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"resolved": "yes"}',
        b'{"a": {"resolved": true}, "b": {"resolved": true}}',
        b'{"resolved": true, "tests_status": {"FAIL_TO_PASS": {}}}',
        b'{"resolved": true, "tests_status": {"FAIL_TO_PASS": {"success": [1], "failure": []}}}',
        b'{"a": {"resolved": 1}}',
        b"\xff\xfe",
        b"[" * 100_000,
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
    ],
)
def test_a_file_that_is_no_report_is_an_issue(data):
    issues = []
    assert read_report(data, "r", issues) is None
    assert [(issue.file, issue.what) for issue in issues] == [("r", "not a report of SWE-bench")]


def failure(check="a"):
    return Grade(state="measured", passed=False, failing_check=check)


GOOD = Grade(state="measured", passed=True)
GONE = Grade(state="not measured", why="timeout")


@pytest.mark.parametrize(
    ("first", "second", "confirmed", "runs"),
    [
        (failure(), failure(), True, 1),
        (failure(), failure("b"), False, 1),  # fails, but elsewhere
        (failure(), GOOD, False, 1),
        (failure(), GONE, None, 1),  # the second execution says nothing
        (GOOD, failure(), None, 0),
        (GONE, failure(), None, 0),
    ],
)
def test_a_failure_is_confirmed_by_a_second_one_on_the_same_test(first, second, confirmed, runs):
    calls = []

    def again():
        calls.append(1)
        return second

    assert confirm(again, first) is confirmed
    assert len(calls) == runs
    assert first.outcome(confirmed=confirmed).contradiction == ""


def test_the_guard_measured_on_a_planted_flaky_test():
    """A test that fails by chance in 3 of 10 executions is called confirmed in about 3 of 10 failures, one that
    always fails in all of them, and without the guard both would be failures alike."""
    chance = random.Random(7)

    def execute(share):
        statuses = parse(f"t.py::a {'FAILED' if chance.random() < share else 'PASSED'}\nt.py::b PASSED\n").statuses
        return grade(statuses, ["t.py::a"], ["t.py::b"], exit_code=None, log="")

    shares = {}
    for share in (0.3, 1.0):
        verdicts = [confirm(lambda share=share: execute(share), execute(share)) for _ in range(2000)]
        failed = [verdict for verdict in verdicts if verdict is not None]
        shares[share] = (len(failed) / len(verdicts), sum(failed) / len(failed))
    assert shares[1.0] == (1.0, 1.0)
    assert shares[0.3] == pytest.approx((0.3, 0.3), abs=0.05)


@pytest.fixture
def labels():
    if not LABELS.is_dir():
        pytest.skip("the real reports are not beside this repository (../shared/data/trajectories)")
    return LABELS


@pytest.mark.real
@pytest.mark.parametrize("task", ["pandas-dev__pandas.95280573.pr_53652", "pydantic__pydantic.acb0f10f.pr_8316"])
def test_a_real_log_is_graded_as_its_report_says(labels, task):
    issues = []
    stem = f"run_evaluation~{task}~"
    found = read_report((labels / f"{stem}report.json").read_bytes(), "report.json", issues)
    # both say that the patch was not applied and that the task is resolved
    assert [issue.what for issue in issues] == ["resolved, although the patch was not applied"]
    status = json.loads((labels / f"{stem}report.json").read_text())["tests_status"]
    f2p, p2p = (status[key]["success"] + status[key]["failure"] for key in ("FAIL_TO_PASS", "PASS_TO_PASS"))
    log = (labels / f"{stem}test_output.txt").read_text()
    graded = grade(parse(log).statuses, f2p, p2p, exit_code=None, log=log)
    assert graded.passed is found.stated is found.recomputed is True
    worse = parse(log).statuses | {p2p[-1]: "FAILED"}
    assert grade(worse, f2p, p2p, exit_code=None, log=log).failing_check == p2p[-1]


@pytest.mark.real
def test_real_reports_of_swe_bench_give_the_stated_verdict(labels):
    issues, found = [], {}
    for path in sorted(MINI.glob("*.json")):
        one = read_report(path.read_bytes(), path.name, issues)
        found[path.name] = (one.stated, one.recomputed)
    assert issues == []
    assert sorted(found.values()) == [(False, False), (True, True)]
