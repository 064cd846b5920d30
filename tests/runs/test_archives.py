"""Archives of captures: the same bytes for the same captures, and archives that want to do harm."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceaudit.runs.archives import (
    BadArchiveError,
    IndexEntry,
    Limits,
    captures_digest,
    entry_of,
    member_name,
    pack,
    unpack,
)
from traceaudit.runs.state import INDEX, import_state, verify_state

from .made_captures import ONE, TWO, file, put, tar_of, tree, whats


@given(st.dictionaries(st.integers(0, 99_999), st.binary(max_size=1500), max_size=6))
def test_a_round_trip_gives_the_same_captures_and_bytes(captures):
    data = pack(captures)
    assert unpack(data) == captures
    assert pack(dict(reversed(captures.items()))) == data
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:  # and anything else can read it
        members = archive.getmembers()
        assert {m.name: archive.extractfile(m).read() for m in members} == {
            member_name(index): data for index, data in captures.items()
        }
    assert [m.name for m in members] == [member_name(index) for index in sorted(captures)]
    assert all((m.mtime, m.mode, m.uid, m.gid, m.uname, m.gname) == (0, 0o644, 0, 0, "", "") for m in members)


def test_the_form_is_pinned():
    plain = gzip.decompress(pack(ONE))
    assert hashlib.sha256(plain).hexdigest() == "2fd755a5a79fbddc9d42a75c076b7d4e3ec4f7b5026cfbff709915b9f58b43f5"
    head = pack(ONE)[:10]
    assert head == b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"  # no name, time 0, level 9, no system


def test_the_archive_is_gnu_tar(tmp_path):
    put(tmp_path, ONE)
    names = [member_name(index) for index in sorted(ONE)]
    call = [
        "tar",
        "--format=gnu",
        "--mtime=@0",
        "--mode=0644",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "-cf",
        "-",
        *names,
    ]
    try:
        made = subprocess.run(call, cwd=tmp_path, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no GNU tar here")
    assert made == gzip.decompress(pack(ONE))


def test_the_digest_is_that_of_the_facts():
    assert captures_digest({2: b"ab", 0: b""}) == hashlib.sha256(b"0 0\n2 2\nab").hexdigest()
    assert captures_digest({0: b"1 0\n"}) != captures_digest({0: b"", 1: b""})


@pytest.mark.parametrize("index", [-1, 10**9])
def test_what_cannot_be_packed(index):
    with pytest.raises(BadArchiveError):
        pack({index: b""})


GOOD = file("step_0000.diff")
HOSTILE = [  # the tar file, what is said
    (tar_of(file("../step_0000.diff")), "another name"),
    (tar_of(file("/etc/step_0000.diff")), "another name"),
    (tar_of(file("./step_0000.diff")), "another name"),
    (tar_of(file("a/step_0000.diff")), "another name"),
    (tar_of(file("step_0000.diff/../../x")), "another name"),
    (tar_of(file("step_0.diff")), "another name"),
    (tar_of(file("step_00000.diff")), "another name"),  # the same step under a second name
    (tar_of(file("step_0000.diff\n")), "another name"),
    (tar_of(file("step_\u0661\u0662\u0663\u0664.diff")), "another name"),
    (tar_of(file("step_0000.DIFF")), "another name"),
    (tar_of(file("")), "another name"),
    (tar_of(GOOD, file("index.json")), "another name"),
    (tar_of(GOOD, GOOD), "twice"),
    (tar_of(("step_0000.diff", tarfile.SYMTYPE, b"", "/etc/passwd")), "a symbolic link"),
    (tar_of(("step_0000.diff", tarfile.LNKTYPE, b"", "step_0001.diff")), "a hard link"),
    (tar_of(("step_0000.diff", tarfile.CHRTYPE, b"", "")), "a device"),
    (tar_of(("step_0000.diff", tarfile.BLKTYPE, b"", "")), "a device"),
    (tar_of(("step_0000.diff", tarfile.FIFOTYPE, b"", "")), "a pipe"),
    (tar_of(("step_0000.diff", tarfile.DIRTYPE, b"", "")), "a folder"),
    (tar_of(("step_0000.diff", tarfile.GNUTYPE_LONGNAME, b"/etc/x\0", "")), "an extension"),
    (tar_of(("step_0000.diff", tarfile.GNUTYPE_SPARSE, b"", "")), "an extension"),
    (tar_of(("step_0000.diff", tarfile.XHDTYPE, b"30 path=/etc/passwd\n", "")), "an extension"),
    (tar_of(("step_0000.diff", tarfile.XGLTYPE, b"30 path=/etc/passwd\n", "")), "an extension"),
    (tar_of(("step_0000.diff", tarfile.CONTTYPE, b"", "")), "an extension"),
    (tar_of(GOOD, end=False), "no end"),
    (tar_of(file("step_0000.diff", b"x" * 600))[:900], "torn"),
    (tar_of(GOOD, tail=tar_of(file("step_0001.diff"))), "behind its end"),
    (tar_of(GOOD).replace(b"0000644", b"0000755", 1), "damaged"),
    (b"not a tar file" * 100, "damaged"),
    (b"", "no end"),
    (tar_of(file("step_0000.diff", b"x" * 3000)), "limit"),
    (tar_of(*(file(f"step_{n:04d}.diff", b"") for n in range(9))), "limit"),
    (bytes(2_000_000), "limit"),
]


@pytest.mark.parametrize(("plain", "says"), HOSTILE)
def test_hostile_archives_are_refused_whole(tmp_path, plain, says):
    limits = Limits(plain=2000, members=8)
    data = gzip.compress(plain)
    with pytest.raises(BadArchiveError, match=says):
        unpack(data, limits)
    state, scratch = tmp_path / "state", tmp_path / "scratch"
    state.mkdir()
    entry = IndexEntry(steps=1, bytes=1, content_sha256=captures_digest({0: b"x"}))
    index = {
        name: {"steps": e.steps, "bytes": e.bytes, "content_sha256": e.content_sha256}
        for name, e in (("bad", entry), ("good", entry_of(TWO)))
    }
    (state / INDEX).write_text(json.dumps(index))
    (state / "bad.tar.gz").write_bytes(data)
    (state / "good.tar.gz").write_bytes(pack(TWO))
    moved = import_state(state, scratch, limits=limits)
    assert moved.written == ("good",) and [issue.file for issue in moved.issues] == ["bad"]
    assert tree(tmp_path / "scratch") == {"good/step_0000.diff": b"two"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scratch", "state"]
    assert whats(verify_state(state, limits=limits)) == ["bad: unreadable"]


def test_a_size_that_is_no_number_and_a_prefix():
    with pytest.raises(BadArchiveError, match="no size"):
        unpack(gzip.compress(_resum(tar_of(GOOD), 124, b"\x80" + bytes(10) + b"\1")))
    ustar = _resum(tar_of(GOOD), 257, b"ustar\x0000", 345, b"../up")
    with pytest.raises(BadArchiveError, match="another name"):
        unpack(gzip.compress(ustar))


def _resum(plain, *edits):
    head = bytearray(plain[:512])
    for at, text in zip(edits[::2], edits[1::2], strict=True):
        head[at : at + len(text)] = text
    head[148:156] = b" " * 8
    head[148:156] = f"{sum(head):06o}\0 ".encode()
    return bytes(head) + plain[512:]


@pytest.mark.parametrize(
    "data", [b"", b"\x1f\x8b", b"PK\3\4", b"version https://git-lfs.github.com/spec/v1\n", pack(ONE)[:-9]]
)
def test_what_is_no_gzip(data):
    with pytest.raises(BadArchiveError):
        unpack(data)


def test_a_large_archive_is_not_unpacked():
    with pytest.raises(BadArchiveError, match="more than 10 bytes"):
        unpack(pack(ONE), Limits(packed=10))


@given(st.binary(max_size=40), st.integers(0, 2000))
def test_a_damaged_archive_never_gives_other_captures(patch, at):
    plain = bytearray(gzip.decompress(pack(ONE)))
    plain[at : at + len(patch)] = patch
    try:
        got = unpack(gzip.compress(bytes(plain[:10240])))
    except BadArchiveError:
        return
    assert all(isinstance(data, bytes) for data in got.values())
    if bytes(plain) != gzip.decompress(pack(ONE)):
        assert entry_of(got) != entry_of(ONE) or got == ONE
