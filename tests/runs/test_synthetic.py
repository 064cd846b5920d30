"""The synthetic corpus: the card finds what was planted, all of it and nothing else, and sees each part of it go."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from functools import cache

import msgspec
import pytest

from traceaudit.runs.card import CardFold
from traceaudit.runs.digests import content_digest, corpus_digest
from traceaudit.runs.files import run_bytes, write_run
from traceaudit.runs.schema import Outcome, Run
from traceaudit.runs.secrets import seed_shapes, sweep, texts
from traceaudit.runs.synthetic import (
    LOOKALIKES,
    MODELS,
    PLANTED,
    PLANTED_CONSTANT,
    PLANTED_EMPTY,
    PLANTED_RELATIONS,
    _plans,
    found,
    synthetic,
)
from traceaudit.runs.verify import verify


@cache
def corpus() -> tuple[Run, ...]:
    return tuple(synthetic())


@cache
def one() -> int:
    """Place of a failed, stamped run with a step that was not observed and a failing one."""
    return next(
        at
        for at, run in enumerate(corpus())
        if run.stamped
        and not run.header.resolved
        and {"state not observed"} <= {step.outcome.why for step in run.steps}
        and any(step.outcome.failing_check for step in run.steps)
    )


@cache
def others() -> CardFold:
    """All runs but one."""
    fold = CardFold()
    for at, run in enumerate(corpus()):
        if at != one():
            fold.add(run)
    return fold


def card_with(run: Run) -> dict:
    fold = CardFold()
    fold.merge(others())
    fold.add(run)
    return fold.result()


@cache
def card() -> dict:
    return card_with(corpus()[one()])


@pytest.mark.parametrize("name", PLANTED)
def test_the_card_finds_what_was_planted(name):
    assert found(card())[name] == PLANTED[name]


def test_the_card_names_exactly_the_planted_columns():
    columns = card()["columns"]
    assert sorted(columns["empty"]) == sorted(PLANTED_EMPTY)
    assert sorted(row["name"] for row in columns["constant"]) == sorted(PLANTED_CONSTANT)
    relations = {frozenset((row["a"], row["b"])): row["exceptions"] for row in columns["duplicate"]}
    assert relations == {frozenset(pair): exceptions for pair, exceptions in PLANTED_RELATIONS.items()}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_each_model_is_as_published(model):
    row = next(row for row in card()["per_model"] if row["model"] == model.name)
    assert (row["trajectories"], row["stamped"], row["steps"]) == (model.runs, model.stamped, model.steps)
    assert (row["failed_nonterminal_steps"], row["terminal_failures"]) == (model.red, model.failed)
    cell = next(
        cell
        for cell in card()["coverage"]["by_model_and_outcome"]
        if (cell["model"], cell["outcome"]) == (model.name, "failed")
    )
    assert cell["unstamped"] == model.failed_unstamped


PUBLISHED = {  # model -> stamped share, steps before the last, terminal failure rate (facts sheet, 3.2)
    "deepseek-v4-flash": (0.926, 11_456, 0.3419),
    "deepseek-v4-pro": (0.870, 7_470, 0.1500),
    "gpt-5-mini": (0.937, 6_491, 0.4754),
    "kimi-k2.5": (0.892, 5_000, 0.6036),
    "kimi-k3": (0.915, 2_130, 0.1186),
    "qwen3.7-plus": (0.785, 3_204, 0.8615),
    "glm-5.2": (0.677, 1_438, 0.6129),
}


@pytest.mark.parametrize("model", PUBLISHED)
def test_the_rates_round_to_the_published_ones(model):
    row = next(row for row in card()["per_model"] if row["model"] == model)
    shown = (round(row["stamped_share"], 3), row["nonterminal_steps"], round(row["terminal_failure_rate"], 4))
    assert shown == PUBLISHED[model]


def test_the_two_failure_rates_round_to_the_published_ones():
    assert round(card()["terminal_failure_rate"], 3) == 0.398
    assert round(card()["terminal_failure_rate_stamped"], 3) == 0.365


def test_the_drop_goes_with_the_outcome_within_models_too():
    drop = card()["coverage"]["drop_by_outcome"]
    assert (drop["failed_dropped"], drop["failed"], drop["resolved_dropped"], drop["resolved"]) == (72, 407, 33, 615)
    assert drop["interval"][0] > 0.08 and drop["within_models"]["exact"]["p"] < 1e-6


def test_a_sweep_by_words_fires_on_the_lookalikes_and_ours_does_not():
    every = Counter(text for run in corpus() for text in texts(run))  # few texts are long, most are there often
    assert sum(n * len(seed_shapes(text)) for text, n in every.items() if not sweep(text)) == LOOKALIKES
    assert sum(n * len(sweep(text)) for text, n in every.items()) == PLANTED["credentials"]


def header(run, **changes):
    return Run(msgspec.structs.replace(run.header, **changes), run.steps)


def first(run, choose, **changes):
    at = next(at for at, step in enumerate(run.steps) if choose(step))
    return Run(run.header, (*run.steps[:at], msgspec.structs.replace(run.steps[at], **changes), *run.steps[at + 1 :]))


def outcome(run, choose, **changes):
    step = next(step for step in run.steps if choose(step))
    return first(run, choose, outcome=msgspec.structs.replace(step.outcome, **changes))


def red(step):
    return step.outcome.failing_check is not None


def any_step(_):
    return True


def lost(step):
    return step.outcome.why == "state not observed"


EDITS = {  # what is changed in one run -> the change, and how each name of PLANTED moves
    "a licence": (lambda r: header(r, licence="MIT"), {"without_licence": -1, "empty_columns": -1}),
    "a revision": (
        lambda r: header(r, dataset_revision="1"),
        {"without_dataset_revision": -1, "empty_columns": -1},
    ),
    "the label": (lambda r: header(r, resolved=True), {"terminal_failures": -1, "terminal_failures_stamped": -1}),
    "a price": (lambda r: first(r, any_step, cost=1.0), {"empty_columns": -1}),
    "a retry": (
        lambda r: first(r, any_step, signals=r.steps[0].signals | {"retry_count": 1}),
        {"constant_columns": -1},
    ),
    "a confirmed failure": (
        lambda r: outcome(r, red, confirmed=True),
        {"confirmed_failures": 1, "empty_columns": -1},
    ),
    "another model": (lambda r: header(r, model="new"), {"models": 1}),
    "another arm": (lambda r: header(r, arm="new"), {"arms": 1}),
    "an observed step": (
        lambda r: first(r, lost, outcome=Outcome(state="measured", why="", passed=True)),
        {"steps_not_observed": -1},
    ),
    "the last step names a test": (
        lambda r: Run(
            r.header,
            (
                *r.steps[:-1],
                msgspec.structs.replace(
                    r.steps[-1],
                    outcome=Outcome(state="measured", why="", passed=False, failing_check="t"),
                    signals=r.steps[-1].signals | {"dedup_key": "t"},
                ),
            ),
        ),
        {"relations_with_407_exceptions": -4},
    ),
    "another instrument": (lambda r: outcome(r, red, instrument="x"), {"instruments": 1}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_one_change_in_one_run_moves_the_numbers_it_should(edit):
    change, moves = EDITS[edit]
    now = found(card_with(change(corpus()[one()])))
    moved = {name: now[name] - PLANTED[name] for name in PLANTED if now[name] != PLANTED[name]}
    assert {name: moved.get(name, 0) for name in moves} == moves
    assert set(moved) - set(moves) <= {"related_columns", "constant_columns"}, moved  # what follows from the change


def test_the_table_of_models_adds_up_to_what_is_planted():
    columns = {
        "trajectories": "runs", "stamped": "stamped", "steps": "steps", "failed_nonterminal_steps": "red",
        "terminal_failures": "failed", "failed_and_unstamped": "failed_unstamped",
    }  # fmt: skip
    assert {name: sum(getattr(model, of) for model in MODELS) for name, of in columns.items()} == {
        name: PLANTED[name] for name in columns
    }
    assert len({arm for model in MODELS for arm in model.arms}) == PLANTED["arms"]


@pytest.mark.parametrize("seed", range(8))
def test_every_seed_has_the_same_counts(seed):
    plans = _plans(random.Random(seed))
    lengths = sorted(plan.length for plan in plans)
    assert (lengths[0], statistics.median(lengths), lengths[-1], sum(lengths)) == (5, 32, 247, PLANTED["steps"])
    assert len({(plan.instance, plan.model.name, plan.arm) for plan in plans}) == PLANTED["trajectories"]
    assert len({plan.instance for plan in plans}) == PLANTED["instances"]
    assert sum(plan.failed for plan in plans) == PLANTED["terminal_failures"]
    assert sum(plan.failed and not plan.stamped for plan in plans) == PLANTED["failed_and_unstamped"]
    assert sum(len(plan.unobserved) for plan in plans) == PLANTED["steps_not_observed"]
    assert sum(bool(plan.unobserved) for plan in plans) == PLANTED["runs_with_steps_not_observed"]
    assert sum(len(plan.coded) for plan in plans) == PLANTED["graded_with_exit_code"]
    assert Counter(plan.model.name for plan in plans for _ in plan.red) == {m.name: m.red for m in MODELS}
    assert all(plan.graded() for plan in plans if plan.stamped)


def test_the_same_seed_gives_the_same_corpus_and_another_seed_another():
    digest = corpus_digest(corpus())
    assert corpus_digest(synthetic(0)) == digest != corpus_digest(synthetic(1))


def test_each_run_is_sound(tmp_path):
    for run in corpus()[::40]:
        assert run.header.content_sha256 == content_digest(run.steps)
        assert not any(step.outcome.contradiction for step in run.steps)
        assert run_bytes(run).isascii()
        write_run(run, tmp_path)
    assert [problem.rule for problem in verify(tmp_path)] == ["manifest.missing"]
