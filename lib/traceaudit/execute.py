"""Execute one chapter: start its worker process, watch the clock, and check what comes back.

What papermill lets pass (a mistyped parameter, a cell that never ran, a warning, a wrong interpreter) is an error
here, and the executed copy holds nothing of the machine or the moment, so that equal inputs give equal bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import nbformat
from nbformat import NotebookNode

from .claims import Finding
from .errors import ChapterFailed, WorkerFailed
from .linking import link_tables, link_values
from .notebooks import (
    check_parameters,
    check_ran,
    collect,
    fill_inline,
    first_lines,
    read_source,
    set_title,
    strip_run,
    to_bytes,
)
from .records import Record
from .values import Value
from .worker import stop_descendants

__all__ = ["Executed", "Execution", "Worker", "execute", "make_font_cache"]

GRACE = 15.0  # the worker enforces the limits itself; this long after the total one it is killed
SOCKET_PATH = 80  # longest directory that leaves room for a socket's name (the system's limit is 104 to 108 bytes)


@dataclass(frozen=True)
class Executed:
    """An executed chapter: the copy to show, and what it recorded.

    ``seconds`` and ``peak_bytes`` (the most memory its largest process held; None where unknown) are for progress
    lines and the reproduction card only; they are in no record.
    """

    chapter: str
    parameters: Mapping[str, Any]
    notebook: NotebookNode
    values: Mapping[str, Value]
    findings: Mapping[str, Finding]
    provenance: Mapping[str, Any]
    seconds: float = field(default=0.0, compare=False)
    peak_bytes: int | None = field(default=None, compare=False)

    @property
    def page(self) -> bytes:
        """The bytes of the executed copy."""
        return to_bytes(self.notebook)

    def record(self, chapter: str, split: str) -> Record:
        """What is recorded of it, under the name of a chapter instance."""
        return Record(chapter, split, provenance=self.provenance, values=self.values, findings=self.findings)


def make_font_cache(directory: Path) -> None:
    """Build matplotlib's font cache beforehand, so that no chapter prints that it is being built.

    Raises:
        WorkerFailed: matplotlib cannot be imported.
    """
    if any(directory.glob("fontlist-*.json")):
        return
    directory.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        [sys.executable, "-c", "import matplotlib.font_manager"],
        env={**os.environ, "MPLCONFIGDIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if made.returncode:
        raise WorkerFailed("the font cache cannot be made", where="matplotlib", got=made.stderr.strip()[-300:])


class Worker:
    """A worker process; it runs one chapter at a time and may run another when that one has ended well."""

    def __init__(self) -> None:
        self.last_words = ""  # exit code and the end of what it wrote, once it has been killed
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "traceaudit.worker"],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            cwd=tempfile.gettempdir(),
        )
        self._requests = cast(IO[bytes], self._process.stdin)  # it is a pipe

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, request: Mapping[str, Any]) -> None:
        """Hand over one request; standard input stays open, since its closing tells the worker that we are gone."""
        try:
            self._requests.write(json.dumps(request).encode("utf-8") + b"\n")
            self._requests.flush()
        except BrokenPipeError:
            return  # it is dead, which whoever waits for the report will find

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process and its kernel, whatever they are doing."""
        if self._log.closed:
            return
        if self.alive():
            stop_descendants(self.pid)
            self._process.kill()
        code = self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._log.seek(0)
        said = self._log.read().decode("utf-8", "replace").strip()[-300:]
        self.last_words = f"exit code {code}" + (f"; {said}" if said else "")
        self._log.close()


class Execution:
    """One chapter being executed in a worker process.

    Args:
        source: The source notebook.
        parameters: By name; each must be assigned in the cell tagged ``parameters``.
        workdir: A directory for this execution alone; the kernel's current directory is made below it.
        timeout: Seconds for the whole chapter.
        cell_timeout: Seconds for one cell, by default those of the whole chapter.
        env: Variables to add to (or, with None, to take from) the environment of the kernel.
        label: How messages name the chapter, by default the file's stem.
        title: The page's title, by default the chapter's own first heading.
        page: The page it becomes and the id of its files there; links to values and files are added for it.
        python: Interpreter of the kernel, by default this one.
        worker: An idle worker to use, by default a new one.

    Raises:
        UsageError: the file is absent or a parameter unknown.
        ChapterFailed: it is no notebook or has no parameters cell.
    """

    def __init__(
        self,
        source: Path,
        parameters: Mapping[str, Any],
        *,
        workdir: Path,
        timeout: float = 300.0,
        cell_timeout: float | None = None,
        env: Mapping[str, str | None] | None = None,
        label: str | None = None,
        title: str | None = None,
        page: tuple[str, str] | None = None,
        python: str = sys.executable,
        worker: Worker | None = None,
    ) -> None:
        self.label, self.title, self.page = label or source.stem, title, page
        self.parameters, self.timeout, self.python = dict(parameters), timeout, python
        self._source = read_source(source)
        check_parameters(self._source, parameters, self.label)
        self._workdir = workdir.resolve()
        for name in ("cwd", "ipython", "runtime"):
            (self._workdir / name).mkdir(parents=True, exist_ok=True)
        self._runtime = self._workdir / "runtime"
        if len(os.fsencode(self._runtime)) > SOCKET_PATH:
            self._runtime = Path(tempfile.mkdtemp(prefix="ta-", dir="/tmp"))
        (self._workdir / "source.ipynb").write_bytes(to_bytes(self._source))
        self._report, self._output = self._workdir / "report.json", self._workdir / "output.ipynb"
        chosen = self._environment() | dict(env or {})
        request = {
            "notebook": str(self._workdir / "source.ipynb"),
            "parameters": self.parameters,
            "output": str(self._output),
            "report": str(self._report),
            "cwd": str(self._workdir / "cwd"),
            "env": {name: value for name, value in chosen.items() if value is not None},
            "unset": [name for name, value in chosen.items() if value is None],
            "runtime": str(self._runtime),
            "python": python,
            "timeout": timeout,
            "cell_timeout": timeout if cell_timeout is None else cell_timeout,
        }
        self.started = time.monotonic()
        self.worker = worker or Worker()
        self.worker.send(request)

    def _environment(self) -> dict[str, str | None]:
        """No IPython profile, start-up file or Jupyter directory of the person who runs it."""
        return {
            "IPYTHONDIR": str(self._workdir / "ipython"),
            "JUPYTER_RUNTIME_DIR": str(self._runtime),
            "PYTHONSTARTUP": None,
            "COLUMNS": "120",
        }

    def done(self) -> bool:
        """Whether it has ended (the worker is killed here when it is far beyond its time)."""
        if self._report.is_file() or not self.worker.alive():
            return True
        if time.monotonic() - self.started > self.timeout + GRACE:
            self.worker.kill()
            return True
        return False

    def close(self, *, keep_worker: bool = False) -> Worker | None:
        """Remove the sockets and end the worker, unless it is to be kept and has ended its chapter well."""
        if not self._runtime.is_relative_to(self._workdir):
            shutil.rmtree(self._runtime, ignore_errors=True)
        reusable = self._report.is_file() and json.loads(self._report.read_bytes())["outcome"] in ("done", "raised")
        if keep_worker and reusable and self.worker.alive():
            return self.worker
        self.worker.kill()
        return None

    def result(self) -> Executed:
        """Check what the worker left and collect it, once it is :meth:`done`.

        Raises:
            ChapterFailed: it raised, exited, wrote to stderr, ran out of time or lost its kernel.
            ValueProblem: what it recorded is malformed or doubled.
            GuardFailed: its prose names an unknown value.
            WorkerFailed: the worker itself ended without a report.
        """
        seconds = time.monotonic() - self.started
        peak = self._raise_for_report(seconds)
        notebook = nbformat.read(self._output, as_version=nbformat.NO_CONVERT)
        check_ran(_without_injected(notebook), self.label)
        values, findings, provenance = collect(notebook, self.label)
        fill_inline(notebook, values, self.label)
        strip_run(notebook, _shown_parameters(self.parameters))
        if self.title:
            set_title(notebook, self.title)
        if self.page:
            link_values(notebook, values)
            link_tables(notebook, *self.page)
        return Executed(self.label, self.parameters, notebook, values, findings, provenance, seconds, peak)

    def _raise_for_report(self, seconds: float) -> int | None:
        """Raise what the worker reports, or return the peak memory of a chapter that ended well."""
        if not self._report.is_file():
            self.worker.kill()
            late = seconds > self.timeout + GRACE
            if "No space left on device" in self.worker.last_words:
                raise WorkerFailed("the disk is full", where=self.label, next_step="make room, then build again")
            raise WorkerFailed(
                f"the worker did not end within {self.timeout:g} s" if late else "the worker ended without a report",
                where=self.label,
                got=self.worker.last_words,
                next_step="perhaps the machine ran out of memory; run the chapter alone, or raise its timeout",
            )
        report = json.loads(self._report.read_text(encoding="utf-8"))
        outcome, cell = report["outcome"], report.get("cell")
        if outcome == "done" and report["python"] in (self.python, ""):
            peak: int | None = report["peak_bytes"]
            return peak
        what, next_step = {
            "done": ("the kernel ran another interpreter than ours", "remove what redirects it"),
            "raised": ("a cell raised", "open the chapter and run it alone"),
            "timeout": ("a cell did not end in time", "raise the chapter's timeout if it is just slow"),
            "dead": ("the kernel died", "perhaps it ran out of memory; run the chapter alone and watch it"),
            "broken": ("the chapter could not be run", "run it alone"),
        }[outcome]
        got = report.get("error", report.get("python", ""))
        if outcome == "timeout":
            got = f"still running after {seconds:.0f} s"
        where = self.label if cell is None else f"{self.label}, cell {cell}"
        if cell is not None:
            got += f"\n  in: {first_lines(self._source.cells[cell].source)}"
        expected = self.python if outcome == "done" else ""
        raise ChapterFailed(what, where=where, expected=expected, got=got, next_step=next_step)


def _without_injected(notebook: NotebookNode) -> NotebookNode:
    """The executed copy without the injected cell, so that cells have the numbers they have in the source."""
    kept = [cell for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    return NotebookNode({**notebook, "cells": kept})


def _shown_parameters(parameters: Mapping[str, Any]) -> str:
    """The injected cell as pages carry it: a path says that there was one, not where."""

    def shown(value: Any) -> Any:
        return "(a path)" if isinstance(value, str) and Path(value).is_absolute() else value

    return "\n".join(f"{name} = {shown(value)!r}" for name, value in sorted(parameters.items()))


def execute(
    source: Path,
    parameters: Mapping[str, Any],
    *,
    workdir: Path,
    timeout: float = 300.0,
    **more: Any,
) -> Executed:
    """Execute one chapter in a worker process and wait for it; arguments and errors as for :class:`Execution`."""
    execution = Execution(source, parameters, workdir=workdir, timeout=timeout, **more)
    try:
        while not execution.done():
            time.sleep(0.02)
        return execution.result()
    finally:
        execution.close()
