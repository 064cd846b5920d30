"""The upstream engine: the pinned scorer's own bytes, run in a worker process and answered in our types.

What the report says about the scorer rests on the scorer itself; so it runs unchanged, from verified bytes, apart from
us, within a limit of time and of memory.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ..errors import PinMismatch, UsageError, WorkerFailed
from .engine import CategoryScore, Correlation, ScoreReport, TraceScore
from .trace_ids import check_trace_ids
from .worker_process import WorkerProcess

__all__ = ["UpstreamEngine", "taxonomy_from_source"]

GIB = 1 << 30


def taxonomy_from_source(source: bytes) -> tuple[str, ...]:
    """The labels of the scorer, in order, read from its syntax tree without running it.

    Args:
        source: The scorer's bytes; its function ``main`` must assign exactly one list made of texts alone.

    Raises:
        PinMismatch: it is not Python, or has no such list, or several.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise PinMismatch("the scorer is not Python", got=str(error), next_step="restore the pinned file") from error
    mains = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"]
    values = [node.value for main in mains for node in ast.walk(main) if isinstance(node, ast.Assign)]
    lists = [labels for value in values if (labels := _texts(value))]
    if len(lists) != 1:
        raise PinMismatch(
            "the scorer's taxonomy was not found",
            expected="one list of texts assigned in its function main",
            got=f"{len(lists)} of them",
            next_step="restore the pinned file",
        )
    return lists[0]


def _texts(node: ast.expr) -> tuple[str, ...]:
    items = node.elts if isinstance(node, ast.List) else []
    texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return tuple(texts) if len(texts) == len(items) else ()


class UpstreamEngine:
    """See :class:`~traceaudit.trail.engine.Engine`. The worker starts with the first call.

    The one liberty taken: the worker lists directories in sorted order, where the scorer takes the file system's, so
    that sums of floats repeat to the last bit. Ids are replaced by numbers in file names, so a message never holds
    a path of this machine. The engine can be pickled and is safe after a fork: each process has a worker of its own.

    Args:
        scorer: The scorer's bytes.
        sha256: What they must hash to.
        time_limit: Seconds a call may take.
        memory_limit: Bytes of address space of the worker (where the system can bound it).

    Raises:
        PinMismatch: the bytes do not have that digest, or hold no taxonomy.
    """

    name = "upstream"

    def __init__(self, scorer: bytes, *, sha256: str, time_limit: float = 120.0, memory_limit: int = 4 * GIB) -> None:
        found = hashlib.sha256(scorer).hexdigest()
        if found != sha256:
            raise PinMismatch(
                "these are not the pinned scorer's bytes",
                expected=f"SHA-256 {sha256}",
                got=f"{found} ({len(scorer)} bytes)",
                next_step="restore the file, or look for who changed it",
            )
        self.taxonomy = taxonomy_from_source(scorer)
        self.sha256, self.time_limit, self.memory_limit = sha256, time_limit, memory_limit
        self._scorer = bytes(scorer)
        self._worker: WorkerProcess | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self._scorer, self.sha256, self.time_limit, self.memory_limit))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sha256={self.sha256[:12]}...)"

    def score(self, gold: Mapping[str, bytes], replies: Mapping[str, bytes]) -> ScoreReport:
        """Score one split; see :meth:`Engine.score <traceaudit.trail.engine.Engine.score>`.

        A trace whose score columns raise is in ``dropped`` although its joint, location and categories were added by
        then: it is in the numerators and not in the denominator, so that an average can exceed 1.

        Raises:
            UsageError: an id is not a plain file name.
            WorkerFailed: the worker died, or ran out of time or memory.
        """
        check_trace_ids(replies)
        ids = check_trace_ids(gold)
        numbers = {f"{place:06d}": trace for place, trace in enumerate(ids)}
        with tempfile.TemporaryDirectory(prefix="traceaudit-") as folder:
            for side, files in (("gold", gold), ("replies", replies)):
                Path(folder, side).mkdir()
                for number, trace in numbers.items():
                    if trace in files:
                        Path(folder, side, f"{number}.json").write_bytes(files[trace])
            found = self._call("score", folder)
        missing = {numbers[number] for number in found["missing"]}
        dropped = {numbers[number]: reason for number, reason in sorted(found["dropped"].items())}
        return ScoreReport(
            joint=found["joint"],
            location=found["location"],
            weighted_f1=found["weighted_f1"],
            categories={label: CategoryScore(*row) for label, row in found["categories"].items()},
            correlations={name: Correlation(*row) for name, row in found["correlations"].items()},
            scored=tuple(trace for trace in ids if trace not in missing and trace not in dropped),
            missing=tuple(trace for trace in ids if trace in missing),
            dropped=dropped,
        )

    def trace(self, gold: Any, prediction: Any, taxonomy: Sequence[str] | None = None) -> TraceScore:
        """Score one parsed trace; see :meth:`Engine.trace <traceaudit.trail.engine.Engine.trace>`.

        Raises:
            UsageError: a document cannot be written as JSON.
            Exception: what the scorer raises; same type, same message.
        """
        return _trace_score(self._call("trace", gold, prediction, self._order(taxonomy)))

    def trace_many(
        self, pairs: Sequence[tuple[Any, Any]], taxonomy: Sequence[str] | None = None
    ) -> list[TraceScore | None]:
        """:meth:`trace` over many (gold, prediction) pairs; ``None`` where it raises."""
        found = self._call("trace_many", [list(pair) for pair in pairs], self._order(taxonomy))
        return [None if row is None else _trace_score(row) for row in found]

    def normalise(self, texts: Sequence[Any], taxonomy: Sequence[str] | None = None) -> list[Any]:
        """The normaliser's answers, one for each of ``texts``."""
        return self._call("normalise", list(texts), self._order(taxonomy))

    def extract(self, text: str) -> Any:
        """The object that the scorer finds in a reply; raises what it raises."""
        return self._call("extract", text)

    def close(self) -> None:
        """Stop the worker; the next call starts a new one."""
        with self._lock:
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _order(self, taxonomy: Sequence[str] | None) -> list[str]:
        return list(self.taxonomy if taxonomy is None else taxonomy)

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            try:
                answer = self._ready().ask({"call": name, "arguments": arguments})
            except (TypeError, ValueError, RecursionError) as error:
                raise UsageError(
                    "the argument cannot be written as JSON",
                    where=name,
                    got=f"{type(error).__name__}: {error}",
                    next_step="pass what json.loads returns",
                ) from error
            except BaseException:  # also an interruption: an answer that nobody awaits must not meet the next call
                self._drop()
                raise
            if "result" in answer:
                return answer["result"]
            kind, args = answer["error"]["type"], answer["error"]["args"]
            raised = _exception(kind, args)
            if raised is None:
                self._drop()
                raise WorkerFailed(
                    "the scorer's worker could not answer",
                    where=name,
                    got=": ".join([kind, *map(str, args)]),
                    next_step=f"raise memory_limit ({self.memory_limit} bytes) if it ran out, or shrink the input",
                )
        raise raised

    def _ready(self) -> WorkerProcess:
        if self._worker is not None and self._worker.owner != os.getpid():
            self._worker.forget()
            self._worker = None
        if self._worker is None or not self._worker.alive:
            self._drop()
            self._worker = WorkerProcess(self._scorer, self.sha256, self.time_limit, self.memory_limit)
        return self._worker

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()


def _rebuild(scorer: bytes, sha256: str, time_limit: float, memory_limit: int) -> UpstreamEngine:
    return UpstreamEngine(scorer, sha256=sha256, time_limit=time_limit, memory_limit=memory_limit)


def _trace_score(row: list[Any]) -> TraceScore:
    return TraceScore(row[0], row[1], tuple(row[2]), tuple(row[3]))


def _exception(kind: str, args: list[Any]) -> Exception | None:
    """The scorer's exception, made again here; ``None`` for one that is the worker's own or unknown."""
    found = json.JSONDecodeError if kind == "JSONDecodeError" else getattr(builtins, kind, None)
    if not isinstance(found, type) or not issubclass(found, Exception) or issubclass(found, MemoryError):
        return None
    try:
        return found(*args)
    except TypeError:  # an exception that wants more than a message
        return ValueError(*args) if issubclass(found, ValueError) else None
