"""What committed files hold is counted, and a stored record is the one whose digest was written with it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from traceaudit import records, stored
from traceaudit.disclosure import Disclosed, disclose
from traceaudit.errors import NothingToCheck, PinMismatch
from traceaudit.pins import data_pins
from traceaudit.records import Record
from traceaudit.values import count, text

HEX16, HEX40, HEX64 = "0123456789abcdef", "a" * 40, "0" * 64
WORDS = {"Goal Deviation", "Language-only"}

# file, its bytes -> distinct strings, identifiers, words of the benchmark, strings of more than three words
FILES = {
    "a.json": (
        json.dumps(
            {"x": [HEX16, "Goal Deviation", {"y": "one two three"}, "one two three four"], "x2": [1, None, True]}
        ),
        (7, 1, 1, 1),  # keys are strings too; numbers and nothing are none
    ),
    "deep/b.json": (json.dumps([[[["Language-only"], HEX40], HEX40]]), (2, 1, 1, 0)),  # each once
    "deep/er/c.json": ('"Goal Deviation"', (1, 0, 1, 0)),  # a text alone
    "empty.json": ("{}", (0, 0, 0, 0)),
    "escaped.json": (r'["Goal\u0020Deviation", "\u0061\u0062 c d e"]', (2, 0, 1, 1)),  # as read, not as written
    "surrogate.json": (r'["\ud800"]', (1, 0, 0, 0)),
    "nested.json": ("[" * 500 + '"x"' + "]" * 500, (1, 0, 0, 0)),
    "d.toml": (f'# four words of comment\nkey = "{HEX64}"\n[table]\nkey = ["Goal Deviation"]\n', (4, 1, 1, 0)),
    "e.tsv": (f"path\tblob\na b c d e\t{HEX40}\n\t\n{HEX16.upper()}\t{'a' * 15}\n", (6, 1, 0, 1)),  # neither is one
    "f.txt": ("one two three four\none two three four\nLanguage-only", (2, 0, 1, 1)),  # a line is a string
    "g.txt": ("", (0, 0, 0, 0)),
    "h.bin": (b"\xff\xfe\tLanguage-only\n" + b"f" * 65, (3, 0, 1, 0)),  # bytes that are no text; longer than a digest
}


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, (body, _) in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(body if isinstance(body, bytes) else body.encode())
    (tmp_path / "an empty folder").mkdir()
    return tmp_path


def test_every_file_is_counted_in_the_order_of_its_path(folder):
    rows = disclose(folder, WORDS)
    assert [row.path for row in rows] == sorted(FILES, key=lambda name: Path(name).parts)
    for row in rows:
        expected = FILES[row.path][1]
        size = (folder / row.path).stat().st_size
        assert row == Disclosed(row.path, size, *expected), row.path


def test_words_are_those_given_and_nothing_is_one_without_them(folder):
    assert {row.words for row in disclose(folder, [])} == {0}
    assert sum(row.words for row in disclose(folder, ["x"])) == 2  # a key of a.json, the text of nested.json


def test_what_is_left_out_is_not_even_read(folder):
    (folder / "own.json").write_text("{ this is no JSON")
    with pytest.raises(ValueError):
        disclose(folder, WORDS)
    rows = disclose(folder, WORDS, leave_out=lambda name: name == "own.json" or name.startswith("deep/"))
    assert {row.path for row in rows} == {name for name in FILES if not name.startswith("deep/")}


def test_the_same_folder_gives_the_same_rows(folder):
    assert disclose(folder, WORDS) == disclose(folder, sorted(WORDS))


def test_the_committed_files_hold_no_long_text_where_none_belongs():
    """Lists of files, spans and times: identifiers, paths and numbers."""
    rows = {row.path: row for row in disclose(data_pins(), [], leave_out=lambda name: name.startswith("records/"))}
    for name in ("trail-files.tsv", "trail-judges-files.tsv", "trail-spans.json"):
        assert rows[name].long == 0, name
        assert rows[name].identifiers > 100, name


# ------------------------------------------------------------------------------------------------- records


def written(root: Path, chapter: str = "a", raw: int = 1) -> Path:
    path = records.path_of(chapter, "demo", root)
    records.save(Record(chapter, "demo", values={"n": count("n", raw, "x"), "t": text("t", "\u00e9")}), path)
    return path


def listed(root: Path, *paths: Path) -> None:
    table = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    (root / stored.DIGESTS).write_bytes(stored.dump_digests(table))


def test_a_record_whose_bytes_are_those_listed_is_read(tmp_path):
    first, second = written(tmp_path, "a"), written(tmp_path, "b", 2)
    listed(tmp_path, first, second)
    assert stored.stored("b", "demo", tmp_path).values["n"].raw == 2
    assert stored.stored("a", "demo", tmp_path).values["n"].mode == "recalled"


def test_digests_go_to_their_file_sorted_and_back(tmp_path):
    table = {"b.demo.json": "2" * 64, "a.demo.json": "1" * 64}
    body = stored.dump_digests(table)
    assert body == stored.dump_digests(dict(sorted(table.items())))
    path = tmp_path / stored.DIGESTS
    path.parent.mkdir(parents=True)
    path.write_bytes(body)
    assert stored.digests(tmp_path) == table
    assert list(stored.digests(tmp_path)) == sorted(table)


def forge(path: Path) -> None:
    """A well-formed record that says something else."""
    path.write_bytes(path.read_bytes().replace(b'"raw": 1,', b'"raw": 9,').replace(b'"shown": "1"', b'"shown": "9"'))


def swap(path: Path) -> None:
    """The record of another chapter, genuine and listed, under this one's name."""
    other = written(path.parents[2], "b", 2)
    listed(path.parents[2], path, other)
    path.write_bytes(other.read_bytes())


# what was done -> (error, words)
FORGED = [
    (forge, PinMismatch, "a stored record differs from its digest"),
    (swap, PinMismatch, "a stored record differs from its digest"),
    (lambda path: path.write_bytes(path.read_bytes() + b"\n"), PinMismatch, "differs from its digest"),
    (lambda path: path.unlink(), NothingToCheck, "no such record"),
    (lambda path: path.write_bytes(b"\xff"), PinMismatch, "not strict JSON"),
    (lambda path: path.with_name("digests.toml").unlink(), PinMismatch, "expected: none listed"),  # an absent list
    (lambda path: path.with_name("digests.toml").write_text(""), PinMismatch, "the list of records cannot be read"),
    (lambda path: path.with_name("digests.toml").write_text("sha256 = 1"), PinMismatch, "cannot be read"),
    (lambda path: path.with_name("digests.toml").write_text("[sha256"), PinMismatch, "cannot be read"),
    (lambda path: path.with_name("digests.toml").write_bytes(b"\xff"), PinMismatch, "cannot be read"),
    (
        lambda path: path.with_name("digests.toml").write_text('[sha256]\n"a.demo.json" = ""\n'),  # listed as nothing
        PinMismatch,
        "differs from its digest",
    ),
]


@pytest.mark.parametrize(("forge", "kind", "words"), FORGED)
def test_a_forged_record_is_not_read(forge, kind, words, tmp_path):
    path = written(tmp_path)
    listed(tmp_path, path)
    forge(path)
    with pytest.raises(kind, match=words):
        stored.stored("a", "demo", tmp_path)


def test_the_message_names_both_digests_and_what_to_do(tmp_path):
    path = written(tmp_path)
    listed(tmp_path, path)
    was = hashlib.sha256(path.read_bytes()).hexdigest()
    forge(path)
    with pytest.raises(PinMismatch) as caught:
        stored.stored("a", "demo", tmp_path)
    error = caught.value
    assert (error.where, error.expected) == ("a.demo.json", was)
    assert error.got == hashlib.sha256(path.read_bytes()).hexdigest()
    assert "build --record" in error.next_step


def test_without_a_list_there_are_no_digests(tmp_path):
    assert stored.digests(tmp_path) == {}


def test_every_committed_record_is_the_one_listed(root):
    there = {path.name for path in (root / "data-pins" / "records").glob("*.json")}
    assert set(stored.digests(root)) == there
    for name in there:
        chapter, split, _ = name.split(".")
        stored.stored(chapter, split, root)
