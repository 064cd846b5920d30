"""Which layer of integrity sees which forgery, and what each layer cannot testify.

A layer is worth what it catches when the forger is careful, so each forgery runs on a copy of a signed corpus and every
layer looks at the result.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec.structs import replace

from ..errors import NothingToCheck, UsageError
from .attacks import ATTACKS, Attack
from .digests import corpus_digest, seed_digest
from .files import iter_runs, read_run, write_run
from .manifest import CHAIN, MANIFEST, Problem, build_manifest, run_files
from .sampling import Replay, chance, reexecute, sample
from .schema import NOT_MEASURED, Run
from .signing import head, sign_with, verify_chain
from .toy import sealed
from .verify import verify

__all__ = ["LAYERS", "Caught", "Layer", "Published", "attack_corpus", "detect", "publish", "staged"]


class Layer(msgspec.Struct, frozen=True):
    """One layer: its id and title, what it needs beside the corpus, and what it cannot testify."""

    id: str
    title: str
    needs: str
    cannot: str


LAYERS = (
    Layer(
        "consistency",
        "consistency",
        "nothing",
        "It recomputes every value from the files that declare it, so it cannot testify that a run happened, that an "
        "outcome was measured or that no run is missing: whoever keeps the rules passes.",
    ),
    Layer(
        "seed_digest",
        "digest of the seed",
        "a published digest",
        "It is made of two counts and the task ids of graded runs, so it cannot testify to labels, steps, outcomes, "
        "models or anything of ungraded runs.",
    ),
    Layer(
        "corpus_digest",
        "digest of the corpus",
        "a published digest",
        "It testifies that the runs are those whose digest was published, and cannot testify who published it, that "
        "what was published was true, or to files beside the runs.",
    ),
    Layer(
        "signed_chain",
        "signed chain",
        "the collector's public key",
        "It testifies that the collector vouched for exactly these files once, and cannot testify that it was the "
        "newest state that was signed, that the collector was honest, or that the key was not stolen.",
    ),
    Layer(
        "remembered_head",
        "signed chain and a remembered head",
        "the public key and the newest entry as somebody else keeps it",
        "It testifies that no signed state was taken back since the head was kept, and cannot testify to what was "
        "never signed, such as a failed run that its collector left out from the start.",
    ),
    Layer(
        "reexecution",
        "sampled re-execution",
        "captures, the environment of every task, and a draw made after the corpus was fixed",
        "It testifies that the recorded actions of the sampled runs lead to their recorded outcomes, and cannot "
        "testify who made them, which model it was, what it cost, what runs are missing or repeated, or to runs "
        "outside the sample or that cannot be replayed.",
    ),
)
"""The layers from the cheapest to the dearest."""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a corpus from elsewhere than the corpus, from the time before a forgery.

    Attributes:
        seed_digest, corpus_digest: As published.
        key: The collector's public key; None where nothing was signed.
        head: The newest entry of the chain, see :func:`traceaudit.runs.signing.head`.
        problems: What consistency said already; only what is new counts as caught.
    """

    seed_digest: str
    corpus_digest: str
    key: Ed25519PublicKey | None
    head: str
    problems: frozenset[tuple[str, str]]


class Caught(msgspec.Struct, frozen=True, kw_only=True):
    """What one layer says of a forged corpus: ``caught`` is None where the layer has not what it needs.

    Attributes:
        layer: Its id.
        by: The rules that fired, or the reason why it could not look; empty where it saw nothing. Re-execution
        always says how many runs differ and how many could not be replayed.
        chance: For re-execution, the chance that the sample holds one of the runs that differ.
    """

    layer: str
    caught: bool | None
    by: str = ""
    chance: float | None = None


def publish(folder: Path, key: Ed25519PublicKey | None = None) -> Published:
    """What a collector would publish of a corpus as it stands.

    Raises:
        NothingToCheck: no runs.
    """
    ours, seeds = _digests(folder)
    known = frozenset((problem.rule, problem.run_id) for problem in verify(folder))
    return Published(seed_digest=seeds, corpus_digest=ours, key=key, head=head(folder), problems=known)


def _digests(folder: Path) -> tuple[str, str]:
    return corpus_digest(iter_runs(folder, [])), seed_digest(iter_runs(folder, []))


def detect(
    folder: Path, published: Published, *, replay: Replay | None = None, size: int = 4, seed: int | str = 0
) -> list[Caught]:
    """Let every layer look at a corpus that may be forged, in the order of :data:`LAYERS`.

    Args:
        folder: The corpus.
        published: What is known of it from before, see :func:`publish`.
        replay: Executes a run again; every run is replayed here so that the chance of a sample is exact.
        size: Runs in the sample that is reported (all of them where there are fewer).
        seed: Of its draw.

    Returns:
        A row a layer. Re-execution is ``caught`` when a replay of every run shows a difference; ``by`` says what the
        sample of ``size`` saw, ``chance`` what any sample of that size sees.
    """
    new = [problem for problem in verify(folder) if (problem.rule, problem.run_id) not in published.problems]
    ours, seeds = _digests(folder)
    rows = [
        _rules("consistency", new),
        _equal("seed_digest", published.seed_digest, seeds),
        _equal("corpus_digest", published.corpus_digest, ours),
    ]
    if published.key is None or not published.head:
        unsigned = ("signed_chain", "remembered_head")
        rows += (Caught(layer=layer, caught=None, by="nothing was signed") for layer in unsigned)
    else:
        entries = build_manifest(folder)
        for layer, remembered in (("signed_chain", None), ("remembered_head", published.head)):
            said = verify_chain(folder, published.key, remembered=remembered, entries=entries)
            rows.append(_rules(layer, [problem for problem in said if problem.severity == "ERROR"]))
    rows.append(_replayed(folder, replay, size, seed))
    return rows


def _rules(layer: str, problems: Iterable[Problem]) -> Caught:
    rules = sorted({problem.rule for problem in problems})
    return Caught(layer=layer, caught=bool(rules), by=", ".join(rules))


def _equal(layer: str, published: str, now: str) -> Caught:
    return Caught(layer=layer, caught=published != now, by="another digest" if published != now else "")


def _replayed(folder: Path, replay: Replay | None, size: int, seed: int | str) -> Caught:
    if replay is None:
        return Caught(layer="reexecution", caught=None, by="nothing can be replayed here")
    everything = reexecute(iter_runs(folder, []), replay)
    if not everything.agrees + everything.differs:
        return Caught(layer="reexecution", caught=None, by="no run could be replayed")
    total = len(everything.rows)
    names = {row.run_id for row in everything.rows}
    size = min(size, len(names))
    drawn = set(sample(names, size, seed))
    met = sum(row.state == "differs" and row.run_id in drawn for row in everything.rows)
    by = f"{everything.differs} of {total} runs differ, {met} of them in the sample of {size}"
    return Caught(
        layer="reexecution",
        caught=everything.caught,
        by=by + (f", {everything.not_replayed} not replayed" if everything.not_replayed else ""),
        chance=chance(total, everything.differs, size),
    )


def staged(source: Path, target: Path, key: Ed25519PrivateKey) -> Path:
    """Copy a corpus and sign it twice, as a collector does: before its last run was graded and one more came, and now.

    Args:
        source: The corpus; it is not changed, and a chain of its own is not copied.
        target: A folder that is not there; the signed corpus is ``target/corpus``.
        key: The collector's key for this exercise.

    Returns:
        The older state, ``target/past``: the last run is missing and the first graded one is not graded.

    Raises:
        NothingToCheck: fewer than two runs.
        UsageError: the target is there or lies in the source.
    """
    if target.exists():
        raise UsageError("this is there already and nothing is overwritten", where=str(target))
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise UsageError("copies of a corpus are not made inside of it", where=str(target))
    paths = run_files(source)
    if len(paths) < 2:
        raise NothingToCheck("two runs are needed at least", where=str(source), got=f"{len(paths)}")
    corpus, past = target / "corpus", target / "past"
    shutil.copytree(source, corpus, ignore=shutil.ignore_patterns(MANIFEST, CHAIN, ".*"))
    newest = corpus / paths[-1].name
    ungraded = next((path for path in run_files(corpus)[:-1] if (run := read_run(path, [])) and run.stamped), None)
    kept = {path: path.read_bytes() for path in (newest, ungraded) if path is not None}
    newest.unlink()
    if ungraded is not None and (run := read_run(ungraded, [])) is not None:
        ungraded.unlink()
        write_run(_ungraded(run), corpus)
        plain = corpus / f"{run.header.run_id}.jsonl"
        sign_with(corpus, key, at="before")
        shutil.copytree(corpus, past)
        plain.unlink(missing_ok=True)
    else:
        sign_with(corpus, key, at="before")
        shutil.copytree(corpus, past)
    for path, data in kept.items():
        path.write_bytes(data)
    sign_with(corpus, key, at="now")
    return past


def _ungraded(run: Run) -> Run:
    header = replace(run.header, resolved=None, resolved_by="", instrument=None)
    return sealed(Run(header, tuple(replace(step, outcome=NOT_MEASURED) for step in run.steps)))


def _link(source: str, target: str) -> None:
    """A hard link: every forgery replaces files whole and writes none in place."""
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def attack_corpus(
    source: Path,
    target: Path,
    *,
    attacks: Sequence[Attack] = ATTACKS,
    replay: Replay | None = None,
    size: int = 4,
    seed: int = 0,
    keep: bool = True,
) -> list[dict[str, Any]]:
    """Run forgeries on signed copies of a corpus and let every layer look: the rows of the chapter.

    The key is made from the seed, is held in memory only and is worth nothing outside of this exercise.

    Args:
        source: The corpus, which is not changed.
        target: A folder that is not there; a copy per forgery is left in it under the forgery's name. The copies share
            the files that they have in common (hard links), so edit none of them in place.
        attacks: Which forgeries.
        replay: Executes a run again, such as :func:`traceaudit.runs.toy.replay`.
        size, seed: Of the sample of re-execution; the seed also decides what is forged.
        keep: Whether the forged copies stay.

    Returns:
        A row a forgery: ``attack``, ``of_seed``, ``aim``, ``did`` (what was changed; or why it could not be made, and
        then ``layers`` is empty) and ``layers``, id -> {caught, by, chance}.

    Raises:
        NothingToCheck, UsageError: as :func:`staged`.
    """
    key = Ed25519PrivateKey.from_private_bytes(random.Random(f"collector:{seed}").randbytes(32))
    past = staged(source, target, key)
    corpus = target / "corpus"
    published = publish(corpus, key.public_key())
    rows: list[dict[str, Any]] = []
    for attack in attacks:
        copy = target / attack.id
        shutil.copytree(corpus, copy, copy_function=_link)
        row: dict[str, Any] = {"attack": attack.id, "of_seed": attack.of_seed, "aim": attack.aim, "layers": {}}
        try:
            row["did"] = attack(copy, random.Random(f"{attack.id}:{seed}"), past)
            row["layers"] = {
                caught.layer: {"caught": caught.caught, "by": caught.by, "chance": caught.chance}
                for caught in detect(copy, published, replay=replay, size=size, seed=seed)
            }
        except NothingToCheck as error:
            row["did"] = f"not made: {error.what}"
        rows.append(row)
        if not keep:
            shutil.rmtree(copy)
    return rows
