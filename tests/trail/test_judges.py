"""The judges' replies as a source: git, folder, archive or cache; every file verified, nothing unpacked."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile

import pytest

from traceaudit.errors import NothingToCheck, PinMismatch, TraceAuditError, UsageError
from traceaudit.pins import git_blob_id, git_tree_id, sha256_hex
from traceaudit.trail import judges, judges_source, pin
from traceaudit.trail.judges import JudgesPin, demo_runs, load, read_runs
from traceaudit.trail.judges_source import find, open_judges
from traceaudit.trail.study import open_study

from ..sources_support import file_list, flipped, git, make_repository, member, write_archive, write_files

HOME = "bench/outputs"
REPLIES = {
    "out_one-GAIA/a.json": b'{"errors": []}',
    "out_one-GAIA/b.json": b"no answer",
    "out_two words-SWE/c.json": b'{"errors": [{"category": null}]}\n',
}
TREE = {f"{HOME}/{path}": data for path, data in REPLIES.items()} | {"README.md": b"a fork\n"}
RUNS = {"one-GAIA": "gaia", "two words-SWE": "swe-bench"}


def subtree(name: str) -> str:
    return git_tree_id(
        {path.split("/")[1]: git_blob_id(data) for path, data in REPLIES.items() if path.startswith(f"out_{name}/")}
    )


def pin_text(commit: str, listed: str, /, **changes: str) -> str:
    """The pin file of the tiny runs, with lines replaced by their first word; an empty text leaves a line out."""
    lines = {
        "schema": "1",
        "name": '"tiny-judges"',
        "repository": '"file:///nowhere"',
        "commit": f'"{commit}"',
        "tree": f'"{git_tree_id({path: git_blob_id(data) for path, data in TREE.items()})}"',
        "licence": '"MIT"',
        "copyright": '"2026 somebody"',
        "terms": '["Keep them here."]',
        "files": f'{{ list = "tiny.tsv", sha256 = "{sha256_hex(listed.encode())}", count = 3, complete = false }}',
        "outputs": f'{{ folder = "{HOME}", prefix = "out_" }}',
    } | {f'runs."{name}"': f'{{ split = "{split}", files = {2 if split == "gaia" else 1}, tree = "{subtree(name)}" }}'
         for name, split in RUNS.items()} | changes  # fmt: skip
    return "".join(f"{name} = {text}\n" for name, text in lines.items() if text)


def write_pins(folder, commit: str, /, **changes: str):
    folder.mkdir(parents=True, exist_ok=True)
    listed = file_list({path: data for path, data in TREE.items() if path.startswith(HOME)})
    (folder / "tiny.tsv").write_text(listed, encoding="utf-8")
    (folder / "trail-judges.toml").write_text(pin_text(commit, listed, **changes), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A repository with the tiny runs; its folder and its commit."""
    folder = tmp_path_factory.mktemp("fork") / "repository"
    return folder, make_repository(folder, TREE)


@pytest.fixture(scope="module")
def pinned(upstream, tmp_path_factory) -> JudgesPin:
    return load(write_pins(tmp_path_factory.mktemp("pins"), upstream[1]))


def plain_tar(prefix: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        folder = tarfile.TarInfo(f"{prefix}out_one-GAIA")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for path, data in REPLIES.items():
            info, _ = member(prefix + path, data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def place_of(kind: str, upstream, folder):
    """A source of a kind; all of them hold the same bytes."""
    if kind == "repository":
        return upstream[0]
    if kind == "bare repository":
        git("clone", "--quiet", "--bare", upstream[0].as_uri(), folder / "bare")
        return folder / "bare"
    if kind == "folder, upstream layout":
        return write_files(folder / "whole", TREE)
    if kind == "folder, runs alone":
        return write_files(folder / "runs", REPLIES)
    pack = {"xz": lzma.compress, "gzip": gzip.compress, "bzip2": bz2.compress}.get(kind.split()[-1], bytes)
    path = folder / "runs.tar"
    path.write_bytes(pack(plain_tar(f"{HOME}/" if "upstream" in kind else "")))
    return path


KINDS = [
    "repository",
    "bare repository",
    "folder, upstream layout",
    "folder, runs alone",
    "archive, plain",
    "archive, xz",
    "archive, gzip",
    "archive, bzip2",
    "archive, upstream layout, xz",
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_the_same_runs(kind, upstream, pinned, tmp_path):
    source = open_judges(place_of(kind, upstream, tmp_path), pinned)
    (gaia,) = read_runs(source, pinned, "gaia")
    assert (gaia.name, dict(gaia.replies)) == ("one-GAIA", {"a": b'{"errors": []}', "b": b"no answer"})
    (swe,) = read_runs(source, pinned, "swe-bench")
    assert (swe.name, set(swe.replies)) == ("two words-SWE", {"c"})
    assert read_runs(source, pinned, "nothing") == ()
    assert judges.missing(source, pinned, "gaia") == ()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "archive" in kind])
def test_nothing_is_unpacked(kind, upstream, pinned, tmp_path):
    source = open_judges(place_of(kind, upstream, tmp_path), pinned)
    read_runs(source, pinned, "gaia")
    assert [path.name for path in tmp_path.iterdir()] == ["runs.tar"]


@pytest.mark.parametrize("kind", ["folder, upstream layout", "folder, runs alone", "archive, xz"])
@pytest.mark.parametrize("path", REPLIES)
def test_one_changed_byte_is_named(kind, path, upstream, pinned, tmp_path, monkeypatch):
    changed = flipped(REPLIES[path], 2)
    monkeypatch.setitem(REPLIES, path, changed)
    monkeypatch.setitem(TREE, f"{HOME}/{path}", changed)
    source = open_judges(place_of(kind, upstream, tmp_path), pinned)
    split = "gaia" if "GAIA" in path else "swe-bench"
    with pytest.raises(PinMismatch) as caught:
        read_runs(source, pinned, split)
    error = caught.value
    assert error.where.endswith(path)
    assert (error.exit_code, f"blob {git_blob_id(changed)}" in error.got) == (1, True)
    assert source.pin.files[error.where].blob in error.expected


@pytest.mark.parametrize("kind", ["folder, runs alone", "archive, gzip"])
def test_missing_files_are_named_and_counted(kind, upstream, pinned, tmp_path, monkeypatch):
    monkeypatch.delitem(REPLIES, "out_one-GAIA/b.json")
    source = open_judges(place_of(kind, upstream, tmp_path), pinned)
    assert judges.missing(source, pinned, "gaia") == ("out_one-GAIA/b.json",)
    assert judges.missing(source, pinned, "swe-bench") == ()
    with pytest.raises(NothingToCheck, match="1 of 2 files of the judges") as caught:
        read_runs(source, pinned, "gaia")
    assert caught.value.where == "out_one-GAIA/b.json"
    assert len(read_runs(source, pinned, "swe-bench")) == 1


GOOD = [member(path, data) for path, data in REPLIES.items()]
FIRST = "out_one-GAIA/a.json"

# members of an archive -> what the reading says
HOSTILE = [
    ([member(FIRST, type=tarfile.SYMTYPE, linkname="/etc/hostname"), *GOOD[1:]], "a link or the like"),
    ([member(FIRST, type=tarfile.LNKTYPE, linkname="out_one-GAIA/b.json"), *GOOD[1:]], "a link or the like"),
    ([member(FIRST, type=tarfile.FIFOTYPE), *GOOD[1:]], "a link or the like"),
    ([*GOOD, member(FIRST, b"another")], "occurs twice"),
    ([member(FIRST, b"another"), *GOOD], "differ from their pin"),  # the first of two counts
    ([member(FIRST, bytes(judges_source.MEMBER + 1)), *GOOD[1:]], "is too large"),
    ([member(FIRST, b"longer than it was, and other bytes"), *GOOD[1:]], "differ from their pin"),
]


@pytest.mark.parametrize(("members", "words"), HOSTILE)
def test_hostile_members_are_refused(members, words, pinned, tmp_path):
    source = open_judges(write_archive(tmp_path / "hostile.tar.xz", members), pinned)
    with pytest.raises(PinMismatch, match=words) as caught:
        read_runs(source, pinned, "gaia")
    assert FIRST in str(caught.value)


# names of members that are none of the pinned paths, however they are read
ODD_NAMES = [f"./{FIRST}", f"/{FIRST}", f"../{FIRST}", FIRST.upper(), f"{FIRST} ", f"x/{FIRST}"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_must_match_exactly(name, pinned, tmp_path):
    archive = write_archive(tmp_path / "odd.tar.xz", [member(name, REPLIES[FIRST])])
    with pytest.raises(NothingToCheck, match="no member of this archive has the name of a pinned file"):
        open_judges(archive, pinned)
    archive = write_archive(tmp_path / "odd.tar.xz", [member(name, b"planted"), *GOOD])
    (run,) = read_runs(open_judges(archive, pinned), pinned, "gaia")
    assert run.replies["a"] == REPLIES[FIRST]


def test_an_archive_that_unpacks_to_too_much_is_refused(pinned, tmp_path, monkeypatch):
    monkeypatch.setattr(judges_source, "UNPACKED", 100_000)
    archive = write_archive(tmp_path / "bomb.tar.xz", [member("zeros", bytes(10_000_000)), *GOOD])
    assert archive.stat().st_size < 10_000
    with pytest.raises(PinMismatch, match="too large"):
        open_judges(archive, pinned)


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9])
def test_a_cut_archive_is_damaged(kept, pinned, tmp_path):
    archive = write_archive(tmp_path / "cut.tar.xz", [*GOOD, member("rest", bytes(range(256)) * 400)])
    archive.write_bytes(archive.read_bytes()[: int(archive.stat().st_size * kept)])
    with pytest.raises(PinMismatch, match="damaged"):
        open_judges(archive, pinned)


# what is given -> error, words
UNUSABLE = [
    ("https://example.invalid/x.git", UsageError, "an address can only be fetched from"),
    ("nowhere", NothingToCheck, "there is no such folder"),
    ("empty", NothingToCheck, "nothing of the judges' replies is here"),
    ("note.txt", NothingToCheck, "nothing of the judges' replies is here"),
    ("other", NothingToCheck, "lacks the pinned commit"),
]


@pytest.mark.parametrize(("given", "error", "words"), UNUSABLE)
def test_unusable_places(given, error, words, pinned, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("no archive")
    make_repository(tmp_path / "other", {"README.md": b"something else\n"})
    with pytest.raises(error, match=words):
        open_judges(given if "://" in given else tmp_path / given, pinned)


def test_a_link_out_of_the_folder_is_refused(pinned, tmp_path):
    folder = write_files(tmp_path / "runs", REPLIES)
    (tmp_path / "outside").write_bytes(REPLIES[FIRST])
    (folder / FIRST).unlink()
    (folder / FIRST).symlink_to(tmp_path / "outside")
    with pytest.raises(PinMismatch, match="link that leaves the folder"):
        read_runs(open_judges(folder, pinned), pinned, "gaia")


def test_order_of_places(pinned, tmp_path):
    folder = write_files(tmp_path / "runs", REPLIES)
    archive = write_archive(tmp_path / "runs.tar.xz", GOOD)
    environ = {"TRACEAUDIT_JUDGES": str(folder), "TRACEAUDIT_CACHE": str(tmp_path / "cache")}
    assert find(str(archive), pinned, environ=environ).kind == "tar"
    assert find("", pinned, environ=environ).kind == "folder"
    assert find(None, pinned, environ=environ | {"TRACEAUDIT_JUDGES": ""}) is None
    with pytest.raises(NothingToCheck):
        find(str(tmp_path / "nowhere"), pinned, environ=environ)


# lines of the pin file that are changed -> words of the error
BAD_PINS = [
    ({"outputs": f'{{ folder = "{HOME}" }}'}, "damaged"),
    ({"outputs": '{ folder = "elsewhere", prefix = "out_" }'}, "one run for each folder"),
    ({'runs."one-GAIA"': ""}, "one run for each folder"),
    ({'runs."three"': '{ split = "gaia", files = 1, tree = "0" }'}, "one run for each folder"),
    ({'runs."one-GAIA"': f'{{ split = "gaia", files = 3, tree = "{subtree("one-GAIA")}" }}'}, "3 files"),
    ({'runs."one-GAIA"': f'{{ split = "gaia", files = 2, tree = "{"0" * 40}" }}'}, "tree 0000"),
    ({'runs."one-GAIA"': f'{{ split = "demo", files = 2, tree = "{subtree("one-GAIA")}" }}'}, "gaia or swe-bench"),
    ({'runs."one-GAIA"': '{ split = "gaia" }'}, "damaged"),
    ({"commit": '"short"'}, "40 hexadecimal digits"),
]


@pytest.mark.parametrize(("changes", "words"), BAD_PINS)
def test_a_damaged_pin_is_refused(changes, words, upstream, tmp_path):
    with pytest.raises(PinMismatch, match=words):
        load(write_pins(tmp_path / "pins", upstream[1], **changes))


def test_the_committed_pin():
    pinned = load()
    assert pinned.pin.commit == "fb765b3dd9aa3f28add713d3e6c51cdd1baa319f"
    assert (len(pinned.runs), len(pinned.pin.files)) == (9, 864)
    assert {split: len(pinned.of_split(split)) for split in ("gaia", "swe-bench", "demo")} == {
        "gaia": 7, "swe-bench": 2, "demo": 0,
    }  # fmt: skip
    traces = {split: set(pin.load().trace_ids(split)) for split in ("gaia", "swe-bench")}
    for run in pinned.runs.values():
        assert {file.removesuffix(".json") for file in run.files} <= traces[run.split], run.name


def test_no_reply_is_committed(root):
    blobs = {file.blob for file in load().pin.files.values()}
    done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    for name in filter(None, done.stdout.decode().split("\0")):
        if (root / name).is_file():
            assert git_blob_id((root / name).read_bytes()) not in blobs, name


def test_fetch_copies_verifies_and_is_found_again(upstream, pinned, tmp_path, monkeypatch):
    monkeypatch.setattr(judges_source, "load", lambda: pinned)
    environ = {"TRACEAUDIT_CACHE": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin", "GIT_ALLOW_PROTOCOL": "file"}
    said: list[str] = []
    with pytest.raises(NothingToCheck, match="nothing of the judges' replies is here"):
        judges_source.fetch(None, check=True, say=said.append, environ=environ)
    report = judges_source.fetch(upstream[0].as_uri(), check=False, say=said.append, environ=environ)
    assert (report.action, report.verified, report.missing, said[0]) == ("fetched", 3, (), "Keep them here.")
    assert judges_source.fetch(None, check=True, say=said.append, environ=environ).verified == 3
    (run,) = read_runs(find(None, pinned, environ=environ), pinned, "gaia")
    assert run.replies["b"] == b"no answer"
    folder = write_files(tmp_path / "runs", {FIRST: REPLIES[FIRST]})
    report = judges_source.fetch(str(folder), check=True, say=said.append, environ=environ)
    assert (report.verified, report.needed, len(report.missing)) == (1, 3, 2)
    archive = write_archive(tmp_path / "runs.tar.xz", GOOD)
    with pytest.raises(UsageError, match="used as it is"):
        judges_source.fetch(str(archive), check=False, say=said.append, environ=environ)


def test_demo_judges_are_the_same_each_time_and_have_their_habits():
    with open_study("demo", engine="independent") as study:
        gold, spans = study.corpus.gold.parsed, study.corpus.spans
        runs = {run.name: run for run in study.judges}
        assert [dict(run.replies) for run in demo_runs(gold, spans, study.taxonomy)] == [
            dict(run.replies) for run in runs.values()
        ]
        assert demo_runs(gold, spans, study.taxonomy, seed=1) != tuple(runs.values())
    assert set(runs["invented-answers-everything"].replies) == set(gold)
    assert 0 < len(runs["invented-leaves-files-out"].replies) < len(gold)
    assert b"(as far as can be seen)" in b"".join(runs["invented-own-words"].replies.values())


# source of judges, gold at hand -> in the study: has, lacks
ASKED = [
    (None, True, False, None),  # nobody asked for judges
    ("", True, False, "no judges' replies were given"),
    ("runs", True, True, None),
    ("part", True, False, "1 of 3 judges' replies"),
    ("runs", False, False, "without the gold"),
]


@pytest.mark.real
@pytest.mark.parametrize(("given", "gold", "has", "lacks"), ASKED)
def test_what_a_study_says(given, gold, has, lacks, pinned, tmp_path, monkeypatch, trail_source):
    monkeypatch.setattr(judges_source, "load", lambda: pinned)
    monkeypatch.delenv("TRACEAUDIT_JUDGES", raising=False)
    write_files(tmp_path / "runs", REPLIES)
    shutil.copytree(tmp_path / "runs", tmp_path / "part")
    (tmp_path / "part" / FIRST).unlink()
    spec = str(tmp_path / given) if given else given
    with open_study("all", str(trail_source) if gold else None, engine="independent", judges=spec) as study:
        assert ("judges" in study.has) is has
        assert (lacks is None) is ("judges" not in study.lacks)
        assert (lacks or "") in study.lacks.get("judges", "")
        assert ("judges_source" in study.provenance()) is (given is not None)
        if has:
            assert [run.name for run in study.judges] == list(RUNS)
            assert [run.name for run in study.only("gaia").judges] == ["one-GAIA"]


def test_errors_tell_what_to_do_next(pinned, tmp_path):
    for given in ("nowhere", "https://example.invalid/x.git"):
        with pytest.raises(TraceAuditError) as caught:
            open_judges(given, pinned)
        assert "traceaudit fetch --judges" in caught.value.next_step
