"""SWE-agent and SWE-smith: one entry is one decision, and what an entry holds badly is named."""

from __future__ import annotations

import json
import random
from collections import Counter
from copy import deepcopy

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traceaudit.runs.formats import PYTHON_REPR, by_name, detect
from traceaudit.runs.formats.swe_agent import HISTORY_ONLY
from traceaudit.runs.schema import Header

from ..conftest import REAL

FORMAT = by_name("swe-agent")
SMITH = "pandas-dev__pandas.95280573.pr_1"
NO_ENTRY = "an entry of the trajectory is no object"
OTHER_CALLS = "the raw file counts other model calls than it holds decisions"
STATE = {"open_file": "n/a", "working_dir": "/w"}


def entry(action="ls -F", **more):
    return {"action": action, "observation": "a.py", "response": "I look.", "thought": "I look.", **more}


def newer(action="ls -F", **more):
    return entry(action, execution_time=0.5, state=dict(STATE), **more)


def file(*entries, **more):
    return {"environment": "main", "trajectory": list(entries), "history": [], "info": {}, **more}


def parse(data, name="f.traj"):
    (parsed,) = FORMAT.parse(data, name)
    return parsed


def whats(parsed):
    return [issue.what for issue in parsed.issues]


def with_state(state):
    return file(entry(state=state))


NEWEST = newer(query=[{"role": "user", "content": "Mend it."}])

VERSIONS = [
    # data, version
    (with_state(json.dumps(STATE) + "\n"), "swe-agent-0"),
    (file(entry()), "swe-agent-0"),  # nothing of a newer one
    (with_state(dict(STATE)), "swe-agent-1.0"),
    (file(newer(messages=[])), "swe-agent-1.0"),
    (file(NEWEST), "swe-agent-1.1"),
    (file(newer(extra_info={}), environment=SMITH), "swe-smith"),
    (file(newer(extra_info={})), "swe-agent-1.0"),  # no task of SWE-smith
    (file(newer(), environment=SMITH), "swe-agent-1.0"),  # no extra_info
    (file(newer(query=[], extra_info={}), environment=SMITH), "swe-agent-1.1"),
]


@pytest.mark.parametrize(("data", "version"), VERSIONS)
def test_version_by_content(data, version):
    assert detect(data) is FORMAT
    parsed = parse(data)
    assert parsed.header_fields["format"] == version
    assert parsed.issues == []


OTHERS = [
    # data, whether it is ours
    ({"history": [{"role": "system", "content": "x", "agent": "main"}]}, True),  # a demonstration
    ({"history": [{"id": 1, "source": "agent", "action": "run", "args": {}}]}, False),  # OpenHands
    ({"trajectory": [{"id": 1, "source": "agent", "action": "run", "args": {}}], "info": {}}, False),
    ({"trajectory": [], "info": {}}, True),  # empty, and that is an issue
    ({"trajectory": [1, 2]}, False),
    ({"trajectory": {"0": entry()}, "info": {}}, False),
    ({"messages": [{"role": "user"}], "history": [{"role": "user"}]}, False),  # mini-swe-agent's name
    ({"attempts": [file(entry())]}, True),
    ([entry()], False),
    ("text", False),
    (None, False),
]


@pytest.mark.parametrize(("data", "ours"), OTHERS)
def test_what_is_ours(data, ours):
    assert FORMAT.matches(data) is ours


CALLS = [
    # entry, tool, arguments, result, paired
    (entry("ls -F\n"), "ls", "ls -F\n", "a.py", "position"),
    (entry("edit 1:2\nx = 1\nend_of_edit"), "edit", "edit 1:2\nx = 1\nend_of_edit", "a.py", "position"),
    (entry("  cd x && ls"), "cd", "  cd x && ls", "a.py", "position"),
    (entry(observation=""), "ls", "ls -F", "", "position"),  # an empty answer is an answer
    (entry(observation=None), "ls", "ls -F", None, "none"),
    ({"action": "ls", "thought": "t"}, "ls", "ls", None, "none"),  # no observation at all
    ({"action": ["a", "b"], "observation": "o"}, "a", "a\nb", "o", "position"),
]


@pytest.mark.parametrize(("one", "tool", "arguments", "result", "paired"), CALLS)
def test_a_call(one, tool, arguments, result, paired):
    (step,) = parse(file(one)).steps
    (call,) = step.calls
    assert (call.tool, call.arguments, call.result, call.paired) == (tool, arguments, result, paired)
    assert call.id is None and call.exit_code is None  # the format has neither


@pytest.mark.parametrize("action", ["", "  \n", None])
def test_an_empty_action_is_a_decision_without_a_call(action):
    (step,) = parse(file(entry(action, observation="Exit due to cost limit"))).steps
    assert step.calls == () and step.text == "I look."
    assert step.metadata["observation"] == "Exit due to cost limit"


METADATA = [
    # entry, metadata
    (newer(), {"state.open_file": "n/a", "state.working_dir": "/w"}),
    (entry(state=json.dumps(STATE) + "\n"), {"state.open_file": "n/a", "state.working_dir": "/w"}),
    (entry(state=None), {}),
    (entry(state=""), {}),
    (entry(state={}, extra_info={"score": 2, "deep": {"a": None}}), {"extra.score": "2", "extra.deep": '{"a":null}'}),
    (entry(response="I look.\n```\nls -F\n```"), {"response": "I look.\n```\nls -F\n```"}),  # more than the thought
    (entry(thought="", response="I look."), {"response": "I look."}),
    (entry(novel=[1], messages=[{"role": "user"}], query=[]), {"other.novel": "1"}),
    (entry(state="{torn"), {"state": "{torn"}),
    (entry(state=10**30), {}),
    (entry(extra_info={"big": 10**30}), {"extra.big": str(10**30)}),
]


@pytest.mark.parametrize(("one", "metadata"), METADATA)
def test_state_and_further_text(one, metadata):
    assert parse(file(one)).steps[0].metadata == metadata


ISSUES = [
    # data, what, how often, steps
    (file(entry(), "entry", None), NO_ENTRY, 2, 1),
    (file(entry(), "{'action': 'ls', 'observation': None}"), PYTHON_REPR, 1, 1),
    (file(), "the run has no decision", 1, 0),
    (file(7), "the run has no decision", 1, 0),
    (with_state("{torn"), "state is no JSON", 1, 1),
    (with_state("{'open_file': 'n/a'}"), f"state: {PYTHON_REPR}", 1, 1),
    (with_state("[1]"), "state is no object", 1, 1),
    (with_state(3), "state is no object", 1, 1),
    (file(entry(extra_info=[1])), "extra_info is no object", 1, 1),
    (file(entry(execution_time="long")), "the execution time is no number", 1, 1),
    (file({"thought": "t"}), "an entry has no action", 1, 1),
    (file({"thought": "t"}), "an entry has no observation", 1, 1),
    (file(entry({"a": 1})), "the action is no text", 1, 1),
    (file(entry(), info=[]), "info is no object", 1, 1),
    (file(entry(), info={"model_stats": "x"}), "model_stats is no object", 1, 1),
    (file(entry(), info={"model_stats": {"api_calls": 3}}), OTHER_CALLS, 1, 1),
    (file(entry(), replay_config="{'a': 1}"), f"replay_config: {PYTHON_REPR}", 1, 1),
    (file(entry(), attempts=[file(entry()), file(entry())]), "of several attempts only the chosen one is read", 1, 1),
    ({"history": [{"role": "user", "content": "x"}]}, HISTORY_ONLY, 1, 0),
    ({"trajectory": 3}, "the file has no list of entries", 1, 0),
    ([], "the file has no list of entries", 1, 0),
]


@pytest.mark.parametrize(("data", "what", "times", "steps"), ISSUES)
def test_what_is_bad_is_named(data, what, times, steps):
    parsed = parse(data)
    assert whats(parsed).count(what) == times
    assert len(parsed.steps) == steps
    assert all(issue.file == "f.traj" for issue in parsed.issues)


CONFIG = {
    "agent": {"model": {"name": "p/m", "completion_kwargs": {"reasoning_effort": "low"}}},
    "env": {"repo": {"github_url": "https://github.com/o/r.git"}},
    "problem_statement": {"id": "o__r-1"},
}
INFO = {
    "exit_status": "submitted",
    "swe_agent_version": "1.0.1",
    "model_stats": {"instance_cost": 0.25, "api_calls": 1, "tokens_sent": 9},
}


@pytest.mark.parametrize("config", [CONFIG, json.dumps(CONFIG)])  # newer versions write it as text
def test_header(config):
    assert parse(file(newer(), info=INFO, replay_config=config)).header_fields == {
        "format": "swe-agent-1.0",
        "scaffold": "swe-agent",
        "scaffold_version": "1.0.1",
        "instance_id": "o__r-1",
        "repository": "o/r",
        "model": "p/m",
        "arm": "low",
        "exit_status": "submitted",
        "cost": 0.25,
        "api_calls": 1,
    }


def test_what_is_not_stated_is_absent():
    assert parse(file(entry())).header_fields == {"format": "swe-agent-0", "scaffold": "swe-agent"}
    step = parse(file(entry())).steps[0]
    assert (step.model, step.cost, step.tokens, step.time, step.signals) == (None, None, None, None, {})
    assert parse(file(newer())).steps[0].signals == {"execution_time": 0.5}


def test_attempts_without_a_chosen_one_are_runs():
    runs = FORMAT.parse({"attempts": [file(entry()), file(entry(), entry()), 3]}, "f")
    assert [len(run.steps) for run in runs] == [1, 2]


@pytest.fixture
def folder():
    if not (REAL / "trajectories").is_dir():
        pytest.skip("the real trajectories are not beside this repository (../shared/data/trajectories)")
    return REAL / "trajectories"


FILES = [
    # file, version, steps, with a state
    ("swe_agent/swe-agent__test-repo-i1.traj", "swe-agent-0", 5, 5),
    ("swe_agent/6e44b9__sweagenttestrepo-1c2844.traj", "swe-agent-1.0", 5, 5),
    ("swe_agent/marshmallow-1867__function_calling_replace_from_source.traj", "swe-agent-1.0", 13, 13),
    ("swe_smith/pandas-dev__pandas.95280573.pr_53652.slim.traj", "swe-smith", 37, 37),
    ("swe_smith/pandas-dev__pandas.95280573.pr_53856.slim.traj", "swe-smith", 17, 17),
    ("swe_smith/pydantic__pydantic.acb0f10f.pr_8316.slim.traj", "swe-smith", 22, 22),
]


@pytest.mark.real
@pytest.mark.parametrize(("name", "version", "steps", "states"), FILES)
def test_the_real_files(folder, name, version, steps, states):
    data = msgspec.json.decode((folder / name).read_bytes())
    assert detect(data) is FORMAT
    parsed = parse(data)
    assert parsed.issues == []
    assert parsed.header_fields["format"] == version
    assert len(parsed.steps) == parsed.header_fields["api_calls"] == steps
    assert sum("state.working_dir" in step.metadata for step in parsed.steps) == states
    assert Counter(call.paired for step in parsed.steps for call in step.calls) == {"position": steps}
    for step, raw in zip(parsed.steps, data["trajectory"], strict=True):
        assert (step.text, step.calls[0].arguments, step.calls[0].result) == (
            raw["thought"],
            raw["action"],
            raw["observation"],
        )
        assert step.signals.get("execution_time") == raw.get("execution_time")
    if version == "swe-smith":
        assert parsed.header_fields["scaffold_version"] == "1.0.1"
        assert parsed.header_fields["instance_id"] == name.split("/")[1].removesuffix(".slim.traj")


JUNK = [None, True, 0, -1, 1.5, 10**25, "", "x", "{'a': 1}", [], ["x"], {}, {"a": 1}, [[]], [{}, {}], "null", "run"]


def mutated(data, seed, times):
    """The data with some random places deleted, replaced, doubled, cut or swapped."""
    choose = random.Random(seed)
    for _ in range(times):
        place, depth = data, choose.choice((1, 2, 2, 3, 3, 4, 5)) if choose.random() < 0.95 else 0  # seldom the root
        while depth:
            parts = list(place.values()) if isinstance(place, dict) else place
            inner = [part for part in parts if part and isinstance(part, dict | list)]
            if not inner:
                break
            place, depth = choose.choice(inner), depth - 1
        if not place:
            continue
        key = choose.choice(list(place) if isinstance(place, dict) else range(len(place)))
        how = choose.choice(["delete", "replace", "rename", "double"] * 5 + ["cut"])
        if how == "delete":
            del place[key]
        elif how == "replace":
            place[key] = deepcopy(choose.choice(JUNK))
        elif how == "rename" and isinstance(place, dict):
            place[choose.choice(["action", "observation", "kind", "id", "cause", "x"])] = place.pop(key)
        elif how == "double" and isinstance(place, list):
            place.insert(key, deepcopy(place[key]))
        elif how == "cut" and isinstance(place, list):
            del place[key:]
    return data


def sound(parsed):
    """What every parsed run must be, whatever it was made of."""
    assert [step.index for step in parsed.steps] == list(range(len(parsed.steps)))
    assert parsed.steps or parsed.issues
    for step in parsed.steps:
        msgspec.json.encode(step)
        assert all((call.paired == "none") == (call.result is None) for call in step.calls)
    msgspec.convert({"run_id": "", "n_steps": 0} | parsed.header_fields, Header)


LOST = {NO_ENTRY, PYTHON_REPR}


def check(data):
    parsed_runs = FORMAT.parse(data, "f")
    for parsed in parsed_runs:
        sound(parsed)
    entries = data.get("trajectory") if isinstance(data, dict) else None
    if isinstance(entries, list):
        (parsed,) = parsed_runs
        assert len(parsed.steps) + sum(what in LOST for what in whats(parsed)) == len(entries)
    FORMAT.matches(data)


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_made_up_files_of_any_shape(seed, times):
    data = file(entry(), newer(), NEWEST, info=dict(INFO), replay_config=msgspec.json.decode(json.dumps(CONFIG)))
    check(mutated(msgspec.json.decode(json.dumps(data)), seed, times))


@pytest.mark.real
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([row[0] for row in FILES if "marsh" not in row[0]]))
def test_real_files_of_any_shape(folder, seed, times, name):
    check(mutated(msgspec.json.decode((folder / name).read_bytes()), seed, times))
