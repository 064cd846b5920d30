"""The values of a receipt's page: the figures of a judge's replies, recorded like those of any chapter.

A receipt makes no claim and has no stored record, because its input is the reader's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ...values import Measure, Value, count, measure, score, text
from ..receipt import Receipt, make_receipt
from ..replies import Replies
from ..study import NAMES, Study

__all__ = ["LISTED", "dropped_name", "receipt_measure", "receipt_values"]

LISTED = 20
"""How many names of files that were not used become values; the rest is counted."""

REPORTED = ("joint", "location", "weighted_f1")
OVER_SCORED = ("joint_scored", "location_scored", "joint_precision", "location_precision", "sprayed_joint")
OVER_ALL = ("joint_all_traces", "location_all_traces")


def receipt_measure(replies: Replies) -> Measure:
    """The measure of one judge's replies."""

    @measure(needs={"gold"})
    def receipt(study: Study) -> Iterator[Value]:
        yield from receipt_values(make_receipt(study, replies))

    return receipt


def dropped_name(reason: str) -> str:
    """The name of the value that counts the traces dropped for a reason."""
    return "dropped_" + re.sub(r"[^a-z0-9]+", "_", reason.lower()).strip("_")


def receipt_values(receipt: Receipt) -> Iterator[Value]:
    """Every figure of a receipt as a value.

    Undefined figures are undefined values; the scorer's own 0/0 keeps its raw 0 and is shown as ``0 (0/0)``.
    """
    yield text("split_name", NAMES[receipt.split])
    yield text("engine", receipt.engine)
    for name in ("traces_gold", "answered", "missing", "scored", "summed_unscored", "short_circuited"):
        yield count(name, getattr(receipt, name), "traces")
    yield count("dropped", sum(receipt.dropped.values()), "traces", n=receipt.answered)
    for reason, n in receipt.dropped.items():
        yield count(dropped_name(reason), n, "traces", of=reason)
    left_out = {**receipt.dropped, **({"no reply": receipt.missing} if receipt.missing else {})}
    for name in (*REPORTED, *OVER_SCORED):
        figure = score(name, getattr(receipt, name), digits=4, n=receipt.scored, dropped=left_out)
        yield replace(figure, shown="0 (0/0)") if name in receipt.undefined else figure
    for name in OVER_ALL:
        yield score(name, getattr(receipt, name), digits=4, n=receipt.traces_gold)
    yield count("emitted", receipt.emitted, "errors", n=receipt.scored)
    yield score("per_gold_error", receipt.per_gold_error, digits=2, unit="errors", n=receipt.scored, of="gold errors")
    yield text("averages", _averages(receipt))
    yield count("unreadable_gold", len(receipt.unreadable_gold), "traces")
    yield count("unknown_files", len(receipt.unknown_files), "files")
    yield count("refused_files", len(receipt.refused), "files")
    for place, trace in enumerate(receipt.unreadable_gold[:LISTED], 1):
        yield text(f"unused_gold_{place}", trace, of="its gold cannot be read")
    for place, (name, why) in enumerate(list(receipt.refused.items())[:LISTED], 1):
        yield text(f"unused_refused_{place}", name, of=f"not read: {why}")
    for place, name in enumerate(receipt.unknown_files[:LISTED], 1):
        yield text(f"unused_unknown_{place}", name, of="belongs to no trace of this split")
    yield text("signature", receipt.signature)
    yield text("replies_digest", receipt.provenance["replies_digest"])


def _averages(receipt: Receipt) -> str:
    if not receipt.scored:
        return "no averages, since no reply could be scored"
    return "no means, since it divides by fewer traces than it adds up" if receipt.summed_unscored else "means"
