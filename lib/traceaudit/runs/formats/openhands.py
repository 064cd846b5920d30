"""OpenHands: event lists of V0 (bare, ``{history: …}``, evaluation records), the flat and the pair form, and V1.

Decisions are counted by who acted, so prompts, recalls, state changes and the user's words are none; an observation
goes to the event that it names, and by place only where the dialect has no ids. What cannot be paired stays unpaired.

Source: All-Hands-AI/OpenHands at 156d068, OpenHands/software-agent-sdk at 17555e4, and published files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..issues import Issue
from ..schema import Pairing, Scalar, Step
from . import PYTHON_REPR, is_python_repr
from .base import Parsed, amount, dict_of, str_of, whole
from .openhands_draft import Draft, by_response, costs_of, tokens_by_response
from .openhands_events import Event, Key, is_event, is_flat, v0_event
from .openhands_v1 import is_v1_event, v1_event

__all__ = ["FORMATS", "OpenHands", "accounted"]

NAME = "openhands"
V0, FLAT, PAIRS, V1 = VERSIONS = ("openhands-0", "openhands-0-flat", "openhands-0-pairs", "openhands-1")
_PLACES = ("history", "events", "trajectory")
_RECORDS = ({"instance_id", "test_result"}, {"issue", "git_patch"})


def _known(event: Any) -> bool:
    return isinstance(event, dict) and (is_event(event) or is_v1_event(event))


def _entries(data: Any) -> list[Any] | None:
    """The list of events, wherever it stands."""
    if isinstance(data, list):
        return data
    return next((found for place in _PLACES if isinstance(found := dict_of(data).get(place), list)), None)


def _is_record(data: Any) -> bool:
    """Whether this is a record of the evaluation or of the resolver, which names its task and its result."""
    return isinstance(data, dict) and "history" in data and any(keys <= data.keys() for keys in _RECORDS)


class OpenHands:
    """OpenHands V0 (``openhands-0``), its flat form of 2024 and its pair form, and V1 (``openhands-1``)."""

    name = NAME
    versions = VERSIONS

    def matches(self, data: Any) -> bool:
        """Events, or pairs of them, in a list or below ``history``; or a record of its evaluation."""
        found = _entries(data) or []
        known = any(_known(entry) or (isinstance(entry, list) and any(map(_known, entry))) for entry in found)
        return known or _is_record(data)

    def parse(self, data: Any, name: str) -> list[Parsed]:
        """The one run of a list or record; an event that is not read or not paired is an issue each."""
        return [_Reader(data, name).parsed()]


def accounted(data: Any) -> dict[str, int]:
    """What became of every event of a run; the counts add up to the number of events.

    ``calls`` and ``messages`` are the agent's, ``paired`` are observations of its calls, ``context`` are prompts, users
    and states with what answers them; ``unpaired`` and ``not read`` are issues too.
    """
    reader = _Reader(data, "")
    reader.parsed()
    return dict(reader.tally)


Target = tuple[Draft, int | None] | None
"""What an observation can answer: a call of a draft, its words, or (None) an event that is no decision."""


class _Reader:
    """One run being read."""

    def __init__(self, data: Any, name: str) -> None:
        self.outer, self.name, self.entries = dict_of(data), name, _entries(data)
        self.metrics, self.settings = dict_of(self.outer.get("metrics")), dict_of(self.outer.get("metadata"))
        self.issues: list[Issue] = []
        self.tally: Counter[str] = Counter()
        self.drafts: list[Draft] = []
        self.targets: dict[Key, Target] = {}
        self.seen: set[Key] = set()
        self.before: tuple[Event, Target] | None = None
        self.state: str | None = None
        self.spent: float | None = None
        self.facts: dict[str, str] = {}

    def issue(self, what: str, got: str = "") -> None:
        self.issues.append(Issue(self.name, what, got=got))

    def parsed(self) -> Parsed:
        version = self._version()
        if self.entries is None:
            self.issue("the record has no list of events", (str_of(self.outer.get("error")) or "")[:80])
        for where, raw, position in self._events(version == FLAT):
            self._take(where, raw, version == FLAT, position)
        if not self.drafts and self.entries is not None:
            self.issue("the run has no decision")
        steps = self._steps()
        return Parsed(self._header(version, steps), steps, self.issues)

    def _version(self) -> str:
        entries = self.entries or []
        events = [entry for entry in entries if isinstance(entry, dict)]
        pairs = [entry for entry in entries if isinstance(entry, list)]
        if len(pairs) > len(events):
            return PAIRS
        newer = sum(map(is_v1_event, events))
        old = [event for event in events if is_event(event)]
        return V1 if newer > len(old) else FLAT if old and is_flat(old) else V0

    def _events(self, flat: bool) -> Iterator[tuple[str, Any, bool]]:
        """Each event with its place, and whether the dialect pairs by place."""
        for number, entry in enumerate(self.entries or ()):
            if isinstance(entry, list):
                self.before = None  # nothing before a pair is answered in it, nor after it
                for part, one in enumerate(entry):
                    yield f"event {number}.{part}", one, True
                self.before = None
            else:
                yield f"event {number}", entry, flat

    def _take(self, where: str, raw: Any, flat: bool, position: bool) -> None:
        if not isinstance(raw, dict):
            what = PYTHON_REPR if is_python_repr(raw) else "an event is no object"
            self._lost(what, f"{where}: {type(raw).__name__}")
            return
        facts = dict_of(raw.get("args")) if raw.get("action") == "system" else {}
        if version := str_of(facts.get("openhands_version")):
            self.facts.setdefault("version", version)
        if raw.get("kind") == "ConversationStateUpdateEvent":
            self._conversation(raw)
        if is_v1_event(raw) or not {"action", "observation"} & raw.keys():
            event = v1_event(raw) if "kind" in raw else v0_event(raw, flat=flat, position=position, first=True)
        else:
            bare = flat or (position and "source" not in raw)
            event = v0_event(raw, flat=bare, position=position, first=not self.drafts)
        if event.problem and event.role != "unknown":
            self.issue(event.problem, f"{where}: {event.kind[:40]}")
        own = event.keys[:1]
        if own and own[0][0] == "event":
            if own[0] in self.seen:
                self.issue("two events share an id", f"{where}: {str(own[0][1])[:40]}")
            self.seen.add(own[0])
        if event.role == "unknown":
            self._lost(event.problem, f"{where}: {event.kind[:40]}" if event.kind else where)
        elif event.role == "answer":
            self._answer(event, where)
        elif event.role == "context":
            self._context(event, acts="observation" not in raw)
        else:
            self._decision(event)

    def _conversation(self, raw: dict[str, Any]) -> None:
        """What V1 says of the conversation in its state updates."""
        value = raw.get("value")
        if raw.get("key") == "execution_status" and str_of(value):
            self.state = str_of(value)
        state = dict_of(value)
        self.state = str_of(state.get("execution_status")) or self.state
        if model := str_of(dict_of(dict_of(state.get("agent")).get("llm")).get("model")):
            self.facts.setdefault("model", model)
        stats = state if raw.get("key") == "stats" else dict_of(state.get("stats"))
        uses = [use for use in dict_of(stats.get("usage_to_metrics")).values() if isinstance(use, dict)]
        spent = [cost for use in uses if (cost := amount(use.get("accumulated_cost"))) is not None]
        self.spent = sum(spent) if spent else self.spent
        if uses and (model := str_of(uses[0].get("model_name"))):
            self.facts.setdefault("model", model)

    def _lost(self, what: str, got: str) -> None:
        self.tally["not read"] += 1
        self.issue(what, got)
        self.before = None

    def _register(self, event: Event, target: Target) -> None:
        for key in event.keys:
            self.targets[key] = target
        self.before = event, target

    def _decision(self, event: Event) -> None:
        self.tally["calls" if event.role == "call" else "messages"] += 1
        if not self.drafts or not self.drafts[-1].takes(event):
            self.drafts.append(Draft(event))
        draft = self.drafts[-1]
        self._register(event, (draft, draft.add(event)))

    def _context(self, event: Event, acts: bool) -> None:
        self.tally["context"] += 1
        before = self.before
        self._register(event, None)
        if not acts:  # a state between an action and its observation
            self.before = before
        if event.kind == "agent_state_changed":
            self.state = event.text or self.state
        elif self.drafts:
            self.drafts[-1].note("message" if event.kind == "message" else "event", event.text)

    def _answer(self, event: Event, where: str) -> None:
        known = next((key for key in event.answers if key in self.targets), None)
        if known is not None:
            return self._pair(event, self.targets[known], "id", where)
        kind = f"{where}: {event.kind[:40]}"
        if event.answers:
            return self._unpaired(event, "an observation answers no event", f"{where}: {event.answers[0][1]}")
        if not event.adjacent:
            return self._unpaired(event, "an observation does not say what it answers", kind)
        if self.before is None or self.before[0].role == "answer":
            return self._unpaired(event, "an observation follows no action", kind)
        action, target = self.before
        if event.fits(action):
            return self._pair(event, target, "position", where)
        what = "an observation of another kind than the action before it"
        return self._unpaired(event, what, f"{kind} after {action.kind[:40]}")

    def _pair(self, event: Event, target: Target, how: Pairing, where: str) -> None:
        self.before = event, None
        if target is None or target[1] is None:
            self.tally["context"] += 1
            if target is not None:
                target[0].note("observation", event.text)
        elif target[1] in target[0].answers:
            self._unpaired(event, "two observations answer one call", where)
        else:
            self.tally["paired"] += 1
            target[0].answers[target[1]] = event, how

    def _unpaired(self, event: Event, what: str, got: str) -> None:
        self.tally["unpaired"] += 1
        self.issue(what, got[:120])
        self.before = event, None
        if self.drafts:
            self.drafts[-1].note("unpaired", event.text)

    def _steps(self) -> list[Step]:
        found = {name: by_response(self.metrics, name) for name in ("token_usages", "response_latencies")}
        costs = costs_of(self.metrics, len(self.drafts))
        steps = []
        for index, draft in enumerate(self.drafts):
            first = draft.first
            usage = found["token_usages"].get(first.response or "", {})
            latency = amount(found["response_latencies"].get(first.response or "", {}).get("latency"))
            signals: dict[str, Scalar] = dict(first.signals)
            if latency is not None:
                signals["latency"] = latency
            metadata = {name: "\n".join(texts) for name, texts in draft.notes.items()}
            if costs:
                metadata["cost_paired"] = "position"
            steps.append(
                Step(
                    index=index,
                    text="\n".join(draft.texts),
                    calls=draft.paired(),
                    model=first.model or str_of(usage.get("model")),
                    time=first.time,
                    cost=costs[index] if costs else None,
                    tokens=first.tokens or tokens_by_response(usage),
                    signals=signals,
                    metadata=metadata,
                )
            )
        return steps

    def _header(self, version: str, steps: list[Step]) -> dict[str, Any]:
        models = Counter(step.model for step in steps if step.model)
        if len(models) > 1:
            spelled = ", ".join(f"{model[:60]} {n}" for model, n in models.most_common())
            self.issue("the run names more than one model", spelled)
        configured = dict_of(self.settings.get("llm_config")) or dict_of(self.settings.get("llm"))
        named = str_of(configured.get("model")) or self.facts.get("model")
        task = dict_of(self.outer.get("instance"))
        spent = amount(self.metrics.get("accumulated_cost"))
        if spent is None:
            stated = [amount(step.signals.get("accumulated_cost")) for step in steps]
            spent = next((cost for cost in reversed(stated) if cost is not None), self.spent)
        fields = {
            "format": version,
            "scaffold": NAME,
            "scaffold_version": self.facts.get("version") or str_of(self.settings.get("git_commit")),
            "dataset": str_of(self.settings.get("dataset")),
            "instance_id": str_of(self.outer.get("instance_id")) or str_of(task.get("instance_id")),
            "repository": str_of(task.get("repo")),
            "model": models.most_common(1)[0][0] if models else named,
            "arm": str_of(configured.get("reasoning_effort")),
            "captured_at": next((step.time for step in steps if step.time), None),
            "exit_status": self._exit_status(steps),
            "cost": spent,
        }
        return {name: value for name, value in (fields | self._issue() | self._label()).items() if value is not None}

    def _exit_status(self, steps: list[Step]) -> str | None:
        if error := str_of(self.outer.get("error")):
            return error.partition(":")[0].partition("\n")[0][:80]
        finished = bool(steps) and any(call.tool in ("finish", "reject") for call in steps[-1].calls)
        return self.state or (steps[-1].calls[-1].tool if finished else None)

    def _issue(self) -> dict[str, Any]:
        """Task of the resolver: an issue of a repository."""
        issue = dict_of(self.outer.get("issue"))
        owner, repo, number = str_of(issue.get("owner")), str_of(issue.get("repo")), whole(issue.get("number"))
        if not owner or not repo or number is None:
            return {}
        return {"repository": f"{owner}/{repo}", "instance_id": f"{owner}__{repo}-{number}"}

    def _label(self) -> dict[str, Any]:
        """The grade that an evaluation record carries; the resolver's own opinion (``success``) is none."""
        for place in (self.outer, dict_of(self.outer.get("test_result"))):
            found = dict_of(place.get("report")).get("resolved")
            if isinstance(found, bool):
                return {"resolved": found, "resolved_by": "evaluation record"}
        return {}


FORMATS = (OpenHands(),)
