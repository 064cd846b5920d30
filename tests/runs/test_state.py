"""The state plane: round trips, an index that keeps other hosts' runs, and restores that are whole or not at all."""

from __future__ import annotations

import gzip
import json

import pytest

from traceaudit.errors import NothingToCheck, PinMismatch
from traceaudit.runs.archives import (
    BadArchiveError,
    captures_digest,
    member_name,
    pack,
    read_captures,
)
from traceaudit.runs.state import INDEX, export_state, import_state, load_index, stored_captures, verify_state

from .made_captures import ONE, TWO, file, host, put, tar_of, tree, whats


def test_export_then_import_then_verify(tmp_path):
    here = host(tmp_path, {"a__b": ONE, "c__d": TWO})
    state = tmp_path / "state"
    moved = export_state(here, state)
    assert moved.written == ("a__b", "c__d") and not moved.present and not moved.issues
    first = {path.name: path.read_bytes() for path in state.glob("*")}
    assert set(first) == {"a__b.tar.gz", "c__d.tar.gz", INDEX, ".lock"}
    assert json.loads(first[INDEX])["c__d"] == {"steps": 1, "bytes": 3, "content_sha256": captures_digest(TWO)}
    assert first[INDEX] == first[INDEX].strip() + b"\n" and b'\n  "a__b": {' in first[INDEX]
    again = export_state(here, state)
    assert again.present == ("a__b", "c__d") and not again.written
    assert {path.name: path.read_bytes() for path in state.glob("*")} == first

    other = tmp_path / "other"
    assert import_state(state, other).written == ("a__b", "c__d")
    assert tree(other) == tree(here)
    assert import_state(state, other).present == ("a__b", "c__d")
    assert verify_state(state, other) == verify_state(state) == []
    assert not [path for path in other.iterdir() if path.name.startswith(".") and path.name != ".lock"]


def test_the_index_keeps_the_runs_of_other_hosts(tmp_path):
    state = tmp_path / "state"
    export_state(host(tmp_path, {"a": ONE}, "first"), state)
    archive = (state / "a.tar.gz").read_bytes()
    moved = export_state(host(tmp_path, {"b": TWO}, "second"), state)
    assert moved.written == ("b",)
    assert set(load_index(state)) == {"a", "b"} and (state / "a.tar.gz").read_bytes() == archive
    assert verify_state(state) == []


def test_an_archive_packed_by_another_program_is_left_alone(tmp_path):
    here, state = host(tmp_path, {"a": ONE}), tmp_path / "state"
    export_state(here, state)
    repacked = gzip.compress(gzip.decompress((state / "a.tar.gz").read_bytes()), 1)
    (state / "a.tar.gz").write_bytes(repacked)
    assert export_state(here, state).present == ("a",)
    assert (state / "a.tar.gz").read_bytes() == repacked and verify_state(state) == []


def test_a_lost_or_damaged_archive_is_written_again(tmp_path):
    here, state = host(tmp_path, {"a": ONE, "b": TWO}), tmp_path / "state"
    export_state(here, state)
    (state / "a.tar.gz").unlink()
    (state / "b.tar.gz").write_bytes(b"torn")
    assert whats(verify_state(state)) == ["a: missing", "b: unreadable"]
    assert export_state(here, state).written == ("a", "b") and verify_state(state) == []


def test_other_captures_of_a_run_are_not_overwritten_unasked(tmp_path):
    here, state = host(tmp_path, {"a": ONE}), tmp_path / "state"
    export_state(here, state)
    put(here / "a", {1: b"changed"})
    before = (state / "a.tar.gz").read_bytes()
    moved = export_state(here, state)
    assert whats(moved.issues) == ["a: other captures of this run were exported before"] and not moved.written
    assert (state / "a.tar.gz").read_bytes() == before
    assert whats(verify_state(state, here)) == ["a: drift"]
    moved = import_state(state, here)
    assert whats(moved.issues) == ["a: other captures of this run are here"]
    assert (here / "a" / "step_0001.diff").read_bytes() == b"changed"
    assert import_state(state, here, force=True).written == ("a",)
    assert read_captures(here / "a") == ONE and verify_state(state, here) == []
    put(here / "a", {1: b"changed"})
    assert export_state(here, state, force=True).written == ("a",) and verify_state(state, here) == []


def test_an_index_that_says_more_than_the_archive_refuses_the_run(tmp_path):
    here, state = host(tmp_path, {"a": ONE}), tmp_path / "state"
    export_state(here, state)
    (state / "a.tar.gz").write_bytes(pack({index: data for index, data in ONE.items() if index < 12}))
    moved = import_state(state, tmp_path / "new")
    assert whats(moved.issues) == ["a: the archive does not restore to what the index says (2 of 3 steps)"]
    assert tree(tmp_path / "new") == {}
    assert whats(verify_state(state)) == ["a: digest mismatch"]


def test_a_partial_run_here_is_completed_only_on_request(tmp_path):
    here, state = host(tmp_path, {"a": ONE}), tmp_path / "state"
    export_state(here, state)
    (here / "a" / "step_0012.diff").unlink()
    assert import_state(state, here).issues
    assert sorted(read_captures(here / "a")) == [0, 1]
    for path in (here / "a").iterdir():
        path.unlink()
    assert import_state(state, here).written == ("a",)  # an empty folder holds nothing to lose


@pytest.mark.parametrize("break_", ["rename", "write"])
def test_a_restore_that_breaks_leaves_what_was_there(tmp_path, monkeypatch, break_):
    from traceaudit.runs import state as module

    here, state = host(tmp_path, {"a": ONE}), tmp_path / "state"
    export_state(here, state)
    put(here / "a", {1: b"changed"})
    before = tree(here)
    kind = type(here)
    real = kind.rename if break_ == "rename" else kind.write_bytes

    def failing(self, *arguments):
        if self.name in ("new", "step_0012.diff"):
            raise OSError(28, "No space left on device")
        return real(self, *arguments)

    monkeypatch.setattr(module.Path, "rename" if break_ == "rename" else "write_bytes", failing)
    moved = import_state(state, here, force=True)
    monkeypatch.undo()
    assert [issue.got for issue in moved.issues] == ["No space left on device"]
    assert tree(here) == before


def test_a_link_in_the_place_of_a_run_is_not_followed(tmp_path):
    here, state = host(tmp_path, {"a": ONE}), tmp_path / "state"
    export_state(here, state)
    new, elsewhere = tmp_path / "new", tmp_path / "elsewhere"
    new.mkdir()
    elsewhere.mkdir()
    (new / "a").symlink_to(elsewhere)
    assert whats(import_state(state, new, force=True).issues) == ["a: what is in its place is no folder"]
    assert list(elsewhere.iterdir()) == []


BAD_FOLDERS = [
    (lambda folder: (folder / "notes.txt").write_text(""), "another name"),
    (lambda folder: (folder / "step_00001.diff").write_text(""), "another name"),
    (lambda folder: (folder / "step_0001.diff").mkdir(), "no ordinary file"),
    (lambda folder: (folder / "step_0001.diff").symlink_to("/etc/hostname"), "no ordinary file"),
    (lambda folder: (folder / "step_0000.diff").unlink(), "holds no capture"),
]


@pytest.mark.parametrize(("spoil", "says"), BAD_FOLDERS)
def test_a_folder_of_captures_with_anything_else_is_refused(tmp_path, spoil, says):
    here = host(tmp_path, {"bad": TWO, "good": ONE})
    spoil(here / "bad")
    moved = export_state(here, tmp_path / "state")
    assert moved.written == ("good",)
    assert [(issue.file, says in issue.what) for issue in moved.issues] == [("bad", True)]
    assert set(load_index(tmp_path / "state")) == {"good"}


@pytest.mark.parametrize("name", ["a b", "ä", "x" * 230])
def test_a_folder_whose_name_is_no_run_id(tmp_path, name):
    moved = export_state(host(tmp_path, {name: ONE}), tmp_path / "state")
    assert not moved.written and "no run id" in moved.issues[0].what


BAD_INDEXES = [
    b"",
    b"{",
    b"[]",
    b'{"a": {"steps": 1, "bytes": 1}}',
    b'{"a": {"steps": 1, "bytes": 1, "content_sha256": "", "path": "x"}}',
    b'{"../a": {"steps": 1, "bytes": 1, "content_sha256": ""}}',
    b'{"..": {"steps": 1, "bytes": 1, "content_sha256": ""}}',
    b'{"/a": {"steps": 1, "bytes": 1, "content_sha256": ""}}',
    b'{"": {"steps": 1, "bytes": 1, "content_sha256": ""}}',
    b"version https://git-lfs.github.com/spec/v1\n",
]


@pytest.mark.parametrize("content", BAD_INDEXES)
def test_a_bad_index_stops_all_and_is_kept(tmp_path, content):
    state = tmp_path / "state"
    state.mkdir()
    (state / INDEX).write_bytes(content)
    for act in (lambda: export_state(host(tmp_path, {"a": ONE}), state), lambda: import_state(state, tmp_path / "new")):
        with pytest.raises(PinMismatch):
            act()
    assert (state / INDEX).read_bytes() == content and not (state / "a.tar.gz").exists()
    assert [issue.file for issue in verify_state(state)] == [INDEX]


def test_what_is_absent(tmp_path):
    with pytest.raises(NothingToCheck):
        import_state(tmp_path / "none", tmp_path / "scratch")
    with pytest.raises(NothingToCheck):
        export_state(tmp_path / "none", tmp_path / "state")
    assert whats(verify_state(tmp_path / "none", host(tmp_path, {"a": ONE}))) == ["a: unexported", f"{INDEX}: absent"]


def test_verify_names_what_is_listed_nowhere_and_odd_forms(tmp_path):
    here, state = host(tmp_path, {"a": ONE}), tmp_path / "state"
    export_state(here, state)
    (state / "z.tar.gz").write_bytes(pack(TWO))
    (state / "a.tar.gz").write_bytes(gzip.compress(tar_of(*(file(member_name(i), ONE[i]) for i in (12, 0, 1)))))
    put(here / "new", TWO)
    assert whats(verify_state(state, here)) == ["a: form", "new: unexported", "z.tar.gz: unlisted"]


def test_captures_of_a_run_from_here_or_from_its_archive(tmp_path):
    here, state = host(tmp_path, {"a": ONE, "b": TWO}), tmp_path / "state"
    export_state(here, state)
    find = stored_captures(tmp_path / "none", state)
    put(tmp_path / "a", TWO)
    assert stored_captures(tmp_path / "host", None)("../a") is None
    assert (find("a"), find("b"), find("c"), find("../a")) == (ONE, TWO, None, None)
    put(here / "a", {1: b"changed"})
    assert stored_captures(here, state)("a") == {**ONE, 1: b"changed"}
    (state / "b.tar.gz").write_bytes(pack(ONE))
    with pytest.raises(BadArchiveError):
        find("b")
    assert stored_captures(None, None)("a") is None
