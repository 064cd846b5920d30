"""SWE-agent 0.x, 1.0 and 1.1, and SWE-smith: a ``.traj`` file with one entry per decision.

An entry holds both the action and its observation and the format has no id of a call, so the pairing is by position; no
exit code of an action exists in it, so none is given. ``messages`` and ``query`` (the model's input, which repeats what
went before) and ``history`` are not kept.

Source: SWE-agent/SWE-agent at 3ea751c, SWE-bench/SWE-smith at cf2e649, and their files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..issues import Issue
from ..schema import Call, Scalar, Step
from . import PYTHON_REPR, is_python_repr
from .base import Parsed, amount, dict_of, str_of, text_of, whole
from .openhands_events import is_event

__all__ = ["FORMATS", "HISTORY_ONLY", "SweAgent"]

NAME = "swe-agent"
VERSIONS = ("swe-agent-0", "swe-agent-1.0", "swe-agent-1.1", "swe-smith")
HISTORY_ONLY = "the file has a history but no trajectory (a demonstration)"
_ENTRY = frozenset({"action", "observation", "response", "thought", "state"})
_INPUT = frozenset({"messages", "query"})
_READ = _ENTRY | _INPUT | {"execution_time", "extra_info"}
_SMITH_ID = re.compile(r"[\w.-]+__[\w.-]+\.[0-9a-f]{8}\.\w[\w.-]*")
_GITHUB = re.compile(r"github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and not is_event(entry) and bool(_ENTRY & entry.keys())


def _history_only(data: dict[str, Any]) -> bool:
    history = data.get("history")
    if not isinstance(history, list) or "messages" in data:
        return False
    found = [part for part in history if isinstance(part, dict)]
    return any("role" in part for part in found) and not any(map(is_event, found))


def _attempts(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The attempts of a run of the retrying agent."""
    attempts = data.get("attempts")
    found = attempts if isinstance(attempts, list) else []
    return [one for one in found if isinstance(one, dict) and isinstance(one.get("trajectory"), list)]


class SweAgent:
    """SWE-agent's ``.traj``: ``swe-agent-0`` (the state is JSON text), ``swe-agent-1.0`` (the state is an object),
    ``swe-agent-1.1`` (an entry has its ``query``), ``swe-smith`` (1.0 with ``extra_info`` and a task of SWE-smith)."""

    name = NAME
    versions = VERSIONS

    def matches(self, data: Any) -> bool:
        """An object with a trajectory of entries, with attempts that have one, or with a history of messages alone."""
        if not isinstance(data, dict):
            return False
        trajectory = data.get("trajectory")
        if not isinstance(trajectory, list):
            return bool(_attempts(data)) or _history_only(data)
        if any(isinstance(entry, dict) and is_event(entry) for entry in trajectory):
            return False
        return any(map(_is_entry, trajectory)) or bool({"info", "history"} & data.keys())

    def parse(self, data: Any, name: str) -> list[Parsed]:
        """The run of a file; of the retrying agent the chosen attempt, or every attempt where none was chosen.

        An entry that is no object, a state that is not readable and a field of another type are issues; an entry with
        an empty action is a decision without a call.
        """
        outer = dict_of(data)
        attempts = _attempts(outer)
        if isinstance(outer.get("trajectory"), list):
            return [_Reader(outer, name, attempts).parsed()]
        if attempts:
            return [_Reader(outer | {"info": {}} | attempt, name, []).parsed() for attempt in attempts]
        what = HISTORY_ONLY if _history_only(outer) else "the file has no list of entries"
        return [Parsed({}, [], [Issue(name, what)])]


class _Reader:
    """One run being read."""

    def __init__(self, outer: dict[str, Any], name: str, attempts: list[dict[str, Any]]) -> None:
        self.outer, self.name, self.attempts = outer, name, attempts
        self.issues: list[Issue] = []
        self.info = self._object(outer.get("info"), "info")
        self.stats = self._object(self.info.get("model_stats"), "model_stats")
        self.config = self._decoded(outer.get("replay_config"), "replay_config")

    def issue(self, what: str, got: str = "") -> None:
        self.issues.append(Issue(self.name, what, got=got))

    def parsed(self) -> Parsed:
        entries: list[dict[str, Any]] = []
        for position, entry in enumerate(self.outer["trajectory"]):
            if isinstance(entry, dict):
                entries.append(entry)
            elif is_python_repr(entry):
                self.issue(PYTHON_REPR, f"entry {position}")
            else:
                self.issue("an entry of the trajectory is no object", f"entry {position}: {type(entry).__name__}")
        steps = [self._step(index, entry) for index, entry in enumerate(entries)]
        if not steps:
            self.issue("the run has no decision")
        return Parsed(self._header(entries), steps, self.issues)

    def _object(self, value: Any, what: str) -> dict[str, Any]:
        if value is not None and not isinstance(value, dict):
            self.issue(f"{what} is no object", type(value).__name__)
        return dict_of(value)

    def _decoded(self, value: Any, what: str, where: str = "") -> dict[str, Any]:
        """An object, also where it stands as JSON text."""
        if not isinstance(value, str):
            return self._object(value, what)
        if not value.strip():
            return {}
        try:
            found = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            self.issue(f"{what}: {PYTHON_REPR}" if is_python_repr(value) else f"{what} is no JSON", where)
            return {}
        return self._object(found, what)

    def _step(self, index: int, entry: dict[str, Any]) -> Step:
        where = f"entry {index}"
        for key in ("action", "observation"):
            if key not in entry:
                self.issue(f"an entry has no {key}", where)
        for key in ("action", "observation", "thought", "response"):
            if not isinstance(entry.get(key), str | None):
                self.issue(f"the {key} is no text", f"{where}: {type(entry[key]).__name__}")
        action, thought = text_of(entry.get("action")), text_of(entry.get("thought"))
        response = text_of(entry.get("response"))
        metadata = self._metadata(entry, where)
        if response and response != thought:
            metadata["response"] = response
        seen = entry.get("observation")
        result = None if seen is None else text_of(seen)
        calls: tuple[Call, ...] = ()
        if action.strip():
            how: Any = "none" if result is None else "position"
            calls = (Call(tool=action.split(None, 1)[0], arguments=action, result=result, paired=how),)
        elif result:
            metadata["observation"] = result
        return Step(index=index, text=thought, calls=calls, signals=self._signals(entry, where), metadata=metadata)

    def _signals(self, entry: Mapping[str, Any], where: str) -> dict[str, Scalar]:
        given = entry.get("execution_time")
        seconds = amount(given)
        if given is not None and seconds is None:
            self.issue("the execution time is no number", where)
        return {} if seconds is None else {"execution_time": seconds}

    def _metadata(self, entry: Mapping[str, Any], where: str) -> dict[str, str]:
        state, extra = entry.get("state"), entry.get("extra_info")
        known = self._decoded(state, "state", where)
        found = {f"state.{key}": text_of(value) for key, value in known.items()}
        if not found and isinstance(state, str) and state.strip():
            found["state"] = state
        found |= {f"extra.{key}": text_of(value) for key, value in self._object(extra, "extra_info").items()}
        found |= {f"other.{key}": text_of(value) for key, value in entry.items() if key not in _READ}
        return found

    def _header(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        agent, env = dict_of(self.config.get("agent")), dict_of(self.config.get("env"))
        configs = agent.get("agent_configs")
        first = dict_of(configs[0]) if isinstance(configs, list) and configs else {}
        model = dict_of(agent.get("model")) or dict_of(first.get("model"))
        options = dict_of(model.get("completion_kwargs"))
        stated = str_of(dict_of(self.config.get("problem_statement")).get("id"))
        place = str_of(self.outer.get("environment"))
        instance = str_of(self.outer.get("instance_id")) or (place if place and "__" in place else None) or stated
        url = _GITHUB.search(str_of(dict_of(env.get("repo")).get("github_url")) or "")
        calls = whole(self.stats.get("api_calls"))
        if self.attempts:
            decisions = sum(len(attempt["trajectory"]) for attempt in self.attempts)
            self.issue("of several attempts only the chosen one is read", f"{len(self.attempts)}, {decisions} entries")
        elif calls is not None and calls != len(entries):
            what = "the raw file counts other model calls than it holds decisions"
            self.issue(what, f"{calls} calls, {len(entries)} decisions")
        fields = {
            "format": _version(entries, instance),
            "scaffold": NAME,
            "scaffold_version": str_of(self.info.get("swe_agent_version")),
            "instance_id": instance,
            "repository": url[1] if url else None,
            "model": str_of(model.get("name")),
            "arm": str_of(options.get("reasoning_effort")),
            "exit_status": str_of(self.info.get("exit_status")),
            "cost": amount(self.stats.get("instance_cost")),
            "api_calls": calls,
        }
        return {name: value for name, value in fields.items() if value is not None}


def _version(entries: list[dict[str, Any]], instance: str | None) -> str:
    keys = {key for entry in entries for key in entry}
    if "query" in keys:
        return "swe-agent-1.1"
    if "extra_info" in keys and instance and _SMITH_ID.fullmatch(instance):
        return "swe-smith"
    texts = sum(isinstance(entry.get("state"), str) for entry in entries)
    old = texts * 2 > len(entries) or not keys & {"execution_time", "messages", "extra_info"}
    return "swe-agent-0" if old and not any(isinstance(e.get("state"), dict) for e in entries) else "swe-agent-1.0"


FORMATS = (SweAgent(),)
