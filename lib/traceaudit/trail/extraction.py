"""Extraction: the JSON object inside the text of a reply.

The pinned scorer finds it by cutting one character at a time from the end, which takes quadratic time on a malformed
reply; here one pass finds the same object, and the docstring of :func:`extract` says why it is the same.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["extract", "reply_text"]

WHITE_SPACE = " \t\n\r"
DECODER = json.JSONDecoder()


def reply_text(data: bytes) -> str:
    """The text that Python reads from a file of these bytes in text mode: UTF-8, line ends made ``\\n``, a BOM kept.

    Raises:
        UnicodeDecodeError: the bytes are not UTF-8.
    """
    text = data.decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def extract(text: str) -> Any:
    """The object that the pinned scorer extracts from ``text``.

    Let s reach from the first ``{`` to the last ``}``. The pinned rule parses s, and while that fails with a JSON error
    it cuts the last character and tries again, down to three characters. The parser (CPython's ``json``) reads from
    left to right and returns at the brace that closes the object it began with, without having looked further. Hence:

    * It meets that brace, at e characters. Any prefix of s of at least e characters yields this very object, followed
      by "extra data" unless white space alone follows. Cutting from the end therefore ends at the latest at e, with
      this object. The one exception is ``{}`` (e = 2): the loop stops at three characters, so it is found only where s
      is nothing else or its third character is white space.
    * It fails with a JSON error. A shorter prefix cannot succeed: the parse of s would have met the same closing brace.
      So no object is found. (A prefix may fail differently: where s holds a number such as 9...9.5 with more digits
      than an integer may have, the prefix that ends before the dot raises a plain ``ValueError``. No object again, and
      the same class of exception.)
    * It fails otherwise, which is never caught: ``ValueError`` for an integer of too many digits, ``RecursionError``
      for too deep a nesting.

    Args:
        text: A reply.

    Returns:
        The object: a dict, since s starts with a brace. Of duplicate keys the last one counts; ``NaN`` and ``Infinity``
        are numbers; lone surrogates stay.

    Raises:
        ValueError: no brace pair, no object that parses, or an integer of too many digits.
        RecursionError: nested too deeply.
    """
    first, last = text.find("{"), text.rfind("}")
    if first < 0 or last < first:
        raise ValueError("the reply has no opening brace before a closing one")
    candidate = text[first : last + 1]
    try:
        found, end = DECODER.raw_decode(candidate)
    except json.JSONDecodeError as error:
        raise ValueError(f"no prefix from the first brace on is JSON ({len(candidate)} characters tried)") from error
    if end == 2 and len(candidate) > 2 and candidate[2] not in WHITE_SPACE:
        raise ValueError("an empty object with something directly behind it is not found")
    return found
