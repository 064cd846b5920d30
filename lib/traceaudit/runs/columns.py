"""Which columns of a corpus say nothing, or what another one says already, computed from the data alone.

A data card that lists such columns from memory is wrong where a column was added, and where "always the same" has
exceptions; here every relation carries its exact number of exceptions and the rows they are counted over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .relations import CAP, GAIN, SHARE, Joint, Side, relations
from .schema import Header, Run, flat

__all__ = ["BATCH", "Columns", "Table", "header_row"]

BATCH = 8192
"""Rows that wait until they are counted together; it changes no result."""
_SHIFT = 20
_LIMB = 24
_LARGEST = 1 << 62
_Ints = NDArray[np.int64]


def header_row(header: Header) -> dict[str, Any]:
    """A header as one row of scalars; ``source`` gives a column per key."""
    row = {name: getattr(header, name) for name in Header.__struct_fields__ if name != "source"}
    row.update({f"source.{name}": item for name, item in header.source.items()})
    return row


def _hash(value: Any) -> int:
    """64 bits of a value, 0 for None; 1 equals 1.0 and neither ``True`` nor ``"1"``, on every machine."""
    if value is None:
        return 0
    if isinstance(value, bool):
        data = b"b1" if value else b"b0"
    elif isinstance(value, int):
        data = b"n" + hex(value).encode()
    elif isinstance(value, float):
        data = b"n" + (hex(int(value)) if value.is_integer() else repr(value)).encode()
    else:
        data = b"t" + str(value).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little") or 1


class _Column:
    """What is kept of one column: its values with their counts while they are few, and the kinds of value seen."""

    def __init__(self, rows: int) -> None:
        self.nulls = rows
        self.kinds: set[str] = set()
        self.whole = True
        self.first: Any = None
        self.codes: dict[int, int] | None = {0: 0}
        self.values: list[Any] = [None]
        self.counts: _Ints = np.array([rows], dtype=np.int64)

    def code(self, key: int, value: Any) -> int:
        """Number of a value, from 0 for None; the column becomes wide where there are more than :data:`CAP`."""
        if self.codes is None:
            return 0
        if (code := self.codes.get(key)) is None:
            if len(self.codes) > CAP:
                self.codes, self.values, self.counts = None, [], np.zeros(0, dtype=np.int64)
                return 0
            code = self.codes[key] = len(self.codes)
            self.values.append(value if isinstance(value, bool | int | float) else None)
        return code

    def count(self, codes: _Ints, times: _Ints | None = None) -> None:
        if self.codes is None:
            return
        counts = np.zeros(len(self.codes), dtype=np.int64)
        counts[: len(self.counts)] = self.counts
        np.add.at(counts, codes, 1 if times is None else times)
        self.counts = counts


class Table:
    """Rows of named scalars folded into counters; memory does not grow with the rows.

    For each column: nulls, kinds, and up to :data:`CAP` distinct values with counts. For each pair: rows with both
    values, rows with equal values (by 64-bit hash), the joint counts while there are at most :data:`CAP` distinct pairs
    of values, and exact integer moments. Whether something is over a limit depends on the union of rows alone, so that
    any order of :meth:`add` and :meth:`merge` gives the same result.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._waiting: list[Mapping[str, Any]] = []
        self._names: list[str] = []
        self._columns: list[_Column] = []
        self._joint: dict[tuple[int, int], Joint | None] = {}
        self._both = np.zeros((0, 0), dtype=np.int64)
        self._same = np.zeros((0, 0), dtype=np.int64)
        self._moments = np.zeros((3, 0, 0), dtype=object)
        """Sums of x, x² and xy over the rows in which both columns have a value."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row; a column that the row lacks is null there."""
        self._waiting.append(row)
        if len(self._waiting) >= BATCH:
            self.flush()

    def _ensure(self, names: list[str]) -> None:
        old = len(self._names)
        for name in names:
            place = len(self._names)
            for other, column in enumerate(self._columns):
                if column.codes is None:
                    self._joint[other, place] = None
                else:
                    kept = np.flatnonzero(column.counts)
                    self._joint[other, place] = (kept.astype(np.int64) << _SHIFT, column.counts[kept])
            self._names.append(name)
            self._columns.append(_Column(self.rows))
        width = len(self._names)
        both, same = np.zeros((width, width), dtype=np.int64), np.zeros((width, width), dtype=np.int64)
        moments = np.zeros((3, width, width), dtype=object)
        both[:old, :old], same[:old, :old], moments[:, :old, :old] = self._both, self._same, self._moments
        self._both, self._same, self._moments = both, same, moments

    def flush(self) -> None:
        """Count the rows that wait."""
        rows, self._waiting = self._waiting, []
        if not rows:
            return
        known = set(self._names)
        self._ensure(list(dict.fromkeys(name for row in rows for name in row if name not in known)))
        size, width = len(rows), len(self._names)
        hashes = np.zeros((width, size), dtype=np.uint64)
        codes = np.zeros((width, size), dtype=np.int64)
        numbers: dict[int, _Ints] = {}
        for place, name in enumerate(self._names):
            hashes[place], codes[place], whole = self._read(self._columns[place], [row.get(name) for row in rows])
            if whole is not None:
                numbers[place] = whole
        filled = hashes != 0
        counted = filled.astype(np.float64)
        self._both += np.rint(counted @ counted.T).astype(np.int64)
        for place in range(width):
            self._same[place] += ((hashes == hashes[place]) & filled).sum(axis=1)
        for one in range(width):
            for other in range(one + 1, width):
                self._pair(one, other, codes)
        self._add_moments(numbers, filled.astype(np.int64))
        self.rows += size

    @staticmethod
    def _read(column: _Column, values: list[Any]) -> tuple[NDArray[np.uint64], _Ints, _Ints | None]:
        """Hash and code of each value, and the numbers where all values are whole ones or null."""
        kinds = set(map(type, values)) - {type(None)}
        index: dict[Any, int] = {}
        mixed = bool in kinds and len(kinds) > 1
        keys: list[Any] = [(type(value) is bool, value) for value in values] if mixed else values
        places = np.array([index.setdefault(key, len(index)) for key in keys], dtype=np.int64)
        distinct = [key[1] for key in index] if mixed else list(index)
        hashed = [_hash(value) for value in distinct]
        if kinds:
            found = {"bool" if kind is bool else "number" if kind in (int, float) else "text" for kind in kinds}
            column.kinds |= found
            if column.first is None:
                column.first = next(value for value in distinct if value is not None)
            if found != {"number"} or not all(value is None or _is_whole(value) for value in distinct):
                column.whole = False
        codes = np.array([column.code(key, value) for key, value in zip(hashed, distinct, strict=True)], dtype=np.int64)
        codes = codes[places] if column.codes is not None else np.zeros(len(values), dtype=np.int64)
        hashes = np.array(hashed, dtype=np.uint64)[places]
        column.nulls += int((hashes == 0).sum())
        column.count(codes)
        if not column.whole:
            return hashes, codes, None
        return (
            hashes,
            codes,
            np.array([0 if value is None else int(value) for value in distinct], dtype=np.int64)[places],
        )

    def _pair(self, one: int, other: int, codes: _Ints) -> None:
        first, second = self._columns[one], self._columns[other]
        if first.codes is None or second.codes is None:
            self._joint[one, other] = None
        if (before := self._joint.get((one, other), _NONE)) is None:
            return
        width = len(second.codes or ())
        if len(first.codes or ()) * width <= 1 << 16:
            counts = np.bincount(codes[one] * width + codes[other])
            found = np.flatnonzero(counts)
            keys, times = (found // width << _SHIFT) | found % width, counts[found]
        else:
            keys, times = np.unique((codes[one] << _SHIFT) | codes[other], return_counts=True)
        self._joint[one, other] = _joined(before, (keys, times.astype(np.int64)))

    def _add_moments(self, numbers: dict[int, _Ints], filled: _Ints) -> None:
        """Exact sums in limbs of 24 bits, so that no product or sum of a batch leaves 64 bits."""
        places = list(numbers)
        if len(places) < 2:
            return
        whole = np.array([numbers[place] for place in places])
        mask = filled[places].T
        low = (1 << _LIMB) - 1
        limbs = [whole & low, (whole >> _LIMB) & low, whole >> (2 * _LIMB)]
        used = [power for power, limb in enumerate(limbs) if limb.any()]
        sums = np.zeros((3, len(places), len(places)), dtype=object)
        for p in used:
            sums[0] += (limbs[p] @ mask).astype(object) << (_LIMB * p)
            for q in used:
                sums[1] += ((limbs[p] * limbs[q]) @ mask).astype(object) << (_LIMB * (p + q))
                sums[2] += (limbs[p] @ limbs[q].T).astype(object) << (_LIMB * (p + q))
        self._moments[np.ix_(range(3), places, places)] += sums

    def merge(self, other: Table) -> None:
        """Take in the rows of another table, which stays as it is."""
        self.flush()
        other.flush()
        known = set(self._names)
        self._ensure([name for name in other._names if name not in known])
        absent = [name for name in self._names if name not in set(other._names)]
        theirs = other
        if absent:
            theirs = other._copy()
            theirs._ensure(absent)
        place = [theirs._names.index(name) for name in self._names]
        codes: list[_Ints] = []
        for column, there in zip(self._columns, [theirs._columns[at] for at in place], strict=True):
            codes.append(_take_in(column, there))
        for one in range(len(place)):
            for two in range(one + 1, len(place)):
                low, high = sorted((place[one], place[two]))
                added, before = theirs._joint.get((low, high)), self._joint.get((one, two), _NONE)
                wide = self._columns[one].codes is None or self._columns[two].codes is None
                if added is None or before is None or wide:
                    self._joint[one, two] = None
                    continue
                left, right = added[0] >> _SHIFT, added[0] & ((1 << _SHIFT) - 1)
                if low != place[one]:
                    left, right = right, left
                self._joint[one, two] = _joined(before, ((codes[one][left] << _SHIFT) | codes[two][right], added[1]))
        grid = np.ix_(place, place)
        self._both += theirs._both[grid]
        self._same += theirs._same[grid]
        self._moments += theirs._moments[np.ix_(range(3), place, place)]
        self.rows += theirs.rows

    def _copy(self) -> Table:
        copy = Table()
        copy.merge(self)
        return copy

    def sides(self, prefix: str = "") -> Iterator[Side]:
        """Each column as the relations see it, by name."""
        self.flush()
        for name, column in sorted(zip(self._names, self._columns, strict=True)):
            narrow = column.codes is not None
            yield Side(
                name=prefix + name,
                rows=self.rows,
                filled=self.rows - column.nulls,
                kinds=frozenset(column.kinds),
                whole=column.whole,
                first=column.first,
                values=column.values if narrow else None,
                counts=column.counts,
                keys=list(column.codes or ()),
            )

    def result(self, prefix: str = "") -> dict[str, Any]:
        """See :meth:`Columns.result`; every name gets the prefix."""
        sides = list(self.sides(prefix))
        places = {prefix + name: place for place, name in enumerate(self._names)}
        varied = [side for side in sides if side.varied]
        found: list[dict[str, Any]] = []
        beyond = 0
        for at, a in enumerate(varied):
            for b in varied[at + 1 :]:
                one, two = places[a.name], places[b.name]
                joint = self._joint.get((min(one, two), max(one, two)))
                triples = None
                if joint is None:
                    beyond += 1
                else:
                    left, right = joint[0] >> _SHIFT, joint[0] & ((1 << _SHIFT) - 1)
                    triples = (left, right, joint[1]) if one < two else (right, left, joint[1])
                sums = [self._moments[0, one, two], self._moments[0, two, one], self._moments[1, one, two]]
                sums += [self._moments[1, two, one], self._moments[2, one, two]]
                both, same = int(self._both[one, two]), int(self._same[one, two])
                found += relations(a, b, both, same, triples, [int(number) for number in sums])
        return {
            "rows": self.rows,
            "empty": [side.name for side in sides if not side.filled],
            "constant": [{"name": side.name, "value": _short(side.first)} for side in sides if side.constant],
            "single": [
                {"name": side.name, "value": _short(side.first), "nulls": self.rows - side.filled}
                for side in sides
                if side.single
            ],
            "duplicate": found,
            "beyond": beyond,
        }


_NONE: Joint = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def _is_whole(value: Any) -> bool:
    return (isinstance(value, int) or value.is_integer()) and abs(value) < _LARGEST


def _short(value: Any) -> Any:
    return value[:79] + "…" if isinstance(value, str) and len(value) > 80 else value


def _joined(before: Joint, added: Joint) -> Joint | None:
    keys = np.concatenate([before[0], added[0]])
    found, inverse = np.unique(keys, return_inverse=True)
    if len(found) > CAP:
        return None
    counts = np.zeros(len(found), dtype=np.int64)
    np.add.at(counts, inverse, np.concatenate([before[1], added[1]]))
    return found, counts


def _take_in(column: _Column, there: _Column) -> _Ints:
    """Add another part's column; gives our code for each of its codes."""
    column.nulls += there.nulls
    column.kinds |= there.kinds
    column.whole = column.whole and there.whole
    if column.first is None:
        column.first = there.first
    if there.codes is None:
        column.codes, column.values, column.counts = None, [], np.zeros(0, dtype=np.int64)
        return np.zeros(0, dtype=np.int64)
    pairs = zip(list(there.codes), there.values, strict=True)
    codes = np.array([column.code(key, value) for key, value in pairs], dtype=np.int64)
    column.count(codes, there.counts)
    return codes


class Columns:
    """The column audit as a fold: a table with a row per step (see ``schema.flat``), and one with a row per header.

    A decision of several calls is audited by its first call. Memory depends on the number of columns, not of rows.
    """

    def __init__(self) -> None:
        self.steps, self.headers = Table(), Table()

    def add(self, run: Run) -> None:
        """Count the header and the steps of a run."""
        self.headers.add(header_row(run.header))
        for step in run.steps:
            self.steps.add(flat(step))

    def merge(self, other: Columns) -> None:
        """Take in what another part of the corpus counted."""
        self.steps.merge(other.steps)
        self.headers.merge(other.headers)

    def result(self) -> dict[str, Any]:
        """What the columns say, by name in sorted order, steps first; a header's column is named ``header.<field>``.

        Returns:
            ``rows`` {steps, headers}; ``empty``: names of columns that are null on all rows; ``constant``: {name,
            value}, one value on all rows; ``single``: {name, value, nulls}, one value and nulls beside it;
            ``duplicate``: {a, b, relation, exceptions, rows} and ``how`` where the relation has a form, see
            :mod:`traceaudit.runs.relations`; ``beyond``: pairs with more than :data:`CAP` distinct pairs of values,
            compared by equality, nulls and exact integer moments only; ``limits``. No rows give empty lists.
        """
        steps, headers = self.steps.result(), self.headers.result("header.")
        both = {name: steps[name] + headers[name] for name in ("empty", "constant", "single", "duplicate", "beyond")}
        rows = {"steps": steps["rows"], "headers": headers["rows"]}
        return {"rows": rows, **both, "limits": {"values": CAP, "share": SHARE, "gain": GAIN}}
