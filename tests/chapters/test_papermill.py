"""The documented command: papermill alone runs a chapter, on the real gold and on the demo, from any folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from traceaudit import records, show
from traceaudit.notebooks import check_ran, collect, inline_spans, tags
from traceaudit.records import Record

from .running import ROOT

PAPERMILL = Path(sys.executable).with_name("papermill")


def run(folder: Path, *arguments: str, code: int = 0) -> tuple[nbformat.NotebookNode | None, str]:
    """Call papermill's console script in a folder, with no source in the environment; its output and what it said."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRACEAUDIT_SOURCE")}
    command = [str(PAPERMILL), str(ROOT / "chapters" / "trail-headline.ipynb"), "out.ipynb", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, done.stderr
    out = folder / "out.ipynb"
    return (nbformat.read(out, as_version=4) if out.is_file() else None), done.stderr


def whole(notebook: nbformat.NotebookNode, split: str) -> Record:
    """What the notebook recorded, once everything that papermill does not check is checked."""
    check_ran(notebook, "trail-headline")
    values, findings, provenance = collect(notebook, "trail-headline")
    return Record("trail-headline", split, provenance=provenance, values=values, findings=findings)


def text_of(notebook: nbformat.NotebookNode) -> str:
    return "\n".join(
        str(output.get("data", {}).get("text/markdown", ""))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )


def stored(split: str) -> Record:
    return records.load(records.path_of("trail-headline", split, ROOT))


def test_the_command_is_the_documented_one():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    documented = "papermill chapters/trail-headline.ipynb out.ipynb -p split swe-bench -p source DIR"
    assert documented in readme
    assert PAPERMILL.is_file()


@pytest.mark.real
@pytest.mark.parametrize("relative", [True, False])
def test_it_measures_the_real_gold(relative, trail_source, tmp_path):
    source = os.path.relpath(trail_source, tmp_path) if relative else str(trail_source)
    notebook, _ = run(tmp_path, "-p", "split", "swe-bench", "-p", "source", source)
    record = whole(notebook, "swe-bench")
    modes = {item.measure: item.mode for item in (*record.values.values(), *record.findings.values())}
    assert {name for name, mode in modes.items() if mode != "measured"} == {"citations_held"} & modes.keys()
    assert modes["headline"] == "measured"
    assert records.compare(stored("swe-bench"), record).differences == ()
    assert record.provenance["gold_files"] == {"swe-bench": 31}
    assert "Measured here" in text_of(notebook)
    told = [cell for cell in notebook.cells if "injected-parameters" in tags(cell)]
    assert len(told) == 1 and f'source = "{source}"' in told[0].source
    assert source not in json.dumps([cell.get("outputs", []) for cell in notebook.cells])  # parameters alone name it


def test_without_a_parameter_it_is_the_demo(tmp_path):
    notebook, _ = run(tmp_path)
    record = whole(notebook, "demo")
    assert {item.mode for item in (*record.values.values(), *record.findings.values())} == {"measured"}
    assert records.compare(stored("demo"), record).differences == ()
    assert "Nothing on this page is about TRAIL" in text_of(notebook)
    named = [
        name for cell in notebook.cells if cell.cell_type == "markdown" for *_, name, _ in inline_spans(cell.source)
    ]
    assert named and set(named) <= record.values.keys()  # prose keeps the names; filling them in is the runner's work
    assert show.inline(record.values["joint_gold_exact"]) in text_of(notebook)


def test_a_source_that_is_not_there_fails_and_says_so(tmp_path):
    _, said = run(tmp_path, "-p", "split", "gaia", "-p", "source", "no/such/place", code=1)
    assert "NothingToCheck" in said and "there is no such folder" in said


def test_an_unknown_split_fails_and_says_so(tmp_path):
    _, said = run(tmp_path, "-p", "split", "GAIA", code=1)
    assert "unknown split" in said and "gaia, swe-bench, demo, all" in said
