"""mini-swe-agent: who acted, what answered it, and every figure that the raw file states."""

from __future__ import annotations

import json
import statistics
from collections import Counter

import msgspec
import pytest

from traceaudit.runs.formats import by_name, detect, is_python_repr
from traceaudit.runs.formats.mini_swe_agent import BARE, fenced, return_code
from traceaudit.runs.schema import Tokens

from ..conftest import REAL
from . import real_400

FORMAT = by_name("mini-swe-agent")
PROMPT = [{"role": "system", "content": "Use ```bash blocks."}, {"role": "user", "content": "Mend it."}]


def said(command, **extra):
    return {"role": "assistant", "content": f"I look.\n\n```bash\n{command}\n```", **extra}


def answer(code, text="out"):
    return {"role": "user", "content": f"<returncode>{code}</returncode>\n<output>\n{text}\n</output>"}


def response(**more):
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "cost": 0.25,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    return {"response": {"model": "p/m", "created": 1_700_000_000, "usage": usage, **more}}


def tool_call(name, command):
    return {"id": name, "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}


def acted(*calls, **extra):
    actions = [{"command": command, "tool_call_id": name} for name, command in calls]
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [tool_call(*call) for call in calls],
        "extra": {"actions": actions, "cost": 1.5, "timestamp": 1_700_000_000.5, **extra},
    }


def observed(name, code, text="out"):
    extra = {"returncode": code, "timestamp": 1_700_000_001.0}
    return {"role": "tool", "tool_call_id": name, "content": text, "extra": extra}


def file(messages, version="mini-swe-agent-1", **info):
    return {"trajectory_format": version, "instance_id": "a__b-1", "info": info, "messages": PROMPT + messages}


def run(data, name="x.traj.json"):
    assert detect(data) is FORMAT
    (parsed,) = FORMAT.parse(data, name)
    return parsed


def shape(parsed):
    """Per step and call: arguments, result or None, exit code, how it was paired."""
    return [[(c.arguments, c.result is not None, c.exit_code, c.paired) for c in step.calls] for step in parsed.steps]


def test_v1_text_is_paired_by_position_and_the_submission_is_no_observation():
    end = {"role": "user", "content": "diff"}
    info = {"exit_status": "Submitted", "submission": "diff", "mini_version": "1.15.0"}
    stats = {"instance_cost": 0.5, "api_calls": 2}
    messages = [said("ls", extra=response()), answer(2), said("echo done", extra=response()), end]
    parsed = run(file(messages, **info, model_stats=stats))
    assert shape(parsed) == [[("ls", True, 2, "position")], [("echo done", False, None, "none")]]
    step = parsed.steps[0]
    assert (step.text, step.model, step.cost, step.time) == ("I look.", "p/m", 0.25, "2023-11-14T22:13:20+00:00")
    assert step.tokens == Tokens(input=10, output=3, cache_read=4, reasoning=1)
    assert parsed.steps[1].metadata == {"ending": "diff"}
    assert parsed.issues == []
    assert parsed.header_fields == {
        "format": "mini-swe-agent-1",
        "scaffold": "mini-swe-agent",
        "scaffold_version": "1.15.0",
        "instance_id": "a__b-1",
        "model": "p/m",
        "captured_at": "2023-11-14T22:13:20+00:00",
        "exit_status": "Submitted",
        "cost": 0.5,
        "api_calls": 2,
    }


@pytest.mark.parametrize(("text", "blocks"), [("no block", 0), ("```bash\na\n```\n```bash\nb\n```", 2)])
def test_a_turn_without_exactly_one_block_executes_nothing(text, blocks):
    turn = {"role": "assistant", "content": text}
    complaint = {"role": "user", "content": "Please give EXACTLY one."}
    parsed = run(file([turn, complaint, said("ls"), answer(0)]))
    assert shape(parsed) == [[], [("ls", True, 0, "position")]]
    assert parsed.steps[0].metadata == {"fenced_blocks": str(blocks), "complaint": "Please give EXACTLY one."}
    assert parsed.steps[0].text == text


def test_what_was_executed_without_a_readable_command_is_kept_and_named():
    parsed = run(file([{"role": "assistant", "content": "no block"}, answer(7)]))
    assert shape(parsed) == [[("", True, 7, "position")]]
    assert [issue.what for issue in parsed.issues] == ["a command was executed that cannot be told"]


def test_a_timeout_is_an_observation_without_a_code():
    late = {"role": "user", "content": "The last command <command>x</command> timed out"}
    parsed = run(file([said("x"), late, said("y"), answer(0)]))
    assert shape(parsed)[0] == [("x", True, None, "position")]


def test_a_bare_list_ends_with_its_last_user_message():
    end = {"role": "user", "content": "diff"}
    parsed = run([*PROMPT, said("ls"), answer(1), said("echo done"), end])
    assert parsed.header_fields["format"] == BARE
    assert shape(parsed) == [[("ls", True, 1, "position")], [("echo done", False, None, "none")]]


def test_tool_calls_are_paired_by_id_even_out_of_order():
    end = {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}}
    calls = acted(("c1", "cat a"), ("c2", "cat b"), ("c3", "cat c"))
    messages = [calls, observed("c2", 2), observed("c1", 1), observed("c9", 0), acted(("c4", "done")), end]
    parsed = run(file(messages, "mini-swe-agent-1.1"))
    assert shape(parsed) == [
        [("cat a", True, 1, "id"), ("cat b", True, 2, "id"), ("cat c", False, None, "none")],
        [("done", False, None, "none")],
    ]
    assert parsed.steps[0].calls[0].time == "2023-11-14T22:13:21+00:00"
    assert (parsed.steps[0].cost, parsed.steps[0].time) == (1.5, "2023-11-14T22:13:20.500000+00:00")
    assert [(issue.what, issue.got) for issue in parsed.issues] == [("an observation answers no call", "c9")]
    assert parsed.header_fields["exit_status"] == "Submitted"


def test_v11_text_has_its_codes_in_extra():
    turn = said("ls", extra={"actions": [{"command": "ls"}], "cost": 0.1, "timestamp": 1_700_000_000})
    seen = {"role": "user", "content": "any template", "extra": {"returncode": 3, "timestamp": 1_700_000_002}}
    parsed = run(file([turn, seen], "mini-swe-agent-1.1"))
    assert shape(parsed) == [[("ls", True, 3, "position")]]
    assert parsed.steps[0].text == "I look."


def test_a_format_error_of_v11_leaves_no_decision_but_the_count_shows():
    stray = {"role": "user", "content": "Tool call missing", "extra": {"interrupt_type": "FormatError"}}
    messages = [acted(("c1", "ls")), observed("c1", 0), stray, acted(("c2", "pwd")), observed("c2", 0)]
    parsed = run(file(messages, "mini-swe-agent-1.1", model_stats={"api_calls": 3}))
    assert len(parsed.steps) == 2 and parsed.steps[0].metadata == {"message": "Tool call missing"}
    assert [issue.got for issue in parsed.issues] == ["3 calls, 2 decisions"]


def test_items_of_the_responses_api():
    turn = {
        "object": "response",
        "model": "m",
        "created_at": 1_700_000_000,
        "usage": {"input_tokens": 5, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}},
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
            {"type": "function_call", "call_id": "c2", "name": "bash", "arguments": '{"command": "pwd"}'},
        ],
        "extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}], "cost": 0.5},
    }
    seen = {"type": "function_call_output", "call_id": "c2", "output": "out", "extra": {"returncode": 4}}
    parsed = run(file([turn, seen], "mini-swe-agent-1.1"))
    assert shape(parsed) == [[("ls", False, None, "none"), ("pwd", True, 4, "id")]]
    step = parsed.steps[0]
    assert (step.text, step.metadata["reasoning"], step.model, step.cost) == ("I look.", "hm", "m", 0.5)
    assert step.tokens == Tokens(input=5, output=2, cache_read=1)
    assert step.time == "2023-11-14T22:13:20+00:00"


def test_two_models_in_one_run_are_counted_and_the_more_frequent_is_the_runs():
    turns = [said("a", extra=response()), answer(0), said("b", extra=response(model="m")), answer(0)]
    parsed = run(file([*turns, said("c", extra=response()), answer(0)]))
    assert parsed.header_fields["model"] == "p/m"
    assert [(issue.what, issue.got) for issue in parsed.issues] == [("the run names more than one model", "p/m 2, m 1")]


def test_model_and_effort_come_from_the_configuration_where_no_message_has_them():
    model = {"model_name": "m", "model_kwargs": {"reasoning_effort": "high"}}
    parsed = run(file([said("a"), answer(0)], config={"model": model}))
    assert (parsed.header_fields["model"], parsed.header_fields["arm"]) == ("m", "high")


@pytest.mark.parametrize(
    ("text", "tag", "commands"),
    [
        ("```bash\nls\n```", "bash", ["ls"]),
        ("```bash  \n\nls\n\n```", "bash", ["ls"]),
        ("```bash\nls```", "bash", []),  # no line of its own for the end
        ("```bash\nls", "bash", []),
        ("```sh\nls\n```", "bash", []),
        ("```bash\na\n```\nx\n```bash\nb\n```", "bash", ["a", "b"]),
        ("```mswea_bash_command\nls\n```", "mswea_bash_command", ["ls"]),
        ("```mswea_bash_command\nls\n```", "bash", []),
        ("```bash\n\n```", "bash", [""]),
    ],
)
def test_fenced_blocks(text, tag, commands):
    assert [command for *_, command in fenced(text, tag)] == commands


def test_many_open_fences_take_linear_time():
    assert fenced("x ```bash\n" * 200_000) == []  # the pattern of the scaffold would take minutes


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (answer(0), 0),
        (answer(-1), -1),
        ({"content": "<exception>late</exception>\n<returncode>-1</returncode>"}, -1),
        ({"content": "says <returncode>1</returncode>"}, None),
        ({"content": "x", "extra": {"returncode": 5}}, 5),
        ({"content": "x", "extra": {"returncode": True}}, None),
        ({"content": "<returncode>99999999999999999999</returncode>"}, None),
        ({"content": None}, None),
    ],
)
def test_return_codes(message, code):
    assert return_code(message) == code


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        [1],
        {"messages": []},
        {"trajectory": [], "messages": [], "trajectory_format": "mini-swe-agent-1"},
        [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}],  # a mere chat
        [{"id": 0, "source": "agent", "action": "run"}],
    ],
)
def test_other_data_is_not_taken(data):
    assert not FORMAT.matches(data)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (7, "a message of no known role"),
        ({"role": "oracle"}, "a message of no known role"),
        ({"role": "assistant", "content": 3, "tool_calls": 4, "extra": "x"}, None),
        (
            {
                "role": "assistant",
                "tool_calls": [{"function": "x"}],
                "extra": {"response": {"usage": 1, "created": "x"}},
            },
            None,
        ),
        ({"role": "tool", "tool_call_id": ["x"]}, "an observation answers no call"),
        ({"object": "response", "output": [{"type": "function_call"}, 3]}, None),
    ],
)
def test_bad_messages_never_raise(message, what):
    (parsed,) = FORMAT.parse(file([message, said("ls"), answer(0)]), "x")
    assert shape(parsed)[-1] == [("ls", True, 0, "position")]
    assert what is None or what in [issue.what for issue in parsed.issues]


def test_no_messages_and_an_unknown_version_are_named():
    assert FORMAT.parse({"messages": 3}, "x")[0].issues[0].what == "the file has no list of messages"
    issues = run(file([said("ls"), answer(0)], "mini-swe-agent-9")).issues
    assert [(issue.what, issue.got) for issue in issues] == [("an unknown version of the format", "mini-swe-agent-9")]


@pytest.mark.parametrize(
    ("data", "posing"),
    [
        ("{'role': 'user', 'content': 'x'}", True),
        ("[{'a': 1}, {'b': None}]", True),
        ("State(key=full, value={'id': 1})\nActionEvent (agent)", True),
        (["{'a': 1}", "{'b': 2}"], True),
        ({"history": ["{'a': 1}"]}, True),
        ("{'a': Path('x')}", True),
        ("hello", False),
        ("[1, 2]", False),
        (["ls", "pwd"], False),
        ([{"a": 1}], False),
        ("{" * 5000, False),
    ],
)
def test_python_repr_is_told_from_json(data, posing):
    assert is_python_repr(data) is posing


@pytest.mark.real
def test_the_real_small_files():
    folder = REAL / "trajectories"
    if not folder.is_dir():
        pytest.skip("the real trajectories are not beside this repository (../shared/data/trajectories)")

    def read(name):
        return run(msgspec.json.decode((folder / name).read_bytes()))

    bare = read("mini_swe_agent/github_issue.traj.json")
    assert bare.header_fields["format"] == BARE
    assert all(len(step.calls) == 1 for step in bare.steps)
    assert bare.steps[0].calls[0].exit_code == 1 and bare.steps[-1].calls[0].paired == "none"
    scripted = read("_generated/generated__v2.4.6_toolcall_scripted.traj.json")
    assert [len(step.calls) for step in scripted.steps] == [1, 1, 2, 1, 1, 1, 1, 1]
    codes = [call.exit_code for step in scripted.steps for call in step.calls]
    assert codes == [0, 1, 0, 0, 0, 0, 0, -1, None]
    assert [call.paired for step in scripted.steps for call in step.calls] == ["id"] * 8 + ["none"]
    assert scripted.header_fields["api_calls"] == 8 and scripted.header_fields["scaffold_version"] == "2.4.6"
    assert scripted.issues == []
    for name in ("16255", "10999"):
        parsed = read(f"mini_swe_agent/django__django-{name}.traj.json")
        assert parsed.header_fields["api_calls"] == len(parsed.steps)
        assert all(step.cost and step.tokens and step.time and step.model for step in parsed.steps)


@pytest.mark.real
@pytest.mark.slow
def test_the_figures_of_the_400_runs(tmp_path_factory):
    steps, counts = [], Counter()
    for path in sorted(real_400(tmp_path_factory).glob("trajs/*/*.traj.json")):
        parsed = run(msgspec.json.decode(path.read_bytes()), path.name)
        steps.append(len(parsed.steps))
        counts["issues"] += len(parsed.issues)
        counts["api_calls"] += parsed.header_fields["api_calls"] == len(parsed.steps)
        counts[parsed.header_fields["model"]] += 1
        for step in parsed.steps:
            counts["complaints"] += "complaint" in step.metadata and not step.calls
            counts["endings"] += "ending" in step.metadata
            counts["priced"] += None not in (step.cost, step.tokens, step.time, step.model)
            for call in step.calls:
                counts[call.paired] += 1
                counts["non-zero"] += bool(call.exit_code)
                counts["zero"] += call.exit_code == 0
    assert (len(steps), sum(steps), statistics.median(steps), min(steps), max(steps)) == (400, 16_214, 36, 13, 145)
    assert counts == {
        "issues": 0,
        "api_calls": 400,
        "google/gemini-3-pro-preview": 387,
        "gemini-3-pro-preview": 13,
        "complaints": 554,
        "endings": 400,
        "priced": 16_214,
        "position": 15_260,
        "none": 400,
        "zero": 14_082,
        "non-zero": 1_163,
    }
