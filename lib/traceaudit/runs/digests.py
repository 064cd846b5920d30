"""Digests of runs and corpora: of what a run holds, of all that is claimed about a corpus, and the seed's own recipe.

A digest testifies for what goes into it and for nothing else; so the one of a corpus covers contents, headers and
labels, and the narrower recipe is computed beside it to show what it cannot see.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

import msgspec

from .schema import Header, Run, Step

__all__ = ["CorpusDigest", "SeedDigest", "content_digest", "corpus_digest", "header_line", "seed_digest"]

_ENCODE = msgspec.json.Encoder(order="sorted").encode


def content_digest(steps: Iterable[Step]) -> str:
    """SHA-256 over the steps in their order, each as JSON without spaces, with sorted keys, in UTF-8, and a newline."""
    digest = hashlib.sha256()
    for step in steps:
        digest.update(_ENCODE(step))
        digest.update(b"\n")
    return digest.hexdigest()


def header_line(header: Header, content: str) -> bytes:
    """A run in one line: its header with every field (keys sorted), and the digest of its steps as they are."""
    return _ENCODE(header) + b" " + content.encode() + b"\n"


class CorpusDigest:
    """A fold whose result covers every run's header, label and steps, in whatever order the runs come.

    The lines of the runs are hashed one by one; the result is the SHA-256 over these hashes in sorted order, so that
    partitions can be merged. A run that is there twice counts twice, and no two runs can cancel each other. The steps
    are hashed anew: what a header says of its own content is covered and not believed. It keeps 32 bytes a run.
    """

    def __init__(self) -> None:
        self._lines: list[bytes] = []

    def add(self, run: Run) -> None:
        """Take in one run."""
        self._lines.append(hashlib.sha256(header_line(run.header, content_digest(run.steps))).digest())

    def merge(self, other: CorpusDigest) -> None:
        """Take in another fold, which stays as it is."""
        self._lines += other._lines

    def result(self) -> str:
        """The digest, 64 hexadecimal digits; of no run at all, that of nothing."""
        return hashlib.sha256(b"".join(sorted(self._lines))).hexdigest()


def corpus_digest(runs: Iterable[Run]) -> str:
    """The result of :class:`CorpusDigest` over these runs."""
    fold = CorpusDigest()
    for run in runs:
        fold.add(run)
    return fold.result()


class SeedDigest:
    """A fold with the recipe of the first such card: runs, stamped runs, and the instances of the stamped ones.

    The first 16 digits of SHA-256 over ``<runs>:<stamped>:<instance>|<instance>|…``, instances sorted and repeated, a
    run without an instance by its run id. It sees neither labels nor contents nor models, and of unstamped runs only
    how many there are. (Source: the escalation corpus of KookaS/shunt, corpus.py at 6c5c3f0.)
    """

    def __init__(self) -> None:
        self._runs = 0
        self._stamped: Counter[str] = Counter()

    def add(self, run: Run) -> None:
        """Take in one run."""
        self._runs += 1
        if run.stamped:
            self._stamped[run.header.instance_id or run.header.run_id] += 1

    def merge(self, other: SeedDigest) -> None:
        """Take in another fold, which stays as it is."""
        self._runs += other._runs
        self._stamped.update(other._stamped)

    def result(self) -> str:
        """The digest, 16 hexadecimal digits."""
        instances = sorted(self._stamped.elements())
        text = f"{self._runs}:{len(instances)}:{'|'.join(instances)}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def seed_digest(runs: Iterable[Run]) -> str:
    """The result of :class:`SeedDigest` over these runs."""
    fold = SeedDigest()
    for run in runs:
        fold.add(run)
    return fold.result()
