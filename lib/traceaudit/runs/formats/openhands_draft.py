"""OpenHands: one decision while its events come in, and what the run's metrics say of it.

Several actions of one response of the model are one decision, so it is complete only when another one begins.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from ..schema import Call, Pairing, Tokens
from .base import amount, dict_of, list_of, str_of, whole
from .openhands_events import Event

__all__ = ["Draft", "by_response", "costs_of", "tokens_by_response"]


@dataclass(slots=True)
class Draft:
    """A decision being put together.

    Attributes:
        first: The event that began it; it has the time, the model and the tokens.
        texts: What was said, each text once.
        calls: Its actions in order. ``answers``: their observations by place, with how they were found.
        notes: Further texts by name.
    """

    first: Event
    texts: list[str] = field(default_factory=list)
    calls: list[Event] = field(default_factory=list)
    answers: dict[int, tuple[Event, Pairing]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def note(self, name: str, text: str) -> None:
        """Keep a text beside the decision; an empty one is none."""
        if text:
            self.notes.setdefault(name, []).append(text)

    def takes(self, event: Event) -> bool:
        """Whether this event is a further call of the same response of the model."""
        if event.role != "call" or event.response is None or event.response != self.first.response:
            return False
        if any(event.call_id == call.call_id for call in self.calls):
            return False
        if event.siblings is None:  # only the first call of a response carries its words
            return not (self.answers and event.text)
        return len(self.calls) < event.siblings

    def add(self, event: Event) -> int | None:
        """Take an event; its place among the calls, None for mere words."""
        if event.text and event.text not in self.texts:
            self.texts.append(event.text)
        self.note("reasoning", event.reasoning if not self.calls else "")
        if event.role != "call":
            return None
        self.calls.append(event)
        self.note("function", event.function or "")
        return len(self.calls) - 1

    def paired(self) -> tuple[Call, ...]:
        """The calls in order, each with its observation where one was found."""
        calls = []
        for place, call in enumerate(self.calls):
            made = Call(id=call.call_id, tool=call.kind, arguments=call.arguments)
            if place in self.answers:
                seen, how = self.answers[place]
                made = replace(made, result=seen.text, exit_code=seen.exit_code, time=seen.time, paired=how)
            calls.append(made)
        return tuple(calls)


def by_response(metrics: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
    """The entries of a list of the metrics that name one response of the model each."""
    rows = [row for row in list_of(metrics.get(name)) if isinstance(row, dict) and str_of(row.get("response_id"))]
    times = Counter(row["response_id"] for row in rows)
    return {row["response_id"]: row for row in rows if times[row["response_id"]] == 1}


def costs_of(metrics: dict[str, Any], decisions: int) -> list[float | None]:
    """Costs by decision, where there are exactly as many; they name no response, so the place pairs them."""
    found = [dict_of(row).get("cost") if isinstance(row, dict) else row for row in list_of(metrics.get("costs"))]
    return [amount(cost) for cost in found] if found and len(found) == decisions else []


def tokens_by_response(usage: dict[str, Any]) -> Tokens | None:
    """The counts of one entry of ``token_usages``; None without any."""
    names = {"prompt_tokens": "input", "completion_tokens": "output"}
    names |= {"cache_read_tokens": "cache_read", "cache_write_tokens": "cache_write", "reasoning_tokens": "reasoning"}
    counts = {ours: number for theirs, ours in names.items() if (number := whole(usage.get(theirs))) is not None}
    return Tokens(**counts) if counts else None
