"""Both engines as calls that read two folders and score them, so that all sides are timed on the same work."""

from __future__ import annotations

import contextlib
import io
import types
import warnings
from collections.abc import Callable
from pathlib import Path

from traceaudit.trail import pin
from traceaudit.trail.independent import IndependentEngine

Call = Callable[[], object]


def read(folder: Path) -> dict[str, bytes]:
    """File stem -> bytes."""
    return {file.stem: file.read_bytes() for file in folder.iterdir()}


def independent(files: Path) -> Call:
    """Our engine."""
    engine = IndependentEngine(pin.taxonomy())
    return lambda: engine.score(read(files / "gold"), read(files / "replies"))


def upstream(files: Path, scorer: bytes) -> Call:
    """The pinned scorer's own main, in this process: nothing of a worker's cost is counted."""
    module = types.ModuleType("pinned_scorer")
    exec(compile(scorer, "<pinned scorer>", "exec"), module.__dict__)

    def run() -> object:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return module.main(str(files / "gold"), str(files / "replies"))

    return run
