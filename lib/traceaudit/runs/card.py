"""The data card of a corpus: one pass over its runs, folds that merge, and one plain structure that says it all.

Tables and sentences that are written by hand rot while the data moves; a page that shows this structure and nothing
else cannot. Since each part is a fold, a corpus too large for one process is counted in parts and gives the same card.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..errors import NothingToCheck, UsageError
from .census import Census
from .columns import Columns
from .coverage import Coverage
from .digests import CorpusDigest, SeedDigest
from .files import read_run, run_paths
from .issues import Issue
from .schema import SCHEMA, Run
from .secrets import Secrets

__all__ = ["PARTITION", "SHOWN", "CardFold", "card", "card_dask"]

SHOWN = 100
"""Issues that a card shows one by one; all are counted by kind."""
PARTITION = 64
"""Run files that one task of the dask engine reads."""


def _order(issue: Issue) -> tuple[str, int, str, str]:
    return issue.file, issue.line or 0, issue.what, issue.got


class CardFold:
    """Every part of the card in one fold.

    Args:
        secrets: Whether the free text is swept for credentials, the slowest part by far; without it the card says that
            it was not done.
    """

    def __init__(self, *, secrets: bool = True) -> None:
        self.census, self.coverage, self.columns = Census(), Coverage(), Columns()
        self.digest, self.seed_digest = CorpusDigest(), SeedDigest()
        self.secrets = Secrets() if secrets else None
        self._files: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._first: list[Issue] = []

    def add(self, run: Run) -> None:
        """Take in one run."""
        for part in (self.census, self.coverage, self.columns, self.digest, self.seed_digest, self.secrets):
            if part is not None:
                part.add(run)

    def add_file(self, path: Path) -> None:
        """Read one run file and take it in; one that cannot be read counts as unread, and its issues are kept."""
        issues: list[Issue] = []
        run = read_run(path, issues)
        self._files["read" if run is not None else "unread"] += 1
        self.add_issues(issues)
        if run is not None:
            self.add(run)

    def add_issues(self, issues: Iterable[Issue]) -> None:
        """Count issues by kind, and keep the first :data:`SHOWN` by file and line."""
        issues = list(issues)
        self._kinds.update(issue.what for issue in issues)
        self._first = heapq.nsmallest(SHOWN, [*self._first, *issues], key=_order)

    def merge(self, other: CardFold) -> None:
        """Take in what another part of the corpus gave; the other stays as it is.

        Raises:
            UsageError: one of the two was swept for credentials and the other was not.
        """
        if (self.secrets is None) != (other.secrets is None):
            raise UsageError("one part was swept for credentials and the other was not", next_step="use the same flag")
        self.census.merge(other.census)
        self.coverage.merge(other.coverage)
        self.columns.merge(other.columns)
        self.digest.merge(other.digest)
        self.seed_digest.merge(other.seed_digest)
        if self.secrets is not None and other.secrets is not None:
            self.secrets.merge(other.secrets)
        self._files.update(other._files)
        self._kinds.update(other._kinds)
        self._first = heapq.nsmallest(SHOWN, [*self._first, *other._first], key=_order)

    def result(self) -> dict[str, Any]:
        """The card: plain dicts, lists, numbers and texts, the same for the same runs in any order and partition.

        Returns:
            Everything of :meth:`Census.result` at the top; ``schema`` of the runs; ``files`` {read, unread}, both 0
            where runs were given and no files; ``coverage``, ``columns``, ``secrets``: the results of their folds
            (``secrets`` is None where there was no sweep); ``digest`` over contents, headers and labels;
            ``seed_digest``, the narrower recipe; ``issues``: kind to how often; ``details``: the first of them.
        """
        return {
            "schema": SCHEMA,
            **self.census.result(),
            "files": {"read": self._files["read"], "unread": self._files["unread"]},
            "coverage": self.coverage.result(),
            "columns": self.columns.result(),
            "secrets": None if self.secrets is None else self.secrets.result(),
            "digest": self.digest.result(),
            "seed_digest": self.seed_digest.result(),
            "issues": dict(sorted(self._kinds.items())),
            "details": [msgspec.to_builtins(issue) for issue in self._first],
        }


def _paths(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise NothingToCheck(
            "there is no such folder",
            where=str(folder),
            next_step="name a folder of runs, as traceaudit runs normalize writes it",
        )
    return run_paths(folder)


def card(source: Path | Iterable[Run], *, secrets: bool = True) -> dict[str, Any]:
    """The data card of a folder of run files, or of runs; one run is in memory at a time.

    Args:
        source: Folder as ``normalize`` writes it, or runs.
        secrets: As for :class:`CardFold`.

    Returns:
        See :meth:`CardFold.result`. A folder without a run gives a card of zeros, where no rate is defined.

    Raises:
        NothingToCheck: there is no such folder.
    """
    fold = CardFold(secrets=secrets)
    if isinstance(source, Path):
        for path in _paths(source):
            fold.add_file(path)
    else:
        for run in source:
            fold.add(run)
    return fold.result()


def _part(paths: Sequence[Path], secrets: bool) -> CardFold:
    fold = CardFold(secrets=secrets)
    for path in paths:
        fold.add_file(path)
    return fold


def _joined(folds: Iterable[CardFold], secrets: bool) -> CardFold:
    whole = CardFold(secrets=secrets)
    for fold in folds:
        whole.merge(fold)
    return whole


def card_dask(
    source: Path | Iterable[Path], *, secrets: bool = True, partition: int = PARTITION, scheduler: Any = None
) -> dict[str, Any]:
    """The same card, counted over partitions of the files by dask.

    A ``distributed.Client`` that is open in this process is used; without one, dask's local processes are. Every worker
    reads the files itself, so they must be reachable there under the same path.

    Args:
        source: Folder of run files, or their paths.
        secrets: As for :class:`CardFold`.
        partition: Files per task.
        scheduler: Dask's own argument (``"processes"``, ``"threads"``, a client …), over the choice above.

    Raises:
        UsageError: dask is not installed, or a partition holds no file.
        NothingToCheck: there is no such folder.
    """
    try:
        import dask.bag
    except ImportError:
        raise UsageError(
            "the dask engine needs dask",
            expected="the extra traceaudit[dask]",
            next_step="pip install traceaudit[dask]",
        ) from None
    if partition < 1:
        raise UsageError("a partition holds at least one file", where="partition", got=str(partition))
    paths = _paths(source) if isinstance(source, Path) else list(source)
    if not paths:
        return CardFold(secrets=secrets).result()
    parts = [paths[at : at + partition] for at in range(0, len(paths), partition)]
    bag = dask.bag.from_sequence(parts, npartitions=len(parts)).map(_part, secrets=secrets)
    whole = bag.reduction(_Join(secrets), _Join(secrets))
    options = {} if scheduler is None else {"scheduler": scheduler}
    return whole.compute(**options).result()


class _Join:
    """:func:`_joined` as something that a worker process can be sent."""

    def __init__(self, secrets: bool) -> None:
        self.secrets = secrets

    def __call__(self, folds: Iterable[CardFold]) -> CardFold:
        return _joined(folds, self.secrets)
