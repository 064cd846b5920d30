"""Claims W1 to W5 and W12: what the averages do with an answer that is missing, broken, sprayed or empty.

Each is asked of the engine itself: replies are changed in one way, scored again, and the two averages compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...claims import Finding, Verdict
from ...values import Value, count, counted, measure, score
from ..judge import JudgeScore, score_judge
from ..predictors import PREDICTORS, replies
from ..study import Corpus, Study

__all__ = ["FAULTS", "POINTS", "bounded", "error_free", "spraying", "unparseable", "withholding", "wrong_types"]

POINTS = (1, 2, 5, 10, 20, 50, 100)
"""Numbers of answered traces at which the curve of W1 is recorded, besides all of them."""

BROKEN = b"There are errors in this trace, but I could not put them into the requested form."


def written(study: Study, corpus: Corpus, predictor: str) -> dict[str, bytes]:
    """The replies of one predictor to every trace of the split."""
    return study.once(
        ("replies", corpus.split, predictor),
        lambda: replies(PREDICTORS[predictor], corpus.spans, study.taxonomy, corpus.gold.parsed),
    )


def judged(study: Study, corpus: Corpus, predictor: str) -> JudgeScore:
    """The same replies scored, with the figures of each trace."""
    said = written(study, corpus, predictor)
    return study.once(("judged", corpus.split, predictor), lambda: score_judge(study, corpus, said))


def weaker_half(study: Study, corpus: Corpus) -> tuple[str, ...]:
    """The half of the scored traces on which the mispaired predictor does worst, ties by id."""
    figures = judged(study, corpus, "gold-mispaired").figures
    return tuple(sorted(figures, key=lambda trace: (figures[trace].joint, trace))[: len(figures) // 2])


@measure(needs={"gold"})
def withholding(study: Study) -> Iterator[Value | Finding]:
    """W1: the predictor that sees no gold, answering fewer and fewer traces.

    Yields:
        The joint score over all traces and over the best single one, how many single traces score one, the curve
        (best, mean and worst choice of the traces answered), and what the exact judge gains by leaving out the
        error-free traces. VIOLATED where one answer scores above all of them.
    """
    corpus = study.corpus
    blind = judged(study, corpus, "all-spans-all-categories")
    ranked = sorted((figure.joint for figure in blind.figures.values()), reverse=True)
    best_trace = max(blind.figures, key=lambda trace: (blind.figures[trace].joint, trace), default=None)
    alone = {} if best_trace is None else {best_trace: written(study, corpus, "all-spans-all-categories")[best_trace]}
    one = study.engine.score(corpus.gold.bytes, alone)
    exact = written(study, corpus, "gold-exact")
    kept = {trace: reply for trace, reply in exact.items() if corpus.gold[trace].errors}
    withheld = study.engine.score(corpus.gold.bytes, kept)
    yield score("withhold_none_joint", blind.report.joint, n=len(ranked))
    yield score("withhold_all_but_one_joint", one.joint, n=len(one.scored), dropped={"no reply": len(one.missing)})
    yield count("withhold_perfect_alone", sum(joint == 1.0 for joint in ranked), "traces", n=len(ranked))
    yield score("withhold_exact_joint", withheld.joint, n=len(withheld.scored))
    yield score("withhold_exact_full_joint", judged(study, corpus, "gold-exact").report.joint, n=len(ranked))
    points = [point for point in POINTS if point < len(ranked)] + [len(ranked)]
    yield count("withhold_points", len(points), "points of the curve")
    for position, answered in enumerate(points, 1):
        yield count(f"withhold_{position}_answered", answered, "traces", n=len(ranked))
        for name, chosen in (("best", ranked[:answered]), ("worst", ranked[len(ranked) - answered :])):
            yield score(f"withhold_{position}_{name}", math.fsum(chosen) / answered if answered else None, n=answered)
        yield score(f"withhold_{position}_mean", math.fsum(ranked) / len(ranked) if ranked else None, n=answered)
    yield Finding(
        "W1",
        Verdict.VIOLATED if one.joint > blind.report.joint else Verdict.HELD,
        f"the predictor that sees no gold scores joint {blind.report.joint:.3f} when it answers {len(ranked)} traces "
        f"and {one.joint:.3f} when it answers one",
        ("withhold_none_joint", "withhold_all_but_one_joint"),
    )


@measure(needs={"gold"})
def unparseable(study: Study) -> Iterator[Value | Finding]:
    """W2: the weaker half of a judge's replies replaced by a sentence without JSON; VIOLATED where its score rises."""
    corpus = study.corpus
    before, half = judged(study, corpus, "gold-mispaired"), weaker_half(study, corpus)
    after = study.engine.score(
        corpus.gold.bytes, {**written(study, corpus, "gold-mispaired"), **dict.fromkeys(half, BROKEN)}
    )
    left = len(set(half) - set(after.scored))
    yield count("unparsed_replaced", len(half), "replies", n=len(before.figures))
    yield count("unparsed_left", left, "replies", n=len(half))
    yield score("unparsed_before_joint", before.report.joint, n=len(before.report.scored))
    yield score("unparsed_after_joint", after.joint, n=len(after.scored))
    rises = after.joint > before.report.joint
    yield Finding(
        "W2",
        Verdict.HELD if not left else Verdict.VIOLATED if rises else Verdict.LATENT,
        f"with {len(half)} of {len(before.figures)} replies replaced by a sentence, {left} leave the average and the "
        f"joint score goes from {before.report.joint:.3f} to {after.joint:.3f}",
        ("unparsed_left", "unparsed_replaced", "unparsed_before_joint", "unparsed_after_joint"),
    )


def _field(name: str, wrong: Any) -> Callable[[list[dict[str, Any]]], Any]:
    def apply(errors: list[dict[str, Any]]) -> Any:
        first = errors[0] if errors else {"category": "Goal Deviation", "location": "nowhere"}
        return [{**first, name: wrong}, *errors[1:]]

    return apply


def _without(name: str) -> Callable[[list[dict[str, Any]]], Any]:
    def apply(errors: list[dict[str, Any]]) -> Any:
        first = errors[0] if errors else {"category": "Goal Deviation", "location": "nowhere"}
        return [{key: value for key, value in first.items() if key != name}, *errors[1:]]

    return apply


FAULTS: Mapping[str, tuple[str, Callable[[list[dict[str, Any]]], Any]]] = {
    "category_number": ("a category is a number", _field("category", 3)),
    "category_list": ("a category is a list", _field("category", ["Goal Deviation"])),
    "category_object": ("a category is an object", _field("category", {"name": "Goal Deviation"})),
    "category_null": ("a category is null", _field("category", None)),
    "errors_text": ("the errors are a text", lambda errors: "none"),
    "errors_object": ("the errors are an object", lambda errors: {"first": "error"}),
    "errors_null": ("the errors are null", lambda errors: None),
    "location_missing": ("a location is missing", _without("location")),
    "location_null": ("a location is null", _field("location", None)),
    "location_number": ("a location is a number", _field("location", 3)),
    "location_list": ("a location is a list", _field("location", ["span"])),
}
"""Wrong types that a judge may write: name -> (what it is, how the errors of a reply become it)."""


@measure(needs={"gold"})
def wrong_types(study: Study) -> Iterator[Value | Finding]:
    """W3: the weaker half of a judge's replies given one field of a wrong type, once per kind of fault.

    VIOLATED where a fault takes replies out of the average and the score rises; LATENT where it only takes them out.
    """
    corpus = study.corpus
    before, half = judged(study, corpus, "gold-mispaired"), weaker_half(study, corpus)
    said = written(study, corpus, "gold-mispaired")
    leaving, rising, highest = 0, 0, before.report.joint
    for name, (_, break_errors) in FAULTS.items():
        broken = {
            trace: json.dumps({"errors": break_errors(json.loads(said[trace])["errors"])}).encode() for trace in half
        }
        after = study.engine.score(corpus.gold.bytes, {**said, **broken})
        left = len(set(half) - set(after.scored))
        leaving += left > 0
        rising += left > 0 and after.joint > before.report.joint
        highest = max(highest, after.joint)
        yield count(f"fault_{name}_left", left, "replies", n=len(half))
        yield score(f"fault_{name}_joint", after.joint, n=len(after.scored))
    yield count("faults", len(FAULTS), "kinds of fault")
    yield count("faults_leaving", leaving, "kinds of fault", n=len(FAULTS))
    yield count("faults_rising", rising, "kinds of fault", n=len(FAULTS))
    yield score("faults_before_joint", before.report.joint, n=len(before.report.scored))
    yield Finding(
        "W3",
        Verdict.VIOLATED if rising else Verdict.LATENT if leaving else Verdict.HELD,
        f"{leaving} of {len(FAULTS)} kinds of wrong type take a reply out of the average; with them on the weaker half "
        f"of a judge's replies its joint score goes from {before.report.joint:.3f} up to {highest:.3f}",
        ("faults_leaving", "faults", "faults_before_joint"),
    )


@measure(needs={"gold"})
def spraying(study: Study) -> Iterator[Value | Finding]:
    """W4: every label at the spans that a rule has flagged; VIOLATED where the joint score rises."""
    corpus = study.corpus
    rose = []
    for name in ("every-span-once", "gold-mispaired"):
        slug = PREDICTORS[name].slug
        sprayed = {}
        for trace, reply in written(study, corpus, name).items():
            said = [error["location"] for error in json.loads(reply)["errors"]]
            places = list({json.dumps(where): where for where in said}.values())
            errors = [{"category": label, "location": place} for place in places for label in study.taxonomy]
            sprayed[trace] = json.dumps({"errors": errors}).encode()
        before = judged(study, corpus, name).report
        after = study.engine.score(corpus.gold.bytes, sprayed)
        rose.append((before.joint, after.joint))
        yield score(f"spray_before_{slug}", before.joint, n=len(before.scored))
        yield score(f"spray_after_{slug}", after.joint, n=len(after.scored))
    yield Finding(
        "W4",
        Verdict.VIOLATED if any(after > before for before, after in rose) else Verdict.HELD,
        f"a rule that flags every span with one label goes from joint {rose[0][0]:.3f} to {rose[0][1]:.3f} by naming "
        "every label at the same spans",
        ("spray_before_every_span_once", "spray_after_every_span_once"),
    )


@measure(needs={"gold"})
def error_free(study: Study) -> Iterator[Value | Finding]:
    """W5: the score of the right answer on traces without an error.

    HELD where it is one; otherwise VIOLATED where the split has such a trace, LATENT where only a constructed one does.
    """
    corpus = study.corpus
    free = {trace: file for trace, file in corpus.gold.items() if file.parses and not file.errors}
    (constructed,) = study.engine.trace_many([({"errors": []}, {"errors": []})])
    silent = written(study, corpus, "silent")
    report = study.engine.score({trace: corpus.gold.bytes[trace] for trace in free}, {t: silent[t] for t in free})
    yield count("error_free_traces", len(free), "traces", n=len(corpus.gold))
    yield score("error_free_joint", report.joint if free else None, n=len(report.scored))
    built = None if constructed is None else constructed.joint
    yield score("error_free_constructed_joint", built, n=1)
    full = built == 1.0
    earned = report.joint if free else built
    said = "no score" if earned is None else f"{earned:.3f}"
    credit = f"earns {said} {'there' if free else 'on a constructed one'}"
    yield Finding(
        "W5",
        Verdict.HELD if full else Verdict.VIOLATED if free else Verdict.LATENT,
        f"{counted(len(free), 'trace')} without an error, and a judge that says so {credit}",
        ("error_free_traces", "error_free_joint", "error_free_constructed_joint"),
    )


@measure(needs={"gold"})
def bounded(study: Study) -> Iterator[Value | Finding]:
    """W12: the exact judge, whose replies to all traces but one carry a list where a score should be.

    The scorer adds a trace's scores before it reads the score columns and counts the trace after; an error in between
    leaves the sum and spares the denominator. VIOLATED where the average exceeds one.
    """
    corpus = study.corpus
    exact, first = written(study, corpus, "gold-exact"), True
    said = {}
    for trace, file in corpus.gold.items():
        errors = json.loads(exact[trace])["errors"]
        wrong = [{"plan_opt_score": 3 if first and file.errors else [3]}]
        first = first and not file.errors
        said[trace] = json.dumps({"errors": errors, "scores": wrong}).encode()
    report = study.engine.score(corpus.gold.bytes, said)
    yield score("unbounded_joint", report.joint, n=len(report.scored))
    yield count("unbounded_scored", len(report.scored), "traces", n=len(corpus.gold))
    yield Finding(
        "W12",
        Verdict.VIOLATED if report.joint > 1 else Verdict.HELD,
        f"a judge that writes a list for one score reaches an average joint of {report.joint:.3f}",
        ("unbounded_joint", "unbounded_scored"),
    )
