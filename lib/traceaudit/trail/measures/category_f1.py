"""Claim P7: whether the per-category columns notice where an error is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...claims import Finding, Verdict
from ...values import Value, count, measure, score
from ..predictors import PREDICTORS
from ..scoring import dropped_reasons, scored
from ..study import Study

__all__ = ["SHOWN", "category_f1", "label_slug", "weighted_f1"]

EVERYWHERE, NOWHERE = "all-spans-all-categories", "one-span-all-categories"
SHOWN = ("gold-exact", "gold-spans-all-categories", EVERYWHERE, NOWHERE)


def label_slug(label: str) -> str:
    """A label as part of an identifier."""
    return "".join(letter if letter.isalnum() else "_" for letter in label.lower())


@measure(needs={"gold"})
def weighted_f1(study: Study) -> Iterator[Value]:
    """The support-weighted category F1 of every predictor on one split."""
    for name, predictor in PREDICTORS.items():
        result = scored(study, study.corpus, name)
        more: dict[str, Any] = {"n": len(result.report.scored), "dropped": dropped_reasons(result.report, study.corpus)}
        yield score(
            f"weighted_f1_{predictor.slug}", result.report.weighted_f1, digits=4, of="labels, by support", **more
        )


@measure(needs={"gold"})
def category_f1(study: Study) -> Iterator[Value | Finding]:
    """P7: the per-label columns of two predictors that name every label, one at every span and one at the first alone.

    VIOLATED where every column is the same for both although their location scores differ.
    """
    corpus = study.corpus
    for name in SHOWN:
        predictor, report = PREDICTORS[name], scored(study, corpus, name).report
        more: dict[str, Any] = {"n": len(report.scored), "dropped": dropped_reasons(report, corpus)}
        supported = [column for column in report.categories.values() if column.support]
        full = sum(column.recall == 1.0 for column in supported)
        yield score(f"f1_joint_{predictor.slug}", report.joint, **more)
        yield score(f"f1_location_{predictor.slug}", report.location, **more)
        yield count(f"f1_full_recall_{predictor.slug}", full, "labels", of="labels with support", n=len(supported))
        yield count(f"f1_supported_{predictor.slug}", len(supported), "labels")
    everywhere = scored(study, corpus, EVERYWHERE).report
    nowhere = scored(study, corpus, NOWHERE).report
    for label, column in everywhere.categories.items():
        slug = label_slug(label)
        yield score(f"f1_everywhere_{slug}", column.f1, n=column.support, of="traces with the label")
        yield score(f"f1_nowhere_{slug}", nowhere.categories[label].f1, n=column.support, of="traces with the label")
    same = sum(everywhere.categories[label] == nowhere.categories[label] for label in everywhere.categories)
    yield count("f1_columns", len(everywhere.categories), "labels")
    yield count("f1_columns_same", same, "labels", n=len(everywhere.categories))
    blind = same == len(everywhere.categories) and everywhere.location != nowhere.location
    yield Finding(
        "P7",
        Verdict.VIOLATED if blind else Verdict.HELD,
        f"{same} of {len(everywhere.categories)} per-label columns are the same for a predictor at location "
        f"{everywhere.location:.3f} and one at {nowhere.location:.3f}",
        (
            "f1_columns_same",
            "f1_columns",
            f"f1_location_{PREDICTORS[EVERYWHERE].slug}",
            f"f1_location_{PREDICTORS[NOWHERE].slug}",
        ),
    )
