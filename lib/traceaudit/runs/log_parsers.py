"""Logs of test runs: the status of each test that a log names, for pytest, unittest and sympy's own runner.

A grade rests on what single tests did and not on how the command ended, so the log is read for that and thrown away:
what is kept is names of tests and their statuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from ..errors import UsageError

__all__ = ["END", "PARSERS", "PARSER_OF", "START", "ParsedLog", "Status", "detect", "parse", "section"]

Status = Literal["PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL"]
"""What SWE-bench knows of a test; a test that is not in a log has no status and is called absent."""

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
"""The marks that SWE-bench's evaluation script prints around the output of the test command."""

PARSER_OF: Mapping[str, str] = MappingProxyType(
    {
        "django": "unittest",
        "matplotlib": "pytest, buttons as numbers",
        "psf": "pytest, last part of a path",
        "pydicom": "pytest, last part of a path",
        "pylint-dev": "pytest, last part of a path",
        "sympy": "sympy",
    }
)
"""The parser by owner, the first part of a SWE-bench id; every other owner of SWE-bench Verified uses ``pytest``."""

Pair = tuple[str, Status]

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f]")
_SUMMARY = re.compile(r"(PASSED|FAILED|ERROR|SKIPPED|XFAIL)\s+(\S.*)")
_SKIP_COUNT = re.compile(r"\[\d+\](\s|$)")
_VERBOSE = re.compile(r"(\S*\.py::.*?)\s+(PASSED|FAILED|ERROR|SKIPPED|XFAIL)(?: \(.*\))?\s*(?:\[\s*\d+%\])?\s*")
_WORKER = re.compile(r"\[gw\d+\] \[\s*\d+%\] (PASSED|FAILED|ERROR|SKIPPED|XFAIL) (\S.*)")
_PARAMETER = re.compile(r"(.*?)\[(/(?!/).*)\]")
_UNITTEST: tuple[tuple[str, Status], ...] = (
    ("ok", "PASSED"),
    ("OK", "PASSED"),
    ("FAIL", "FAILED"),
    ("ERROR", "ERROR"),
    ("expected failure", "XFAIL"),
    ("unexpected success", "FAILED"),
)
_HEADING = re.compile(r"(FAIL|ERROR): (\S+(?: \([\w.]+\))?)")
_SYMPY: Mapping[str, Status] = {"ok": "PASSED", "F": "FAILED", "E": "ERROR", "f": "XFAIL", "s": "SKIPPED"}
_SYMPY_LINE = re.compile(r"(test_\S*)(?: .*)? (ok|F|E|f|s)(?:\s+\[(?:OK|FAIL)\])?")
_SYMPY_HEADING = re.compile(r"_{3,} (\S+\.py:\S+) _{3,}")


class ParsedLog(msgspec.Struct, frozen=True):
    """What one log says.

    Attributes:
        kind: Name of the parser.
        statuses: Last status of each test by its name as the runner prints it.
        repeated: Names printed again with the same status, as a verbose run with a summary prints them.
        conflicts: Times that a name was printed with another status than just before it.
    """

    kind: str
    statuses: dict[str, Status]
    repeated: int
    conflicts: int


def section(log: str) -> str:
    """The output of the test command: what stands between SWE-bench's marks; the whole log where they are absent.

    A log that has the first mark and not the second was cut; all after the first mark is taken.
    """
    before, mark, after = log.partition(START)
    return after.partition(END)[0] if mark else before


def _without_message(rest: str) -> str:
    """The name in a summary line, without `` - message``; a `` - `` in the brackets of a parameter is of the name."""
    cut, bracket = rest.find(" - "), rest.find("[")
    if cut >= 0 and 0 <= bracket < cut:
        close = rest.find("] - ", bracket)
        cut = close + 1 if close >= 0 else (-1 if rest.endswith("]") else cut)
    return rest if cut < 0 else rest[:cut]


def _pytest(text: str) -> Iterator[Pair]:
    """Lines of ``-rA`` (``FAILED name - message``), of ``-v`` (``name PASSED [ 9%]``) and of xdist's ``-v``."""
    for raw in text.split("\n"):
        line = _ESCAPES.sub("", raw).rstrip()
        if found := _SUMMARY.match(line):
            status, rest = found.groups()
            if status == "SKIPPED" and _SKIP_COUNT.match(rest):
                continue  # "SKIPPED [3] file:line: reason" counts skips and names no test
            yield rest if status == "PASSED" else _without_message(rest), status  # type: ignore[misc]
        elif found := _VERBOSE.fullmatch(line):
            yield found[1], found[2]  # type: ignore[misc]
        elif found := _WORKER.fullmatch(line):
            yield found[2], found[1]  # type: ignore[misc]


def _last_part(text: str) -> Iterator[Pair]:
    """Pytest where SWE-bench's lists hold of a path in a parameter its last part only."""
    for name, status in _pytest(text):
        if (found := _PARAMETER.fullmatch(name)) and "*" not in found[2]:
            name = f"{found[1]}[/{found[2].rsplit('/', 1)[-1]}]"
        yield name, status


def _buttons(text: str) -> Iterator[Pair]:
    """Pytest where SWE-bench's lists hold matplotlib's mouse buttons as numbers."""
    for name, status in _pytest(text):
        yield name.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"), status


def _unittest(text: str) -> Iterator[Pair]:
    """Lines ``name ... ok``; the result may stand on a later line where the test itself printed something.

    The name is what stands before `` ... ``: a test with a docstring is named by its docstring, as in SWE-bench's
    lists. A heading ``FAIL: name (module.Class) (parameters)`` names the test of a failing subtest, which has no line.
    """
    waiting: str | None = None
    for raw in text.split("\n"):
        line = _ESCAPES.sub("", raw).strip()
        if found := _HEADING.match(line):
            yield found[2], "FAILED" if found[1] == "FAIL" else "ERROR"
            waiting = None
            continue
        name, dots, end = line.rpartition(" ... ")
        if dots:
            end = end.strip()
            status = _result(end)
            waiting = name if status is None else None
            if status is not None:
                yield name, status
        elif waiting is not None and (status := _result(line)) is not None:
            yield waiting, status
            waiting = None


def _result(end: str) -> Status | None:
    if end.startswith("skipped"):
        return "SKIPPED"
    return next((status for word, status in _UNITTEST if end == word), None)


def _sympy(text: str) -> Iterator[Pair]:
    """Lines ``test_x ok`` (``F``, ``E``, ``f`` for an expected failure, ``s``), headings ``___ file.py:test_x ___``."""
    for raw in text.split("\n"):
        line = _ESCAPES.sub("", raw).strip()
        if found := _SYMPY_LINE.fullmatch(line):
            yield found[1], _SYMPY[found[2]]
        elif found := _SYMPY_HEADING.fullmatch(line):
            yield found[1], "FAILED"


PARSERS: Mapping[str, Callable[[str], Iterator[Pair]]] = MappingProxyType(
    {
        "pytest": _pytest,
        "pytest, buttons as numbers": _buttons,
        "pytest, last part of a path": _last_part,
        "sympy": _sympy,
        "unittest": _unittest,
    }
)


def detect(log: str) -> str:
    """The parser for a log by what its runner prints about itself; ``pytest`` where nothing tells."""
    if "test process starts" in log:
        return "sympy"
    if "test session starts" not in log and re.search(r"^Ran \d+ tests? in ", log, re.MULTILINE):
        return "unittest"
    return "pytest"


def parse(log: str, kind: str | None = None) -> ParsedLog:
    """Read the statuses of one log.

    Only the output between SWE-bench's marks is read, and the whole log where nothing is found there (some engines
    print the two streams in another order). Of two statuses of one name the last one counts, as in SWE-bench; pytest
    prints its errors and failures after its passes. ``XPASS`` is no status of SWE-bench and leaves a test absent.

    Args:
        log: Output of the test command, both streams.
        kind: Name of a parser of :data:`PARSERS`; by content without one.

    Returns:
        The statuses; none for an empty log.

    Raises:
        UsageError: no parser of this name.

    Source:
        SWE-bench ``harness/log_parsers/python.py`` (version 5.0.2), from which ours differs: a name of pytest keeps
        its spaces, colours are removed for every repository, an expected failure of unittest is ``XFAIL``, and a
        failing subtest is named by its heading.
    """
    chosen = detect(log) if kind is None else kind
    if chosen not in PARSERS:
        raise UsageError("no parser of this name", where=chosen, expected=", ".join(PARSERS), next_step="name one")
    statuses: dict[str, Status] = {}
    repeated = conflicts = 0
    for text in dict.fromkeys((section(log), log)):
        for name, status in PARSERS[chosen](text):
            before = statuses.get(name)
            repeated += before == status
            conflicts += before is not None and before != status
            statuses[name] = status
        if statuses:
            break
    return ParsedLog(chosen, statuses, repeated, conflicts)
