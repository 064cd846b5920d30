"""What every source can do, and how pinned files are read from one: all verified before any is used.

A source only hands over bytes; whether they are the pinned ones is decided here, in one place, so that no kind of
source can forget to ask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .errors import PinMismatch
from .pins import Pin, corpus_digest, gather, sha256_hex

__all__ = ["LARGEST", "Reading", "Source", "SourceState", "Survey", "read_verified", "survey"]

LARGEST = 1 << 28  # bytes; no file of a source is read beyond this


class Source(ABC):
    """Where the bytes come from here.

    Attributes:
        kind: ``git``, ``folder`` or ``cache``.
        label: One phrase for a person, the same on every machine.
        place: Where that is here, for a terminal only; belongs in no record.
        pin: What may be read.
        problems: path -> why the last :meth:`read` refused it (a link that leaves the folder, a damaged object, …).
    """

    kind: str
    label: str
    place: str
    pin: Pin
    problems: dict[str, PinMismatch]

    def __str__(self) -> str:
        return f"{self.label} ({self.place})"

    @abstractmethod
    def read(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Each asked path once, in any order, with its unverified bytes; ``None``: not in this source, or refused."""

    @abstractmethod
    def names(self) -> frozenset[str]:
        """The pinned paths for which this source has some bytes (not yet verified)."""

    @abstractmethod
    def listing(self, directory: str) -> tuple[str, ...]:
        """All files that lie directly in a directory of the upstream layout, pinned or not, sorted."""

    def _refuse(self, path: str, what: str, *, expected: str = "an ordinary file", got: str = "") -> None:
        step = "use a source that holds the file itself"
        self.problems[path] = PinMismatch(what, where=path, expected=expected, got=got, next_step=step)


@dataclass(frozen=True)
class SourceState:
    """What a source holds, verified: a digest that changes when that does, and one line for a person."""

    digest: str
    line: str


@dataclass(frozen=True)
class Reading:
    """Files that were read.

    Attributes:
        files: path -> bytes, in the order asked.
        missing: Asked paths that are not in the source, in the order asked.
    """

    files: Mapping[str, bytes]
    missing: tuple[str, ...] = ()


@dataclass
class Survey:
    """All pinned files of one source, verified without being kept.

    Attributes:
        verified: Pinned paths that are there and right, in pinned order.
        missing: Needed paths that are not there, in the order of :attr:`Pin.needed`.
        corpus: The corpus digest, once all its files are there.
        digests: path -> SHA-256 of the verified bytes.
    """

    verified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    corpus: str | None = None
    digests: dict[str, str] = field(default_factory=dict)


def read_verified(source: Source, pin: Pin, paths: Iterable[str], *, unpinned: bool = False) -> Reading:
    """Read files, each held against its pin; nothing is handed over unless everything found is right.

    Args:
        source: Where to read.
        pin: What the bytes must be.
        paths: Pinned paths; one named twice is read once.
        unpinned: Verify nothing, and read every ``.json`` that lies beside an asked ``.json`` as well, so that a
            folder may hold other files than the pinned ones. For experiments that can never be recorded.

    Returns:
        The files and the asked paths that the source lacks.

    Raises:
        PinMismatch: one error for all files that differ, are no pinned files or were refused.
    """
    asked = list(dict.fromkeys(paths))
    if unpinned:
        beside = dict.fromkeys(path.rpartition("/")[0] for path in asked if path.endswith(".json"))
        extra = {path for folder in beside for path in source.listing(folder) if path.endswith(".json")}
        order = [*asked, *sorted(extra.difference(asked))]
    else:
        order = asked
        unknown = [pin.difference(path, b"") for path in order if path not in pin.files]
        if error := gather(problem for problem in unknown if problem):
            raise error
    found: dict[str, bytes] = {}
    problems: dict[str, PinMismatch] = {}
    for path, data in source.read(order):
        if data is None:
            continue
        problem = None if unpinned else pin.difference(path, data)
        if problem is None:
            found[path] = data
        else:
            problems[path] = problem
    _raise_all(problems, source, order)
    return Reading({path: found[path] for path in order if path in found}, tuple(p for p in asked if p not in found))


def survey(source: Source, pin: Pin, keep: Callable[[str, bytes], object] | None = None) -> Survey:
    """Verify every pinned file that a source has.

    Args:
        source: Where to read.
        pin: What the bytes must be.
        keep: Called with (path, bytes) for each verified file, for example to copy it.

    Raises:
        PinMismatch: one error for all files that differ; or the corpus digest does.
    """
    digests: dict[str, str] = {}
    problems: dict[str, PinMismatch] = {}
    for path, data in source.read(pin.files):
        if data is None:
            continue
        problem = pin.difference(path, data)
        if problem is not None:
            problems[path] = problem
            continue
        digests[path] = sha256_hex(data)
        if keep is not None:
            keep(path, data)
    _raise_all(problems, source, list(pin.files))
    corpus = corpus_digest(pin, digests)
    if pin.corpus is not None and corpus not in (None, pin.corpus.digest):
        raise PinMismatch(
            "the corpus digest differs although every file has its blob id",
            where=pin.name,
            expected=pin.corpus.digest,
            got=corpus or "",
            next_step="check corpus.directories of the pin file against the published recipe",
        )
    verified = tuple(path for path in pin.files if path in digests)
    return Survey(verified, tuple(path for path in pin.needed if path not in digests), corpus, digests)


def _raise_all(problems: dict[str, PinMismatch], source: Source, order: list[str]) -> None:
    every = {**source.problems, **problems}
    rank = {path: place for place, path in enumerate(order)}
    error = gather(every[path] for path in sorted(every, key=lambda path: rank.get(path, -1)))
    if error is not None:
        raise error
