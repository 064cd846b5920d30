"""A folder as a source, with an archive beside: nothing outside is read, nothing is unpacked to disk."""

from __future__ import annotations

import io
import lzma
import os
import shutil
import tarfile
import zlib

import pytest

from traceaudit import folder_source
from traceaudit.errors import PinMismatch
from traceaudit.pins import git_object_id
from traceaudit.sources import open_source, read_verified

from .sources_support import (
    FILES,
    GOLD,
    NEEDED,
    SCORER,
    TRACES,
    flipped,
    make_tiny,
    member,
    read_needed,
    with_archive,
    write_files,
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("path", NEEDED)
@pytest.mark.parametrize("packed", [False, True])
def test_one_flipped_byte(tiny, tmp_path, path, packed):
    changed = flipped(FILES[path], 3)
    if packed:
        place = with_archive(tmp_path / "place", [member(path, changed)], without=(path,))
    else:
        place = write_files(tmp_path / "place", FILES | {path: changed})
    with pytest.raises(PinMismatch) as caught:
        read_needed(open_source(place, tiny.pin), tiny.pin)
    error = caught.value
    assert (error.where, error.exit_code) == (path, 1)
    assert tiny.pin.files[path].blob in error.expected
    assert git_object_id("blob", changed) in error.got


def test_all_mismatches_come_in_one_error(tiny, tmp_path):
    place = write_files(tmp_path / "place", FILES | {GOLD[1]: b"x", SCORER: b"y"})
    (place / GOLD[0]).unlink()
    (place / GOLD[0]).symlink_to("/etc/hostname")
    with pytest.raises(PinMismatch) as caught:
        read_needed(open_source(place, tiny.pin), tiny.pin)
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
    assert read_needed(open_source(place, tiny.pin), tiny.pin).missing == ()


def test_a_file_over_the_limit_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_source, "LARGEST", 40)
    source = open_source(tiny.folder(tmp_path / "place"), tiny.pin)
    with pytest.raises(PinMismatch, match="too large"):
        read_needed(source, tiny.pin)
    assert read_verified(source, tiny.pin, [SCORER]).files


# --- the archive beside ---


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
    place = with_archive(tmp_path / "place", [*members, member(TRACES[1], FILES[TRACES[1]])])
    before = sorted(tmp_path.rglob("*"))
    source = open_source(place, tiny.pin)
    if message is None:
        assert read_needed(source, tiny.pin).missing == (TRACES[0],)
        assert source.names() == set(FILES) - {TRACES[0]}
    else:
        with pytest.raises(PinMismatch, match=message) as caught:
            read_needed(source, tiny.pin)
        assert caught.value.where == TRACES[0]
    assert sorted(tmp_path.rglob("*")) == before


def test_the_folder_comes_before_the_archive(tiny, tmp_path):
    place = with_archive(tmp_path / "place", [member(path, b"wrong") for path in FILES], without=())
    assert read_needed(open_source(place, tiny.pin), tiny.pin).missing == ()


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
    "packed, but no tar": lzma.compress(b"rubbish" * 1000),
    "a tar, but not packed with xz": zlib.compress(_archive_bytes()),
    "a tar that ends in the middle of a file": lzma.compress(member(TRACES[0], b"x" * 5000)[0].tobuf() + b"x"),
}


@pytest.mark.parametrize("name", DAMAGED_ARCHIVES)
def test_damaged_archives(tiny, tmp_path, name):
    place = tiny.folder(tmp_path / "place", without=TRACES)
    (place / "traces.tar.xz").write_bytes(DAMAGED_ARCHIVES[name])
    source = open_source(place, tiny.pin)
    for use in (lambda: read_needed(source, tiny.pin), source.names):
        with pytest.raises(PinMismatch, match="damaged") as caught:
            use()
        assert caught.value.where == "traces.tar.xz"
    assert read_verified(source, tiny.pin, GOLD).missing == ()  # what lies loose needs no archive


def test_an_archive_that_unpacks_to_too_much(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_source, "UNPACKED", 100_000)
    place = with_archive(tmp_path / "place", [member("zeros", b"\0" * 1_000_000)])
    assert (place / "traces.tar.xz").stat().st_size < 2000
    for use in (lambda source: read_needed(source, tiny.pin), lambda source: source.names()):
        with pytest.raises(PinMismatch, match="too large"):
            use(open_source(place, tiny.pin))


def test_an_archive_that_is_a_link_out_of_the_folder(tiny, tmp_path):
    place = with_archive(tmp_path / "place", [member(path, FILES[path]) for path in TRACES])
    shutil.move(place / "traces.tar.xz", tmp_path / "outside")
    (place / "traces.tar.xz").symlink_to(tmp_path / "outside")
    with pytest.raises(PinMismatch, match="leaves the folder"):
        read_needed(open_source(place, tiny.pin), tiny.pin)
