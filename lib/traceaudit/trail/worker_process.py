"""The parent's end of the scorer's worker: start, ask, and stop in time.

Whatever the worker does (loops, eats memory, dies, talks out of turn), a call here ends with an answer or with
:class:`~traceaudit.errors.WorkerFailed`, and leaves no process behind.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import WorkerFailed

__all__ = ["START_LIMIT", "WorkerProcess"]

SCRIPT = Path(__file__).with_name("upstream_worker.py")
START_LIMIT = 120.0
# No module from the script's or the working folder (-P), no bytecode written (-B), no warning shown or turned into an
# exception that the scorer would swallow (-W), files read as UTF-8 anywhere (-X utf8). PYTHONPATH stays in force.
FLAGS = ("-P", "-B", "-W", "ignore", "-X", "utf8")
THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
FORGOTTEN: list[subprocess.Popen[bytes]] = []  # another process's workers, kept so that nobody asks after their end


class WorkerProcess:
    """One running worker.

    Args:
        scorer: The bytes it shall run.
        sha256: Their digest, verified there once more.
        time_limit: Seconds a call may take; starting has a limit of its own.
        memory_limit: Bytes of address space, where the system can bound it.

    Raises:
        WorkerFailed: it did not start.
    """

    def __init__(self, scorer: bytes, sha256: str, time_limit: float, memory_limit: int) -> None:
        self.time_limit, self.memory_limit, self.owner = time_limit, memory_limit, os.getpid()
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the worker
        self._process = subprocess.Popen(
            [sys.executable, *FLAGS, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._noise,
            cwd=os.sep,
            env=_environment(),
        )
        self._stop = weakref.finalize(self, _stop, self._process, self._noise, self.owner)
        hello = {
            "scorer": base64.b64encode(scorer).decode("ascii"),
            "sha256": sha256,
            "memory_limit": memory_limit,
            "time_limit": time_limit,
            "start_limit": START_LIMIT,
        }
        answer = self.ask(hello, limit=START_LIMIT)
        if "error" in answer:
            self.stop()
            kind, text = answer["error"]["type"], "; ".join(map(str, answer["error"]["args"]))
            raise WorkerFailed(
                "the scorer could not be started",
                got=f"{kind}: {text}",
                next_step="check that its libraries are installed and the memory limit is not too low",
            )

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._stop.alive and self._process.poll() is None

    def ask(self, request: dict[str, Any], *, limit: float | None = None) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Raises:
            WorkerFailed: no answer within the limit, or the worker died; it is gone then.
        """
        limit = self.time_limit if limit is None else limit
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self._process.kill()

        line = json.dumps(request).encode("ascii") + b"\n"
        timer = threading.Timer(limit, expire)
        timer.daemon = True
        timer.start()
        try:
            answer = _exchange(self._process, line)
        finally:
            timer.cancel()
            timer.join()
            if expired.is_set() and self._stop.alive:
                self._process.wait()
        if answer is None:
            raise self._failure(expired.is_set(), limit)
        return answer

    def stop(self) -> None:
        """End it and reap it; a second call does nothing."""
        self._stop()

    def forget(self) -> None:
        """Leave it to the process that started it (after a fork)."""
        self._stop.detach()
        FORGOTTEN.append(self._process)
        _close(self._process, self._noise)

    def _failure(self, expired: bool, limit: float) -> WorkerFailed:
        try:
            code = self._process.wait(timeout=5)  # its streams close just before it ends
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._noise.seek(max(0, os.fstat(self._noise.fileno()).st_size - 2000))
        said = self._noise.read().decode("utf-8", "replace").strip()
        self.stop()
        if expired:
            return WorkerFailed(
                "the scorer's worker ran out of time and was stopped",
                expected=f"an answer within {limit:g} seconds",
                next_step="raise time_limit, or shrink the input",
            )
        return WorkerFailed(
            "the scorer's worker died",
            got=f"exit code {code}" + (f", last words: {said.splitlines()[-1]}" if said else ""),
            next_step=f"raise memory_limit ({self.memory_limit} bytes) if it ran out of memory, or shrink the input",
        )


def _environment() -> dict[str, str]:
    """Ours, with one thread a library, and with PYTHONPATH made absolute, since the worker starts elsewhere."""
    path = [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return {**os.environ, **THREADS, "PYTHONPATH": os.pathsep.join(path)}


def _exchange(process: subprocess.Popen[bytes], line: bytes) -> dict[str, Any] | None:
    requests, answers = process.stdin, process.stdout
    if requests is None or answers is None:
        return None
    try:
        requests.write(line)
        requests.flush()
        received = answers.readline()
    except (OSError, ValueError):
        return None
    return json.loads(received) if received.endswith(b"\n") else None


def _stop(process: subprocess.Popen[bytes], noise: BinaryIO, owner: int) -> None:
    if os.getpid() != owner:
        return
    process.kill()
    _close(process, noise)
    process.wait()


def _close(process: subprocess.Popen[bytes], noise: BinaryIO) -> None:
    for stream in (process.stdin, process.stdout, noise):
        try:
            if stream is not None:
                stream.close()
        except OSError:  # a request that was never read is lost with its reader
            continue
