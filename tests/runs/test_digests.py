"""What each digest sees and what it is blind to."""

from __future__ import annotations

import hashlib
import json
import random

import msgspec
import pytest

from traceaudit.runs.digests import CorpusDigest, SeedDigest, content_digest, corpus_digest, seed_digest
from traceaudit.runs.schema import Call, Header, Outcome, Run, Step, Tokens

FAILED = Outcome(state="measured", why="", passed=False, failing_check="t")


def run(name: str, *, graded: bool = True, resolved: bool = False) -> Run:
    outcome = FAILED if graded else Outcome()
    steps = tuple(Step(index=i, calls=(Call(tool="bash", arguments=f"ls {i}"),), outcome=outcome) for i in range(3))
    header = Header(run_id=f"{name}__m__a", n_steps=3, instance_id=name, model="m", arm="a", resolved=resolved)
    return Run(header, steps)


CORPUS = [run("a__b-1"), run("a__b-2", graded=False), run("a__b-3")]


def header(one: Run, **changes) -> Run:
    return Run(msgspec.structs.replace(one.header, **changes), one.steps)


def steps(one: Run, **changes) -> Run:
    return Run(one.header, tuple(msgspec.structs.replace(step, **changes) for step in one.steps))


# an edit of the corpus -> whether ours moves, whether the seed's does
EDITS = {
    "a label is flipped": (lambda c: [header(c[0], resolved=True), *c[1:]], True, False),
    "a model is renamed": (lambda c: [header(c[0], model="n"), *c[1:]], True, False),
    "every step is restamped": (
        lambda c: [
            steps(one, outcome=Outcome(state="measured", why="", passed=True)) if one.stamped else one for one in c
        ],
        True,
        False,
    ),
    "a text is changed": (lambda c: [steps(c[0], text="x"), *c[1:]], True, False),
    "a run loses its stamps": (lambda c: [steps(c[0], outcome=Outcome()), *c[1:]], True, True),
    "a run is removed": (lambda c: c[1:], True, True),
    "a run is there twice": (lambda c: [*c, c[0]], True, True),
    "the order is another": (lambda c: c[::-1], False, False),
    "the instance of an unstamped run is another": (lambda c: [c[0], header(c[1], instance_id="x"), c[2]], True, False),
    "the instance of a stamped run is another": (lambda c: [header(c[0], instance_id="x"), *c[1:]], True, True),
    "two runs exchange their steps": (lambda c: [Run(c[0].header, c[2].steps), c[1], Run(c[2].header, ())], True, True),
    "two runs exchange their labels": (lambda c: [header(c[0], resolved=True), c[1], c[2]], True, False),
    "the same run is added two times more": (lambda c: [*c, c[1], c[1]], True, True),
    "a header lies about its content": (lambda c: [header(c[0], content_sha256="0" * 64), *c[1:]], True, False),
    "a step is appended": (lambda c: [Run(c[0].header, (*c[0].steps, c[0].steps[0])), *c[1:]], True, False),
    "two steps change places": (lambda c: [Run(c[0].header, c[0].steps[::-1]), *c[1:]], True, False),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_each_digest_sees(edit):
    change, ours, seeds = EDITS[edit]
    changed = change(list(CORPUS))
    assert (corpus_digest(changed) != corpus_digest(CORPUS)) == ours
    assert (seed_digest(changed) != seed_digest(CORPUS)) == seeds


OTHER = {
    "index": 9, "text": "x", "calls": (), "model": "x", "time": "x", "cost": 1.0, "tokens": Tokens(input=1),
    "outcome": FAILED, "signals": {"x": 1}, "metadata": {"x": "y"},
}  # fmt: skip


@pytest.mark.parametrize("field", Step.__struct_fields__)
def test_every_field_of_a_step_is_covered(field):
    step = Step(index=0, calls=(Call(),))
    assert content_digest([msgspec.structs.replace(step, **{field: OTHER[field]})]) != content_digest([step])


@pytest.mark.parametrize("field", Header.__struct_fields__)
def test_every_field_of_a_header_is_covered(field):
    old = getattr(CORPUS[0].header, field)
    new = {"n_steps": 99, "redacted": 1, "source": {"name": "x"}, "resolved": True, "captures": 0}.get(field, "other")
    assert new != old
    changed = [header(CORPUS[0], **{field: new}), *CORPUS[1:]]
    assert corpus_digest(changed) != corpus_digest(CORPUS)


def test_the_content_digest_is_that_of_canonical_json():
    step = Step(
        index=0, text="é\n", calls=(Call(arguments="x"),), signals={"b": 1, "a": None}, metadata={"z": "", "y": ""}
    )
    plain = json.dumps(msgspec.to_builtins(step), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert content_digest([step]) == hashlib.sha256(f"{plain}\n".encode()).hexdigest()
    turned = msgspec.structs.replace(step, signals={"a": None, "b": 1})
    assert content_digest([turned]) == content_digest([step])
    assert content_digest([]) == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(("fold", "whole"), [(CorpusDigest, corpus_digest), (SeedDigest, seed_digest)])
def test_partitions_merge_to_the_same_digest(fold, whole):
    draw = random.Random(3)
    for _ in range(10):
        parts = [fold() for _ in range(3)]
        for one in CORPUS:
            draw.choice(parts).add(one)
        first = parts.pop(draw.randrange(3))
        before = [part.result() for part in parts]
        for part in parts:
            first.merge(part)
        assert first.result() == whole(CORPUS)
        assert [part.result() for part in parts] == before


def test_the_seeds_recipe_by_hand():
    assert seed_digest(CORPUS) == hashlib.sha256(b"3:2:a__b-1|a__b-3").hexdigest()[:16]
    assert seed_digest([]) == hashlib.sha256(b"0:0:").hexdigest()[:16]
    twice = [CORPUS[0], header(CORPUS[0], run_id="a__b-1__n__a", model="n")]  # an instance counts once per stamped run
    assert seed_digest(twice) == hashlib.sha256(b"2:2:a__b-1|a__b-1").hexdigest()[:16]
