"""The ladder: a naive reference with the same draws, closed forms, and two made corpora with a known answer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from traceaudit.errors import ValueProblem
from traceaudit.runs import nulls
from traceaudit.runs.ladder import RunsTable, ladder, model_shares, operating, sweep
from traceaudit.runs.rule import CANONICAL, CELLS, Cell, cell_scores
from traceaudit.runs.worlds import made_world

AT = CELLS.index(CANONICAL)


def table(*, seed: int = 0, runs: int = 40, tasks: int = 9, models: int = 3) -> tuple[RunsTable, np.ndarray]:
    """A small corpus: some unmeasured runs, tied scores, tied lengths, tasks of unequal size."""
    random = np.random.default_rng(seed)
    made = RunsTable(
        instance=[f"t{number}" for number in random.integers(0, tasks, runs)],
        model=[f"m{number}" for number in random.integers(0, models, runs)],
        length=random.integers(3, 12, runs),
        failed=random.random(runs) < 0.4,
        stamped=random.random(runs) < 0.8,
    )
    most = random.integers(0, 4, (runs, 3)) + made.failed[:, None]
    return made, most.astype(np.float64)


# --- the reference: pairs, lists and loops -------------------------------------------------------------------------


def pairs_auroc(score: list[float], failed: list[bool]) -> float:
    yes = [s for s, f in zip(score, failed, strict=True) if f]
    no = [s for s, f in zip(score, failed, strict=True) if not f]
    if not yes or not no:
        return 0.5
    doubled = sum(2 * (a > b) + (a == b) for a in yes for b in no)
    return doubled / 2 / (len(yes) * len(no))


def naive_blocks(failed: list[bool], names: list[str], draws: int, seed: int) -> list[list[bool]]:
    random = np.random.default_rng((seed, 1))
    order = list(dict.fromkeys(names))
    rows = {name: [row for row, own in enumerate(names) if own == name] for name in order}
    out = []
    for _ in range(draws):
        numbers = random.random(len(order))
        shuffled = [order[k] for k in sorted(range(len(order)), key=lambda k: numbers[k])]
        labels = [failed[row] for name in shuffled for row in rows[name]]
        dealt = [False] * len(failed)
        for label, row in zip(labels, [row for name in order for row in rows[name]], strict=True):
            dealt[row] = label
        out.append(dealt)
    return out


def naive_lengths(failed: list[bool], length: list[int], draws: int, seed: int) -> list[list[bool]]:
    random = np.random.default_rng((seed, 2))
    n = len(failed)
    ranked = sorted(range(n), key=lambda row: (length[row], row))
    bins = [0] * n
    for rank, row in enumerate(ranked):
        bins[row] = rank * 10 // n
    grouped = sorted(range(n), key=lambda row: (bins[row], row))
    out = []
    for _ in range(draws):
        numbers = random.random(n)
        order = sorted(range(n), key=lambda k: (bins[grouped[k]], numbers[k]))
        dealt = [False] * n
        for place, k in enumerate(order):
            dealt[grouped[place]] = failed[grouped[k]]
        out.append(dealt)
    return out


def naive_p(observed: float, draws: list[float]) -> float:
    return (1 + sum(draw >= observed for draw in draws)) / (len(draws) + 1)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_every_rung_has_the_p_values_of_the_reference(seed: int, binary: bool) -> None:
    made, scores = table(seed=seed)
    scores = (scores >= 2).astype(np.float64) if binary else scores
    result = ladder(made, scores, 1, draws=200, seed=seed)
    share = {}
    for name in set(made.model):
        own = [bool(s) for s, m in zip(made.stamped, made.model, strict=True) if m == name]
        share[name] = sum(own) / len(own)
    cuts = sorted({s for s in share.values() if s})
    assert [rung.min_share for rung in result.rungs] == cuts
    for rung, cut in zip(result.rungs, cuts, strict=True):
        rows = [row for row in range(len(made)) if made.stamped[row] and share[made.model[row]] >= cut]
        failed = [bool(made.failed[row]) for row in rows]
        columns = [[float(scores[row, column]) for row in rows] for column in range(3)]
        observed = pairs_auroc(columns[1], failed)
        blocks = naive_blocks(failed, [made.instance[row] for row in rows], 200, seed)
        lengths = naive_lengths(failed, [int(made.length[row]) for row in rows], 200, seed)
        one = [pairs_auroc(columns[1], dealt) for dealt in blocks]
        top = [max(pairs_auroc(column, dealt) for column in columns) for dealt in blocks]
        even = [pairs_auroc(columns[1], dealt) for dealt in lengths]
        assert (rung.n, rung.failed) == (len(rows), sum(failed))
        assert rung.auroc == pytest.approx(observed, abs=1e-12)
        for null, draws in ((rung.block, one), (rung.family, top), (rung.length, even)):
            assert null.p == naive_p(observed, draws)
            assert [null.low, null.high] == pytest.approx(list(np.percentile(draws, [2.5, 97.5])), abs=1e-12)
            assert null.sd == pytest.approx(np.std(draws, ddof=1), abs=1e-12)
            assert null.beats == (observed > np.percentile(draws, 97.5) + 1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_auroc_is_the_known_one(seed: int) -> None:
    made, scores = table(seed=seed, runs=60)
    for column in range(3):
        assert nulls.auroc(scores[:, column], made.failed) == pytest.approx(
            roc_auc_score(made.failed, scores[:, column]), abs=1e-12
        )
    fired = (scores[:, 0] >= 2).astype(np.float64)
    point = operating(RunsTable(made.instance, made.model, made.length, made.failed, np.ones(60, bool)), fired)
    tpr, fpr = point.tp / (point.tp + point.fn), point.fp / (point.fp + point.tn)
    assert point.auroc == pytest.approx((1 + tpr - fpr) / 2, abs=1e-12)


@pytest.mark.parametrize("failed", [[True] * 3, [False] * 3, []])
def test_one_class_tells_nothing(failed: list[bool]) -> None:
    assert nulls.auroc(np.arange(len(failed), dtype=float), np.asarray(failed, dtype=bool)) == 0.5


def test_draws_do_not_depend_on_how_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = table()
    kinds = (
        lambda: nulls.block_draws(made.failed, made.instance, 200, 3),
        lambda: nulls.length_draws(made.failed, made.length, 200, 3),
    )
    whole = [np.concatenate(list(kind())) for kind in kinds]
    monkeypatch.setattr(nulls, "_AT_ONCE", 7 * len(made))
    for kind, before in zip(kinds, whole, strict=True):
        pieces = list(kind())
        assert len(pieces) > 1 and np.array_equal(np.concatenate(pieces), before)


def test_each_null_keeps_what_it_promises() -> None:
    """Deals keep the failures, the length null in each bin; equal blocks keep their labels together."""
    made, _ = table(runs=60)
    for dealt in nulls.block_draws(made.failed, made.instance, 200):
        assert (dealt.sum(axis=1) == made.failed.sum()).all()
    bins = nulls.length_bins(made.length)
    assert sorted(np.bincount(bins).tolist()) == [6] * 10
    for dealt in nulls.length_draws(made.failed, made.length, 200):
        for number in range(10):
            assert (dealt[:, bins == number].sum(axis=1) == made.failed[bins == number].sum()).all()
    even, labels = ["a", "b", "c", "a", "b", "c"], np.asarray([True, False, False, True, False, False])
    for dealt in nulls.block_draws(labels, even, 200):
        assert (dealt[:, :3] == dealt[:, 3:]).all() and set(dealt.argmax(axis=1).tolist()) == {0, 1, 2}


@pytest.mark.parametrize(
    ("score", "length", "expected"),
    [
        ([0, 0, 0, 0], [1, 2, 3, 4], 0.5),  # nothing fired
        ([1, 1, 0, 0], [1, 2, 3, 4], 1.0),  # the two longest are the failed ones
        ([1, 0, 0, 0], [4, 3, 2, 1], 0.25),  # the longest is not
        ([1, 0, 0, 0], [1, 1, 1, 1], 0.5),  # ties all fire
        ([3, 0, 0, 1], [1, 2, 3, 4], 1.0),  # any other score: the length itself
    ],
)
def test_length_only(score: list[float], length: list[int], expected: float) -> None:
    failed = np.asarray([False, False, True, True])
    assert nulls.length_only(np.asarray(score, dtype=float), np.asarray(length), failed) == expected


def test_stratified_drops_strata_of_one_class() -> None:
    score = np.asarray([1.0, 0.0, 0.0, 1.0, 5.0])
    failed = np.asarray([True, False, True, False, True])
    assert nulls.stratified_auroc(score, failed, list("aabbc")) == (0.5, 1)
    assert nulls.stratified_auroc(score[4:], failed[4:], ["c"]) == (None, 1)


def test_coverage_counts_by_outcome() -> None:
    made = RunsTable(
        ["t"] * 5,
        list("bbbaa"),
        np.arange(5),
        np.asarray([True, True, False, False, True]),
        np.asarray([True, False, True, False, False]),
    )
    first, second = model_shares(made)
    assert (first.model, first.runs, first.stamped, first.share) == ("a", 2, 0, 0.0)
    assert (second.failed, second.failed_stamped) == (2, 1)


def test_a_rung_of_one_class_is_dropped_and_a_model_without_runs_is_no_rung() -> None:
    made = RunsTable(
        [f"t{row % 3}" for row in range(12)],
        ["none"] * 2 + ["half"] * 6 + ["full"] * 4,
        np.arange(12),
        np.asarray([True] * 2 + [True, False] * 3 + [True] * 4),
        np.asarray([False] * 2 + [True] * 4 + [False] * 2 + [True] * 4),
    )
    result = ladder(made, made.failed.astype(float), 0, draws=200)
    assert [(rung.n, rung.models, rung.auroc) for rung in result.rungs] == [(8, ("full", "half"), 1.0)]
    assert result.dropped == (1.0,)
    nothing = RunsTable(made.instance, made.model, made.length, made.failed, np.zeros(12, bool))
    empty = ladder(nothing, made.failed.astype(float), 0, draws=200)
    assert empty.rungs == () and not empty.survives


@pytest.mark.parametrize("case", ["rows", "column", "draws", "score", "cells", "table"])
def test_what_cannot_be_asked_is_refused(case: str) -> None:
    made, scores = table()
    with pytest.raises(ValueProblem):
        match case:
            case "rows":
                ladder(made, scores[1:], 0)
            case "column":
                ladder(made, scores, 3)
            case "draws":
                ladder(made, scores, 0, draws=199)
            case "score":
                operating(made, scores[:, 0])
            case "cells":
                sweep(made, scores)
            case _:
                RunsTable(made.instance[1:], made.model, made.length, made.failed, made.stamped)


def test_operating_point_against_a_count() -> None:
    made, scores = table(runs=80)
    fired = (scores[:, 0] >= 2).astype(float)
    point = operating(made, fired)
    rows = [row for row in range(80) if made.stamped[row]]
    tp = sum(fired[row] == 1 and made.failed[row] for row in rows)
    on = sum(fired[row] == 1 for row in rows)
    base = sum(made.failed[row] for row in rows) / len(rows)
    assert (point.tp, point.fires, point.base) == (tp, on, base)
    assert point.precision == tp / on and point.lift == pytest.approx(tp / on / base)
    assert point.precision_interval is not None
    low, high = point.precision_interval
    assert low < tp / on < high
    picks = np.random.default_rng((0, 3)).integers(9, size=(1000, 9))  # the reference: resample tasks by hand
    names = list(dict.fromkeys(made.instance[row] for row in rows))
    shares = []
    for pick in picks:
        drawn = [row for number in pick for row in rows if made.instance[row] == names[number] and fired[row]]
        if drawn:
            shares.append(sum(bool(made.failed[row]) for row in drawn) / len(drawn))
    assert [low, high] == pytest.approx(list(np.percentile(shares, [2.5, 97.5])), abs=1e-12)


def test_operating_point_that_never_fires() -> None:
    made, _ = table()
    point = operating(made, np.zeros(len(made)))
    assert (point.fires, point.precision, point.precision_interval, point.lift, point.auroc) == (
        0,
        None,
        None,
        None,
        0.5,
    )


def test_the_ladder_tells_the_two_worlds_apart() -> None:
    """A real effect stays on every rung; one made by missing runs is there at first, falls, and is gone."""
    effect, missing = made_world("effect"), made_world("coverage")
    real = ladder(effect.table, cell_scores(effect.most))
    made = ladder(missing.table, cell_scores(missing.most))
    assert len(real.rungs) == len(made.rungs) == 7
    assert real.survives and not made.survives
    assert max(abs(rung.delta) for rung in real.rungs) < 0.05
    assert made.rungs[0].clears and made.rungs[0].block.beats and made.rungs[0].length.beats
    assert made.rungs[0].auroc > 0.6
    assert [rung.clears for rung in made.rungs[-3:]] == [False] * 3
    first = [rung.auroc for rung in made.rungs[:5]]
    assert first == sorted(first, reverse=True)


@pytest.mark.parametrize(("kind", "low", "high"), [("effect", 0.69, 0.75), ("coverage", 0.47, 0.53)])
def test_a_made_world_is_what_it_says(kind: str, low: float, high: float) -> None:
    """Over all runs, missing ones included, which no real corpus has."""
    world = made_world(kind)  # type: ignore[arg-type]
    assert low < nulls.auroc(cell_scores(world.most)[:, AT], world.table.failed) < high
    again = made_world(kind)  # type: ignore[arg-type]
    assert np.array_equal(world.most, again.most) and np.array_equal(world.table.stamped, again.table.stamped)


def test_an_operating_point_alone_cannot_tell_them_apart() -> None:
    for kind in ("effect", "coverage"):
        world = made_world(kind)  # type: ignore[arg-type]
        point = operating(world.table, cell_scores(world.most)[:, AT])
        assert point.lift is not None and point.lift > 1.4
        assert point.precision_interval is not None and point.base is not None
        assert point.precision_interval[0] > point.base


def test_sweep_covers_every_cell() -> None:
    world = made_world("effect")
    rows = sweep(world.table, cell_scores(world.most), draws=400)
    assert [row.cell for row in rows] == list(CELLS)
    by_cell = {row.cell: row for row in rows}
    assert by_cell[CANONICAL].skill and not by_cell[Cell(12, 10)].skill
    assert by_cell[Cell(12, 10)].point.fires == 0 and by_cell[Cell(12, 10)].family.p == 1.0
    fired = [by_cell[Cell(n, 1000)].point.fires for n in (1, 2, 4, 8, 20)]
    assert fired == sorted(fired, reverse=True) and len(set(fired)) == 5
    result = ladder(world.table, cell_scores(world.most), draws=400)
    assert result.rungs[0].family == by_cell[CANONICAL].family
    within = by_cell[CANONICAL].within_model
    assert within is not None and math.isclose(within, 0.72, abs_tol=0.05)


def test_skill_needs_the_interval_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world = made_world("effect")
    scores = cell_scores(world.most)[:, [AT]]
    assert sweep(world.table, scores, [CANONICAL], draws=200)[0].skill
    monkeypatch.setattr("traceaudit.runs.ladder.bootstrap_share", lambda *_: (0.0, 1.0, 0))
    (row,) = sweep(world.table, scores, [CANONICAL], draws=200)
    assert row.family.beats and not row.skill


def test_rungs_say_how_much_is_left() -> None:
    world = made_world("effect")
    rungs = ladder(world.table, cell_scores(world.most)[:, AT], 0, draws=200).rungs
    total = int(world.table.stamped.sum())
    assert [rung.retained for rung in rungs] == [rung.n / total for rung in rungs]
    assert [len(rung.models) for rung in rungs] == [7, 6, 5, 4, 3, 2, 1]
    assert rungs[0].retained == 1.0 and rungs[-1].n == 146
    assert all(rung.family == replace(rung.block, name="family-wise") for rung in rungs)  # a family of one
