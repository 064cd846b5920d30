"""A judge's replies: every kind of container gives the same bytes, and nothing that a stranger packs does harm."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import socket
import stat
import sys
import tarfile
import zipfile

import pytest

from traceaudit.errors import NothingToCheck, UsageError
from traceaudit.trail.replies import load_replies

from .replies_support import IDS, PACK, ROWS, TEXT, files, lines_of, odd, put, tar_of, zip_of

CONTAINERS = {
    **{f"r.tar{behind}": pack(tar_of(files())) for behind, pack in PACK.items()},
    "r.tgz": gzip.compress(tar_of(files("run/"))),  # one leading folder
    "r.txz": lzma.compress(tar_of(files("./"))),  # a leading dot
    "dotted.tar": tar_of([odd("./run", tarfile.DIRTYPE), *files("./run/")]),
    "old.tar": tar_of(files(), form=tarfile.USTAR_FORMAT),
    "R.ZIP": zip_of(files()),
    "run.zip": zip_of([("run/", b""), *files("run/")]),
    "r.jsonl": lines_of(ROWS),
    "no-newline.jsonl": lines_of(ROWS).rstrip(b"\n"),
    "bom.jsonl": b"\xef\xbb\xbf" + lines_of(ROWS),
    "crlf.jsonl": lines_of(ROWS).replace(b"\n", b"\r\n\r\n"),  # and a blank line after each
    **{f"r.jsonl{behind}": pack(lines_of(ROWS)) for behind, pack in PACK.items() if behind},
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_same_replies(name, tmp_path):
    found = load_replies(put(tmp_path, name, CONTAINERS[name]), IDS)
    assert dict(found.files) == TEXT
    assert (found.unknown, dict(found.refused)) == ((), {})
    assert [path.name for path in tmp_path.iterdir()] == [name]  # nothing was unpacked


@pytest.mark.parametrize("prefix", ["", "run/"])
def test_a_folder_gives_the_same_replies(prefix, tmp_path):
    for name, data in files(prefix):
        put(tmp_path, name, data)
    by_folder = load_replies(tmp_path, IDS)
    assert dict(by_folder.files) == TEXT
    (tmp_path / "elsewhere").mkdir()
    by_lines = load_replies(put(tmp_path, "elsewhere/r.jsonl", CONTAINERS["r.jsonl"]), IDS)
    assert by_folder.digest == by_lines.digest


# name in the archive -> named as unknown, or why it is refused
NAMES = {
    "../aa.json": "the name leads elsewhere",
    "run/../aa.json": "the name leads elsewhere",
    "/aa.json": "the name leads elsewhere",
    "/etc/passwd": "the name leads elsewhere",
    "run\\aa.json": "the name leads elsewhere",
    "run//aa.json": "the name leads elsewhere",
    "aa.txt": None,  # the pinned scorer looks for .json
    "aa": None,
    "AA.json": None,
    "aa.json.json": None,
    ".json": None,
    "zz.json": None,  # no trace of this split
    "a/b/aa.json": None,  # deeper than one folder
    "__MACOSX/._aa.json": None,
    "caf\u00e9\u202e<script>.json": None,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_a_name_is_only_compared(name, pack, tmp_path):
    path = put(tmp_path, "r.zip" if pack is zip_of else "r.tar", pack([(name, b"{}"), ("bb.json", b"{}")]))
    found = load_replies(path, IDS)
    assert list(found.files) == ["bb"]
    named = name.replace("\u202e", "<U+202E>")
    if NAMES[name] is None:
        assert (found.unknown, dict(found.refused)) == ((named,), {})
    else:
        assert (found.unknown, dict(found.refused)) == ((), {named: NAMES[name]})
    assert {path.name for path in tmp_path.iterdir()} == {path.name}


# (kind, link target, why)
ODD_MEMBERS = [
    (tarfile.SYMTYPE, "/etc/passwd", "a symbolic link"),
    (tarfile.SYMTYPE, "bb.json", "a symbolic link"),
    (tarfile.LNKTYPE, "bb.json", "a hard link"),
    (tarfile.FIFOTYPE, "", "not a regular file"),
    (tarfile.CHRTYPE, "", "not a regular file"),
    (tarfile.BLKTYPE, "", "not a regular file"),
]


@pytest.mark.parametrize(("kind", "to", "why"), ODD_MEMBERS)
@pytest.mark.parametrize("name", ["aa.json", "zz.json"])
def test_links_and_devices_in_a_tar_are_refused(kind, to, why, name, tmp_path):
    path = put(tmp_path, "r.tar", tar_of([("bb.json", b"{}"), odd(name, kind, to)]))
    found = load_replies(path, IDS)
    assert (list(found.files), dict(found.refused)) == (["bb"], {name: why})


def test_links_and_odd_files_in_a_folder_are_refused(tmp_path):
    run, secret = tmp_path / "run", put(tmp_path, "secret", b"{}")
    put(run, "bb.json", b"{}")
    (run / "aa.json").symlink_to(secret)
    (run / "cc.json").symlink_to("nowhere")
    (run / "loop").symlink_to(run, target_is_directory=True)
    os.mkfifo(run / "pipe.json")  # opening it would wait forever
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(run / "s"))
    found = load_replies(run, IDS)
    link = "a symbolic link"
    assert list(found.files) == ["bb"]
    odd_ones = {"pipe.json": "not a regular file", "s": "not a regular file"}
    assert dict(found.refused) == {"aa.json": link, "cc.json": link, "loop": link, **odd_ones}


def test_a_known_name_that_is_a_pipe_is_refused_at_once(tmp_path):
    put(tmp_path, "bb.json", b"{}")
    os.mkfifo(tmp_path / "aa.json")
    assert dict(load_replies(tmp_path, IDS).refused) == {"aa.json": "not a regular file"}


def test_links_and_encryption_in_a_zip_are_refused(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, mode in (("aa.json", stat.S_IFLNK), ("cc.json", stat.S_IFIFO), ("bb.json", stat.S_IFREG)):
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode | 0o644) << 16
            archive.writestr(info, b"/etc/passwd")
    found = load_replies(put(tmp_path, "r.zip", out.getvalue()), IDS)
    assert list(found.files) == ["bb"]
    assert dict(found.refused) == {"aa.json": "a symbolic link", "cc.json": "not a regular file"}
    data = bytearray(zip_of([("aa.json", b"{}"), ("bb.json", b"{}")]))
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1  # the flag of an encrypted member
    found = load_replies(put(tmp_path, "e.zip", bytes(data)), IDS)
    assert (list(found.files), dict(found.refused)) == (["bb"], {"aa.json": "encrypted"})


# how -> (file name, bytes): the same trace twice
TWICE = {
    "tar": ("r.tar", tar_of([("aa.json", b"1"), ("aa.json", b"2")])),
    "tar, dotted": ("r.tar", tar_of([("aa.json", b"1"), ("./aa.json", b"1")])),
    "tar, one of them a link": ("r.tar", tar_of([("aa.json", b"1"), odd("aa.json", tarfile.SYMTYPE, "bb.json")])),
    "lines": ("r.jsonl", lines_of([{"trace_id": "aa", "reply": "1"}, {"trace_id": "aa", "reply": "1"}])),
}


@pytest.mark.parametrize("how", TWICE)
def test_two_replies_to_a_trace_are_an_error_that_names_it(how, tmp_path):
    name, data = TWICE[how]
    with pytest.raises(UsageError, match="trace aa") as raised:
        load_replies(put(tmp_path, name, data), IDS)
    assert "two replies" in str(raised.value)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_a_zip_are_an_error_too(tmp_path):
    with pytest.raises(UsageError, match="trace aa"):
        load_replies(put(tmp_path, "r.zip", zip_of([("aa.json", b"1"), ("aa.json", b"2")])), IDS)


def test_replies_in_several_folders_are_an_error(tmp_path):
    data = tar_of([("one/aa.json", b"{}"), ("two/bb.json", b"{}")])
    with pytest.raises(UsageError, match="several folders") as raised:
        load_replies(put(tmp_path, "r.tar", data), IDS)
    assert "one/aa.json and two/bb.json" in str(raised.value)
    found = load_replies(put(tmp_path, "s.tar", tar_of([("one/aa.json", b"{}"), ("logs/x.json", b"")])), IDS)
    assert (list(found.files), found.unknown) == (["aa"], ("logs/x.json",))  # folders without replies do not count


# a line of a .jsonl beside a good one -> why it is refused
BAD_LINES = {
    b"{": "not JSON",
    b"[]": "not an object with a trace_id (text) and a reply (text or object)",
    b'{"trace_id": "aa"}': "not an object with a trace_id (text) and a reply (text or object)",
    b'{"trace_id": "aa", "reply": null}': "not an object with a trace_id (text) and a reply (text or object)",
    b'{"trace_id": "aa", "reply": [1]}': "not an object with a trace_id (text) and a reply (text or object)",
    b'{"trace_id": 1, "reply": ""}': "not an object with a trace_id (text) and a reply (text or object)",
    b'{"trace_id": "aa", "reply": "\xff"}': "not UTF-8",
    b'{"trace_id": "aa", "reply": "\\ud800"}': "the reply holds half a surrogate pair, which no text file can",
    b"[" * 100_000: "not JSON",
    b"9" * 5000: "not JSON",
}


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: repr(line[:30]))
def test_a_bad_line_is_named_by_its_number(line, tmp_path):
    path = put(tmp_path, "r.jsonl", b'{"trace_id": "bb", "reply": ""}\n\n' + line + b"\n")
    found = load_replies(path, IDS)
    assert (dict(found.files), dict(found.refused)) == ({"bb": b""}, {"line 3": BAD_LINES[line]})


def test_a_torn_last_line_is_named(tmp_path):
    found = load_replies(put(tmp_path, "r.jsonl", lines_of(ROWS)[:-9]), IDS)
    assert list(found.files) == ["aa"]
    assert dict(found.refused) == {"line 2": "not JSON; the file may have been cut short here"}


def test_an_object_is_written_as_json_again_with_what_is_odd_in_it(tmp_path):
    row = b'{"trace_id": "aa", "reply": {"b": NaN, "a": "\\ud800\xc3\xa9", "a2": 1e999}}\n'
    found = load_replies(put(tmp_path, "r.jsonl", row + b'{"trace_id": "zz", "reply": ""}'), IDS)
    assert found.files["aa"] == b'{"b": NaN, "a": "\\ud800\\u00e9", "a2": Infinity}'
    assert found.unknown == ("zz",)


WHOLE = tar_of([("aa.json", b"x" * 3000), ("bb.json", b"y" * 3000)])
DAMAGED = {  # nothing is scored when what is behind the damage cannot be known
    "cut-in-data.tar": WHOLE[:2000],
    "cut-in-header.tar": WHOLE[: 512 + 3072 + 100],
    "cut-between-members.tar": WHOLE[: 512 + 3072],  # GNU tar would take it for whole
    "no-end-mark.tar": WHOLE[: 2 * (512 + 3072)],
    "garbage-in-header.tar": WHOLE[: 512 + 3072] + b"\xff" * 512 + WHOLE[512 + 3072 + 512 :],
    "cut.tar.gz": gzip.compress(WHOLE)[:-20],
    "cut.tar.xz": lzma.compress(WHOLE)[:-20],
    "no.tar.xz": b"this is not xz",
    "no.tar.bz2": b"this is not bzip2",
    "no.tar": b"this is not tar",
    "empty.tar": b"",
    "empty.zip": b"",
    "no.zip": b"this is not a zip",
    "cut.zip": zip_of(files())[:-30],
    "cut.jsonl.gz": gzip.compress(lines_of(ROWS))[:-10],
    "digits.tar": tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT)[:124] + b"\x80" + b"\xff" * 387,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_archive_is_one_clear_error(name, tmp_path):
    with pytest.raises(NothingToCheck, match="damaged") as raised:
        load_replies(put(tmp_path, name, DAMAGED[name]), IDS)
    assert raised.value.where == name


# predictions in which there is nothing, and what they are called with
@pytest.mark.parametrize(
    "members",
    [[], [("zz.json", b"{}")], [("aa.txt", b"{}")], [("deep/deeper/aa.json", b"{}")]],
    ids=["empty", "another split", "another suffix", "too deep"],
)
@pytest.mark.parametrize("kind", ["folder", "r.tar", "r.zip"])
def test_no_reply_at_all_says_what_was_there(members, kind, tmp_path):
    if kind == "folder":
        for name, data in members:
            put(tmp_path, name, data)
    else:
        put(tmp_path, kind, (tar_of if kind == "r.tar" else zip_of)(members))
    with pytest.raises(NothingToCheck, match="no reply") as raised:
        load_replies(tmp_path if kind == "folder" else tmp_path / kind, IDS)
    assert "aa.json" in raised.value.expected
    assert ("unknown" in raised.value.got) == bool(members)


@pytest.mark.parametrize("name", ["nothing", "no/thing.tar", "a\0b.tar", "x" * 5000])
def test_absent_predictions(name, tmp_path):
    with pytest.raises(NothingToCheck, match="cannot be found"):
        load_replies(tmp_path / name, IDS)


@pytest.mark.parametrize("name", ["r.json", "r.txt", "r.rar", "r.gz", "tar", "r.tar.lz"])
def test_another_kind_is_wrong_usage(name, tmp_path):
    with pytest.raises(UsageError, match="no known kind"):
        load_replies(put(tmp_path, name, b"{}"), IDS)


def test_a_pipe_is_wrong_usage(tmp_path):
    os.mkfifo(tmp_path / "r.tar")
    with pytest.raises(UsageError, match="no known kind"):
        load_replies(tmp_path / "r.tar", IDS)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python reads zstd")
def test_zstd_says_what_is_needed(tmp_path):
    with pytest.raises(UsageError, match="zstd") as raised:
        load_replies(put(tmp_path, "r.tar.zst", b"(\xb5/\xfd"), IDS)
    assert "3.14" in raised.value.expected


def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    put(tmp_path, "bb.json", b"{}")
    put(tmp_path, "aa.json", b"{}")
    opened = os.open

    def refuse(path, *rest):
        if str(path).endswith("aa.json"):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    assert dict(load_replies(tmp_path, IDS).refused) == {"aa.json": "cannot be read: Permission denied"}


def test_a_name_that_is_no_utf8_can_be_shown(tmp_path):
    put(tmp_path, "bb.json", b"{}")
    try:
        (tmp_path / os.fsdecode(b"\xff.json")).write_bytes(b"")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    found = load_replies(tmp_path, IDS)
    assert found.unknown == ("<U+DCFF>.json",)
    json.dumps(found.unknown, ensure_ascii=False).encode("utf-8")
