"""The site of the tests: the chapters as the chapter tests executed them, rendered by each renderer there is."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from traceaudit.card import Entry, write_card
from traceaudit.finishing import commit_of, finish
from traceaudit.linking import link_tables, link_values
from traceaudit.notebooks import fill_inline, set_title, strip_run, to_bytes
from traceaudit.pages import CARD

from ..chapters.running import INSTANCES, REAL, ROOT, run
from . import browser_support

COPIED = ("CITATION.cff", "chapters/style.css", "chapters/chapters.toml", "data-pins/records/digests.toml")


def write_pages(root: Path) -> None:
    """Page notebooks below ``root``, as the runner makes them."""
    source = str(REAL) if REAL.is_dir() else ""
    (root / "report").mkdir(parents=True)
    for each in INSTANCES:
        ran = run(each.id, "" if each.split == "demo" else source)
        notebook = copy.deepcopy(ran.notebook)
        notebook.cells = [cell for cell in notebook.cells if not cell.source.startswith("split = ")]
        fill_inline(notebook, ran.values, each.id)
        strip_run(notebook, "")
        set_title(notebook, each.title)
        link_values(notebook, ran.values)
        link_tables(notebook, each.page, each.id)
        (root / each.page).write_bytes(to_bytes(notebook))


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> Path:
    """A project of executed pages whose configuration is ours, less the scripts before and after."""
    root = tmp_path_factory.mktemp("project")
    write_pages(root)
    config = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))
    for key in ("pre-render", "post-render"):
        assert config["project"].pop(key).startswith("make ")
    (root / "_quarto.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    if CARD in config["project"]["render"]:
        write_card(root, [Entry(each) for each in INSTANCES], commit=commit_of(ROOT), rendered_by="a test")
    return root


def _render(project: Path, target: Path, command: list[str]) -> Path:
    shutil.copytree(project, target)
    done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    finish(target, target / "_site", instances=INSTANCES, commit=commit_of(ROOT))
    return target


@pytest.fixture(
    scope="session",
    params=["preview", pytest.param("quarto", marks=[pytest.mark.quarto, pytest.mark.timeout(900)])],
)
def site(request, project, tmp_path_factory) -> Path:
    """The project with its rendered and finished ``_site``, once per renderer."""
    target = tmp_path_factory.mktemp("site") / request.param
    if request.param == "preview":
        return _render(project, target, [str(Path(sys.executable).with_name("smalldocs")), "render"])
    quarto = shutil.which("quarto")
    if quarto is None:
        pytest.skip("quarto is not on this machine")
    return _render(project, target, [quarto, "render"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser; one per file, since as long as it is open no other event loop can run in this process."""
    if shutil.which(browser_support.CHROMIUM) is None:
        pytest.skip(browser_support.MISSING)
    with browser_support.browser() as started:
        yield started


@pytest.fixture(scope="module")
def base(site) -> Iterator[str]:
    """Address of the served site, without a slash at the end."""
    with browser_support.serve(site / "_site") as address:
        yield address
