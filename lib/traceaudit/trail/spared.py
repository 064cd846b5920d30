"""The upstream engine for replies of any length: spared the text whose extraction would take it quadratic time.

The pinned scorer looks for the object in a reply by cutting one character after another from its end, which takes hours
on a long malformed reply. Our extraction says in one pass where that search ends; so the scorer is handed the object's
own text, and is not asked for a reply in which it would find nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ..errors import TraceAuditError
from .engine import Engine, ScoreReport, TraceScore
from .extraction import extract, reply_text

__all__ = ["SMALL", "SparedEngine", "alone", "spare"]

SMALL = 2048  # bytes; a reply of up to this many is handed on as it is (about 0.05 s at worst)
ROOM = 200  # calls; more than the worker's stack and ours can differ by
T = TypeVar("T")


def spare(reply: bytes) -> bytes | None:
    """A reply on which the pinned scorer gives what it gives on ``reply``, in linear time.

    With s from the first ``{`` to the last ``}``, :func:`~traceaudit.trail.extraction.extract` ends in one of three
    ways, and its docstring says why the scorer ends in the same one:

    * It finds an object, which is a prefix of s of e characters. On the whole reply the scorer ends with this object.
      On these e characters alone it parses them at its first attempt: the same object. (``{}`` too: at the first
      attempt two characters are enough.) Should they nest too deeply for it, both raise ``RecursionError``, since
      each begins with the same brackets.
    * It finds none (``ValueError``): the scorer raises a ``ValueError`` as well, and no shorter text stands for that.
    * It nests too deeply: the scorer raises ``RecursionError`` at its first attempt, so the reply can stay as it is.

    Bytes that are not UTF-8 raise before anything is searched, so they stay as well.

    Args:
        reply: Any bytes; up to :data:`SMALL` of them are returned as they are.

    Returns:
        ``None`` where the scorer would find no object.
    """
    if len(reply) <= SMALL:
        return reply
    try:
        text = reply_text(reply)
        extract(text)
    except (UnicodeDecodeError, RecursionError):
        return reply
    except ValueError:
        return None
    first = text.index("{")
    end = json.JSONDecoder().raw_decode(text, first)[1]
    return text[first:end].encode("utf-8")


class SparedEngine:
    """An engine (see :class:`~traceaudit.trail.engine.Engine`) that answers like ``inner``, in time.

    Attributes:
        left_out: Ids of the traces of the last :meth:`score` that ``inner`` was not asked for, because it would have
            found no object; they are ``dropped`` in the report, as by ``inner``.
    """

    def __init__(self, inner: Engine) -> None:
        self._inner = inner
        self.name, self.taxonomy = inner.name, inner.taxonomy
        self.left_out: frozenset[str] = frozenset()

    def score(self, gold: Mapping[str, bytes], replies: Mapping[str, bytes]) -> ScoreReport:
        """Score one split; the report is the one that ``inner`` gives on the replies as they are."""
        handed = {trace: spare(reply) for trace, reply in replies.items() if trace in gold}
        self.left_out = frozenset(trace for trace, reply in handed.items() if reply is None)
        report = self._inner.score(gold, {trace: reply for trace, reply in handed.items() if reply is not None})
        without = dict.fromkeys(self.left_out, "ValueError: no object in the reply (found without the engine)")
        return dataclasses.replace(
            report,
            missing=tuple(trace for trace in report.missing if trace not in self.left_out),
            dropped=dict(sorted((dict(report.dropped) | without).items())),
        )

    def trace(self, gold: Any, prediction: Any, taxonomy: Sequence[str] | None = None) -> TraceScore:
        """As ``inner``."""
        return self._inner.trace(gold, prediction, taxonomy)

    def trace_many(
        self, pairs: Sequence[tuple[Any, Any]], taxonomy: Sequence[str] | None = None
    ) -> list[TraceScore | None]:
        """As ``inner``."""
        return self._inner.trace_many(pairs, taxonomy)

    def normalise(self, texts: Sequence[Any], taxonomy: Sequence[str] | None = None) -> list[Any]:
        """As ``inner``."""
        return self._inner.normalise(texts, taxonomy)

    def close(self) -> None:
        """As ``inner``."""
        self._inner.close()


def alone(work: Callable[[], T], *, room: bool) -> T:
    """Run ``work`` on an empty stack and wait for it, so that how deep a reply may nest does not depend on the caller.

    Args:
        work: What to run.
        room: Allow it more depth than the scorer's worker has: whatever that can read, ``work`` can then read too.

    Raises:
        TraceAuditError: a reply nests so deeply that it could not be read a second time.
        Exception: what ``work`` raises.
    """
    done: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    with _deeper() if room else contextlib.nullcontext():
        thread.start()
        thread.join()
    if raised and isinstance(raised[0], RecursionError):
        raise TraceAuditError(
            "a reply nests more deeply than it can be read here",
            got=str(raised[0]),
            next_step="remove the reply that nests hundreds of levels deep",
        ) from None
    if raised:
        raise raised[0]
    return done[0]


@contextlib.contextmanager
def _deeper() -> Iterator[None]:
    former = sys.getrecursionlimit()
    sys.setrecursionlimit(former + ROOM)
    try:
        yield
    finally:
        sys.setrecursionlimit(former)
