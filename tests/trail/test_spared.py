"""The upstream engine spared long replies: the scorer, handed less, answers the same, and in time."""

from __future__ import annotations

import dataclasses
import time

import pytest
from hypothesis import given, settings

from traceaudit.errors import TraceAuditError, WorkerFailed
from traceaudit.trail import spared
from traceaudit.trail.extraction import reply_text
from traceaudit.trail.hostile import differences
from traceaudit.trail.receipt import open_scoring
from traceaudit.trail.spared import SMALL, SparedEngine, alone, spare

from .engines_support import comparable
from .fake_scorer import FAKE
from .test_independent import TEXTS, answer, cut_by_cut, mutated
from .test_receipt import TORN, exact, receipt_of


@pytest.fixture(scope="module")
def demo():
    with open_scoring("demo", engine="independent") as study:
        yield study


def check_spared(extract, data: bytes) -> None:
    short = spare(data)
    if short is None:
        assert answer(extract, reply_text(data)) in ("ValueError", "JSONDecodeError")
    else:
        assert len(short) <= len(data)
        assert answer(extract, reply_text(short)) == answer(extract, reply_text(data))


@pytest.fixture
def no_small(monkeypatch):
    monkeypatch.setattr(spared, "SMALL", -1)


@pytest.mark.parametrize("words", TEXTS, ids=lambda words: words[:24])
def test_spared_by_hand(words, no_small):
    check_spared(cut_by_cut, words.encode("utf-8", "replace"))


@settings(max_examples=300, deadline=None)
@given(mutated())
def test_spared_on_mutated_json(words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spared, "SMALL", -1)
        check_spared(cut_by_cut, words.encode("utf-8", "replace"))


@pytest.mark.upstream
def test_spared_upstream(upstream, no_small):
    for words in TEXTS:
        check_spared(upstream.extract, words.encode("utf-8", "replace"))

    @settings(max_examples=300, deadline=None)
    @given(mutated())
    def generated(words):
        check_spared(upstream.extract, words.encode("utf-8", "replace"))

    generated()


def test_a_small_reply_and_one_that_is_no_text_stay_as_they_are():
    torn = b'{"errors": [' + b"}" * (SMALL - 12)
    assert (len(torn), spare(torn), spare(torn + b"}")) == (SMALL, torn, None)
    wrong = b"\xff" + b"{}" * SMALL
    assert spare(wrong) is wrong


@pytest.mark.upstream
def test_the_spared_engine_gives_the_same_report(demo, upstream):
    """Whole reports, on replies just over the size from which they are rewritten: torn, wrapped, and nested so deeply
    that the scorer's parser gives up at one depth and not at the next."""
    ids = list(demo.corpus.gold)
    behind = b" and so on }" * 200
    replies = {ids[0]: b"Well: " + demo.corpus.gold.bytes[ids[0]] + behind, ids[1]: TORN[: SMALL + 500]}
    nests = [b'{"errors": [], "x": ' + b"[" * n + b"]" * n + b"}" + behind for n in range(960, 1004, 4)]
    replies |= dict(zip(ids[2:], nests, strict=False))
    plain = upstream.score(demo.corpus.gold.bytes, replies)
    assert comparable(SparedEngine(upstream).score(demo.corpus.gold.bytes, replies)) == comparable(plain)
    found = receipt_of(dataclasses.replace(demo, engine=upstream, memo={}), replies)
    assert (found.joint, found.location, found.weighted_f1) == (plain.joint, plain.location, plain.weighted_f1)
    assert found.short_circuited == 1


@pytest.mark.upstream
def test_a_long_malformed_reply_ends_within_seconds_with_equal_figures(demo, upstream):
    ids = list(exact(demo))
    files = exact(demo) | {ids[0]: TORN, ids[1]: b"{" * 200_000, ids[2]: exact(demo)[ids[2]] + b"}" * 200_000}
    upstream.normalise(["started"])
    found = []
    for study in (demo, dataclasses.replace(demo, engine=upstream, memo={})):
        start = time.perf_counter()
        found.append(receipt_of(study, files).as_json())
        assert time.perf_counter() - start < 10
    ours, theirs = found
    assert (ours.pop("short_circuited"), theirs.pop("short_circuited")) == (0, 2)
    for different in ("engine", "signature", "provenance"):
        ours.pop(different), theirs.pop(different)
    assert differences(theirs, ours) == []


# what the scorer does -> words of the error
LIMITED = [
    ("        try:\n", "        while True: pass\n        try:\n", {"time_limit": 1.0}, "out of time"),
    ("                    raise MemoryError\n", "                    bytearray(1 << 40)\n", {}, "could not answer"),
]


@pytest.mark.parametrize(("was", "now", "limits", "words"), LIMITED)
def test_a_worker_over_its_limit_is_one_clear_error(was, now, limits, words, demo, engine_from):
    assert was in FAKE
    study = dataclasses.replace(demo, engine=engine_from(FAKE.replace(was, now, 1), **limits), memo={})
    with pytest.raises(WorkerFailed, match=words):
        receipt_of(study, {min(exact(demo)): b"eat"})


def test_work_alone_returns_raises_and_explains():
    assert alone(lambda: 4, room=True) == 4
    with pytest.raises(KeyError):
        alone(lambda: {}[0], room=False)

    def deep():
        return deep()

    with pytest.raises(TraceAuditError, match="nests"):
        alone(deep, room=True)
