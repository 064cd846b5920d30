"""Two made corpora with a known answer: one where the effect is real, one where missing runs alone make it.

A test of a test: a ladder that cannot tell these two apart says nothing about a corpus whose answer is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .ladder import RunsTable
from .nulls import Ints

__all__ = ["World", "made_world"]

Kind = Literal["effect", "coverage"]
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.96, 1.0)
"""Share of each model's runs that were measured, in the order of the models."""


@dataclass(frozen=True)
class World:
    """A made corpus.

    Attributes:
        kind: ``effect`` or ``coverage``.
        table: Its runs, measured or not.
        most: Largest recurrence per run and window, as :func:`.rule.max_recurrence` gives it, for all runs: what no
            real corpus has.
    """

    kind: Kind
    table: RunsTable
    most: Ints


def made_world(kind: Kind, *, instances: int = 146, seed: int = 5) -> World:
    """Seven models, each with one run on every task.

    In both, a run fails with a chance that depends on its task alone, and 4 of 10 runs fire.

    * ``effect``: the chance to fire is 0.65 for a failed run and 0.23 for any other; runs go missing by chance.
    * ``coverage``: firing has nothing to do with failing, but only runs in which the two disagree go missing, as if the
      instrument broke where the story did not fit. Over all runs the AUROC is near 0.5; over the measured ones it is
      the higher the more is missing.

    The shares measured are :data:`SHARES`, to the nearest run (in ``coverage``, limited by the runs that disagree).

    Args:
        kind: Which of the two.
        instances: Tasks, and so runs a model.
        seed: Of everything drawn.
    """
    random = np.random.default_rng(seed)
    difficulty = random.beta(2.0, 3.0, instances)
    models = len(SHARES)
    runs = models * instances
    failed = random.random(runs) < np.tile(difficulty, models)
    chance = np.where(failed, 0.65, 0.23) if kind == "effect" else np.full(runs, 0.4)
    fired = random.random(runs) < chance
    short = np.where(fired, random.integers(2, 10, runs), random.integers(0, 2, runs))
    most = np.stack([short, short + short * random.integers(0, 4, runs)], axis=1).astype(np.int64)
    stamped = np.ones(runs, dtype=np.bool_)
    for model, share in enumerate(SHARES):
        own = np.arange(model * instances, (model + 1) * instances)
        eligible = own if kind == "effect" else own[failed[own] != fired[own]]
        missing = min(round((1 - share) * instances), len(eligible))
        stamped[random.choice(eligible, missing, replace=False)] = False
    table = RunsTable(
        instance=[f"task-{task:03d}" for _ in SHARES for task in range(instances)],
        model=[f"model-{model + 1}" for model in range(models) for _ in range(instances)],
        length=random.integers(5, 120, runs).astype(np.int64),
        failed=failed,
        stamped=stamped,
    )
    return World(kind, table, most)
