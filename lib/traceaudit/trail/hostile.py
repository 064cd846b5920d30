"""Hostile inputs and what the pinned scorer makes of them: the table that holds the independent engine to it.

A machine without the scorer cannot run it; the table of its outcomes stands in for it there, and every difference of
our engine on any of these inputs shows as a difference from the table.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .engine import Engine, ScoreReport
from .hostile_cases import Case, cases, encode

__all__ = ["CASE", "CONTROLS", "Case", "cases", "differences", "outcome", "outcomes", "read_outcomes", "write_outcomes"]

CASE = "case"
TOLERANCE = 1e-12
KEYS = ("reliability_score", "security_score", "instruction_adherence_score", "plan_opt_score", "overall")


def _control(errors: list[tuple[str, str]], scores: list[float]) -> bytes:
    rows = [{"category": category, "location": location} for category, location in errors]
    return encode({"errors": rows, "scores": [dict(zip(KEYS, scores, strict=True))]})


# Two well-behaved traces beside every case, so that its effect on averages and correlations shows: (gold, reply).
CONTROLS = {
    "control-1": (
        _control([("Goal Deviation", "c1"), ("Tool-related", "c2")], [5, 4, 2, 3, 4.5]),
        _control([("Goal Deviation", "c1"), ("Service Errors", "c2"), ("Rate Limiting", "c9")], [4, 5, 1, 3, 3.25]),
    ),
    "control-2": (
        _control([("Timeout Issues", "c1"), ("Formatting Errors", "c3"), ("Service Errors", "c4")], [1, 2, 5, 4, 2.0]),
        _control([("Formatting Errors", "c3"), ("Timeout Issues", "c2")], [2, 1, 3, 5, 2.75]),
    ),
}


def outcomes(engine: Engine) -> dict[str, dict[str, Any]]:
    """Case id -> what ``engine`` makes of it; see :func:`outcome`."""
    return {case.id: outcome(engine, case) for case in cases()}


def outcome(engine: Engine, case: Case) -> dict[str, Any]:
    """Score one case beside the controls.

    Returns:
        JSON: ``joint``, ``location`` and ``weighted_f1`` of the three traces; ``status`` of the case (``scored``,
        ``missing`` or the class of the exception it was dropped with, never its message, which differs between versions
        of Python); ``lost``, present if a control did not come through; ``labels``: label -> [precision, recall, F1,
        support] where any is not 0; ``correlations``: column -> [r, p, n]. NaN is the text "nan".
    """
    gold = {trace: pair[0] for trace, pair in CONTROLS.items()} | {CASE: case.gold}
    replies = {trace: pair[1] for trace, pair in CONTROLS.items()}
    if case.reply is not None:
        replies[CASE] = case.reply
    return _as_json(engine.score(gold, replies))


def _as_json(report: ScoreReport) -> dict[str, Any]:
    status = "scored" if CASE in report.scored else "missing" if CASE in report.missing else "not accounted for"
    if CASE in report.dropped:
        status = report.dropped[CASE].partition(":")[0]
    lost = [trace for trace in CONTROLS if trace not in report.scored]
    rows = {label: [row.precision, row.recall, row.f1, row.support] for label, row in report.categories.items()}
    found: dict[str, Any] = {
        "status": status,
        "joint": _number(report.joint),
        "location": _number(report.location),
        "weighted_f1": _number(report.weighted_f1),
        "labels": {label: [_number(figure) for figure in row] for label, row in rows.items() if any(row)},
        "correlations": {name: [_number(c.r), _number(c.p), c.n] for name, c in report.correlations.items()},
    }
    return found | ({"lost": lost} if lost else {})


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def differences(expected: Any, measured: Any, where: str = "") -> list[str]:
    """Every leaf in which two outcomes (or tables of them) differ; floats may differ by 1e-12.

    Returns:
        One line a leaf: where, expected, measured; empty if they are equal.
    """
    if isinstance(expected, Mapping) and isinstance(measured, Mapping):
        keys = [*expected, *(key for key in measured if key not in expected)]
        return [
            line
            for key in keys
            for line in differences(expected.get(key), measured.get(key), f"{where}.{key}" if where else str(key))
        ]
    if isinstance(expected, list) and isinstance(measured, list) and len(expected) == len(measured):
        pairs = enumerate(zip(expected, measured, strict=True))
        return [line for at, pair in pairs for line in differences(*pair, f"{where}[{at}]")]
    numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (expected, measured))
    if expected == measured or (numbers and math.isclose(expected, measured, rel_tol=0, abs_tol=TOLERANCE)):
        return []
    return [f"{where}: expected {expected!r}, measured {measured!r}"]


def read_outcomes(path: Path) -> dict[str, dict[str, Any]]:
    """The stored table: case id -> ``input`` (digest of the case's bytes) and ``outcome``."""
    table = json.loads(path.read_text(encoding="utf-8"))
    return {name: {"input": seen, "outcome": table["outcomes"][at]} for name, (seen, at) in table["cases"].items()}


def write_outcomes(engine: Engine, path: Path) -> int:
    """Write the table anew; only the upstream engine's outcomes belong into it.

    One line a distinct outcome, in order of first use; then one line a case: id, digest of its input, place of its
    outcome in the list.

    Returns:
        The number of cases.
    """
    found = {name: json.dumps(row) for name, row in outcomes(engine).items()}
    distinct = {row: at for at, row in enumerate(dict.fromkeys(found.values()))}
    lines = [f"{json.dumps(case.id)}: {json.dumps([digest(case), distinct[found[case.id]]])}" for case in cases()]
    made_by = json.dumps({"engine": engine.name, "sha256": getattr(engine, "sha256", None)})
    parts = (f'"made_by": {made_by}', _block("outcomes", "[]", distinct), _block("cases", "{}", lines))
    path.write_text('{"schema": 1, ' + ", ".join(parts) + "}\n", encoding="utf-8")
    return len(lines)


def _block(name: str, ends: str, lines: Iterable[str]) -> str:
    return f'"{name}": {ends[0]}\n' + ",\n".join(lines) + f"\n{ends[1]}"


def digest(case: Case) -> str:
    """Sixteen hexadecimal digits over what the case and the controls hold, so that a stale table is noticed."""
    controls = (part for pair in CONTROLS.values() for part in pair)
    parts = [case.gold, b"-" if case.reply is None else case.reply, *controls]
    return hashlib.sha256(b"".join(b"%d:%s," % (len(part), part) for part in parts)).hexdigest()[:16]
