"""Whether the published figures of the corpus agree with each other: each check with both numbers.

A table with a producer stayed right and the sentence beside it did not, so the arithmetic is done over tables and
sentences alike; a disagreement is shown with its size and never repaired.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .comparisons import Check, Kind, near, same
from .published import Published, load
from .published_sentences import sentence_checks

__all__ = ["DERIVABLE", "Derivable", "checks"]


@dataclass(frozen=True)
class Derivable:
    """Whether a figure can be had from what a clone can read without the trajectories.

    Attributes:
        figure: What it is.
        source: The file that is enough, or that would be needed.
        possible: Without the trajectories.
    """

    figure: str
    source: str
    possible: bool


DERIVABLE = (
    Derivable("trajectories, steps, instances, owners, models, arms", "manifest.json", True),
    Derivable("median and range of steps", "manifest.json", True),
    Derivable("terminal failure over all runs and per model", "manifest.json", True),
    Derivable("steps marked as not observed", "state_capture.json", True),
    Derivable("verdicts of the admissibility gate", "admissibility.json", True),
    Derivable("stamped runs and coverage per model", "the trajectories", False),
    Derivable("terminal failure over stamped runs", "the trajectories", False),
    Derivable("red steps and recurring checks", "the trajectories", False),
    Derivable("population of columns", "the trajectories", False),
    Derivable("the published digest (it lists the stamped runs' instances)", "the trajectories", False),
    Derivable("every AUROC and null of the ladder", "the trajectories", False),
    Derivable("precision, quiet rate, lift, base and AUROC of the operating point", "its four counts", True),
    Derivable("intervals of the operating point (runs per task are needed)", "the trajectories", False),
)
"""Which figures can be recomputed from which file (facts sheet, 9.2)."""


def _census(p: Published) -> Iterator[Check]:
    census, rows = p.tables["census"], p.per_model
    sums = {
        "trajectories": sum(row.runs for row in rows),
        "stamped": sum(row.stamped for row in rows),
        "unstamped": sum(row.runs - row.stamped for row in rows),
        "non_terminal_steps": sum(row.steps for row in rows),
        "red_steps": sum(row.red_steps for row in rows),
        "failed": sum(row.failed for row in rows),
        "models": len(rows),
    }
    for name, total in sums.items():
        note = "rows of the table per model"
        if name == "failed":
            note = "whole numbers that the printed shares allow, over all runs of a model"
        yield same(f"sum_{name}", "sum", f"{name.replace('_', ' ')} of the corpus", census[name], total, note)
    yield same(
        "sum_steps",
        "sum",
        "steps of the corpus",
        census["steps"],
        census["non_terminal_steps"] + census["trajectories"],
        "non-terminal steps and one terminal step a run",
    )
    rates = (
        ("terminal_failure_rate", "failed", "trajectories"),
        ("terminal_failure_rate_stamped", "failed_stamped", "stamped"),
    )
    for name, part, whole in rates:
        k, n = census[part], census[whole]
        yield near(f"share_{name}", "share", name.replace("_", " "), census[name], k / n, 3, f"{k} of {n}")
    k, n = census["unstamped"], census["trajectories"]
    yield near("share_drop", "share", "percent dropped", census["drop_percent"], 100 * k / n, 1, f"{k} of {n}")
    for row in rows:
        key = row.model.replace("-", "_").replace(".", "_")
        gone = row.runs - row.stamped
        yield near(
            f"share_stamped_{key}",
            "share",
            f"share of {row.model} that was stamped",
            row.share,
            row.stamped / row.runs,
            3,
            f"{row.stamped} of {row.runs}",
        )
        yield near(
            f"share_drop_{key}",
            "share",
            f"percent of {row.model} dropped",
            row.drop_percent,
            100 * gone / row.runs,
            1,
            f"{gone} of {row.runs}",
        )
        yield near(
            f"share_failed_{key}",
            "share",
            f"terminal failure of {row.model}",
            row.terminal_failure,
            row.failed / row.runs,
            4,
            f"{row.failed} of {row.runs}: of all runs, since no whole number of the {row.stamped} stamped ones fits"
            if not _fits(row.terminal_failure, row.stamped)
            else f"{row.failed} of {row.runs}; a whole number of the {row.stamped} stamped ones would fit too",
        )


def _fits(share: float, n: int) -> bool:
    return abs(round(share * n) / n - share) <= 0.5e-4 + 1e-9


def _outcome(p: Published) -> Iterator[Check]:
    census = p.tables["census"]
    runs, failed = census["trajectories"], census["failed"]
    gone, gone_failed = census["unstamped"], failed - census["failed_stamped"]
    resolved, gone_resolved = runs - failed, gone - gone_failed
    yield Check(
        "drop_by_outcome",
        "expectation",
        "the drop is described per model alone: failed runs are dropped at the rate of all",
        gone / runs,
        gone_failed / failed,
        abs(gone_failed / failed - gone / runs) <= 0.5e-3,
        f"{gone_failed} of {gone} dropped runs failed ({100 * gone_failed / gone:.1f} %); dropped are {gone_failed} of "
        f"{failed} failed runs ({100 * gone_failed / failed:.1f} %) and {gone_resolved} of {resolved} resolved ones "
        f"({100 * gone_resolved / resolved:.1f} %)",
    )


def _operating(p: Published) -> Iterator[Check]:
    o, census, shipped = p.tables["operating"], p.tables["census"], p.tables["as_shipped"]
    tp, fp, fn, tn = o["tp"], o["fp"], o["fn"], o["tn"]
    failed, others, n = tp + fn, fp + tn, tp + fp + fn + tn
    kind: Kind = "operating point"
    yield same("op_fires", kind, "runs in which the rule fires", o["fires"], tp + fp, "tp + fp")
    yield same("op_stamped", kind, "stamped runs", census["stamped"], n, "tp + fp + fn + tn")
    yield same("op_failed", kind, "failed stamped runs", census["failed_stamped"], failed, "tp + fn")
    auroc = (1 + tp / failed - fp / others) / 2
    yield near("op_auroc", kind, "AUROC of the canonical cell", o["auroc"], auroc, 4, "(1 + TPR - FPR) / 2")
    precision, base = tp / (tp + fp), failed / n
    yield near("op_precision", kind, "failed, of those that fired", o["precision"], precision, 4, f"{tp} of {tp + fp}")
    yield near("op_quiet", kind, "failed, of the quiet", o["quiet"], fn / (fn + tn), 4, f"{fn} of {fn + tn}")
    yield near("op_base", kind, "failed, of all stamped", o["base"], base, 4, f"{failed} of {n}")
    yield near("op_lift", kind, "lift", o["lift"], precision / base, 4, "precision / base")
    yield near("op_ladder", kind, "AUROC of the first rung", p.rungs[0].auroc, auroc, 4, "from the four counts")
    quiet = n - shipped["fires"]
    fit = [k for k in range(quiet + 1) if abs(_shipped_auroc(k, quiet, failed, others) - shipped["auroc"]) <= 0.5e-4]
    hit = failed - fit[0] if len(fit) == 1 else -1
    yield near(
        "shipped_precision",
        kind,
        "failed, of those that fired, as shipped",
        shipped["precision"],
        hit / shipped["fires"],
        4,
        f"{hit} of {shipped['fires']}: the printed AUROC fits only if {fit} of the {quiet} quiet runs failed",
    )
    yield near(
        "shipped_beats_base",
        "expectation",
        "precision as shipped equals the base rate",
        o["base"],
        hit / shipped["fires"],
        4,
        f"it fires in {shipped['fires']} of {n} runs; the two differ because all {quiet} quiet runs were resolved",
    )


def _shipped_auroc(quiet_failed: int, quiet: int, failed: int, others: int) -> float:
    return (1 + (failed - quiet_failed) / failed - (others - quiet + quiet_failed) / others) / 2


def _ladder(p: Published) -> Iterator[Check]:
    table, total = p.tables["ladder"], p.tables["census"]["stamped"]
    draws = table["draws"]
    yield near("ladder_p_floor", "ladder", "p at every rung", table["p"], 1 / (draws + 1), 4, f"1 / {draws + 1}")
    for number, rung in enumerate(p.rungs, 1):
        cut = rung.min_share - 0.5e-4 - 1e-9
        kept = [row for row in p.per_model if row.stamped / row.runs >= cut]
        edge = min(kept, key=lambda row: row.stamped / row.runs)
        k, n = edge.stamped, edge.runs
        yield near(
            f"rung_{number}_share",
            "ladder",
            f"cut of rung {number}",
            rung.min_share,
            k / n,
            4,
            f"{k} of {n}, {edge.model}",
        )
        yield same(f"rung_{number}_models", "ladder", f"models of rung {number}", rung.models, len(kept), "at the cut")
        left = sum(row.stamped for row in kept)
        yield same(f"rung_{number}_n", "ladder", f"runs of rung {number}", rung.n, left, "stamped runs of those models")
        yield near(
            f"rung_{number}_retained",
            "ladder",
            f"share kept by rung {number}",
            rung.retained,
            rung.n / total,
            4,
            f"{rung.n} of {total}",
        )
        yield near(
            f"rung_{number}_delta",
            "ladder",
            f"difference of rung {number} from the first",
            rung.delta,
            rung.auroc - p.rungs[0].auroc,
            4,
            "difference of two printed values, so up to one unit more in the last digit",
            slack=1e-4 if number > 1 else 0.0,
        )


def checks(published: Published | None = None) -> list[Check]:
    """Every comparison, in a fixed order; ids are unique.

    Args:
        published: The figures; by default the committed ones.

    Raises:
        PinMismatch: as :func:`.published.load`.
    """
    p = load() if published is None else published
    return [*_census(p), *_outcome(p), *_operating(p), *_ladder(p), *sentence_checks(p)]
