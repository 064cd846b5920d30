"""OpenHands V1 (software-agent-sdk) events as plain :class:`~.openhands_events.Event` values.

Here the class of an event stands in ``kind``, actions carry the id of their tool call and of the model's response, and
observations name both the action and the call.

Source: OpenHands/software-agent-sdk at 17555e4 (``openhands/sdk/event``).
"""

from __future__ import annotations

from typing import Any

import msgspec

from .base import dict_of, str_of, text_of, whole
from .openhands_events import Event, as_json, key_of, time_of

__all__ = ["is_v1_event", "v1_event"]

_ANSWERS = {"ObservationEvent": "observation", "UserRejectObservation": "rejection_reason", "AgentErrorEvent": "error"}
_CONTEXT_KINDS = (
    "SystemPromptEvent ConversationStateUpdateEvent PauseEvent InterruptEvent Condensation CondensationRequest "
    "CondensationSummaryEvent TokenEvent HookExecutionEvent LLMCompletionLogEvent StreamingDeltaEvent "
    "ConversationErrorEvent"
)
_CONTEXT = frozenset(_CONTEXT_KINDS.split())
_KNOWN = _CONTEXT | _ANSWERS.keys() | {"ActionEvent", "MessageEvent"}
_ADDED = frozenset({"security_risk", "summary"})
"""Arguments that the scaffold asks of the model for itself; no part of the command."""


def is_v1_event(event: dict[str, Any]) -> bool:
    """Whether this is an event of V1; its action and observation are objects and never names."""
    kind = event.get("kind")
    if not isinstance(kind, str) or isinstance(event.get("action"), str) or isinstance(event.get("observation"), str):
        return False
    return kind in _KNOWN or (
        kind != "Event" and kind.endswith("Event") and event.get("source") in ("agent", "user", "environment")
    )


def v1_event(event: dict[str, Any]) -> Event:
    """An event of V1; one of a kind that is not known has the role ``unknown``."""
    kind = str_of(event.get("kind")) or ""
    time, problem = time_of(event)
    keys = key_of("event", event.get("id"))
    source = str_of(event.get("source"))
    if kind == "ActionEvent":
        return _action(event, source, time, problem)
    if kind in _ANSWERS:
        return _answer(event, kind, source, time, problem)
    if kind == "MessageEvent":
        message = dict_of(event.get("llm_message"))
        if source is None and message.get("role") in ("user", "assistant"):
            source = "agent" if message["role"] == "assistant" else "user"
        if source is None:
            problem = "an event does not say who acted"
        return Event(
            role="message" if source == "agent" else "context",
            kind="message",
            keys=keys,
            speaker=source,
            text=text_of(message.get("content")),
            reasoning=text_of(message.get("reasoning_content")),
            time=time,
            response=str_of(event.get("llm_response_id")),
            problem=problem,
        )
    if kind in _CONTEXT:
        text = text_of(event.get("detail")) if kind == "ConversationErrorEvent" else ""
        return Event(role="context", kind=kind, keys=keys, speaker=source, text=text, time=time, problem=problem)
    what = "an event of a kind that is not known" if kind else "an event has no kind"
    return Event(role="unknown", kind=kind, keys=keys, problem=what)


def _action(event: dict[str, Any], source: str | None, time: str | None, problem: str) -> Event:
    call = dict_of(event.get("tool_call"))
    function = dict_of(call.get("function")) or call
    name = str_of(event.get("tool_name")) or str_of(function.get("name")) or ""
    call_id = str_of(event.get("tool_call_id")) or str_of(call.get("id"))
    keys = key_of("event", event.get("id")) + key_of("call", call_id)
    if source not in (None, "agent"):
        return Event(role="context", kind=name, keys=keys, speaker=source, time=time, problem=problem)
    given = function.get("arguments")
    if given is None:
        given = {name: value for name, value in dict_of(event.get("action")).items() if name != "kind"}
    return Event(
        role="call",
        kind=name,
        keys=keys,
        speaker="agent",
        text=text_of(event.get("thought")),
        reasoning=text_of(event.get("reasoning_content")),
        time=time,
        call_id=call_id or str_of(event.get("id")),
        arguments=_arguments(given),
        response=str_of(event.get("llm_response_id")),
        problem=problem or ("" if name else "a call names no tool"),
    )


def _arguments(given: Any) -> str:
    """The bare command where there is nothing else, else the arguments as they stand."""
    text = given if isinstance(given, str) else as_json(given)
    try:
        found = msgspec.json.decode(text) if isinstance(given, str) else given
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
    if isinstance(found, dict) and found.keys() - _ADDED == {"command"} and isinstance(found["command"], str):
        return str(found["command"])
    return text


def _answer(event: dict[str, Any], kind: str, source: str | None, time: str | None, problem: str) -> Event:
    given = event.get(_ANSWERS[kind])
    code = None
    if kind == "ObservationEvent":
        seen = dict_of(given)
        codes = (seen.get("exit_code"), dict_of(seen.get("metadata")).get("exit_code"))
        code = next((found for found in map(whole, codes) if found is not None), None)
        parts = [text_of(seen[key]) for key in ("content", "output", "error") if seen.get(key)]
        text = "\n".join(filter(None, parts)) if isinstance(given, dict) else text_of(given)
        if not parts and isinstance(given, dict):
            rest = {key: value for key, value in seen.items() if key not in ("kind", "content", "output", "error")}
            text = as_json(rest) if rest and not {"content", "output"} & seen.keys() else ""
    else:
        text = text_of(given)
    return Event(
        role="answer",
        kind=kind,
        keys=key_of("event", event.get("id")),
        answers=key_of("event", event.get("action_id")) + key_of("call", event.get("tool_call_id")),
        speaker=source,
        text=text,
        time=time,
        exit_code=code,
        problem=problem,
    )
