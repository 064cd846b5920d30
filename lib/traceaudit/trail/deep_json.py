"""JSON of any depth: the standard parser first, and one without recursion where that one gives up.

A trace nests a span in a span in a span; how deep is its author's choice, and must not decide whether it can be read.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["parse"]

_BLANK = re.compile(r"[ \t\n\r]*")
_SCALAR = json.JSONDecoder().raw_decode


def parse(data: bytes) -> Any:
    """What ``json.loads`` gives, at any depth.

    Raises:
        ValueError: the bytes are not JSON; the message says where.
    """
    text = data.decode(json.detect_encoding(data), "surrogatepass")
    try:
        return json.loads(text)
    except RecursionError:
        return _parse_flat(text)


def _blank(text: str, at: int) -> int:
    """The place after any blanks."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _parse_flat(text: str) -> Any:
    """Containers on a list of our own, scalars by the standard parser."""
    top: list[Any] = []
    stack: list[tuple[Any, str | None]] = [(top, None)]  # open containers; beside each, the name a value is due for
    at = _blank(text, 0)

    def bad(what: str) -> ValueError:
        return json.JSONDecodeError(what, text, at)

    def put(value: Any) -> None:
        container, name = stack[-1]
        if isinstance(container, list):
            container.append(value)
        else:
            container[name] = value

    def named() -> int:
        """Read ``"name":`` for the innermost object and return the place after it."""
        if text[at : at + 1] != '"':
            raise bad("Expecting property name enclosed in double quotes")
        name, end = _SCALAR(text, at)
        end = _blank(text, end)
        if text[end : end + 1] != ":":
            raise bad("Expecting ':' delimiter")
        stack[-1] = (stack[-1][0], name)
        return _blank(text, end + 1)

    while True:
        start = text[at : at + 1]  # a value is due here
        if start and start in "{[":
            inner: Any = {} if start == "{" else []
            put(inner)
            stack.append((inner, None))
            at = _blank(text, at + 1)
            if text[at : at + 1] != ("}" if start == "{" else "]"):
                at = named() if start == "{" else at
                continue
        else:
            value, at = _SCALAR(text, at)
            put(value)
        while len(stack) > 1:  # a value has ended
            at = _blank(text, at)
            mark, is_list = text[at : at + 1], isinstance(stack[-1][0], list)
            if mark == ("]" if is_list else "}"):
                stack.pop()
                at += 1
            elif mark == ",":
                at = _blank(text, at + 1)
                at = at if is_list else named()
                break
            else:
                raise bad("Expecting ',' delimiter")
        else:
            at = _blank(text, at)
            if at != len(text):
                raise bad("Extra data")
            return top[0]
