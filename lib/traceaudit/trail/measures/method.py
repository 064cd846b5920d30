"""What the audit rests on: the pins, the committed files, and whether the two engines agree."""

from __future__ import annotations

from collections.abc import Iterator

from ...disclosure import disclose
from ...errors import NothingToCheck
from ...pins import data_pins
from ...values import Value, count, measure, text
from .. import pin
from ..engine import ScoreReport
from ..independent import IndependentEngine
from ..predictors import PREDICTORS, replies
from ..study import NAMES, Study

__all__ = ["disclosure", "engines", "pins"]

TOLERANCE = 1e-12


@measure()
def pins(study: Study) -> Iterator[Value]:
    """The pinned commit, digests and file counts."""
    pinned = pin.load()
    yield text("pin_repository", pinned.pin.repository)
    yield text("pin_commit", pinned.pin.commit)
    yield text("pin_scorer", pinned.scorer_path)
    yield text("pin_scorer_sha256", pinned.scorer_sha256)
    yield text("pin_corpus_digest", pinned.corpus_digest)
    yield text("pin_index_digest", pinned.index_digest)
    if pinned.pin.corpus:
        yield count("pin_corpus_files", len(pinned.pin.corpus.paths), "files")
        yield count("pin_corpus_bytes", pinned.pin.corpus.bytes, "bytes")
    for split in NAMES:
        if split in pinned.splits:
            slug = split.replace("-", "_")
            yield count(f"pin_gold_{slug}", len(pinned.gold_paths(split)), "files")
            yield count(f"pin_traces_{slug}", len(pinned.trace_paths(split)), "files")


@measure()
def disclosure(study: Study) -> Iterator[Value]:
    """What each committed data file holds: bytes, distinct strings, identifiers, benchmark words, longer texts.

    The record of the page that shows this is left out, since it would have to hold its own size.
    """
    vocabulary = {*pin.taxonomy(), *_known_spellings(study)}
    rows = disclose(data_pins(), vocabulary, leave_out=_own)
    yield count("disclosed_files", len(rows), "files")
    for position, row in enumerate(rows, 1):
        yield text(f"disclosed_{position}_file", row.path)
        yield count(f"disclosed_{position}_bytes", row.size, "bytes")
        yield count(f"disclosed_{position}_strings", row.strings, "distinct strings")
        yield count(f"disclosed_{position}_identifiers", row.identifiers, "identifiers")
        yield count(f"disclosed_{position}_words", row.words, "benchmark words")
        yield count(f"disclosed_{position}_long", row.long, "strings of more than three words")


def _own(name: str) -> bool:
    """Files that hold this very page's figures or their digest."""
    return name.startswith("records/method.") or name == "records/digests.toml"


def _known_spellings(study: Study) -> set[str]:
    """Gold spellings that the committed records name; read from there, so that no source is needed."""
    from ... import records

    found: set[str] = set()
    for path in sorted((data_pins() / "records").glob("trail-corpus.*.json")):
        for value in records.load(path).values.values():
            if value.name.startswith("drift_") and value.name.endswith("_spelling"):
                found.add(str(value.raw))
    return found


@measure(needs={"gold", "scorer"})
def engines(study: Study) -> Iterator[Value]:
    """The two engines on all gold and all predictors: figures compared, and how many differ by more than 1e-12.

    Skipped (nothing is yielded) never: where the study's own engine is the independent one, the pinned scorer is run
    beside it.
    """
    from ..upstream import UpstreamEngine

    if study.scorer is None:
        raise NothingToCheck("the pinned scorer is not in this source", next_step="see traceaudit fetch")
    ours = IndependentEngine(study.taxonomy)
    with UpstreamEngine(study.scorer, sha256=pin.load().scorer_sha256) as theirs:
        compared = differing = 0
        for corpus in study.corpora.values():
            for predictor in PREDICTORS.values():
                written = replies(predictor, corpus.spans, study.taxonomy, corpus.gold.parsed)
                a, b = (figures(engine.score(corpus.gold.bytes, written)) for engine in (ours, theirs))
                compared += len(a)
                differing += sum(abs(x - y) > TOLERANCE for x, y in zip(a, b, strict=True))
    yield count("engine_figures", compared, "figures")
    yield count("engine_figures_differing", differing, "figures", n=compared)


def figures(report: ScoreReport) -> list[float]:
    """Every figure of a report that is a number, in a fixed order."""
    out = [report.joint, report.location, report.weighted_f1, float(len(report.scored))]
    for column in report.categories.values():
        out += [column.precision, column.recall, column.f1, float(column.support)]
    return out
