"""Re-execution of a sample: which runs to replay, what the chance is to meet a forged one, and what replaying said.

A signature says who vouches for a run, and only executing its actions again says whether they lead to the recorded
outcome; that is dear, so it is done on a sample whose power is stated.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ..errors import UsageError
from .schema import Outcome, Run

__all__ = [
    "Reexecution",
    "Replay",
    "Replayed",
    "chance",
    "chance_of_share",
    "curve",
    "needed",
    "reexecute",
    "sample",
]

Replay = Callable[[Run], Sequence[Outcome] | None]
"""Executes a run's actions again: one outcome a step, or None where the run cannot be replayed."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What replaying one run said.

    Attributes:
        run_id: The run.
        state: ``agrees``, ``differs`` or ``not replayed``.
        compared: Steps whose outcome was measured by both.
        unclaimed: Steps that replaying measured and the run does not claim (a hidden failure looks like that).
        step: First step that differs; None where it is the label of the whole run.
        why: What differs, or why it was not replayed.
    """

    run_id: str
    state: str
    compared: int = 0
    unclaimed: int = 0
    step: int | None = None
    why: str = ""


class Reexecution(msgspec.Struct, frozen=True, kw_only=True):
    """A replayed sample: a row a run, in the order of the sample, and the counts of each state."""

    rows: tuple[Replayed, ...]
    agrees: int
    differs: int
    not_replayed: int

    @property
    def caught(self) -> bool:
        """Whether some run differs; a run that could not be replayed is not evidence of anything."""
        return self.differs > 0


def sample(run_ids: Iterable[str], size: int, seed: int | str) -> list[str]:
    """A seeded sample without replacement: the ``size`` runs whose SHA-256 of ``<seed>:<run id>`` is smallest.

    The order of the input and its repetitions do not matter, and a larger sample holds the smaller one. The seed must
    not be known to whoever may forge before the corpus is fixed (a published draw made after the signed head).

    Raises:
        UsageError: a negative size, or more than there are runs.
    """
    ids = set(run_ids)
    if not 0 <= size <= len(ids):
        raise UsageError(
            "the sample must be as large as the corpus at most", expected=f"0 to {len(ids)}", got=f"{size}"
        )
    ranked = sorted(ids, key=lambda run: (hashlib.sha256(f"{seed}:{run}".encode()).digest(), run))
    return ranked[:size]


def chance(total: int, forged: int, size: int) -> float:
    """Chance that a sample of ``size`` of ``total`` runs holds a forged one, ``1 - C(N-K, n) / C(N, n)``.

    Hypergeometric, without replacement; a forged run counts as met when it is drawn, that is, replaying must be able
    to tell (see :data:`traceaudit.runs.attacks.LAYERS` for what it cannot). 0 without forged runs or with no sample.

    Raises:
        UsageError: a count below zero, or above the total.
    """
    if not (0 <= forged <= total and 0 <= size <= total):
        raise UsageError("counts lie between 0 and the total", expected=f"0 to {total}", got=f"{forged}, {size}")
    if size > total - forged:
        return 1.0
    if 0 in (forged, size):
        return 0.0
    few, many = sorted((forged, size))  # C(N-K, n) / C(N, n) is symmetric in K and n; the shorter product
    log = math.fsum(math.log1p(-many / (total - i)) for i in range(few))
    return -math.expm1(log)


def chance_of_share(share: float, size: int) -> float:
    """The same for a corpus without end, ``1 - (1 - f)^n``; never above the exact chance for ``f = K / N``.

    Raises:
        UsageError: a share outside 0 to 1, or a negative size.
    """
    if not 0 <= share <= 1 or size < 0:
        raise UsageError("a share lies between 0 and 1 and a size is not negative", got=f"{share}, {size}")
    if share in (0, 1) or size == 0:
        return float(share == 1 and size > 0)
    return -math.expm1(size * math.log1p(-share))


def needed(total: int, forged: int, wanted: float) -> int | None:
    """Smallest sample whose :func:`chance` is at least ``wanted``; None where there is nothing to meet.

    Raises:
        UsageError: as :func:`chance`, or a wanted chance outside 0 to 1.
    """
    if not 0 <= wanted <= 1:
        raise UsageError("a chance lies between 0 and 1", got=f"{wanted}")
    if chance(total, forged, total) < wanted:
        return None
    low, high = 0, total
    while low < high:  # the chance grows with the size
        middle = (low + high) // 2
        if chance(total, forged, middle) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


def curve(total: int, shares: Sequence[float], sizes: Sequence[int]) -> list[dict[str, float | int]]:
    """Rows for a figure: share, forged runs (rounded up), size, exact chance and its approximation.

    Raises:
        UsageError: as :func:`chance`.
    """
    return [
        {
            "share": share,
            "forged": (forged := math.ceil(round(share * total, 9))),
            "size": size,
            "chance": chance(total, forged, size),
            "approximation": chance_of_share(share, size),
        }
        for share in shares
        for size in sizes
    ]


def reexecute(runs: Iterable[Run], replay: Replay) -> Reexecution:
    """Replay runs and compare verdict and failing check of every step that both measured, then the label.

    Args:
        runs: The sampled runs.
        replay: Executes one run; None, or another number of outcomes than steps, is ``not replayed`` with the reason.

    Returns:
        A row a run. A step that only one side measured is no difference; those only replaying measured are counted.
    """
    rows = tuple(_compared(run, replay(run)) for run in runs)
    counts = {state: sum(row.state == state for row in rows) for state in ("agrees", "differs", "not replayed")}
    return Reexecution(
        rows=rows, agrees=counts["agrees"], differs=counts["differs"], not_replayed=counts["not replayed"]
    )


def _compared(run: Run, outcomes: Sequence[Outcome] | None) -> Replayed:
    name = run.header.run_id
    if outcomes is None:
        return Replayed(run_id=name, state="not replayed", why="it cannot be replayed")
    if len(outcomes) != len(run.steps):
        why = f"{len(outcomes)} outcomes for {len(run.steps)} steps"
        return Replayed(run_id=name, state="not replayed", why=why)
    compared = unclaimed = 0
    first: tuple[int | None, str] | None = None
    for step, again in zip(run.steps, outcomes, strict=True):
        if again.state != "measured":
            continue
        if step.outcome.state != "measured":
            unclaimed += 1
            continue
        compared += 1
        if first is None and (said := _verdict(step.outcome)) != (got := _verdict(again)):
            first = step.index, f"recorded {said}, replayed {got}"
    label, last = run.header.resolved, outcomes[-1].passed if outcomes else None
    if first is None and label is not None and last is not None and label != last:
        first = None, f"label {label}, replayed {last}"
    if first is not None:
        state, step_index, why = "differs", *first
    elif compared or (label is not None and last is not None):
        state, step_index, why = "agrees", None, ""
    else:
        state, step_index, why = "not replayed", None, "replaying measured nothing that the run claims"
    return Replayed(run_id=name, state=state, compared=compared, unclaimed=unclaimed, step=step_index, why=why)


def _verdict(outcome: Outcome) -> str:
    if outcome.passed:
        return "passed"
    return "failed" + (f" at {outcome.failing_check}" if outcome.failing_check else "")
