"""Grading of one test run as SWE-bench grades: every test of FAIL_TO_PASS and PASS_TO_PASS has to pass.

The exit code of a test command disagrees with that grade in about one of five gold runs, and a run that the instrument
lost looks like a failure; so the exit code gives no verdict, what was lost is not measured, and a failure counts as
confirmed after a second execution only.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from .issues import Issue
from .log_parsers import Status
from .schema import Outcome

__all__ = [
    "INCOMPLETE",
    "Grade",
    "GradeCount",
    "Provisional",
    "Report",
    "classify",
    "confirm",
    "grade",
    "read_report",
    "status_of",
]

INCOMPLETE: Mapping[str, str] = {
    ">>>>> Tests Timed Out": "timeout",
    ">>>>> Tests Errored": "tests error",
    ">>>>> Patch Apply Failed": "patch apply failed",
    ">>>>> Reset Failed": "reset failed",
}
"""SWE-bench's own marks of a run that did not come to its end, and what they mean."""

_PASSES = ("PASSED", "XFAIL")
_FAILS = ("FAILED", "ERROR")

_NOTHING = re.compile(
    r"collected 0 items|\bRan 0 tests\b|no tests ran|[Nn]o test files|^1\.\.0\b|^=* ?0 passed|\b0 passed in\b",
    re.MULTILINE,
)
_RAN_AND_FAILED = re.compile(
    r"\b[1-9]\d* failed\b|^FAILED\s+\S+::|^FAIL: |^FAILED \((?:failures|errors)=|^--- FAIL: |^not ok \d"
    r"|^There (?:was|were) [1-9]\d* (?:failures?|errors?):",
    re.MULTILINE,
)
_RAN_AND_PASSED = re.compile(r"\b[1-9]\d* passed\b|^Ran [1-9]\d* tests? in .*\n+OK\b|^--- PASS: ", re.MULTILINE)
_NOT_BUILT = re.compile(
    r"errors? during collection|^ERROR collecting |_ ERROR collecting |ImportError while loading|ModuleNotFoundError"
    r"|^(?:E\s+)?SyntaxError|\bcommand not found\b|\[build failed\]|[Cc]ompilation (?:error|failed)|BUILD FAILED",
    re.MULTILINE,
)
_PHP_RED = re.compile(r"^(?:ERRORS!|FAILURES!)$|^There (?:was|were) \d+ (?:failures?|errors?):", re.MULTILINE)
_JUNIT = re.compile(r"<testsuite\b[^>]*>")
_TAP = re.compile(r"^(not )?ok \d+\b(?!.*# (?:SKIP|TODO))", re.MULTILINE | re.IGNORECASE)
_NODE = re.compile(r"^(?:FAILED|ERROR|FAIL:|--- FAIL:)\s+(\S+)", re.MULTILINE)
_CHANGING = re.compile(
    r"0x[0-9a-fA-F]+|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|(?:/private)?/(?:tmp|var/folders)/\S+"
    r"|(?i:random[ _-]?seed|seed|pid)\s*[:= ]\s*\d+|^\s*\d+\.\d+s (?:call|setup|teardown)\b.*$"
    r"|\btime=\"[\d.]+\"|\bin \d+\.\d+ ?s(?:econds)?\b|\b\d+\.\d+ ?s(?:econds)?\b",
    re.MULTILINE,
)


class Provisional(msgspec.Struct, frozen=True):
    """What exit code and text say before any list of tests is looked at; it gives no verdict.

    Attributes:
        kind: ``pass``, ``fail``, ``unknown`` (nothing was selected, or nothing tells) or ``infra`` (the instrument).
        why: The rule that spoke.
        check: Of a failure: the first test named, else ``text:`` and a digest of the text without what changes from
            run to run (addresses, times, temporary paths, seeds, process ids, durations).
    """

    kind: Literal["pass", "fail", "unknown", "infra"]
    why: str
    check: str | None = None


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """The grade of one execution.

    Attributes:
        state: ``measured`` or ``not measured``.
        passed: The verdict, exactly where it was measured.
        failing_check: First test that failed, of FAIL_TO_PASS and then of PASS_TO_PASS, in the order of the lists.
        why: The reason where nothing was measured, else empty.
        exit_code: Return code of the test command, as it was given.
        disagreement: Whether the exit code says otherwise than a measured verdict (0 and failed, or not 0 and passed).
        provisional: What exit code and text alone would have said.
    """

    state: Literal["measured", "not measured"]
    passed: bool | None = None
    failing_check: str | None = None
    why: str = ""
    exit_code: int | None = None
    disagreement: bool = False
    provisional: Literal["pass", "fail", "unknown", "infra"] = "unknown"

    def outcome(self, *, confirmed: bool | None = None, instrument: str | None = None) -> Outcome:
        """The same as the outcome of a step; ``confirmed`` is kept for a failure only."""
        return Outcome(
            state=self.state,
            why=self.why,
            passed=self.passed,
            failing_check=self.failing_check,
            confirmed=confirmed if self.passed is False else None,
            exit_code=self.exit_code,
            instrument=instrument,
        )


def _named(text: str) -> str:
    if found := _NODE.search(text):
        return found[1]
    return "text:" + hashlib.sha256(_CHANGING.sub("~", text).encode("utf-8", "replace")).hexdigest()[:16]


def _reported(text: str) -> bool | None:
    """Whether a JUnit or TAP report in the text is free of failures; None without a report that counts a test."""
    suites = _JUNIT.findall(text)
    if suites:
        count = {
            name: sum(int(n) for suite in suites for n in re.findall(rf'\b{name}="(\d+)"', suite))
            for name in ("tests", "failures", "errors")
        }
        return None if not count["tests"] else not (count["failures"] or count["errors"])
    if re.search(r"^1\.\.[1-9]\d*\b|^TAP version", text, re.MULTILINE) and (points := _TAP.findall(text)):
        return not any(points)
    return None


def classify(exit_code: int | None, text: str) -> Provisional:
    """The generic reading of an exit code and a text, for runners without lists of tests.

    The first rule that fits: exit codes 2 to 5, negative and from 128 on are of the instrument (but 2 of PHPUnit with
    its marks of errors is a failure); a JUnit or TAP report is believed; 0 is a pass unless nothing was selected
    (unknown); a proof that tests ran and failed wins over phrases of collection or build, which without it are of the
    instrument; any other exit code is a failure. Without an exit code the text alone speaks, and unknown is left.

    Source:
        trajectory-corpus-facts.md, section 7.2.
    """
    if exit_code == 2 and _PHP_RED.search(text):
        return Provisional("fail", "exit code 2 with the marks of PHPUnit", _named(text))
    if exit_code is not None and (exit_code in (2, 3, 4, 5) or exit_code < 0 or exit_code >= 128):
        return Provisional("infra", f"exit code {exit_code}")
    report = _reported(text)
    if report is not None:
        return Provisional("pass", "report") if report else Provisional("fail", "report", _named(text))
    if exit_code == 0 or (exit_code is None and not _RAN_AND_FAILED.search(text)):
        if _NOTHING.search(text) and not _RAN_AND_PASSED.search(text):
            return Provisional("unknown", "no test was selected")
        if exit_code == 0 or _RAN_AND_PASSED.search(text):
            return Provisional("pass", "exit code 0" if exit_code == 0 else "tests passed")
        return Provisional("infra", "collection or build") if _NOT_BUILT.search(text) else Provisional("unknown", "")
    if _RAN_AND_FAILED.search(text):
        return Provisional("fail", "tests ran and failed", _named(text))
    if _NOT_BUILT.search(text):
        return Provisional("infra", "collection or build")
    return Provisional("fail", f"exit code {exit_code}", _named(text))


def status_of(check: str, statuses: Mapping[str, Status]) -> Status | None:
    """The status of one test of a list; None where it is absent.

    A name that was cut in its parameter (more ``[`` than ``]``, as in hundreds of names of SWE-bench Verified) stands
    for every name that begins with it, if they all pass or all do not; the first one's status is given. Where they
    differ it is absent.

    Source:
        SWE-bench ``harness/grading.py`` (version 5.0.2), ``_resolve_case``.
    """
    if check in statuses:
        return statuses[check]
    if check.count("[") > check.count("]"):
        found = [status for name, status in statuses.items() if name.startswith(check)]
        if found and len({status in _PASSES for status in found}) == 1:
            return found[0]
    return None


def grade(
    statuses: Mapping[str, Status],
    f2p: Sequence[str],
    p2p: Sequence[str],
    *,
    exit_code: int | None,
    log: str,
) -> Grade:
    """Grade one execution: passed exactly where every test of F2P and P2P passes.

    In this order: (1) :func:`classify`; not measured where (2) the log has one of :data:`INCOMPLETE`, (3) the
    classifier says that it was the instrument, (5) F2P is empty, a test of F2P was skipped, or all of F2P are absent.
    Then (6) PASSED and XFAIL pass, FAILED, ERROR and absent fail, a SKIPPED test of P2P is left out; (7) not measured
    where P2P is not empty, all of F2P pass, something failed, and not one test of P2P was decided (it never ran);
    (8) else passed where nothing failed. The exit code gives no verdict; whether it disagrees with the verdict is
    noted. It can only, by step 3, say that a run was broken off.

    Args:
        statuses: Status by test, from ``log_parsers.parse``.
        f2p: Tests that have to turn from failing to passing.
        p2p: Tests that have to stay passing.
        exit_code: Of the test command; None where unknown.
        log: Its output, for the marks of an incomplete run; nothing of it is kept.

    Returns:
        The grade. One absent test of F2P beside others that are present is a failure, since some runners print a
        failing subtest under another name.

    Source:
        trajectory-corpus-facts.md, section 7.1.
    """
    provisional = classify(exit_code, log)

    def lost(why: str) -> Grade:
        return Grade(state="not measured", why=why, exit_code=exit_code, provisional=provisional.kind)

    for mark, meaning in INCOMPLETE.items():
        if mark in log:
            return lost(f"incomplete: {meaning}")
    if provisional.kind == "infra":
        return lost(f"instrument failure: {provisional.why}")
    if not f2p:
        return lost("no FAIL_TO_PASS test is listed")
    found_f2p = [(check, status_of(check, statuses)) for check in f2p]
    found_p2p = [(check, status_of(check, statuses)) for check in p2p]
    if any(status == "SKIPPED" for _, status in found_f2p):
        return lost("a FAIL_TO_PASS test was skipped")
    if all(status is None for _, status in found_f2p):
        return lost("every FAIL_TO_PASS test is absent")
    failed_f2p = [check for check, status in found_f2p if status not in _PASSES]
    failed_p2p = [check for check, status in found_p2p if status is None or status in _FAILS]
    decided = any(status in _PASSES or status in _FAILS for _, status in found_p2p)
    if p2p and not failed_f2p and failed_p2p and not decided:
        return lost("no PASS_TO_PASS test was decided")
    failed = failed_f2p + failed_p2p
    return Grade(
        state="measured",
        passed=not failed,
        failing_check=failed[0] if failed else None,
        exit_code=exit_code,
        disagreement=exit_code is not None and (exit_code == 0) == bool(failed),
        provisional=provisional.kind,
    )


def confirm(run_check: Callable[[], Grade], first: Grade) -> bool | None:
    """The flake guard: run a failing check once more and say whether it fails on the same test.

    Args:
        run_check: Executes and grades the same state again; called once, and only after a measured failure.
        first: The first grade.

    Returns:
        True where the second execution fails on the same test; False where it passes or fails on another one; None
        where the first grade is no failure (nothing is run) or the second execution was not measured.
    """
    if first.passed is not False:
        return None
    second = run_check()
    if second.state != "measured":
        return None
    return second.passed is False and second.failing_check == first.failing_check


class GradeCount:
    """A fold over grades: verdicts, reasons, and how often the exit code disagrees; two of them merge."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()

    def add(self, one: Grade) -> None:
        """Count one grade."""
        if one.state != "measured":
            self.verdicts["not measured"] += 1
            self.reasons[one.why] += 1
            return
        self.verdicts["passed" if one.passed else "failed"] += 1
        if one.exit_code is not None:
            self.codes["compared"] += 1
            if one.disagreement:
                self.codes["passed, exit code not 0" if one.passed else "failed, exit code 0"] += 1

    def merge(self, other: GradeCount) -> None:
        """Take in another count."""
        self.verdicts.update(other.verdicts)
        self.reasons.update(other.reasons)
        self.codes.update(other.codes)

    def result(self) -> dict[str, dict[str, int]]:
        """``verdicts``, ``reasons`` of what was not measured, and ``exit_code`` over the ``compared`` ones."""
        parts = {"verdicts": self.verdicts, "reasons": self.reasons, "exit_code": self.codes}
        return {name: dict(sorted(part.items())) for name, part in parts.items()}


class _Side(msgspec.Struct, frozen=True):
    success: list[str]
    failure: list[str]


class _Status(msgspec.Struct, frozen=True):
    f2p: _Side = msgspec.field(name="FAIL_TO_PASS")
    p2p: _Side = msgspec.field(name="PASS_TO_PASS")


class _File(msgspec.Struct, frozen=True):
    resolved: bool
    patch_successfully_applied: bool | None = None
    patch_is_None: bool | None = None  # noqa: N815 (the file's own key)
    tests_status: _Status | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One report.json of SWE-bench.

    Attributes:
        instance_id: Where the report is kept under its id (a later form of the file); else None.
        stated: ``resolved`` as the file says.
        recomputed: ``resolved`` from the lists of tests: no failure in F2P or P2P; None without lists or with an
            empty F2P, which SWE-bench counts as resolved.
        failing_check: First failure of F2P, then of P2P.
        f2p, p2p: How many tests passed and failed.
    """

    instance_id: str | None
    stated: bool
    recomputed: bool | None
    failing_check: str | None
    f2p: tuple[int, int] = (0, 0)
    p2p: tuple[int, int] = (0, 0)


def read_report(data: bytes, name: str, issues: list[Issue]) -> Report | None:
    """Read one report and recompute its verdict from its lists of tests.

    Args:
        data: Bytes of the file, the report itself or ``{instance id: report}``.
        name: Name of the file, for issues.
        issues: Takes what is wrong: no report at all, a stated verdict that the lists do not give, lists that
            overlap, resolved although the patch was not applied or there was none, no list of tests.

    Returns:
        The report; None where the file is none, with an issue.
    """
    try:
        raw = msgspec.json.decode(data)
        instance = None
        if isinstance(raw, dict) and "resolved" not in raw and len(raw) == 1:
            instance, raw = next(iter(raw.items()))
        file = msgspec.convert(raw, _File)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        issues.append(Issue(name, "not a report of SWE-bench", got=str(error)[:120]))
        return None

    def say(what: str, got: str = "") -> None:
        issues.append(Issue(name, what, got=got))

    if file.resolved and file.patch_successfully_applied is False:
        say("resolved, although the patch was not applied")
    if file.resolved and file.patch_is_None:
        say("resolved without a patch")
    if file.tests_status is None:
        if file.resolved:
            say("resolved without a list of tests")
        return Report(instance_id=instance, stated=file.resolved, recomputed=None, failing_check=None)
    f2p, p2p = file.tests_status.f2p, file.tests_status.p2p
    both = sum(len(set(side.success) & set(side.failure)) for side in (f2p, p2p))
    if both:
        say("tests listed both as passed and as failed", str(both))
    failed = f2p.failure + p2p.failure
    recomputed = not failed if f2p.success or f2p.failure else None
    if recomputed is None:
        say("no FAIL_TO_PASS test is listed")
    elif recomputed != file.resolved:
        say("resolved differs from the lists of tests", f"stated {file.resolved}, {len(failed)} failed")
    return Report(
        instance_id=instance,
        stated=file.resolved,
        recomputed=recomputed,
        failing_check=failed[0] if failed else None,
        f2p=(len(f2p.success), len(f2p.failure)),
        p2p=(len(p2p.success), len(p2p.failure)),
    )
