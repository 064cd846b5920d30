"""Sources: every kind reads the same bytes, and which one is taken."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from traceaudit.errors import NothingToCheck, UsageError
from traceaudit.sources import cache_dir, cached_source, find_source, is_remote, open_source, pin_cache

from .sources_support import (
    FILES,
    GOLD,
    NEEDED,
    TRACES,
    git,
    make_tiny,
    member,
    read_needed,
    with_archive,
    write_files,
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"))


def _bare(tiny, place):
    git("clone", "--quiet", "--bare", tiny.repository, place)
    return place


def _worktree(tiny, place):
    clone = place.with_name("clone")
    git("clone", "--quiet", tiny.repository, clone)
    git("worktree", "add", "--quiet", place, "HEAD", cwd=clone)
    return place


def _shared_clone(tiny, place):
    git("clone", "--quiet", "--shared", tiny.repository, place)
    assert (place / ".git/objects/info/alternates").is_file()
    return place


def _packed(tiny, place):
    git("clone", "--quiet", tiny.address, place)
    git("gc", "--quiet", cwd=place)
    return place


def _later(tiny, place):
    """The pinned commit is not the newest one, and the files checked out are others."""
    git("clone", "--quiet", tiny.repository, place)
    (place / GOLD[0]).write_bytes(b"changed")
    git("commit", "--quiet", "--all", "-m", "later", cwd=place)
    return place


def _unreadable_settings(tiny, place):
    git("clone", "--quiet", tiny.repository, place)
    (place / ".git/config").write_text("[[[ this is no configuration")
    return place


def _no_settings(tiny, place):
    git("clone", "--quiet", "--bare", tiny.repository, place)
    (place / "config").unlink()
    return place


KINDS = {  # how the source is made: its kind
    "the repository itself": (lambda tiny, place: tiny.repository, "git"),
    "its .git folder": (lambda tiny, place: tiny.repository / ".git", "git"),
    "a bare repository": (_bare, "git"),
    "a worktree, whose .git is a file": (_worktree, "git"),
    "that .git file": (lambda tiny, place: _worktree(tiny, place) / ".git", "git"),
    "a clone that borrows objects": (_shared_clone, "git"),
    "a packed clone": (_packed, "git"),
    "a clone that moved on": (_later, "git"),
    "a repository with unreadable settings": (_unreadable_settings, "git"),
    "a repository without settings": (_no_settings, "git"),
    "a plain folder": (lambda tiny, place: write_files(place, FILES), "folder"),
    "a folder and an archive": (
        lambda tiny, place: with_archive(place, [member(path, FILES[path]) for path in TRACES]),
        "folder",
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_gives_the_pinned_bytes(tiny, tmp_path, name):
    make, kind = KINDS[name]
    place = make(tiny, tmp_path / "place")
    before = sorted(tmp_path.rglob("*"))
    source = open_source(place, tiny.pin)
    found = read_needed(source, tiny.pin)
    assert source.kind == kind
    assert dict(found.files) == {path: FILES[path] for path in NEEDED}
    assert tuple(found.files) == NEEDED  # in the order asked
    assert found.missing == ()
    assert source.names() == set(FILES)
    assert source.listing("bench/gold") == GOLD
    assert source.listing("bench/data/One Split") == TRACES
    assert source.listing("bench/nothing") == ()
    assert str(tmp_path) not in source.label and str(place) in str(source)
    assert sorted(tmp_path.rglob("*")) == before  # nothing written, nothing unpacked


@pytest.mark.parametrize("spec", [str, Path, lambda path: os.path.relpath(path)])
def test_a_place_may_be_given_as_text_path_or_relative(tiny, spec):
    assert read_needed(open_source(spec(tiny.repository), tiny.pin), tiny.pin).missing == ()


def _file(place):
    place.write_text("x")
    return place


def _made(place, *names):
    for name in names:
        (place / name).mkdir(parents=True)
    place.mkdir(exist_ok=True)
    return place


NO_SOURCES = {
    "nothing there": (lambda place: place, "no such folder"),
    "a file": (_file, "not a folder"),
    "an empty folder": (_made, "upstream layout"),
    "another folder": (lambda place: _made(place, "src", "docs"), "upstream layout"),
    "the first folder of the layout alone": (lambda place: _made(place, "bench"), "upstream layout"),
    "the folder below the right one": (lambda place: _made(place / "bench", "gold"), "give the folder above"),
    "a path with a zero byte": (lambda place: "x\0y", "no such folder"),
    "an unknown user's home": (lambda place: "~no-such-user-here/x", "no such folder"),
    "a .git file that points nowhere": (
        lambda place: _file_with(_made(place) / ".git", "gitdir: /nowhere\n"),
        "upstream layout",
    ),
}


def _file_with(path, text):
    path.write_text(text)
    return path.parent


@pytest.mark.parametrize("name", NO_SOURCES)
def test_what_is_no_source(tiny, tmp_path, name):
    make, message = NO_SOURCES[name]
    with pytest.raises(NothingToCheck, match=message) as caught:
        open_source(make(tmp_path / "place"), tiny.pin)
    assert caught.value.exit_code == 2
    assert caught.value.expected and caught.value.next_step


ADDRESSES = {  # text: is it an address?
    "https://example.invalid/x.git": True,
    "file:///tmp/x": True,
    "ssh://host/x": True,
    "host:path/x.git": True,
    "user@host:x": True,
    "/tmp/a:b": False,
    "./a:b": False,
    "C:\\data": False,
    "folder": False,
    "": False,
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_is_remote(text):
    assert is_remote(text) == ADDRESSES[text]


def test_a_folder_with_a_colon_in_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("host:path").mkdir()
    assert not is_remote("host:path")


def test_an_address_is_no_source(tiny):
    with pytest.raises(UsageError, match="traceaudit fetch --source") as caught:
        open_source("https://name:secret@example.invalid/x.git", tiny.pin)
    assert caught.value.exit_code == 64
    assert "secret" not in str(caught.value)


def fill_cache(tiny, environ, name="folder-0a", files=FILES):
    home = pin_cache(tiny.pin, environ)
    write_files(home / name, files)
    (home / "current").write_text(name + "\n")
    return home


@pytest.mark.parametrize(
    ("given", "variable", "cached", "taken"),
    [
        (True, True, True, "given"),  # the given one first
        (False, True, True, "variable"),
        (False, False, True, "cache"),
        (False, False, False, None),
        ("", "", False, None),  # an empty text is none
        ("", True, True, "variable"),
        (None, "", True, "cache"),
    ],
)
def test_order_of_sources(tiny, tmp_path, given, variable, cached, taken):
    environ = {"TRACEAUDIT_CACHE": str(tmp_path / "cache")}
    if cached:
        fill_cache(tiny, environ)
    if variable is not False:
        environ["TRACEAUDIT_SOURCE"] = str(tiny.folder(tmp_path / "variable")) if variable else ""
    spec = str(tiny.folder(tmp_path / "given")) if given else given or None
    found = find_source(spec, tiny.pin, environ=environ)
    if taken is None:
        assert found is None
    else:
        assert taken in found.place
        assert found.kind == ("cache" if taken == "cache" else "folder")


def test_a_source_that_is_given_and_unusable_is_not_passed_over(tiny, tmp_path):
    environ = {"TRACEAUDIT_CACHE": str(tmp_path / "cache")}
    fill_cache(tiny, environ)
    with pytest.raises(NothingToCheck):
        find_source(str(tmp_path / "nothing"), tiny.pin, environ=environ)
    with pytest.raises(NothingToCheck):
        find_source(None, tiny.pin, environ=environ | {"TRACEAUDIT_SOURCE": str(tmp_path / "nothing")})


@pytest.mark.parametrize(
    "name", ["../folder-0a", "/tmp", "folder-0a/..", "partial-1", "", "folder-none", "x\0", "\udcff"]
)
def test_a_cache_note_that_names_no_folder_of_the_cache(tiny, tmp_path, name):
    environ = {"TRACEAUDIT_CACHE": str(tmp_path / "cache")}
    home = fill_cache(tiny, environ)
    write_files(home / "partial-1", FILES)
    write_files(home.parent / "folder-0a", FILES)
    (home / "current").write_bytes(name.encode("utf-8", "surrogateescape"))
    assert cached_source(tiny.pin, environ) is None


def test_another_commit_does_not_meet_the_cache_of_this_one(tiny, tmp_path):
    environ = {"TRACEAUDIT_CACHE": str(tmp_path / "cache")}
    fill_cache(tiny, environ)
    assert cached_source(replace(tiny.pin, commit="0" * 40), environ) is None


def test_cache_dir(tmp_path, monkeypatch):
    assert cache_dir({"TRACEAUDIT_CACHE": str(tmp_path)}) == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for environ in ({}, {"TRACEAUDIT_CACHE": ""}):
        assert cache_dir(environ).name == "traceaudit"
