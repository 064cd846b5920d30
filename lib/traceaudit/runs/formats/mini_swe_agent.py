"""mini-swe-agent: a list of chat messages, bare or in a ``.traj.json`` file, with commands in text or as tool calls.

A decision is one message of the model. The text dialects answer with the next user message and have no ids, so they are
paired by position; the tool-call dialects name the call, so they are paired by that name and by nothing else.

Source: SWE-agent/mini-swe-agent at a83fcae (2.4.x) and files of 1.15.0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from ..issues import Issue
from ..schema import Call, Step
from .base import Parsed, amount, dict_of, iso_time, list_of, str_of, text_of, tokens_of, whole

__all__ = ["BARE", "FORMATS", "MiniSweAgent", "fenced", "return_code"]

NAME = "mini-swe-agent"
BARE = "mini-swe-agent-list"
VERSIONS = (BARE, "mini-swe-agent-1", "mini-swe-agent-1.1")
_ROLES = frozenset({"system", "user", "assistant", "tool", "exit"})
_NEW_TAG = "mswea_bash_command"
_OPEN = {tag: re.compile(rf"```{tag}\s*\n") for tag in ("bash", _NEW_TAG)}
_CODE = re.compile(r"\s*<returncode>(-?\d{1,10})</returncode>")
Message = dict[str, Any]


def fenced(text: str, tag: str = "bash") -> list[tuple[int, int, str]]:
    """The fenced blocks of a text: start, end and command of each, as the scaffold's own pattern finds them.

    The pattern is ```` ```<tag>\\s*\\n(.*?)\\n``` ````; this takes time linear in the text, the pattern does not.
    """
    found, at = [], 0
    while opening := _OPEN[tag].search(text, at):
        end = text.find("\n```", opening.end())
        if end < 0 and not text.startswith("\n```", opening.end() - 1):
            break
        end = max(end, opening.end() - 1)
        at = end + 4
        found.append((opening.start(), at, text[opening.end() : end].strip()))
    return found


def return_code(message: Message) -> int | None:
    """The exit code that an observation states: in its ``extra``, else in the text that it starts with."""
    code = whole(dict_of(message.get("extra")).get("returncode"))
    if code is not None:
        return code
    text = _content(message)
    if text.startswith("<exception>"):
        text = text[text.find("</exception>", 0, 10_000) + len("</exception>") :]
    match = _CODE.match(text)
    return int(match[1]) if match else None


def _content(message: Message) -> str:
    content = message.get("content")
    if type(content) is str:  # nearly always
        return content
    return text_of(message.get("output") if message.get("type") == "function_call_output" else content)


def _acts(message: Message) -> bool:
    return message.get("role") == "assistant" or message.get("object") == "response"


def _call_id(message: Message) -> str | None:
    """The id of the call that an observation answers; None where it has none."""
    if message.get("role") == "tool":
        return str_of(message.get("tool_call_id")) or ""
    return (str_of(message.get("call_id")) or "") if message.get("type") == "function_call_output" else None


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    role = message.get("role")
    known = isinstance(role, str) and role in _ROLES
    return known or message.get("object") == "response" or message.get("type") == "function_call_output"


class MiniSweAgent:
    """mini-swe-agent 1.x and 2.x: bare list, ``mini-swe-agent-1`` and ``mini-swe-agent-1.1`` (text, tool calls, items
    of the responses API)."""

    name = NAME
    versions = VERSIONS

    def matches(self, data: Any) -> bool:
        """A file that names its format, or messages with commands or return codes as this scaffold writes them."""
        if isinstance(data, dict):
            if "trajectory" in data or not isinstance(data.get("messages"), list):
                return False
            named = data.get("trajectory_format")
            if isinstance(named, str):
                return named.startswith(NAME)
            return "mini_version" in dict_of(data.get("info")) or self.matches(data["messages"])
        if not isinstance(data, list) or not data or not all(map(_is_message, data)):
            return False
        return any(map(_acts, data)) and any(map(_typical, data))

    def parse(self, data: Any, name: str) -> list[Parsed]:
        """The one run of a file."""
        outer = dict_of(data)
        issues: list[Issue] = []
        if not isinstance(data, list) and not isinstance(outer.get("messages"), list):
            return [Parsed({}, [], [Issue(name, "the file has no list of messages")])]
        version = str_of(outer.get("trajectory_format")) or BARE
        if version not in VERSIONS:
            issues.append(Issue(name, "an unknown version of the format", got=version[:40]))
        messages = []
        for position, message in enumerate(list_of(outer.get("messages", data))):
            if _is_message(message):
                messages.append(message)
            else:
                role = dict_of(message).get("role", type(message).__name__)
                issues.append(Issue(name, "a message of no known role", got=f"message {position}: {str(role)[:40]}"))
        return [_Reader(outer, version, messages, name, issues).parsed()]


def _typical(message: Message) -> bool:
    if "tool_calls" in message or message.get("object") == "response" or _call_id(message) is not None:
        return True
    content = message.get("content")
    if isinstance(content, str) and message.get("role") == "user":
        return _CODE.match(content) is not None
    return isinstance(content, str) and any(pattern.search(content) for pattern in _OPEN.values())


class _Reader:
    """One run being read."""

    def __init__(
        self, outer: dict[str, Any], version: str, messages: list[Message], name: str, issues: list[Issue]
    ) -> None:
        self.outer, self.version, self.messages = outer, version, messages
        self.name, self.issues = name, issues
        self.info = dict_of(outer.get("info"))
        self.config = dict_of(self.info.get("config"))
        self.tag = self._tag()

    def parsed(self) -> Parsed:
        steps = [self._step(*turn) for turn in self._turns()]
        if not steps:
            self.issues.append(Issue(self.name, "the run has no decision"))
        return Parsed(self._header(steps), steps, self.issues)

    def _tag(self) -> str:
        """Which fence holds the command: the newer tag where the configuration or the prompts name it."""
        pattern = str_of(dict_of(self.config.get("agent")).get("action_regex")) or str_of(
            dict_of(self.config.get("model")).get("action_regex")
        )
        if pattern:
            return _NEW_TAG if _NEW_TAG in pattern else "bash"
        prompts = [message for message in self.messages[:2] if not _acts(message)]
        return _NEW_TAG if any(f"```{_NEW_TAG}" in _content(message) for message in prompts) else "bash"

    def _turns(self) -> Iterator[tuple[int, Message, list[Message], Message | None]]:
        """Each message of the model with what answers it, and the message that ended the run for the last one."""
        starts = [position for position, message in enumerate(self.messages) if _acts(message)]
        early = [message for message in self.messages[: starts[0] if starts else None] if _call_id(message) is not None]
        self._lost(early)
        for index, (start, stop) in enumerate(zip(starts, [*starts[1:], len(self.messages)], strict=False)):
            answers = self.messages[start + 1 : stop]
            ending = answers.pop() if stop == len(self.messages) and answers and self._ends(answers[-1]) else None
            yield index, self.messages[start], answers, ending

    def _ends(self, message: Message) -> bool:
        """Whether the last message is how the run ended (the submission, a limit) and no observation."""
        if message.get("role") == "exit":
            return True
        if message.get("role") != "user" or return_code(message) is not None:
            return False
        return self.version == BARE or _content(message) == text_of(self.info.get("submission"))

    def _lost(self, answers: list[Message]) -> None:
        for message in answers:
            self.issues.append(Issue(self.name, "an observation answers no call", got=(_call_id(message) or "")[:40]))

    def _step(self, index: int, message: Message, answers: list[Message], ending: Message | None) -> Step:
        extra = dict_of(message.get("extra"))
        response = message if message.get("object") == "response" else dict_of(extra.get("response"))
        usage = dict_of(response.get("usage"))
        cost = amount(extra.get("cost"))
        metadata: dict[str, str] = {}
        if reasoning := _reasoning(message, response):
            metadata["reasoning"] = reasoning
        text, commands = self._commands(message, extra, metadata)
        calls = self._paired(commands, answers, metadata)
        if ending is not None:
            metadata["ending"] = _content(ending)
        return Step(
            index=index,
            text=text,
            calls=calls,
            model=str_of(response.get("model")),
            time=iso_time(extra.get("timestamp") or response.get("created") or response.get("created_at")),
            cost=amount(usage.get("cost")) if cost is None else cost,
            tokens=tokens_of(usage),
            metadata=metadata,
        )

    def _commands(self, message: Message, extra: dict[str, Any], metadata: dict[str, str]) -> tuple[str, list[Call]]:
        """What the model said, and the calls that it made."""
        if message.get("object") == "response":
            items = [item for item in list_of(message.get("output")) if isinstance(item, dict)]
            text = "\n".join(filter(None, (text_of(item.get("content")) for item in items if item.get("content"))))
            made = [item for item in items if item.get("type") == "function_call"]
            named = [(str_of(item.get("call_id")) or str_of(item.get("id")), item) for item in made]
        else:
            text = text_of(message.get("content"))
            made = [item for item in list_of(message.get("tool_calls")) if isinstance(item, dict)]
            named = [(str_of(item.get("id")), dict_of(item.get("function"))) for item in made]
        if named:
            return text, [_tool_call(name, function) for name, function in named]
        actions = [action for action in list_of(extra.get("actions")) if isinstance(action, dict)]
        if actions:
            calls = [
                Call(id=str_of(action.get("tool_call_id")), tool="bash", arguments=text_of(action.get("command")))
                for action in actions
            ]
            blocks = fenced(text, self.tag)
            return (_without(text, blocks[0]) if len(blocks) == len(calls) == 1 else text), calls
        if message.get("object") == "response":
            return text, []
        blocks = fenced(text, self.tag)
        if len(blocks) != 1:
            metadata["fenced_blocks"] = str(len(blocks))
            return text, []
        return _without(text, blocks[0]), [Call(tool="bash", arguments=blocks[0][2])]

    def _paired(self, calls: list[Call], answers: list[Message], metadata: dict[str, str]) -> tuple[Call, ...]:
        """The calls with their observations; whatever answers no call goes to the metadata or to the issues."""
        if len(calls) == len(answers) == 1 and not calls[0].id and answers[0].get("role") == "user":
            return (_answered(calls[0], answers[0], "position"),)  # nearly always
        calls = list(calls)
        by_id: dict[str, int] = {}
        for position, call in enumerate(calls):
            if call.id and call.id not in by_id:
                by_id[call.id] = position
            elif call.id:
                self.issues.append(Issue(self.name, "two calls of one decision share an id", got=call.id[:40]))
        free = [position for position, call in enumerate(calls) if not call.id]
        rest: list[str] = []
        for message in answers:
            wanted = _call_id(message)
            if wanted is None and free and message.get("role") != "system":
                position = free.pop(0)
                calls[position] = _answered(calls[position], message, "position")
            elif wanted is None:
                if not calls and return_code(message) is not None:
                    self.issues.append(Issue(self.name, "a command was executed that cannot be told"))
                    calls.append(_answered(Call(tool="bash"), message, "position"))
                else:
                    rest.append(_content(message))
            elif (at := by_id.get(wanted)) is None or calls[at].paired != "none":
                self._lost([message])
            else:
                calls[at] = _answered(calls[at], message, "id")
        if rest:
            metadata["complaint" if not calls else "message"] = "\n".join(rest)
        return tuple(calls)

    def _header(self, steps: list[Step]) -> dict[str, Any]:
        stats = dict_of(self.info.get("model_stats"))
        models = Counter(step.model for step in steps if step.model)
        if len(models) > 1:
            spelled = ", ".join(f"{model[:60]} {n}" for model, n in models.most_common())
            self.issues.append(Issue(self.name, "the run names more than one model", got=spelled))
        configured = dict_of(self.config.get("model"))
        calls = whole(stats.get("api_calls"))
        if calls is not None and calls != len(steps):
            what = "the raw file counts other model calls than it holds decisions"
            self.issues.append(Issue(self.name, what, got=f"{calls} calls, {len(steps)} decisions"))
        fields = {
            "format": self.version,
            "scaffold": NAME,
            "scaffold_version": str_of(self.info.get("mini_version")),
            "instance_id": str_of(self.outer.get("instance_id")),
            "model": models.most_common(1)[0][0] if models else str_of(configured.get("model_name")),
            "arm": _effort(dict_of(configured.get("model_kwargs"))),
            "captured_at": next((step.time for step in steps if step.time), None),
            "exit_status": str_of(self.info.get("exit_status")) or self._exit_status(),
            "cost": amount(stats.get("instance_cost")),
            "api_calls": calls,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _exit_status(self) -> str | None:
        last = self.messages[-1] if self.messages else {}
        return str_of(dict_of(last.get("extra")).get("exit_status")) if last.get("role") == "exit" else None


def _effort(options: dict[str, Any]) -> str | None:
    """The reasoning effort that the run was configured with."""
    return str_of(options.get("reasoning_effort")) or str_of(dict_of(options.get("reasoning")).get("effort"))


def _reasoning(message: Message, response: dict[str, Any]) -> str | None:
    """What the provider gave as the model's reasoning, where the raw file has it as text."""
    if response is message:
        items = [item for item in list_of(message.get("output")) if dict_of(item).get("type") == "reasoning"]
        return str_of("\n".join(filter(None, (text_of(item.get("summary")) for item in items if item.get("summary")))))
    choices = list_of(response.get("choices"))
    answer = dict_of(dict_of(choices[0]).get("message")) if choices else {}
    return str_of(answer.get("reasoning")) or str_of(answer.get("reasoning_content"))


def _tool_call(name: str | None, function: dict[str, Any]) -> Call:
    """A tool call; the arguments are the bare command where they hold nothing else, else the JSON text."""
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else text_of(arguments)
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        given = None
    if isinstance(given, dict) and given.keys() == {"command"} and isinstance(given["command"], str):
        text = given["command"]
    return Call(id=name, tool=str_of(function.get("name")) or "", arguments=text)


def _without(text: str, block: tuple[int, int, str]) -> str:
    return (text[: block[0]].rstrip() + "\n\n" + text[block[1] :].lstrip()).strip()


def _answered(call: Call, message: Message, how: Any) -> Call:
    extra = message.get("extra")
    return Call(
        id=call.id,
        tool=call.tool,
        arguments=call.arguments,
        result=_content(message),
        exit_code=return_code(message),
        time=iso_time(extra.get("timestamp")) if isinstance(extra, dict) else None,
        paired=how,
    )


FORMATS = (MiniSweAgent(),)
