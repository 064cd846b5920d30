"""The worker that runs the pinned scorer: it compiles the bytes it is handed, and nothing else.

It is started by path as a script of its own and imports the standard library only, so that no folder, no bytecode cache
and no version of this package on the path can come between the verified bytes and what runs.

Protocol: one JSON object per line on the standard streams it was started with. The first line hands over the scorer
and the limits; every later one names a call. The answer is ``{"result": ...}`` or ``{"error": {"type", "args"}}``.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import hashlib
import io
import json
import os
import signal
import sys
import types
from typing import Any, BinaryIO

GOLD, REPLIES = "gold", "replies"


class _Prints:
    """Stands in for ``print`` inside the scorer: keeps each text with the exception being handled at the time."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, BaseException | None]] = []

    def __call__(self, *parts: Any, **_: Any) -> None:
        handled = sys.exc_info()[1]
        text = " ".join(part if isinstance(part, str) else "" for part in parts)
        if handled is not None or REPLIES in text:
            self.kept.append((text, handled))


class Scorer:
    """The pinned scorer, executed once into a module of its own.

    Args:
        source: Its bytes.
        sha256: What they must hash to.

    Raises:
        ValueError: they do not.
    """

    def __init__(self, source: bytes, sha256: str) -> None:
        if hashlib.sha256(source).hexdigest() != sha256:
            raise ValueError("the scorer's bytes changed on their way to the worker")
        self.module = types.ModuleType("pinned_scorer")
        self.prints = _Prints()
        exec(compile(source, "<pinned scorer>", "exec", dont_inherit=True), self.module.__dict__)
        self.module.__dict__["print"] = self.prints
        # The order of a directory is the file system's own; sorted is one of the orders it may have, and repeats.
        ordered = types.SimpleNamespace(glob=lambda pattern: sorted(glob.glob(pattern)))  # noqa: PTH207
        self.module.__dict__["glob"] = ordered

    def score(self, folder: str) -> dict[str, Any]:
        """Run ``main`` over ``folder/gold`` and ``folder/replies``; a file is named by its id's place in the order."""
        self.prints.kept.clear()
        os.chdir(folder)
        try:
            found = self.module.main(GOLD, REPLIES)
        finally:
            os.chdir(os.sep)
        missing, dropped = [], {}
        for text, handled in self.prints.kept:
            number = _number(text)
            if handled is None and number is not None:
                missing.append(number)
            elif isinstance(handled, MemoryError):
                raise handled  # the limit of this process, not a property of the trace
            elif number is not None:
                dropped[number] = f"{type(handled).__name__}: {handled}"
        self.prints.kept.clear()
        return {
            "joint": float(found["joint_accuracy"]),
            "location": float(found["location_accuracy"]),
            "weighted_f1": float(found["weighted_f1"]),
            "categories": {
                label: [float(row["precision"]), float(row["recall"]), float(row["f1"]), int(row["support"])]
                for label, row in found["category_metrics"].items()
            },
            "correlations": {
                name: [float(row["correlation"]), float(row["p_value"]), int(row["n"])]
                for name, row in found["score_correlations"].items()
            },
            "missing": missing,
            "dropped": dropped,
        }

    def trace(self, gold: Any, prediction: Any, taxonomy: list[str]) -> list[Any]:
        """Run the per-trace function on one pair."""
        found = self.module.calculate_metrics(gold, prediction, taxonomy)
        return [
            float(found["joint_accuracy"]),
            float(found["location_accuracy"]),
            found["gt_categories"],
            found["gen_categories"],
        ]

    def trace_many(self, pairs: list[list[Any]], taxonomy: list[str]) -> list[list[Any] | None]:
        """The same on many pairs; null where it raises."""
        answers: list[list[Any] | None] = []
        for gold, prediction in pairs:
            try:
                answers.append(self.trace(gold, prediction, taxonomy))
            except MemoryError:
                raise
            except Exception:  # the caller asked for null wherever the scorer would skip
                answers.append(None)
        return answers

    def normalise(self, texts: list[Any], taxonomy: list[str]) -> list[Any]:
        """Run the normaliser on each text."""
        return [self.module.normalize_category(text, taxonomy) for text in texts]

    def extract(self, text: str) -> Any:
        """Run the extraction on one reply."""
        return self.module.extract_json_from_text(text)


def _number(text: str) -> str | None:
    """The number of the file that a printed line names, if it names one."""
    for folder in (GOLD, REPLIES):
        _, found, rest = text.partition(f"{folder}/")
        number, suffix, _ = rest.partition(".json")
        if found and suffix and number.isdigit():
            return number
    return None


def _limit_memory(limit: int) -> None:
    """Bound the address space where the system can; elsewhere the time limit alone holds."""
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    except (ImportError, ValueError, OSError):
        return


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    """The protocol's two streams, moved away from the numbers that the scorer could read or print to."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return requests, answers


def _answer(scorer: Scorer, request: dict[str, Any]) -> dict[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            return {"result": getattr(scorer, request["call"])(*request["arguments"])}
        except Exception as error:  # every exception of the scorer is an answer
            plain = all(isinstance(part, (str, int, type(None))) for part in error.args)
            return {"error": {"type": type(error).__name__, "args": list(error.args) if plain else [str(error)]}}


def _send(answers: BinaryIO, answer: dict[str, Any]) -> None:
    try:
        line = json.dumps(answer)
    except (TypeError, ValueError, RecursionError) as error:
        line = json.dumps({"error": {"type": "UnsendableAnswer", "args": [f"{type(error).__name__}: {error}"]}})
    answers.write(line.encode("ascii") + b"\n")
    answers.flush()


def serve() -> None:
    """Answer requests until the other end closes."""
    requests, answers = _private_streams()
    hello = json.loads(requests.readline())
    _limit_memory(hello["memory_limit"])
    _alarm(hello["start_limit"])
    try:
        scorer = Scorer(base64.b64decode(hello["scorer"]), hello["sha256"])
    except Exception as error:  # a scorer that cannot start is reported
        _send(answers, {"error": {"type": type(error).__name__, "args": [str(error)]}})
        return
    _send(answers, {"result": "ready"})
    _alarm(0)
    for line in requests:
        _alarm(hello["time_limit"])
        _send(answers, _answer(scorer, json.loads(line)))
        _alarm(0)


def _alarm(seconds: float) -> None:
    """Let the system end this process somewhat after the limit, in case nobody is left to do it."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds + 5 if seconds else 0)


if __name__ == "__main__":
    serve()
