"""Where raw runs lie and where their corpus goes."""

from __future__ import annotations

import pytest


@pytest.fixture
def source(tmp_path):
    (tmp_path / "src").mkdir()
    return tmp_path / "src"


@pytest.fixture
def target(tmp_path):
    return tmp_path / "dst"
