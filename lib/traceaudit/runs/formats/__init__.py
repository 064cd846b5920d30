"""Native formats: find out by content which one some decoded JSON is.

A module of this folder offers ``FORMATS``, a tuple of objects with the :class:`Format` protocol; the first that matches
reads the data, so the more exact ones stand first.
"""

from __future__ import annotations

import ast
import re
import warnings
from functools import cache
from importlib import import_module
from typing import Any

from .base import Format, Parsed

__all__ = ["MODULES", "PYTHON_REPR", "UNKNOWN", "Format", "Parsed", "by_name", "detect", "formats", "is_python_repr"]

MODULES = ("mini_swe_agent", "swe_agent", "openhands")
PYTHON_REPR = "Python repr text posing as JSON"
UNKNOWN = "this is of no known format"
_CLASS_REPR = re.compile(r"[A-Z][A-Za-z0-9_.]*\([a-z_][a-z0-9_]*=")
_MOST_REPR = 200_000
"""Characters of a text that are looked at; a longer one is judged by its start."""


@cache
def formats() -> tuple[Format, ...]:
    """Every known format in the order in which they are asked."""
    found: list[Format] = []
    for module in MODULES:
        found += import_module(f".{module}", __name__).FORMATS
    return tuple(found)


def __getattr__(name: str) -> tuple[Format, ...]:
    if name == "FORMATS":  # not a plain constant: the modules import this package
        return formats()
    raise AttributeError(name)


def by_name(name: str) -> Format | None:
    """The format of this name; None where there is none."""
    return next((one for one in formats() if one.name == name), None)


def detect(data: Any) -> Format | None:
    """The format of decoded JSON by its content; None where no format knows it."""
    return next((one for one in formats() if one.matches(data)), None)


def is_python_repr(data: Any) -> bool:
    """Whether this is the ``repr`` of Python objects where JSON objects belong.

    True for a text that reads as a Python dict or list (and not as JSON, which the caller has tried), for text that
    starts like the repr of an event class (``MessageEvent(…``), and for a list or dict whose texts are such.
    """
    if isinstance(data, str):
        return _is_repr_text(data)
    if isinstance(data, dict):
        parts = [part for part in data.values() if isinstance(part, list) and part]
        return any(is_python_repr(part) for part in parts)
    if isinstance(data, list) and data:
        texts = [part for part in data[:20] if isinstance(part, str)]
        return len(texts) == len(data[:20]) and any(map(_is_repr_text, texts[:5]))
    return False


def _is_repr_text(text: str) -> bool:
    text = text.strip()
    if _CLASS_REPR.match(text):
        return True
    if text[:1] not in ("{", "["):
        return False
    if len(text) > _MOST_REPR:
        return text[:2] in ("{'", "[{") and "': " in text[:400]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in the text of others
            found = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text[:2] == "{'" and "': " in text[:400]
    if isinstance(found, list):
        return bool(found) and all(isinstance(part, dict) for part in found[:20])
    return isinstance(found, dict) and bool(found)
