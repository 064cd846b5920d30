"""Sources: every kind reads the same bytes, nothing unverified passes, nothing outside is touched."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from traceaudit import folder_source, git_source, reading
from traceaudit.errors import NothingToCheck, PinMismatch, UsageError
from traceaudit.pins import git_object_id, load_pin
from traceaudit.sources import cache_dir, cached_source, find_source, is_remote, open_source, pin_cache, read_verified
from traceaudit.trail import pin as trail_pin

from .sources_support import (
    FILES,
    GOLD,
    NEEDED,
    NO_SHARED,
    SCORER,
    SHARED,
    TRACES,
    flipped,
    git,
    make_repository,
    make_tiny,
    member,
    write_archive,
    write_files,
    write_pin,
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def repository(tiny, tmp_path):
    """A copy of the repository that a test may damage."""
    return shutil.copytree(tiny.repository, tmp_path / "repository")


def loose(repository: Path, id: str) -> Path:
    path = repository / ".git" / "objects" / id[:2] / id[2:]
    path.chmod(0o644)
    return path


def read_all(source, pin):
    return read_verified(source, pin, NEEDED)


# --- every kind of source hands over the same bytes -------------------------------------------------------------------


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
        lambda tiny, place: _with_archive(place, [member(path, FILES[path]) for path in TRACES]),
        "folder",
    ),
}


def _with_archive(place, members, *, without=TRACES):
    write_files(place, {path: data for path, data in FILES.items() if path not in without})
    write_archive(place / "traces.tar.xz", members)
    return place


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_gives_the_pinned_bytes(tiny, tmp_path, name):
    make, kind = KINDS[name]
    place = make(tiny, tmp_path / "place")
    before = sorted(tmp_path.rglob("*"))
    source = open_source(place, tiny.pin)
    found = read_all(source, tiny.pin)
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
    assert read_all(open_source(spec(tiny.repository), tiny.pin), tiny.pin).missing == ()


# --- git --------------------------------------------------------------------------------------------------------------


def test_nothing_of_the_callers_git_counts(tiny, tmp_path, monkeypatch):
    (tmp_path / ".gitconfig").write_text("[broken")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_GLOBAL", "GIT_CEILING_DIRECTORIES", "GIT_NAMESPACE"):
        monkeypatch.setenv(name, "/nowhere")
    assert read_all(open_source(tiny.repository, tiny.pin), tiny.pin).missing == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_repository_of_somebody_else(tiny, repository):
    for path in [repository, *repository.rglob("*")]:
        os.chown(path, 12345, 12345)
    refused = subprocess.run(["git", "log"], cwd=repository, capture_output=True, text=True, check=False)
    assert "dubious ownership" in refused.stderr  # git alone would not
    assert read_all(open_source(repository, tiny.pin), tiny.pin).missing == ()


def test_a_partial_clone_fetches_nothing(tiny, tmp_path):
    clone = tmp_path / "partial"
    git("clone", "--quiet", "--filter=blob:none", "--no-checkout", tiny.address, clone)
    blob = tiny.pin.files[GOLD[0]].blob
    before = sorted((clone / ".git/objects").rglob("*"))
    source = open_source(clone, tiny.pin)
    found = read_all(source, tiny.pin)
    assert found.files == {} and found.missing == NEEDED
    assert source.names() == frozenset()
    assert sorted((clone / ".git/objects").rglob("*")) == before
    assert git("cat-file", "-p", blob, cwd=clone)  # plain git would have fetched it
    assert sorted((clone / ".git/objects").rglob("*")) != before


def test_replace_refs_are_ignored(tiny, repository):
    old, new = tiny.pin.files[GOLD[0]].blob, tiny.pin.files[GOLD[1]].blob
    git("replace", old, new, cwd=repository)
    assert git("cat-file", "-p", old, cwd=repository) == FILES[GOLD[1]].decode().strip()  # plain git follows it
    assert read_all(open_source(repository, tiny.pin), tiny.pin).files[GOLD[0]] == FILES[GOLD[0]]


def test_a_blob_that_is_not_there_is_missing(tiny, repository):
    for path in (TRACES[1], GOLD[0]):
        loose(repository, tiny.pin.files[path].blob).unlink()
    source = open_source(repository, tiny.pin)
    found = read_all(source, tiny.pin)
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
        read_all(source, tiny.pin)
    assert caught.value.where == TRACES[0] and GOLD[0] in caught.value.got
    assert tiny.pin.files[TRACES[0]].blob in caught.value.expected
    rest = [path for path in NEEDED if path not in (GOLD[0], TRACES[0])]
    assert list(read_verified(source, tiny.pin, rest).files) == rest


def test_an_object_over_the_limit_is_refused(tiny, monkeypatch):
    source = open_source(tiny.repository, tiny.pin)
    monkeypatch.setattr(git_source, "LARGEST", 40)
    with pytest.raises(PinMismatch, match="too large") as caught:
        read_all(source, tiny.pin)
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
    assert read_all(source, tiny.pin).missing == ()


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


# --- folders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", NEEDED)
@pytest.mark.parametrize("packed", [False, True])
def test_one_flipped_byte(tiny, tmp_path, path, packed):
    changed = flipped(FILES[path], 3)
    if packed:
        place = _with_archive(tmp_path / "place", [member(path, changed)], without=(path,))
    else:
        place = write_files(tmp_path / "place", FILES | {path: changed})
    with pytest.raises(PinMismatch) as caught:
        read_all(open_source(place, tiny.pin), tiny.pin)
    error = caught.value
    assert (error.where, error.exit_code) == (path, 1)
    assert tiny.pin.files[path].blob in error.expected
    assert git_object_id("blob", changed) in error.got


def test_all_mismatches_come_in_one_error(tiny, tmp_path):
    place = write_files(tmp_path / "place", FILES | {GOLD[1]: b"x", SCORER: b"y"})
    (place / GOLD[0]).unlink()
    (place / GOLD[0]).symlink_to("/etc/hostname")
    with pytest.raises(PinMismatch) as caught:
        read_all(open_source(place, tiny.pin), tiny.pin)
    assert caught.value.where == GOLD[0]
    assert "2 further files" in caught.value.what
    assert all(path in caught.value.got for path in (GOLD[1], SCORER))


def test_missing_files_are_named_in_the_order_asked(tiny, tmp_path):
    place = tiny.folder(tmp_path / "place", without=(SCORER, TRACES[0]))
    source = open_source(place, tiny.pin)
    found = read_verified(source, tiny.pin, [SCORER, *GOLD, *TRACES, GOLD[0]])
    assert found.missing == (SCORER, TRACES[0])
    assert list(found.files) == [*GOLD, TRACES[1]]
    assert source.names() == set(FILES) - {SCORER, TRACES[0]}


def test_a_path_that_is_not_pinned(tiny):
    with pytest.raises(PinMismatch, match="no pinned file"):
        read_verified(open_source(tiny.repository, tiny.pin), tiny.pin, [GOLD[0], "bench/other"])


def _link_out(place, path, tmp_path):
    (tmp_path / "outside").write_bytes(FILES[path])
    (place / path).symlink_to(tmp_path / "outside")


def _link_folder_out(place, path, tmp_path):
    shutil.move(place / "bench/gold", tmp_path / "gold")
    (tmp_path / "gold/a.json").write_bytes(FILES[path])
    (place / "bench/gold").symlink_to(tmp_path / "gold")


EVIL_FILES = {
    "a link that leaves the folder, though to the right bytes": (_link_out, "leaves the folder"),
    "a folder that is such a link": (_link_folder_out, "leaves the folder"),
    "a link to nowhere": (lambda place, path, _: (place / path).symlink_to("nowhere"), "link to nowhere"),
    "a link to itself": (lambda place, path, _: (place / path).symlink_to("a.json"), "cannot be read"),
    "a named pipe, which would block": (lambda place, path, _: os.mkfifo(place / path), "not an ordinary file"),
    "a folder": (lambda place, path, _: (place / path).mkdir(), "cannot be read"),
}


@pytest.mark.parametrize("name", EVIL_FILES)
def test_evil_files_are_refused(tiny, tmp_path, name):
    make, message = EVIL_FILES[name]
    place = tiny.folder(tmp_path / "place", without=(GOLD[0],))
    make(place, GOLD[0], tmp_path)
    for unpinned in (False, True):
        with pytest.raises(PinMismatch, match=message) as caught:
            read_verified(open_source(place, tiny.pin), tiny.pin, GOLD, unpinned=unpinned)
        assert GOLD[0] in str(caught.value)


def test_a_link_inside_the_folder_is_fine(tiny, tmp_path):
    place = tiny.folder(tmp_path / "place")
    (place / GOLD[0]).rename(place / "elsewhere")
    (place / GOLD[0]).symlink_to("../../elsewhere")
    assert read_all(open_source(place, tiny.pin), tiny.pin).missing == ()


def test_a_file_over_the_limit_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_source, "LARGEST", 40)
    source = open_source(tiny.folder(tmp_path / "place"), tiny.pin)
    with pytest.raises(PinMismatch, match="too large"):
        read_all(source, tiny.pin)
    assert read_verified(source, tiny.pin, [SCORER]).files


# --- the archive beside -----------------------------------------------------------------------------------------------


def big(name):
    return member(name, b"\0" * 5000)


EVIL_MEMBERS = {  # members beside an honest one: the message, None for "just not there"
    "a symbolic link": ([member(TRACES[0], type=tarfile.SYMTYPE, linkname="/etc/passwd")], "no ordinary file"),
    "a hard link": ([member(TRACES[0], type=tarfile.LNKTYPE, linkname=TRACES[1])], "no ordinary file"),
    "a named pipe": ([member(TRACES[0], type=tarfile.FIFOTYPE)], "no ordinary file"),
    "a folder": ([member(TRACES[0], type=tarfile.DIRTYPE)], "no ordinary file"),
    "the same file twice": ([member(TRACES[0], FILES[TRACES[0]]), member(TRACES[0], b"other")], "twice"),
    "a link first, the file after it": (
        [member(TRACES[0], type=tarfile.SYMTYPE, linkname="x"), member(TRACES[0], FILES[TRACES[0]])],
        "no ordinary file",
    ),
    "a name that climbs out": ([member(f"../{TRACES[0]}", b"x")], None),
    "a name that climbs out and in": ([member(f"bench/../{TRACES[0]}", b"x")], None),
    "an absolute name": ([member(f"/{TRACES[0]}", b"x")], None),
    "a name with a dot in front": ([member(f"./{TRACES[0]}", b"x")], None),
    "a file of no pinned name": ([member("bench/data/One Split/c.json", b"x")], None),
    "a file over the limit": ([big(TRACES[0])], "too large"),
    "the wrong bytes": ([member(TRACES[0], b"x")], "differ from their pin"),
}


@pytest.mark.parametrize("name", EVIL_MEMBERS)
def test_evil_members(tiny, tmp_path, monkeypatch, name):
    members, message = EVIL_MEMBERS[name]
    monkeypatch.setattr(folder_source, "LARGEST", 4000)
    place = _with_archive(tmp_path / "place", [*members, member(TRACES[1], FILES[TRACES[1]])])
    before = sorted(tmp_path.rglob("*"))
    source = open_source(place, tiny.pin)
    if message is None:
        assert read_all(source, tiny.pin).missing == (TRACES[0],)
        assert source.names() == set(FILES) - {TRACES[0]}
    else:
        with pytest.raises(PinMismatch, match=message) as caught:
            read_all(source, tiny.pin)
        assert caught.value.where == TRACES[0]
    assert sorted(tmp_path.rglob("*")) == before


def test_the_folder_comes_before_the_archive(tiny, tmp_path):
    place = _with_archive(tmp_path / "place", [member(path, b"wrong") for path in FILES], without=())
    assert read_all(open_source(place, tiny.pin), tiny.pin).missing == ()


def _archive_bytes():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:xz") as archive:
        for path in TRACES:
            archive.addfile(member(path, FILES[path])[0], io.BytesIO(FILES[path]))
    return stream.getvalue()


DAMAGED_ARCHIVES = {
    "empty": b"",
    "no archive": b"rubbish" * 100,
    "torn": _archive_bytes()[:-100],
    "one byte flipped": flipped(_archive_bytes(), len(_archive_bytes()) // 2),
    "packed, but no tar": __import__("lzma").compress(b"rubbish" * 1000),
    "a tar, but not packed with xz": zlib.compress(_archive_bytes()),
    "a tar that ends in the middle of a file": __import__("lzma").compress(
        member(TRACES[0], b"x" * 5000)[0].tobuf() + b"x"
    ),
}


@pytest.mark.parametrize("name", DAMAGED_ARCHIVES)
def test_damaged_archives(tiny, tmp_path, name):
    place = tiny.folder(tmp_path / "place", without=TRACES)
    (place / "traces.tar.xz").write_bytes(DAMAGED_ARCHIVES[name])
    source = open_source(place, tiny.pin)
    for use in (lambda: read_all(source, tiny.pin), source.names):
        with pytest.raises(PinMismatch, match="damaged") as caught:
            use()
        assert caught.value.where == "traces.tar.xz"
    assert read_verified(source, tiny.pin, GOLD).missing == ()  # what lies loose needs no archive


def test_an_archive_that_unpacks_to_too_much(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_source, "UNPACKED", 100_000)
    place = _with_archive(tmp_path / "place", [member("zeros", b"\0" * 1_000_000)])
    assert (place / "traces.tar.xz").stat().st_size < 2000
    for use in (lambda source: read_all(source, tiny.pin), lambda source: source.names()):
        with pytest.raises(PinMismatch, match="too large"):
            use(open_source(place, tiny.pin))


def test_an_archive_that_is_a_link_out_of_the_folder(tiny, tmp_path):
    place = _with_archive(tmp_path / "place", [member(path, FILES[path]) for path in TRACES])
    shutil.move(place / "traces.tar.xz", tmp_path / "outside")
    (place / "traces.tar.xz").symlink_to(tmp_path / "outside")
    with pytest.raises(PinMismatch, match="leaves the folder"):
        read_all(open_source(place, tiny.pin), tiny.pin)


# --- what is no source ------------------------------------------------------------------------------------------------


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


# --- which source is taken --------------------------------------------------------------------------------------------


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


# --- unpinned ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_unpinned_reading_takes_what_is_there(tiny, tmp_path, packed):
    other = {GOLD[0]: b"not JSON", "bench/gold/c.json": b"{}", "bench/gold/notes.txt": b"x"}
    if packed:
        place = _with_archive(tmp_path / "place", [member(path, data) for path, data in other.items()], without=GOLD)
    else:
        place = tiny.folder(tmp_path / "place", without=GOLD)
        write_files(place, other)
    found = read_verified(open_source(place, tiny.pin), tiny.pin, GOLD, unpinned=True)
    assert found.files == {GOLD[0]: b"not JSON", "bench/gold/c.json": b"{}"}
    assert found.missing == (GOLD[1],)


def test_unpinned_reading_of_git_is_still_the_pinned_commit(tiny):
    found = read_verified(open_source(tiny.repository, tiny.pin), tiny.pin, [SCORER, *GOLD], unpinned=True)
    assert list(found.files) == [SCORER, *GOLD]


def test_unpinned_reading_of_one_file_that_is_not_json_takes_no_neighbours(tiny, tmp_path):
    place = tiny.folder(tmp_path / "place")
    write_files(place, {"bench/other.py": b"x"})
    assert list(read_verified(open_source(place, tiny.pin), tiny.pin, [SCORER], unpinned=True).files) == [SCORER]


def test_unpinned_reading_of_a_very_long_file(tiny, tmp_path):
    place = write_files(tmp_path / "place", {GOLD[0]: b'"' + b"x" * 50_000_000 + b'"'})
    found = read_verified(open_source(place, tiny.pin), tiny.pin, GOLD, unpinned=True)
    assert len(found.files[GOLD[0]]) == 50_000_002


# --- the survey -------------------------------------------------------------------------------------------------------


def test_survey_counts_and_digests(tiny, tmp_path):
    whole = reading.survey(open_source(tiny.repository, tiny.pin), tiny.pin)
    assert (len(whole.verified), whole.missing, whole.corpus) == (6, (), tiny.pin.corpus.digest)
    part = reading.survey(open_source(tiny.folder(tmp_path / "p", without=(GOLD[0], "README.md")), tiny.pin), tiny.pin)
    assert part.missing == (GOLD[0],)  # the read-me is not needed
    assert part.corpus is None


def test_survey_holds_the_corpus_digest(tiny, tmp_path):
    corpus = '{ digest = "' + "0" * 64 + '", files = 4, bytes = 0, directories = ["bench/data", "bench/gold"] }'
    pin = load_pin(write_pin(tmp_path / "pins", FILES, tiny.commit, "x", corpus=corpus))
    with pytest.raises(PinMismatch, match="corpus digest") as caught:
        reading.survey(open_source(tiny.repository, tiny.pin), pin)
    assert caught.value.expected == "0" * 64 and caught.value.got == tiny.pin.corpus.digest


# --- the real data ----------------------------------------------------------------------------------------------------

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=NO_SHARED)


@pytest.fixture(scope="module")
def trail():
    return trail_pin.load()


@pytest.mark.real
@needs_shared
def test_the_real_folder_holds_all_gold_and_the_traces_in_its_archive(trail):
    source = open_source(SHARED, trail.pin)
    gold = [path for split in trail.splits for path in trail.gold_paths(split)]
    traces = [path for split in trail.splits for path in trail.trace_paths(split)]
    found = read_verified(source, trail.pin, [*gold, *traces, trail.scorer_path])
    assert sum(path in found.files for path in gold) == 148
    assert sum(path in found.files for path in traces) == 139
    assert found.missing[-1] == trail.scorer_path and len(found.missing) == 10
    assert all(trail.pin.files[path].size is None for path in found.missing[:-1])  # the nine over 4 MiB
    assert source.names() == set(found.files)


@pytest.mark.real
@needs_shared
@pytest.mark.parametrize("at", [0, 1000, -1])
def test_one_flipped_byte_in_the_real_gold(trail, tmp_path, at):
    place = tmp_path / "place"
    shutil.copytree(SHARED / "benchmarking", place / "benchmarking")
    path = trail.gold_paths("gaia")[7]
    (place / path).chmod(0o644)
    (place / path).write_bytes(flipped((place / path).read_bytes(), at))
    gold = [path for split in trail.splits for path in trail.gold_paths(split)]
    with pytest.raises(PinMismatch) as caught:
        read_verified(open_source(place, trail.pin), trail.pin, gold)
    assert caught.value.where == path
    assert trail.pin.files[path].blob in caught.value.expected


@pytest.mark.real
@needs_shared
def test_the_real_gold_from_git_objects(trail, tmp_path):
    gold = {path: (SHARED / path).read_bytes() for split in trail.splits for path in trail.gold_paths(split)}
    commit = make_repository(tmp_path / "repository", gold)
    tree = git("rev-parse", "HEAD^{tree}", cwd=tmp_path / "repository")
    pin = replace(trail.pin, commit=commit, tree=tree)  # the real blob ids at a commit of our own
    source = open_source(tmp_path / "repository", pin)
    assert source.kind == "git"
    assert read_verified(source, pin, gold).files == gold
    assert len(source.names()) == 148
