"""The worker of the upstream engine: what runs in it, what stops it, and what it leaves behind."""

from __future__ import annotations

import hashlib
import os
import pickle
import py_compile
import subprocess
import sys
import time
from pathlib import Path

import pytest

from traceaudit.errors import PinMismatch, UsageError, WorkerFailed
from traceaudit.trail.upstream import UpstreamEngine, taxonomy_from_source

from .fake_scorer import FAKE


def gone(pid):
    """Whether there is no such process any more, not even a dead one that nobody asked after."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_other_bytes_are_refused():
    with pytest.raises(PinMismatch, match="not the pinned scorer's bytes"):
        UpstreamEngine(FAKE.encode() + b"#", sha256=hashlib.sha256(FAKE.encode()).hexdigest())


# Source, whether it has a taxonomy.
SOURCES = [
    (FAKE, ("Alpha", "Beta")),  # one list of texts in main
    ("def main():\n    a = ['x']\n    b = []\n    c = [1, 2]\n", ("x",)),  # other lists are none
    ("a = ['x']\ndef main():\n    pass\n", None),  # outside main
    ("def other():\n    a = ['x']\n", None),  # in another function
    ("def main():\n    a = ['x']\n    b = ['y']\n", None),  # two of them
    ("def main(:\n", None),  # not Python
    ("def main():\n    a = ['x', f()]\n", None),  # not all texts
]


@pytest.mark.parametrize(("source", "labels"), SOURCES)
def test_taxonomy_from_source(source, labels):
    if labels is None:
        with pytest.raises(PinMismatch):
            taxonomy_from_source(source.encode())
    else:
        assert taxonomy_from_source(source.encode()) == labels


def test_starts_with_the_first_call(engine_from):
    engine = engine_from(FAKE)
    assert engine._worker is None
    assert engine.taxonomy == ("Alpha", "Beta")
    assert engine.normalise(["a", ""], ["L"]) == ["A", "L"]
    pid = engine.extract("pid")
    assert engine.extract("pid") == pid
    engine.close()
    assert gone(pid)
    assert engine.extract("pid") != pid  # closing is not the end


def test_files_are_reported_by_id(engine_from):
    """What was printed about numbered files comes back under the ids, with the exception's class."""
    report = engine_from(FAKE).score({"b": b"{}", "a-1": b"{}"}, {"a-1": b"{}", "unknown": b""})
    assert report.missing == ("b",)
    assert list(report.dropped) == ["a-1"]
    assert report.dropped["a-1"].startswith("ValueError: invalid literal")
    assert report.scored == ()


def test_leaves_no_folder_behind(engine_from, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    engine_from(FAKE).score({"a": b"{}"}, {"a": b"{}"})
    assert list(tmp_path.iterdir()) == []


def test_prints_stay_out_of_the_protocol(engine_from, capfd):
    engine = engine_from(FAKE)
    assert engine.extract("noise") == "noise"
    assert engine.extract("read") == ""  # nor can it read the requests
    assert engine.extract("still") == "still"
    engine.close()
    assert capfd.readouterr() == ("", "")


def test_endless_scorer_is_stopped(engine_from):
    engine = engine_from(FAKE, time_limit=0.5)
    pid = engine.extract("pid")
    start = time.monotonic()
    with pytest.raises(WorkerFailed, match=r"ran out of time[\s\S]*within 0.5 seconds"):
        engine.extract("loop")
    assert time.monotonic() - start < 5
    assert gone(pid)
    assert engine.extract("again") == "again"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the address space dependably")
def test_scorer_that_eats_memory_is_stopped(engine_from):
    engine = engine_from(FAKE, memory_limit=1 << 29, time_limit=60)
    pid = engine.extract("pid")
    with pytest.raises(WorkerFailed, match="memory_limit"):
        engine.extract("eat")
    assert gone(pid)
    assert engine.extract("again") == "again"


def test_memory_is_never_a_finding(engine_from):
    """A trace that the scorer skips because this machine ran out of memory is not reported as dropped."""
    with pytest.raises(WorkerFailed, match="MemoryError"):
        engine_from(FAKE).score({"a": b"{}"}, {"a": b"eat"})


@pytest.mark.parametrize(("word", "code"), [("die", 3), ("exit", 4)])
def test_dying_worker(word, code, engine_from):
    engine = engine_from(FAKE)
    with pytest.raises(WorkerFailed, match=f"died[\\s\\S]*exit code {code}"):
        engine.extract(word)
    assert engine.extract("again") == "again"


def test_worker_killed_between_calls(engine_from):
    engine = engine_from(FAKE)
    pid = engine.extract("pid")
    os.kill(pid, 9)
    deadline = time.monotonic() + 10
    while engine._worker.alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert engine.extract("again") == "again"
    assert gone(pid)


def test_scorer_that_cannot_start(engine_from):
    engine = engine_from(FAKE.replace("import glob", "import no_such_module_here, glob"))
    with pytest.raises(WorkerFailed, match=r"could not be started[\s\S]*ModuleNotFoundError"):
        engine.extract("x")


# What the scorer raises: (word, type).
RAISED = [
    ("key", KeyError),  # its argument is a number
    ("decode", ValueError),  # a UnicodeDecodeError cannot be made again from text, its base can
]


@pytest.mark.parametrize(("word", "kind"), RAISED)
def test_exceptions_come_back(word, kind, engine_from):
    engine = engine_from(FAKE)
    pid = engine.extract("pid")
    with pytest.raises(kind) as caught:
        engine.extract(word)
    if word == "key":
        assert caught.value.args == (0,)
    assert engine.extract("pid") == pid  # the worker lives


def test_network_ban_reaches_the_worker(engine_from):
    """PYTHONPATH's sitecustomize is in force there, although nothing else of this process is."""
    engine = engine_from(FAKE)
    assert "sitecustomize" in engine.extract("path")[2]
    with pytest.raises(WorkerFailed, match="BlockedByTestsError"):
        engine.extract("connect")


def test_answers_that_cannot_be_sent(engine_from):
    engine = engine_from(FAKE)
    with pytest.raises(WorkerFailed, match="could not answer"):
        engine.extract("set")
    assert engine.extract("again") == "again"


@pytest.mark.parametrize("argument", [{1}, object(), b"x", 10**5000], ids=["set", "object", "bytes", "digits"])
def test_arguments_that_are_no_json(argument, engine_from):
    engine = engine_from(FAKE)
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        engine.normalise([argument])
    assert engine.normalise(["a"]) == ["A"]


def test_survives_pickling(engine_from):
    engine = engine_from(FAKE, time_limit=7.0)
    pid = engine.extract("pid")
    with pickle.loads(pickle.dumps(engine)) as copy:
        assert (copy.sha256, copy.time_limit, copy.taxonomy) == (engine.sha256, 7.0, engine.taxonomy)
        assert copy.extract("pid") != pid


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_fork_gets_a_worker_of_its_own(engine_from):
    engine = engine_from(FAKE)
    pid = engine.extract("pid")
    child = os.fork()
    if child == 0:  # no exception may leave this branch
        try:
            other = engine.extract("pid")
            engine.close()
            os._exit(0 if other != pid and gone(other) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert engine.extract("pid") == pid


def test_forgotten_engine_leaves_no_process(engine_from):
    """Neither a lost engine nor the end of the interpreter leaves a worker or says a word."""
    code = (
        "import hashlib, sys; from traceaudit.trail.upstream import UpstreamEngine as E; from pathlib import Path;"
        "b = Path(sys.argv[1]).read_bytes(); e = E(b, sha256=hashlib.sha256(b).hexdigest()); print(e.extract('pid'));"
        "l = E(b, sha256=e.sha256); print(l.extract('pid')); del l"
    )
    folder = Path(os.environ["TRACEAUDIT_CACHE"])
    (folder / "fake.py").write_text(FAKE)
    command = [sys.executable, "-W", "error", "-c", code, str(folder / "fake.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert all(gone(int(pid)) for pid in done.stdout.split())


def test_forged_bytecode_and_modules_are_not_used(engine_from, tmp_path, monkeypatch):
    """A cache beside the file, and modules of the working folder, say "cache"; what runs says "source"."""
    folder = tmp_path / "benchmarking"
    folder.mkdir()
    (folder / "calculate_scores.py").write_text(FAKE)
    forged = tmp_path / "forged.py"
    forged.write_text(FAKE.replace('"source"', '"cache"'))
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    cached = folder / "__pycache__" / f"calculate_scores.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(str(forged), cfile=str(cached), invalidation_mode=mode, doraise=True)
    for name in ("pinned_scorer", "upstream_worker", "json", "glob", "traceaudit"):
        (folder / f"{name}.py").write_text("raise SystemExit('a module of the working folder ran')\n")
    command = [sys.executable, "-c", "import calculate_scores as c; print(c.extract_json_from_text('who'))"]
    (tmp_path / "only").mkdir()
    copied = tmp_path / "only" / "calculate_scores.py"
    copied.write_text(FAKE)
    (tmp_path / "only" / "__pycache__").mkdir()
    (tmp_path / "only" / "__pycache__" / cached.name).write_bytes(cached.read_bytes())
    trusting = subprocess.run(command, cwd=tmp_path / "only", capture_output=True, text=True, check=True)
    assert trusting.stdout.strip() == "cache"  # an import would have fallen for it
    monkeypatch.chdir(folder)
    engine = engine_from((folder / "calculate_scores.py").read_text())
    assert engine.extract("who") == "source"
    path, cwd, _ = engine.extract("path")
    assert cwd == os.sep
    assert "" not in path
    assert str(folder) not in path
    assert sorted(file.name for file in (folder / "__pycache__").iterdir()) == [cached.name]


def test_warnings_are_no_errors_in_the_worker(engine_from, monkeypatch):
    """A warning turned into an exception would be swallowed by the scorer and change its figures."""
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    source = FAKE.replace('if text == "who":', 'import warnings; warnings.warn("w")\n    if text == "who":')
    assert engine_from(source).extract("who") == "source"
