"""The span index: which span ids each trace has, depth first, so that locations can be checked without the traces.

Nine of the traces are so large that few copies hold them; the index is what lets a figure about locations be measured
on all of them, and it is rebuilt and compared wherever traces are at hand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..errors import NothingToCheck, PinMismatch, TraceAuditError, UsageError
from ..records import write_whole
from ..sources import find_source, read_verified
from .deep_json import parse
from .pin import TrailPin, index_bytes, load, trace_id

__all__ = [
    "Built",
    "Index",
    "IndexCheck",
    "Malformed",
    "build_index",
    "check_index",
    "command_index",
    "dump_index",
    "index_digest",
    "load_index",
    "span_ids",
]

KEYS = {"gaia": "GAIA", "swe-bench": "SWE Bench"}  # our split names -> those in the published index
_NAMES = {key: name for name, key in KEYS.items()}
Spans = Mapping[str, Mapping[str, Sequence[str]]]


class _Span(msgspec.Struct):
    span_id: str
    child_spans: list[_Span] = []


class _Trace(msgspec.Struct):
    spans: list[_Span]


_DECODER = msgspec.json.Decoder(_Trace)


@dataclass(frozen=True)
class Malformed:
    """A trace that could not be indexed: somebody else's bad data, so a finding and no exception."""

    split: str
    trace: str
    reason: str


class Built(dict[str, dict[str, list[str]]]):
    """split -> trace id -> span ids, with the traces that could not be indexed in ``malformed``."""

    malformed: tuple[Malformed, ...] = ()


@dataclass(frozen=True)
class Index:
    """A span index that was read from a file.

    Attributes:
        spans: split -> trace id -> span ids, depth first, duplicates kept.
        digest: Its :func:`index_digest`.
        committed: Whether it is the committed one; no other can make a record.
    """

    spans: Mapping[str, Mapping[str, tuple[str, ...]]]
    digest: str
    committed: bool


@dataclass(frozen=True)
class IndexCheck:
    """An index held against what the traces at hand say; each entry is (split, trace id).

    Attributes:
        moved: The index has other span ids for the trace, or none at all.
        checked: The trace was compared.
        unchecked: The index has the trace, and its bytes are not at hand.
    """

    moved: tuple[tuple[str, str], ...]
    checked: tuple[tuple[str, str], ...]
    unchecked: tuple[tuple[str, str], ...]


def span_ids(data: bytes) -> list[str]:
    """The span ids of one trace, depth first over ``spans`` and then ``child_spans``, in document order.

    An id that occurs twice is listed twice; a trace without spans gives an empty list. Spans may be nested to any
    depth.

    Raises:
        ValueError: the bytes are not JSON, or not shaped like a trace; the message says where.
    """
    try:
        trace = _DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return list(_walk_plain(parse(data)))
    out: list[str] = []
    waiting = [iter(trace.spans)]
    while waiting:
        span = next(waiting[-1], None)
        if span is None:
            waiting.pop()
            continue
        out.append(span.span_id)
        waiting.append(iter(span.child_spans))
    return out


def _walk_plain(trace: Any) -> Iterator[str]:
    """The same over plain data, checking every step."""
    if not isinstance(trace, dict):
        raise ValueError(f"a trace must be an object, this is a {type(trace).__name__}")
    if not isinstance(trace.get("spans"), list):
        raise ValueError("a trace needs a list named spans")
    waiting = [iter(trace["spans"])]
    seen = 0
    while waiting:
        span = next(waiting[-1], waiting)
        if span is waiting:  # the end of these spans
            waiting.pop()
            continue
        seen += 1
        if not isinstance(span, dict) or not isinstance(span.get("span_id"), str):
            raise ValueError(f"span {seen}: it must be an object with a text named span_id")
        children = span.get("child_spans", [])
        if not isinstance(children, list):
            raise ValueError(f"span {seen} ({span['span_id']}): child_spans must be a list")
        yield span["span_id"]
        waiting.append(iter(children))


def build_index(split_traces: Mapping[str, Mapping[str, bytes]]) -> Built:
    """Index traces.

    Args:
        split_traces: split -> trace id -> the bytes of the trace.

    Returns:
        split -> trace id -> span ids. A malformed trace has no entry and is named, with the reason, in ``malformed``.
    """
    built, malformed = Built(), []
    for split, traces in split_traces.items():
        built[split] = {}
        for trace, data in traces.items():
            try:
                built[split][trace] = span_ids(data)
            except ValueError as error:
                malformed.append(Malformed(split, trace, str(error)))
    built.malformed = tuple(malformed)
    return built


def _published(index: Spans) -> dict[str, dict[str, list[str]]]:
    return {KEYS.get(split, split): {id: list(ids) for id, ids in traces.items()} for split, traces in index.items()}


def index_digest(index: Spans) -> str:
    """SHA-256 of the index as JSON with sorted keys and no blanks, splits under their published names."""
    text = json.dumps(_published(index), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def dump_index(index: Spans) -> bytes:
    """The file form: one trace a line, sorted; equal indexes give equal bytes."""
    splits = []
    for split, traces in sorted(_published(index).items()):
        lines = [f"{json.dumps(id)}: {json.dumps(ids, separators=(',', ':'))}" for id, ids in sorted(traces.items())]
        splits.append(f"{json.dumps(split)}: {{\n" + ",\n".join(lines) + "\n}")
    return ("{\n" + ",\n".join(splits) + "\n}\n").encode()


def load_index(path: str | Path | None = None, *, pinned: TrailPin | None = None) -> Index:
    """Read a span index.

    Args:
        path: Another index than the committed one; it may have any digest.
        pinned: The pin that the committed index belongs to; by default the committed pin.

    Raises:
        NothingToCheck: there is no such file.
        PinMismatch: the committed index is not the pinned one.
        UsageError: another index is not shaped like one (a split and trace missing in it are no fault: see ``spans``).
    """
    pinned = pinned or load()
    if path is None:
        spans = _shaped(index_bytes(pinned), pinned.index_path.name, pinned, PinMismatch)
        _hold(spans, pinned)
        return Index(spans, pinned.index_digest, True)
    path = Path(path)
    if not path.is_file():
        raise NothingToCheck(
            "there is no such span index", where=str(path), next_step="correct --index, or leave it out"
        )
    spans = _shaped(path.read_bytes(), str(path), pinned, UsageError)
    return Index(spans, index_digest(spans), False)


def _hold(spans: Spans, pinned: TrailPin) -> None:
    digest = index_digest(spans)
    if digest != pinned.index_digest:
        raise PinMismatch(
            "the span index differs from its pin",
            where=pinned.index_path.name,
            expected=f"digest {pinned.index_digest}",
            got=f"digest {digest}",
            next_step="restore data-pins/ from version control, or build it again: traceaudit trail index",
        )


def _shaped(
    data: bytes, where: str, pinned: TrailPin, kind: type[TraceAuditError]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """An index's JSON under our split names; every known split is there, if only empty."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} occurs twice")
        return dict(pairs)

    try:
        table = json.loads(data, object_pairs_hook=once)
        if not isinstance(table, dict):
            raise ValueError("it must be an object of splits")
        for split, traces in table.items():
            if split not in _NAMES or not isinstance(traces, dict):
                raise ValueError(f"{split!r} must be one of {', '.join(_NAMES)}, each an object of traces")
            for trace, ids in traces.items():
                if trace not in pinned.trace_ids(_NAMES[split]):
                    raise ValueError(f"{split} has no trace {trace!r}")
                if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
                    raise ValueError(f"{split}, trace {trace}: its value must be a list of span ids")
    except (ValueError, RecursionError) as error:
        raise kind(
            "the file is no span index",
            where=where,
            expected="split -> trace id -> list of span ids",
            got=str(error),
            next_step="build it again: traceaudit trail index --out FILE",
        ) from None
    return {name: {trace: tuple(ids) for trace, ids in table.get(key, {}).items()} for name, key in KEYS.items()}


def check_index(index: Index | Spans, rebuilt: Spans) -> IndexCheck:
    """Hold an index against one that was rebuilt from the traces at hand."""
    spans = index.spans if isinstance(index, Index) else index
    moved, checked = [], []
    for split, traces in rebuilt.items():
        for trace, ids in traces.items():
            known = spans.get(split, {}).get(trace)
            checked.append((split, trace))
            if known is None or list(known) != list(ids):
                moved.append((split, trace))
    done = set(checked)
    rest = [(split, trace) for split, traces in spans.items() for trace in traces if (split, trace) not in done]
    return IndexCheck(tuple(moved), tuple(checked), tuple(rest))


def command_index(source_spec: str | None, check: bool, out: str | None, say: Callable[[str], None]) -> int:
    """``traceaudit trail index``: build the span index from the traces at hand, or check the committed one.

    Args:
        source_spec: The source; nothing means ``TRACEAUDIT_SOURCE``, then the cache.
        check: Compare and write nothing.
        out: File to write; by default the committed index, which needs every trace.
        say: Takes one line for the reader at a time.

    Returns:
        0; or 1 if the committed index differs from what the traces say.

    Raises:
        UsageError: ``check`` and ``out`` together.
        NothingToCheck: no source, or no trace in it; or too few traces to write the committed index.
        PinMismatch: a trace is not the pinned one, or the committed index is damaged in a trace not at hand.
    """
    if check and out:
        raise UsageError("--check writes nothing", where="--out", next_step="leave out one of the two")
    pinned = load()
    every = {split: pinned.trace_paths(split) for split in pinned.splits}
    total = sum(map(len, every.values()))
    source = find_source(source_spec, pinned.pin)
    built = Built()
    missing: list[str] = []
    for split, paths in every.items():
        if source is None:
            break
        reading = read_verified(source, pinned.pin, paths)
        part = build_index({split: {trace_id(path): data for path, data in reading.files.items()}})
        built |= part
        built.malformed += part.malformed
        missing += reading.missing
    present = total - len(missing)
    if source is None or not present:
        raise NothingToCheck(
            "no trace is at hand",
            where=str(source or "no source"),
            expected=f"some of {total} traces",
            next_step="give --source, set TRACEAUDIT_SOURCE, or run traceaudit fetch",
        )
    say(f"{present} of {total} traces read from {source}")
    for bad in built.malformed:
        say(f"malformed: {bad.split} {bad.trace}: {bad.reason}")
    if check:
        return _check(pinned, built, say)
    if out is None and missing:
        raise NothingToCheck(
            "the committed index needs every trace",
            where=pinned.index_path.name,
            expected=f"{total} traces",
            got=f"{present}; {missing[0]} is the first that is missing",
            next_step="traceaudit fetch, or name another file with --out",
        )
    if out is None:
        _hold(built, pinned)
    target = Path(out) if out else pinned.index_path
    write_whole(target, dump_index(built))
    say(f"wrote {target}: digest {index_digest(built)}")
    return 0


def _check(pinned: TrailPin, built: Built, say: Callable[[str], None]) -> int:
    name = pinned.index_path.name
    if not pinned.index_path.is_file():
        raise PinMismatch("the span index is absent", where=name, next_step="restore data-pins/ from version control")
    spans = _shaped(pinned.index_path.read_bytes(), name, pinned, PinMismatch)
    result = check_index(spans, built)
    for split, trace in result.moved:
        known, ids = spans[split].get(trace, ()), built[split][trace]
        at = next((i for i, (a, b) in enumerate(zip(known, ids, strict=False)) if a != b), min(len(known), len(ids)))
        said, found = (", ".join(list(row)[at : at + 1]) or "nothing" for row in (ids, known))
        say(f"moved: {split} {trace}, span {at + 1}: expected {said} (the trace), found {found} (the index)")
    say(f"{len(result.checked)} traces checked, {len(result.moved)} moved")
    if result.unchecked:
        say(f"{len(result.unchecked)} not at hand, so not checked:")
        for split, trace in result.unchecked:
            say(f"  {split} {trace}")
    if result.moved:
        return PinMismatch.exit_code
    _hold(spans, pinned)
    index_bytes(pinned)
    return 0
