"""Fetching: verified before it is kept, one at a time, and nothing half-way is ever read."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from traceaudit import fetching
from traceaudit.errors import NothingToCheck, PinMismatch, UsageError
from traceaudit.fetching import fetch
from traceaudit.sources import cached_source, find_source, pin_cache, read_verified
from traceaudit.trail import pin as trail_pin

from .sources_support import FILES, GOLD, NEEDED, NO_SHARED, SCORER, SHARED, TRACES, git, make_tiny, write_files


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def environ(tmp_path):
    """The variables a fetch sees: a cache of its own and no way out of this machine."""
    here = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "TRACEAUDIT_"))}
    return here | {"TRACEAUDIT_CACHE": str(tmp_path / "cache"), "GIT_ALLOW_PROTOCOL": "file"}


@pytest.fixture
def run(tiny, environ, monkeypatch):
    """Fetch the tiny pin; what was said is in ``run.said``."""

    def run(source=None, *, check=False, pin=tiny.pin, **more):
        return fetch(pin, source, check=check, say=run.said.append, environ=environ | more)

    run.said = []
    monkeypatch.setattr(fetching, "PAUSE", 0)
    return run


def kept(tiny, environ):
    """What lies in the cache, apart from the lock."""
    home = pin_cache(tiny.pin, environ)
    return sorted(entry.name for entry in home.iterdir() if entry.name != "lock") if home.is_dir() else []


def cached_files(tiny, environ):
    return dict(read_verified(cached_source(tiny.pin, environ), tiny.pin, NEEDED).files)


# --- the network, here a file:// address ------------------------------------------------------------------------------


def test_fetch_the_pinned_commit_alone(tiny, environ, run, tmp_path):
    clone = tmp_path / "clone"
    git("clone", "--quiet", tiny.repository, clone)
    (clone / "later").write_bytes(b"later")
    git("add", "--all", cwd=clone)
    git("commit", "--quiet", "-m", "later", cwd=clone)
    git("config", "uploadpack.allowAnySHA1InWant", "true", cwd=clone)
    later = git("rev-parse", "HEAD", cwd=clone)
    report = run(clone.as_uri())
    assert (report.action, report.verified, report.needed, report.missing) == ("fetched", 5, 5, ())
    assert report.corpus == tiny.pin.corpus.digest
    cached = cached_source(tiny.pin, environ)
    assert cached.kind == "cache"
    bare = Path(cached.place)
    assert git("rev-list", "--all", cwd=bare) == tiny.commit
    with pytest.raises(RuntimeError):
        git("cat-file", "-e", later, cwd=bare)
    assert kept(tiny, environ) == ["current", bare.name]
    assert cached_files(tiny, environ) == {path: FILES[path] for path in NEEDED}


def test_by_default_from_the_pins_repository(tiny, environ, run):
    assert run().action == "fetched"
    assert find_source(None, tiny.pin, environ=environ).kind == "cache"


def test_terms_are_said_before_anything_is_fetched(tiny, run, monkeypatch):
    seen = []

    def stop(*_):
        seen.extend(run.said)
        raise NothingToCheck("stopped")

    monkeypatch.setattr(fetching, "_git", stop)
    with pytest.raises(NothingToCheck, match="stopped"):
        run()
    assert tuple(seen) == tiny.pin.terms


def test_a_second_fetch_finds_everything_present(tiny, environ, run):
    run()
    before = kept(tiny, environ)
    report = run("file:///nowhere/at/all")  # is not even asked
    assert (report.action, report.verified) == ("present", 5)
    assert kept(tiny, environ) == before


def test_a_server_that_does_not_have_the_commit(tiny, environ, run, tmp_path):
    git("init", "--quiet", tmp_path / "other")
    with pytest.raises(NothingToCheck, match="does not hand out the bare commit") as caught:
        run((tmp_path / "other").as_uri())
    assert (tmp_path / "other").as_uri() in caught.value.where
    assert tiny.commit in caught.value.got and "DIR" in caught.value.next_step
    assert sum("fetching" in line for line in run.said) == 1  # not tried again
    assert kept(tiny, environ) == []


BAD_ADDRESSES = {
    "file:///nowhere/at/all": "does not appear to be a git repository",
    "https://somebody:secret@example.invalid/x.git": "not allowed",  # these tests allow file:// alone
    "ext::sh -c 'touch evil'://": "not allowed",
}


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_an_address_that_cannot_be_fetched_from(tiny, environ, run, tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NothingToCheck, match="could not fetch") as caught:
        run(address)
    assert BAD_ADDRESSES[address] in caught.value.got
    assert caught.value.exit_code == 2 and caught.value.next_step
    assert "secret" not in str(caught.value) + " ".join(run.said)
    assert kept(tiny, environ) == []
    assert not Path("evil").exists()


def test_an_address_cannot_smuggle_an_option(tiny, run):
    with pytest.raises(NothingToCheck, match="could not fetch"):
        run("--upload-pack=touch evil://x")


@pytest.mark.parametrize(("failures", "succeeds"), [(0, True), (2, True), (3, False)])
def test_a_failing_network_is_tried_three_times(tiny, environ, run, monkeypatch, failures, succeeds):
    real, tries = fetching._git, []

    def flaky(arguments, *rest):
        if "fetch" in arguments:
            tries.append(arguments)
            if len(tries) <= failures:
                raise NothingToCheck("git could not fetch", got="Connection reset by peer")
        real(arguments, *rest)

    monkeypatch.setattr(fetching, "_git", flaky)
    if succeeds:
        assert run().action == "fetched"
    else:
        with pytest.raises(NothingToCheck, match="Connection reset"):
            run()
        assert kept(tiny, environ) == []
    assert len(tries) == min(failures + 1, 3)


def test_no_git_on_the_machine(tiny, run, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NothingToCheck, match="git is not installed"):
        run(PATH="/nowhere")


def test_a_server_with_changed_bytes(tiny, environ, run, tmp_path):
    """The right commit id over wrong content: git itself refuses it, and so would the pin."""
    repository = shutil.copytree(tiny.repository, tmp_path / "evil")
    blob = tiny.pin.files[GOLD[0]].blob
    path = repository / ".git/objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(zlib.compress(b"blob 3\0abc"))
    with pytest.raises((NothingToCheck, PinMismatch)):
        run(repository.as_uri())
    assert kept(tiny, environ) == []


def test_a_commit_of_other_files_than_the_pinned_ones(tiny, environ, run):
    file = replace(tiny.pin.files[GOLD[0]], blob="0" * 40)
    pin = replace(tiny.pin, files=dict(tiny.pin.files) | {GOLD[0]: file})
    with pytest.raises(PinMismatch, match="lacks 1 pinned file"):
        run(pin=pin)
    assert kept(tiny, environ) == []


# --- nothing half-way -------------------------------------------------------------------------------------------------


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


# --- places on this machine -------------------------------------------------------------------------------------------


def test_copy_a_folder_that_lacks_files(tiny, environ, run, tmp_path):
    place = tiny.folder(tmp_path / "place", without=(TRACES[0], SCORER))
    write_files(place, {"bench/other.txt": b"not pinned"})
    report = run(str(place))
    assert (report.action, report.verified, report.missing) == ("copied", 3, (TRACES[0], SCORER))
    assert report.corpus is None
    cached = cached_source(tiny.pin, environ)
    assert cached.names() == set(FILES) - {TRACES[0], SCORER}
    assert not (Path(cached.place) / "bench/other.txt").exists()
    text = "\n".join(report.lines())
    assert "3 of 5 files verified" in text and "2 missing" in text and TRACES[0] in text and SCORER in text


def test_copy_a_git_folder_that_lacks_objects(tiny, environ, run, tmp_path):
    repository = shutil.copytree(tiny.repository, tmp_path / "repository")
    blob = tiny.pin.files[TRACES[0]].blob
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    report = run(str(repository))
    assert (report.action, report.verified, report.missing) == ("copied", 4, (TRACES[0],))
    assert cached_files(tiny, environ) == {path: FILES[path] for path in NEEDED if path != TRACES[0]}


def test_copies_add_up_and_lose_nothing(tiny, environ, run, tmp_path):
    run(str(tiny.folder(tmp_path / "one", without=(*TRACES, SCORER))))
    report = run(str(tiny.folder(tmp_path / "two", without=(*GOLD, TRACES[0]))))
    assert (report.verified, report.missing) == (4, (TRACES[0],))
    again = run(str(tiny.folder(tmp_path / "three", without=(*GOLD, *TRACES))))
    assert (again.action, again.verified) == ("present", 4)
    full = run(str(tiny.folder(tmp_path / "four")))
    assert (full.verified, full.missing, full.corpus) == (5, (), tiny.pin.corpus.digest)
    assert cached_files(tiny, environ) == {path: FILES[path] for path in NEEDED}


def test_the_network_completes_a_copy(tiny, environ, run, tmp_path):
    run(str(tiny.folder(tmp_path / "one", without=TRACES)))
    assert run().action == "fetched"
    assert cached_source(tiny.pin, environ).label.startswith("cached git")


def test_a_folder_with_one_wrong_file_is_not_copied(tiny, environ, run, tmp_path):
    place = write_files(tmp_path / "place", FILES | {GOLD[1]: b"changed"})
    with pytest.raises(PinMismatch) as caught:
        run(str(place))
    assert caught.value.where == GOLD[1]
    assert kept(tiny, environ) == []


@pytest.mark.parametrize("names", [(), ("bench/gold",), ("docs",)])
def test_a_folder_with_nothing_in_it(tiny, environ, run, tmp_path, names):
    for name in names:
        (tmp_path / "place" / name).mkdir(parents=True)
    for check in (False, True):
        with pytest.raises(NothingToCheck):
            run(str(tmp_path / "place"), check=check)
    assert kept(tiny, environ) == []


# --- checking ---------------------------------------------------------------------------------------------------------


def test_check_changes_nothing(tiny, environ, run, tmp_path):
    place = tiny.folder(tmp_path / "place", without=(TRACES[0],))
    before = sorted(tmp_path.rglob("*"))
    report = run(str(place), check=True)
    assert (report.action, report.verified, report.needed, report.missing) == ("checked", 4, 5, (TRACES[0],))
    assert sorted(tmp_path.rglob("*")) == before
    assert run.said == []


def test_check_of_everything_shows_the_corpus_digest(tiny, run):
    report = run(str(tiny.repository), check=True)
    assert report.missing == () and report.corpus == tiny.pin.corpus.digest
    assert tiny.pin.corpus.digest in "\n".join(report.lines())


def test_check_of_variable_and_cache(tiny, run, tmp_path):
    with pytest.raises(NothingToCheck, match="nothing of tiny is here") as caught:
        run(check=True)
    assert caught.value.exit_code == 2
    assert run(check=True, TRACEAUDIT_SOURCE=str(tiny.folder(tmp_path / "place"))).verified == 5
    run()
    assert "cached git repository" in run("", check=True).source


def test_check_of_a_changed_file(tiny, run, tmp_path):
    with pytest.raises(PinMismatch) as caught:
        run(str(write_files(tmp_path / "place", FILES | {SCORER: b"x"})), check=True)
    assert caught.value.where == SCORER and caught.value.exit_code == 1


def test_check_of_an_address(tiny, run):
    with pytest.raises(UsageError):
        run(tiny.address, check=True)


# --- the real data ----------------------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.skipif(not SHARED.is_dir(), reason=NO_SHARED)
def test_the_real_folder_can_be_copied(environ):
    pin = trail_pin.load().pin
    said = []
    report = fetch(pin, str(SHARED), check=False, say=said.append, environ=environ)
    assert (report.verified, report.needed, len(report.missing), report.corpus) == (287, 297, 10, None)
    assert said[: len(pin.terms)] == list(pin.terms)
    assert any("GAIA" in line for line in said) and any("SWE-bench Lite" in line for line in said)
    assert fetch(pin, None, check=True, say=said.append, environ=environ).missing == report.missing
