"""Forgeries of a corpus, each as careful as one can be without the collector's key.

The seed measured four; what a layer of integrity is worth is only known from the forgeries that it meets, so each here
keeps every rule that it can keep: digests and counts recomputed, manifest rebuilt.
"""

from __future__ import annotations

import math
import random
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from ..errors import NothingToCheck
from ..records import write_whole
from .files import read_run, stem, write_run
from .manifest import CHAIN, MANIFEST, build_manifest, load_manifest, manifest_bytes, run_files
from .schema import Outcome, Run, Step, run_id
from .signing import sign_with
from .toy import sealed

__all__ = ["APPENDED", "ATTACKS", "Attack", "rebuild"]

APPENDED = 500
"""Invented steps that the seed's third forgery appends."""
_LABEL = re.compile(rb'("resolved"\s*:\s*)(true|false)')


class Attack(msgspec.Struct, frozen=True):
    """A forgery.

    Attributes:
        id: Its name.
        of_seed: Whether the seed measured it.
        aim: What the forger gains.
        run: Changes the folder in place and says what it did. ``past`` is an older signed state of the same corpus
            that the forger kept; what needs none ignores it.
    """

    id: str
    of_seed: bool
    aim: str
    run: Callable[[Path, random.Random, Path | None], str]

    def __call__(self, folder: Path, rng: random.Random, past: Path | None = None) -> str:
        """Run it on a copy of a corpus.

        Raises:
            NothingToCheck: the corpus holds nothing that it could change.
        """
        return self.run(folder, rng, past)


def rebuild(folder: Path) -> None:
    """Write the manifest that fits the folder, as anybody can."""
    write_whole(folder / MANIFEST, manifest_bytes(build_manifest(folder)))


def _pick(folder: Path, rng: random.Random, fits: Callable[[Run], bool], what: str) -> tuple[Path, Run]:
    """A run that fits, the first one in a shuffled order, so that few files are read."""
    paths = run_files(folder)
    rng.shuffle(paths)
    for path in paths:
        run = read_run(path, [])
        if run is not None and fits(run):
            return path, run
    raise NothingToCheck(f"no run here {what}", where=folder.name)


def _put(path: Path, run: Run) -> None:
    """Put a sealed run in place of a file, its cost the sum of its steps'; it is written plain, however it was."""
    path.unlink(missing_ok=True)
    costs = [step.cost for step in run.steps]
    if run.header.cost is not None and None not in costs:
        run = Run(replace(run.header, cost=math.fsum(filter(None, costs))), run.steps)
    write_run(sealed(run), path.parent)


def _measured(run: Run) -> list[int]:
    return [index for index, step in enumerate(run.steps) if step.outcome.state == "measured"]


def _early(run: Run) -> list[int]:
    return [index for index in _measured(run) if index < len(run.steps) - 1]


def _with(run: Run, index: int, step: Step) -> Run:
    return Run(run.header, (*run.steps[:index], step, *run.steps[index + 1 :]))


def _graded(step: Step, passed: bool, like: Step, check: str | None = None) -> Step:
    """The step with another verdict, all fields of the outcome in accord with it."""
    outcome = Outcome(
        state="measured",
        why="",
        passed=passed,
        failing_check=None if passed else check,
        exit_code=0 if passed else 1,
        instrument=like.outcome.instrument,
    )
    return replace(step, outcome=outcome)


def _relabelled(run: Run, resolved: bool, *, terminal: bool) -> Run:
    changed = Run(replace(run.header, resolved=resolved, resolved_by=run.header.resolved_by or "report"), run.steps)
    if not terminal or not run.steps or run.steps[-1].outcome.state != "measured":
        return changed
    last = run.steps[-1]
    return _with(changed, len(run.steps) - 1, _graded(last, resolved, last, "tests/test_a.py::test_b"))


# --- the seed's four ----------------------------------------------------------------------------------------------


def _flip_outcome(folder: Path, rng: random.Random, past: Path | None) -> str:
    path, run = _pick(folder, rng, lambda run: bool(_early(run)), "has a measured step before its last")
    index = rng.choice(_early(run))
    step = run.steps[index]
    passed = not step.outcome.passed
    _put(path, _with(run, index, _graded(step, passed, step, "tests/test_a.py::test_b")))
    rebuild(folder)
    return f"step {index} of {run.header.run_id} now {'passed' if passed else 'failed'}"


def _restamp_all(folder: Path, rng: random.Random, past: Path | None) -> str:
    changed = 0
    for path in run_files(folder):
        run = read_run(path, [])
        if run is None or not _measured(run):
            continue
        for index in _measured(run):
            step = run.steps[index]
            changed += step.outcome.passed is False
            run = _with(run, index, _graded(step, True, step))
        _put(path, _relabelled(run, True, terminal=False) if run.header.resolved is not None else run)
    if not changed:
        raise NothingToCheck("no outcome here failed", where=folder.name)
    rebuild(folder)
    return f"{changed} failed outcomes and the labels with them now passed"


def _append_failing(folder: Path, rng: random.Random, past: Path | None) -> str:
    path, run = _pick(
        folder,
        rng,
        lambda run: bool(run.steps) and run.header.resolved is False and run.steps[-1].outcome.passed is False,
        "failed with a measured last step",
    )
    last = run.steps[-1]
    more = tuple(
        replace(last, text=f"I try once more, attempt {number}.", signals=dict(last.signals))
        for number in range(1, APPENDED + 1)
    )
    counts = {"api_calls": run.header.api_calls, "captures": run.header.captures}
    header = replace(run.header, **{name: n + APPENDED for name, n in counts.items() if n is not None})
    _put(path, Run(header, (*run.steps, *more)))
    rebuild(folder)
    return f"{APPENDED} invented failing steps after the {len(run.steps)} of {run.header.run_id}"


def _flip_label(folder: Path, rng: random.Random, past: Path | None) -> str:
    path, run = _pick(folder, rng, lambda run: run.header.resolved is not None, "has a label")
    _put(path, _relabelled(run, not run.header.resolved, terminal=False))
    rebuild(folder)
    return f"label of {run.header.run_id} now {not run.header.resolved}, last step as it was"


# --- more ---------------------------------------------------------------------------------------------------------


def _relabel(folder: Path, rng: random.Random, past: Path | None) -> str:
    path, run = _pick(folder, rng, lambda run: run.header.resolved is not None, "has a label")
    _put(path, _relabelled(run, not run.header.resolved, terminal=True))
    rebuild(folder)
    return f"label and last step of {run.header.run_id} now {not run.header.resolved}"


def _swap_models(folder: Path, rng: random.Random, past: Path | None) -> str:
    one_path, one = _pick(
        folder, rng, lambda run: None not in (run.header.model, run.header.instance_id), "names a model and a task"
    )
    two_path, two = _pick(
        folder,
        rng,
        lambda run: (
            run.header.instance_id == one.header.instance_id
            and run.header.arm == one.header.arm
            and run.header.model not in (None, one.header.model)
        ),
        "is of the same task and arm and of another model",
    )
    for path in (one_path, two_path):
        path.unlink()
    for run, other in ((one, two), (two, one)):
        steps = tuple(
            replace(step, model=other.header.model) if step.model == run.header.model else step for step in run.steps
        )
        header = replace(run.header, model=other.header.model, run_id=other.header.run_id)
        write_run(sealed(Run(header, steps)), folder)
    rebuild(folder)
    return f"{one.header.run_id} and {two.header.run_id} swapped their models"


def _delete_run(folder: Path, rng: random.Random, past: Path | None) -> str:
    path, run = _pick(folder, rng, lambda run: run.header.resolved is not True, "failed")
    path.unlink()
    rebuild(folder)
    return f"{run.header.run_id} and its manifest entry are gone"


def _delete_file(folder: Path, rng: random.Random, past: Path | None) -> str:
    path, run = _pick(folder, rng, lambda run: True, "can be read")
    path.unlink()
    return f"the file of {run.header.run_id} is gone, the manifest lists it"


def _copy(folder: Path, rng: random.Random, past: Path | None, *, disguised: bool) -> str:
    taken = {stem(path) for path in run_files(folder)}
    _, run = _pick(folder, rng, lambda run: run.header.resolved is True and bool(run.steps), "was resolved")
    number = next(n for n in range(2, len(taken) + 3) if f"{run.header.run_id}__{n}" not in taken)
    copy = Run(replace(run.header, run_id=f"{run.header.run_id}__{number}"), run.steps)
    if disguised:
        copy = _with(copy, 0, replace(copy.steps[0], text=copy.steps[0].text + " "))
    write_run(sealed(copy), folder)
    rebuild(folder)
    return f"{run.header.run_id} is there again as {copy.header.run_id}" + (", one space added" if disguised else "")


def _invent(folder: Path, rng: random.Random, past: Path | None) -> str:
    _, run = _pick(
        folder, rng, lambda run: run.stamped and run.header.resolved is False, "is graded step by step and failed"
    )
    header = replace(run.header, arm="better", resolved=True, model=run.header.model or "model")
    header = replace(header, run_id=run_id(header.instance_id or "task", header.model or "model", "better"))
    steps = tuple(
        _graded(step, index == len(run.steps) - 1, step, step.outcome.failing_check or "tests/test_a.py::test_b")
        if step.outcome.state == "measured"
        else step
        for index, step in enumerate(run.steps)
    )
    write_run(sealed(Run(header, steps)), folder)
    rebuild(folder)
    return f"{header.run_id} is invented after {run.header.run_id} and resolved"


def _replay_old(folder: Path, rng: random.Random, past: Path | None) -> str:
    now = {stem(path): path for path in run_files(folder)}
    pairs = [(old, now[stem(old)]) for old in ([] if past is None else run_files(past)) if stem(old) in now]
    changed = [(old, new) for old, new in pairs if old.read_bytes() != new.read_bytes()]
    if not changed:
        raise NothingToCheck("there is no older state of a run of this corpus", where=folder.name)
    old, new = rng.choice(changed)
    new.unlink()
    write_whole(folder / old.name, old.read_bytes())
    rebuild(folder)
    return f"{old.name} is the file that was signed before"


def _roll_back(folder: Path, rng: random.Random, past: Path | None) -> str:
    if past is None:
        raise NothingToCheck("there is no older state of this corpus", where=folder.name)
    shutil.rmtree(folder)
    shutil.copytree(past, folder)
    return f"runs, manifest and chain are those of the older state, {len(run_files(folder))} runs"


def _truncate(folder: Path, rng: random.Random, past: Path | None) -> str:
    def cut(run: Run) -> int:
        same = [i for i in _early(run) if run.steps[i].outcome.passed == run.header.resolved]
        return same[-1] + 1 if same else 0

    path, run = _pick(folder, rng, lambda run: cut(run) > 0, "has an earlier step with the outcome of its label")
    at = cut(run)
    header = replace(
        run.header,
        captures=None if run.header.captures is None else min(run.header.captures, at),
        api_calls=None if run.header.api_calls is None else min(run.header.api_calls, at),
    )
    _put(path, Run(header, run.steps[:at]))
    rebuild(folder)
    return f"{run.header.run_id} ends after {at} of {len(run.steps)} steps"


def _edit_header(folder: Path, rng: random.Random, past: Path | None) -> str:
    path, run = _pick(folder, rng, lambda run: True, "can be read")
    header = replace(run.header, scaffold_version="9.9", licence="MIT-0", dataset_revision="forged")
    _put(path, Run(header, run.steps))
    rebuild(folder)
    return f"scaffold version, licence and dataset revision of {run.header.run_id} are others"


def _edit_manifest(folder: Path, rng: random.Random, past: Path | None) -> str:
    entries = load_manifest(folder / MANIFEST)
    at = rng.choice([i for i, entry in enumerate(entries) if entry.run_id is not None])
    entries[at] = replace(entries[at], label=not entries[at].label)
    write_whole(folder / MANIFEST, manifest_bytes(entries))
    return (
        f"the manifest calls {entries[at].run_id} {'resolved' if entries[at].label else 'failed'}, its file as it was"
    )


def _resign(folder: Path, rng: random.Random, past: Path | None) -> str:
    said = _relabel(folder, rng, past)
    (folder / CHAIN).unlink(missing_ok=True)
    sign_with(folder, Ed25519PrivateKey.from_private_bytes(rng.randbytes(32)))
    return f"{said}; all signed anew with the forger's key"


def _drop_chain(folder: Path, rng: random.Random, past: Path | None) -> str:
    said = _relabel(folder, rng, past)
    (folder / CHAIN).unlink(missing_ok=True)
    return f"{said}; the chain is gone"


def _cut_chain(folder: Path, rng: random.Random, past: Path | None) -> str:
    lines = (folder / CHAIN).read_bytes().splitlines(True) if (folder / CHAIN).is_file() else []
    if len(lines) < 2:
        raise NothingToCheck("the chain has fewer than two entries", where=folder.name)
    said = _delete_run(folder, rng, past)
    write_whole(folder / CHAIN, b"".join(lines[:-1]))
    return f"{said}; the newest entry of the chain is gone"


def _exit_codes(folder: Path, rng: random.Random, past: Path | None) -> str:
    path, run = _pick(folder, rng, lambda run: bool(_measured(run)), "has a measured step")
    instrument = rng.randbytes(32).hex()
    steps = tuple(
        replace(
            step,
            calls=tuple(replace(call, exit_code=0) if call.exit_code is not None else call for call in step.calls),
            outcome=replace(
                step.outcome, exit_code=1, instrument=instrument if step.outcome.instrument is not None else None
            )
            if step.outcome.state == "measured"
            else step.outcome,
        )
        for step in run.steps
    )
    header = replace(run.header, instrument=instrument if run.header.instrument is not None else None)
    _put(path, Run(header, steps))
    rebuild(folder)
    return f"exit codes and instrument of {run.header.run_id} are others, in accord"


def _rename(folder: Path, rng: random.Random, past: Path | None) -> str:
    path, run = _pick(folder, rng, lambda run: True, "can be read")
    name, dot, ending = path.name.partition(".jsonl")
    path.rename(path.with_name(f"{name}-x{dot}{ending}"))
    rebuild(folder)
    return f"the file of {run.header.run_id} has another name"


def _edit_report(folder: Path, rng: random.Random, past: Path | None) -> str:
    reports = [path for path in sorted(folder.rglob("*report.json")) if _LABEL.search(path.read_bytes())]
    if not reports:
        raise NothingToCheck("there is no label report in the corpus", where=folder.name)
    path = rng.choice(reports)
    other = {b"true": b"false", b"false": b"true"}
    write_whole(path, _LABEL.sub(lambda found: found[1] + other[found[2]], path.read_bytes(), count=1))
    rebuild(folder)
    return f"{path.name} says the opposite, the run as it was"


ATTACKS = (
    Attack("flip_outcome", True, "one step passes that failed, or fails that passed", _flip_outcome),
    Attack("restamp_all", True, "every graded run looks resolved", _restamp_all),
    Attack("append_failing", True, "a run fails for longer than it ran", _append_failing),
    Attack("flip_label", True, "the label of every evaluation is the opposite", _flip_label),
    Attack("relabel", False, "the same, with the last step in accord", _relabel),
    Attack("swap_models", False, "one model has the results of another", _swap_models),
    Attack("delete_run", False, "a failure never happened", _delete_run),
    Attack("delete_file", False, "the same, without care for the manifest", _delete_file),
    Attack("duplicate", False, "a success counts twice", partial(_copy, disguised=False)),
    Attack(
        "duplicate_disguised",
        False,
        "the same, with one character changed",
        partial(_copy, disguised=True),
    ),
    Attack("invent_run", False, "a run that nobody made was resolved", _invent),
    Attack("replay_old", False, "a run is what it was before it was graded", _replay_old),
    Attack("roll_back", False, "the whole corpus is what it was before", _roll_back),
    Attack("truncate", False, "a run ends earlier", _truncate),
    Attack("edit_header", False, "a run is of another scaffold version and under another licence", _edit_header),
    Attack("edit_manifest", False, "whoever reads only the manifest reads another label", _edit_manifest),
    Attack("edit_exit_codes", False, "actions that failed did not, and another instrument graded", _exit_codes),
    Attack("edit_report", False, "who grades anew from the reports gets another label", _edit_report),
    Attack("rename_file", False, "a run cannot be found by its name", _rename),
    Attack("resign", False, "a changed corpus carries a valid signature", _resign),
    Attack("drop_chain", False, "a changed corpus is one that nobody signed", _drop_chain),
    Attack("cut_chain", False, "a failure never happened, and its signature neither", _cut_chain),
)
"""Every forgery, the seed's four first."""
