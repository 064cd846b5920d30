"""Limits of what is read of a judge's replies: large files, archives that unpack to more, names without end."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import tarfile
import tracemalloc

import pytest

from traceaudit.errors import UsageError
from traceaudit.trail.replies import Limits, load_replies

from .replies_support import IDS, MIB, ROWS, lines_of, put, tar_of, zip_of

BIG = b" " * (50 * MIB)
BIG_ONES = {  # a reply of 50 MB beside a good one
    "r.tar.gz": lambda: gzip.compress(tar_of([("aa.json", BIG), ("bb.json", b"{}")]), 1),
    "r.zip": lambda: zip_of([("aa.json", BIG), ("bb.json", b"{}")]),
    "r.jsonl": lambda: lines_of([{"trace_id": "aa", "reply": BIG.decode()}, {"trace_id": "bb", "reply": "{}"}]),
    "long-line.jsonl": lambda: (
        b'{"trace_id": "aa", "reply": "' + BIG + b'"}\n' + lines_of([ROWS[0] | {"trace_id": "bb"}])
    ),
}


@pytest.mark.parametrize("name", BIG_ONES)
def test_a_large_reply_is_refused_and_named(name, tmp_path):
    limits = Limits(file=6 * MIB) if name == "long-line.jsonl" else Limits()
    found = load_replies(put(tmp_path, name, BIG_ONES[name]()), IDS, limits=limits)
    assert list(found.files) == ["bb"]
    (why,) = found.refused.values()
    assert "larger than" in why


def test_a_large_file_in_a_folder_is_not_read_whole(tmp_path):
    put(tmp_path, "bb.json", b"{}")
    with (tmp_path / "aa.json").open("wb") as file:
        file.truncate(4 << 30)  # four GiB of nothing
    tracemalloc.start()
    found = load_replies(tmp_path, IDS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert dict(found.refused) == {"aa.json": "larger than 8 MiB"}
    assert peak < 40 * MIB


BOMB = b"\0" * (64 * MIB)
BOMBS = {  # small archives that unpack to more than the limit, which is 16 MiB here
    "unknown.tar.gz": lambda: gzip.compress(tar_of([("zz.json", BOMB), ("bb.json", b"{}")])),
    "known.tar.xz": lambda: lzma.compress(tar_of([("aa.json", BOMB)])),
    "bz2.tar.bz2": lambda: bz2.compress(tar_of([("aa.json", BOMB)])),
    "lines.jsonl.gz": lambda: gzip.compress(b" " * (64 * MIB)),
    "many.zip": lambda: zip_of([(f"{trace}.json", BOMB[: 7 * MIB]) for trace in IDS]),
    "header.tar.gz": lambda: gzip.compress(pax_bomb()),
    "twice.tar.gz": lambda: gzip.compress(tar_of([(f"{trace}.json", BOMB[: 7 * MIB]) for trace in IDS])),
}


def pax_bomb() -> bytes:
    """An extended header that claims, and holds, 64 MiB."""
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, len(BOMB)
    return info.tobuf(tarfile.USTAR_FORMAT) + BOMB


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_at_the_limit(name, tmp_path):
    path = put(tmp_path, name, BOMBS[name]())
    tracemalloc.start()
    with pytest.raises(UsageError, match="too large"):
        load_replies(path, IDS, limits=Limits(total=16 * MIB))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * MIB


def test_an_unknown_member_of_a_zip_is_never_unpacked(tmp_path):
    path = put(tmp_path, "r.zip", zip_of([("zz.json", BOMB), ("bb.json", b"{}")]))
    assert list(load_replies(path, IDS, limits=Limits(total=MIB)).files) == ["bb"]


def test_a_zip_member_that_lies_about_its_size_is_bounded(tmp_path):
    data = bytearray(zip_of([("aa.json", BOMB[: 20 * MIB]), ("bb.json", b"{}")]))
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 5)  # 20 MiB said to be five bytes
    found = load_replies(put(tmp_path, "r.zip", bytes(data)), IDS)
    assert list(found.files) == ["bb"]
    assert "damaged" in found.refused["aa.json"]


@pytest.mark.parametrize("name", ["r.tar", "r.zip", "r.jsonl", ""])
def test_more_names_than_the_limit_are_an_error(name, tmp_path):
    many = [(f"x{n}.json", b"") for n in range(30)]
    rows = lines_of([{"trace_id": n, "reply": ""} for n, _ in many])
    for each, data in (
        many if not name else [(name, {"r.tar": tar_of, "r.zip": zip_of}.get(name, lambda _: rows)(many))]
    ):
        put(tmp_path, each, data)
    with pytest.raises(UsageError, match="too large"):
        load_replies(tmp_path / name, IDS, limits=Limits(entries=20))


def test_a_file_larger_than_the_limit_is_not_opened(tmp_path):
    with pytest.raises(UsageError, match="too large"):
        load_replies(put(tmp_path, "r.tar", b"\0" * 4096), IDS, limits=Limits(total=1024))
