"""The whole audit: every measure on every split, findings combined, as the command line and the overview show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..claims import Finding, Verdict, combine
from ..values import Measure, Value, Values, measure
from .measures import category_f1, corpus, cost, counting, exposure, gold_shape, headline, normaliser, pairing, silence
from .predictors import PREDICTORS
from .study import NAMES, Study, slug

__all__ = ["CLAIM_MEASURES", "MEASURES", "Audit", "audit", "overview", "overview_of_traces"]

MEASURES: tuple[Measure, ...] = (
    headline.headline,
    headline.published_rows,
    headline.reply_order,
    corpus.locations,
    corpus.parsing,
    corpus.labels,
    corpus.table5,
    normaliser.order,
    normaliser.reach,
    category_f1.weighted_f1,
    category_f1.category_f1,
    pairing.pairing,
    silence.withholding,
    silence.unparseable,
    silence.wrong_types,
    silence.spraying,
    silence.error_free,
    gold_shape.duplicates,
    gold_shape.fields,
    gold_shape.score_columns,
    cost.cost,
    counting.counting,
    exposure.exposure,
    silence.bounded,
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
    "W1": silence.withholding,
    "W2": silence.unparseable,
    "W3": silence.wrong_types,
    "W4": silence.spraying,
    "W5": silence.error_free,
    "W6": gold_shape.duplicates,
    "W7": gold_shape.fields,
    "W8": gold_shape.score_columns,
    "W9": cost.cost,
    "W10": counting.counting,
    "W11": exposure.exposure,
    "W12": silence.bounded,
}
"""Claim -> the measure that writes its verdict."""

UNITED = (
    corpus.locations,
    corpus.parsing,
    corpus.labels,
    corpus.table5,
    normaliser.order,
    normaliser.reach,
    pairing.pairing,
    gold_shape.duplicates,
    gold_shape.fields,
    gold_shape.score_columns,
    cost.cost,
    counting.counting,
)
"""Measures whose figures over several splits are more than their sum."""


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


def audit(study: Study, measures: Iterable[Measure] = MEASURES) -> Audit:
    """Run every measure that the study allows; a claim that it does not allow is NOT MEASURED, with the reason.

    Args:
        study: One split or several.
        measures: Those to run; claims of the others are not part of the answer.
    """
    chosen = tuple(measures)
    values = Values()
    per_split: dict[str, dict[str, Finding]] = {}
    tables = {}
    for split in study.corpora:
        own = Values()
        per_split[split] = found = {}
        for item in _run(study.only(split), chosen):
            if isinstance(item, Value):
                own.add(item)
                values.add(item.prefixed(slug(split)))
            else:
                found[item.id] = _asked(item, study.only(split)).prefixed(slug(split))
        tables[split] = split_table(own)
    if len(per_split) == 1:
        return Audit(values, _ordered(next(iter(per_split.values())), study, chosen), tables)
    united: dict[str, Finding] = {}
    for item in _run(study, [each for each in UNITED if each in chosen]):
        if isinstance(item, Value):
            values.add(item)
        else:
            united[item.id] = _asked(item, study)
    if "gold" in study.has and headline.headline in chosen:
        for extra in (headline.abstract_figure, headline.paper_totals):
            for item in extra(study):
                values.add(item)
    findings = {}
    for id in CLAIM_MEASURES:
        if CLAIM_MEASURES[id] not in chosen or not any(id in found for found in per_split.values()):
            continue
        parts = {
            split: found.get(id) or _not_measured(id, CLAIM_MEASURES[id], study.only(split))
            for split, found in per_split.items()
        }
        findings[id] = _united(id, parts, united.get(id))
    return Audit(values, _ordered(findings, study, chosen), tables)


def _asked(finding: Finding, study: Study) -> Finding:
    """The finding, or NOT MEASURED where the readable gold holds no error to ask the claim of."""
    if finding.id in WITHOUT_ERRORS or any(corpus.gold.error_count for corpus in study.corpora.values()):
        return finding
    reason = "the gold that can be read holds no error"
    return replace(finding, verdict=Verdict.NOT_MEASURED, magnitude=reason)


def _united(id: str, parts: Mapping[str, Finding], whole: Finding | None) -> Finding:
    combined = combine(parts, whole.magnitude if whole else None, names=NAMES)
    names = tuple(dict.fromkeys((*(whole.values if whole else ()), *combined.values)))
    return Finding(id, combined.verdict, combined.magnitude, names, combined.per_split)


WITHOUT_ERRORS = {"P3", "W9"}
"""Claims that can be asked of a gold without a single error."""


def _run(study: Study, measures: Iterable[Measure]) -> Iterator[Value | Finding]:
    for each in measures:
        if each.needs <= study.has:
            yield from each(study)


def _not_measured(id: str, measure: Measure, study: Study) -> Finding:
    lacking = sorted(measure.needs - study.has)
    return Finding(
        id, Verdict.NOT_MEASURED, "; ".join(study.lacks.get(need, f"{need} is not here") for need in lacking)
    )


def _ordered(findings: Mapping[str, Finding], study: Study, measures: tuple[Measure, ...]) -> dict[str, Finding]:
    """Findings in the order of the claims, with NOT MEASURED where there is none."""
    return {
        id: findings.get(id) or _not_measured(id, each, study)
        for id, each in CLAIM_MEASURES.items()
        if each in measures
    }


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
    """The audit of both real splits, less what needs trace files: every value, every finding."""
    done = audit(study, [each for each in MEASURES if "traces" not in each.needs])
    yield from done.values
    yield from done.findings.values()


@measure(needs={"gold", "traces"})
def overview_of_traces(study: Study) -> Iterator[Value | Finding]:
    """What needs trace files, on both real splits."""
    done = audit(study, [each for each in MEASURES if "traces" in each.needs])
    yield from done.values
    yield from done.findings.values()
