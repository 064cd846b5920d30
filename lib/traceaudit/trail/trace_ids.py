"""Trace ids: which ones an engine accepts.

A trace id becomes a file name on its way through the pinned scorer, so an id that is not a plain one would be read or
written elsewhere, or be passed over by the scorer's pattern without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import UsageError

__all__ = ["check_trace_ids"]

PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}\Z")


def check_trace_ids(ids: Iterable[str]) -> list[str]:
    """The ids, sorted, if each is a plain file name.

    Raises:
        UsageError: an id is empty, too long (over 128), starts with a dot or has a character other than ASCII letters,
            digits, ``.``, ``_`` and ``-``.
    """
    listed = list(ids)
    for trace in listed:
        if not isinstance(trace, str) or not PLAIN.match(trace):
            raise UsageError(
                "a trace id must be a plain file name",
                where=repr(trace)[:200],
                expected="1 to 128 ASCII letters, digits, '.', '_' or '-', not starting with '.'",
                next_step="rename the trace's files",
            )
    return sorted(listed)
