"""Claim W10: each cell of Table 5 under every counting definition that was fixed beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...claims import Finding, Verdict, load_definitions
from ...values import Value, count, measure, text
from ..gold import place
from ..published import TABLE5
from ..study import Corpus, Study
from ..traces import levels

__all__ = ["FROM_TRACES", "counted", "counting", "counting_from_traces"]


def _errors(corpus: Corpus, *, repaired: bool = False) -> list[tuple[str, Mapping[str, Any]]]:
    found: list[tuple[str, Mapping[str, Any]]] = list(corpus.gold.each_error())
    if repaired:
        found += [(file.trace, error) for file in corpus.gold.unread for error in file.errors_unread]
    return found


def _places(corpus: Corpus, keep: Callable[[str, Mapping[str, Any]], bool] = lambda trace, error: True) -> int:
    return len({(trace, place(error)) for trace, error in _errors(corpus) if keep(trace, error)})


COUNTS: Mapping[str, Callable[[Corpus], int]] = {
    "traces-files": lambda corpus: len(corpus.spans),
    "traces-gold-parsed": lambda corpus: sum(file.parses for file in corpus.gold.values()),
    "spans-all": lambda corpus: sum(len(spans) for spans in corpus.spans.values()),
    "spans-distinct": lambda corpus: sum(len(set(spans)) for spans in corpus.spans.values()),
    "errors-parsed": lambda corpus: len(_errors(corpus)),
    "errors-repaired": lambda corpus: len(_errors(corpus, repaired=True)),
    "errors-described": lambda corpus: sum("description" in error for _, error in _errors(corpus)),
    "errors-distinct": lambda corpus: len(
        {(trace, place(error), str(error.get("category"))) for trace, error in _errors(corpus)}
    ),
    "error-spans-split": lambda corpus: len({place(error) for _, error in _errors(corpus)}),
    "error-spans-trace": _places,
    "error-spans-real": lambda corpus: _places(
        corpus, lambda trace, error: place(error) in set(corpus.spans.get(trace, ()))
    ),
    "error-spans-described": lambda corpus: _places(corpus, lambda trace, error: "description" in error),
    "traces-with-error-parsed": lambda corpus: sum(bool(file.errors) for file in corpus.gold.values()),
    "traces-with-error-repaired": lambda corpus: sum(
        bool(file.errors or file.errors_unread) for file in corpus.gold.values()
    ),
    "traces-with-error-all": lambda corpus: len(corpus.gold),
}

FROM_TRACES = ("spans-roots", "spans-two-levels", "spans-below-roots")
"""Definitions that need the trace files, since the index does not say how deep a span lies."""


def _slug(id: str) -> str:
    return id.replace("-", "_")


def counted(corpus: Corpus) -> dict[str, int]:
    """definition -> count, for the definitions that need no trace file.

    Raises:
        KeyError: a definition of ``claims.toml`` has no counting rule, or a rule no definition.
    """
    listed = [id for id in load_definitions() if id not in FROM_TRACES]
    if set(listed) != set(COUNTS):
        raise KeyError(", ".join(sorted(set(listed) ^ set(COUNTS))))
    return {id: COUNTS[id](corpus) for id in listed}


@measure(needs={"gold"})
def counting(study: Study) -> Iterator[Value | Finding]:
    """W10: every definition against its cell; VIOLATED where a cell agrees under none of those tried."""
    definitions = load_definitions()
    cells = explained = 0
    for corpus in study.corpora.values():
        found = counted(corpus)
        single = len(study.corpora) == 1
        for row in TABLE5:
            tried = [id for id in found if definitions[id].row == row]
            agreeing = [id for id in tried if found[id] == corpus.published.table5[row]]
            cells += 1
            explained += bool(agreeing)
            if single:
                yield count(f"cell_{row}_paper", corpus.published.table5[row], TABLE5[row])
                yield count(f"cell_{row}_tried", len(tried), "definitions")
                yield count(f"cell_{row}_agreeing", len(agreeing), "definitions", n=len(tried))
                for id in tried:
                    yield count(f"counted_{_slug(id)}", found[id], TABLE5[row])
                    yield text(f"agrees_{_slug(id)}", "yes" if id in agreeing else "no")
    yield count("cells", cells, "cells")
    yield count("cells_explained", explained, "cells", n=cells)
    yield Finding(
        "W10",
        Verdict.HELD if explained == cells else Verdict.VIOLATED,
        f"{explained} of the {cells} cells of Table 5 agree with the tree under a definition that was tried",
        ("cells_explained", "cells"),
    )


@measure(needs={"traces"})
def counting_from_traces(study: Study) -> Iterator[Value]:
    """The definitions that need trace files, over those at hand: roots, roots and children, spans below a root."""
    corpus = study.corpus
    files = corpus.load_traces()
    roots = two = 0
    three = set()
    for data in files.values():
        depths = levels(data)
        roots += depths[0] if depths else 0
        two += sum(depths[:2])
        three.add(sum(depths[:2]))
    indexed = sum(len(spans) for spans in corpus.spans.values())
    dropped = {"trace file not in this source": len(corpus.traces_missing)} if corpus.traces_missing else {}
    paper = corpus.published.table5["spans"]
    yield count("depth_traces", len(files), "traces", dropped=dropped)
    for id, found in (("spans-roots", roots), ("spans-two-levels", two), ("spans-below-roots", indexed - roots)):
        yield count(f"counted_{_slug(id)}", found, TABLE5["spans"], n=len(files), dropped=dropped)
        said = "undecided without the missing traces" if dropped else "yes" if found == paper else "no"
        yield text(f"agrees_{_slug(id)}", said, n=len(files), dropped=dropped)
    yield count("two_levels_fewest", min(three, default=None), "spans of a trace", n=len(files), dropped=dropped)
    yield count("two_levels_most", max(three, default=None), "spans of a trace", n=len(files), dropped=dropped)
    yield count("spans_short_of_paper", paper - (indexed - roots), "spans", n=len(files), dropped=dropped)
