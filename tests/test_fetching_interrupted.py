"""Fetching, interrupted, killed, doubled or out of room: nothing half-way is ever read, nothing is lost."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from traceaudit import fetching
from traceaudit.errors import NothingToCheck
from traceaudit.sources import cached_source, pin_cache

from .sources_support import (
    FILES,
    NEEDED,
    TRACES,
    Fetcher,
    cached_files,
    fetch_environment,
    kept,
    make_tiny,
    write_files,
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def environ(tmp_path):
    return fetch_environment(tmp_path)


@pytest.fixture
def run(tiny, environ, monkeypatch):
    """Fetch the tiny pin; what was said is in ``run.said``."""
    monkeypatch.setattr(fetching, "PAUSE", 0)
    return Fetcher(tiny.pin, environ)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("place", ["survey", "_adopt", "_git"])
@pytest.mark.parametrize("filled", [False, True])
def test_an_interrupted_fetch_leaves_what_was_there(tiny, environ, run, tmp_path, monkeypatch, error, place, filled):
    if filled:
        run(str(tiny.folder(tmp_path / "first", without=TRACES)))
    before, files = kept(tiny, environ), cached_files(tiny, environ) if filled else None
    real, calls = getattr(fetching, place), []

    def stop(*arguments):
        calls.append(arguments)
        if place != "survey" or len(calls) > filled:  # the first survey is of the cache
            raise error
        return real(*arguments)

    monkeypatch.setattr(fetching, place, stop)
    with pytest.raises(NothingToCheck if isinstance(error, OSError) else error) as caught:
        run()
    if isinstance(error, OSError):
        assert "No space left" in str(caught.value) and "TRACEAUDIT_CACHE" in caught.value.next_step
    monkeypatch.undo()
    assert kept(tiny, environ) == before
    assert filled == (cached_source(tiny.pin, environ) is not None)
    if filled:
        assert cached_files(tiny, environ) == files
    assert run().action == "fetched"


def test_what_a_killed_fetch_left_is_never_read_and_then_removed(tiny, environ, run):
    home = pin_cache(tiny.pin, environ)
    write_files(home / "partial-abc", FILES)
    write_files(home / "folder-abc", FILES)  # named, but not yet noted
    (home / "partial-current").write_text("folder-abc")
    assert cached_source(tiny.pin, environ) is None
    run()
    assert kept(tiny, environ) == ["current", Path(cached_source(tiny.pin, environ).place).name]


SCRIPT = """
import sys, time
from pathlib import Path
from traceaudit import fetching
from traceaudit.pins import load_pin
pin, mode = load_pin(Path(sys.argv[1])), sys.argv[3]
if mode == "hang":
    real = fetching._adopt
    def adopt(*arguments):
        print("filled", flush=True)
        time.sleep(60)
    fetching._adopt = adopt
report = fetching.fetch(pin, sys.argv[2], check=False, say=lambda line: None)
print(report.action, report.verified, flush=True)
"""


def start(tiny, environ, mode="plain"):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tiny.pins / "tiny.toml"), tiny.address, mode],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_fetch_killed_before_its_last_step(tiny, environ, run):
    with start(tiny, environ, "hang") as process:
        assert process.stdout.readline() == "filled\n"
        process.send_signal(signal.SIGKILL)
    assert cached_source(tiny.pin, environ) is None
    assert any(name.startswith("partial-") for name in kept(tiny, environ))
    assert run().action == "fetched"  # the lock went with its holder
    assert len(kept(tiny, environ)) == 2


def test_two_fetches_at_once(tiny, environ):
    with start(tiny, environ) as one, start(tiny, environ) as two:
        said = sorted(process.communicate()[0].split()[0] for process in (one, two))
    assert (one.returncode, two.returncode) == (0, 0)
    assert said == ["fetched", "present"]
    assert len(kept(tiny, environ)) == 2
    assert cached_files(tiny, environ) == {path: FILES[path] for path in NEEDED}


def test_a_second_fetch_waits_and_says_so(tiny, environ, run):
    import fcntl

    home = pin_cache(tiny.pin, environ)
    home.mkdir(parents=True)
    with (home / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + 30
        while not any("waiting" in line for line in run.said) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not any("fetching" in line for line in run.said)
        fcntl.flock(lock, fcntl.LOCK_UN)
        thread.join()
    assert any("fetching" in line for line in run.said)


def test_a_damaged_cache_is_replaced_and_the_former_one_outlives_one_fetch(tiny, environ, run):
    run()
    bare = Path(cached_source(tiny.pin, environ).place)
    for pack in bare.glob("objects/pack/*.pack"):
        pack.chmod(0o644)
        pack.write_bytes(b"rubbish")
    for object in bare.glob("objects/??/*"):
        object.chmod(0o644)
        object.write_bytes(b"rubbish")
    report = run()
    assert report.action == "fetched" and any("damaged" in line for line in run.said)
    assert cached_files(tiny, environ) == {path: FILES[path] for path in NEEDED}
    assert bare.is_dir()  # somebody may be reading it still
    run()
    assert not bare.is_dir()


def test_a_cache_that_cannot_be_made(tiny, run, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NothingToCheck, match="cannot be written") as caught:
        run(TRACEAUDIT_CACHE=str(tmp_path / "file"))
    assert "TRACEAUDIT_CACHE" in caught.value.next_step
