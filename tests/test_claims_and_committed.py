"""Claims and other committed data: read whole and unchanged, or not at all."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from traceaudit.claims import Finding, Verdict, combine, load_claims
from traceaudit.committed import LIST, committed_bytes, digests
from traceaudit.errors import PinMismatch, ValueProblem
from traceaudit.pins import data_pins
from traceaudit.trail import pin, published
from traceaudit.trail.audit import CLAIM_MEASURES
from traceaudit.trail.measures.citations import load_lines

READERS = {
    "claims.toml": lambda folder: load_claims(folder=folder),
    "trail-published.toml": published.load,
    "trail-lines.toml": load_lines,
}


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of the committed data, without the records."""
    return Path(shutil.copytree(data_pins(), tmp_path / "pins", ignore=shutil.ignore_patterns("records")))


@pytest.mark.parametrize("name", READERS)
def test_one_flipped_byte_is_a_mismatch_that_says_what_to_do(name, folder):
    READERS[name](folder)
    path = folder / name
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    with pytest.raises(PinMismatch) as caught:
        READERS[name](folder)
    assert caught.value.where == name
    assert caught.value.got == hashlib.sha256(data).hexdigest()
    assert caught.value.expected == digests(folder)[name]
    assert LIST in caught.value.next_step


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "claims.toml").unlink(),  # absent
        lambda folder: (folder / LIST).unlink(),  # no list
        lambda folder: (folder / LIST).write_text("[sha256]\n"),  # not listed
        lambda folder: (folder / LIST).write_text("sha256 = ["),  # not TOML
    ],
)
def test_what_is_not_there_or_not_listed_is_not_read(damage, folder):
    damage(folder)
    with pytest.raises(PinMismatch):
        committed_bytes("claims.toml", folder)


def rewritten(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / LIST).write_text(f'[sha256]\n"{name}" = "{hashlib.sha256(text.encode()).hexdigest()}"\n')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[claim", "not TOML"),
        ('[[claim]]\nid = "X"\n', "exactly these fields"),  # fields are missing
        ("{c}\n{c}", "occurs twice"),
        ('{c}\nextra = "x"\n', "exactly these fields"),  # one too many
        ("{c}".replace("c", "e"), "none empty"),  # an empty sentence
    ],
)
def test_malformed_claims_are_refused(text, words, folder):
    fields = ("id", "subject", "title", "sentence", "fixed", "kind", "known", "chapter")
    claim = "[[claim]]\n" + "".join(f'{field} = "x"\n' for field in fields)
    rewritten(
        folder,
        "claims.toml",
        text.replace("{c}", claim).replace("{e}", claim.replace('sentence = "x"', 'sentence = ""')),
    )
    with pytest.raises(PinMismatch, match=words):
        load_claims(folder=folder)


def test_every_committed_file_is_pinned_by_something():
    pinned = pin.load()
    by_pin = {"trail-files.tsv", "trail-judges-files.tsv", pinned.index_path.name, pinned.taxonomy_path.name}
    there = {path.name for path in data_pins().iterdir() if path.is_file()}
    assert there == {LIST, *by_pin, *digests()}
    for name in digests():
        committed_bytes(name)


def test_every_claim_has_a_measure_and_every_measure_a_claim():
    assert list(load_claims(subjects=["trail"])) == list(CLAIM_MEASURES)


def finding(verdict: Verdict, id: str = "P1") -> Finding:
    return Finding(id, verdict, f"said {verdict}", ("a",))


# verdicts of the parts -> verdict of the whole: the gravest, and not measured outweighs held
COMBINED = [
    ((Verdict.HELD, Verdict.HELD), Verdict.HELD),
    ((Verdict.HELD, Verdict.VIOLATED), Verdict.VIOLATED),
    ((Verdict.LATENT, Verdict.VIOLATED), Verdict.VIOLATED),
    ((Verdict.LATENT, Verdict.HELD), Verdict.LATENT),
    ((Verdict.NOT_MEASURED, Verdict.HELD), Verdict.NOT_MEASURED),
    ((Verdict.NOT_MEASURED, Verdict.LATENT), Verdict.LATENT),
]


@pytest.mark.parametrize(("parts", "whole"), COMBINED)
def test_combined_verdicts(parts, whole):
    named = {str(position): finding(verdict).prefixed(f"s{position}") for position, verdict in enumerate(parts)}
    combined = combine(named)
    assert combined.verdict == whole
    assert combined.values == ("s0_a", "s1_a")
    assert Finding.from_json("P1", combined.as_json()) == combined


def test_findings_of_two_claims_do_not_combine():
    with pytest.raises(ValueProblem):
        combine({"a": finding(Verdict.HELD), "b": finding(Verdict.HELD, "P2")})
    with pytest.raises(ValueProblem):
        combine({})
