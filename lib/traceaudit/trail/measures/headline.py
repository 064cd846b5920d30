"""Claim P1: what a predictor that reads nothing scores on the two headline metrics, and what that costs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from ...claims import Finding, Verdict
from ...values import Value, count, measure, ratio, score, text
from ..predictors import HEADLINE, PREDICTORS, replies
from ..scoring import ceiling, dropped_reasons, scored
from ..study import Study

__all__ = ["abstract_figure", "headline", "paper_totals", "published_rows", "reply_order"]

BLIND = "all_spans_all_categories"


@measure(needs={"gold"})
def headline(study: Study) -> Iterator[Value | Finding]:
    """Joint and location score, precision and volume of the six headline predictors on one split.

    Yields:
        ``joint_*``, ``location_*`` (the scorer's), ``joint_precision_*``, ``location_precision_*`` (ours),
        ``emitted_*`` and ``per_gold_error_*`` per predictor; the counts of gold files and errors; the ceiling; the
        finding P1.
    """
    corpus = study.corpus
    top, traces, carrying = ceiling(study, corpus)
    silent = scored(study, corpus, "silent")
    dropped = dropped_reasons(silent.report, corpus)
    yield count("gold_files", len(corpus.gold), "files")
    yield count("gold_files_scored", len(traces), "files", dropped=dropped)
    yield count("gold_errors", silent.gold_errors, "errors", n=len(traces), dropped=dropped)
    yield count("traces_carrying_error", len(carrying), "traces", n=len(traces))
    yield score("ceiling", top, of="scored traces", n=len(traces), dropped=dropped)
    for name in HEADLINE:
        predictor, result = PREDICTORS[name], scored(study, corpus, name)
        more: dict[str, Any] = {"n": len(result.report.scored), "dropped": dropped_reasons(result.report, corpus)}
        slug = predictor.slug
        used = bool(result.report.scored)
        joint, location = (result.report.joint, result.report.location) if used else (None, None)
        yield score(f"joint_{slug}", joint, of="gold pairs, mean over scored traces", **more)
        yield score(f"location_{slug}", location, of="gold locations, mean over scored traces", **more)
        yield score(f"joint_precision_{slug}", result.joint_precision, of="predicted pairs, mean, 0/0 = 0", **more)
        yield score(
            f"location_precision_{slug}", result.location_precision, of="predicted locations, mean, 0/0 = 0", **more
        )
        yield count(f"emitted_{slug}", result.emitted, "errors", **more)
        yield ratio(f"per_gold_error_{slug}", result.per_gold_error, of="gold errors of scored traces", **more)
    yield from _p1(study)


def _p1(study: Study) -> Iterator[Value | Finding]:
    corpus = study.corpus
    blind = scored(study, corpus, PREDICTORS["all-spans-all-categories"].name).report
    best_joint, best_location = corpus.published.best("joint"), corpus.published.best("location")
    yield score("published_best_joint", best_joint.joint)
    yield score("published_best_location", best_location.location)
    yield text("published_best_joint_model", best_joint.model)
    yield text("published_best_location_model", best_location.model)
    beats = blind.joint > best_joint.joint or blind.location > best_location.location
    yield Finding(
        "P1",
        Verdict.VIOLATED if beats else Verdict.HELD,
        f"a rule blind to the gold reaches joint {blind.joint:.3f} and location {blind.location:.3f}, the best "
        f"published judge {best_joint.joint:.3f} and {best_location.location:.3f}",
        (f"joint_{BLIND}", "published_best_joint", f"location_{BLIND}", "published_best_location"),
    )


SHUFFLES = 5


@measure(needs={"gold"})
def reply_order(study: Study) -> Iterator[Value]:
    """The six predictors with the errors of each reply shuffled, under five seeds: how many figures move."""
    corpus = study.corpus
    figures = moved = 0
    for name in HEADLINE:
        listed = scored(study, corpus, name).report
        said = {
            trace: json.loads(reply)
            for trace, reply in replies(PREDICTORS[name], corpus.spans, study.taxonomy, corpus.gold.parsed).items()
        }
        for seed in range(SHUFFLES):
            draw = random.Random(seed)
            for value in said.values():
                draw.shuffle(value["errors"])
            shuffled = {trace: json.dumps(value).encode() for trace, value in said.items()}
            report = study.engine.score(corpus.gold.bytes, shuffled)
            figures += 2
            moved += (report.joint != listed.joint) + (report.location != listed.location)
    yield count("reply_orders", SHUFFLES, "seeds")
    yield count("reply_order_figures", figures, "figures")
    yield count("reply_order_moved", moved, "figures", n=figures)


@measure()
def published_rows(study: Study) -> Iterator[Value]:
    """The rows of the published table on one split, as values, so that tables and figures can show them."""
    for position, row in enumerate(study.corpus.published.rows, 1):
        yield text(f"published_{position}_model", row.model)
        yield score(f"published_{position}_joint", row.joint)
        yield score(f"published_{position}_location", row.location)
        yield score(f"published_{position}_weighted_f1", row.weighted_f1)


@measure(needs={"gold"})
def abstract_figure(study: Study) -> Iterator[Value]:
    """How the abstract's percentage relates to the best joint score of each split: mean and weighted means, percent."""
    files, errors, best = [], [], []
    for corpus in study.corpora.values():
        silent = scored(study, corpus, "silent")
        files.append(len(silent.report.scored))
        errors.append(silent.gold_errors)
        best.append(corpus.published.best("joint").joint)
    stated = next(iter(study.corpora.values())).published.abstract_percent
    yield count("abstract_percent", int(stated), "percent")
    for name, weights in (("plain", [1] * len(best)), ("by_files", files), ("by_errors", errors)):
        mean = sum(b * w for b, w in zip(best, weights, strict=True)) / sum(weights) if sum(weights) else None
        yield score(f"abstract_{name}", None if mean is None else 100 * mean, digits=1, unit="percent")


@measure(needs={"gold"})
def paper_totals(study: Study) -> Iterator[Value]:
    """What the paper says of its size in prose, what its Table 5 adds up to, and what the gold files hold."""
    published = next(iter(study.corpora.values())).published
    read = sum(corpus.gold.error_count for corpus in study.corpora.values())
    unread = sum(len(file.errors_unread) for corpus in study.corpora.values() for file in corpus.gold.unread)
    yield count("paper_traces", published.traces, "traces")
    yield count("paper_errors", published.errors, "errors")
    tables = [corpus.published.table5 for corpus in study.corpora.values()]
    yield count("paper_table5_traces", sum(table["traces"] for table in tables), "traces")
    yield count("paper_table5_errors", sum(table["errors"] for table in tables), "errors")
    yield count("gold_errors_read", read, "errors")
    yield count("gold_errors_unread", unread, "errors")
    yield count("gold_errors_all", read + unread, "errors")
