"""What an engine computes: the result types shared by the pinned scorer and our own implementation.

Both engines answer in these types, so that every measure runs on either and a test can hold one equal to the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["CategoryScore", "Correlation", "Engine", "ScoreReport", "TraceScore"]


@dataclass(frozen=True)
class CategoryScore:
    """Precision, recall and F1 of one label over all scored traces, with the scorer's 0/0 = 0.

    Attributes:
        precision: True positives / predicted traces, in [0, 1].
        recall: True positives / gold traces, in [0, 1].
        f1: Their harmonic mean.
        support: Number of traces whose gold carries the label.
    """

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Correlation:
    """Pearson's r of one score column.

    Attributes:
        r: The coefficient; NaN where one side is constant, 0 where the scorer caught an error (fewer than two pairs).
        p: The two-sided p-value, likewise (1 on a caught error).
        n: Number of traces where both sides have the column.
    """

    r: float
    p: float
    n: int


@dataclass(frozen=True)
class TraceScore:
    """One trace: what the scorer's per-trace function returns, less the arrays.

    Attributes:
        joint: |gold pairs ∩ predicted pairs| / |gold pairs|, 0 where the gold has none.
        location: The same over locations.
        gold_categories: Normalised gold categories, falsy ones dropped, in order.
        predicted_categories: The same of the prediction.
    """

    joint: float
    location: float
    gold_categories: tuple[Any, ...]
    predicted_categories: tuple[Any, ...]


@dataclass(frozen=True)
class ScoreReport:
    """One split: what the scorer's main function returns, and which traces it used.

    Attributes:
        joint: Sum of the traces' joint / number of files processed; 0 where none was.
        location: The same for location.
        weighted_f1: Support-weighted F1 over the labels.
        categories: label -> :class:`CategoryScore`, in taxonomy order, all labels.
        correlations: ``reliability``, ``security``, ``instruction_adherence``, ``plan_optimization``, ``overall`` ->
            :class:`Correlation`; a column that no trace has is absent.
        scored: Ids of the traces that were processed, sorted.
        missing: Ids of the traces without a prediction file, sorted.
        dropped: id -> the exception, as ``Class: message``, for every trace skipped on an error; the class is the same
            for both engines, the message may differ. An error in the score columns comes after the trace was added to
            the sums: it is here and not in ``scored``, and an average can exceed 1.
    """

    joint: float
    location: float
    weighted_f1: float
    categories: Mapping[str, CategoryScore]
    correlations: Mapping[str, Correlation]
    scored: tuple[str, ...]
    missing: tuple[str, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)


class Engine(Protocol):
    """A scorer: the pinned one or ours."""

    name: str
    taxonomy: tuple[str, ...]

    def score(self, gold: Mapping[str, bytes], replies: Mapping[str, bytes]) -> ScoreReport:
        """Score one split as the scorer's ``main`` does over two directories.

        Args:
            gold: trace id -> bytes of the gold file.
            replies: trace id -> bytes of the prediction file; an id of the gold that is absent here has no file.
        """

    def trace(self, gold: Any, prediction: Any, taxonomy: Sequence[str] | None = None) -> TraceScore:
        """Score one parsed trace against one parsed prediction, under another label order if given.

        Raises:
            Exception: whatever the scorer's per-trace function raises on these inputs, same type.
        """

    def trace_many(
        self, pairs: Sequence[tuple[Any, Any]], taxonomy: Sequence[str] | None = None
    ) -> list[TraceScore | None]:
        """:meth:`trace` over many (gold, prediction) pairs; ``None`` where it raises."""

    def normalise(self, texts: Sequence[Any], taxonomy: Sequence[str] | None = None) -> list[Any]:
        """The label (or the lowercased text) that each of ``texts`` is mapped to; see the normaliser."""

    def close(self) -> None:
        """Release the worker process, if there is one."""
