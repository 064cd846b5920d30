"""Fetching: from an address or a place on this machine, verified before it is kept."""

from __future__ import annotations

import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from traceaudit import fetching
from traceaudit.errors import NothingToCheck, PinMismatch, UsageError
from traceaudit.fetching import fetch
from traceaudit.sources import cached_source, find_source
from traceaudit.trail import pin as trail_pin

from .sources_support import (
    FILES,
    GOLD,
    NEEDED,
    NO_SHARED,
    SCORER,
    SHARED,
    TRACES,
    Fetcher,
    cached_files,
    fetch_environment,
    git,
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


def test_a_password_that_git_repeats_is_not_passed_on(run, tmp_path):
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\ncase "$1" in init) exit 0;; esac\necho "fatal: unable to access: $*" >&2\nexit 128\n')
    fake.chmod(0o755)
    with pytest.raises(NothingToCheck, match="unable to access") as caught:
        run("https://somebody:secret@example.invalid/x.git", PATH=f"{fake.parent}:/usr/bin:/bin")
    assert "https://example.invalid/x.git" in caught.value.got
    assert "secret" not in str(caught.value) + " ".join(run.said)


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
