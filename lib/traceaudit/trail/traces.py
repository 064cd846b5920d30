"""Trace files: their spans with depth, and where a field name occurs in what a span carries.

A trace is somebody else's data: a file or span of another shape yields nothing rather than raising.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["field_values", "levels", "spans", "texts"]


def spans(data: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Every span of a trace file with its depth (0 for a root), depth first in document order; none if it is none."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return
    roots = parsed.get("spans") if isinstance(parsed, dict) else None
    stack = [(0, span) for span in reversed(roots)] if isinstance(roots, list) else []
    while stack:
        depth, span = stack.pop()
        if not isinstance(span, dict):
            continue
        yield depth, span
        children = span.get("child_spans")
        if isinstance(children, list):
            stack.extend((depth + 1, child) for child in reversed(children))


def levels(data: bytes) -> list[int]:
    """Number of spans at each depth."""
    out: list[int] = []
    for depth, _ in spans(data):
        out += [0] * (depth + 1 - len(out))
        out[depth] += 1
    return out


def field_values(span: Mapping[str, Any], names: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Every (name, value) of ``names`` in what a span itself carries, its child spans left out."""
    stack: list[Any] = [{key: value for key, value in span.items() if key != "child_spans"}]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            for key, value in part.items():
                if key in names:
                    yield key, value
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)


def texts(span: Mapping[str, Any]) -> Iterator[str]:
    """Every text value in what a span itself carries, its child spans left out."""
    stack: list[Any] = [{key: value for key, value in span.items() if key != "child_spans"}]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)
