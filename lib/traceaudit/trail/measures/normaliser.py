"""Claims P5 and P6: what the normaliser lets pass for a label, and whether the order of the labels decides it.

The normaliser first looks for a label equal to the text, blanks aside, then for one that contains it; so every
substring of a label is a candidate, and those that several labels share are decided by list order.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence

from ...claims import Finding, Verdict
from ...values import Value, count, measure, score, text
from ..engine import TraceScore
from ..gold import merged_spellings
from ..predictors import HEADLINE, PREDICTORS, TraceView, predict
from ..scoring import scored
from ..study import Corpus, Study

__all__ = ["EXAMPLES", "SHUFFLE_SEED", "order", "reach", "shuffled", "substrings"]

SHUFFLE_SEED = 20260827
EXAMPLES = ("error", "resource", "tool", " ")
"""Texts shown in the chapter: three common words and a single blank."""


def bare(label: str) -> str:
    """A label as the containment pass sees it: lower case, no blanks."""
    return label.lower().replace(" ", "")


def substrings(taxonomy: Sequence[str]) -> tuple[str, ...]:
    """Every distinct non-empty substring of the bare labels, shortest first, then alphabetical."""
    found: set[str] = set()
    for label in map(bare, taxonomy):
        found.update(label[i:j] for i in range(len(label)) for j in range(i + 1, len(label) + 1))
    return tuple(sorted(found, key=lambda piece: (len(piece), piece)))


def shuffled(taxonomy: Sequence[str], seed: int = SHUFFLE_SEED) -> tuple[str, ...]:
    """The labels in the order that ``random.Random(seed).shuffle`` gives them."""
    labels = list(taxonomy)
    random.Random(seed).shuffle(labels)
    return tuple(labels)


def ambiguous(study: Study, texts: Sequence[str]) -> list[str]:
    """Those of ``texts`` whose label depends on the list order, as the engine answers.

    Each label in turn is moved to the front. Where the first match wins, a text that several labels claim changes its
    answer under at least one of these orders, and a text that one label or none claims changes it under no order.
    """
    answers = [
        study.engine.normalise(texts, (label, *(other for other in study.taxonomy if other != label)))
        for label in study.taxonomy
    ]
    return [text for text, *said in zip(texts, *answers, strict=True) if len(set(said)) > 1]


def _figures(study: Study, corpus: Corpus, labels: Sequence[str]) -> list[float]:
    """Joint and location average of the six headline predictors under a label order, over the scored traces."""
    out = []
    for name in HEADLINE:
        traces = scored(study, corpus, name).report.scored
        pairs = []
        for trace in traces:
            view = TraceView(tuple(corpus.spans.get(trace, ())), study.taxonomy)
            said = predict(PREDICTORS[name], view, corpus.gold.parsed[trace])
            pairs.append((corpus.gold[trace].value, {"errors": said}))
        results = [result for result in study.engine.trace_many(pairs, labels) if isinstance(result, TraceScore)]
        out += [
            math.fsum(getattr(result, column) for result in results) / len(results) if results else 0.0
            for column in ("joint", "location")
        ]
    return out


@measure(needs={"gold"})
def order(study: Study) -> Iterator[Value | Finding]:
    """P5: how many substrings of the labels depend on the list order, and what a shuffled order moves.

    HELD where no substring is ambiguous; VIOLATED where a figure of the six headline predictors moves under the
    seeded shuffle; LATENT where none does.
    """
    pieces, labels = substrings(study.taxonomy), shuffled(study.taxonomy)
    in_doubt = ambiguous(study, pieces)
    before, after = study.engine.normalise(pieces), study.engine.normalise(pieces, labels)
    moved = sum(a != b for a, b in zip(before, after, strict=True))
    spellings = merged_spellings(corpus.gold for corpus in study.corpora.values())
    gold_in_doubt = ambiguous(study, [spelling for spelling in spellings if spelling])
    figures = figures_moved = 0
    for corpus in study.corpora.values():
        listed, rescored = _figures(study, corpus, study.taxonomy), _figures(study, corpus, labels)
        figures += len(listed)
        figures_moved += sum(a != b for a, b in zip(listed, rescored, strict=True))
    yield count("substrings", len(pieces), "strings")
    yield count("substrings_ambiguous", len(in_doubt), "strings", n=len(pieces))
    yield count("substrings_moved", moved, "strings", n=len(pieces))
    yield text("shuffle_seed", str(SHUFFLE_SEED))
    yield count("order_spellings", len(spellings), "distinct gold spellings")
    yield count("order_spellings_ambiguous", len(gold_in_doubt), "distinct gold spellings", n=len(spellings))
    yield count("order_figures", figures, "figures")
    yield count("order_figures_moved", figures_moved, "figures", n=figures)
    yield from _in_doubt(study, in_doubt, labels)
    yield Finding(
        "P5",
        Verdict.HELD if not in_doubt and not moved else Verdict.VIOLATED if figures_moved else Verdict.LATENT,
        f"the label of {len(in_doubt):,} among {len(pieces):,} texts hangs on the list order; seed {SHUFFLE_SEED} "
        f"moves {moved:,} of them and {figures_moved} of {figures} headline figures",
        ("substrings_ambiguous", "substrings", "substrings_moved", "order_figures_moved", "order_figures"),
    )


def _in_doubt(study: Study, texts: Sequence[str], labels: Sequence[str]) -> Iterator[Value]:
    """The texts whose label hangs on the order, grouped by the labels that contain them."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for piece in texts:
        claimants = tuple(label for label in study.taxonomy if piece in bare(label))
        groups.setdefault(claimants, []).append(piece)
    firsts = sorted(groups, key=lambda claimants: (-len(groups[claimants]), claimants))
    yield count("doubt_groups", len(firsts), "groups of texts")
    for position, claimants in enumerate(firsts, 1):
        pieces = groups[claimants]
        before, after = study.engine.normalise(pieces), study.engine.normalise(pieces, labels)
        yield text(f"doubt_{position}_texts", " ".join(pieces))
        yield count(f"doubt_{position}_count", len(pieces), "texts")
        yield text(f"doubt_{position}_labels", "; ".join(claimants))
        yield text(f"doubt_{position}_listed", "; ".join(dict.fromkeys(map(str, before))))
        yield text(f"doubt_{position}_shuffled", "; ".join(dict.fromkeys(map(str, after))))


def _shortest(study: Study) -> dict[str, str]:
    pieces = substrings(study.taxonomy)
    out: dict[str, str] = {}
    for piece, label in zip(pieces, study.engine.normalise(pieces), strict=True):
        if label in study.taxonomy:
            out.setdefault(label, piece)
    return out


def _abbreviated(study: Study, corpus: Corpus, short: Mapping[str, str]) -> dict[str, bytes]:
    """A judge that knows the answer key and writes each label as the shortest text that reaches it."""
    texts = list(corpus.gold.spellings)
    label_of = dict(zip(texts, study.engine.normalise(texts), strict=True))
    out = {}
    for trace, file in corpus.gold.items():
        errors = []
        for error in file.errors:
            category = error.get("category")
            label = label_of.get(category, category) if isinstance(category, str) else category
            errors.append(
                {
                    "location": error.get("location"),
                    "category": short.get(label, label) if isinstance(label, str) else label,
                }
            )
        out[trace] = json.dumps({"errors": errors}).encode()
    return out


@measure(needs={"gold"})
def reach(study: Study) -> Iterator[Value | Finding]:
    """P6: the shortest text that reaches each label, and what a judge scores that writes only such texts.

    HELD where no text shorter than the shortest label reaches one; VIOLATED where the abbreviating judge scores above
    one that is silent; LATENT otherwise.
    """
    short, shortest_label = _shortest(study), min(len(bare(label)) for label in study.taxonomy)
    lengths = {label: len(short[label]) for label in study.taxonomy if label in short}
    reached = [label for label, length in lengths.items() if length < shortest_label]
    yield count("labels", len(study.taxonomy), "labels")
    yield count("shortest_label", shortest_label, "characters")
    yield count("labels_reached_short", len(reached), "labels", n=len(study.taxonomy))
    yield count("labels_reached_by_two", sum(length <= 2 for length in lengths.values()), "labels")
    yield count("labels_reached_by_one", sum(length == 1 for length in lengths.values()), "labels")
    for position, label in enumerate(study.taxonomy, 1):
        yield text(f"reach_{position}_label", label)
        yield text(f"reach_{position}_text", short.get(label, ""))
        yield count(f"reach_{position}_length", lengths.get(label), "characters")
        yield count(f"reach_{position}_label_length", len(bare(label)), "characters")
    for position, (example, label) in enumerate(zip(EXAMPLES, study.engine.normalise(EXAMPLES), strict=True), 1):
        yield text(f"example_{position}_text", example, shown=repr(example))
        yield text(f"example_{position}_label", str(label))
    abbreviated = best = 0.0
    for corpus in study.corpora.values():
        report = study.engine.score(corpus.gold.bytes, _abbreviated(study, corpus, short))
        abbreviated = max(abbreviated, report.joint)
        best = max(best, scored(study, corpus, "gold-exact").report.joint)
        if len(study.corpora) == 1:
            yield score("joint_abbreviated", report.joint, n=len(report.scored), of="gold pairs, mean")
            yield score("joint_unabbreviated", best, n=len(report.scored), of="gold pairs, mean")
    yield score("joint_abbreviated_highest", abbreviated, of="gold pairs, mean; the higher of the splits")
    verdict = Verdict.HELD if not reached else Verdict.VIOLATED if abbreviated > 0 else Verdict.LATENT
    two = sum(length <= 2 for length in lengths.values())
    yield Finding(
        "P6",
        verdict,
        f"the shortest label has {shortest_label} characters; {len(reached)} of {len(study.taxonomy)} labels are "
        f"reached by less, {two} by two characters or fewer, "
        f"{sum(length == 1 for length in lengths.values())} by one; an answer key abbreviated that far still scores "
        f"joint {abbreviated:.3f}",
        (
            "shortest_label",
            "labels_reached_short",
            "labels_reached_by_two",
            "labels_reached_by_one",
            "joint_abbreviated_highest",
        ),
    )
