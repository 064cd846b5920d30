"""The whole audit: every measure on every split, findings combined, as the command line and the overview show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..claims import Finding, Verdict, combine
from ..values import Measure, Value, Values, measure
from .measures import category_f1, corpus, headline, normaliser, pairing
from .predictors import PREDICTORS
from .study import NAMES, Study, slug

__all__ = ["CLAIM_MEASURES", "MEASURES", "Audit", "audit", "overview"]

MEASURES: tuple[Measure, ...] = (
    headline.headline,
    headline.published_rows,
    corpus.locations,
    corpus.parsing,
    corpus.labels,
    corpus.table5,
    normaliser.order,
    normaliser.reach,
    category_f1.weighted_f1,
    category_f1.category_f1,
    pairing.pairing,
)
"""Everything measured on one split, in the order in which it is shown."""

CLAIM_MEASURES: Mapping[str, Measure] = {
    "P1": headline.headline,
    "P2": corpus.locations,
    "P3": corpus.parsing,
    "P4": corpus.labels,
    "P5": normaliser.order,
    "P6": normaliser.reach,
    "P7": category_f1.category_f1,
    "P8": pairing.pairing,
    "P9": corpus.table5,
}
"""Claim -> the measure that writes its verdict."""

UNITED = (corpus.locations, corpus.parsing, corpus.labels, corpus.table5, normaliser.order, normaliser.reach)
"""Measures whose figures over several splits are more than their sum; the pairing claim joins them below."""


@dataclass(frozen=True)
class Audit:
    """Values, findings and the figures per split.

    Attributes:
        values: Those of a split under ``<split>_<name>``, those of all splits together under their own name.
        findings: claim id -> finding; with several splits, combined, the parts in ``per_split``.
        splits: split -> the table of predictors, see :func:`split_table`.
    """

    values: Values
    findings: Mapping[str, Finding]
    splits: Mapping[str, Any]


def audit(study: Study) -> Audit:
    """Run every measure that the study allows; a claim that it does not allow is NOT MEASURED, with the reason."""
    values = Values()
    per_split: dict[str, dict[str, Finding]] = {}
    tables = {}
    for split in study.corpora:
        own = Values()
        per_split[split] = found = {}
        for item in _run(study.only(split), MEASURES):
            if isinstance(item, Value):
                own.add(item)
                values.add(item.prefixed(slug(split)))
            else:
                found[item.id] = item.prefixed(slug(split))
        tables[split] = split_table(own)
    if len(per_split) == 1:
        return Audit(values, _ordered(next(iter(per_split.values())), study), tables)
    united: dict[str, Finding] = {}
    for item in _run(study, (*UNITED, pairing.pairing)):
        if isinstance(item, Value):
            values.add(item)
        else:
            united[item.id] = item
    findings = {}
    for id in CLAIM_MEASURES:
        parts = {split: found[id] for split, found in per_split.items() if id in found}
        whole = united.get(id)
        if len(parts) == len(per_split):
            combined = combine(parts, whole.magnitude if whole else None, names=NAMES)
            if whole:
                names = tuple(dict.fromkeys((*whole.values, *combined.values)))
                combined = Finding(id, combined.verdict, combined.magnitude, names, combined.per_split)
            findings[id] = combined
    return Audit(values, _ordered(findings, study), tables)


def _run(study: Study, measures: tuple[Measure, ...]) -> Iterator[Value | Finding]:
    for each in measures:
        if each.needs <= study.has:
            yield from each(study)


def _ordered(findings: Mapping[str, Finding], study: Study) -> dict[str, Finding]:
    """Findings in the order of the claims, with NOT MEASURED where there is none."""
    out = {}
    for id, each in CLAIM_MEASURES.items():
        if id in findings:
            out[id] = findings[id]
        else:
            reason = "; ".join(study.lacks.get(need, f"{need} is not here") for need in sorted(each.needs - study.has))
            out[id] = Finding(id, Verdict.NOT_MEASURED, reason)
    return out


def split_table(values: Values) -> dict[str, Any]:
    """The figures of one split: gold files, gold errors, ceiling, and per predictor what the tables show.

    Returns:
        ``{gold_files, gold_files_scored, gold_errors, ceiling, predictors: {name: {joint, location, weighted_f1,
        joint_precision, location_precision, emitted, per_gold_error}}}``; empty where nothing could be measured.
    """
    if "gold_files" not in values:
        return {}
    out: dict[str, Any] = {
        name: values[name].raw for name in ("gold_files", "gold_files_scored", "gold_errors", "ceiling")
    }
    columns = (
        "joint", "location", "weighted_f1", "joint_precision", "location_precision", "emitted", "per_gold_error",
    )  # fmt: skip
    out["predictors"] = {
        name: {
            column: values[f"{column}_{predictor.slug}"].raw
            for column in columns
            if f"{column}_{predictor.slug}" in values
        }
        for name, predictor in PREDICTORS.items()
    }
    return out


@measure(needs={"gold"})
def overview(study: Study) -> Iterator[Value | Finding]:
    """The audit of both real splits as one measure: every value, every finding."""
    done = audit(study)
    yield from done.values
    yield from done.findings.values()
    yield from headline.abstract_figure.function(study)
