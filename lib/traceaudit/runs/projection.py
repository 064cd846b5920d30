"""What of a run may be published: numbers, truth values, enumerations, digests, strict identifiers, and no free text.

A whitelist that nothing enforces does not hold; here what leaves is a type of its own that has no place for free text,
and the bytes are read back as that type before they are written.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ..errors import NothingToCheck, UsageError, ValueProblem
from ..records import write_whole
from .files import iter_runs
from .issues import Issue
from .schema import Outcome, Pairing, Run, Step
from .secrets import redact, sweep

__all__ = [
    "DECISIONS",
    "PROJECTION",
    "Exported",
    "Projected",
    "ProjectedHeader",
    "ProjectedStep",
    "encode",
    "export",
    "project",
]

PROJECTION = "traceaudit-projection-1"
"""Version of the projected form."""
_HEX = r"[0-9a-f]{64}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,199}"
_FILE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?"
_SIGNAL = r"[a-z][a-z0-9_.]{0,63}"
_HASHED = rf"sha256:{_HEX}"
Identifier = Annotated[str, msgspec.Meta(pattern=rf"\A({_HASHED}|{_NAME})\Z")]
"""A name without spaces, or the digest of whatever stood there instead."""
RunId = Annotated[str, msgspec.Meta(pattern=rf"\A(sha256-{_HEX}|{_FILE})\Z")]
Time = Annotated[str, msgspec.Meta(pattern=rf"\A({_HASHED}|{_TIME})\Z")]
Digest = Annotated[str, msgspec.Meta(pattern=rf"\A({_HASHED}|{_HEX})\Z")]
Hashed = Annotated[str, msgspec.Meta(pattern=rf"\A{_HASHED}\Z")]
SignalName = Annotated[str, msgspec.Meta(pattern=rf"\A{_SIGNAL}\Z")]
Label = Literal["", "swebench report", "raw file", "other"]
Why = Literal["", "never graded", "state not observed", "instrument failure", "not sampled", "other"]
State = Literal["measured", "not measured"]

DECISIONS: dict[str, dict[str, str]] = {
    "Header": {
        "run_id": "run id",
        "n_steps": "number",
        "schema": "identifier",
        "format": "identifier",
        "scaffold": "identifier",
        "scaffold_version": "identifier",
        "dataset": "identifier",
        "dataset_revision": "identifier",
        "licence": "identifier",
        "instance_id": "identifier",
        "repository": "identifier",
        "model": "identifier",
        "arm": "identifier",
        "captured_at": "time",
        "resolved": "truth",
        "resolved_by": "enumeration",
        "exit_status": "identifier",
        "captures": "number",
        "instrument": "digest",
        "cost": "number",
        "api_calls": "number",
        "source": "left out",  # bytes and digest are taken, its name is a path
        "redacted": "number",
        "content_sha256": "digest",
    },
    "Step": {
        "index": "number",
        "text": "left out",
        "calls": "struct",
        "model": "identifier",
        "time": "time",
        "cost": "number",
        "tokens": "struct",
        "outcome": "struct",
        "signals": "numbers",  # numbers and truth values under a strict name; text is left out
        "metadata": "left out",
    },
    "Call": {
        "id": "left out",
        "tool": "identifier",
        "arguments": "left out",
        "result": "left out",  # whether there is one is told
        "exit_code": "number",
        "time": "time",
        "paired": "enumeration",
    },
    "Tokens": dict.fromkeys(("input", "output", "cache_read", "cache_write", "reasoning"), "number"),
    "Outcome": {
        "state": "enumeration",
        "why": "enumeration",
        "passed": "truth",
        "failing_check": "hashed",  # or as it is, redacted, where the caller permits it
        "confirmed": "truth",
        "exit_code": "number",
        "instrument": "digest",
    },
}
"""What becomes of every field of the schema; a test holds it equal to the schema's own list of fields."""


class ProjectedTokens(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See ``schema.Tokens``."""

    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None
    reasoning: int | None


class ProjectedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call without its arguments and its result."""

    tool: Identifier | None
    answered: bool
    exit_code: int | None
    time: Time | None
    paired: Pairing


class ProjectedOutcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See ``schema.Outcome``; ``check`` is there only where the caller permits names of tests, redacted."""

    state: State
    why: Why
    passed: bool | None
    failing_check: Hashed | None
    check: str | None
    confirmed: bool | None
    exit_code: int | None
    instrument: Digest | None


class ProjectedStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step without its text."""

    index: int
    calls: tuple[ProjectedCall, ...]
    model: Identifier | None
    time: Time | None
    cost: float | None
    tokens: ProjectedTokens | None
    outcome: ProjectedOutcome
    signals: dict[SignalName, bool | int | float | None]


class ProjectedHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A header without free text."""

    projection: Literal["traceaudit-projection-1"]
    run_id: RunId
    n_steps: int
    schema: Identifier | None
    format: Identifier | None
    scaffold: Identifier | None
    scaffold_version: Identifier | None
    dataset: Identifier | None
    dataset_revision: Identifier | None
    licence: Identifier | None
    instance_id: Identifier | None
    repository: Identifier | None
    model: Identifier | None
    arm: Identifier | None
    captured_at: Time | None
    resolved: bool | None
    resolved_by: Label
    exit_status: Identifier | None
    captures: int | None
    instrument: Digest | None
    cost: float | None
    api_calls: int | None
    source_bytes: int | None
    source_sha256: Digest | None
    redacted: int
    content_sha256: Digest | None
    names_checks: bool


class Projected(msgspec.Struct, frozen=True):
    """A run as it may be published, and how often a text that fitted no strict form was hashed, by field."""

    header: ProjectedHeader
    steps: tuple[ProjectedStep, ...]
    hashed: dict[str, int] = {}


class Exported(msgspec.Struct, frozen=True):
    """What an export wrote: runs, steps, texts that were hashed by field, and what was wrong."""

    runs: int
    steps: int
    hashed: dict[str, int]
    issues: list[Issue]


_PATTERNS = {"identifier": _NAME, "run id": _FILE, "time": _TIME, "digest": _HEX}
_FORMS = {kind: re.compile(rf"({_HASHED}|{pattern})\Z") for kind, pattern in _PATTERNS.items()}
_SIGNAL_FORM = re.compile(rf"{_SIGNAL}\Z")
_ENCODE = msgspec.json.Encoder().encode
_HEADER, _STEP = msgspec.json.Decoder(ProjectedHeader), msgspec.json.Decoder(ProjectedStep)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class _Projector:
    """Applies :data:`DECISIONS` to one run, and counts what it had to hash."""

    def __init__(self, checks: bool) -> None:
        self.checks = checks
        self.hashed: Counter[str] = Counter()

    def text(self, kind: str, where: str, value: Any) -> Any:
        """A text that has the strict form of its kind and is no credential, or its digest; empty gives None."""
        if not value or not isinstance(value, str):
            return value or None
        if _FORMS[kind].match(value) and not sweep(value):
            return value
        self.hashed[where] += 1
        return ("sha256-" if kind == "run id" else "sha256:") + _sha256(value)

    def one_of(self, where: str, value: str, known: tuple[str, ...]) -> str:
        if value in known:
            return value
        self.hashed[where] += 1
        return "other"

    def fields(self, record: msgspec.Struct) -> dict[str, Any]:
        """The fields of a struct that go over as they are or as an identifier, time or digest."""
        kind = type(record).__name__
        done: dict[str, Any] = {}
        for name, decision in DECISIONS[kind].items():
            value = getattr(record, name)
            if decision in ("number", "truth"):
                done[name] = None if isinstance(value, float) and not math.isfinite(value) else value
            elif decision in _FORMS:
                done[name] = self.text(decision, f"{kind}.{name}", value)
        return done

    def outcome(self, outcome: Outcome) -> ProjectedOutcome:
        check = outcome.failing_check
        return ProjectedOutcome(
            **self.fields(outcome),
            state=outcome.state,
            why=self.one_of("Outcome.why", outcome.why, Why.__args__),  # type: ignore[attr-defined,arg-type]
            failing_check=None if check is None else f"sha256:{_sha256(check)}",
            check=redact(check)[0] if check is not None and self.checks else None,
        )

    def signals(self, signals: Mapping[str, Any]) -> dict[str, bool | int | float | None]:
        kept: dict[str, bool | int | float | None] = {}
        for name, value in signals.items():
            if not _SIGNAL_FORM.match(name) or isinstance(value, str) or sweep(name):
                self.hashed["Step.signals (left out)"] += 1
            else:
                kept[name] = None if isinstance(value, float) and not math.isfinite(value) else value
        return kept

    def step(self, step: Step) -> ProjectedStep:
        calls = (
            ProjectedCall(**self.fields(call), answered=call.result is not None, paired=call.paired)
            for call in step.calls
        )
        return ProjectedStep(
            **self.fields(step),
            calls=tuple(calls),
            tokens=None if step.tokens is None else ProjectedTokens(**self.fields(step.tokens)),
            outcome=self.outcome(step.outcome),
            signals=self.signals(step.signals),
        )

    def run(self, run: Run) -> Projected:
        header, source = run.header, run.header.source
        size = source.get("bytes")
        projected = ProjectedHeader(
            **self.fields(header),
            projection="traceaudit-projection-1",
            resolved_by=self.one_of("Header.resolved_by", header.resolved_by, Label.__args__),  # type: ignore[attr-defined,arg-type]
            source_bytes=size if isinstance(size, int) else None,
            source_sha256=self.text("digest", "Header.source", source.get("sha256")),
            names_checks=self.checks,
        )
        return Projected(projected, tuple(map(self.step, run.steps)), dict(self.hashed))


def project(run: Run, *, checks: bool = False) -> Projected:
    """A run as it may be published.

    A text in a field for identifiers, times or digests that does not have that form, or is a credential, is replaced by
    its SHA-256; a reason or source of a label that is not a known one becomes ``other``. Both are counted by field.

    Args:
        run: The run.
        checks: Permit names of tests (``outcome.check``, redacted). They can hold any text that a task's tests have in
            their parameters. Without it there is only their SHA-256, which hides no name that can be guessed.
    """
    return _Projector(checks).run(run)


def encode(projected: Projected) -> bytes:
    """The bytes of a projected run: header line, then a line per step, ASCII where the names of tests are.

    Raises:
        ValueProblem: a field holds what its type has no place for; nothing is given then.
    """
    lines: list[bytes] = []
    decoders: Iterable[tuple[Any, msgspec.json.Decoder[Any]]] = [
        (projected.header, _HEADER),
        *((step, _STEP) for step in projected.steps),
    ]
    for number, (record, decoder) in enumerate(decoders, 1):
        try:
            line = _ENCODE(record)
            checked = decoder.decode(line)
            same = _ENCODE(checked) == line
        except (msgspec.MsgspecError, UnicodeEncodeError, TypeError) as error:
            where = re.sub(r"(?s).* - at ", "", str(error)) if isinstance(error, msgspec.ValidationError) else ""
            raise ValueProblem(
                "a projected run holds what its type has no place for",
                where=f"line {number}" + (f", {where}" if where.startswith("`$") else ""),
                expected="numbers, truth values, enumerations, digests and identifiers",
                next_step="project the run with project(), or correct the run",
            ) from None
        if not same or (not projected.header.names_checks and b'"check":"' in line):
            raise ValueProblem(
                "a projected run names a test without permission, or is not of its type",
                where=f"line {number}",
                next_step="project the run with project(run, checks=True)",
            )
        lines.append(line)
    return b"\n".join([*lines, b""])


def export(folder: Path, target: Path, *, checks: bool = False) -> Exported:
    """Write the projection of every readable run of a corpus, one file each, whole or not at all.

    Args:
        folder: The corpus; one run is in memory at a time.
        target: Where ``<run_id>.jsonl`` is written; other files there are left alone.
        checks: See :func:`project`.

    Returns:
        Counts and issues; a run that cannot be read, projected or named apart is an issue and hides no other.

    Raises:
        NothingToCheck: there is no such folder.
        UsageError: the target is the corpus itself.
    """
    if not folder.is_dir():
        raise NothingToCheck("there are no runs here", where=str(folder), next_step="traceaudit runs normalize")
    if target.resolve() == folder.resolve():
        raise UsageError("an export would overwrite the corpus", where=str(target), next_step="give another target")
    issues: list[Issue] = []
    hashed: Counter[str] = Counter()
    written: set[str] = set()
    steps = 0
    for run in iter_runs(folder, issues):
        projected = project(run, checks=checks)
        name = f"{projected.header.run_id}.jsonl"
        if name in written:
            issues.append(Issue(name, "a second run of this id is not exported"))
            continue
        try:
            content = encode(projected)
        except ValueProblem as error:
            issues.append(Issue(name, error.what, None, error.where))
            continue
        write_whole(target / name, content)
        written.add(name)
        hashed.update(projected.hashed)
        steps += len(projected.steps)
    return Exported(len(written), steps, dict(sorted(hashed.items())), issues)
