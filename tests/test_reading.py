"""Reading: verified or not, counted, and on the real data."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from traceaudit import reading
from traceaudit.errors import PinMismatch
from traceaudit.pins import load_pin
from traceaudit.sources import open_source, read_verified
from traceaudit.trail import pin as trail_pin

from .sources_support import (
    FILES,
    GOLD,
    NO_SHARED,
    SCORER,
    SHARED,
    flipped,
    git,
    make_repository,
    make_tiny,
    member,
    with_archive,
    write_files,
    write_pin,
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("packed", [False, True])
def test_unpinned_reading_takes_what_is_there(tiny, tmp_path, packed):
    other = {GOLD[0]: b"not JSON", "bench/gold/c.json": b"{}", "bench/gold/notes.txt": b"x"}
    if packed:
        place = with_archive(tmp_path / "place", [member(path, data) for path, data in other.items()], without=GOLD)
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


@pytest.mark.upstream
@pytest.mark.parametrize("at", [0, 9_000, -1])
def test_one_flipped_byte_in_the_real_scorer(trail, tmp_path, scorer_source, at):
    path = trail.scorer_path
    data = read_verified(open_source(scorer_source, trail.pin), trail.pin, [path]).files[path]
    place = write_files(tmp_path / "place", {path: flipped(data, at)})
    with pytest.raises(PinMismatch) as caught:
        read_verified(open_source(place, trail.pin), trail.pin, [path])
    assert caught.value.where == path
    assert trail.scorer_sha256 in caught.value.expected and trail.scorer_sha256 not in caught.value.got
