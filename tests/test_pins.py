"""Pins: identifiers as git computes them, every damaged pin refused, every changed byte named."""

from __future__ import annotations

import pickle
import shutil

import pytest

from traceaudit import pins
from traceaudit.errors import NothingToCheck, PinMismatch
from traceaudit.pins import (
    corpus_digest,
    data_pins,
    gather,
    git_blob_id,
    git_tree_id,
    load_pin,
    sha256_hex,
)

from .sources_support import FILES, GOLD, NEEDED, SCORER, TRACES, file_list, flipped, git, make_tiny, write_pin

A, B = "a" * 40, "b" * 64


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("data", [b"", b"x", b"line\r\n", bytes(range(256)) * 300])
def test_blob_id_is_the_one_git_computes(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    assert git_blob_id(data) == git("hash-object", "--no-filters", tmp_path / "file")


def test_tree_id_is_the_one_git_computes(tiny, tmp_path):
    # names around "." and "-" are where a folder sorts as if it ended in a slash
    odd = {"a/x": b"1", "a.b": b"2", "a-b": b"3", "a0": b"4", "aé/ü": b"5", "z z/y": b"6"}
    for files, repository in ((FILES, tiny.repository), (odd, tmp_path / "odd")):
        if files is odd:
            from .sources_support import make_repository

            make_repository(repository, odd)
        blobs = {path: git_blob_id(data) for path, data in files.items()}
        assert git_tree_id(blobs) == git("rev-parse", "HEAD^{tree}", cwd=repository)


def test_empty_tree():
    assert git_tree_id({}) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_pins_are_found_in_the_repository_and_in_an_installed_wheel(tmp_path, monkeypatch):
    assert (data_pins() / "trail.toml").is_file()
    package = tmp_path / "site-packages" / "traceaudit"
    (package / "data-pins").mkdir(parents=True)
    monkeypatch.setattr(pins, "__file__", str(package / "pins.py"))
    assert data_pins() == package / "data-pins"


def test_load_pin(tiny):
    pin = tiny.pin
    assert (pin.name, pin.commit, pin.licence, len(pin.files)) == ("tiny", tiny.commit, "MIT", len(FILES))
    assert pin.needed == NEEDED  # the corpus in its order, then what is pinned by SHA-256; not the read-me
    assert pin.files[TRACES[1]].size is None
    assert pin.files[SCORER].sha256 == sha256_hex(FILES[SCORER])
    assert pin.terms == ("The data come under terms.", "Keep them here.")
    assert pickle.loads(pickle.dumps(pin)) == pin


def test_without_a_corpus_every_file_is_needed(tiny, tmp_path):
    pin = load_pin(write_pin(tmp_path, FILES, tiny.commit, "x", corpus=""))
    assert pin.needed == tuple(pin.files)
    assert corpus_digest(pin, FILES) is None


LIST = file_list(FILES)
DAMAGED = {  # what is written into the pin file: where the error points
    "commit too short": ({"commit": '"abc"'}, "commit"),
    "commit in capitals": ({"commit": f'"{A.upper()}"'}, "commit"),
    "tree malformed": ({"tree": '"g"'}, "tree"),
    "another schema": ({"schema": "2"}, "schema"),
    "schema a truth value": ({"schema": "true"}, "schema"),
    "no repository": ({"repository": ""}, "tiny.toml"),
    "repository blank": ({"repository": '" "'}, "repository"),
    "name would leave the cache": ({"name": '"../x"'}, "name"),
    "unknown field": ({"surplus": "1"}, "tiny.toml"),
    "terms empty": ({"terms": "[]"}, "terms"),
    "terms no texts": ({"terms": "[1]"}, "terms"),
    "licence a number": ({"licence": "1"}, "licence"),
    "list elsewhere": (
        {"files": f'{{list = "../tiny-files.tsv", sha256 = "{B}", count = 6, complete = true}}'},
        "files.list",
    ),
    "list of another digest": (
        {"files": f'{{list = "tiny-files.tsv", sha256 = "{B}", count = 6, complete = true}}'},
        "tiny-files.tsv",
    ),
    "list digest malformed": (
        {"files": '{list = "tiny-files.tsv", sha256 = "b", count = 6, complete = true}'},
        "tiny-files.tsv",
    ),
    "list absent": (
        {"files": f'{{list = "no.tsv", sha256 = "{B}", count = 6, complete = true}}'},
        "no.tsv",
    ),
    "files lacks a field": ({"files": '{list = "tiny-files.tsv", count = 6}'}, "files"),
    "SHA-256 of an unknown file": ({"sha256": f'{{"no.py" = "{B}"}}'}, "no.py"),
    "SHA-256 malformed": ({"sha256": f'{{"{SCORER}" = "b"}}'}, SCORER),
    "corpus directory unknown": (
        {"corpus": f'{{digest = "{B}", files = 4, bytes = 0, directories = ["no"]}}'},
        "corpus",
    ),
    "corpus directory twice": (
        {"corpus": f'{{digest = "{B}", files = 4, bytes = 0, directories = ["bench/gold", "bench/gold"]}}'},
        "corpus",
    ),
    "corpus count": (
        {"corpus": f'{{digest = "{B}", files = 3, bytes = 0, directories = ["bench/data", "bench/gold"]}}'},
        "corpus",
    ),
    "corpus digest malformed": (
        {"corpus": '{digest = "b", files = 4, bytes = 0, directories = ["bench/data", "bench/gold"]}'},
        "corpus.digest",
    ),
    "a tree the files do not make": ({"tree": f'"{A}"'}, "tiny-files.tsv"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_pin_file(tiny, tmp_path, name):
    changes, where = DAMAGED[name]
    path = write_pin(tmp_path, FILES, tiny.commit, "x", **changes)
    with pytest.raises(PinMismatch) as caught:
        load_pin(path)
    assert where in caught.value.where
    assert caught.value.expected and caught.value.got and caught.value.next_step
    assert caught.value.exit_code == 1


BAD_LISTS = {
    "header missing": LIST.partition("\n")[2],
    "no newline at the end": LIST[:-1],
    "a path twice": LIST + LIST.splitlines()[1] + "\n",
    "an empty line": LIST + "\n",
    "two cells": LIST + "x\t" + A + "\n",
    "id too short": LIST + "x\tabc\t1\n",
    "size negative": LIST + f"x\t{A}\t-1\n",
    "size with a leading zero": LIST + f"x\t{A}\t01\n",
    "path absolute": LIST + f"/x\t{A}\t1\n",
    "path leaves the tree": LIST + f"x/../../y\t{A}\t1\n",
    "path with a backslash": LIST + f"x\\y\t{A}\t1\n",
    "path with an escape character": LIST + f"x\x1b[0m\t{A}\t1\n",
    "one file more": LIST + f"x\t{A}\t1\n",
    "one file less": LIST.rpartition("bench/score.py")[0],
    "not text": "path\tblob\tsize\n\udcff\n",
}


@pytest.mark.parametrize("name", BAD_LISTS)
def test_damaged_file_list_whose_digest_was_adapted(tiny, tmp_path, name):
    listed = BAD_LISTS[name].encode("utf-8", "surrogateescape")
    files = f'{{list = "tiny-files.tsv", sha256 = "{sha256_hex(listed)}", count = 6, complete = true}}'
    path = write_pin(tmp_path, FILES, tiny.commit, "x", files=files)
    (tmp_path / "tiny-files.tsv").write_bytes(listed)
    with pytest.raises(PinMismatch) as caught:
        load_pin(path)
    assert "tiny-files.tsv" in caught.value.where


@pytest.mark.parametrize("broken", [b"\xff", b"name = ", b"\0"])
def test_pin_file_that_is_not_toml(tmp_path, broken):
    (tmp_path / "tiny.toml").write_bytes(broken)
    with pytest.raises(PinMismatch, match="not TOML"):
        load_pin(tmp_path / "tiny.toml")


def test_pin_file_absent(tmp_path):
    with pytest.raises(NothingToCheck):
        load_pin(tmp_path / "tiny.toml")


def test_subject_tables_are_required_and_handed_on(tiny, tmp_path):
    path = write_pin(tmp_path, FILES, tiny.commit, "x", own="{ a = 1 }")
    assert load_pin(path, extra=("own",)).extra == {"own": {"a": 1}}
    with pytest.raises(PinMismatch, match="missing: other"):
        load_pin(path, extra=("own", "other"))
    with pytest.raises(PinMismatch, match="unknown: own"):
        load_pin(path)


@pytest.mark.parametrize("at", [0, 40, 4000, 20_000, -1])
def test_one_flipped_byte_in_the_committed_file_list(tmp_path, at):
    folder = shutil.copytree(data_pins(), tmp_path / "pins")
    listed = folder / "trail-files.tsv"
    before = sha256_hex(listed.read_bytes())
    listed.write_bytes(flipped(listed.read_bytes(), at))
    with pytest.raises(PinMismatch) as caught:
        load_pin(folder / "trail.toml", extra=("splits", "scorer", "index", "taxonomy"))
    assert caught.value.where == "trail-files.tsv"
    assert before in caught.value.expected
    assert sha256_hex(listed.read_bytes()) in caught.value.got


def test_verify_accepts_the_pinned_bytes(tiny):
    for path, data in FILES.items():
        tiny.pin.verify(path, data)


@pytest.mark.parametrize("at", [0, 5, -1])
@pytest.mark.parametrize("path", [SCORER, *GOLD, *TRACES])
def test_one_flipped_byte_is_named_with_expected_and_found(tiny, path, at):
    changed = flipped(FILES[path], at)
    with pytest.raises(PinMismatch) as caught:
        tiny.pin.verify(path, changed)
    error = caught.value
    assert error.where == path
    assert git_blob_id(FILES[path]) in error.expected and git_blob_id(changed) in error.got
    assert (sha256_hex(FILES[path]) in error.expected) == (path == SCORER)
    assert (sha256_hex(changed) in error.got) == (path == SCORER)
    assert f"{len(changed):,} bytes" in error.got


def test_size_and_sha256_count_even_where_the_blob_id_agrees(tiny):
    from dataclasses import replace

    for change in ({"size": 1}, {"sha256": B}):
        file = replace(tiny.pin.files[SCORER], **change)
        pin = replace(tiny.pin, files={SCORER: file})
        with pytest.raises(PinMismatch):
            pin.verify(SCORER, FILES[SCORER])


def test_converted_line_endings_are_recognised(tiny):
    with pytest.raises(PinMismatch, match="autocrlf"):
        tiny.pin.verify(SCORER, FILES[SCORER].replace(b"\n", b"\r\n"))


def test_unknown_path(tiny):
    with pytest.raises(PinMismatch, match="no pinned file"):
        tiny.pin.verify("bench/other.py", b"")


def test_gather(tiny):
    one, two = (tiny.pin.difference(path, b"x") for path in GOLD)
    assert gather([]) is None
    assert gather([one]) is one
    both = gather([one, two])
    assert both.where == GOLD[0] and "1 further file" in both.what
    assert GOLD[1] in str(both) and tiny.pin.files[GOLD[1]].blob in str(both)


def test_corpus_digest_needs_every_file(tiny):
    digests = {path: sha256_hex(data) for path, data in FILES.items()}
    assert corpus_digest(tiny.pin, digests) == corpus_digest(tiny.pin, FILES) == tiny.pin.corpus.digest
    for path in (*TRACES, *GOLD):
        assert corpus_digest(tiny.pin, {other: d for other, d in digests.items() if other != path}) is None
    assert corpus_digest(tiny.pin, digests | {GOLD[0]: B}) != tiny.pin.corpus.digest
    assert corpus_digest(tiny.pin, digests | {SCORER: B}) == tiny.pin.corpus.digest  # no file of the corpus
