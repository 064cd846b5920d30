"""Records: what one executed chapter found, saved, loaded and compared leaf by leaf.

A stored record is what a later run is held against, so it is validated as strictly as a pin, has one byte form per
content, and never says anything about the machine it was made on.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .claims import Finding, Verdict
from .errors import NothingToCheck, PinMismatch, ValueProblem
from .values import NAME, Value

__all__ = [
    "ABSENT",
    "SCHEMA",
    "Comparison",
    "Difference",
    "Record",
    "compare",
    "dump",
    "load",
    "parse",
    "path_of",
    "save",
    "to_bytes",
    "write_whole",
]

SCHEMA = 1
TOLERANCE = 1e-12
FILE_NAME = re.compile(r"(?P<chapter>[a-z0-9][a-z0-9-]*)\.(?P<split>[a-z0-9][a-z0-9-]*)\.json\Z")
CLOCK = re.compile(r"\b\d{1,2}:\d{2}(:\d{2})?\b")


class _Absent:
    """The side of a difference on which a leaf does not exist."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


@dataclass(frozen=True)
class Record:
    """One executed chapter: ``{schema, provenance, values, findings}`` under its chapter and split.

    Attributes:
        chapter: The chapter's name; with ``split`` it makes the file's name.
        split: gaia, swe-bench, demo or all.
        schema: Version of this form.
        provenance: Input digests, engine, versions; shown to readers, never compared.
        values: By name.
        findings: By claim id; every value a finding rests on is one of ``values``.
    """

    chapter: str
    split: str
    schema: int = SCHEMA
    provenance: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    findings: Mapping[str, Finding] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        """How its page got what it shows: ``measured``, ``recalled`` or ``partly recalled``; empty for none."""
        items: list[Value | Finding] = [*self.values.values(), *self.findings.values()]
        modes = {item.mode for item in items if item.measure}
        return modes.pop() if len(modes) == 1 else "partly recalled" if modes else ""

    def as_json(self, *, modes: bool = False) -> dict[str, Any]:
        """The stored form; with ``modes`` each value and finding also says how its page got it."""
        return {
            "schema": self.schema,
            "provenance": dict(self.provenance),
            "values": {name: _leaf(value, modes) for name, value in self.values.items()},
            "findings": {id: _leaf(finding, modes) for id, finding in self.findings.items()},
        }


def _leaf(item: Value | Finding, modes: bool) -> dict[str, Any]:
    return item.as_json() | ({"mode": item.mode} if modes else {})


@dataclass(frozen=True)
class Difference:
    """One leaf, such as ``values.joint_silent.raw``, in the record and now; :data:`ABSENT` where there is none."""

    leaf: str
    was: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.leaf}: was {self.was!r}, is {self.now!r}"


@dataclass(frozen=True)
class Comparison:
    """What differs, and what could not be compared because it was measured on another set of traces."""

    differences: tuple[Difference, ...] = ()
    not_comparable: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """No leaf differs; leaves that are not comparable do not count as differing."""
        return not self.differences


def path_of(chapter: str, split: str, root: Path) -> Path:
    """Where the record of one chapter instance is kept."""
    return root / "data-pins" / "records" / f"{chapter}.{split}.json"


def dump(data: Mapping[str, Any], *, where: str) -> bytes:
    """The one byte form of a record: UTF-8 JSON, sorted keys, one-space indent, newline at the end.

    Raises:
        ValueProblem: something in it is not JSON (NaN, infinity, a lone surrogate, an object).
    """
    try:
        shown = json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
        return (shown + "\n").encode("utf-8")
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError
        raise ValueProblem(
            "what is to be recorded is not JSON",
            where=where,
            got=str(error),
            next_step="record plain numbers, texts, lists and mappings",
        ) from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the former bytes or the new ones and nothing between.

    A link is followed, and what is no ordinary file (a device, a pipe) is written to and never replaced.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.write(content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask
        Path(aside).chmod(mode)  # as any other program would leave it; mkstemp is stricter
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def to_bytes(record: Record) -> bytes:
    """The bytes of a record; equal records give equal bytes.

    Raises:
        ValueProblem: it is not JSON, or its provenance holds a path, this host's name or a time of day.
    """
    where = f"{record.chapter}.{record.split}"
    for leaf, text in _texts(record.provenance, "provenance"):
        if reason := _machine_dependent(text):
            raise ValueProblem(
                f"provenance must not depend on the machine or the clock: {reason}",
                where=f"{where}, {leaf}",
                got=text,
                next_step="record a digest or a version instead",
            )
    return dump(record.as_json(), where=where)


def save(record: Record, path: Path) -> None:
    """Write a record atomically; errors as for :func:`to_bytes`."""
    write_whole(path, to_bytes(record))


def _texts(data: Any, leaf: str) -> Iterator[tuple[str, str]]:
    if isinstance(data, str):
        yield leaf, data
    elif isinstance(data, Mapping):
        for key, below in data.items():
            yield from _texts(below, f"{leaf}.{key}")
    elif isinstance(data, list | tuple):
        for index, below in enumerate(data):
            yield from _texts(below, f"{leaf}[{index}]")


def _machine_dependent(text: str) -> str:
    if text.startswith(("/", "~/", "\\\\", "file:")) or str(Path.home()) in text:
        return "a path"
    if text == socket.gethostname():
        return "the host's name"
    return "a time of day" if CLOCK.search(text) else ""


def load(path: Path, *, modes: bool = False) -> Record:
    """Read and validate one record; chapter and split come from the file's name.

    Args:
        path: ``<chapter>.<split>.json``.
        modes: Accept the form beside built pages too: a ``mode`` per value and finding and a ``build`` section.

    Raises:
        NothingToCheck: there is no such file.
        PinMismatch: it is not a well-formed record; the message says what is wrong and where.
    """
    if not path.is_file():
        raise NothingToCheck(
            "there is no such record",
            where=path.name,
            next_step="write it with `traceaudit build --record` where the source and the upstream engine are at hand",
        )
    return parse(path.read_bytes(), path.name, modes=modes)


def parse(content: bytes, name: str, *, modes: bool = False) -> Record:
    """Validate the bytes of a record whose file is called ``name``; see :func:`load`."""
    match = FILE_NAME.match(name)
    if not match:
        raise _wrong(name, "the file's name is not <chapter>.<split>.json")
    data = _strict_json(content, name)
    _keys(data, {"schema", "provenance", "values", "findings"}, {"build"} if modes else set(), name, "the record")
    if type(data["schema"]) is not int or data["schema"] != SCHEMA:
        raise _wrong(name, "the schema is another", expected=str(SCHEMA), got=repr(data["schema"]))
    for part in ("provenance", "values", "findings"):
        _type(data[part], dict, name, part)
    values = {key: _value(key, row, name, modes) for key, row in data["values"].items()}
    findings = {key: _finding(key, row, name, modes, f"findings.{key}") for key, row in data["findings"].items()}
    for id, finding in findings.items():
        if unknown := [needed for needed in finding.values if needed not in values]:
            raise _wrong(name, f"findings.{id} rests on values the record does not hold", got=", ".join(unknown))
    return Record(match["chapter"], match["split"], data["schema"], data["provenance"], values, findings)


def _wrong(name: str, what: str, *, expected: str = "", got: str = "") -> PinMismatch:
    return PinMismatch(
        what, where=name, expected=expected, got=got[:200], next_step="restore the record from version control"
    )


def _strict_json(content: bytes, name: str) -> dict[str, Any]:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen = dict(items)
        if len(seen) != len(items):
            keys = [key for key, _ in items]
            raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")
        return seen

    def constant(text: str) -> float:
        raise ValueError(f"{text} is not a JSON number")

    try:
        data = json.loads(content.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise _wrong(name, "the record is not strict JSON", got=str(error)) from None
    _type(data, dict, name, "the record")
    return data


def _type(data: Any, kind: type | tuple[type, ...], name: str, leaf: str) -> None:
    """Exact types: a truth value is no count."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(data) not in kinds:
        expected = " or ".join("nothing" if each is type(None) else each.__name__ for each in kinds)
        raise _wrong(name, f"{leaf} has the wrong type", expected=expected, got=repr(data))


def _keys(row: Mapping[str, Any], needed: set[str], allowed: set[str], name: str, leaf: str) -> None:
    if missing := needed - set(row):
        raise _wrong(name, f"{leaf} lacks a field", expected=", ".join(sorted(missing)))
    if unknown := set(row) - needed - allowed:
        raise _wrong(name, f"{leaf} has an unknown field", got=", ".join(sorted(unknown)))


def _value(key: str, row: Any, name: str, modes: bool) -> Value:
    leaf = f"values.{key}"
    _type(row, dict, name, leaf)
    optional = {"of", "traces", "measure"} | ({"mode"} if modes else set())
    _keys(row, {"raw", "shown", "unit", "n", "dropped"}, optional, name, leaf)
    if not NAME.match(key):
        raise _wrong(name, f"{leaf} is not a lower-case identifier")
    _type(row["raw"], (int, float, str, bool, type(None)), name, f"{leaf}.raw")
    if isinstance(row["raw"], float) and not math.isfinite(row["raw"]):  # 1e999 is JSON, and infinite
        raise _wrong(name, f"{leaf}.raw is not finite")
    for text in ("shown", "unit", *(optional & set(row))):
        _type(row[text], str, name, f"{leaf}.{text}")
    _type(row["n"], (int, type(None)), name, f"{leaf}.n")
    _type(row["dropped"], dict, name, f"{leaf}.dropped")
    for reason, number in row["dropped"].items():
        _type(number, int, name, f"{leaf}.dropped.{reason}")
    return Value.from_json(key, row, mode="recalled")


def _finding(key: str, row: Any, name: str, modes: bool, leaf: str) -> Finding:
    _type(row, dict, name, leaf)
    more = {"mode"} if modes else set()
    _keys(row, {"verdict", "magnitude", "values"}, {"per_split", "measure"} | more, name, leaf)
    for text in {"magnitude", "measure", *more} & set(row):
        _type(row[text], str, name, f"{leaf}.{text}")
    _type(row["values"], list, name, f"{leaf}.values")
    for index, needed in enumerate(row["values"]):
        _type(needed, str, name, f"{leaf}.values[{index}]")
    verdicts = [str(verdict) for verdict in Verdict]
    if row["verdict"] not in verdicts:
        raise _wrong(name, f"{leaf}.verdict is unknown", expected=", ".join(verdicts), got=repr(row["verdict"]))
    if "per_split" in row:
        _type(row["per_split"], dict, name, f"{leaf}.per_split")
        for split, part in row["per_split"].items():
            _finding(key, part, name, False, f"{leaf}.per_split.{split}")
    return Finding.from_json(key, row, mode="recalled")


def compare(was: Record, now: Record) -> Comparison:
    """Hold one run against a record, leaf by leaf.

    Counts, texts (``shown`` among them) and truth values must be equal and of the same type, floats equal to 1e-12
    (absolute below one, relative above). A name only one side has is a difference. A value measured on another set
    of traces, and a finding that rests on such a value, is not comparable and listed as such. Provenance and mode are
    not compared.
    """
    moved = {
        name
        for name in was.values.keys() & now.values.keys()
        if was.values[name].traces and now.values[name].traces and was.values[name].traces != now.values[name].traces
    }
    resting = {
        id
        for id in was.findings.keys() | now.findings.keys()
        for finding in (was.findings.get(id), now.findings.get(id))
        if finding is not None and moved & set(finding.values)
    }
    differences = [] if was.schema == now.schema else [Difference("schema", was.schema, now.schema)]
    for part, skipped in (("values", moved), ("findings", resting)):
        before, after = ({k: v for k, v in r.as_json()[part].items() if k not in skipped} for r in (was, now))
        differences += _differ(before, after, part)
    not_comparable = [f"values.{name}" for name in sorted(moved)] + [f"findings.{id}" for id in sorted(resting)]
    return Comparison(tuple(differences), tuple(not_comparable))


def _differ(was: Any, now: Any, leaf: str) -> Iterator[Difference]:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for key in sorted(was.keys() | now.keys()):
            before, after = was.get(key, ABSENT), now.get(key, ABSENT)
            name = f"{leaf}.{key}"
            if ABSENT in (before, after):
                yield Difference(name, _brief(before), _brief(after))
            else:
                yield from _differ(before, after, name)
    elif type(was) is type(now) is float:
        if not math.isclose(was, now, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield Difference(leaf, was, now)
    elif type(was) is not type(now) or was != now:
        yield Difference(leaf, was, now)


def _brief(side: Any) -> Any:
    """Of a whole value or finding that only one side has, what a reader sees."""
    return side.get("shown", side.get("verdict", dict(side))) if isinstance(side, Mapping) else side
