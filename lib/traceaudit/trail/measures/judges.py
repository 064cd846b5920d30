"""Real judges: what they score as reported and over all traces, which ranks are noise, and what they write as labels.

The reported mean leaves out every trace whose reply could not be used, so two judges may be compared over different
traces; beside it stands the mean over the same traces for all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...values import Value, count, measure, ratio, score, text
from .. import resampling
from ..engine import TraceScore
from ..extraction import extract, reply_text
from ..judge import JudgeScore, score_judge
from ..judges import JudgeRun, load
from ..study import Study
from .normaliser import SHUFFLE_SEED, ambiguous, bare, shuffled

__all__ = ["ALPHA", "RankedJudge", "judge_categories", "judges", "judges_pin", "rank", "ranked"]

ALPHA = 0.05  # two neighbours are told apart where Holm's p is below this
SCORED = "gold pairs, mean over scored traces"
ALL = "gold pairs, mean over all traces"


@dataclass(frozen=True)
class RankedJudge:
    """A judge with its place under each reading; places of equal scores are equal.

    Attributes:
        run: What it wrote.
        result: What that scores.
        rank_reported: Place by the reported joint, ``None`` where no trace was scored.
        rank_all: Place by the joint over all traces.
    """

    run: JudgeRun
    result: JudgeScore
    rank_reported: int | None
    rank_all: int | None

    @property
    def joint(self) -> float | None:
        """The reported joint, ``None`` where no trace was scored."""
        return self.result.report.joint if self.result.figures else None


def rank(scores: Sequence[float | None]) -> list[int | None]:
    """Places from 1, highest score first; scores equal but for rounding share a place, an undefined one has none."""
    known = [score for score in scores if score is not None]
    return [None if own is None else 1 + sum(other > own + resampling.TIE for other in known) for own in scores]


def ranked(study: Study) -> tuple[RankedJudge, ...]:
    """The judges of a study of one split, scored once, by their joint over all traces and then by name."""
    return study.once(("ranked judges", study.split), lambda: _ranked(study))


def _ranked(study: Study) -> tuple[RankedJudge, ...]:
    runs = study.judges
    results = [score_judge(study, study.corpus, run.replies) for run in runs]
    reported = rank([result.report.joint if result.figures else None for result in results])
    everywhere = [result.over_all("joint") for result in results]
    rows = [RankedJudge(*row) for row in zip(runs, results, reported, rank(everywhere), strict=True)]
    return tuple(sorted(rows, key=lambda row: (row.rank_all or 0, row.run.name)))


@measure(needs={"gold", "judges"})
def judges(study: Study) -> Iterator[Value]:
    """Every judge of one split, numbered by its place over all traces.

    Yields:
        Of judge i: ``judge_i_name``; ``judge_i_joint``, ``_location``, ``_weighted_f1`` as the scorer reports them;
        ``_joint_all_traces``, ``_location_all_traces`` with the ends of their bootstrap intervals (``_low``,
        ``_high``); how many traces were answered, missing, dropped (also by reason, and how many of those hold a note
        of one line) and scored; errors emitted and what they cost; its ranks; and against judge i + 1 the difference
        with its interval and the p of the paired test (``judge_i_next_*``); ``_joint_common`` is over the traces that
        all judges were scored on. Of all: ``judges_*``.
    """
    rows = ranked(study)
    reasons = sorted({reason for row in rows for reason in row.result.dropped})
    yield count("judges_count", len(rows), "judges")
    yield count("judges_reasons", len(reasons), "reasons")
    for position, reason in enumerate(reasons, 1):
        yield text(f"judges_reason_{position}", reason)
    for position, row in enumerate(rows, 1):
        yield text(f"judge_{position}_name", row.run.name)
        yield from _scores(f"judge_{position}", row)
        yield from _replies(f"judge_{position}", row, reasons)
        yield from _ranks(f"judge_{position}", row)
    yield from _resampled(rows)
    yield from _common(rows)
    yield from _together(study, rows)


def _left_out(row: RankedJudge) -> dict[str, int]:
    out = dict(row.result.dropped)
    out |= {"no reply": row.result.missing} if row.result.missing else {}
    return out


def _scores(name: str, row: RankedJudge) -> Iterator[Value]:
    result, used = row.result, bool(row.result.figures)
    scored: dict[str, Any] = {"n": len(result.figures), "dropped": _left_out(row)}
    everything: dict[str, Any] = {"n": len(result.traces)}
    report = result.report
    places = "gold locations, mean over scored traces"
    yield score(f"{name}_joint", row.joint, of=SCORED, **scored)
    yield score(f"{name}_location", report.location if used else None, of=places, **scored)
    yield score(f"{name}_weighted_f1", report.weighted_f1 if used else None, of="labels, by support", **scored)
    yield score(f"{name}_joint_all_traces", result.over_all("joint"), of=ALL, **everything)
    yield score(f"{name}_location_all_traces", result.over_all("location"), of="gold locations, likewise", **everything)
    said = "predicted pairs, mean, 0/0 = 0"
    yield score(f"{name}_joint_precision", result.over_scored("joint_precision"), of=said, **scored)
    said = "predicted locations, mean, 0/0 = 0"
    yield score(f"{name}_location_precision", result.over_scored("location_precision"), of=said, **scored)
    yield score(f"{name}_sprayed_joint", result.over_scored("sprayed_joint"), of=SCORED, **scored)
    yield count(f"{name}_emitted", result.emitted, "errors", **scored)
    volume = result.per_gold_error
    yield ratio(f"{name}_per_gold_error", volume, digits=2, of="gold errors of scored traces", **scored)


def _replies(name: str, row: RankedJudge, reasons: Sequence[str]) -> Iterator[Value]:
    result, n = row.result, len(row.result.traces)
    yield count(f"{name}_answered", result.answered, "traces", n=n)
    yield count(f"{name}_missing", result.missing, "traces", n=n)
    yield count(f"{name}_dropped", sum(result.dropped.values()), "traces", n=n, dropped=result.dropped)
    for position, reason in enumerate(reasons, 1):
        yield count(f"{name}_dropped_{position}", result.dropped.get(reason, 0), "traces", of=reason, n=n)
    yield count(f"{name}_notes", _notes(row), "traces", of="replies of one line without a brace", n=n)
    yield count(f"{name}_scored", len(result.figures), "traces", n=n)


def _notes(row: RankedJudge) -> int:
    """Dropped replies of a single line without a brace: what a run writes where its judge never answered."""
    left_out = set(row.result.report.dropped) & set(row.result.traces)
    replies = (row.run.replies[trace].strip() for trace in left_out)
    return sum(b"{" not in reply and b"\n" not in reply and bool(reply) for reply in replies)


def _ranks(name: str, row: RankedJudge) -> Iterator[Value]:
    yield count(f"{name}_rank_reported", row.rank_reported, "place")
    yield count(f"{name}_rank_all_traces", row.rank_all, "place")
    moved = None if row.rank_reported is None or row.rank_all is None else row.rank_reported - row.rank_all
    shown = "undefined" if moved is None else "same" if not moved else f"{abs(moved)} {'up' if moved > 0 else 'down'}"
    yield Value(f"{name}_rank_change", moved, shown, unit="places, from reported to all traces")


def _resampled(rows: Sequence[RankedJudge]) -> Iterator[Value]:
    """Bootstrap intervals of each judge and of each step between neighbours, and the paired test of that step."""
    traces = rows[0].result.traces if rows else ()
    yield count("judges_draws", resampling.DRAWS, "bootstrap samples")
    yield count("judges_level", round(100 * resampling.LEVEL), "percent")
    yield count("judges_alpha", round(100 * ALPHA), "percent")
    yield text("judges_seed", str(resampling.SEED))
    if not traces:
        return
    occurs = resampling.weights(len(traces))
    more: dict[str, Any] = {"n": len(traces), "of": "bootstrap over traces"}
    table = {column: _by_trace(rows, column) for column in ("joint", "location")}
    for column, scores in table.items():
        for position, ends in enumerate(resampling.intervals(resampling.bootstrap_means(scores, occurs)), 1):
            for end, value in zip(("low", "high"), ends, strict=True):
                yield score(f"judge_{position}_{column}_all_traces_{end}", value, **more)
    steps = table["joint"][:-1] - table["joint"][1:]
    p_values = resampling.sign_flip(steps) if len(steps) else []
    adjusted = resampling.holm(p_values)
    bounds = resampling.intervals(resampling.bootstrap_means(steps, occurs)) if len(steps) else []
    means = [row.result.over_all("joint") or 0.0 for row in rows]
    for position in range(len(steps)):
        name = f"judge_{position + 1}_next"
        yield score(f"{name}_difference", means[position] - means[position + 1], of=ALL, n=len(traces))
        yield score(f"{name}_low", bounds[position][0], **more)
        yield score(f"{name}_high", bounds[position][1], **more)
        yield score(f"{name}_p", p_values[position], digits=4, unit="p", of="sign flips over traces", n=len(traces))
        yield score(f"{name}_p_adjusted", adjusted[position], digits=4, unit="p", of="Holm", n=len(steps))
        yield text(f"{name}_apart", "yes" if adjusted[position] < ALPHA else "no", of=f"p (Holm) below {ALPHA}")
    yield count("judges_steps", len(steps), "neighbours")
    yield count("judges_steps_apart", sum(p < ALPHA for p in adjusted), "neighbours", n=len(steps))


def _by_trace(rows: Sequence[RankedJudge], column: str) -> np.ndarray:
    """Shape (judges, traces): a column of the figures, 0 where a trace was not scored."""
    return np.array(
        [
            [getattr(row.result.figures[trace], column) if trace in row.result.figures else 0.0 for trace in traces]
            for row in rows
            for traces in (row.result.traces,)
        ]
    )


def _together(study: Study, rows: Sequence[RankedJudge]) -> Iterator[Value]:
    published = study.corpus.published.best("joint")
    expected = sum(len(row.result.traces) for row in rows)
    yield count("judges_traces", len(rows[0].result.traces) if rows else 0, "traces")
    yield count("judges_unreadable", len(rows[0].result.unreadable) if rows else 0, "traces")
    yield count("judges_expected", expected, "replies")
    yield count("judges_missing", sum(row.result.missing for row in rows), "replies", n=expected)
    yield count("judges_dropped", sum(sum(row.result.dropped.values()) for row in rows), "replies", n=expected)
    yield count("judges_notes", sum(map(_notes, rows)), "replies", n=expected)
    yield count("judges_unscored", sum(not row.result.figures for row in rows), "judges", n=len(rows))
    moved = sum(row.rank_reported not in (None, row.rank_all) for row in rows)
    yield count("judges_rank_moved", moved, "judges", n=len(rows))
    yield score("judges_published_best_joint", published.joint)
    yield text("judges_published_best_model", published.model)
    above = sum(row.joint is not None and row.joint > published.joint for row in rows)
    yield count("judges_above_published", above, "judges", n=len(rows))
    above = sum((row.result.over_all("joint") or 0.0) > published.joint for row in rows)
    yield count("judges_above_published_all_traces", above, "judges", n=len(rows))
    for reading, column in (("reported", "rank_reported"), ("all_traces", "rank_all")):
        first = next((row for row in rows if getattr(row, column) == 1), None)
        if first is not None:
            name = f"judges_top_{reading}"
            yield text(f"{name}_name", first.run.name)
            yield score(f"{name}_joint", first.joint, of=SCORED, n=len(first.result.figures))
            yield score(f"{name}_joint_all_traces", first.result.over_all("joint"), of=ALL, n=len(first.result.traces))
            yield count(f"{name}_scored", len(first.result.figures), "traces", n=len(first.result.traces))
            yield count(f"{name}_rank_all_traces", first.rank_all, "place")
            yield count(f"{name}_shared", sum(getattr(row, column) == 1 for row in rows), "judges")


def _common(rows: Sequence[RankedJudge]) -> Iterator[Value]:
    """The joint over the traces on which every judge with a scored trace was scored: equal ground for all of these."""
    sets = [set(row.result.figures) for row in rows if row.result.figures]
    common = sorted(set.intersection(*sets)) if sets else []
    yield count("judges_common", len(common), "traces", of="traces scored for every judge that has one")
    for position, row in enumerate(rows, 1):
        mean = None
        if common and row.result.figures:
            mean = math.fsum(row.result.figures[trace].joint for trace in common) / len(common)
        yield score(f"judge_{position}_joint_common", mean, of="gold pairs, mean over the common traces", n=len(common))


@measure()
def judges_pin(study: Study) -> Iterator[Value]:
    """Where the replies of the real runs come from; the same on every split."""
    pinned = load()
    yield text("judges_repository", pinned.pin.repository)
    yield text("judges_commit", pinned.pin.commit)
    yield text("judges_licence", pinned.pin.licence)
    yield count("judges_runs", len(pinned.runs), "runs")
    yield count("judges_files", len(pinned.pin.files), "files")


@measure(needs={"gold", "judges"})
def judge_categories(study: Study) -> Iterator[Value]:
    """What real judges write as categories: claims P4, P5, P6 and P8 asked again, over the scored traces.

    Yields:
        Of judge i and of all (``judge_i_categories``, ``judges_categories``) the errors emitted, and those whose
        category is ``off`` (a text that is no label), ``lost`` (off, and no label after normalising), ``wordy`` (lost
        although a label is contained in it), ``promoted`` (a label only by being contained in one), ``short``
        (promoted, and shorter than the shortest label), ``ambiguous`` (its label depends on the list order) and
        ``null`` (falsy: it shifts every later pair); then how many joint and location figures move under a shuffled
        order of the labels.
    """
    rows = ranked(study)
    kinds = _kinds(study, rows)
    total: Counter[str] = Counter()
    for position, row in enumerate(rows, 1):
        found = Counter(kind for error in _said(row) for kind in kinds(error))
        total.update(found)
        yield from _counted(f"judge_{position}", found, len(row.result.figures))
    yield from _counted("judges", total, sum(len(row.result.figures) for row in rows))
    figures, moved = _reordered(study, rows)
    yield text("judges_shuffle_seed", str(SHUFFLE_SEED))
    yield count("judges_figures", figures, "figures")
    yield count("judges_figures_moved", moved, "figures", n=figures)


KINDS = ("off", "lost", "wordy", "promoted", "short", "ambiguous", "null")


def _counted(name: str, found: Counter[str], traces: int) -> Iterator[Value]:
    yield count(f"{name}_categories", found["all"], "errors emitted", n=traces)
    for kind in KINDS:
        yield count(f"{name}_{kind}", found[kind], "errors emitted", n=found["all"])


def _document(row: RankedJudge, trace: str) -> Any:
    return extract(reply_text(row.run.replies[trace]))


def _said(row: RankedJudge) -> Iterator[Any]:
    """The errors of every scored reply."""
    for trace in row.result.report.scored:
        yield from _document(row, trace).get("errors", [])


def _kinds(study: Study, rows: Sequence[RankedJudge]) -> Any:
    """A function from an error to the kinds that its category is of; the engine is asked about each text once."""
    categories = [error.get("category", "") for row in rows for error in _said(row)]
    texts = list(dict.fromkeys(category for category in categories if isinstance(category, str) and category))
    becomes = dict(zip(texts, study.engine.normalise(texts), strict=True))
    in_doubt = set(ambiguous(study, texts))
    bare_labels = {bare(label) for label in study.taxonomy}
    shortest = min(map(len, bare_labels))

    def kinds(error: Any) -> list[str]:
        category = error.get("category", "")
        if not category:
            return ["all", "null"]
        squeezed, known = bare(category.strip()), becomes[category] in study.taxonomy
        off = category not in study.taxonomy
        promoted = off and known and squeezed not in bare_labels
        return ["all"] + [
            kind
            for kind, holds in {
                "off": off,
                "lost": off and not known,
                "wordy": off and not known and any(label in squeezed for label in bare_labels),
                "promoted": promoted,
                "short": promoted and len(squeezed) < shortest,
                "ambiguous": category in in_doubt,
            }.items()
            if holds
        ]

    return kinds


def _reordered(study: Study, rows: Sequence[RankedJudge]) -> tuple[int, int]:
    """(figures, moved): joint and location of each judge with a scored trace, under a shuffled order of the labels."""
    figures = moved = 0
    for row in rows:
        traces = row.result.report.scored
        pairs = [(study.corpus.gold[trace].value, _document(row, trace)) for trace in traces]
        listed, other = (study.engine.trace_many(pairs, labels) for labels in (None, shuffled(study.taxonomy)))
        for column in ("joint", "location") if traces else ():
            before, after = ([_figure(result, column) for result in results] for results in (listed, other))
            figures += 1
            moved += sum(before) != sum(after)
    return figures, moved


def _figure(result: TraceScore | None, column: str) -> float:
    return 0.0 if result is None else getattr(result, column)
