"""How two columns of a table relate, from their counts alone, each relation with its exact exceptions.

Counts of pairs of values are enough for all of it, so that rows need not be kept and parts of a corpus can be added up.

The relations, the strongest first; ``rows`` are the rows with a value in ``a`` or ``b``, or all rows where null counts
as a value (marked *):

- ``equal``: the same value, or both null;
- ``negation``: truth values, one is the other's opposite;
- ``affine a*x+b``: numbers on one line, three or more points of it; ``how`` gives the line;
- ``equal after mapping`` *: a one-to-one mapping of values; it is built from the most frequent pairs down;
- ``null exactly where`` *: ``b`` is null exactly where the truth value ``a`` is the one that ``how`` names;
- ``null together`` *: null on the same rows;
- ``determines`` *: each value of ``a`` goes with one value of ``b``, its most frequent one.

A relation is reported with at most :data:`SHARE` of its rows as exceptions and, so that two columns that are nearly
constant are not called related, with at most :data:`GAIN` of the exceptions that the most frequent value alone would
leave. Mappings and determinations need values that repeat: where every row has its own value they hold by themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CAP", "GAIN", "SHARE", "Joint", "Side", "relations"]

CAP = 4096
"""Distinct values of a column, or pairs of values of two columns, that are counted one by one."""
SHARE = 0.02
GAIN = 0.1
Joint = tuple[NDArray[np.int64], NDArray[np.int64]]
Triples = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class Side:
    """One column: its values by code (0 is null) with their counts where they are few, ``values`` None where not."""

    def __init__(
        self,
        *,
        name: str,
        rows: int,
        filled: int,
        kinds: frozenset[str],
        whole: bool,
        first: Any,
        values: list[Any] | None,
        counts: NDArray[np.int64],
        keys: list[int],
    ) -> None:
        self.name, self.rows, self.filled, self.kinds, self.whole = name, rows, filled, kinds, whole
        self.first, self.values, self.counts, self.keys = first, values, counts, keys
        self.distinct = CAP + 1 if values is None else sum(map(bool, counts[1:]))
        self.constant = bool(rows) and self.distinct == 1 and filled == rows
        self.single = self.distinct == 1 and filled < rows
        self.varied = bool(filled) and not self.constant
        self.off = filled if values is None else rows - int(counts.max(initial=0))
        """Rows that do not have the most frequent value (null counts as one)."""


def relations(
    a: Side, b: Side, both: int, same: int, joint: Triples | None, sums: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """The relations of two columns that are neither empty nor constant.

    Args:
        a: One column. ``b``: the other.
        both: Rows with a value in both.
        same: Rows with an equal value in both.
        joint: Codes of ``a``, codes of ``b`` and how often they come together; None where there are too many.
        sums: Σa, Σb, Σa², Σb², Σab over the rows with both, where all values are whole numbers.
    """

    def row(relation: str, exceptions: int, rows: int, how: str = "", turned: bool = False) -> dict[str, Any]:
        names = {"a": b.name, "b": a.name} if turned else {"a": a.name, "b": b.name}
        return {**names, "relation": relation, "exceptions": exceptions, "rows": rows} | ({"how": how} if how else {})

    either, off = a.filled + b.filled - both, min(a.off, b.off)
    pairs = [] if joint is None else list(zip(*(part.tolist() for part in joint), strict=True))
    if same and _few(wrong := either - same, either, off):
        yield row("equal", wrong, either)
        return
    if a.kinds == b.kinds == {"bool"} and pairs:
        opposite = sum(n for x, y, n in pairs if x and y and _value(a, x) is not _value(b, y))
        if opposite and _few(wrong := either - opposite, either, off):
            yield row("negation", wrong, either)
            return
    if line := _line(a, b, both, pairs, sums):
        factor, offset, wrong = line[0], line[1], either - line[2]
        if _few(wrong, either, off):
            yield row("affine a*x+b", wrong, either, f"{b.name} = {factor}*{a.name} + {offset}")
            return
    if pairs and _repeats(a) and _repeats(b) and _few(wrong := a.rows - _matched(a, b, pairs), a.rows, off):
        yield row("equal after mapping", wrong, a.rows)
        return
    told = False
    for left, right, turned in ((a, b, False), (b, a, True)):
        if left.kinds == {"bool"} and 0 < right.filled < right.rows and pairs:
            least = min(left.off, right.filled, right.rows - right.filled)
            for state in (True, False):
                wrong = sum(
                    n for x, y, n in pairs if (_value(left, y if turned else x) is state) == bool(x if turned else y)
                )
                if _few(wrong, a.rows, least):
                    yield row("null exactly where", wrong, a.rows, f"{left.name} is {str(state).lower()}", turned)
                    told = True
    if told:
        return
    least = min(a.filled, a.rows - a.filled, b.filled, b.rows - b.filled)
    if least and _few(wrong := a.filled + b.filled - 2 * both, a.rows, least):
        yield row("null together", wrong, a.rows)
    for left, right, turned in ((a, b, False), (b, a, True)):
        turn = [(y, x, n) for x, y, n in pairs] if turned else pairs
        left_over = _undetermined(turn, right) if pairs and _repeats(left) else None
        if left_over is not None and _few(left_over, a.rows, right.off):
            yield row("determines", left_over, a.rows, turned=turned)


def _few(exceptions: int, rows: int, off: int) -> bool:
    return exceptions <= SHARE * rows and exceptions <= GAIN * off


def _value(side: Side, code: int) -> Any:
    return None if side.values is None else side.values[code]


def _repeats(side: Side) -> bool:
    return side.values is not None and 2 * int((side.counts > 0).sum()) <= side.rows


def _matched(a: Side, b: Side, pairs: list[tuple[int, int, int]]) -> int:
    """Rows on the one-to-one mapping that takes the most frequent pair of values first."""
    left: set[int] = set()
    right: set[int] = set()
    rows = 0
    for x, y, n in sorted(pairs, key=lambda pair: (-pair[2], a.keys[pair[0]], b.keys[pair[1]])):
        if x not in left and y not in right:
            left.add(x)
            right.add(y)
            rows += n
    return rows


def _undetermined(pairs: list[tuple[int, int, int]], right: Side) -> int | None:
    """Rows of which the value of ``right`` is not the usual one for their left value.

    None where it would hold by itself: half or more of the rows without the most frequent right value have a left
    value of their own.
    """
    usual = int(right.counts.argmax())
    sizes: dict[int, int] = defaultdict(int)
    most: dict[int, int] = defaultdict(int)
    for x, _, n in pairs:
        sizes[x] += n
        most[x] = max(most[x], n)
    alone = sum(n for x, y, n in pairs if y != usual and sizes[x] == 1)
    return None if 2 * alone >= right.off else sum(sizes.values()) - sum(most.values())


def _line(
    a: Side, b: Side, both: int, pairs: list[tuple[int, int, int]], sums: Sequence[int]
) -> tuple[Fraction, Fraction, int] | None:
    """Factor, offset and the rows on the line b = factor·a + offset; None without one.

    With counts of pairs, lines through points at the ninths of the rows are tried and the best is taken, its rows
    counted exactly. Without, whole numbers are on one line exactly where (nΣab - ΣaΣb)² = (nΣa² - (Σa)²)(nΣb² - (Σb)²);
    such a line has no exceptions among the rows with both values, or is not found.
    """
    if not (a.kinds == b.kinds == {"number"}) or a.distinct < 3 or b.distinct < 3:
        return None
    if not pairs:
        if not (a.whole and b.whole):
            return None
        x, y, xx, yy, xy = sums
        across, along, up = both * xy - x * y, both * xx - x * x, both * yy - y * y
        if along <= 0 or up <= 0 or across * across != along * up:
            return None
        factor = Fraction(across, along)
        return factor, (y - factor * x) / both, both
    points = sorted((_value(a, x), _value(b, y), n) for x, y, n in pairs if x and y)
    points = [(Fraction(x), Fraction(y), n) for x, y, n in points if abs(x) < 1e300 and abs(y) < 1e300]
    best: tuple[Fraction, Fraction, int] | None = None
    chosen = _ninths(points)
    tried: set[tuple[Fraction, Fraction]] = set()
    for at, (x0, y0) in enumerate(chosen):
        for x1, y1 in chosen[at + 1 :]:
            if x0 == x1 or y0 == y1:
                continue
            factor = (y1 - y0) / (x1 - x0)
            if (line := (factor, y0 - factor * x0)) in tried:
                continue
            tried.add(line)
            on = [(x, n) for x, y, n in points if factor * x + line[1] == y]
            rows = sum(n for _, n in on)
            if len({x for x, _ in on}) >= 3 and (best is None or rows > best[2]):
                best = (*line, rows)
    return best


def _ninths(points: list[tuple[Fraction, Fraction, int]]) -> list[tuple[Fraction, Fraction]]:
    total, seen, chosen = sum(n for *_, n in points), 0, []
    marks = [(2 * part + 1) * total / 18 for part in range(9)]
    for x, y, n in points:
        seen += n
        if marks and seen >= marks[0]:
            chosen.append((x, y))
            marks = [mark for mark in marks if mark > seen]
    return chosen
