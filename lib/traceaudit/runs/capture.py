"""Workspace captures that lost work which was still there: two rules over actions and diffs, and the mark they leave.

A capture is a diff taken after a step. One that leaves out staged or committed work gives, replayed, the failure of a
state that never was; so a step with such a capture is not measured, whatever a replay said.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from .schema import Call, Outcome, Run
from .shell import Reading, read_script

__all__ = [
    "EMPTY",
    "PARTIAL",
    "WHY",
    "Loss",
    "actions_of",
    "empty_after",
    "losses_a",
    "losses_b",
    "mark",
    "return_codes_of",
    "undecided_b",
]

EMPTY: Literal["empty_after_nonempty"] = "empty_after_nonempty"
PARTIAL: Literal["partial_stage_loss"] = "partial_stage_loss"
WHY = "state not observed"
Class = Literal["empty_after_nonempty", "partial_stage_loss"]
_SHELL_TOOLS = frozenset({"bash", "sh", "shell", "run", "execute_bash", "terminal", "execute_command", "cmd"})


class Loss(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A step whose capture lacks work that was there.

    Attributes:
        step: Its index.
        kind: :data:`EMPTY` (rule A) or :data:`PARTIAL` (rule B).
        evidence: What the step's action says of it: ``staged``, ``committed``, ``stashed``, ``reverted``,
            ``unexplained``, or ``continuation`` of a loss before. It never decides.
        exit_code: Of the action; None where it did not finish or is not known.
        staged: Rule B: each missing path and the step that staged it.
    """

    step: int
    kind: Class
    evidence: str
    exit_code: int | None = None
    staged: dict[str, int] = {}


def actions_of(run: Run) -> list[str]:
    """What each step did, as shell text: the commands of its calls, a line each.

    Arguments that are JSON give their ``command`` where the tool is a shell, and else a command line of the tool's name
    and that word, such as ``str_replace_editor view``.
    """
    return ["\n".join(map(_action, step.calls)) for step in run.steps]


def _action(call: Call) -> str:
    text = call.arguments
    if text.lstrip().startswith("{"):
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            data = None
        if isinstance(data, dict):
            command = data.get("command", data.get("code"))
            if call.tool in _SHELL_TOOLS:
                return command if isinstance(command, str) else ""
            return shlex.join([call.tool, command]) if isinstance(command, str) else shlex.quote(call.tool)
    if call.tool == "edit" and text.startswith("edit "):  # the lines after the first are the text it puts in
        return text.split("\n", 1)[0]
    return text


def return_codes_of(run: Run) -> list[int | None]:
    """Exit code of each step's last call; None where it has none."""
    return [step.calls[-1].exit_code if step.calls else None for step in run.steps]


def losses_a(actions: Sequence[str], sizes: Mapping[int, int], return_codes: Sequence[int | None]) -> tuple[Loss, ...]:
    """Rule A, ``empty-after-non-empty``: a capture that is empty after one was not.

    Args:
        actions: Text of each step's action, by step.
        sizes: Bytes of each capture, by step. A missing one neither opens nor closes anything.
        return_codes: Exit code of each step's action; a list that is too short gives None.

    Returns:
        Every empty capture after the first that is not, but for the last step and for steps that the run does not
        have. The first of a row of them (an onset) carries the evidence, the others are ``continuation``. Empty
        captures before are genuine. A real revert of everything is marked too: the two cannot be told apart.

    Source:
        trajectory-corpus-facts.md, section 6.
    """
    losses = []
    for step, onset in empty_after(sizes):
        if 0 <= step < len(actions) - 1:
            code = return_codes[step] if step < len(return_codes) else None
            evidence = read_script(actions[step]).evidence if onset else "continuation"
            losses.append(Loss(step=step, kind=EMPTY, evidence=evidence, exit_code=code))
    return tuple(losses)


def empty_after(sizes: Mapping[int, int]) -> Iterator[tuple[int, bool]]:
    """Steps whose capture is empty after one that was not, each with whether the capture before it was not."""
    open_, before = False, 0
    for step in sorted(sizes):
        if open_ and not sizes[step]:
            yield step, before > 0
        open_, before = open_ or sizes[step] > 0, sizes[step]


def losses_b(actions: Sequence[str], paths: Mapping[int, Collection[str]]) -> tuple[Loss, ...]:
    """Rule B, ``staged-path-missing-from-non-empty-capture``: a staged path is gone from a capture that holds others.

    A path that was seen before and is absent now, and was not in the first capture (the build's own edit), is *staged*
    where the action ran ``git add`` on it and nothing else explains its absence (:meth:`~.shell.Reading.stages`), and
    *hazy* otherwise; an action that can take edits back makes all staged ones hazy; a path that comes back is neither.

    Args:
        actions: Text of each step's action, by step.
        paths: Paths in each capture, by step; none for an empty one.

    Returns:
        The steps with a capture that is not empty, at least one staged path and no hazy one; not the last step, and
        none that the run does not have. Where captures are missing, what was done since the last one counts together.

    Source:
        trajectory-corpus-facts.md, section 6. Narrower than there in one thing: ``git add -A lib`` and ``git add .`` in
        a folder stage that folder, not all.
    """
    return tuple(loss for loss, decided in _partial(actions, paths) if decided)


def undecided_b(actions: Sequence[str], paths: Mapping[int, Collection[str]]) -> tuple[int, ...]:
    """Steps with a capture that is not empty and lacks a path, where rule B abstains."""
    return tuple(loss.step for loss, decided in _partial(actions, paths) if not decided)


def _partial(actions: Sequence[str], paths: Mapping[int, Collection[str]]) -> Iterator[tuple[Loss, bool]]:
    indexes = [step for step in sorted(paths) if 0 <= step < len(actions) - 1]
    if not indexes:
        return
    build = frozenset(paths[indexes[0]])
    seen = set(build)
    staged: dict[str, int] = {}
    hazy: set[str] = set()
    since: list[Reading] = []
    for step in range(indexes[0] + 1, indexes[-1] + 1):
        since.append(read_script(actions[step]))
        if since[-1].undoes:
            hazy |= staged.keys()
            staged.clear()
        if step not in paths:
            continue
        here = set(paths[step])
        hazy -= here
        staged = {path: at for path, at in staged.items() if path not in here}
        for path in seen - here - build - staged.keys() - hazy:
            if _together(since).stages(path):
                staged[path] = step
            else:
                hazy.add(path)
        seen |= here
        since.clear()
        if here and (staged or hazy):
            loss = Loss(step=step, kind=PARTIAL, evidence="staged", staged=dict(sorted(staged.items())))
            yield loss, bool(staged) and not hazy


def _together(readings: Sequence[Reading]) -> Reading:
    if len(readings) == 1:
        return readings[0]
    return Reading(
        adds=tuple(add for reading in readings for add in reading.adds),
        verbs=frozenset().union(*(reading.verbs for reading in readings)),
        writes=any(reading.writes for reading in readings),
        whole=all(reading.whole for reading in readings),
    )


def mark(run: Run, losses: Iterable[Loss]) -> Run:
    """The run with every lost step ``not measured`` (:data:`WHY`); nothing that the agent did changes.

    Marking twice gives the same. A loss of the last step, or of one that the run does not have, marks nothing. Where an
    outcome changed, the digest of the steps is emptied (the writer computes it), and the header's instrument goes where
    no step is left that it measured.
    """
    lost = {loss.step for loss in losses}
    sentinel = Outcome(why=WHY)
    steps = tuple(
        msgspec.structs.replace(step, outcome=sentinel) if step.index in lost and step is not run.steps[-1] else step
        for step in run.steps
    )
    if steps == run.steps:
        return run
    instrument = run.header.instrument if any(step.outcome.instrument for step in steps) else None
    return Run(msgspec.structs.replace(run.header, instrument=instrument, content_sha256=""), steps)
