"""Tests of trajectory corpora, and the 400 real runs for those that want them."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

import pytest

from ..conftest import REAL

PACKED = REAL / "trajectories" / "mini-swe-agent-400.tar.xz"


@cache
def _unpacked(folder: Path) -> Path:
    with tarfile.open(PACKED) as archive:
        archive.extractall(folder, filter="data")
    return next(path.parent for path in folder.rglob("trajs") if path.is_dir())


_FOLDERS: list[Path] = []


def real_400(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with ``trajs`` and ``logs`` of the 400 runs, unpacked once per process; skips without them."""
    if not PACKED.is_file():
        pytest.skip("the 400 real runs are not beside this repository (../shared/data/trajectories)")
    if not _FOLDERS:
        _FOLDERS.append(tmp_path_factory.mktemp("runs-400"))
    return _unpacked(_FOLDERS[0])
