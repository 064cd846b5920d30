"""Logs of test runs: names of tests with their statuses, for each runner and each awkward line."""

import json
from pathlib import Path

import pytest

from traceaudit.errors import UsageError
from traceaudit.runs.log_parsers import END, PARSER_OF, PARSERS, START, detect, parse, section

LABELS = Path(__file__).resolve().parents[3] / "shared" / "data" / "trajectories" / "swe_smith" / "labels"


@pytest.fixture
def labels():
    if not LABELS.is_dir():
        pytest.skip("the real logs are not beside this repository (../shared/data/trajectories)")
    return LABELS


PYTEST_LINES = [
    # line, name, status
    ("PASSED a/test_b.py::test_c", "a/test_b.py::test_c", "PASSED"),
    ("FAILED a/test_b.py::test_c - assert 1 == 2", "a/test_b.py::test_c", "FAILED"),
    ("FAILED a/test_b.py::T::test_c[x y] - assert a - b", "a/test_b.py::T::test_c[x y]", "FAILED"),  # a space
    ("FAILED t.py::test_c[a - b] - boom", "t.py::test_c[a - b]", "FAILED"),  # the message's own mark in the name
    ("FAILED t.py::test_c[a - b]", "t.py::test_c[a - b]", "FAILED"),
    ("FAILED t.py::test_c - assert x[0] - 3", "t.py::test_c", "FAILED"),  # brackets in the message only
    ("PASSED t.py::test_c[1 - 2 x]", "t.py::test_c[1 - 2 x]", "PASSED"),  # a pass has no message
    ("ERROR t.py::test_c - KeyError: 'x'", "t.py::test_c", "ERROR"),
    ("ERROR t.py", "t.py", "ERROR"),  # a file that cannot be collected
    ("XFAIL t.py::test_c - reason", "t.py::test_c", "XFAIL"),
    ("SKIPPED t.py::test_c", "t.py::test_c", "SKIPPED"),
    ("\x1b[31mFAILED\x1b[0m t.py::\x1b[1mtest_c\x1b[0m - no", "t.py::test_c", "FAILED"),  # colours
    ("t.py::test_c PASSED", "t.py::test_c", "PASSED"),
    ("t.py::test_c[a b] PASSED                [ 89%]", "t.py::test_c[a b]", "PASSED"),
    ("t.py::test_c SKIPPED (needs x)   [100%]", "t.py::test_c", "SKIPPED"),
    ("[gw1] [ 50%] PASSED t.py::test_c[a b]", "t.py::test_c[a b]", "PASSED"),  # xdist
]


@pytest.mark.parametrize(("line", "name", "status"), PYTEST_LINES)
def test_a_line_of_pytest(line, name, status):
    assert parse(line, "pytest").statuses == {name: status}


@pytest.mark.parametrize(
    "line",
    [
        "SKIPPED [3] a/test_b.py:4: needs x",  # counts, names no test
        "XPASS t.py::test_c",  # no status of SWE-bench
        "0.01s call     t.py::test_c",
        "=== 2 failed, 9 passed in 0.06s ===",
        "FAILED",
        "    PASSED t.py::test_c",  # an indented line is output of a test
        "the thing PASSED",
        "",
    ],
)
def test_a_line_of_pytest_that_names_no_result(line):
    assert parse(line, "pytest").statuses == {}


@pytest.mark.parametrize(
    ("owner", "line", "name"),
    [
        ("psf", "PASSED t.py::a[/x/y/z.txt]", "t.py::a[/z.txt]"),
        ("psf", "PASSED t.py::a[//x/y]", "t.py::a[//x/y]"),
        ("pylint-dev", "FAILED t.py::a[/x/*] - no", "t.py::a[/x/*]"),
        ("pydicom", "PASSED t.py::a[x/y]", "t.py::a[x/y]"),
        ("matplotlib", "PASSED t.py::a[MouseButton.LEFT-MouseButton.RIGHT]", "t.py::a[1-3]"),
    ],
)
def test_names_as_swe_bench_lists_them_for_some_owners(owner, line, name):
    assert list(parse(line, PARSER_OF[owner]).statuses) == [name]


UNITTEST_LINES = [
    ("test_a (m.T) ... ok", {"test_a (m.T)": "PASSED"}),
    ("test_a (m.T.test_a) ... FAIL", {"test_a (m.T.test_a)": "FAILED"}),
    ("test_a (m.T) ... ERROR", {"test_a (m.T)": "ERROR"}),
    ("test_a (m.T) ... skipped 'no database'", {"test_a (m.T)": "SKIPPED"}),
    ("test_a (m.T) ... expected failure", {"test_a (m.T)": "XFAIL"}),
    ("test_a (m.T) ... unexpected success", {"test_a (m.T)": "FAILED"}),
    ("test_a (m.T)\nWorks without a user. ... ok", {"Works without a user.": "PASSED"}),  # named by its docstring
    ("test_a (m.T) ... System check found nothing\nok", {"test_a (m.T)": "PASSED"}),  # output in between
    ("test_a (m.T) ... printed\nok then\ntest_b (m.T) ... ok", {"test_b (m.T)": "PASSED"}),  # no result of test_a
    ("FAIL: test_a (m.T) (number=3)", {"test_a (m.T)": "FAILED"}),  # a failing subtest has its heading only
    ("test_a (m.T) ... printed\nFAIL: test_b (m.T)\nok", {"test_b (m.T)": "FAILED"}),  # that ok is of no test
    ("ERROR: setUpClass (m.T)", {"setUpClass (m.T)": "ERROR"}),
    ("Ran 3 tests in 0.1s\n\nOK", {}),
    ("ok", {}),
]


@pytest.mark.parametrize(("log", "statuses"), UNITTEST_LINES)
def test_lines_of_unittest(log, statuses):
    assert parse(log, "unittest").statuses == statuses


@pytest.mark.parametrize(
    ("log", "statuses"),
    [
        ("test_a ok", {"test_a": "PASSED"}),
        (
            "test_a F\ntest_b E\ntest_c f\ntest_d s",
            dict(zip(("test_a", "test_b", "test_c", "test_d"), ("FAILED", "ERROR", "XFAIL", "SKIPPED"), strict=True)),
        ),
        ("test_z ok                      [OK]", {"test_z": "PASSED"}),  # the last of a file
        ("test_z F                     [FAIL]", {"test_z": "FAILED"}),
        ("____ sympy/core/tests/test_x.py:test_y ____", {"sympy/core/tests/test_x.py:test_y": "FAILED"}),
        ("sympy/core/tests/test_x.py[2]", {}),
    ],
)
def test_lines_of_sympy(log, statuses):
    assert parse(log, "sympy").statuses == statuses


def test_the_last_status_counts_and_conflicts_are_counted():
    log = "t.py::test_a PASSED\nt.py::test_a ERROR\nt.py::test_b FAILED\nFAILED t.py::test_b - no\n"
    parsed = parse(log)
    assert parsed.statuses == {"t.py::test_a": "ERROR", "t.py::test_b": "FAILED"}
    assert (parsed.conflicts, parsed.repeated) == (1, 1)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (f"PASSED a::b\n+ : '{START}'\nFAILED t.py::x\n+ : '{END}'\nPASSED c::d", {"t.py::x": "FAILED"}),
        (f"{START}\nFAILED t.py::x\n", {"t.py::x": "FAILED"}),  # cut before the second mark
        ("FAILED t.py::x\n", {"t.py::x": "FAILED"}),  # no marks
        (f"PASSED t.py::x\n{START}\n{END}\n", {"t.py::x": "PASSED"}),  # nothing between them: the whole log
    ],
)
def test_only_what_stands_between_the_marks_is_read(log, expected):
    assert parse(log, "pytest").statuses == expected
    assert END not in section(log)


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("=== test session starts ===\nRan 3 tests in 1s", "pytest"),
        ("test_a (m.T) ... ok\n\nRan 1 test in 0.1s\n\nOK", "unittest"),
        ("=== test process starts ===\ntest_a ok", "sympy"),
        ("", "pytest"),
    ],
)
def test_the_runner_is_told_by_what_it_prints(log, kind):
    assert detect(log) == kind
    assert parse(log).kind == kind


def test_a_parser_that_is_not_known_is_wrong_usage():
    with pytest.raises(UsageError, match="sympy, unittest"):
        parse("", "nose")
    assert set(PARSER_OF.values()) <= set(PARSERS)


REAL_LOGS = [
    # file, passed, failed: as its own summary line says
    ("run_validation~test_output.txt", 9, 2),
    ("run_validation~test_output_pre_gold.txt", 11, 0),
    ("run_evaluation~pandas-dev__pandas.95280573.pr_53652~test_output.txt", 11, 0),
    ("run_evaluation~pydantic__pydantic.acb0f10f.pr_8316~test_output.txt", 169, 0),
]


@pytest.mark.real
@pytest.mark.parametrize(("name", "passed", "failed"), REAL_LOGS)
def test_a_real_log_gives_what_its_own_summary_counts(labels, name, passed, failed):
    log = (labels / name).read_text()
    parsed = parse(log)
    values = list(parsed.statuses.values())
    assert (values.count("PASSED"), values.count("FAILED"), len(values)) == (passed, failed, passed + failed)
    assert f"{passed} passed" in log
    assert parsed.conflicts == 0


@pytest.mark.real
def test_every_test_of_a_real_report_is_in_its_log(labels):
    for name in (name for name, _, _ in REAL_LOGS if name.startswith("run_evaluation")):
        report = json.loads((labels / name.replace("test_output.txt", "report.json")).read_text())["tests_status"]
        listed = [test for part in report.values() for side in part.values() for test in side]
        statuses = parse((labels / name).read_text()).statuses
        assert listed
        assert [test for test in listed if test not in statuses] == []
