"""A study: one or more splits with everything a measure may ask of them, opened from a source.

It knows what the source holds, so that a chapter can measure what is measurable here and recall the rest.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import PurePosixPath
from typing import Any

from .. import sources
from ..errors import NothingToCheck, UsageError
from . import demo, index, judges_source, pin, published
from .engine import Engine
from .gold import Gold
from .independent import IndependentEngine
from .judges import JudgeRun, demo_runs
from .published import Published
from .upstream import UpstreamEngine

__all__ = [
    "ENGINES",
    "NAMES",
    "REAL_SPLITS",
    "SPLITS",
    "Corpus",
    "Study",
    "open_study",
    "slug",
]

REAL_SPLITS = ("gaia", "swe-bench")
SPLITS = (*REAL_SPLITS, "demo", "all")
ENGINES = ("auto", "upstream", "independent")
SAYS = {
    "upstream": "the pinned scorer itself",
    "independent": "this project's implementation of the scorer's rules",
}
SHOWN = 5  # missing files that a message names
NAMES = {"gaia": "GAIA", "swe-bench": "SWE Bench", "demo": "Demo"}


def slug(split: str) -> str:
    """A split's name as part of an identifier."""
    return split.replace("-", "_")


@dataclass(frozen=True)
class Corpus:
    """The loaded data of one split.

    Attributes:
        split: Its name.
        gold: The gold files at hand.
        gold_missing: Paths of the gold files that the source lacks.
        spans: trace id -> span ids from the index, depth first, duplicates kept.
        traces: Ids of the traces whose bytes the source holds, sorted.
        traces_missing: Ids of the others.
        load_traces: Reads those bytes: trace id -> bytes.
        published: What is printed about the split.
    """

    split: str
    gold: Gold
    gold_missing: tuple[str, ...]
    spans: Mapping[str, tuple[str, ...]]
    traces: tuple[str, ...]
    traces_missing: tuple[str, ...]
    load_traces: Callable[[], Mapping[str, bytes]]
    published: Published

    @property
    def name(self) -> str:
        """The split's name as the paper writes it."""
        return NAMES[self.split]


@dataclass(frozen=True)
class Study:
    """Splits, an engine, and what the source holds.

    Attributes:
        split: ``gaia``, ``swe-bench``, ``demo`` or ``all`` (the two real ones).
        corpora: split -> corpus.
        engine: The scorer in use.
        scorer: The pinned scorer's bytes, where the source holds them.
        index_digest: Digest of the span index in use.
        has: What can be measured: ``gold`` (every gold file), ``traces`` (at least one), ``scorer``, ``judges`` (every
            reply of the splits' runs, and the gold to score them against).
        lacks: What cannot, with the reason.
        recordable: Empty, or why nothing measured here may become a record.
        source: One phrase saying where the bytes come from, without a path.
        judges_given: Where the judges' runs come from.
        lacks_by_split: The same as ``lacks`` for each split alone.
    """

    split: str
    corpora: Mapping[str, Corpus]
    engine: Engine
    scorer: bytes | None
    index_digest: str
    has: frozenset[str]
    lacks: Mapping[str, str]
    recordable: str = ""
    source: str = ""
    judges_given: judges_source.Given = judges_source.NOT_ASKED
    lacks_by_split: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def corpus(self) -> Corpus:
        """The corpus of a study of one split."""
        (only,) = self.corpora.values()
        return only

    @property
    def taxonomy(self) -> tuple[str, ...]:
        """The labels, in the scorer's order."""
        return self.engine.taxonomy

    @cached_property
    def traces_digest(self) -> str:
        """Digest of the set of traces whose bytes were read."""
        return pin.traces_digest(trace for corpus in self.corpora.values() for trace in corpus.traces)

    @property
    def judges(self) -> tuple[JudgeRun, ...]:
        """The judges' runs of the study's splits, read and verified when first asked for.

        Raises:
            PinMismatch: a reply differs from its pin.
            NothingToCheck: replies are not in the source.
        """
        given = self.judges_given
        loaded = (self.once(("judges", split), partial(given.load, split)) for split in self.corpora)
        return tuple(run for runs in loaded for run in runs)

    @property
    def spans_from(self) -> str:
        """Where span ids come from, since they are not read from the traces themselves."""
        if self.split == "demo":
            return "the demo"
        return "another index than the committed one" if "index" in self.recordable else "the committed index"

    def only(self, split: str) -> Study:
        """The same study of one of its splits."""
        lacks = self.lacks_by_split.get(split, self.lacks)
        return replace(
            self,
            split=split,
            corpora={split: self.corpora[split]},
            lacks=lacks,
            has=_has(lacks, self.judges_given) if self.lacks_by_split else self.has,
            memo=self.memo,
        )

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Compute something shared by several measures once per study."""
        if key not in self.memo:
            self.memo[key] = compute()
        return self.memo[key]

    def provenance(self) -> dict[str, Any]:
        """What the values rest on; shown and never compared. Holds no path, host or time."""
        pinned = pin.load()
        return {
            "benchmark": "TRAIL",
            "commit": pinned.pin.commit,
            "split": self.split,
            "engine": self.engine.name,
            "engine_says": SAYS.get(self.engine.name, self.engine.name),
            "source": self.source,
            "index_digest": self.index_digest,
            "scorer_sha256": pinned.scorer_sha256,
            "gold_files": {split: len(corpus.gold) for split, corpus in self.corpora.items()},
            "traces_present": {split: len(corpus.traces) for split, corpus in self.corpora.items()},
            "traces_digest": self.traces_digest,
            **self.judges_given.provenance,
            "spans_from": self.spans_from,
            "lacks": dict(self.lacks),
            "versions": {
                name: importlib.metadata.version(name) for name in ("traceaudit", "numpy", "scipy", "scikit-learn")
            },
            "recordable": self.recordable or "yes",
        }

    def close(self) -> None:
        """Stop the engine's worker."""
        self.engine.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_study(
    split: str,
    source: str | None = None,
    *,
    engine: str = "auto",
    index_path: str | None = None,
    unpinned: bool = False,
    defects: Iterable[str] = demo.DEFECTS,
    judges: str | None = None,
) -> Study:
    """Open one split, or both real ones, from a source.

    Args:
        split: One of :data:`SPLITS`.
        source: A git repository or folder; nothing means ``TRACEAUDIT_SOURCE``, then the cache.
        engine: ``upstream``, ``independent`` or ``auto`` (upstream where the scorer's bytes are at hand).
        index_path: Another span index than the committed one; nothing measured with it can become a record.
        unpinned: Read the source without verification; nothing measured so can become a record.
        defects: For the demo, which defects to plant.
        judges: A git repository, folder or tar archive with the judges' replies; ``""`` means ``TRACEAUDIT_JUDGES``,
            then the cache; ``None`` asks for no judges. The demo has its own in any case.

    Returns:
        The study; what the source lacks is in ``lacks``.

    Raises:
        UsageError: unknown split or engine.
        NothingToCheck: a source was named and is not there, or ``upstream`` was asked for without the scorer.
        PinMismatch: bytes differ from their pin.
    """
    if split not in SPLITS:
        raise UsageError("unknown split", where=str(split), expected=", ".join(SPLITS))
    if engine not in ENGINES:
        raise UsageError("unknown engine", where=str(engine), expected=", ".join(ENGINES))
    pinned = pin.load()
    try:
        found = sources.find_source(source, pinned.pin)
    except NothingToCheck:
        if source or split != "demo" or engine == "upstream":
            raise
        found = None  # the demo needs no source, so one that the environment names wrongly does not stop it
    spans = index.load_index(index_path)
    scorer = None
    if found is not None:
        reading = sources.read_verified(found, pinned.pin, [pinned.scorer_path])
        scorer = reading.files.get(pinned.scorer_path)
    chosen = _engine(engine, scorer, pinned)
    splits = REAL_SPLITS if split == "all" else (split,)
    try:
        if split == "demo":
            corpora = {"demo": _demo(chosen.taxonomy, defects)}
            given = _demo_judges(corpora["demo"], chosen.taxonomy)
        else:
            _hold_index(spans, splits, pinned)
            corpora = {name: _real(name, found, pinned, spans, unpinned) for name in splits}
            given = judges_source.NOT_ASKED if judges is None else judges_source.given(judges, splits)
    except BaseException:
        chosen.close()
        raise
    by_split = {name: _lacks({name: corpus}, scorer, found, given) for name, corpus in corpora.items()}
    lacks = _lacks(corpora, scorer, found, given)
    reasons = [
        "" if spans.committed else "another span index than the committed one was used",
        "the source was read without verification" if unpinned else "",
        "" if chosen.name == "upstream" else "the engine was not the pinned scorer",
    ]
    return Study(
        split=split,
        corpora=corpora,
        engine=chosen,
        scorer=scorer,
        index_digest=spans.digest,
        has=_has(lacks, given),
        lacks=lacks,
        lacks_by_split=by_split,
        recordable="; ".join(reason for reason in reasons if reason),
        source="built from a seed" if split == "demo" else found.label if found else "no source",
        judges_given=given,
    )


def _hold_index(spans: index.Index, splits: Iterable[str], pinned: pin.TrailPin) -> None:
    for split in splits:
        ids = pinned.trace_ids(split)
        absent = [trace for trace in ids if not spans.spans.get(split, {}).get(trace)]
        if absent:
            raise UsageError(
                "the span index lists no span of some traces",
                where=f"split {split}",
                got=f"{len(absent)} of {len(ids)} traces, {absent[0]} first",
                next_step="give an index of all traces, or none to use the committed one",
            )


def _engine(name: str, scorer: bytes | None, pinned: pin.TrailPin) -> Engine:
    if name == "upstream" and scorer is None:
        raise NothingToCheck(
            "the pinned scorer is not in this source",
            where=pinned.scorer_path,
            next_step="give a git repository that holds the pinned commit, or choose the independent engine",
        )
    if name == "independent" or scorer is None:
        return IndependentEngine(pin.taxonomy())
    return UpstreamEngine(scorer, sha256=pinned.scorer_sha256)


def _demo(taxonomy: tuple[str, ...], defects: Iterable[str]) -> Corpus:
    built = demo.build(taxonomy, defects=defects)
    return Corpus(
        split="demo",
        gold=Gold(built.gold),
        gold_missing=(),
        spans=built.spans,
        traces=tuple(sorted(built.traces)),
        traces_missing=(),
        load_traces=lambda: built.traces,
        published=built.published,
    )


def _demo_judges(corpus: Corpus, taxonomy: tuple[str, ...]) -> judges_source.Given:
    return judges_source.Given("built from a seed", lambda split: demo_runs(corpus.gold.parsed, corpus.spans, taxonomy))


def _real(split: str, found: sources.Source | None, pinned: pin.TrailPin, spans: index.Index, unpinned: bool) -> Corpus:
    gold_paths, trace_paths = pinned.gold_paths(split), pinned.trace_paths(split)
    files: Mapping[str, bytes] = {}
    missing: tuple[str, ...] = tuple(gold_paths)
    present: frozenset[str] = frozenset()
    if found is not None:
        reading = sources.read_verified(found, pinned.pin, gold_paths, unpinned=unpinned)
        files, missing, present = reading.files, reading.missing, found.names()

    def load_traces() -> dict[str, bytes]:
        if found is None:
            return {}
        held = sources.read_verified(found, pinned.pin, [path for path in trace_paths if path in present])
        return {_trace_id(path): data for path, data in held.files.items()}

    return Corpus(
        split=split,
        gold=Gold({_trace_id(path): data for path, data in files.items()}),
        gold_missing=() if unpinned and files else tuple(missing),
        spans=spans.spans[split],
        traces=tuple(sorted(_trace_id(path) for path in trace_paths if path in present)),
        traces_missing=tuple(sorted(_trace_id(path) for path in trace_paths if path not in present)),
        load_traces=load_traces,
        published=published.load()[split],
    )


def _trace_id(path: str) -> str:
    return PurePosixPath(path).stem


def _lacks(
    corpora: Mapping[str, Corpus], scorer: bytes | None, found: object, given: judges_source.Given
) -> dict[str, str]:
    lacks = {}
    gold_missing = [path for corpus in corpora.values() for path in corpus.gold_missing]
    gold_all = sum(len(corpus.gold) + len(corpus.gold_missing) for corpus in corpora.values())
    if gold_missing and found is None:
        lacks["gold"] = "no source was given and the cache is empty"
    elif gold_missing:
        named = ", ".join(PurePosixPath(path).name for path in gold_missing[:SHOWN])
        more = f" and {len(gold_missing) - SHOWN} more" if len(gold_missing) > SHOWN else ""
        lacks["gold"] = f"{len(gold_missing)} of {gold_all} gold files are not in this source: {named}{more}"
    if not any(corpus.traces for corpus in corpora.values()):
        lacks["traces"] = "no trace file is in this source"
    if scorer is None:
        lacks["scorer"] = "the pinned scorer is not in this source"
    if given.lack or (given.label and "gold" in lacks):
        lacks["judges"] = given.lack or "without the gold there is nothing to score the judges' replies against"
    return lacks


def _has(lacks: Mapping[str, str], given: judges_source.Given) -> frozenset[str]:
    return frozenset({"gold", "traces", "scorer", *(["judges"] if given.label else [])} - set(lacks))
