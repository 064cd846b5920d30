"""The TRAIL pin: what the publishers' tree holds, and that a damaged pin is refused."""

from __future__ import annotations

import hashlib
import re
import shutil

import pytest

from traceaudit.errors import NothingToCheck, PinMismatch, UsageError
from traceaudit.pins import data_pins
from traceaudit.trail import pin as trail_pin


@pytest.fixture(scope="module")
def trail():
    return trail_pin.load()


@pytest.fixture
def folder(tmp_path):
    """A copy of the committed pins that a test may damage."""
    return shutil.copytree(data_pins(), tmp_path / "pins")


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_published_facts(trail):
    pin = trail.pin
    assert pin.commit == "0ffbed9db859b4a66250dc783fa4dccf86869595"
    assert pin.tree == "07a6ac016c85daaa900d27192c1dea0b192816b8"  # recomputed from the file list on every load
    assert trail.scorer_sha256 == "ed81ebd529da189425efb9c58183e7c1dcd55a234264ea039e03428bcc5f24d2"
    assert pin.files[trail.scorer_path].size == 17_022
    assert trail.corpus_digest == "e27721ffd74bef970daa02a91e9a2362d87dd8f956a2e4ec49cf5c8c088781e5"
    assert trail.index_digest == "4370086c255bdc6bc90a0af032ef68f72a23bc2c362234058c7d82258a52b928"
    assert len(pin.files) == 302 and len(pin.needed) == 297
    sizes = [pin.files[path].size for path in pin.corpus.paths]
    assert len(sizes) == 296 and sizes.count(None) == 9
    assert sum(size or 0 for size in sizes) < pin.corpus.bytes == 186_421_678


def test_the_corpus_digest_takes_the_directories_in_the_published_order(trail):
    paths = trail.pin.corpus.paths
    folders = list(dict.fromkeys(path.rpartition("/")[0] for path in paths))
    assert folders == [
        "benchmarking/data/GAIA",
        "benchmarking/data/SWE Bench",
        "benchmarking/processed_annotations_gaia",
        "benchmarking/processed_annotations_swe_bench",
    ]
    assert list(paths[:148]) == sorted(paths[:148])


@pytest.mark.parametrize(("split", "title", "count"), [("gaia", "GAIA", 117), ("swe-bench", "SWE Bench", 31)])
def test_splits(trail, split, title, count):
    about = trail.splits[split]
    gold, traces = trail.gold_paths(split), trail.trace_paths(split)
    assert (about.title, len(about.traces), len(gold), len(traces)) == (title, count, count, count)
    assert list(trail.splits) == ["gaia", "swe-bench"]
    assert all(path in trail.pin.files for path in (*gold, *traces))
    assert tuple(map(trail_pin.trace_id, gold)) == tuple(map(trail_pin.trace_id, traces)) == trail.trace_ids(split)
    assert all(re.fullmatch(r"[0-9a-f]{32}", trace) for trace in about.traces)
    first = about.traces[0]
    assert (trail.gold_path(split, first), trail.trace_path(split, first)) == (gold[0], traces[0])


@pytest.mark.parametrize("call", ["trace_ids", "gold_paths", "trace_paths", "split"])
def test_unknown_split(trail, call):
    with pytest.raises(UsageError, match="unknown split") as caught:
        getattr(trail, call)("validation")
    assert caught.value.exit_code == 64 and "swe-bench" in caught.value.expected


def test_traces_digest_is_of_the_set():
    digest = trail_pin.traces_digest(["b", "a"])
    assert digest == trail_pin.traces_digest(iter(["a", "b", "a"])) == hashlib.sha256(b"a\nb\n").hexdigest()
    assert digest != trail_pin.traces_digest(["a"])
    assert trail_pin.traces_digest(["ab"]) != digest
    assert trail_pin.traces_digest([]) == hashlib.sha256(b"").hexdigest()


DAMAGED = {  # what is replaced in trail.toml by what
    "the scorer's digest is dropped": ('"benchmarking/calculate_scores.py" = ', '"LICENSE" = '),
    "the scorer is another file": ('path = "benchmarking/calculate_scores.py"', 'path = "benchmarking/run_eval.py"'),
    "the scorer is no file": ('path = "benchmarking/calculate_scores.py"', 'path = "none"'),
    "the index lacks its digest": ('digest = "4370', 'digests = "4370'),
    "a split has another name": ("[splits.gaia]", "[splits.gaja]"),
    "a split is missing": ("[splits.swe-bench]", "[splits.gaia.more]"),
    "a split counts wrong": ("count = 31", "count = 30"),
    "gold and traces are of two splits": (
        'traces = "benchmarking/data/GAIA"',
        'traces = "benchmarking/data/SWE Bench"',
    ),
    "a folder is unknown": ('gold = "benchmarking/processed_annotations_gaia"', 'gold = "gold"'),
    "a split has an unknown field": ('title = "GAIA"', 'title = "GAIA"\nmore = 1'),
    "another commit length": ('commit = "0f', 'commit = "0'),
    "another tree": ('tree = "07', 'tree = "08'),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_pin(folder, name):
    edit(folder / "trail.toml", *DAMAGED[name])
    with pytest.raises(PinMismatch) as caught:
        trail_pin.load(folder)
    assert caught.value.where and caught.value.next_step


def test_pin_absent(folder):
    (folder / "trail.toml").unlink()
    with pytest.raises(NothingToCheck):
        trail_pin.load(folder)


def test_taxonomy_is_the_pinned_one():
    labels = trail_pin.taxonomy()
    assert len(labels) == len(set(labels)) == 21
    assert (labels[0], labels[-1]) == ("Language-only", "Task Orchestration")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"Rate Limiting"', '"Rate limiting"'),  # one byte
        ('"Goal Deviation",\n', ""),  # a label less
        ('"Language-only",\n    "Tool-related",', '"Tool-related",\n    "Language-only",'),  # another order
        ("labels = [", "lables = ["),
        ("labels = [", "labels = 1 #"),
    ],
)
def test_damaged_taxonomy(folder, old, new):
    edit(folder / "trail-taxonomy.toml", old, new)
    with pytest.raises(PinMismatch) as caught:
        trail_pin.taxonomy(folder)
    assert caught.value.where == "trail-taxonomy.toml"
    assert caught.value.expected and caught.value.got


def test_taxonomy_absent(folder):
    (folder / "trail-taxonomy.toml").unlink()
    with pytest.raises(PinMismatch):
        trail_pin.taxonomy(folder)
