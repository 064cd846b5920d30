"""Replay of a run's per-step diffs: the plan, the admissibility gate, and the outcome of each step.

A stored diff turns into an outcome only by executing it, so what would be executed is listed first, a task whose
tests cannot tell base from gold is refused, and whatever the instrument lost is not measured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

import msgspec

from ..errors import NothingToCheck
from .grading import Grade, GradeCount, confirm, grade
from .log_parsers import parse
from .schema import NOT_MEASURED, Outcome, Run

__all__ = [
    "Admission",
    "Execution",
    "Executor",
    "Patch",
    "Plan",
    "PlannedStep",
    "Replayed",
    "Session",
    "Spec",
    "adjudicate",
    "admit",
    "admit_logs",
    "instrument_digest",
    "plan",
    "replay",
    "stamp",
]

Role = Literal["step", "gold", "test"]


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known of a task before a state of its workspace can be graded.

    Attributes:
        instance_id: The task.
        base_commit: The commit that the diffs apply to.
        command: The test command, as arguments.
        f2p, p2p: The tests that decide.
        gold_patch, test_patch: As unified diffs; the test patch goes onto every state before the command.
        parser: Name of a parser of ``log_parsers.PARSERS``; None chooses by content.
        seconds: Limit of one execution.
    """

    instance_id: str
    base_commit: str
    command: tuple[str, ...]
    f2p: tuple[str, ...]
    p2p: tuple[str, ...] = ()
    gold_patch: bytes = b""
    test_patch: bytes = b""
    parser: str | None = None
    seconds: float = 1800.0


class Patch(msgspec.Struct, frozen=True):
    """A unified diff and what it is for; ``test`` goes on last, its files being put back to the base before."""

    role: Role
    diff: bytes


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """What an executor saw; ``failed`` names the stage that failed before or around the command, else it is empty."""

    exit_code: int | None = None
    log: str = ""
    failed: str = ""


class Session(Protocol):
    """A workspace that is open; every execution starts from the base again."""

    def execute(self, patches: Sequence[Patch]) -> Execution:
        """Reset, apply the patches, run the command; a stage that fails is named and never raised."""
        ...


class Executor(Protocol):
    """Where states are executed."""

    @property
    def name(self) -> str:
        """Part of the instrument's digest."""
        ...

    def commands(self, spec: Spec, roles: Sequence[Role]) -> tuple[str, ...]:
        """What one execution would run, in order; nothing is run."""
        ...

    def open(self, spec: Spec) -> AbstractContextManager[Session]:
        """Make a workspace and take it away at the end, whatever happened."""
        ...


class PlannedStep(msgspec.Struct, frozen=True):
    """One execution: ``label`` is ``base``, ``gold`` or the step's index, ``sha256`` of its own diff."""

    label: str
    size: int
    sha256: str
    commands: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay would execute.

    Attributes:
        run_id: The run.
        gate: The base and the gold leg.
        steps: A step each, by index.
        without_capture: Steps (but the last) that have no capture; they stay not measured.
        terminal_skipped: Whether the last step has a capture; it carries the label and is not replayed.
        orphans: Captures of steps that the run does not have.
        refusals: Why nothing may be executed; a refused run keeps its outcomes.
        nothing_captured: Whether the header says that the live run captured nothing: there is nothing to replay, ever.
    """

    run_id: str
    gate: tuple[PlannedStep, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    without_capture: tuple[int, ...] = ()
    terminal_skipped: bool = False
    orphans: tuple[int, ...] = ()
    refusals: tuple[str, ...] = ()
    nothing_captured: bool = False

    def lines(self) -> list[str]:
        """The plan to read, a line for each refusal or command."""
        if self.refusals:
            return [f"{self.run_id}: refused: {refusal}" for refusal in self.refusals]
        if self.nothing_captured:
            return [f"{self.run_id}: nothing was captured, nothing to replay"]
        out = []
        for step in (*self.gate, *self.steps):
            out.append(f"{self.run_id} {step.label}: diff of {step.size} bytes, sha256 {step.sha256[:12]}")
            out += [f"    {command}" for command in step.commands]
        return out


class Admission(msgspec.Struct, frozen=True):
    """Whether a task can tell base from gold, and the reason where it cannot."""

    admitted: bool
    why: str = ""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay gave.

    Attributes:
        run_id: The run.
        admission: The gate's verdict; None where nothing was captured.
        outcomes: Outcome of every step but the last, by index.
        instrument: Digest of what graded.
        counts: Result of ``grading.GradeCount`` over the executed steps.
    """

    run_id: str
    admission: Admission | None
    outcomes: dict[int, Outcome]
    instrument: str
    counts: dict[str, dict[str, int]]


def plan(run: Run, captures: Mapping[int, bytes] | None, spec: Spec, executor: Executor) -> Plan:
    """List what a replay of ``run`` would execute, or why it must not; nothing is executed.

    Args:
        run: The run.
        captures: The stored diffs by step index, an empty one for a step that changed nothing; None or none at all
            where they are not here.
        spec: The task.
        executor: Says which commands it would run.

    Returns:
        The plan. Refused where the header does not know how many captures there were, where they are missing, where
        another number is here than the header says, or where the task is another one. ``captures`` of 0 in the header
        is no refusal: it was never possible.

    Source:
        trajectory-corpus-facts.md, section 7.5, steps 1 to 3; the last step is left out as in section 6.
    """
    stored = dict(captures or {})
    said = run.header.captures
    refusals = []
    if run.header.instance_id is not None and run.header.instance_id != spec.instance_id:
        refusals.append(f"the task is {spec.instance_id} and the run is of {run.header.instance_id}")
    if not spec.command:
        refusals.append("the task has no test command")
    if said is None:
        refusals.append("the header does not say how many captures there were")
    elif said and not stored:
        refusals.append(f"the captures are missing: {said} were stored and none is here")
    elif said != len(stored):
        refusals.append(f"the number of captures differs: the header says {said}, {len(stored)} are here")
    if refusals:
        return Plan(run_id=run.header.run_id, refusals=tuple(refusals))
    if said == 0:
        return Plan(run_id=run.header.run_id, nothing_captured=True)
    indexes = [step.index for step in run.steps]
    graded, last = indexes[:-1], indexes[-1:]
    step_commands = executor.commands(spec, ("step", "test"))
    return Plan(
        run_id=run.header.run_id,
        gate=(
            _planned("base", b"", executor.commands(spec, ("test",))),
            _planned("gold", spec.gold_patch, executor.commands(spec, ("gold", "test"))),
        ),
        steps=tuple(_planned(str(index), stored[index], step_commands) for index in graded if index in stored),
        without_capture=tuple(index for index in graded if index not in stored),
        terminal_skipped=any(index in stored for index in last),
        orphans=tuple(sorted(set(stored) - set(indexes))),
    )


def _planned(label: str, diff: bytes, commands: tuple[str, ...]) -> PlannedStep:
    return PlannedStep(label, len(diff), hashlib.sha256(diff).hexdigest(), commands)


def adjudicate(execution: Execution, spec: Spec) -> Grade:
    """The grade of one execution; a failed stage is not measured, and the same rules hold for gate and steps."""
    if execution.failed:
        why = f"instrument failure: {execution.failed}"
        return Grade(state="not measured", why=why, exit_code=execution.exit_code, provisional="infra")
    parsed = parse(execution.log, spec.parser)
    return grade(parsed.statuses, spec.f2p, spec.p2p, exit_code=execution.exit_code, log=execution.log)


def admit(base: Grade, gold: Grade, f2p: Collection[str]) -> Admission:
    """The admissibility gate: base must fail on a test of F2P, and gold must pass.

    Args:
        base: Grade of the base with the test patch.
        gold: Grade of the base with gold and test patch.
        f2p: The tests that have to turn.

    Returns:
        Admitted, or the first reason against it; a leg that was not measured admits nothing.
    """
    for leg, found in (("base", base), ("gold", gold)):
        if found.state != "measured":
            return Admission(False, f"the {leg} leg was not measured: {found.why}")
    if base.passed:
        return Admission(False, "base passes")
    if base.failing_check not in f2p:
        return Admission(False, "base fails on no FAIL_TO_PASS test")
    return Admission(True) if gold.passed else Admission(False, "gold fails")


def admit_logs(base_log: str, gold_log: str, spec: Spec) -> Admission:
    """:func:`admit` on two stored logs, for which no exit code is known."""
    base, gold = (adjudicate(Execution(log=log), spec) for log in (base_log, gold_log))
    return admit(base, gold, spec.f2p)


def instrument_digest(spec: Spec, executor: Executor) -> str:
    """SHA-256 over what grades: executor, commands, lists of tests, test patch, parser, and what ``exit_code`` means.

    Two outcomes with different digests were not made by the same instrument and their exit codes are not comparable.
    """
    content = {
        "exit_code": "return code of the test command of the replay",
        "executor": executor.name,
        "commands": executor.commands(spec, ("step", "test")),
        "spec": {**msgspec.to_builtins(spec), "gold_patch": hashlib.sha256(spec.gold_patch).hexdigest()},
    }
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()


def replay(
    planned: Plan,
    captures: Mapping[int, bytes],
    spec: Spec,
    executor: Executor,
    *,
    only: Collection[int] | None = None,
    admission: Admission | None = None,
    confirm_failures: bool = True,
) -> Replayed:
    """Execute a plan: the gate, then each step; a failure is executed a second time before it counts as confirmed.

    Args:
        planned: From :func:`plan`; its digests bind the captures.
        captures: The stored diffs by step index.
        spec: The task.
        executor: Where to execute.
        only: Step indexes to execute (a sample); the others are ``not sampled``. None takes all.
        admission: A verdict of the gate made before by the same instrument; the gate is executed without one.
        confirm_failures: Whether to execute a failure again; without it ``confirmed`` stays None.

    Returns:
        The outcomes. Where the gate rejects the task no step is executed and every outcome is cleared with the reason.

    Raises:
        NothingToCheck: the plan was refused, or a capture is not the one that was planned; outcomes that a run has
            are then not touched.
    """
    if planned.refusals:
        raise NothingToCheck(
            planned.refusals[0], where=planned.run_id, next_step="bring the captures of the host that ran it here"
        )
    for step in planned.steps:
        if hashlib.sha256(captures.get(int(step.label), b"")).hexdigest() != step.sha256:
            raise NothingToCheck(
                "a capture is not the one that was planned",
                where=f"{planned.run_id}, step {step.label}",
                expected=step.sha256,
                next_step="plan again",
            )
    digest = instrument_digest(spec, executor)
    counts = GradeCount()
    outcomes = {index: Outcome(why="state not observed") for index in planned.without_capture}

    def done(verdict: Admission | None) -> Replayed:
        return Replayed(
            run_id=planned.run_id,
            admission=verdict,
            outcomes=dict(sorted(outcomes.items())),
            instrument=digest,
            counts=counts.result(),
        )

    if planned.nothing_captured:
        return done(None)
    test = Patch("test", spec.test_patch)
    with executor.open(spec) as session:

        def run_state(role: Role, diff: bytes) -> Grade:
            return adjudicate(session.execute((Patch(role, diff), test)), spec)

        if admission is None:
            admission = admit(run_state("step", b""), run_state("gold", spec.gold_patch), spec.f2p)
        for step in planned.steps:
            index = int(step.label)
            if not admission.admitted:
                outcomes[index] = Outcome(why=f"task not admitted: {admission.why}")
            elif only is not None and index not in only:
                outcomes[index] = Outcome(why="not sampled")
            else:
                first = run_state("step", captures[index])
                counts.add(first)
                again = None
                if confirm_failures:
                    again = confirm(lambda diff=captures[index]: run_state("step", diff), first)  # type: ignore[misc]
                outcomes[index] = first.outcome(confirmed=again, instrument=digest)
    return done(admission)


def stamp(run: Run, replayed: Replayed) -> Run:
    """The run with the outcomes of a replay; all others are cleared, and the last step carries the terminal label.

    The digest of the steps is emptied, since it is of the former ones; the writer computes it.

    Raises:
        NothingToCheck: the replay is of another run.
    """
    if run.header.run_id != replayed.run_id:
        raise NothingToCheck(
            "the replay is of another run",
            where=run.header.run_id,
            got=replayed.run_id,
            next_step="stamp each run with its own replay",
        )
    terminal = NOT_MEASURED
    if run.header.resolved is not None:
        terminal = Outcome(state="measured", why="", passed=run.header.resolved)
    steps = [
        msgspec.structs.replace(step, outcome=replayed.outcomes.get(step.index, NOT_MEASURED)) for step in run.steps
    ]
    if steps:
        steps[-1] = msgspec.structs.replace(steps[-1], outcome=terminal)
    measured = any(step.outcome.state == "measured" for step in steps[:-1])
    instrument = replayed.instrument if measured else None
    header = msgspec.structs.replace(run.header, instrument=instrument, content_sha256="")
    return Run(header, tuple(steps))
