"""From runs to the table of the ladder, one run at a time, so that a corpus need not fit into memory.

What the ladder needs of a run is a handful of numbers; partitions collect them apart and merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .ladder import RunsTable
from .nulls import Ints
from .rule import WINDOWS, max_recurrence, steps_of
from .schema import Run

__all__ = ["Collected", "LadderRows"]


@dataclass(frozen=True)
class Collected:
    """What was collected.

    Attributes:
        table: The labelled runs, by run id.
        most: Their largest recurrence per window, see :func:`.rule.max_recurrence`; 0 where nothing was measured.
        unlabelled: Runs without a terminal label, which are left out.
        keyless: Measured failures without a failing check, which the rule cannot count.
    """

    table: RunsTable
    most: Ints
    unlabelled: int
    keyless: int


class LadderRows:
    """A fold over runs; ``merge`` joins two, and the order of runs does not matter.

    Args:
        windows: Columns of ``most``.
        edit_gated: Whether the rule waits for the first edit.
        unconfirmed: Whether failures count that no second execution confirmed.
    """

    def __init__(self, windows: Sequence[int] = WINDOWS, *, edit_gated: bool = True, unconfirmed: bool = True) -> None:
        self._windows, self._edit_gated, self._unconfirmed = tuple(windows), edit_gated, unconfirmed
        self._rows: list[tuple[str, str, str, int, bool, bool, tuple[int, ...]]] = []
        self._unlabelled = self._keyless = 0

    def add(self, run: Run) -> None:
        """Take one run in; a run without an instance is its own block, one without a model is of model ``unknown``."""
        header = run.header
        if header.resolved is None:
            self._unlabelled += 1
            return
        steps = steps_of(run, unconfirmed=self._unconfirmed)
        most = max_recurrence([steps], self._windows, edit_gated=self._edit_gated)[0]
        self._keyless += sum(failed and not key for failed, key in zip(steps.failed, steps.key, strict=True))
        self._rows.append(
            (
                header.run_id,
                header.instance_id or header.run_id,
                header.model or "unknown",
                len(run.steps),
                not header.resolved,
                run.stamped,
                tuple(most.tolist()),
            )
        )

    def merge(self, other: LadderRows) -> None:
        """Take in what another fold of the same settings collected."""
        self._rows += other._rows
        self._unlabelled += other._unlabelled
        self._keyless += other._keyless

    def result(self) -> Collected:
        """The table, sorted by run id."""
        rows = sorted(self._rows)
        table = RunsTable(
            instance=[row[1] for row in rows],
            model=[row[2] for row in rows],
            length=np.asarray([row[3] for row in rows], dtype=np.int64),
            failed=np.asarray([row[4] for row in rows], dtype=np.bool_),
            stamped=np.asarray([row[5] for row in rows], dtype=np.bool_),
        )
        most = np.asarray([row[6] for row in rows], dtype=np.int64).reshape(len(rows), len(self._windows))
        return Collected(table, most, self._unlabelled, self._keyless)
