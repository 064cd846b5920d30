"""The suite cannot leave the machine: a probe in the test process, a kernel, a worker and a command."""

from __future__ import annotations

import socket
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from .kernels import LocalKernel

# TEST-NET-1 (RFC 5737): an address that is nobody's.
PROBE = """
import socket
try:
    socket.create_connection(("192.0.2.1", 9), timeout=5)
except Exception as error:
    print(type(error).__name__)
else:
    print("connected")
"""
BLOCKED = "BlockedByTestsError"


def test_in_this_process(capsys):
    exec(PROBE, {})
    assert capsys.readouterr().out.strip() == BLOCKED


def test_in_a_command():
    out = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == BLOCKED


def test_in_a_kernel(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(PROBE)])
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name="python3", kernel_manager_class=LocalKernel, resources=where).execute()
    assert notebook.cells[0].outputs[0]["text"].strip() == BLOCKED


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_in_a_worker(start):
    import multiprocessing

    with multiprocessing.get_context(start).Pool(1) as pool:
        assert pool.apply(_probe) == BLOCKED


def _probe() -> str:
    import socket

    try:
        socket.create_connection(("192.0.2.1", 9), timeout=5)
    except Exception as error:
        return type(error).__name__
    return "connected"


@pytest.mark.parametrize(
    "leave",
    [
        lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9)),
        lambda: socket.socket(type=socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, ("192.0.2.1", 9)),
        lambda: socket.socket().connect_ex(("192.0.2.1", 9)),
        lambda: socket.getaddrinfo("example.org", 80),
        lambda: socket.gethostbyname("example.org"),
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_way_out_is_closed(leave):
    with pytest.raises(OSError, match="the suite allows no traffic"):
        leave()


def test_loopback_stays_open():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
