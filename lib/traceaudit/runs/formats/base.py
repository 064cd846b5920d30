"""What a native format must offer, and helpers that all of them share.

Formats are told apart by content, since files of several scaffolds carry the same names and endings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from ..issues import Issue
from ..schema import Step, Tokens

__all__ = ["Format", "Parsed", "amount", "dict_of", "iso_time", "list_of", "str_of", "text_of", "tokens_of", "whole"]


class Parsed(NamedTuple):
    """What a format made of one run.

    Attributes:
        header_fields: Fields of :class:`~traceaudit.runs.schema.Header` that the raw data holds; no others.
        steps: One per decision of the agent, numbered from 0.
        issues: What is odd about this run; ``file`` is the name that was given to ``parse``.
    """

    header_fields: dict[str, Any]
    steps: list[Step]
    issues: list[Issue]


class Format(Protocol):
    """A native format.

    Attributes:
        name: Its name, as ``--format`` takes it.
        versions: The versions it reads, as they are written into ``Header.format``.
    """

    name: str
    versions: tuple[str, ...]

    def matches(self, data: Any) -> bool:
        """Whether decoded JSON is of this format; looks at content alone and never raises."""

    def parse(self, data: Any, name: str) -> list[Parsed]:
        """The runs in the data; what is bad in it becomes an issue about the file ``name``, never an exception."""


def iso_time(seconds: Any) -> str | None:
    """Seconds since 1970 as ISO 8601 in UTC; None for what is no such number."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e11:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def whole(value: Any) -> int | None:
    """A whole number that fits 64 bits as such (``3.0`` too); None for anything else."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def dict_of(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one: somebody else's file may hold anything anywhere."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def str_of(value: Any) -> str | None:
    """The value if it is a text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def amount(value: Any) -> float | None:
    """A finite number as float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def text_of(content: Any) -> str:
    """The text of a message: a string, or the parts of a list that hold text; "" for None, JSON for anything else."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(filter(None, _parts(content)))
    return msgspec.json.encode(content).decode("utf-8", "replace")


def _parts(content: list[Any]) -> Iterator[str]:
    for part in content:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
        else:
            yield msgspec.json.encode(part).decode("utf-8", "replace")


def tokens_of(usage: Any) -> Tokens | None:
    """The counts of a usage record as OpenAI (chat and responses) and Anthropic name them; None without any.

    ``input`` is what the provider calls so: at OpenAI it holds the cached tokens, at Anthropic it does not.
    """
    if not isinstance(usage, dict):
        return None
    get = usage.get
    inward = get("prompt_tokens_details") or get("input_tokens_details")
    outward = get("completion_tokens_details") or get("output_tokens_details")
    inward, outward = inward if isinstance(inward, dict) else {}, outward if isinstance(outward, dict) else {}
    tokens = Tokens(
        input=_first(get("prompt_tokens"), get("input_tokens")),
        output=_first(get("completion_tokens"), get("output_tokens")),
        cache_read=_first(inward.get("cached_tokens"), get("cache_read_input_tokens")),
        cache_write=_first(get("cache_creation_input_tokens"), inward.get("cache_creation_tokens")),
        reasoning=_first(outward.get("reasoning_tokens"), get("reasoning_tokens")),
    )
    return None if tokens == Tokens() else tokens


def _first(one: Any, other: Any) -> int | None:
    if type(one) is int and 0 <= one < 1 << 62:  # nearly always
        return one
    number = whole(one)
    return whole(other) if number is None else number
