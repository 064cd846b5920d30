"""What scoring costs on all real gold with every label at every distinct span, as ratios.

    TRACEAUDIT_SCORER_SOURCE=<source> make bench

All sides read their files from the same folders within the time that is taken, which is the processor's: it counts
neither what other processes do nor waiting for them.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import orjson
import pytest

from traceaudit.trail import documents, pin
from traceaudit.trail.independent import IndependentEngine

from .scorers import independent, read, upstream

CLOCK = time.process_time
FASTER_THAN_UPSTREAM, SLOWER_THAN_ORJSON = 6.0, 2.5
FOLDERS = ("processed_annotations_gaia", "processed_annotations_swe_bench")


@pytest.fixture(scope="module")
def files(tmp_path_factory, trail_source: Path) -> Path:
    """Two folders of 148 files: gold and replies."""
    folder, labels = tmp_path_factory.mktemp("bench"), pin.taxonomy()
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


@pytest.fixture(scope="module")
def predictions(files: Path) -> int:
    return sum(len(json.loads(data)["errors"]) for data in read(files / "replies").values())


@pytest.mark.real
def test_against_orjson(files, predictions, compare):
    """Scoring costs at most a small multiple of the fastest parse of the replies alone."""
    ratio = compare(
        independent(files),
        lambda: [orjson.loads(data) is None for data in read(files / "replies").values()],
        compares="scoring all gold with the independent engine, against parsing the replies alone with orjson",
        size=predictions,
        unit="predicted errors",
    )
    assert ratio <= SLOWER_THAN_ORJSON


@pytest.mark.real
def test_loading(files, compare):
    """What reading costs us over the fastest parser, which takes no care of what the pinned scorer would accept."""

    def ours() -> None:
        for side, load in (("gold", documents.load_gold), ("replies", documents.load_reply)):
            for data in read(files / side).values():
                with contextlib.suppress(ValueError):
                    load(data)

    def fastest() -> None:
        for side in ("gold", "replies"):
            for data in read(files / side).values():
                with contextlib.suppress(ValueError):
                    orjson.loads(data)

    n = sum(len(read(files / side)) for side in ("gold", "replies"))
    compares = "loading gold and replies as the scorer would read them, against parsing the same files with orjson"
    compare(ours, fastest, compares=compares, size=n, unit="files")


@pytest.mark.upstream
def test_against_upstream(files, predictions, scorer_bytes, compare):
    """The pinned scorer's own main, in this process and on these folders: nothing of the worker's cost is counted."""
    ratio = compare(
        upstream(files, scorer_bytes),
        independent(files),
        compares="scoring all gold with the pinned scorer, against the independent engine",
        size=predictions,
        unit="predicted errors",
    )
    assert ratio >= FASTER_THAN_UPSTREAM


@pytest.mark.real
def test_rescan(files, compare):
    """Scoring the gold against itself from files, against a rescan of the parsed gold under another label order."""
    engine = IndependentEngine(pin.taxonomy())
    parsed = []
    for data in read(files / "gold").values():
        with contextlib.suppress(ValueError):
            parsed.append(json.loads(data))
    pairs = [(document, document) for document in parsed]
    orders = [engine.taxonomy[at:] + engine.taxonomy[:at] for at in range(1, len(engine.taxonomy))]

    def whole() -> None:
        for _ in orders:
            engine.score(read(files / "gold"), read(files / "gold"))

    def again() -> None:
        for order in orders:
            engine.trace_many(pairs, order)

    compares = "scoring the gold against itself from its files, against scoring it parsed under another label order"
    compare(whole, again, compares=compares, size=len(pairs), unit="traces")
