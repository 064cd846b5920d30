"""What the runner adds to a chapter, and what building again costs when nothing has changed; demo pages alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from traceaudit.execute import execute, make_font_cache
from traceaudit.instances import load_chapters

from ..kernels import LocalKernel

PARAMETERS = {"split": "demo", "source": "", "engine": "auto"}
CHAPTER = "trail-headline"


@pytest.mark.timeout(1800)
def test_rebuild(root: Path, tmp_path: Path, compare):
    """The command, from nothing (no page, no record of a run, no font cache) and again with nothing changed."""
    project = tmp_path / "project"
    for name in ("chapters", "data-pins"):
        shutil.copytree(root / name, project / name)
    for name in ("requirements.lock", "_quarto.yml"):
        shutil.copy(root / name, project / name)
    pages = [each for each in load_chapters(root / "chapters" / "chapters.toml") if each.split == "demo"]

    def build() -> None:
        command = [sys.executable, "-m", "traceaudit", "build", "--only", *(each.id for each in pages)]
        subprocess.run(command, cwd=project, check=True, capture_output=True)

    def forget() -> None:
        for name in (".traceaudit", "report"):
            shutil.rmtree(project / name)

    build()
    compares = "building the demo pages from nothing, against building them again with nothing changed"
    compare(build, build, compares=compares, size=len(pages), unit="pages", rounds=3, warm_up=0, between=forget)
    assert all((project / each.page).is_file() for each in pages)


@pytest.mark.timeout(900)
def test_runner(root: Path, tmp_path: Path, compare):
    """One chapter through the runner (a worker process, papermill, all checks) and through nbclient alone."""
    source = root / "chapters" / f"{CHAPTER}.ipynb"
    notebook = nbformat.read(source, as_version=4)
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "fonts")}
    make_font_cache(tmp_path / "fonts")
    (at,) = [i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])]
    notebook.cells[at].source = "\n".join(f"{name} = {value!r}" for name, value in PARAMETERS.items())

    def ours() -> None:
        workdir = tmp_path / "work"
        execute(source, PARAMETERS, workdir=workdir, env={"MPLCONFIGDIR": environment["MPLCONFIGDIR"]})
        shutil.rmtree(workdir)

    def bare() -> None:
        client = NotebookClient(
            nbformat.from_dict(notebook),
            timeout=300,
            kernel_name="python3",
            kernel_manager_class=LocalKernel,
            resources={"metadata": {"path": str(tmp_path)}},
        )
        client.execute(env=environment)

    compares = "one chapter through the runner, against the same notebook through nbclient alone"
    compare(ours, bare, compares=compares, size=len(notebook.cells), unit="cells", rounds=7)
