"""How fast the engines score every distinct span with every label on all real gold: measured in one run, as ratios.

    TRACEAUDIT_SCORER_SOURCE=<source> python -m pytest tests/bench/bench_engines.py -s

All sides read their files from the same folder within the time that is taken; rounds alternate, the best one counts.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import subprocess
import time
import tomllib
import types
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from traceaudit.trail.independent import IndependentEngine

ROUNDS = 7
FASTER_THAN_UPSTREAM, SLOWER_THAN_ORJSON = 6.0, 2.5
FOLDERS = ("processed_annotations_gaia", "processed_annotations_swe_bench")


@pytest.fixture(scope="module")
def files(tmp_path_factory, root: Path, trail_source: Path) -> Path:
    """Two folders of 148 files: gold and replies."""
    labels = _labels(root)
    folder = tmp_path_factory.mktemp("bench")
    for side in ("gold", "replies"):
        (folder / side).mkdir()
    for name in FOLDERS:
        for file in (trail_source / "benchmarking" / name).iterdir():
            (folder / "gold" / file.name).write_bytes(file.read_bytes())
    spans = json.loads((trail_source / "spans.json").read_text("utf-8"))
    for split in spans.values():
        for trace, ids in split.items():
            errors = [{"category": label, "location": at} for at in dict.fromkeys(ids) for label in labels]
            (folder / "replies" / f"{trace}.json").write_text(json.dumps({"errors": errors}))
    assert len(list((folder / "gold").iterdir())) == len(list((folder / "replies").iterdir())) == 148
    return folder


@pytest.mark.real
def test_against_orjson(files, root):
    """Scoring costs at most a small multiple of the fastest parse of the replies alone."""
    times = best({"independent": _independent(files, root), "orjson": _orjson(files)})
    ratio = times["independent"] / times["orjson"]
    print(f"\nindependent {times['independent'] * 1e3:.1f} ms, orjson {times['orjson'] * 1e3:.1f} ms: {ratio:.2f}x")
    assert ratio <= SLOWER_THAN_ORJSON


@pytest.mark.upstream
def test_against_upstream(files, root, scorer_source):
    """The pinned scorer's own main, in this process and on these folders: nothing of the worker's cost is counted."""
    times = best({"upstream": _upstream(files, root, scorer_source), "independent": _independent(files, root)})
    ratio = times["upstream"] / times["independent"]
    print(f"\nupstream {times['upstream'] * 1e3:.1f} ms, independent {times['independent'] * 1e3:.1f} ms: {ratio:.2f}x")
    assert ratio >= FASTER_THAN_UPSTREAM


@pytest.mark.real
def test_rescans(files, root):
    """A rescan of the gold against itself under another label order, per order."""
    engine = IndependentEngine(_labels(root))
    parsed = [_parsed(data) for data in _read(files / "gold").values()]
    pairs = [(document, document) for document in parsed if document is not None]
    orders = [engine.taxonomy[at:] + engine.taxonomy[:at] for at in range(len(engine.taxonomy))]
    start = time.perf_counter()
    for order in orders:
        engine.trace_many(pairs, order)
    print(f"\nrescan of {len(pairs)} traces: {(time.perf_counter() - start) / len(orders) * 1e3:.2f} ms an order")


def best(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each run's best round; rounds alternate so that a busy machine slows all alike."""
    times = dict.fromkeys(runs, float("inf"))
    for run in runs.values():
        run()
    for _ in range(ROUNDS):
        for name, run in runs.items():
            gc.collect()
            start = time.perf_counter()
            run()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def _independent(files: Path, root: Path) -> Callable[[], object]:
    engine = IndependentEngine(_labels(root))
    return lambda: engine.score(_read(files / "gold"), _read(files / "replies"))


def _orjson(files: Path) -> Callable[[], object]:
    return lambda: [orjson.loads(data) is None for data in _read(files / "replies").values()]


def _upstream(files: Path, root: Path, source: str) -> Callable[[], object]:
    pin = tomllib.loads((root / "data-pins/trail.toml").read_text("utf-8"))
    file = Path(source, pin["scorer"]["path"])
    name = f"{pin['commit']}:{pin['scorer']['path']}"
    show = ["git", "-C", source, "show", name]
    data = file.read_bytes() if file.is_file() else subprocess.run(show, check=True, capture_output=True).stdout
    scorer = types.ModuleType("pinned_scorer")
    exec(compile(data, "<pinned scorer>", "exec"), scorer.__dict__)

    def run() -> object:
        with contextlib.redirect_stdout(io.StringIO()):
            return scorer.main(str(files / "gold"), str(files / "replies"))

    return run


def _read(folder: Path) -> dict[str, bytes]:
    return {file.stem: file.read_bytes() for file in folder.iterdir()}


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _labels(root: Path) -> tuple[str, ...]:
    return tuple(tomllib.loads((root / "data-pins/trail-taxonomy.toml").read_text("utf-8"))["labels"])
