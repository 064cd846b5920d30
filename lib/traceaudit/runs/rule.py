"""The escalation rule: does one failing check come back often enough, soon enough, once the agent has begun to edit?

The rule is asked for thirty pairs of threshold and window and thousands of runs, so the largest count per run and
window is computed once, for all runs together; every threshold is then a comparison.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import ValueProblem
from .schema import Run

__all__ = [
    "CANONICAL",
    "CELLS",
    "THRESHOLDS",
    "WINDOWS",
    "Cell",
    "RunSteps",
    "cell_scores",
    "edit_like",
    "fires",
    "max_recurrence",
    "steps_of",
]

THRESHOLDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50)
"""How many times one check must fail."""
WINDOWS = (10, 1000)
"""Within how many decisions."""


@dataclass(frozen=True, order=True)
class Cell:
    """One setting of the rule: fire at ``n`` failures of one check within ``window`` decisions."""

    n: int
    window: int

    def __str__(self) -> str:
        return f"n = {self.n}, window {self.window}"


CELLS = tuple(Cell(n, window) for window in WINDOWS for n in THRESHOLDS)
CANONICAL = Cell(2, 10)
"""The shipped setting."""

_EDIT = re.compile(
    r"""
      \bsed\b[^\n|;&]*?\s(?:-[A-Za-z]*i|--in-place)
    | \bperl\b[^\n|;&]*?\s-[A-Za-z]*i
    | \bpatch\b[^\n|;&]*?(?:\s-[pi]|<)
    | \bapplypatch\b | \bapply_patch\b
    | \bgit\b[^\n|;&]*?\s(?:apply|add|commit)\b
    | \btee\b
    | \b(?:cat|echo|printf)\b[^\n]*?(?<![0-9&=-])>(?!&|\s*/dev/null)
    | \bopen\([^)\n]*,\s*(?:mode\s*=\s*)?["'][rbt]*[wax]
    | \.write(?:_text|_bytes)?\(
    | (?:^|[\n;&|(]|\s)(?:rm|mv|cp)\s
    """,
    re.VERBOSE,
)
_PRINTS = re.compile(r"\b(?:cat|echo|printf)\b")


def edit_like(action: str) -> bool:
    """Whether an action looks as if it changed the workspace.

    In-place ``sed`` or ``perl``; ``patch`` with ``-p``, ``-i`` or an input; ``git apply``, ``add`` or ``commit``;
    ``tee``; ``cat``, ``echo`` or ``printf`` into a file; Python that opens a file for writing or writes to one;
    ``rm``, ``mv``, ``cp``. Not one that names ``/tmp`` and also uses ``cat``, ``echo`` or ``printf``. A guess from
    text: it neither runs the action nor knows whether it succeeded. An empty action is none.

    Source: facts sheet, section 8 (the corpus's own gate, restated).
    """
    if "/tmp" in action and _PRINTS.search(action):
        return False
    return _EDIT.search(action) is not None


@dataclass(frozen=True)
class RunSteps:
    """What the rule reads of one run, one entry a step, all of one length.

    Attributes:
        decision: Counter of the window; never falls within a run.
        failed: The workspace was measured and failed.
        passed: It was measured and passed; neither of the two where it was not measured.
        countable: The failure counts towards the threshold (confirmed and blocking).
        key: Which check failed; None or empty where unknown.
        edit: The action is :func:`edit_like`.
    """

    decision: Sequence[int]
    failed: Sequence[bool]
    passed: Sequence[bool]
    countable: Sequence[bool]
    key: Sequence[str | None]
    edit: Sequence[bool]

    def __post_init__(self) -> None:
        sizes = {len(part) for part in (self.failed, self.passed, self.countable, self.key, self.edit)}
        if sizes != {len(self.decision)}:
            raise ValueProblem("the step columns of a run differ in length", got=", ".join(map(str, sorted(sizes))))
        if any(later < sooner for sooner, later in zip(self.decision, self.decision[1:], strict=False)):
            raise ValueProblem("the decision counter of a run falls", next_step="put the steps in order")


def steps_of(run: Run, *, unconfirmed: bool = True) -> RunSteps:
    """The rule's columns of a run, without its last step, whose outcome is the label.

    The actions are the arguments of all calls of a step. They are read as shell text, so an edit through a tool with
    arguments of its own (an editor's JSON) is not seen and the gate stays shut for it.

    Args:
        run: Any run; steps that were not measured are neither failed nor passed.
        unconfirmed: Count failures that no second execution confirmed. The published corpus marks every failure as
            confirmed without a second execution, so True gives its figures; False is the rule as it is written.
    """
    steps = run.steps[:-1]
    outcomes = [step.outcome for step in steps]
    return RunSteps(
        decision=[step.index for step in steps],
        failed=[outcome.passed is False for outcome in outcomes],
        passed=[outcome.passed is True for outcome in outcomes],
        countable=[outcome.passed is False and (unconfirmed or outcome.confirmed is True) for outcome in outcomes],
        key=[outcome.failing_check for outcome in outcomes],
        edit=[edit_like("\n".join(call.arguments for call in step.calls)) for step in steps],
    )


def max_recurrence(
    runs: Iterable[RunSteps], windows: Sequence[int] = WINDOWS, *, edit_gated: bool = True
) -> npt.NDArray[np.int64]:
    """Largest number of countable failures of one check within a window, per run.

    Steps before the first edit are ignored when ``edit_gated`` (that first edit's own step counts). A pass forgets all
    failures before it; a failure without a key, and a step that was not measured, change nothing. A failure at
    decision ``e`` is still in the window at decision ``d`` while ``d - e < window``.

    Args:
        runs: The runs, in order; one without steps, or that never edits under the gate, gets 0.
        windows: One column each, positive.
        edit_gated: Whether the gate applies; without it the rule is the one "as shipped".

    Returns:
        Array of shape (runs, windows).

    Raises:
        ValueProblem: a window below 1.
    """
    if any(window < 1 for window in windows):
        raise ValueProblem("a window holds at least one decision", got=", ".join(map(str, windows)))
    ids: dict[tuple[int, int, str], int] = {}  # (run, passes so far, check) -> group
    groups: list[int] = []
    decisions: list[int] = []
    owners: list[int] = []  # of a group
    number = 0
    for number, run in enumerate(runs, 1):
        epoch, is_open = 0, not edit_gated
        for decision, failed, passed, countable, key, edit in zip(
            run.decision, run.failed, run.passed, run.countable, run.key, run.edit, strict=True
        ):
            is_open = is_open or edit
            if not is_open:
                continue
            if failed:
                if key and countable:
                    group = ids.setdefault((number - 1, epoch, key), len(ids))
                    if group == len(owners):
                        owners.append(number - 1)
                    groups.append(group)
                    decisions.append(decision)
            elif passed:
                epoch += 1
    most = np.zeros((number, len(windows)), dtype=np.int64)
    if not groups:
        return most
    group_of, at = np.asarray(groups, dtype=np.int64), np.asarray(decisions, dtype=np.int64)
    at = at - at.min()
    order = np.lexsort((at, group_of))
    group_of, at = group_of[order], at[order]
    reach = int(at.max()) + 1
    line = group_of * (2 * reach) + at + reach  # groups lie apart by more than any window can reach back
    owner = np.asarray(owners, dtype=np.int64)[group_of]
    for column, window in enumerate(windows):
        first = np.searchsorted(line, line - min(window, reach) + 1, side="left")
        np.maximum.at(most[:, column], owner, np.arange(len(line)) - first + 1)
    return most


def cell_scores(
    most: npt.NDArray[np.int64], cells: Sequence[Cell] = CELLS, windows: Sequence[int] = WINDOWS
) -> npt.NDArray[np.float64]:
    """1 where the rule fires anywhere in a run and else 0, of shape (runs, cells).

    Firing empties the rule's memory, but the first firing already decides this score, so ``most >= n`` is exact.

    Args:
        most: What :func:`max_recurrence` gave for ``windows``.
        cells: One column each; each cell's window must be among ``windows``.
        windows: The columns of ``most``.
    """
    columns = [list(windows).index(cell.window) for cell in cells]
    return (most[:, columns] >= np.asarray([cell.n for cell in cells])).astype(np.float64)


def fires(run: RunSteps, cell: Cell = CANONICAL, *, edit_gated: bool = True) -> bool:
    """Whether the rule fires anywhere in one run."""
    return bool(max_recurrence([run], (cell.window,), edit_gated=edit_gated)[0, 0] >= cell.n)
