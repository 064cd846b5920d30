"""A corpus made by code, of the size and with the defects of the first published card, each planted at a known count.

Whether a card finds what is wrong with a corpus can be told only where what is wrong is known; here it is known by
construction, and :data:`PLANTED` says how much of it there is.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import msgspec

from .digests import content_digest
from .schema import Call, Header, Outcome, Run, Scalar, Step, repository_of, run_id

__all__ = [
    "LOOKALIKES",
    "MODELS",
    "PLANTED",
    "PLANTED_CONSTANT",
    "PLANTED_EMPTY",
    "PLANTED_RELATIONS",
    "Model",
    "found",
    "synthetic",
]


@dataclass(frozen=True)
class Model:
    """What is planted for one model, after the published table (facts sheet, 3.2); the last field alone is ours.

    Attributes:
        name: Of the model.
        arms: In which its runs are dealt out in turn.
        runs, stamped, steps, red, failed: How many; ``red``: failing steps before the last of a run; ``failed``: runs.
        failed_unstamped: Of the failed runs, those without stamps; published for all models together only (72).
    """

    name: str
    arms: tuple[str, ...]
    runs: int
    stamped: int
    steps: int
    red: int
    failed: int
    failed_unstamped: int


MODELS = (
    Model("deepseek-v4-flash", ("nothink", "think"), 272, 252, 11_728, 7_269, 93, 14),
    Model("deepseek-v4-pro", ("think",), 200, 174, 7_670, 3_995, 30, 11),
    Model("gpt-5-mini", ("minimal", "medium", "high"), 284, 266, 6_775, 4_007, 135, 14),
    Model("kimi-k2.5", ("nothink", "think"), 111, 99, 5_111, 3_506, 67, 9),
    Model("kimi-k3", ("max",), 59, 54, 2_189, 1_016, 7, 2),
    Model("qwen3.7-plus", ("nothink", "think"), 65, 51, 3_269, 2_262, 56, 13),
    Model("glm-5.2", ("nothink", "max"), 31, 21, 1_469, 852, 19, 9),
)
_STAMPED_LAST = "deepseek-v4-pro"
"""The one model that the capture audit did not cover; a newer instrument stamped it, and few others."""
_OWNERS = (
    *(("django", 92), ("sympy", 30), ("sphinx-doc", 18), ("scikit-learn", 13), ("matplotlib", 13), ("astropy", 9)),
    *(("pydata", 9), ("pytest-dev", 7), ("pylint-dev", 4), ("psf", 3), ("mwaskom", 1), ("pallets", 1)),
)
_SHORTEST, _LONGEST, _MEDIAN = 5, 247, 32
_UNOBSERVED, _UNOBSERVED_RUNS = 1_957, 309
_GRADED_BY_CODE = 7_243
_CREDENTIALS = 3
_ROOM = 40
"""Steps of the stamped runs of a model beyond its failing ones, at least."""
_WHY = "state not observed"
_OLDER, _NEWER = "a46b04da" * 8, "6dc60f35" * 8

PLANTED_EMPTY = (
    *("call_time", "cost", "exit_code", "model", "outcome.confirmed"),
    *("signals.effort_index", "signals.rank_index", "signals.reasoning_effort", "signals.subgoal_progress"),
    *("signals.test_passed", "signals.test_total", "time"),
    *("tokens.cache_read", "tokens.cache_write", "tokens.input", "tokens.output", "tokens.reasoning"),
    *("header.api_calls", "header.captured_at", "header.cost", "header.dataset_revision", "header.exit_status"),
    *("header.licence", "header.scaffold_version"),
)
"""Columns without a value on any row: the eight of the published card among them (two of them are fields of ours)."""
PLANTED_CONSTANT = (
    *("calls", "paired", "signals.is_revert", "signals.loop_signal", "signals.retry_count", "text", "tool"),
    *("header.dataset", "header.format", "header.redacted", "header.resolved_by", "header.scaffold", "header.schema"),
)
PLANTED_RELATIONS = {
    # the published card calls the first three one column; the last step of each failed run is not as it says
    ("signals.success", "signals.blocking"): 0,
    ("signals.success", "outcome.failing_check"): 407,
    ("signals.blocking", "outcome.failing_check"): 407,
    ("signals.success", "signals.dedup_key"): 407,
    ("signals.blocking", "signals.dedup_key"): 407,
    ("signals.dedup_key", "outcome.failing_check"): 0,
    ("signals.decision_index", "index"): 0,
    # and these follow from what the fields mean
    ("outcome.passed", "outcome.state"): 0,
    ("outcome.passed", "signals.success"): 0,
    ("outcome.passed", "signals.blocking"): 0,
    ("outcome.why", "outcome.state"): 0,
    ("header.instance_id", "header.repository"): 0,
}
"""Pairs of columns of which one says what the other does, and on how many rows it does not."""

LOOKALIKES = 40
"""Passages of code that look like a credential to a pattern of words; a sweep must pass over them."""

PLANTED: dict[str, int] = {
    "trajectories": 1_022,
    "steps": 38_211,
    "nonterminal_steps": 37_189,
    "failed_nonterminal_steps": 22_907,
    "instances": 200,
    "repositories": 12,
    "models": 7,
    "arms": 6,
    "stamped": 917,
    "unstamped": 105,
    "median_steps": _MEDIAN,
    "min_steps": _SHORTEST,
    "max_steps": _LONGEST,
    "terminal_failures": 407,
    "terminal_failures_stamped": 335,
    "failed_and_unstamped": 72,
    "steps_not_observed": _UNOBSERVED,
    "runs_with_steps_not_observed": _UNOBSERVED_RUNS,
    "graded_with_exit_code": _GRADED_BY_CODE,
    "confirmed_failures": 0,
    "instruments": 2,
    "without_licence": 1_022,
    "without_dataset_revision": 1_022,
    "captures_unknown": 822,
    "empty_columns": len(PLANTED_EMPTY),
    "constant_columns": len(PLANTED_CONSTANT),
    "related_columns": len(PLANTED_RELATIONS),
    "relations_with_407_exceptions": 4,
    "credentials": _CREDENTIALS,
    "issues": 0,
}
"""Name of each defect or count to how often it is there, whatever the seed; the places depend on the seed."""


def found(card: Mapping[str, Any]) -> dict[str, int | None]:
    """What a card says of each name of :data:`PLANTED`; None where it did not look (no sweep for credentials)."""
    columns, outcomes, secrets = card["columns"], card["outcomes"], card["secrets"]
    unobserved = [row for row in card["not_measured"] if row["why"] == _WHY]
    more = {
        "failed_and_unstamped": card["coverage"]["drop_by_outcome"]["failed_dropped"],
        "steps_not_observed": sum(row["steps"] for row in unobserved),
        "runs_with_steps_not_observed": sum(row["runs"] for row in unobserved),
        "graded_with_exit_code": outcomes["with_exit_code"],
        "confirmed_failures": outcomes["confirmed_failures"],
        "instruments": len(card["instruments"]),
        "without_licence": card["licences"]["without"],
        "without_dataset_revision": card["dataset_revisions"]["without"],
        "captures_unknown": card["captures"]["runs_unknown"],
        "empty_columns": len(columns["empty"]),
        "constant_columns": len(columns["constant"]),
        "related_columns": len(columns["duplicate"]),
        "relations_with_407_exceptions": sum(
            row["exceptions"] == PLANTED["terminal_failures"] for row in columns["duplicate"]
        ),
        "credentials": None if secrets is None else secrets["hits"],
        "issues": sum(card["issues"].values()),
    }
    return {name: more[name] if name in more else card[name] for name in PLANTED}


@dataclass
class _Plan:
    """One run before its steps are made."""

    model: Model
    instance: str
    arm: str
    failed: bool
    stamped: bool
    length: int = 0
    unobserved: set[int] = field(default_factory=set)
    red: set[int] = field(default_factory=set)
    coded: set[int] = field(default_factory=set)
    newer: bool = False

    def graded(self) -> list[int]:
        """Positions before the last with an outcome."""
        return [at for at in range(self.length - 1) if at not in self.unobserved] if self.stamped else []


def _instances(draw: random.Random) -> list[str]:
    names = [f"{owner}__{owner.split('-')[0]}-{1000 + 7 * at}" for owner, n in _OWNERS for at in range(n)]
    draw.shuffle(names)
    return names


def _runs(draw: random.Random) -> list[_Plan]:
    instances, plans = _instances(draw), []
    for model in MODELS:
        arms = islice(cycle(model.arms), model.runs)
        places = list(enumerate(arms))
        flags = [(True, False)] * model.failed_unstamped
        flags += [(False, False)] * (model.runs - model.stamped - model.failed_unstamped)
        flags += [(True, True)] * (model.failed - model.failed_unstamped)
        flags += [(False, True)] * (model.runs - len(flags))
        draw.shuffle(flags)
        start = draw.randrange(len(instances))
        for (at, arm), (failed, stamped) in zip(places, flags, strict=True):
            instance = instances[(start + at // len(model.arms)) % len(instances)]
            plans.append(_Plan(model, instance, arm, failed, stamped))
    return plans


def _lengths(draw: random.Random, plans: Sequence[_Plan]) -> None:
    """Steps per run: the sum of each model, the median, the shortest and the longest are met exactly.

    One half of the runs stays at or below the median and the other at or above it, the middle two on it; within these
    bounds the runs of a model are lengthened or shortened by one step at a time until its sum is right.
    """
    for plan in plans:
        mean = plan.model.steps / plan.model.runs
        plan.length = round(mean * draw.lognormvariate(-0.12, 0.5))
    order = sorted(plans, key=lambda plan: plan.length)
    half = len(order) // 2
    bounds = {}
    for at, plan in enumerate(order):
        low, high = (_SHORTEST, _MEDIAN) if at < half else (_MEDIAN, _LONGEST)
        low, high = {0: (_SHORTEST, _SHORTEST), len(order) - 1: (_LONGEST, _LONGEST)}.get(at, (low, high))
        bounds[id(plan)] = (_MEDIAN, _MEDIAN) if at in (half - 1, half) else (low, high)
        plan.length = min(max(plan.length, bounds[id(plan)][0]), bounds[id(plan)][1])
    for model in MODELS:
        own = [plan for plan in plans if plan.model is model]
        short = model.steps - sum(plan.length for plan in own)
        step = 1 if short > 0 else -1
        while short:
            plan = draw.choice(own)
            low, high = bounds[id(plan)]
            if low <= plan.length + step <= high:
                plan.length += step
                short -= step


def _make_room(plans: Sequence[_Plan]) -> None:
    """Give the stamped runs of each model enough steps for its failing ones, by exchanging lengths with unstamped runs.

    In the published figures too the failing steps leave little room (2,262 of the 3,204 steps of one model of which a
    fifth of the runs is unstamped).
    """
    for model in MODELS:
        own = [plan for plan in plans if plan.model is model]
        while _spare(model, own) < _ROOM:
            short = min((plan for plan in own if plan.stamped), key=lambda plan: plan.length)
            long = max((plan for plan in own if not plan.stamped), key=lambda plan: plan.length)
            short.length, long.length = long.length, short.length


def _spare(model: Model, plans: Sequence[_Plan]) -> int:
    return sum(len(plan.graded()) for plan in plans if plan.model is model) - model.red


def _unobserve(draw: random.Random, plans: Sequence[_Plan]) -> None:
    """Mark steps whose workspace was not observed; each such run keeps graded steps, at most a third is taken."""
    spare = {model: _spare(model, plans) for model in MODELS}
    able = [plan for plan in plans if plan.stamped and plan.model.name != _STAMPED_LAST and plan.length >= 8]
    draw.shuffle(able)
    chosen: list[_Plan] = []
    left = _UNOBSERVED
    while left:
        first = len(chosen) < _UNOBSERVED_RUNS
        plan = able.pop() if first else draw.choice(chosen)
        at = draw.randrange(plan.length - 1)
        room = at not in plan.unobserved and 3 * (len(plan.unobserved) + 1) <= plan.length - 1
        if room and spare[plan.model]:
            plan.unobserved.add(at)
            spare[plan.model] -= 1
            left -= 1
            if first:
                chosen.append(plan)


def _grade(draw: random.Random, plans: Sequence[_Plan]) -> None:
    """Failing steps per model, and the steps that carry a return code, those of the newer instrument first."""
    for model in MODELS:
        graded = [(plan, at) for plan in plans if plan.model is model for at in plan.graded()]
        for plan, at in draw.sample(graded, model.red):
            plan.red.add(at)
    left = _GRADED_BY_CODE
    for plan in sorted(plans, key=lambda plan: plan.model.name != _STAMPED_LAST):  # stable: the others in their order
        if not left:
            break
        plan.newer = plan.stamped
        plan.coded = set(plan.graded()[:left])
        left -= len(plan.coded)


def _outcome(plan: _Plan, at: int, tests: int) -> Outcome:
    if at == plan.length - 1:  # the label of the run, which names no test
        return Outcome(state="measured", why="", passed=not plan.failed)
    if not plan.stamped:
        return Outcome()
    if at in plan.unobserved:
        return Outcome(why=_WHY)
    red = at in plan.red
    return Outcome(
        state="measured",
        why="",
        passed=not red,
        failing_check=f"tests/test_{plan.instance.rsplit('-', 1)[1]}.py::test_{at % tests}" if red else None,
        exit_code=(1 if red else 0) if at in plan.coded else None,
        instrument=_NEWER if plan.newer else _OLDER,
    )


def _steps(draw: random.Random, plan: _Plan, planted: dict[int, str]) -> Iterator[Step]:
    verbs = ("ls", "cat", "grep -n def", "sed -i s/a/b/", "python -m pytest", "git diff")
    tests = draw.randrange(1, 4)
    for at in range(plan.length):
        outcome = _outcome(plan, at, tests)
        success = outcome.passed is not False
        signals: dict[str, Scalar] = {
            "success": success,
            "blocking": not success,
            "dedup_key": outcome.failing_check,
            "decision_index": at,
            "is_revert": False,
            "retry_count": 0,
            "loop_signal": False,
        }
        signals.update(
            dict.fromkeys(
                ("test_passed", "test_total", "subgoal_progress", "reasoning_effort", "rank_index", "effort_index")
            )
        )
        number = draw.randrange(1_000_000)
        call = Call(
            id=f"call_{number:06d}_{at}",
            tool="bash",
            arguments=f"{draw.choice(verbs)} src/part_{number % 97}.py",
            result=planted.get(at, f"{number % 613} lines, {draw.randrange(40)} matches"),
            paired="id",
        )
        yield Step(index=at, calls=(call,), outcome=outcome, signals=signals)


def _passages(draw: random.Random, plans: Sequence[_Plan]) -> dict[int, dict[int, str]]:
    """By run and step: code that looks like a credential to a pattern of words, and a few invented credentials."""
    planted: dict[int, dict[int, str]] = {}
    for number, place in enumerate(draw.sample(range(len(plans)), LOOKALIKES + _CREDENTIALS)):
        token = "ghp_" + "".join(draw.choices(string.ascii_letters + string.digits, k=33)) + "aQ7"
        text = "SECRET_KEY_FALLBACKS = []" if number < LOOKALIKES else f"remote uses {token} for pushing"
        planted[place] = {draw.randrange(plans[place].length): text}
    return planted


def _plans(draw: random.Random) -> list[_Plan]:
    plans = _runs(draw)
    _lengths(draw, plans)
    _make_room(plans)
    _unobserve(draw, plans)
    _grade(draw, plans)
    return plans


def synthetic(seed: int = 0) -> Iterator[Run]:
    """The runs of the synthetic corpus, by model; the same seed gives the same runs.

    Every count of :data:`PLANTED` holds for every seed. All texts are invented; the names of models, arms and owners
    are those of the published card. The runs are made one at a time.
    """
    draw = random.Random(seed)
    plans = _plans(draw)
    passages = _passages(draw, plans)
    for place, plan in enumerate(plans):
        steps = tuple(_steps(draw, plan, passages.get(place, {})))
        own = plan.model.name == _STAMPED_LAST
        header = Header(
            run_id=run_id(plan.instance, plan.model.name, plan.arm),
            n_steps=len(steps),
            format="mini-swe-agent-1.1",
            scaffold="mini-swe-agent",
            dataset="swebench_verified",
            instance_id=plan.instance,
            repository=repository_of(plan.instance),
            model=plan.model.name,
            arm=plan.arm,
            resolved=not plan.failed,
            resolved_by="swebench report",
            captures=len(steps) - 1 if own else None,
            instrument=(_NEWER if plan.newer else _OLDER) if plan.stamped else None,
        )
        yield Run(msgspec.structs.replace(header, content_sha256=content_digest(steps)), steps)
