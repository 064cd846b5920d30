"""The schema of a run: a header, then one step per decision of the agent.

Formats differ in what they can say; here what was not measured is a state with a reason, so that nothing is green by
default, and what a format does not hold is absent and never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

__all__ = [
    "NOT_MEASURED",
    "SCHEMA",
    "Call",
    "Header",
    "Outcome",
    "Run",
    "Step",
    "Tokens",
    "flat",
    "repository_of",
    "run_id",
    "slug",
]

SCHEMA = "traceaudit-run-1"
"""Version of the file form; a file of another version is a finding and is not read as this one."""

Scalar = bool | int | float | str | None
Pairing = Literal["id", "position", "none"]


class Tokens(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens of one model call, as the provider counted them; None where the raw file has no such count."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action of a decision, with the observation that answers it.

    Attributes:
        id: The format's own id of the call, where it has one.
        tool: Name of the tool, such as ``bash``.
        arguments: The command, or the arguments as JSON text.
        result: What the environment answered; None where no observation was found for it.
        exit_code: The action's own exit code, where the raw file has it.
        time: ISO 8601 time of the observation, where the raw file has it.
        paired: How the observation was found: by ``id``, by ``position`` where the format has no id, or ``none``.
    """

    id: str | None = None
    tool: str = ""
    arguments: str = ""
    result: str | None = None
    exit_code: int | None = None
    time: str | None = None
    paired: Pairing = "none"


class Outcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the workspace after a step passed the tests of the task.

    Attributes:
        state: ``measured``, or ``not measured``; nothing else says anything about the workspace.
        why: The reason where it was not measured (``never graded``, ``state not observed``, ``instrument failure`` …).
        passed: The verdict, exactly where it was measured.
        failing_check: First test that failed, where there is one.
        confirmed: Whether a second execution gave the same failure; None where there was no second execution.
        exit_code: Return code of the grading command, never of the agent's action.
        instrument: Digest of the instrument that wrote this outcome; ``exit_code`` means what that instrument means.
    """

    state: Literal["measured", "not measured"] = "not measured"
    why: str = "never graded"
    passed: bool | None = None
    failing_check: str | None = None
    confirmed: bool | None = None
    exit_code: int | None = None
    instrument: str | None = None

    @property
    def contradiction(self) -> str:
        """What is wrong with the combination of fields; empty for a sound one."""
        if (self.state == "measured") != (self.passed is not None):
            return "a verdict goes with a measured state and with no other"
        if self.state == "measured" and self.why:
            return "a measured outcome has no reason for not being measured"
        if self.state == "not measured" and not self.why:
            return "an outcome that was not measured has a reason"
        if self.passed is not False and (self.failing_check is not None or self.confirmed is not None):
            return "only a failure has a failing check or a confirmation"
        return ""


NOT_MEASURED = Outcome()


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One decision of the agent: what it said, the calls it made, what came back, and what it cost.

    Attributes:
        index: Position in the run, from 0, without gaps.
        text: What the model said beside its calls (thought, message).
        calls: The decision's actions in order; empty where it made none (a malformed answer, a mere message).
        model: The model that answered, as the raw file names it for this step.
        time: ISO 8601 time of the decision, UTC where the raw file says so.
        cost: In US dollars, as the raw file states it.
        tokens: As the provider counted them.
        outcome: The grade of the workspace after this step.
        signals: Further named scalars of this corpus (``retry_count``, ``edit`` …); part of the column audit.
        metadata: Further text of the format that has no place above; free text, never exported.
    """

    index: int
    text: str = ""
    calls: tuple[Call, ...] = ()
    model: str | None = None
    time: str | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    outcome: Outcome = NOT_MEASURED
    signals: dict[str, Scalar] = {}
    metadata: dict[str, str] = {}


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a run as a whole.

    Attributes:
        schema: :data:`SCHEMA`.
        run_id: ``<instance>__<model>__<arm>`` with each part slugged, and ``__<n>`` where a run was repeated; the
            file's name without its ending.
        n_steps: How many steps follow.
        format: The native format and version it came from, such as ``mini-swe-agent-1``; empty for none.
        scaffold: The agent program. ``scaffold_version`` as the raw file states it.
        dataset, dataset_revision, licence: Of the task, for this record.
        instance_id: The task. ``repository``: what it is about, ``owner/name`` or the owner alone.
        model, arm: Of the run; ``arm`` is the variant it was run in (reasoning effort, prompt …).
        captured_at: ISO 8601 time of the first decision that has one.
        resolved: Terminal label; None where nobody graded the run.
        resolved_by: What gave the label (``swebench report``, …); empty for none.
        exit_status: How the scaffold says that the run ended.
        captures: Workspace captures (per-step diffs) that the live run stored; None where unknown.
        instrument: Digest of the instrument that graded the steps; None where none did.
        cost: In US dollars for the whole run, as the raw file states it.
        api_calls: Model calls, as the raw file states them.
        source: Name, bytes and SHA-256 of the raw file.
        redacted: How many passages were replaced before writing.
        content_sha256: Digest of the steps, see ``digests.content_digest``.
    """

    run_id: str
    n_steps: int
    schema: str = SCHEMA
    format: str = ""
    scaffold: str | None = None
    scaffold_version: str | None = None
    dataset: str | None = None
    dataset_revision: str | None = None
    licence: str | None = None
    instance_id: str | None = None
    repository: str | None = None
    model: str | None = None
    arm: str | None = None
    captured_at: str | None = None
    resolved: bool | None = None
    resolved_by: str = ""
    exit_status: str | None = None
    captures: int | None = None
    instrument: str | None = None
    cost: float | None = None
    api_calls: int | None = None
    source: dict[str, Scalar] = {}
    redacted: int = 0
    content_sha256: str = ""


class Run(msgspec.Struct, frozen=True):
    """A header and its steps."""

    header: Header
    steps: tuple[Step, ...]

    @property
    def stamped(self) -> bool:
        """Whether the workspace was graded after some step that is not the last (the last one carries the label)."""
        return any(step.outcome.state == "measured" for step in self.steps[:-1])


_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def slug(part: str) -> str:
    """A part of a run id: every other run of characters becomes ``_``; nothing becomes ``x``."""
    return _UNSAFE.sub("_", part).strip("_") or "x"


def run_id(instance: str, model: str, arm: str, repeat: int = 0) -> str:
    """``<instance>__<model>__<arm>``, with ``__<n>`` from the second run of the same three on."""
    name = "__".join(slug(part) for part in (instance, model, arm))
    return f"{name}__{repeat + 1}" if repeat else name


def repository_of(instance_id: str | None) -> str | None:
    """The owner part of a SWE-bench id (``django`` of ``django__django-11001``); None without one."""
    return instance_id.split("__", 1)[0] if instance_id and "__" in instance_id else None


def flat(step: Step) -> Mapping[str, Any]:
    """A step as one row of named scalars, for the column audit; a missing part gives None."""
    tokens = step.tokens or Tokens()
    first = step.calls[0] if step.calls else Call()
    row: dict[str, Any] = {
        "index": step.index,
        "text": step.text,
        "calls": len(step.calls),
        "tool": first.tool if step.calls else None,
        "arguments": first.arguments if step.calls else None,
        "result": first.result,
        "exit_code": first.exit_code,
        "paired": first.paired if step.calls else None,
        "call_time": first.time,
        "model": step.model,
        "time": step.time,
        "cost": step.cost,
        **{f"tokens.{name}": getattr(tokens, name) for name in Tokens.__struct_fields__},
        **{f"outcome.{name}": getattr(step.outcome, name) for name in Outcome.__struct_fields__},
    }
    row.update({f"signals.{name}": item for name, item in step.signals.items()})
    row.update({f"metadata.{name}": item for name, item in step.metadata.items()})
    return row
