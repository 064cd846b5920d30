"""Sentences of the published pages, capture and gate counts, and earlier states of the corpus, held against its tables.

These are the places where numbers without a producer went stale, kept apart from the plain sums of the tables.
"""

from __future__ import annotations

from collections.abc import Iterator

from .comparisons import Check, near, same
from .published import Published

__all__ = ["sentence_checks"]


def sentence_checks(p: Published) -> Iterator[Check]:
    """All of this module's checks; see :func:`.published_checks.checks`."""
    yield from _capture(p)
    yield from _gate(p)
    yield from _history(p)
    yield from _card(p)
    yield from _claim_page(p)


def _capture(p: Published) -> Iterator[Check]:
    c, census, state = p.tables["capture"], p.tables["census"], p.tables["state"]
    pro = next(row for row in p.per_model if row.model == "deepseek-v4-pro")
    marked, steps, runs = c["marked_steps"], census["steps"], census["trajectories"]
    says = "percent of steps never observed"
    yield near("capture_of_all", "capture", says, c["percent"], 100 * marked / steps, 1, f"{marked} of all {steps}")
    audited = c["audited_steps"]
    yield near(
        "capture_of_audited",
        "capture",
        "percent of steps never observed, where the audit looked",
        c["percent"],
        100 * marked / audited,
        1,
        f"{marked} of {audited} steps, {c['marked_runs']} of {c['audited_runs']} runs "
        f"({100 * c['marked_runs'] / c['audited_runs']:.1f} %): the record holds no run of deepseek-v4-pro",
    )
    yield near(
        "capture_heading",
        "sentence",
        "percent of steps never observed, in a heading of the card",
        c["heading_percent"],
        100 * marked / steps,
        0,
        "the heading suits the audited part, the body all steps",
    )
    yield same(
        "capture_audited_runs", "capture", "runs audited", c["audited_runs"], runs - pro.runs, "all but deepseek-v4-pro"
    )
    yield same(
        "capture_audited_steps",
        "capture",
        "steps audited",
        audited,
        steps - pro.steps - pro.runs,
        "all but those of deepseek-v4-pro, its terminal steps included",
    )
    yield same(
        "capture_uncovered",
        "expectation",
        "runs whose capture nobody audited",
        0,
        runs - c["audited_runs"],
        "the guard demands an audit of every stamped run",
    )
    yield same(
        "capture_classes",
        "capture",
        "steps marked as never observed",
        marked,
        c["class_a_steps"] + c["class_b_steps"],
        "empty captures and incomplete ones; the given counts do not say which steps are in both or were left out",
    )
    yield same(
        "capture_runs",
        "capture",
        "runs with a marked step",
        c["marked_runs"],
        c["losses_runs"],
        "as a comment counts them",
    )
    lost = c["empties"] - c["empties_genuine"]
    yield same(
        "capture_empties",
        "capture",
        "empty captures that are losses",
        c["class_a_steps"],
        lost - c["orphans_in_losses"],
        "empty captures, less genuine ones, less those without a step",
    )
    k, n = c["empties_genuine"], c["empties"]
    says = "percent of empty captures that are genuine"
    yield near("capture_genuine", "capture", says, c["empties_genuine_percent"], 100 * k / n, 1, f"{k} of {n}")
    yield Check(
        "state_runs",
        "expectation",
        "runs with packed captures",
        state["runs"],
        census["stamped"],
        state["runs"] >= census["stamped"],
        f"at least {census['stamped'] - state['runs']} stamped runs cannot be graded again from these",
    )


def _gate(p: Published) -> Iterator[Check]:
    a, census, instrument = p.tables["admissibility"], p.tables["census"], p.tables["instrument"]
    rejected = len(a["inadmissible"])
    yield same(
        "gate_sum", "admissibility", "records of the gate", a["records"], a["admissible"] + rejected, "both verdicts"
    )
    yield same(
        "gate_instances", "admissibility", "instances with a record", census["instances"], a["records"], "one has none"
    )
    by_repository = sum(a["gold_resolved_nonzero_exit"].values())
    yield same(
        "gate_exit_sum",
        "admissibility",
        "gold runs graded as resolved with a non-zero exit code",
        a["gold_resolved_nonzero_exit_total"],
        by_repository,
        "sum over repositories",
    )
    wrong = by_repository + a["gold_unresolved_zero_exit"]
    yield same(
        "gate_exit_code",
        "expectation",
        "gold runs in which exit code and grade disagree",
        0,
        wrong,
        f"{wrong} of {a['records']} ({100 * wrong / a['records']:.1f} %): an exit code is no grade",
    )
    yield same(
        "gate_psf",
        "sentence",
        "rejected instances of psf, in prose",
        a["prose_rejected_psf"],
        a["rejected_psf"],
        f"the record rejects {a['rejected_psf']} of {a['recorded_psf']}; verdicts moved with the network",
    )
    for name in ("infra_first_nonempty", "infra_otherwise"):
        k, n = instrument[name]
        yield near(
            f"instrument_{name}",
            "capture",
            "percent of steps lost to the instrument, " + name.removeprefix("infra_").replace("_", "-"),
            instrument[f"{name}_percent"],
            100 * k / n,
            1,
            f"{k} of {n}",
        )


def _history(p: Published) -> Iterator[Check]:
    probe, census = p.tables["probe"], p.tables["census"]
    for number, old in enumerate(p.generations, 1):
        k = round(old.base * old.stamped)
        digits = len(str(old.base)) - 2
        yield near(
            f"generation_{number}_base",
            "history",
            f"base rate of the state with {old.runs} runs",
            old.base,
            k / old.stamped,
            digits,
            f"{k} of {old.stamped}",
        )
    last = p.generations[-1]
    yield same(
        "history_probe",
        "history",
        "runs after a folder of probes was read",
        probe["moved_total"],
        last.runs + probe["runs"],
        "sum",
    )
    top = p.rungs[-1].n
    if last.last_rung_percent is not None:
        yield near(
            "history_last_rung",
            "history",
            "percent of runs on the last rung, in prose",
            last.last_rung_percent,
            100 * top / last.stamped,
            1,
            f"{top} of the {last.stamped} stamped runs of the state before; of today's {census['stamped']} it is "
            f"{100 * top / census['stamped']:.1f} %",
        )
    if last.glm is not None and last.lowest_share is not None:
        k, n = last.glm
        yield near(
            "history_lowest",
            "history",
            "lowest share, in prose",
            last.lowest_share,
            k / n,
            4,
            f"{k} of {n}, glm-5.2 before",
        )


def _card(p: Published) -> Iterator[Check]:
    said, census = p.tables["said"], p.tables["census"]
    pro = next(row for row in p.per_model if row.model == "deepseek-v4-pro")
    yield same(
        "card_repositories",
        "sentence",
        "repositories, under licensing",
        said["licensing_repositories"],
        census["repositories"],
        "its own census counts owners of instances",
    )
    yield same(
        "card_replay_rc",
        "sentence",
        "steps with replay_rc, where the card calls it empty",
        said["replay_rc_empty_steps"],
        census["replay_rc_steps"],
        "stated a few lines above as populated",
    )
    yield Check(
        "card_replay_rc_bound",
        "sentence",
        "steps with replay_rc lie within the runs that were graded again",
        census["replay_rc_steps"],
        pro.steps,
        census["replay_rc_steps"] <= pro.steps,
        "at most the non-terminal steps of deepseek-v4-pro, to which the card ascribes them",
    )
    yield same(
        "card_identical_columns",
        "sentence",
        "exceptions to three columns being one",
        said["identical_columns_exceptions"],
        census["failed"],
        "the terminal step of a failed run is not a success and has no failing check",
    )
    yield Check(
        "card_digest",
        "sentence",
        "the digest moves exactly when the data move",
        "when any datum moves",
        "when counts or stamped runs' instances move",
        False,
        "its recipe reads two counts and the instances of stamped runs: no label, step, model or content hash",
    )


def _claim_page(p: Published) -> Iterator[Check]:
    old, now, shipped = p.generations[-1], p.tables["operating"], p.tables["as_shipped"]
    rungs, per_model = p.rungs, {row.model: row for row in p.per_model}
    stale = "as published for the state before"
    pairs: list[tuple[str, str, float | None, float, int]] = [
        ("auroc", "AUROC of the canonical cell", old.auroc, now["auroc"], 4),
        ("base", "base rate", old.base, now["base"], 4),
        ("null_top", "97.5th percentile of the family-wise null", old.null_top, rungs[0].family_high, 4),
        ("lowest_share", "lowest share of the ladder", old.lowest_share, rungs[0].min_share, 4),
        ("highest_share", "highest share of the ladder", old.highest_share, rungs[-1].min_share, 4),
        ("last_rung", "percent of runs on the last rung", old.last_rung_percent, 100 * rungs[-1].retained, 1),
    ]
    for name, says, before, after, digits in pairs:
        if before is not None:
            note = stale if before != after else "the one figure that did not move"
            yield near(f"claim_{name}", "sentence", f"{says}, on the claim page", before, after, digits, note)
    yield near(
        "claim_precision",
        "sentence",
        f"precision is the base rate at {p.tables['said_claim']['precision_is_base_fires']} firing runs",
        old.base,
        shipped["precision"],
        4,
        "base rate of the state before against the precision of this one",
    )
    if old.rungs is not None:
        yield same("claim_rungs", "sentence", "rungs, on the claim page", old.rungs, len(rungs), stale)
    rising = 1
    while rising < len(rungs) and rungs[rising].auroc >= rungs[rising - 1].auroc:
        rising += 1
    yield same(
        "claim_rising",
        "sentence",
        "first rungs on which the AUROC does not fall",
        p.tables["said_claim"]["rungs_not_falling"],
        rising,
        f"rung {rising + 1} falls by {rungs[rising - 1].auroc - rungs[rising].auroc:.4f}"
        if rising < len(rungs)
        else "none falls",
    )
    for model, counts in (("glm-5.2", old.glm), ("qwen3.7-plus", old.qwen)):
        if counts is not None:
            row = per_model[model]
            yield same(
                f"claim_{model.split('-')[0].split('3')[0]}",
                "sentence",
                f"stamped runs of {model}, on the claim page",
                counts[0],
                row.stamped,
                f"of {counts[1]} then, of {row.runs} now",
            )
    first = p.generations[0]
    census = p.tables["census"]
    yield same(
        "comment_runs",
        "sentence",
        "runs, in a comment of the code",
        first.runs,
        census["trajectories"],
        "two states ago",
    )
    yield same(
        "comment_steps", "sentence", "steps, in a comment of the code", first.steps, census["steps"], "two states ago"
    )
