"""Git as a source: objects alone, whatever the repository or this machine is set to."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from dataclasses import replace

import pytest

from traceaudit import git_source
from traceaudit.errors import NothingToCheck, PinMismatch
from traceaudit.sources import open_source, read_verified

from .sources_support import (
    FILES,
    GOLD,
    NEEDED,
    SCORER,
    TRACES,
    flipped,
    git,
    loose,
    make_repository,
    make_tiny,
    read_needed,
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def repository(tiny, tmp_path):
    """A copy of the repository that a test may damage."""
    return shutil.copytree(tiny.repository, tmp_path / "repository")


def test_nothing_of_the_callers_git_counts(tiny, tmp_path, monkeypatch):
    (tmp_path / ".gitconfig").write_text("[broken")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_GLOBAL", "GIT_CEILING_DIRECTORIES", "GIT_NAMESPACE"):
        monkeypatch.setenv(name, "/nowhere")
    assert read_needed(open_source(tiny.repository, tiny.pin), tiny.pin).missing == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_repository_of_somebody_else(tiny, repository):
    for path in [repository, *repository.rglob("*")]:
        os.chown(path, 12345, 12345)
    refused = subprocess.run(["git", "log"], cwd=repository, capture_output=True, text=True, check=False)
    assert "dubious ownership" in refused.stderr  # git alone would not
    assert read_needed(open_source(repository, tiny.pin), tiny.pin).missing == ()


def test_a_partial_clone_fetches_nothing(tiny, tmp_path):
    clone = tmp_path / "partial"
    git("clone", "--quiet", "--filter=blob:none", "--no-checkout", tiny.address, clone)
    blob = tiny.pin.files[GOLD[0]].blob
    before = sorted((clone / ".git/objects").rglob("*"))
    source = open_source(clone, tiny.pin)
    found = read_needed(source, tiny.pin)
    assert found.files == {} and found.missing == NEEDED
    assert source.names() == frozenset()
    assert sorted((clone / ".git/objects").rglob("*")) == before
    assert git("cat-file", "-p", blob, cwd=clone)  # plain git would have fetched it
    assert sorted((clone / ".git/objects").rglob("*")) != before


def test_replace_refs_are_ignored(tiny, repository):
    old, new = tiny.pin.files[GOLD[0]].blob, tiny.pin.files[GOLD[1]].blob
    git("replace", old, new, cwd=repository)
    assert git("cat-file", "-p", old, cwd=repository) == FILES[GOLD[1]].decode().strip()  # plain git follows it
    assert read_needed(open_source(repository, tiny.pin), tiny.pin).files[GOLD[0]] == FILES[GOLD[0]]


def test_a_blob_that_is_not_there_is_missing(tiny, repository):
    for path in (TRACES[1], GOLD[0]):
        loose(repository, tiny.pin.files[path].blob).unlink()
    source = open_source(repository, tiny.pin)
    found = read_needed(source, tiny.pin)
    assert found.missing == (TRACES[1], GOLD[0])
    assert source.names() == set(FILES) - {TRACES[1], GOLD[0]}


DAMAGES = {
    "not compressed": lambda data: b"rubbish",
    "empty": lambda data: b"",
    "torn": lambda data: data[: len(data) // 2],
    "one byte flipped": lambda data: flipped(data, len(data) // 2),
    "another blob": lambda data: zlib.compress(b"blob 3\0abc"),
    "a blob longer than it says": lambda data: zlib.compress(b"blob 3\0abcdef"),
    "a tree": lambda data: zlib.compress(b"tree 0\0"),
    "of no known type": lambda data: zlib.compress(b"thing 0\0"),
    "says it is huge": lambda data: zlib.compress(b"blob 999999999999\0abc"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_object_is_a_mismatch_and_hides_no_other(tiny, repository, name):
    for path in (GOLD[0], TRACES[0]):
        object = loose(repository, tiny.pin.files[path].blob)
        object.write_bytes(DAMAGES[name](object.read_bytes()))
    source = open_source(repository, tiny.pin)
    with pytest.raises(PinMismatch) as caught:
        read_needed(source, tiny.pin)
    assert caught.value.where == TRACES[0] and GOLD[0] in caught.value.got
    assert tiny.pin.files[TRACES[0]].blob in caught.value.expected
    rest = [path for path in NEEDED if path not in (GOLD[0], TRACES[0])]
    assert list(read_verified(source, tiny.pin, rest).files) == rest


def test_an_object_that_is_no_file_is_refused_even_unverified(tiny, repository):
    loose(repository, tiny.pin.files[GOLD[0]].blob).write_bytes(zlib.compress(b"tree 0\0"))
    with pytest.raises(PinMismatch, match="the object is no file"):
        read_verified(open_source(repository, tiny.pin), tiny.pin, GOLD, unpinned=True)


def test_an_object_over_the_limit_is_refused(tiny, monkeypatch):
    source = open_source(tiny.repository, tiny.pin)
    monkeypatch.setattr(git_source, "LARGEST", 40)
    with pytest.raises(PinMismatch, match="too large") as caught:
        read_needed(source, tiny.pin)
    assert caught.value.where == TRACES[0]
    assert read_verified(source, tiny.pin, [SCORER, TRACES[1]]).files


def test_a_repository_without_the_commit(tiny, tmp_path):
    git("init", "--quiet", tmp_path / "other")
    with pytest.raises(NothingToCheck, match="lacks the pinned commit") as caught:
        open_source(tmp_path / "other", tiny.pin)
    assert tiny.commit in caught.value.expected and tiny.commit in caught.value.next_step
    assert caught.value.exit_code == 2


def test_a_repository_of_the_other_object_format(tiny, tmp_path):
    git("init", "--quiet", "--object-format=sha256", tmp_path / "other")
    with pytest.raises(NothingToCheck, match="lacks the pinned commit"):
        open_source(tmp_path / "other", tiny.pin)


def test_a_repository_without_the_commit_but_with_the_files_is_a_folder(tiny, tmp_path):
    make_repository(tmp_path / "own", {**FILES, "more": b"1"})
    source = open_source(tmp_path / "own", tiny.pin)
    assert source.kind == "folder"
    assert read_needed(source, tiny.pin).missing == ()


def test_a_commit_of_another_tree(tiny):
    with pytest.raises(PinMismatch) as caught:
        open_source(tiny.repository, replace(tiny.pin, tree="0" * 40))
    assert caught.value.expected == f"tree {'0' * 40}" and caught.value.got == f"tree {tiny.pin.tree}"


@pytest.mark.parametrize(
    "forge", [lambda body: b"commit %d\0%s" % (len(body), body), lambda body: b"blob %d\0%s" % (len(body), body)]
)
def test_a_forged_commit(tiny, repository, forge):
    body = f"tree {tiny.pin.tree}\n\nsomething else\n".encode()
    loose(repository, tiny.commit).write_bytes(zlib.compress(forge(body)))
    with pytest.raises(PinMismatch) as caught:
        open_source(repository, tiny.pin)
    assert tiny.commit in caught.value.expected + caught.value.got


def test_no_git_on_the_machine(tiny, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NothingToCheck, match="git is not installed"):
        open_source(tiny.repository / ".git", tiny.pin)


def test_git_processes_and_their_folders_are_gone_afterwards(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    unfinished = open_source(tiny.repository, tiny.pin).read(NEEDED)
    next(unfinished)
    unfinished.close()
    assert list(tmp_path.iterdir()) == []
