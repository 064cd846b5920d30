"""OpenHands V0 events, flat ones of 2024 too, as plain :class:`Event` values.

Each dialect says the same things in other places; here they get one shape, so that counting and pairing are done once.

Source: All-Hands-AI/OpenHands at 156d068 (``openhands/events``) and its published files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec

from ..schema import Scalar, Tokens
from .base import amount, dict_of, iso_time, str_of, text_of, tokens_of, whole

__all__ = ["Event", "Key", "as_json", "is_event", "is_flat", "time_of", "v0_event"]

Key = tuple[str, int | str]
"""What an observation can name: ``("event", 7)`` or ``("call", "toolu_01")``."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NO_DECISION = _names(
    "system recall change_agent_state null condensation condensation_request pause resume stop start loop_recovery "
    "streaming_chunk"
)
_DECISIONS = _names(
    "message run run_ipython read write edit browse browse_interactive think finish reject delegate mcp call_tool_mcp "
    "task_tracking add_task modify_task push send_pr kill"
)
_ANSWERS = _names(
    "run run_ipython read write edit browse delegate think success error user_rejected mcp task_tracking chat message "
    "file_download kill"
)
_NO_ANSWERS = _names("agent_state_changed null recall condense agent_condensation loop_detection server_ready")
_SPEAKERS = ("agent", "user", "environment")
_FLAT = _names("thought command code content outputs path wait_for_response inputs url")
_ANY = _names("error success user_rejected chat null")
_OUTER = _names("id timestamp source message tool_call_metadata llm_metrics args action cause success")
_PLUMBING = _names(
    "thought confirmation_state is_confirmed action_risk security_risk hidden blocking keep_prompt kernel_init_code "
    "is_static cwd include_extra is_input timeout"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event, whatever its dialect.

    Attributes:
        role: ``call`` and ``message`` are what the agent decided (an action, or words alone), ``answer`` is an
            observation, ``context`` is anything else that is known (prompts, users, state), ``unknown`` is not known.
        kind: The format's name of it.
        keys: Under which ids an observation can name it.
        answers: Which event an observation names, the surest first; empty where it names none.
        adjacent: Whether the dialect has no ids, so that an observation belongs to the event before it.
        problem: What is odd about it, empty for nothing.
    """

    role: Literal["call", "message", "answer", "context", "unknown"]
    kind: str
    keys: tuple[Key, ...] = ()
    answers: tuple[Key, ...] = ()
    adjacent: bool = False
    speaker: str | None = None
    text: str = ""
    reasoning: str = ""
    time: str | None = None
    call_id: str | None = None
    function: str | None = None
    arguments: str = ""
    exit_code: int | None = None
    response: str | None = None
    siblings: int | None = None
    model: str | None = None
    tokens: Tokens | None = None
    signals: dict[str, Scalar] = field(default_factory=dict)
    problem: str = ""

    def fits(self, action: Event) -> bool:
        """Whether this observation is of a kind that this action can have, where nothing but the place pairs them."""
        browsed = self.kind == "browse" and action.kind == "browse_interactive"
        return browsed or self.kind in _ANY or self.kind == action.kind


def as_json(value: Any) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode("utf-8")


def time_of(event: dict[str, Any]) -> tuple[str | None, str]:
    """The time of an event as it stands there, and what is wrong with it."""
    given = event.get("timestamp")
    if given is None:
        return None, ""
    if isinstance(given, str):
        try:
            datetime.fromisoformat(given)
        except ValueError:
            return None, "a time is not ISO 8601"
        return given, ""
    seconds = iso_time(given)
    return seconds, "" if seconds else "a time is not ISO 8601"


def is_event(event: dict[str, Any]) -> bool:
    """Whether this is an event of V0 or of 2024, and no entry of a SWE-agent trajectory (which has both parts)."""
    action, seen = event.get("action"), event.get("observation")
    speaks = event.get("source") in _SPEAKERS
    if isinstance(action, str) and "observation" not in event:
        known = action in _DECISIONS | _NO_DECISION
        marked = speaks or "tool_call_metadata" in event or isinstance(event.get("args"), dict)
        return (known and (marked or bool(_FLAT & event.keys()))) or (speaks and isinstance(event.get("args"), dict))
    if not isinstance(seen, str) or "action" in event:
        return False
    marked = speaks or bool({"extras", "cause"} & event.keys())
    return (marked and (speaks or seen in _ANSWERS | _NO_ANSWERS)) or (seen in _ANSWERS and "content" in event)


def is_flat(events: list[dict[str, Any]]) -> bool:
    """Whether no event has an id, a source or a cause, as in 2024."""
    return not any({"id", "source", "cause"} & event.keys() for event in events)


def key_of(kind: str, value: Any) -> tuple[Key, ...]:
    """A key where the value can be one."""
    sound = (isinstance(value, str) and value) or (isinstance(value, int) and not isinstance(value, bool))
    return ((kind, value),) if sound else ()


def v0_event(event: dict[str, Any], *, flat: bool, position: bool, first: bool) -> Event:
    """An event of V0 or of 2024.

    Args:
        event: As it stands in the file.
        flat: Whether the file's events say neither who acted nor which event is meant.
        position: Whether an observation without a cause belongs to the event before it.
        first: Whether nothing of the agent came before it; an unmarked message is then the user's.
    """
    if isinstance(event.get("action"), str):
        return _action(event, flat, first)
    if isinstance(event.get("observation"), str):
        return _observation(event, position)
    return Event(role="unknown", kind="", problem="an event is neither action nor observation")


def _action(event: dict[str, Any], flat: bool, first: bool) -> Event:
    kind: str = event["action"]
    args = dict_of(event.get("args")) or ({} if "args" in event else event)
    call = dict_of(event.get("tool_call_metadata"))
    time, problem = time_of(event)
    keys = key_of("event", event.get("id")) + key_of("call", call.get("tool_call_id"))
    speaker, doubt = _speaker(event, kind, args, flat, first)
    if speaker != "agent" or kind in _NO_DECISION:
        text = text_of(args.get("content")) if kind == "message" else ""
        return Event(role="context", kind=kind, keys=keys, speaker=speaker, text=text, time=time, problem=doubt)
    if not doubt and kind not in _DECISIONS:
        doubt = "an action of a kind that is not known"
    response = dict_of(call.get("model_response"))
    metrics = dict_of(event.get("llm_metrics"))
    spent = amount(metrics.get("accumulated_cost"))
    own = event.get("id")
    return Event(
        role="message" if kind == "message" else "call",
        kind=kind,
        keys=keys,
        speaker=speaker,
        text=text_of(args.get("content" if kind == "message" else "thought")),
        reasoning=_reasoning(response),
        time=time,
        call_id=str_of(call.get("tool_call_id")) or (str(own) if isinstance(own, int | str) else None),
        function=str_of(call.get("function_name")),
        arguments=_arguments(kind, args),
        response=str_of(response.get("id")),
        siblings=whole(call.get("total_calls_in_response")),
        model=str_of(response.get("model")),
        tokens=tokens_of(response.get("usage")),
        signals={} if spent is None else {"accumulated_cost": spent},
        problem=doubt or problem,
    )


def _speaker(event: dict[str, Any], kind: str, args: dict[str, Any], flat: bool, first: bool) -> tuple[str | None, str]:
    """Who acted, and the doubt about it."""
    source = str_of(event.get("source"))
    if source:
        return source, ""
    if not flat:  # the others say it
        known = "agent" if "tool_call_metadata" in event else None
        return known, "an event does not say who acted"
    if kind != "message":
        return "agent", ""
    waits = args.get("wait_for_response")
    if first or waits is False:  # the agent's own messages wait for an answer
        return "user", ""
    return ("agent", "") if waits is True else (None, "an event does not say who acted")


def _arguments(kind: str, args: dict[str, Any]) -> str:
    main = {"run": "command", "run_ipython": "code"}.get(kind)
    if main and isinstance(args.get(main), str) and args.get("is_input") is not True:
        return str(args[main])
    if kind == "message":
        return ""
    kept = _PLUMBING - ({"thought"} if kind == "think" else set()) - ({"is_input"} if args.get("is_input") else set())
    return as_json({name: value for name, value in args.items() if name not in kept and name not in _OUTER})


def _reasoning(response: dict[str, Any]) -> str:
    choices = response.get("choices")
    first = dict_of(choices[0]) if isinstance(choices, list) and choices else {}
    return text_of(dict_of(first.get("message")).get("reasoning_content"))


def _observation(event: dict[str, Any], position: bool) -> Event:
    kind: str = event["observation"]
    extras = dict_of(event.get("extras"))
    call = dict_of(event.get("tool_call_metadata"))
    time, problem = time_of(event)
    answers = key_of("event", event.get("cause")) or key_of("call", call.get("tool_call_id"))
    codes = (dict_of(extras.get("metadata")).get("exit_code"), extras.get("exit_code"), event.get("exit_code"))
    state = str_of(extras.get("agent_state")) if kind == "agent_state_changed" else None
    bare = kind in _NO_ANSWERS and not answers and not (position and kind == "null")
    if kind not in _ANSWERS | _NO_ANSWERS:
        problem = "an observation of a kind that is not known"
    return Event(
        role="context" if bare or kind == "agent_state_changed" else "answer",
        kind=kind,
        keys=key_of("event", event.get("id")),
        answers=answers,
        adjacent=position and not answers,
        speaker=str_of(event.get("source")),
        text=state or text_of(event.get("content")),
        time=time,
        exit_code=next((code for code in map(whole, codes) if code is not None), None),
        problem=problem,
    )
