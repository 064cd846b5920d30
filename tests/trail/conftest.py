"""What the tests of the TRAIL engines share: the labels, both engines, the real gold."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path

import pytest

from traceaudit.trail.independent import IndependentEngine
from traceaudit.trail.upstream import UpstreamEngine

FOLDERS = {"GAIA": "processed_annotations_gaia", "SWE Bench": "processed_annotations_swe_bench"}


@pytest.fixture(scope="session")
def labels(root: Path) -> tuple[str, ...]:
    """The taxonomy as committed."""
    return tuple(tomllib.loads((root / "data-pins/trail-taxonomy.toml").read_text("utf-8"))["labels"])


@pytest.fixture(scope="session")
def outcomes_path(root: Path) -> Path:
    """The committed table of hostile outcomes."""
    return root / "data-pins/trail-outcomes.json"


@pytest.fixture(scope="session")
def independent(labels: tuple[str, ...]) -> IndependentEngine:
    """Our engine."""
    return IndependentEngine(labels)


@pytest.fixture(scope="session")
def upstream(root: Path, scorer_bytes: bytes):
    """The pinned scorer's engine, one worker for the session."""
    pin = tomllib.loads((root / "data-pins/trail.toml").read_text("utf-8"))
    with UpstreamEngine(scorer_bytes, sha256=pin["sha256"][pin["scorer"]["path"]]) as engine:
        yield engine


@pytest.fixture(scope="session")
def real_gold(trail_source: Path) -> dict[str, dict[str, bytes]]:
    """Split -> trace -> bytes of the gold file."""
    return {
        split: {file.stem: file.read_bytes() for file in sorted((trail_source / "benchmarking" / folder).iterdir())}
        for split, folder in FOLDERS.items()
    }


@pytest.fixture(scope="session")
def real_spans(trail_source: Path) -> dict[str, dict[str, list[str]]]:
    """Split -> trace -> span ids."""
    return json.loads((trail_source / "spans.json").read_text("utf-8"))


@pytest.fixture
def engine_from(tmp_path: Path):
    """Makes an engine that runs a scorer of ours; closes it afterwards."""
    made: list[UpstreamEngine] = []

    def make(source: str, **limits: float) -> UpstreamEngine:
        data = source.encode("utf-8")
        made.append(UpstreamEngine(data, sha256=hashlib.sha256(data).hexdigest(), **limits))
        return made[-1]

    yield make
    for engine in made:
        engine.close()
