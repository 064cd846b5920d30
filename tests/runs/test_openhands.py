"""OpenHands: who decided, which event an observation answers, and no event that is neither read nor named."""

from __future__ import annotations

import json

import pytest

from traceaudit.runs.formats import PYTHON_REPR, by_name, detect
from traceaudit.runs.formats.openhands import accounted
from traceaudit.runs.schema import Tokens

FORMAT = by_name("openhands")
USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 3,
    "cache_creation_input_tokens": 2,
    "prompt_tokens_details": {"cached_tokens": 4},
}
UNSAID = "an event does not say who acted"
NAMELESS = "an observation does not say what it answers"
NOWHERE = "an observation answers no event"
TWICE = "two observations answer one call"
AFTER_NOTHING = "an observation follows no action"
OTHER_KIND = "an observation of another kind than the action before it"
NEITHER = "an event is neither action nor observation"


def made(call, response, total=1):
    """What an event says of the model's response that it came from."""
    answer = {"id": response, "model": "p/m", "usage": USAGE}
    return {
        "tool_call_metadata": {
            "function_name": "execute_bash",
            "tool_call_id": call,
            "model_response": answer,
            "total_calls_in_response": total,
        }
    }


def act(number, kind="run", source="agent", call=None, response=None, total=1, **args):
    args = args or {"command": f"c{number}", "thought": f"t{number}", "is_input": False, "hidden": False}
    more = made(call, response or f"r{number}", total) if call else {}
    time = f"2025-01-20T20:29:{number:02}.5"
    return {"id": number, "timestamp": time, "source": source, "message": "", "action": kind, "args": args, **more}


def saw(number, cause, kind="run", content=None, code=0, source="agent", **more):
    extras = {"command": "c", "metadata": {"exit_code": code}} if kind == "run" else {}
    text = f"o{number}" if content is None else content
    time = f"2025-01-20T20:30:{number:02}.5"
    event = {"id": number, "timestamp": time, "source": source, "message": "", "observation": kind, "content": text}
    return event | {"cause": cause, "extras": extras} | more


def said(number, text="words", source="agent"):
    return act(number, "message", source, content=text, wait_for_response=source == "agent")


def flat(kind, **more):
    return {"action": kind, **more}


def seen(kind, content="out", **more):
    return {"observation": kind, "content": content, **more}


ASKED = flat("message", content="Mend it.", images_urls=None, wait_for_response=False)


def v1(kind, number, source="agent", **more):
    return {"id": f"e{number}", "timestamp": f"2026-01-01T00:00:{number:02}", "source": source, "kind": kind, **more}


def v1_act(number, response="r", text="", **arguments):
    arguments = arguments or {"command": f"c{number}"}
    call = {"id": f"k{number}", "name": "terminal", "arguments": json.dumps(arguments)}
    more = {"tool_name": "terminal", "tool_call_id": f"k{number}", "tool_call": call, "llm_response_id": response}
    return v1("ActionEvent", number, thought=[{"type": "text", "text": text}], action={"kind": "T"}, **more)


def v1_saw(number, action, content="out", code=0, **more):
    observation = {"kind": "TerminalObservation", "content": [{"type": "text", "text": content}], "exit_code": code}
    event = v1("ObservationEvent", number, "environment", tool_name="terminal", observation=observation)
    return event | {"action_id": f"e{action}", "tool_call_id": f"k{action}"} | more


def v1_said(number, source, text="words"):
    role = "assistant" if source == "agent" else "user"
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    return v1("MessageEvent", number, source, llm_message=message)


def parse(data, name="f.json"):
    (parsed,) = FORMAT.parse(data, name)
    return parsed


def rows(parsed):
    """Every decision as its calls: arguments, result, exit code, pairing."""
    return [[(call.arguments, call.result, call.exit_code, call.paired) for call in s.calls] for s in parsed.steps]


def whats(parsed):
    return [issue.what for issue in parsed.issues]


V0_RUN = [act(1), saw(2, 1)]
RECORD = {"instance_id": "o__r-1", "test_result": {}, "metadata": {}, "history": V0_RUN, "metrics": {}, "error": None}

VERSIONS = [
    # data, version
    (V0_RUN, "openhands-0"),
    ({"history": V0_RUN}, "openhands-0"),
    ({"events": V0_RUN}, "openhands-0"),
    ({"trajectory": V0_RUN}, "openhands-0"),
    (RECORD, "openhands-0"),
    ([ASKED, flat("run", command="ls", thought="t"), seen("run", exit_code=0)], "openhands-0-flat"),
    ({"history": [[act(1), saw(2, 1)]]}, "openhands-0-pairs"),
    ([[flat("run", command="ls", thought="t"), seen("run", exit_code=0)]], "openhands-0-pairs"),
    ([v1_act(1), v1_saw(2, 1)], "openhands-1"),
    ({"history": [v1_said(1, "user"), v1_act(2), v1_saw(3, 2)], "instance_id": "x"}, "openhands-1"),
]


@pytest.mark.parametrize(("data", "version"), VERSIONS)
def test_version_by_content(data, version):
    assert detect(data) is FORMAT
    parsed = parse(data)
    assert parsed.issues == []
    assert parsed.header_fields["format"] == version
    assert [len(row) for row in rows(parsed)] == [1]
    assert rows(parsed)[0][0][1] in ("o2", "out")


OTHERS = [
    # no run of OpenHands
    [{"role": "user", "content": "x"}],
    [{"action": "click", "source": "web"}],  # some log
    [{"kind": "Event", "source": "agent"}],  # of a cluster
    [{"action": "run", "observation": "run", "thought": "t"}],  # an entry of SWE-agent has both
    {"history": [{"role": "user", "content": "x"}]},
    {"history": ["ActionEvent(id=1)"]},
    {"history": None, "instance_id": "x"},
    [{"source": ["agent"], "action": {"kind": "x"}, "kind": ["ActionEvent"]}],
    [[["run"]]],
    [],
    "text",
    None,
]


@pytest.mark.parametrize("data", OTHERS)
def test_what_is_not_ours(data):
    assert not FORMAT.matches(data)


DECISIONS = [
    # events, calls of each decision
    ([act(0, "system", content="prompt")], []),
    ([act(0, "recall", "user", query="x"), saw(1, 0, "recall", source="environment")], []),
    ([act(0, "change_agent_state", "environment", agent_state="init"), saw(1, 0, "null")], []),
    ([said(0, source="user"), saw(1, 0, "null")], []),
    ([act(0, source="user"), saw(1, 0)], []),  # the user's own command
    ([said(0), saw(1, 0, "null", content="")], [0]),  # words alone
    ([act(0), saw(1, 0), said(2)], [1, 0]),
    ([act(0, "think", thought="x"), saw(1, 0, "think"), act(2, "finish", thought="x")], [1, 1]),
    # two calls of one response, each answered before the next is made
    ([act(0, call="a", response="r", total=2), saw(1, 0), act(2, call="b", response="r", total=2), saw(3, 2)], [2]),
    ([act(0, call="a", response="r"), saw(1, 0), act(2, call="b", response="r"), saw(3, 2)], [1, 1]),  # it had one
    ([act(0, call="a", response="r", total=2), saw(1, 0), act(2, call="a", response="r", total=2), saw(3, 2)], [1, 1]),
    # a decision between them
    ([act(0, call="a", response="r", total=2), act(1), act(2, call="b", response="r", total=2)], [1, 1, 1]),
    ([v1_act(0), v1_act(1), v1_saw(2, 0), v1_saw(3, 1)], [2]),
    ([v1_act(0, text="one"), v1_saw(1, 0), v1_act(2, text="two"), v1_saw(3, 2)], [1, 1]),  # one id for every response
    ([v1_act(0, "r1"), v1_act(1, "r2")], [1, 1]),
    ([v1_said(0, "user"), v1_act(1), v1_saw(2, 1), v1_said(3, "agent")], [1, 0]),
    ([v1("SystemPromptEvent", 0), v1("PauseEvent", 1, "user"), v1_act(2)], [1]),
]


@pytest.mark.parametrize(("events", "calls"), DECISIONS)
def test_who_decided(events, calls):
    parsed = parse(events)
    assert [len(step.calls) for step in parsed.steps] == calls
    assert whats(parsed) == ([] if calls else ["the run has no decision"])


FLAT_ACT = flat("run", command="ls", thought="t")
REJECTED = v1("UserRejectObservation", 2, "user", rejection_reason="no", action_id="e1")
STATE = seen("agent_state_changed", "", extras={"agent_state": "running"})

PAIRS = [
    # events, decisions, what is named
    # answers in another order than the calls
    ([act(1), act(2), saw(3, 2), saw(4, 1)], [[("c1", "o4", 0, "id")], [("c2", "o3", 0, "id")]], []),
    # something else in between: the next observation is not the answer
    ([act(1), saw(2, None, "agent_state_changed"), saw(3, 1, code=127)], [[("c1", "o3", 127, "id")]], []),
    ([act(1), saw(2, 1, code=-1)], [[("c1", "o2", -1, "id")]], []),
    ([act(1), saw(2, 1, code="x")], [[("c1", "o2", None, "id")]], []),
    ([act(1)], [[("c1", None, None, "none")]], []),
    ([act(1), saw(2, 9)], [[("c1", None, None, "none")]], [NOWHERE]),
    ([act(1), saw(2, None)], [[("c1", None, None, "none")]], [NAMELESS]),  # it has ids, so not by place
    ([act(1), saw(2, 1), saw(3, 1)], [[("c1", "o2", 0, "id")]], [TWICE]),
    ([saw(2, 1), act(1)], [[("c1", None, None, "none")]], [NOWHERE]),
    # no cause, but the call's own id
    (
        [act(1, call="a"), act(2, call="b"), saw(3, None, **made("b", "x")), saw(4, None, **made("a", "x"))],
        [[("c1", "o4", 0, "id")], [("c2", "o3", 0, "id")]],
        [],
    ),
    # the flat form has no ids
    ([ASKED, FLAT_ACT, seen("run", exit_code=2)], [[("ls", "out", 2, "position")]], []),
    ([FLAT_ACT, STATE, seen("run", exit_code=2)], [[("ls", "out", 2, "position")]], []),
    ([FLAT_ACT, seen("error")], [[("ls", "out", None, "position")]], []),
    ([FLAT_ACT, seen("browse")], [[("ls", None, None, "none")]], [OTHER_KIND]),
    ([FLAT_ACT, seen("run_ipython")], [[("ls", None, None, "none")]], [OTHER_KIND]),
    ([ASKED, seen("run"), FLAT_ACT], [[("ls", None, None, "none")]], [OTHER_KIND]),
    ([FLAT_ACT, seen("run"), seen("run")], [[("ls", "out", None, "position")]], [AFTER_NOTHING]),
    ([FLAT_ACT, 3, seen("run")], [[("ls", None, None, "none")]], ["an event is no object", AFTER_NOTHING]),
    ([flat("run_ipython", code="1", thought=""), seen("run_ipython")], [[("1", "out", None, "position")]], []),
    # the pair form: by its pair, and by the cause where there is one
    (
        [[FLAT_ACT, seen("run")], [FLAT_ACT, seen("run", "b")]],
        [[("ls", t, None, "position")] for t in ("out", "b")],
        [],
    ),
    ([[ASKED, seen("null", "")], [FLAT_ACT, seen("run")]], [[("ls", "out", None, "position")]], []),
    ([[FLAT_ACT], [seen("run")]], [[("ls", None, None, "none")]], [AFTER_NOTHING]),
    ([[act(1), saw(2, 1)], [act(3), saw(4, 1)]], [[("c1", "o2", 0, "id")], [("c3", None, None, "none")]], [TWICE]),
    ([FLAT_ACT, [seen("run")]], [[("ls", None, None, "none")]], [AFTER_NOTHING]),
    # the first words are the user's, whatever they lack
    ([flat("message", content="Mend it."), FLAT_ACT], [[("ls", None, None, "none")]], []),
    # V1
    ([v1_act(1), v1_act(2), v1_saw(3, 2), v1_saw(4, 1, "b", 2)], [[("c1", "b", 2, "id"), ("c2", "out", 0, "id")]], []),
    ([v1_act(1), v1_saw(2, 9)], [[("c1", None, None, "none")]], [NOWHERE]),
    ([v1_act(1), v1_saw(2, 9, tool_call_id="k1")], [[("c1", "out", 0, "id")]], []),
    ([v1_act(1), v1("AgentErrorEvent", 2, error="no", tool_call_id="k1")], [[("c1", "no", None, "id")]], []),
    ([v1_act(1), REJECTED], [[("c1", "no", None, "id")]], []),
]


@pytest.mark.parametrize(("events", "expected", "named"), PAIRS)
def test_pairing(events, expected, named):
    parsed = parse(events)
    assert rows(parsed) == expected
    assert whats(parsed) == named


def test_what_answers_no_call_is_kept_beside_the_decision():
    events = [act(1), saw(2, 9, content="lost"), said(3, "go on", "user"), said(4), saw(5, 4, "error", "odd")]
    first, second = parse(events).steps
    assert first.metadata == {"unpaired": "lost", "message": "go on"}
    assert second.metadata == {"observation": "odd"}


ARGUMENTS = [
    # event, tool, arguments
    (act(1, command="ls", is_input=False, thought="t", blocking=True), "run", "ls"),
    (act(1, command="C-c", is_input=True, thought="t"), "run", '{"command":"C-c","is_input":true}'),  # no command
    (act(1, "run_ipython", code="1", thought="t", kernel_init_code="x"), "run_ipython", "1"),
    (act(1, "edit", path="a", thought="t", security_risk=-1), "edit", '{"path":"a"}'),
    (act(1, "think", thought="hm"), "think", '{"thought":"hm"}'),
    (act(1, "read", path=10**25), "read", '{"path":10000000000000000000000000}'),
    (flat("browse", url="u", thought="t"), "browse", '{"url":"u"}'),
    (v1_act(1, command="ls"), "terminal", "ls"),
    (v1_act(1, command="ls", security_risk="LOW", summary="s"), "terminal", "ls"),
    (v1_act(1, command="C-c", is_input=True), "terminal", '{"command": "C-c", "is_input": true}'),
    (v1_act(1) | {"tool_call": {"arguments": "{torn"}}, "terminal", "{torn"),
    (v1_act(1) | {"tool_call": {}, "action": {"kind": "T", "path": "a"}}, "terminal", '{"path":"a"}'),
]


@pytest.mark.parametrize(("event", "tool", "arguments"), ARGUMENTS)
def test_arguments(event, tool, arguments):
    (step,) = parse([event]).steps
    assert (step.calls[0].tool, step.calls[0].arguments) == (tool, arguments)


ISSUES = [
    # events, what, what became of the events
    ([act(1), "ActionEvent(id='x', source='agent')"], PYTHON_REPR, {"calls": 1, "not read": 1}),
    ([act(1), None], "an event is no object", {"calls": 1, "not read": 1}),
    ([act(1), {"id": 2}], NEITHER, {"calls": 1, "not read": 1}),
    ([act(1), {"action": ["run"], "observation": 3}], NEITHER, {"calls": 1, "not read": 1}),
    ([v1_act(1), v1("NovelThing", 2)], "an event of a kind that is not known", {"calls": 1, "not read": 1}),
    ([act(1), act(2) | {"source": None}], UNSAID, {"calls": 1, "context": 1}),
    ([act(1), act(2, call="a") | {"source": None}], UNSAID, {"calls": 2}),  # what a model's answer made is the agent's
    ([FLAT_ACT, flat("message", content="x")], UNSAID, {"calls": 1, "context": 1}),
    ([act(1), act(2, "novel")], "an action of a kind that is not known", {"calls": 2}),
    ([act(1), saw(2, 1, "novel")], "an observation of a kind that is not known", {"calls": 1, "paired": 1}),
    ([act(1), act(1)], "two events share an id", {"calls": 2}),
    ([act(1) | {"timestamp": "noon"}], "a time is not ISO 8601", {"calls": 1}),
    ([act(1), saw(2, 1) | {"timestamp": []}], "a time is not ISO 8601", {"calls": 1, "paired": 1}),
    ([v1_act(1) | {"tool_name": 3, "tool_call": {}}], "a call names no tool", {"calls": 1}),
    ([act(1, call="a"), act(2, call="b") | made("b", "x") | {"source": "agent"}], None, {"calls": 2}),
]


@pytest.mark.parametrize(("events", "what", "account"), ISSUES)
def test_what_is_bad_is_named(events, what, account):
    parsed = parse(events)
    assert whats(parsed) == ([what] if what else [])
    assert all(issue.file == "f.json" for issue in parsed.issues)
    assert accounted(events) == account


def test_a_record_without_events_is_named():
    record = RECORD | {"history": None, "error": "STATUS$ERROR: no container"}
    assert detect(record) is FORMAT
    parsed = parse(record)
    assert [str(issue) for issue in parsed.issues] == [
        "f.json: the record has no list of events (STATUS$ERROR: no container)"
    ]
    assert parsed.header_fields["exit_status"] == "STATUS$ERROR"


def test_figures_of_a_step():
    spent = {"llm_metrics": {"accumulated_cost": 0.5}}
    (step,) = parse([act(1, call="a") | spent, saw(2, 1)]).steps
    assert (step.model, step.time, step.text) == ("p/m", "2025-01-20T20:29:01.5", "t1")
    assert step.tokens == Tokens(input=10, output=3, cache_read=4, cache_write=2)
    assert step.signals == {"accumulated_cost": 0.5}
    assert step.metadata == {"function": "execute_bash"}
    assert (step.calls[0].id, step.calls[0].time) == ("a", "2025-01-20T20:30:02.5")
    assert step.cost is None  # the file states the sum so far, not the price of this one


def test_figures_by_response_of_the_metrics():
    counts = {"prompt_tokens": 7, "completion_tokens": 2, "cache_read_tokens": 1, "cache_write_tokens": 0}
    metrics = {
        "accumulated_cost": 1.5,
        "costs": [{"cost": 1.0}, 0.5],
        "token_usages": [{"model": "p/m", "response_id": "r1", **counts}],
        "response_latencies": [{"response_id": "r2", "latency": 3.5}, {"response_id": "", "latency": 1}],
    }
    parsed = parse({"history": [v1_act(1, "r1"), v1_act(2, "r2")], "metrics": metrics})
    first, second = parsed.steps
    assert first.tokens == Tokens(input=7, output=2, cache_read=1, cache_write=0) and first.model == "p/m"
    assert second.tokens is None and second.signals == {"latency": 3.5} and first.signals == {}
    assert [(step.cost, step.metadata["cost_paired"]) for step in parsed.steps] == [
        (1.0, "position"),
        (0.5, "position"),
    ]
    assert parsed.header_fields["cost"] == 1.5
    metrics["costs"].append(0.1)  # one too many: no telling whose
    metrics["token_usages"] *= 2
    steps = parse({"history": [v1_act(1, "r1"), v1_act(2, "r2")], "metrics": metrics}).steps
    assert [(step.cost, step.tokens) for step in steps] == [(None, None)] * 2


HEADERS = [
    # data, fields that it must have
    (
        RECORD | {"metadata": {"llm_config": {"model": "p/c", "reasoning_effort": "high"}}},
        {"model": "p/c", "arm": "high"},
    ),
    (
        RECORD | {"metadata": {"llm": {"model": "p/c"}, "git_commit": "abc"}},
        {"model": "p/c", "scaffold_version": "abc"},
    ),
    (RECORD | {"instance": {"repo": "o/r"}, "metadata": {"dataset": "d"}}, {"repository": "o/r", "dataset": "d"}),
    (RECORD | {"report": {"resolved": False}}, {"resolved": False, "resolved_by": "evaluation record"}),
    (RECORD | {"test_result": {"report": {"resolved": True}}}, {"resolved": True, "resolved_by": "evaluation record"}),
    (RECORD | {"success": True}, {"resolved": None}),  # the resolver's own opinion is no grade
    (RECORD | {"metrics": {"accumulated_cost": 2}}, {"cost": 2.0, "instance_id": "o__r-1"}),
    ({"history": V0_RUN, "issue": {"owner": "o", "repo": "r", "number": 5}}, {"instance_id": "o__r-5"}),
    ([act(0, "system", openhands_version="0.35.0"), *V0_RUN], {"scaffold_version": "0.35.0"}),
    ([*V0_RUN, saw(3, None, "agent_state_changed", extras={"agent_state": "error"})], {"exit_status": "error"}),
    ([act(1, "finish", thought="x")], {"exit_status": "finish", "cost": None, "model": None}),
    (V0_RUN, {"exit_status": None, "captured_at": "2025-01-20T20:29:01.5", "api_calls": None}),
    (
        [
            v1_act(1),
            v1("ConversationStateUpdateEvent", 2, key="execution_status", value="finished"),
            v1(
                "ConversationStateUpdateEvent",
                3,
                key="stats",
                value={"usage_to_metrics": {"agent": {"model_name": "p/m", "accumulated_cost": 0.25}}},
            ),
        ],
        {"exit_status": "finished", "cost": 0.25, "model": "p/m"},
    ),
]


@pytest.mark.parametrize(("data", "fields"), HEADERS)
def test_header(data, fields):
    found = parse(data).header_fields
    assert {name: found.get(name) for name in fields} == fields


def test_two_models_are_named():
    other = act(3, call="b")
    other["tool_call_metadata"]["model_response"] = {"id": "r", "model": "q/n"}
    parsed = parse([act(1, call="a"), act(2, call="c"), other])
    assert parsed.header_fields["model"] == "p/m"
    assert [issue.got for issue in parsed.issues] == ["p/m 2, q/n 1"]
