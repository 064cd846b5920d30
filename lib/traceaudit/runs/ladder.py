"""The coverage ladder: is what a score shows still there on the models whose runs were measured most completely?

A score is computed on measured runs alone, and models differ in how many of theirs were measured. Each rung keeps the
models with at least some share measured and asks the whole question again, so that no single cut is chosen. It cannot
answer for runs that are missing because of how they ended, and its last rung also loses all difference between models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ValueProblem
from .nulls import (
    DRAWS,
    Bools,
    Floats,
    Ints,
    Null,
    auroc,
    aurocs,
    block_draws,
    bootstrap_share,
    draws_of,
    length_draws,
    length_only,
    null_of,
    stratified_auroc,
)
from .rule import CANONICAL, CELLS, Cell

__all__ = [
    "Ladder",
    "ModelShare",
    "Operating",
    "Rung",
    "RunsTable",
    "SweepRow",
    "ladder",
    "model_shares",
    "operating",
    "sweep",
]


@dataclass(frozen=True)
class RunsTable:
    """All runs of a corpus, measured or not, one entry a run.

    Attributes:
        instance: The task, or the run's own id where it has none; the block of the challenge-block null.
        model: What the coverage is a property of.
        length: Number of steps.
        failed: The terminal label: not resolved.
        stamped: Whether the run was measured and so has a score.
    """

    instance: Sequence[str]
    model: Sequence[str]
    length: Ints
    failed: Bools
    stamped: Bools

    def __post_init__(self) -> None:
        sizes = {len(part) for part in (self.instance, self.model, self.length, self.failed, self.stamped)}
        if len(sizes) != 1:
            raise ValueProblem("the columns of a table of runs differ in length", got=", ".join(map(str, sizes)))

    def __len__(self) -> int:
        return len(self.model)

    def where(self, rows: Bools) -> RunsTable:
        """The runs for which ``rows`` is true."""
        picked: list[int] = np.flatnonzero(rows).tolist()
        return RunsTable(
            instance=[self.instance[row] for row in picked],
            model=[self.model[row] for row in picked],
            length=self.length[picked],
            failed=self.failed[picked],
            stamped=self.stamped[picked],
        )


@dataclass(frozen=True)
class ModelShare:
    """How many of a model's runs were measured, together and by how they ended."""

    model: str
    runs: int
    stamped: int
    failed: int
    failed_stamped: int

    @property
    def share(self) -> float:
        """Measured runs / runs."""
        return self.stamped / self.runs


@dataclass(frozen=True)
class Rung:
    """One rung: the measured runs of the models with at least ``min_share`` of their runs measured.

    Attributes:
        min_share: The cut.
        models: The models left, by name.
        n, failed: Runs, and failed ones among them.
        retained: n / all measured runs.
        auroc: Of the canonical score.
        delta: auroc - auroc of the first rung.
        length_only: What the number of steps alone reaches, see :func:`.nulls.length_only`.
        block, family, length: The three nulls; ``family`` takes the largest AUROC of all cells in each draw of
            ``block``. Where the family has one cell the two are the same.
    """

    min_share: float
    models: tuple[str, ...]
    n: int
    failed: int
    retained: float
    auroc: float
    delta: float
    length_only: float
    block: Null
    family: Null
    length: Null

    @property
    def clears(self) -> bool:
        """Whether the score lies above the family-wise band, the gate of a cell."""
        return self.family.beats


@dataclass(frozen=True)
class Ladder:
    """All rungs, from the lowest cut up.

    Attributes:
        cell: Name of the canonical score.
        rungs: Those with both classes.
        dropped: Cuts at which all runs ended alike, so that nothing can be told apart.
        coverage: Per model, by share and name.
    """

    cell: str
    rungs: tuple[Rung, ...]
    dropped: tuple[float, ...]
    coverage: tuple[ModelShare, ...]

    @property
    def survives(self) -> bool:
        """Whether there is a rung and every rung clears its family-wise band."""
        return bool(self.rungs) and all(rung.clears for rung in self.rungs)


@dataclass(frozen=True)
class Operating:
    """One score of zeros and ones as a decision: what firing says about failing.

    Attributes:
        tp, fp, fn, tn: Fired and failed, fired and not, quiet and failed, quiet and not.
        precision: tp / fired, with its 95 % interval by resampling tasks; None where nothing fired.
        quiet: fn / quiet, likewise.
        base: failed / runs.
        lift: precision / base.
        auroc: (1 + tp / failed - fp / others) / 2.
    """

    tp: int
    fp: int
    fn: int
    tn: int
    precision: float | None
    precision_interval: tuple[float, float] | None
    quiet: float | None
    quiet_interval: tuple[float, float] | None
    base: float | None
    lift: float | None
    auroc: float

    @property
    def fires(self) -> int:
        """Runs in which it fires."""
        return self.tp + self.fp


@dataclass(frozen=True)
class SweepRow:
    """One cell of the policy sweep.

    Attributes:
        cell: The setting.
        point: Its operating point.
        family: The family-wise null over all cells of the sweep.
        skill: It beats that null, and its precision's interval lies above the base rate.
        within_model: AUROC within models, None where every model ended in one class.
    """

    cell: Cell
    point: Operating
    family: Null
    skill: bool
    within_model: float | None


def model_shares(table: RunsTable) -> tuple[ModelShare, ...]:
    """Measured and missing runs per model, by share and then name; a model without a measured run has share 0."""
    models = np.asarray(table.model, dtype=np.str_)
    rows = []
    for name in sorted(set(table.model)):
        of = models == name
        rows.append(
            ModelShare(
                model=name,
                runs=int(of.sum()),
                stamped=int((of & table.stamped).sum()),
                failed=int((of & table.failed).sum()),
                failed_stamped=int((of & table.failed & table.stamped).sum()),
            )
        )
    return tuple(sorted(rows, key=lambda row: (row.share, row.model)))


def _checked(table: RunsTable, scores: Floats) -> Floats:
    wide = np.asarray(scores, dtype=np.float64)
    wide = wide[:, None] if wide.ndim == 1 else wide
    if len(wide) != len(table):
        raise ValueProblem("each run needs its scores", expected=f"{len(table)} rows", got=str(len(wide)))
    return wide


def _rung(
    table: RunsTable, scores: Floats, canonical: int, *, draws: int, seed: int
) -> tuple[float, float, Null, Null, Null]:
    observed = float(aurocs(scores[:, [canonical]], table.failed)[0])
    blocks = draws_of(scores, table.failed, block_draws(table.failed, table.instance, draws, seed))
    one = scores[:, [canonical]]
    lengths = draws_of(one, table.failed, length_draws(table.failed, table.length, draws, seed))[:, 0]
    return (
        observed,
        length_only(scores[:, canonical], table.length, table.failed),
        null_of("challenge block", observed, blocks[:, canonical]),
        null_of("family-wise", observed, blocks.max(axis=1)),
        null_of("length-stratified", observed, lengths),
    )


def ladder(
    table: RunsTable,
    scores: Floats,
    canonical: int = CELLS.index(CANONICAL),
    *,
    cell: str = str(CANONICAL),
    draws: int = DRAWS,
    seed: int = 0,
) -> Ladder:
    """The whole question on every rung.

    Args:
        table: All runs; those not measured count for the coverage alone.
        scores: A row a run (those of unmeasured runs are not read), a column a member of the family: all settings
            that were looked at. One column, or a plain vector, is a family of one.
        canonical: Column of the score that is asked about.
        cell: What that score is called.
        draws: Of each null.
        seed: Of the draws; a rung's draws depend on it and on the rung's own runs alone.

    Returns:
        The rungs at each distinct share above 0; none where no run was measured.

    Raises:
        ValueProblem: rows missing, no such column, or fewer than 200 draws.
    """
    wide = _checked(table, scores)
    if not 0 <= canonical < wide.shape[1]:
        raise ValueProblem("no such column of the family", got=str(canonical), expected=f"below {wide.shape[1]}")
    rows = model_shares(table)
    share_of = {row.model: row.share for row in rows}
    share = np.asarray([share_of[name] for name in table.model])
    total = int(table.stamped.sum())
    rungs: list[Rung] = []
    dropped: list[float] = []
    for cut in sorted({row.share for row in rows if row.stamped}):
        kept = table.stamped & (share >= cut)
        part = table.where(kept)
        failed = int(part.failed.sum())
        if failed in (0, len(part)):
            dropped.append(cut)
            continue
        observed, plain, block, family, length = _rung(part, wide[kept], canonical, draws=draws, seed=seed)
        rungs.append(
            Rung(
                min_share=cut,
                models=tuple(sorted(set(part.model))),
                n=len(part),
                failed=failed,
                retained=len(part) / total,
                auroc=observed,
                delta=observed - (rungs[0].auroc if rungs else observed),
                length_only=plain,
                block=block,
                family=family,
                length=length,
            )
        )
    return Ladder(cell, tuple(rungs), tuple(dropped), rows)


def operating(table: RunsTable, fired: Floats, *, resamples: int = 1000, seed: int = 0) -> Operating:
    """The operating point of a score of zeros and ones over the measured runs.

    Args:
        table: All runs; those not measured are left out.
        fired: One entry a run, 0 or 1.
        resamples: Of the bootstrap over tasks; resamples without a firing (or quiet) run drop out of the interval.
        seed: Of the bootstrap.

    Raises:
        ValueProblem: rows missing, or a measured run's score is neither 0 nor 1.
    """
    score = _checked(table, fired)[:, 0][table.stamped]
    if not np.isin(score, (0.0, 1.0)).all():
        raise ValueProblem("an operating point needs a score of zeros and ones", next_step="choose a threshold")
    part = table.where(table.stamped)
    on, failed = score == 1.0, part.failed
    tp, fp = int((on & failed).sum()), int((on & ~failed).sum())
    fn, tn = int((~on & failed).sum()), int((~on & ~failed).sum())
    precision = tp / (tp + fp) if tp + fp else None
    base = (tp + fn) / len(part) if len(part) else None
    high = bootstrap_share(failed, on, part.instance, resamples, seed)
    low = bootstrap_share(failed, ~on, part.instance, resamples, seed)
    return Operating(
        tp=tp,
        fp=fp,
        fn=fn,
        tn=tn,
        precision=precision,
        precision_interval=high and high[:2],
        quiet=fn / (fn + tn) if fn + tn else None,
        quiet_interval=low and low[:2],
        base=base,
        lift=precision / base if base and precision is not None else None,
        auroc=auroc(score, failed),
    )


def sweep(
    table: RunsTable, scores: Floats, cells: Sequence[Cell] = CELLS, *, draws: int = DRAWS, seed: int = 0
) -> tuple[SweepRow, ...]:
    """Every setting's operating point, held against the largest of all settings under each draw.

    Args:
        table: All runs.
        scores: Shape (runs, cells), zeros and ones.
        cells: The settings, in the order of the columns.
        draws: Of the null.
        seed: Of draws and bootstrap.

    Raises:
        ValueProblem: the columns are not those of ``cells``, or as :func:`operating`.
    """
    wide = _checked(table, scores)
    if wide.shape[1] != len(cells):
        raise ValueProblem("each setting needs its column", expected=str(len(cells)), got=str(wide.shape[1]))
    part = table.where(table.stamped)
    measured = wide[table.stamped]
    if not len(part):
        return ()
    top = draws_of(measured, part.failed, block_draws(part.failed, part.instance, draws, seed)).max(axis=1)
    rows = []
    for column, cell in enumerate(cells):
        point = operating(table, wide[:, column], seed=seed)
        family = null_of("family-wise", point.auroc, top)
        above = (
            point.precision_interval is not None and point.base is not None and point.precision_interval[0] > point.base
        )
        within, _ = stratified_auroc(measured[:, column], part.failed, part.model)
        rows.append(SweepRow(cell, point, family, family.beats and above, within))
    return tuple(rows)
