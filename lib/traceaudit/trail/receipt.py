"""The receipt: the pinned scorer's figures for a judge's replies, and beside them what they cost.

A score on this benchmark leaves out what could not be used and divides by the rest. A receipt says both what the scorer
reports and what it left out, and carries a signature, so that two people can tell whether their numbers are comparable.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import NothingToCheck, UsageError
from . import demo, pin
from .documents import load_reply_exactly
from .independent import IndependentEngine
from .judge import JudgeScore, score_judge
from .replies import Replies
from .spared import SparedEngine, alone
from .study import NAMES, REAL_SPLITS, Study, open_study

__all__ = ["SPLITS", "Receipt", "make_receipt", "notes", "open_scoring", "signature", "text"]

SPLITS = (*REAL_SPLITS, "demo")
TOLERANCE = 1e-12
WRONG_TYPE = "a field has the wrong type"
LISTED = 5  # names of a kind in the text; the JSON has all


@dataclass(frozen=True)
class Receipt:
    """What a judge's replies score on one split. The attributes, in this order, are the keys of the JSON.

    ``joint``, ``location`` and ``weighted_f1`` are the engine's own to the last bit, its 0/0 = 0 included. In every
    other column ``None`` is undefined, and a mean keeps the scorer's rule of 0 for a trace without anything to divide
    by. "Scored" traces are those that the scorer averages over.

    Attributes:
        split: ``gaia``, ``swe-bench`` or ``demo``.
        engine: ``upstream`` or ``independent``.
        traces_gold: Traces whose gold can be read; only these can be scored.
        answered: Those with a reply, whatever became of it.
        missing: Those without, also because it was refused; ``answered + missing = traces_gold``.
        dropped: reason -> answered traces that the scorer leaves out.
        scored: The rest; ``scored + sum(dropped) = answered``.
        joint: As reported: sum of |gold pairs ∩ predicted pairs| / |gold pairs|, over ``scored``.
        location: The same over locations.
        weighted_f1: As reported: support-weighted F1 of the categories over the scored traces.
        joint_all_traces: The scored traces' joint / ``traces_gold``: what is not scored counts 0.
        location_all_traces: The same of location.
        emitted: Errors named in the replies of the scored traces.
        per_gold_error: ``emitted`` / gold errors of the scored traces.
        joint_precision: Mean over scored traces of the same intersection / |predicted pairs|; ``None`` where nothing
            was named at all.
        location_precision: The same over locations.
        sprayed_joint: Joint over the scored traces once every flagged span carries every label.
        signature: See :func:`signature`.
        unreadable_gold: Ids of the traces whose gold cannot be read.
        unknown_files: Names that belong to no trace.
        refused: Name -> why it was not read.
        sprayed_over: Traces behind ``sprayed_joint``.
        undefined: Which of the three reported figures stand for 0/0.
        joint_scored: Mean joint over the scored traces. Equals ``joint`` unless ``summed_unscored``.
        location_scored: The same of location.
        summed_unscored: Dropped traces that the scorer had added to its sums before it failed on their score columns:
            they are above the line and not below it, so that ``joint`` and ``location`` are no means and can exceed 1.
        short_circuited: Dropped traces that the upstream engine was not asked for, since it would have searched them
            in vain for a time that grows with the square of their length.
        provenance: Versions and digests; no path and no time.
    """

    split: str
    engine: str
    traces_gold: int
    answered: int
    missing: int
    dropped: Mapping[str, int]
    scored: int
    joint: float
    location: float
    weighted_f1: float
    joint_all_traces: float | None
    location_all_traces: float | None
    emitted: int
    per_gold_error: float | None
    joint_precision: float | None
    location_precision: float | None
    sprayed_joint: float | None
    signature: str
    unreadable_gold: tuple[str, ...]
    unknown_files: tuple[str, ...]
    refused: Mapping[str, str]
    sprayed_over: int
    undefined: tuple[str, ...]
    joint_scored: float | None
    location_scored: float | None
    summed_unscored: int
    short_circuited: int
    provenance: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Plain data under the names of the attributes, in their order."""
        return {key: list(part) if isinstance(part, tuple) else part for key, part in self._parts()}

    def _parts(self) -> Iterator[tuple[str, Any]]:
        for field in dataclasses.fields(self):
            yield field.name, getattr(self, field.name)


def open_scoring(split: str, source: str | None = None, *, engine: str = "auto", unpinned: bool = False) -> Study:
    """Open what a receipt needs of a split: its gold and an engine, and nothing else.

    Args:
        split: One of :data:`SPLITS`.
        source: As for :func:`~traceaudit.trail.study.open_study`.
        engine: ``auto``, ``upstream`` or ``independent``.
        unpinned: Read the source without verification; the signature says so.

    Returns:
        A study that lacks nothing a receipt needs. Close it.

    Raises:
        UsageError: unknown split or engine.
        NothingToCheck: a gold file is not at hand, or ``upstream`` was asked for without the scorer.
        PinMismatch: bytes differ from their pin.
    """
    if split not in SPLITS:
        raise UsageError("replies are scored on one split", where=str(split), expected=", ".join(SPLITS))
    study = open_study(split, source, engine=engine, unpinned=unpinned)
    if "gold" not in study.has:
        study.close()
        raise NothingToCheck(
            "nothing can be scored without the gold files",
            where=f"split {split}",
            got=study.lacks["gold"],
            next_step="give --source, set TRACEAUDIT_SOURCE, or run traceaudit fetch; --split demo needs nothing",
        )
    return dataclasses.replace(study, has=study.has & {"gold", "scorer"}, lacks={}, memo={})


def signature(study: Study) -> str:
    """One line that is the same for two numbers exactly if they can be compared.

    ``trail@<commit>|split:…|engine:…|scorer:<digest>|gold:<readable traces>@<digest>|index:<digest>|options:…|
    traceaudit:<version>``, on one line. The scorer is the pinned one, which ``independent`` is held equal to; the
    digest of the gold is over the ids and bytes of all its files; ``options`` says ``pinned``, or ``unpinned`` where
    the source was read without verification. It does not depend on where the source lies. For the demo the commit gives
    way to its seed.
    """
    pinned, corpus = pin.load(), study.corpus
    digest = hashlib.sha256()
    for trace, data in sorted(corpus.gold.bytes.items()):
        digest.update(f"{trace} {hashlib.sha256(data).hexdigest()}\n".encode())
    readable = sum(file.parses for file in corpus.gold.values())
    benchmark = f"demo@{demo.SEED}" if study.split == "demo" else f"trail@{pinned.pin.commit[:12]}"
    parts = {
        "split": study.split,
        "engine": study.engine.name,
        "scorer": pinned.scorer_sha256[:12],
        "gold": f"{readable}@{digest.hexdigest()[:12]}",
        "index": study.index_digest[:12],
        "options": "unpinned" if "without verification" in study.recordable else "pinned",
        "traceaudit": importlib.metadata.version("traceaudit"),
    }
    return "|".join([benchmark, *(f"{key}:{part}" for key, part in parts.items())])


def make_receipt(study: Study, replies: Replies) -> Receipt:
    """Score a judge's replies and say what the score cost.

    Args:
        study: One split with all its gold; see :func:`open_scoring`.
        replies: What the judge said.

    Raises:
        WorkerFailed: the pinned scorer ran out of time or memory.
        TraceAuditError: a reply nests too deeply to be read twice.
    """
    corpus = study.corpus
    upstream = study.engine.name == "upstream"
    sparing = SparedEngine(study.engine) if upstream else None
    spared = dataclasses.replace(study, engine=sparing or study.engine, memo={})
    judge = alone(lambda: score_judge(spared, corpus, replies.files), room=upstream)
    report, scored = judge.report, len(judge.figures)
    named = judge.emitted > 0
    reported = {"joint": judge.gold_errors, "location": judge.gold_errors, "weighted_f1": _support(judge)}
    return Receipt(
        split=study.split,
        engine=study.engine.name,
        traces_gold=len(judge.traces),
        answered=judge.answered,
        missing=judge.missing,
        dropped=dict(judge.dropped),
        scored=scored,
        joint=report.joint,
        location=report.location,
        weighted_f1=report.weighted_f1,
        joint_all_traces=judge.over_all("joint"),
        location_all_traces=judge.over_all("location"),
        emitted=judge.emitted,
        per_gold_error=judge.per_gold_error,
        joint_precision=judge.over_scored("joint_precision") if named else None,
        location_precision=judge.over_scored("location_precision") if named else None,
        sprayed_joint=judge.over_scored("sprayed_joint"),
        signature=signature(study),
        unreadable_gold=judge.unreadable,
        unknown_files=replies.unknown,
        refused=dict(replies.refused),
        sprayed_over=scored,
        undefined=tuple(name for name, whole in reported.items() if not (scored and whole)),
        joint_scored=judge.over_scored("joint"),
        location_scored=judge.over_scored("location"),
        summed_unscored=alone(lambda: _summed_unscored(study, judge, replies.files), room=True),
        short_circuited=len(sparing.left_out & set(judge.traces)) if sparing else 0,
        provenance=study.provenance() | {"replies_digest": replies.digest},
    )


def _support(judge: JudgeScore) -> int:
    return sum(category.support for category in judge.report.categories.values())


def _summed_unscored(study: Study, judge: JudgeScore, files: Mapping[str, bytes]) -> int:
    """Dropped traces on which the per-trace function does not fail, so that what failed came after the sums."""
    dropped = [trace for trace in judge.report.dropped if trace in judge.traces]
    pairs = []
    for trace in dropped:
        try:
            pairs.append((study.corpus.gold[trace].value, load_reply_exactly(files[trace])))
        except (ValueError, RecursionError):
            continue
    return sum(found is not None for found in IndependentEngine(study.taxonomy).trace_many(pairs))


def notes(receipt: Receipt) -> list[str]:
    """What a reader must know before comparing, in sentences."""
    out = []
    if receipt.undefined:
        out.append(f"The scorer's 0 stands for 0/0 in: {', '.join(receipt.undefined)}.")
    if receipt.summed_unscored:
        out.append(
            f"{_traces(receipt.summed_unscored)} failed in the score columns after the scorer had added what they "
            "score: in its sums, but not in its divisor. So the averages it reports are no means and can exceed 1. The "
            f"means over the {receipt.scored} scored: joint {_figure(receipt.joint_scored)}, location "
            f"{_figure(receipt.location_scored)}."
        )
    if receipt.short_circuited:
        out.append(
            f"{_traces(receipt.short_circuited)} of those dropped: the pinned scorer was not run on these long "
            "malformed replies, which it would have dropped after a time that grows with the square of their length."
        )
    if receipt.unreadable_gold:
        ids = ", ".join(receipt.unreadable_gold)
        out.append(f"The gold cannot be read, so no judge can be scored, for {ids}.")
    if receipt.refused:
        first = [f"{name} ({why})" for name, why in receipt.refused.items()]
        out.append(f"Not read, and so without a reply: {_few(first)}.")
    if receipt.unknown_files:
        out.append(f"Belongs to no trace of this split: {_few(list(receipt.unknown_files))}.")
    return out


def _traces(n: int) -> str:
    return f"{n} trace" if n == 1 else f"{n} traces"


def _few(names: list[str]) -> str:
    rest = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {rest} more" if rest > 0 else "")


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def text(receipt: Receipt) -> str:
    """The receipt for people: one table of traces, one of figures, what to know, the signature."""
    source = receipt.provenance["source"]
    lines = [f"Receipt, {NAMES[receipt.split]}, engine {receipt.engine}, {source}", ""]
    counts = [("traces with readable gold", receipt.traces_gold), ("  answered", receipt.answered)]
    counts += [("    scored", receipt.scored), ("    dropped", sum(receipt.dropped.values()))]
    counts += [(f"      {reason}", n) for reason, n in receipt.dropped.items()]
    counts += [("  missing", receipt.missing)]
    lines += [f"{name:<34}{n:>8,}" for name, n in counts]
    over, all_traces = f"over {receipt.scored}", f"over {receipt.traces_gold}"
    lines += ["", f"{'':<14}{'reported':>12}{'all traces':>12}{'precision':>12}{'sprayed':>12}"]
    lines += [f"{'':<14}{over:>12}{all_traces:>12}{over:>12}{over:>12}"]
    for name, *figures in (
        ("joint", receipt.joint, receipt.joint_all_traces, receipt.joint_precision, receipt.sprayed_joint),
        ("location", receipt.location, receipt.location_all_traces, receipt.location_precision),
        ("weighted F1", receipt.weighted_f1),
    ):
        shown = [_figure(figure) for figure in figures]
        shown[0] = "0 (0/0)" if name.lower().replace(" ", "_") in receipt.undefined else shown[0]
        lines.append(f"{name:<14}" + "".join(f"{each:>12}" for each in shown))
    each = "undefined" if receipt.per_gold_error is None else f"{receipt.per_gold_error:.2f}"
    lines += ["", f"errors named in the scored replies: {receipt.emitted:,}, for each gold error {each}"]
    lines += ["all traces: what is not scored counts 0; sprayed: every flagged span given every label"]
    said = notes(receipt)
    lines += ["", *said] if said else []
    return "\n".join([*lines, "", receipt.signature]) + "\n"
