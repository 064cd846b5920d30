"""The worker process: runs notebooks with papermill, one after another, and reports each as data.

It is a process and never a thread, because papermill changes the working directory of its process. It reads requests
on standard input, writes a report file for each, and dies with its kernel when whoever started it is gone.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

__all__ = ["main", "run", "stop_descendants"]

PROBE_TAG = "traceaudit-probe"
# Asked of the kernel after the chapter's last cell. Memory is that of the largest process of the chapter: the kernel,
# or one it started (such as the pinned scorer's). Linux says a process's own highest mark in VmHWM. What getrusage says
# of children that have ended includes what the kernel held when it started them, which is never more than the kernel's
# own mark, so the largest of all is right.
PROBE = r"""
import json, re, resource, sys
def peak():
    import psutil
    kernel, unit = psutil.Process(), 1 if sys.platform == "darwin" else 1024
    peaks = [resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit]
    for process in [kernel, *kernel.children(recursive=True)]:
        try:
            with open(f"/proc/{process.pid}/status") as status:
                peaks.append(int(re.search(r"VmHWM:\s*(\d+) kB", status.read())[1]) * 1024)
        except (OSError, TypeError):  # not Linux, or it has just ended
            if process == kernel:
                peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
            elif process.is_running():
                peaks.append(process.memory_info().rss)
    return max(peaks)
try:
    peak_bytes = peak()
except Exception:  # no figure is better than a chapter that fails for it
    peak_bytes = None
print(json.dumps({"python": sys.executable, "peak_bytes": peak_bytes}))
"""


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Execute the notebook of a request.

    Args:
        request: ``notebook`` and ``output`` (paths), ``parameters``, ``cwd``, ``runtime`` (a short directory for the
            kernel's sockets), ``python``, ``timeout`` and ``cell_timeout`` in seconds.

    Returns:
        ``{"outcome": "done", "python": …, "peak_bytes": …}`` (the highest memory of the chapter's largest process, or
        None where it could not be read), or an outcome of ``raised``, ``timeout``, ``dead`` or ``broken`` with the
        index of the cell it happened in (None before the first) and the text of the error. Indexes count the cells
        of the source, so they do not move with the injected cell.
    """
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    notebook = nbformat.read(request["notebook"], as_version=nbformat.NO_CONVERT)
    positions = {cell.id: index for index, cell in enumerate(notebook.cells)}
    probe = nbformat.v4.new_code_cell(PROBE, id=PROBE_TAG, metadata={"tags": [PROBE_TAG]})
    notebook.cells.append(probe)
    deadline = time.monotonic() + request["timeout"]
    current: list[int | None] = [None]

    def seconds_left(cell: Any) -> int:
        current[0] = positions.get(cell.get("id"), current[0])
        return max(1, round(min(request["cell_timeout"], deadline - time.monotonic())))

    def failed(outcome: str, error: BaseException) -> dict[str, Any]:
        return {"outcome": outcome, "cell": current[0], "error": f"{type(error).__name__}: {error}"}

    try:
        executed = papermill.execute_notebook(
            notebook,
            None,
            parameters=request["parameters"],
            kernel_name="python3",
            language="python",
            cwd=request["cwd"],
            progress_bar=False,
            request_save_on_cell_execute=False,
            start_timeout=60,
            kernel_manager_class=_manager_class(request["runtime"], request["python"]),
            timeout_func=seconds_left,
            record_timing=False,
            iopub_timeout=120,  # outputs that arrive late are waited for, and never dropped
            raise_on_iopub_timeout=True,
        )
    except PapermillExecutionError as error:
        return {"outcome": "raised", "cell": current[0], "error": f"{error.ename}: {error.evalue}"}
    except CellTimeoutError as error:
        return failed("timeout", error)
    except DeadKernelError as error:
        return failed("dead", error)
    except Exception as error:  # the report is the only way out, so nothing may be lost
        return failed("broken", error)
    probe = next(cell for cell in executed.cells if cell.id == PROBE_TAG)
    executed.cells.remove(probe)
    said = "".join(output.get("text", "") for output in probe.outputs).strip()
    found: dict[str, Any] = json.loads(said) if said else {}
    Path(request["output"]).write_text(nbformat.writes(executed, version=nbformat.NO_CONVERT), encoding="utf-8")
    return {"outcome": "done", "python": found.get("python", ""), "peak_bytes": found.get("peak_bytes")}


def _manager_class(runtime: str, python: str) -> type:
    """A kernel manager for this interpreter, over local sockets, blind to kernels installed elsewhere."""
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--HistoryManager.enabled=False"]

    class OwnKernelManager(AsyncKernelManager):
        def __init__(self, **settings: Any) -> None:
            super().__init__(transport="ipc", connection_file=f"{runtime}/kernel.json", **settings)
            self.shutdown_wait_time = 2.0

        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(argv=argv, display_name="Python 3", language="python", resource_dir="")

    return OwnKernelManager


def _requests() -> Iterator[dict[str, Any]]:
    """Requests from standard input, one line of JSON each.

    A thread reads them while chapters run: standard input closes when whoever started us is gone, even by a kill,
    and then this process ends at once and takes its kernel with it.
    """
    lines: queue.Queue[bytes] = queue.Queue()
    running: dict[str, Any] = {}

    def read() -> None:
        rest = b""
        while got := os.read(0, 65536):
            *whole, rest = (rest + got).split(b"\n")
            for line in whole:
                lines.put(line)
        stop_descendants(os.getpid())
        if running:
            shutil.rmtree(running["runtime"], ignore_errors=True)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        running.update(json.loads(lines.get()))
        yield running


def stop_descendants(pid: int) -> None:
    """Kill every process below ``pid`` (the kernel runs in a session of its own, so no signal reaches it else)."""
    import psutil

    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return
    for process in below:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def main() -> None:
    """Run requests until standard input closes; each report appears whole, under the name its request gives."""
    inherited = dict(os.environ)
    for request in _requests():
        os.environ.clear()
        os.environ.update({**inherited, **request["env"]})
        for name in request["unset"]:
            os.environ.pop(name, None)
        report = run(request)
        aside = Path(request["report"] + ".aside")
        aside.write_text(json.dumps(report), encoding="utf-8")
        aside.replace(request["report"])


if __name__ == "__main__":
    main()
