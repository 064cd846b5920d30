"""Run a source chapter with nbclient alone, as a test and nobody else would: no papermill, no runner."""

from __future__ import annotations

import functools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from traceaudit.claims import Finding
from traceaudit.instances import Instance, load_chapters
from traceaudit.notebooks import check_ran, collect
from traceaudit.records import Record
from traceaudit.values import Value

from ..kernels import LocalKernel

ROOT = Path(__file__).resolve().parents[2]
INSTANCES = load_chapters(ROOT / "chapters" / "chapters.toml")
REAL = ROOT.parent / "shared" / "data" / "trail"
JUDGES = ROOT.parent / "shared" / "data" / "judges" / "outputs.tar.xz"


@dataclass(frozen=True)
class Ran:
    """An executed chapter: the notebook and what it recorded."""

    instance: Instance
    notebook: Any
    values: dict[str, Value]
    findings: dict[str, Finding]
    provenance: dict[str, Any]

    @property
    def record(self) -> Record:
        return Record(
            self.instance.chapter,
            self.instance.split,
            provenance=self.provenance,
            values=self.values,
            findings=self.findings,
        )

    @property
    def modes(self) -> set[str]:
        return {item.mode for item in (*self.values.values(), *self.findings.values())}


@functools.cache
def run(id: str, source: str = "") -> Ran:
    """Execute one chapter on one split, once per session; ``source`` may be empty (then nothing real is measured).

    With a source, a chapter that declares ``judges`` is given their replies where they lie beside the repository.
    """
    (instance,) = [each for each in INSTANCES if each.id == id]
    notebook = nbformat.read(instance.source(ROOT), as_version=4)
    (at,) = [i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])]
    parameters = {"split": instance.split, "source": source, "engine": "auto"}
    if "judges =" in notebook.cells[at].source:
        parameters["judges"] = str(JUDGES) if source and JUDGES.is_file() else ""
    given = nbformat.v4.new_code_cell("\n".join(f"{name} = {value!r}" for name, value in parameters.items()))
    notebook.cells.insert(at + 1, given)
    environment = {**os.environ, "TRACEAUDIT_SOURCE": "", "TRACEAUDIT_JUDGES": ""}
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(
            notebook,
            timeout=120,
            iopub_timeout=60,
            raise_on_iopub_timeout=True,
            kernel_name="python3",
            kernel_manager_class=LocalKernel,
            resources=resources,
        )
        client.execute(env=environment)
    check_ran(notebook, id)
    return Ran(instance, notebook, *collect(notebook, id))
