"""Values: the named results of a chapter, recorded beside what a reader sees.

Every number in the report is one of these, so that prose, tables and figures can only show what was recorded and a
stored record can be compared with it leaf by leaf.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import ValueProblem

__all__ = [
    "MIME",
    "Measure",
    "Value",
    "Values",
    "count",
    "counted",
    "measure",
    "ratio",
    "score",
    "text",
]

MIME = "application/vnd.traceaudit.value+json"
NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
Raw = int | float | str | bool | None


@dataclass(frozen=True)
class Value:
    """One named result.

    Attributes:
        name: Lower-case identifier, unique in its chapter.
        raw: The result itself; ``None`` means undefined, which is a result too.
        shown: The text a reader sees.
        unit: What is counted or measured, one word or phrase ("traces", "share", "times").
        of: The denominator in words, empty for a plain count.
        n: How many items were used.
        dropped: How many items were not used, by reason.
        traces: Digest of the set of traces it was measured on, where the value depends on trace files; such a value
            is comparable only with one measured on the same set.
        mode: ``measured`` here, or ``recalled`` from the stored record.
        measure: Name of the measure that produced it.
    """

    name: str
    raw: Raw
    shown: str
    unit: str = ""
    of: str = ""
    n: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    traces: str | None = None
    mode: str = "measured"
    measure: str = ""

    def __post_init__(self) -> None:
        if not NAME.match(self.name):
            raise ValueProblem(
                "a value's name must be a lower-case identifier",
                where=repr(self.name),
                next_step="use letters, digits and underscores",
            )
        if not isinstance(self.raw, Raw):
            raise ValueProblem(
                "a raw value must be a plain number, text, truth value or None",
                where=self.name,
                got=type(self.raw).__name__,
                next_step="convert it with int(), float() or str()",
            )
        if isinstance(self.raw, float) and not math.isfinite(self.raw):
            raise ValueProblem(
                "a raw value must be finite",
                where=self.name,
                got=repr(self.raw),
                next_step="record None (undefined) and say why",
            )

    def __str__(self) -> str:
        return self.shown

    def as_json(self) -> dict[str, Any]:
        """The stored form: every attribute but ``mode``, which belongs to a page and not to a record."""
        out: dict[str, Any] = {"raw": self.raw, "shown": self.shown, "unit": self.unit, "n": self.n}
        out["dropped"] = dict(sorted(self.dropped.items()))
        if self.of:
            out["of"] = self.of
        if self.traces:
            out["traces"] = self.traces
        if self.measure:
            out["measure"] = self.measure
        return out

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any], *, mode: str = "measured") -> Value:
        """Rebuild a value from its stored form."""
        return cls(
            name=name,
            raw=data["raw"],
            shown=data["shown"],
            unit=data.get("unit", ""),
            of=data.get("of", ""),
            n=data.get("n"),
            dropped=data.get("dropped", {}),
            traces=data.get("traces"),
            mode=data.get("mode", mode),
            measure=data.get("measure", ""),
        )

    def prefixed(self, prefix: str) -> Value:
        """The same value under the name ``<prefix>_<name>`` (used where several splits meet)."""
        return replace(self, name=f"{prefix}_{self.name}")


def counted(n: int, noun: str) -> str:
    """A number with its noun, for sentences: ``1 trace``, ``2 traces``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def count(name: str, raw: int | None, unit: str, **more: Any) -> Value:
    """A whole number, shown with thousands separators; ``None`` is shown as "undefined"."""
    shown = "undefined" if raw is None else f"{int(raw):,}"
    return Value(name, None if raw is None else int(raw), shown, unit=unit, **more)


def score(name: str, raw: float | None, *, digits: int = 3, unit: str = "share", **more: Any) -> Value:
    """A share or score, shown with ``digits`` decimals; ``None`` or NaN is undefined and shown as such."""
    if raw is None or math.isnan(raw):
        return Value(name, None, "undefined", unit=unit, **more)
    return Value(name, float(raw), f"{raw:.{digits}f}", unit=unit, **more)


def ratio(name: str, raw: float | None, *, digits: int = 1, **more: Any) -> Value:
    """A multiple, shown as ``12.3x``; ``None`` or NaN is undefined."""
    if raw is None or math.isnan(raw):
        return Value(name, None, "undefined", unit="times", **more)
    return Value(name, float(raw), f"{raw:.{digits}f}x", unit="times", **more)


def text(name: str, raw: str, *, shown: str | None = None, **more: Any) -> Value:
    """A text result, such as a label or a digest."""
    return Value(name, raw, raw if shown is None else shown, unit=more.pop("unit", "text"), **more)


class Values:
    """The values of one chapter, by name: ``v.joint_silent`` or ``v["joint_silent"]``.

    An unknown name and a name recorded twice raise :class:`ValueProblem`.
    """

    def __init__(self, values: Iterable[Value] = ()) -> None:
        self._by_name: dict[str, Value] = {}
        for value in values:
            self.add(value)

    def add(self, value: Value) -> Value:
        """Record one value; a second one of the same name is an error."""
        if value.name in self._by_name:
            raise ValueProblem(
                "a value of this name is recorded already",
                where=value.name,
                next_step="give the second one a name of its own",
            )
        self._by_name[value.name] = value
        return value

    def __getitem__(self, name: str) -> Value:
        try:
            return self._by_name[name]
        except KeyError:
            close = [known for known in self._by_name if name[:6] == known[:6]][:5]
            raise ValueProblem(
                "no value of this name is recorded",
                where=name,
                expected=", ".join(close) or f"one of {len(self._by_name)} recorded names",
                next_step="correct the name, or record the value first",
            ) from None

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Value]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def names(self) -> list[str]:
        """All recorded names, in the order in which they were recorded."""
        return list(self._by_name)


@dataclass(frozen=True)
class Measure:
    """A pure function from a study to values and findings, with what it needs to be measured.

    Attributes:
        function: Takes a study, yields :class:`Value` and ``Finding`` objects; no clock, no environment, no unseeded
            randomness.
        needs: What the source must hold, for example ``{"gold"}`` or ``{"gold", "scorer"}``.
        name: The function's name; recorded with each value, so that a page can recall exactly these.
    """

    function: Callable[[Any], Iterable[Any]]
    needs: frozenset[str]
    name: str

    def __call__(self, study: Any) -> list[Any]:
        out = []
        for item in self.function(study):
            item = replace(item, measure=self.name)
            if isinstance(item, Value) and "traces" in self.needs:
                item = replace(item, traces=study.traces_digest)
            out.append(item)
        return out


def measure(*, needs: Iterable[str] = ()) -> Callable[[Callable[[Any], Iterable[Any]]], Measure]:
    """Declare a measure and what it needs; see :class:`Measure`."""
    return lambda function: Measure(function, frozenset(needs), function.__name__)
