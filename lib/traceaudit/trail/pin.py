"""The pinned TRAIL benchmark: its splits, their files, and the digests that its publishers and we have given.

Everything that names a file of the benchmark goes through here, so that no other module spells one of its paths.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ..committed import committed_bytes
from ..errors import PinMismatch, UsageError
from ..pins import RESTORE, Pin, data_pins, load_pin, pinned_bytes

__all__ = ["SplitPin", "TrailPin", "load", "taxonomy", "trace_id", "traces_digest"]


@dataclass(frozen=True)
class SplitPin:
    """One split of the benchmark.

    Attributes:
        name: Our name, ``gaia`` or ``swe-bench``.
        title: The publishers' name, also its key in the span index.
        gold_dir: Folder of the gold annotations in the tree.
        trace_dir: Folder of the traces.
        traces: Ids of its traces, sorted.
    """

    name: str
    title: str
    gold_dir: str
    trace_dir: str
    traces: tuple[str, ...]


@dataclass(frozen=True)
class TrailPin:
    """The pin with what this subject adds to it.

    Attributes:
        pin: The repository's pin.
        splits: name -> :class:`SplitPin`, GAIA first.
        scorer_path: The scorer's path in the tree.
        scorer_sha256: Its SHA-256.
        index_path: The committed span index.
        index_sha256: SHA-256 of that file as committed.
        index_digest: The published digest of its canonical text.
        taxonomy_path: The committed labels.
        taxonomy_digest: SHA-256 of the labels, one a line.
    """

    pin: Pin
    splits: Mapping[str, SplitPin]
    scorer_path: str
    scorer_sha256: str
    index_path: Path
    index_sha256: str
    index_digest: str
    taxonomy_path: Path
    taxonomy_digest: str

    @property
    def corpus_digest(self) -> str:
        """The published digest over all gold and trace files."""
        return self.pin.corpus.digest if self.pin.corpus else ""

    def split(self, name: str) -> SplitPin:
        """One split by our name.

        Raises:
            UsageError: there is no such split.
        """
        if name not in self.splits:
            raise UsageError(
                "unknown split",
                where=str(name),
                expected=", ".join(self.splits),
                next_step="name one of these",
            )
        return self.splits[name]

    def trace_ids(self, split: str) -> tuple[str, ...]:
        """Ids of the split's traces, sorted."""
        return self.split(split).traces

    def gold_path(self, split: str, trace: str) -> str:
        """Path of one gold file in the tree."""
        return f"{self.split(split).gold_dir}/{trace}.json"

    def trace_path(self, split: str, trace: str) -> str:
        """Path of one trace in the tree."""
        return f"{self.split(split).trace_dir}/{trace}.json"

    def gold_paths(self, split: str) -> tuple[str, ...]:
        """Paths of the split's gold files, sorted by trace id."""
        return tuple(self.gold_path(split, trace) for trace in self.split(split).traces)

    def trace_paths(self, split: str) -> tuple[str, ...]:
        """Paths of the split's traces, sorted by trace id."""
        return tuple(self.trace_path(split, trace) for trace in self.split(split).traces)


def trace_id(path: str) -> str:
    """The trace that a gold or trace file belongs to: its file name without ``.json``."""
    return PurePosixPath(path).name.removesuffix(".json")


def traces_digest(ids: Iterable[str]) -> str:
    """Digest of a set of traces: SHA-256 of their ids, sorted, each once, one a line; order and repetition are free."""
    return hashlib.sha256("".join(f"{id}\n" for id in sorted(set(ids))).encode()).hexdigest()


def load(folder: Path | None = None) -> TrailPin:
    """Read the TRAIL pin.

    Args:
        folder: The folder of pins; by default the committed one.

    Raises:
        NothingToCheck: the pin file is absent.
        PinMismatch: it or the file list is damaged (see :func:`traceaudit.pins.load_pin`), or a split's gold and
            traces do not belong together.
    """
    if folder is None:
        committed_bytes("trail.toml")
    folder = folder or data_pins()
    pin = load_pin(folder / "trail.toml", extra=("splits", "scorer", "index", "taxonomy"))
    for table, names in (
        ("scorer", {"path"}),
        ("index", {"path", "sha256", "digest"}),
        ("taxonomy", {"path", "count", "digest"}),
    ):
        _same(set(pin.extra[table]), names, table)
    scorer = pin.extra["scorer"]["path"]
    scorer_sha256 = pin.files[scorer].sha256 if scorer in pin.files else None
    if not scorer_sha256:
        raise PinMismatch(
            "the scorer must be pinned by SHA-256", where="trail.toml, scorer", got=str(scorer), next_step=RESTORE
        )
    splits = {}
    for name, about in pin.extra["splits"].items():
        _same(set(about), {"title", "gold", "traces", "count"}, f"splits.{name}")
        gold, traces = _ids(pin, about["gold"]), _ids(pin, about["traces"])
        _same(set(gold), set(traces), f"splits.{name}, trace ids")
        _same({len(gold)}, {about["count"]}, f"splits.{name}, count")
        splits[name] = SplitPin(name, about["title"], about["gold"], about["traces"], gold)
    _same(set(splits), {"gaia", "swe-bench"}, "splits")
    index, labels = pin.extra["index"], pin.extra["taxonomy"]
    return TrailPin(
        pin=pin,
        splits=splits,
        scorer_path=scorer,
        scorer_sha256=scorer_sha256,
        index_path=folder / str(index["path"]),
        index_sha256=str(index["sha256"]),
        index_digest=str(index["digest"]),
        taxonomy_path=folder / str(labels["path"]),
        taxonomy_digest=str(labels["digest"]),
    )


def taxonomy(folder: Path | None = None) -> tuple[str, ...]:
    """The committed labels, in the scorer's order.

    Raises:
        PinMismatch: the file is absent or malformed, or the labels are not the pinned ones.
    """
    pinned = load(folder)
    where = pinned.taxonomy_path.name
    try:
        labels = tomllib.loads(pinned.taxonomy_path.read_text(encoding="utf-8"))["labels"]
        found = hashlib.sha256("".join(f"{label}\n" for label in labels).encode()).hexdigest()
    except (OSError, ValueError, KeyError, TypeError) as error:
        labels, found = [], f"{type(error).__name__}: {error}"
    if found != pinned.taxonomy_digest:
        raise PinMismatch(
            "the labels differ from their pin",
            where=where,
            expected=f"SHA-256 {pinned.taxonomy_digest} of the labels, one a line",
            got=found,
            next_step=RESTORE,
        )
    return tuple(labels)


def index_bytes(pinned: TrailPin) -> bytes:
    """The committed span index, held against its SHA-256.

    Raises:
        PinMismatch: it is absent or differs.
    """
    return pinned_bytes(pinned.index_path, pinned.index_sha256)


def _ids(pin: Pin, directory: object) -> tuple[str, ...]:
    inside = [path for path in pin.files if PurePosixPath(path).parent == PurePosixPath(str(directory))]
    return tuple(sorted(trace_id(path) for path in inside))


def _same(found: set[Any], expected: set[Any], where: str) -> None:
    if found != expected:
        odd = sorted(map(str, found ^ expected))
        raise PinMismatch(
            "the pin file is damaged",
            where=f"trail.toml, {where}",
            expected=", ".join(sorted(map(str, expected))[:8]),
            got=f"differs in {', '.join(odd[:8])}",
            next_step=RESTORE,
        )
