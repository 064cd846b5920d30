"""The site of the tests: the chapters as the chapter tests executed them, rendered by each renderer there is."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from traceaudit.notebooks import fill_inline, set_title, strip_run, to_bytes

from ..chapters.running import INSTANCES, REAL, ROOT, run


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
    (root / "chapters").mkdir()
    shutil.copy(ROOT / "chapters" / "style.css", root / "chapters" / "style.css")
    return root


def _render(project: Path, target: Path, command: list[str]) -> Path:
    shutil.copytree(project, target)
    done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="session", params=["preview", pytest.param("quarto", marks=pytest.mark.quarto)])
def site(request, project, tmp_path_factory) -> Path:
    """The project with its rendered ``_site``, once per renderer."""
    target = tmp_path_factory.mktemp("site") / request.param
    if request.param == "preview":
        return _render(project, target, [str(Path(sys.executable).with_name("smalldocs")), "render"])
    quarto = shutil.which("quarto")
    if quarto is None:
        pytest.skip("quarto is not on this machine")
    return _render(project, target, [quarto, "render"])
