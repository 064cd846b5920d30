"""A made-up corpus whose runs can be executed again, so that every layer of integrity has something to catch.

A task is a set of parts that must be mended; a run mends and breaks parts; whether the workspace passes follows from
the commands alone, so that replaying needs no engine and a forged outcome is one that does not follow.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import msgspec

from ..records import write_whole
from .digests import content_digest
from .files import write_run
from .schema import Call, Header, Outcome, Run, Step, Tokens, run_id

__all__ = ["FORMAT", "INSTRUMENT", "PARTS", "replay", "sealed", "toy_corpus", "toy_runs"]

FORMAT = "toy-1"
"""What the runs name as their format, so that nobody replays real runs here."""
PARTS = 3
"""Parts that a task has; the workspace passes when all are mended."""
INSTRUMENT = hashlib.sha256(b"toy grader 1").hexdigest()
_MODELS = ("model-a", "model-b", "model-c")
_INSTANCES = ("toy__alpha-1", "toy__alpha-2", "toy__beta-3", "toy__beta-4")


def sealed(run: Run) -> Run:
    """The run with step indices, ``n_steps`` and ``content_sha256`` that follow from its steps."""
    steps = tuple(msgspec.structs.replace(step, index=index) for index, step in enumerate(run.steps))
    header = msgspec.structs.replace(run.header, n_steps=len(steps), content_sha256=content_digest(steps))
    return Run(header, steps)


def replay(run: Run) -> list[Outcome]:
    """What the commands of a run lead to, step by step; commands of another world do nothing."""
    mended: set[str] = set()
    outcomes = []
    for step in run.steps:
        for call in step.calls:
            verb, _, part = call.arguments.partition(" ")
            if verb == "mend":
                mended.add(part)
            elif verb == "break":
                mended.discard(part)
        missing = [part for part in map(str, range(1, PARTS + 1)) if part not in mended]
        outcomes.append(
            Outcome(
                state="measured",
                why="",
                passed=not missing,
                failing_check=f"tests/test_toy.py::test_part_{missing[0]}" if missing else None,
                exit_code=1 if missing else 0,
                instrument=INSTRUMENT,
            )
        )
    return outcomes


def _graded(run: Run) -> Run:
    steps = tuple(
        msgspec.structs.replace(step, outcome=outcome) for step, outcome in zip(run.steps, replay(run), strict=True)
    )
    header = msgspec.structs.replace(
        run.header,
        resolved=steps[-1].outcome.passed,
        resolved_by="toy report",
        instrument=INSTRUMENT,
        captures=len(steps),
    )
    return sealed(Run(header, steps))


def toy_runs(*, seed: int = 0, graded: bool = True) -> list[Run]:
    """Twelve runs (four tasks, three models), of which about half mend their task; not graded on request."""
    runs = []
    for i, instance in enumerate(_INSTANCES):
        for j, model in enumerate(_MODELS):
            rng = random.Random(f"{seed}:{i}:{j}")
            plan = [f"mend {part}" for part in range(1, PARTS + 1 if (i + j) % 2 else PARTS)]
            plan += ["look"] * rng.randint(2, 5)
            rng.shuffle(plan)
            plan = [*plan, "look"]
            steps = tuple(
                Step(
                    index=index,
                    text=f"Next I {command} ({rng.randrange(10**6)}).",
                    calls=(Call(tool="toy", arguments=command, result="done", exit_code=0, paired="position"),),
                    model=model,
                    time=f"2025-01-{i + 1:02d}T{j:02d}:{index:02d}:00+00:00",
                    cost=0.25,
                    tokens=Tokens(input=100 + index, output=10),
                )
                for index, command in enumerate(plan)
            )
            header = Header(
                run_id=run_id(instance, model, "default"),
                n_steps=len(steps),
                format=FORMAT,
                scaffold="toy",
                scaffold_version="1",
                dataset="toy",
                dataset_revision="1",
                licence="MIT",
                instance_id=instance,
                repository="toy",
                model=model,
                arm="default",
                captured_at=steps[0].time,
                cost=0.25 * len(steps),
                api_calls=len(steps),
            )
            run = Run(header, steps)
            runs.append(_graded(run) if graded else sealed(run))
    return runs


def toy_corpus(folder: Path, *, seed: int = 0) -> list[Path]:
    """Write the graded toy runs, and a label report per run below ``labels``; gives the run files."""
    paths = []
    for run in toy_runs(seed=seed):
        paths.append(write_run(run, folder))
        report = msgspec.json.encode({run.header.instance_id: {"resolved": run.header.resolved}})
        write_whole(folder / "labels" / f"{run.header.run_id}.report.json", report + b"\n")
    return paths
