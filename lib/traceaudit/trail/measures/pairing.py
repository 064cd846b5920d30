"""Claim P8: whether a location keeps the category that was predicted for it.

Shown on a constructed trace of ours, then asked of the real gold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...claims import Finding, Verdict
from ...values import Value, count, counted, measure, score, text
from ..gold import place
from ..study import Study

__all__ = ["RUNS", "pairing"]


def _error(location: str, category: str | None) -> dict[str, Any]:
    return {"location": location, "category": category}


def _constructed(taxonomy: tuple[str, ...]) -> dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    real = [_error("span-a", taxonomy[0]), _error("span-b", taxonomy[-1])]
    unlabelled = [_error("span-c", None), *real]
    return {"null_in_gold": (unlabelled, real), "clean": (real, real), "null_in_prediction": (real, unlabelled)}


def _named(error: Mapping[str, Any]) -> bool:
    return bool(error.get("category", ""))


RUNS = {
    "null_in_gold": "gold begins with a null category, prediction correct",
    "clean": "neither has one: the control",
    "null_in_prediction": "gold clean, prediction begins with a null category",
}
"""The three runs over the constructed trace: name -> what it is."""


@measure(needs={"gold"})
def pairing(study: Study) -> Iterator[Value | Finding]:
    """P8: the constructed trace scored three ways, and how many real gold errors carry a falsy category.

    HELD where the null category costs the joint score nothing; otherwise LATENT while no pair of a gold file moves by
    one, VIOLATED once one does. A null behind all other categories moves none.
    """
    runs = _constructed(study.taxonomy)
    results = study.engine.trace_many([({"errors": gold}, {"errors": said}) for gold, said in runs.values()])
    joint = {}
    for (name, _), result in zip(runs.items(), results, strict=True):
        yield score(f"pairing_{name}_joint", None if result is None else result.joint, n=1)
        yield score(f"pairing_{name}_location", None if result is None else result.location, n=1)
        joint[name] = None if result is None else result.joint
    yield text("pairing_constructed", "constructed by this project, not part of TRAIL")
    total = empty = mispaired = losing = 0
    for corpus in study.corpora.values():
        for file in corpus.gold.values():
            places = [place(error) for error in file.errors]
            named = [
                (where, error["category"]) for where, error in zip(places, file.errors, strict=True) if _named(error)
            ]
            zipped = list(zip(places, (category for _, category in named), strict=False))
            total += len(places)
            empty += len(places) - len(named)
            mispaired += zipped != named
            losing += len(zipped) < len(places)
    yield count("null_categories", empty, "gold errors", n=total)
    yield count("errors_paired", total, "gold errors")
    yield count("files_mispaired", mispaired, "files")
    yield count("files_losing_pairs", losing, "files")
    keeps = all(value == joint["clean"] for value in joint.values())
    verdict = Verdict.HELD if keeps else Verdict.VIOLATED if mispaired else Verdict.LATENT
    shown = {name: "undefined" if value is None else f"{value:.3f}" for name, value in joint.items()}
    yield Finding(
        "P8",
        verdict,
        f"on the constructed trace a single null takes a right answer from joint {shown['clean']} to "
        f"{shown['null_in_prediction']}; in {counted(mispaired, 'gold file')} a null moves a pair ({empty} nulls among "
        f"{total} gold errors)",
        (
            "pairing_clean_joint",
            "pairing_null_in_prediction_joint",
            "null_categories",
            "errors_paired",
            "files_mispaired",
        ),
    )
