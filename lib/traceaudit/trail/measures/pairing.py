"""Claim P8: whether a location keeps the category that was predicted for it.

Shown on a constructed trace of ours, then asked of the real gold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...claims import Finding, Verdict
from ...values import Value, count, measure, score, text
from ..study import Study

__all__ = ["RUNS", "pairing"]


def _error(location: str, category: str | None) -> dict[str, Any]:
    return {"location": location, "category": category}


def _constructed(taxonomy: tuple[str, ...]) -> dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    real = [_error("span-a", taxonomy[0]), _error("span-b", taxonomy[-1])]
    unlabelled = [_error("span-c", None), *real]
    return {"null_in_gold": (unlabelled, real), "clean": (real, real), "null_in_prediction": (real, unlabelled)}


RUNS = {
    "null_in_gold": "gold begins with a null category, prediction correct",
    "clean": "neither has one: the control",
    "null_in_prediction": "gold clean, prediction begins with a null category",
}
"""The three runs over the constructed trace: name -> what it is."""


@measure(needs={"gold"})
def pairing(study: Study) -> Iterator[Value | Finding]:
    """P8: the constructed trace scored three ways, and how many real gold errors carry a falsy category.

    HELD where the null category costs the joint score nothing; otherwise LATENT while no gold error carries one,
    VIOLATED once one does.
    """
    runs = _constructed(study.taxonomy)
    results = study.engine.trace_many([({"errors": gold}, {"errors": said}) for gold, said in runs.values()])
    joint = {}
    for (name, _), result in zip(runs.items(), results, strict=True):
        yield score(f"pairing_{name}_joint", None if result is None else result.joint, n=1)
        yield score(f"pairing_{name}_location", None if result is None else result.location, n=1)
        joint[name] = None if result is None else result.joint
    yield text("pairing_constructed", "constructed by this project, not part of TRAIL")
    total, empty, files = 0, 0, set()
    for corpus in study.corpora.values():
        for trace, error in corpus.gold.each_error():
            total += 1
            if not error.get("category", ""):
                empty += 1
                files.add(trace)
    yield count("null_categories", empty, "gold errors", n=total)
    yield count("errors_paired", total, "gold errors")
    yield count("files_mispaired", len(files), "files")
    keeps = all(value == joint["clean"] for value in joint.values())
    verdict = Verdict.HELD if keeps else Verdict.VIOLATED if empty else Verdict.LATENT
    shown = {name: "undefined" if value is None else f"{value:.3f}" for name, value in joint.items()}
    yield Finding(
        "P8",
        verdict,
        f"one null category takes a correct judge from {shown['clean']} joint to {shown['null_in_prediction']} on the "
        f"constructed trace, and {empty} of {total} gold errors carry one",
        ("pairing_clean_joint", "pairing_null_in_prediction_joint", "null_categories", "errors_paired"),
    )
