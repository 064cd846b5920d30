"""The pool: execute chapter instances, a few at a time, each in a worker process of its own.

All of them run to their end before any failure is raised, so that one build names every chapter to mend.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .errors import ChapterFailed, TraceAuditError, UsageError
from .execute import Executed, Execution, Worker, make_font_cache
from .instances import Instance

__all__ = ["Extra", "Parameters", "Progress", "Say", "parameters_of", "run_all"]

Say = Callable[[str], None]
Parameters = Mapping[str, Any] | Callable[[Instance], Mapping[str, Any]]
Extra = str | Callable[[Instance], str]


class Progress:
    """Progress lines, ``[3/14] trail-headline gaia: executed in 4.2 s``, in the order in which instances end."""

    def __init__(self, say: Say, total: int) -> None:
        self.say, self.total, self.count = say, total, 0

    def line(self, instance: Instance, text: str) -> None:
        self.count += 1
        self.say(f"[{self.count}/{self.total}] {instance}: {text}")


def parameters_of(parameters: Parameters, instance: Instance) -> dict[str, Any]:
    """The parameters of one instance, its split among them."""
    return dict(parameters(instance) if callable(parameters) else parameters) | {"split": instance.split}


def run_all(
    root: Path,
    chosen: list[Instance],
    parameters: Parameters,
    workers: int,
    workdir: Path,
    env: Mapping[str, str | None],
    progress: Progress,
) -> dict[Instance, Executed]:
    """Execute instances, ``workers`` at a time, in the order given.

    Raises:
        ChapterFailed: several failed, each with its own message; the error of the only one is raised as it is.
    """
    if workers < 1:
        raise UsageError("at least one worker is needed", got=str(workers), next_step="give --workers 1 or more")
    if chosen:
        make_font_cache(root / ".traceaudit" / "matplotlib")
    env = {"TRACEAUDIT_ROOT": str(root), "MPLCONFIGDIR": str(root / ".traceaudit" / "matplotlib"), **env}
    waiting = list(chosen)
    running: dict[Instance, Execution] = {}
    idle: list[Worker] = []
    results: dict[Instance, Executed] = {}
    failures: dict[Instance, TraceAuditError] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                instance = waiting.pop(0)
                worker = idle.pop() if idle else Worker()
                try:
                    running[instance] = Execution(
                        instance.source(root),
                        parameters_of(parameters, instance),
                        workdir=workdir / instance.id,
                        timeout=instance.timeout,
                        env=env,
                        label=str(instance),
                        title=instance.title,
                        page=(instance.page, instance.id),
                        worker=worker,
                    )
                except TraceAuditError as error:
                    idle.append(worker)
                    failures[instance] = error
                    progress.line(instance, "failed")
                except BaseException:
                    worker.kill()
                    raise
            for instance in [i for i, execution in running.items() if execution.done()]:
                try:
                    results[instance] = running[instance].result()
                    progress.line(instance, f"executed in {results[instance].seconds:.1f} s")
                except TraceAuditError as error:
                    failures[instance] = error
                    progress.line(instance, "failed")
                if kept := running.pop(instance).close(keep_worker=True):
                    idle.append(kept)
            time.sleep(0.02)
    finally:
        for execution in running.values():
            execution.close()
        for worker in idle:
            worker.kill()
    if len(failures) == 1:
        raise next(iter(failures.values()))
    if failures:
        told = "\n".join(str(error) for error in failures.values())
        raise ChapterFailed(
            f"{len(failures)} of {len(chosen)} chapters failed\n"
            + "\n".join(f"  {line}" for line in told.splitlines()),
            next_step="mend each of them; nothing was written",
        )
    return {instance: results[instance] for instance in chosen}
