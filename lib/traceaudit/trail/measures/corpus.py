"""Claims P2, P3, P4 and P9: whether the answer key is what the scorer and the paper take it to be.

Each works on one split or on several together, since some counts (distinct spellings, say) do not add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...claims import Finding, Verdict
from ...values import Value, count, counted, measure, score, text
from ..gold import merged_spellings, place
from ..published import TABLE5
from ..scoring import ceiling, scored
from ..study import Corpus, Study

__all__ = ["index_check", "labels", "locations", "parsing", "table5"]


@measure(needs={"gold"})
def locations(study: Study) -> Iterator[Value | Finding]:
    """P2: gold locations that are not a span of the trace they annotate.

    VIOLATED where they cost a predictor that works from the spans part of the score, LATENT where they cost nothing.
    """
    total, cost = 0, 0.0
    strays: Counter[str] = Counter()
    for corpus in study.corpora.values():
        for trace, error in corpus.gold.each_error():
            total += 1
            if place(error) not in set(corpus.spans.get(trace, ())):
                strays[place(error)] += 1
        top, _, _ = ceiling(study, corpus)
        reached = scored(study, corpus, "all-spans-all-categories").report.location
        cost = max(cost, (top or 0.0) - reached)
    stray = sum(strays.values())
    yield count("gold_locations", total, "gold errors")
    yield count("stray_locations", stray, "gold errors", of="gold errors", n=total)
    yield count("stray_texts", len(strays), "distinct texts")
    if len(strays) == 1:
        yield text("stray_text", next(iter(strays)))
    yield score("stray_cost", cost, of="location score out of reach from spans alone", n=total)
    verdict = Verdict.HELD if not stray else Verdict.VIOLATED if cost > 0 else Verdict.LATENT
    said = f"{stray} of {total} gold errors point at no span of their trace"
    if stray:
        said += f"; whoever works from the spans loses up to {cost:.3f} of a split's location score by it"
    yield Finding("P2", verdict, said, ("stray_locations", "gold_locations", "stray_cost"))


@measure(needs={"gold"})
def parsing(study: Study) -> Iterator[Value | Finding]:
    """P3: gold files that the scorer's loader cannot read, and what they hold.

    A file that does not parse leaves every average, so one is enough for VIOLATED.
    """
    files = [file for corpus in study.corpora.values() for file in corpus.gold.values()]
    unread = [file for file in files if not file.parses]
    yield count("gold_files_all", len(files), "files")
    yield count("gold_files_parsed", len(files) - len(unread), "files", n=len(files))
    yield count("gold_files_unread", len(unread), "files", n=len(files))
    yield count("errors_unread", sum(len(file.errors_unread) for file in unread), "errors", n=len(unread))
    yield count("gold_files_odd", sum(bool(file.oddities) for file in files), "files", n=len(files))
    if unread:
        first = unread[0]
        yield text("unread_file", first.trace, shown=first.trace[:8])
        yield text("unread_problem", first.problem)
        yield count("unread_line", first.line, "line")
        yield count("unread_column", first.column, "column")
    yield Finding(
        "P3",
        Verdict.VIOLATED if unread else Verdict.HELD,
        f"{counted(len(unread), 'gold file')} of {len(files)} cannot be read"
        + (", and no split average counts what it cannot read" if unread else ""),
        ("gold_files_parsed", "gold_files_all", "errors_unread"),
    )


@measure(needs={"gold"})
def labels(study: Study) -> Iterator[Value | Finding]:
    """P4: gold spellings that are not a label, and what the normaliser makes of each.

    VIOLATED where a spelling reaches no label (its error can be matched by no judge that uses the labels), LATENT
    where the normaliser absorbs all of them, HELD where there is none.
    """
    spellings = merged_spellings(corpus.gold for corpus in study.corpora.values())
    known = set(study.taxonomy)
    drifted = sorted(text for text in spellings if text not in known)
    reached = dict(zip(drifted, study.engine.normalise(drifted), strict=True))
    lost = [spelling for spelling in drifted if reached[spelling] not in known]
    total = sum(spellings.values())
    errors_drifted = sum(spellings[spelling] for spelling in drifted)
    errors_lost = sum(spellings[spelling] for spelling in lost)
    yield count("spellings", len(spellings), "distinct spellings")
    yield count("spellings_drifted", len(drifted), "distinct spellings", n=len(spellings))
    yield count("errors_labelled", total, "gold errors")
    yield count("errors_drifted", errors_drifted, "gold errors", n=total)
    yield count("spellings_lost", len(lost), "distinct spellings", n=len(spellings))
    yield count("errors_lost", errors_lost, "gold errors", n=total)
    yield count("labels_known", len(known), "labels")
    for position, spelling in enumerate(drifted, 1):
        exact = _blankless(spelling) in {_blankless(label) for label in known}
        route = "neither" if spelling in lost else "exact" if exact else "containment"
        yield text(f"drift_{position}_spelling", spelling)
        yield count(f"drift_{position}_errors", spellings[spelling], "gold errors", n=total)
        yield text(f"drift_{position}_route", route)
        yield text(f"drift_{position}_label", str(reached[spelling]))
    verdict = Verdict.VIOLATED if lost else Verdict.LATENT if drifted else Verdict.HELD
    yield Finding(
        "P4",
        verdict,
        f"of {len(spellings)} gold spellings {len(drifted)} differ from every label ({errors_drifted} of {total} "
        f"errors); {len(lost)} of these ({errors_lost} errors) stay unmatched after normalising",
        ("spellings_drifted", "spellings", "errors_drifted", "errors_labelled", "spellings_lost", "errors_lost"),
    )


def _blankless(text: str) -> str:
    return text.lower().strip().replace(" ", "")


def counts(corpus: Corpus) -> dict[str, int]:
    """The rows of Table 5 as this tree has them: errors over the gold files that parse, spans from the index."""
    files = [file for file in corpus.gold.values() if file.parses]
    places = {place(error) for file in files for error in file.errors}
    return {
        "traces": len(corpus.spans),
        "spans": sum(len(spans) for spans in corpus.spans.values()),
        "errors": sum(len(file.errors) for file in files),
        "error_spans": len(places),
        "traces_with_error": sum(bool(file.errors) for file in files),
    }


@measure(needs={"gold"})
def table5(study: Study) -> Iterator[Value | Finding]:
    """P9: the paper's counts of the corpus against the tree's, cell by cell; VIOLATED where a cell disagrees."""
    compared = disagree = 0
    for corpus in study.corpora.values():
        here = counts(corpus)
        for key in TABLE5:
            paper = corpus.published.table5[key]
            compared += 1
            disagree += paper != here[key]
            if len(study.corpora) == 1:
                yield count(f"table5_{key}_paper", paper, TABLE5[key])
                yield count(f"table5_{key}_here", here[key], TABLE5[key])
                yield text(f"table5_{key}_agrees", "yes" if paper == here[key] else "no")
    yield count("table5_cells", compared, "cells")
    yield count("table5_cells_disagree", disagree, "cells", n=compared)
    yield Finding(
        "P9",
        Verdict.VIOLATED if disagree else Verdict.HELD,
        f"{disagree} of {compared} counts of Table 5 are not those of the tree",
        ("table5_cells_disagree", "table5_cells"),
    )


@measure(needs={"traces"})
def index_check(study: Study) -> Iterator[Value]:
    """The committed span index rebuilt from the trace files at hand."""
    from .. import index

    checked = moved = spans = missing = 0
    for corpus in study.corpora.values():
        rebuilt = index.build_index({corpus.split: corpus.load_traces()})[corpus.split]
        checked += len(rebuilt)
        missing += len(corpus.traces_missing)
        moved += sum(tuple(ids) != tuple(corpus.spans.get(trace, ())) for trace, ids in rebuilt.items())
        spans += sum(len(ids) for ids in rebuilt.values())
    dropped = {"trace file not in this source": missing} if missing else {}
    yield count("index_traces_checked", checked, "traces", dropped=dropped)
    yield count("index_spans_checked", spans, "spans", dropped=dropped)
    yield count("index_traces_moved", moved, "traces", n=checked, dropped=dropped)
