"""OpenHands: the figures of the real files, and files of any shape: no event that is neither read nor named."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traceaudit.runs.formats import detect
from traceaudit.runs.formats.openhands import accounted

from ..conftest import REAL
from .test_openhands import (
    ASKED,
    FLAT_ACT,
    FORMAT,
    RECORD,
    act,
    flat,
    parse,
    said,
    saw,
    seen,
    v1_act,
    v1_said,
    v1_saw,
)
from .test_swe_agent import mutated, sound


@pytest.fixture
def folder():
    if not (REAL / "trajectories").is_dir():
        pytest.skip("the real trajectories are not beside this repository (../shared/data/trajectories)")
    return REAL / "trajectories" / "openhands"


def read(folder, name):
    raw = (folder / name).read_bytes()
    return (
        [msgspec.json.decode(line) for line in raw.splitlines()]
        if name.endswith(".jsonl")
        else msgspec.json.decode(raw)
    )


FACTS = [
    # file, events, actions, decisions, calls, wrongly paired by the next observation, exit codes
    ("basic_gui_mode.json", 18, 7, 5, 4, 1, {0: 1, -1: 1}),
    ("multi_swe_bench_output_line0.json", 49, 26, 23, 23, 2, {0: 8, 127: 3, 2: 2}),
]


@pytest.mark.real
@pytest.mark.parametrize(("name", "events", "actions", "decisions", "calls", "wrong", "codes"), FACTS)
def test_the_real_event_lists(folder, name, events, actions, decisions, calls, wrong, codes):
    data = read(folder, name)
    raw = data if isinstance(data, list) else data["history"]
    assert detect(data) is FORMAT
    parsed = parse(data)
    assert parsed.issues == []
    acts = [event for event in raw if "action" in event]
    assert (len(raw), len(acts), len(parsed.steps)) == (events, actions, decisions)
    made_calls = [call for step in parsed.steps for call in step.calls]
    assert len(made_calls) == calls
    assert Counter(call.exit_code for call in made_calls if call.exit_code is not None) == codes
    assert sum(accounted(data).values()) == events
    # an independent pairing: by ``cause``, and by the next observation as it should not be done
    caused = {event["cause"]: event["id"] for event in raw if event.get("cause") is not None}
    after = {
        event["id"]: next((later["id"] for later in raw[place:] if "observation" in later), None)
        for place, event in enumerate(raw)
        if "action" in event
    }
    assert sum(after[event["id"]] != caused.get(event["id"]) for event in acts) == wrong
    by_id = {event["id"]: event for event in raw}
    mine = [event for event in acts if "tool_call_metadata" in event]
    for call, event in zip(made_calls, mine, strict=True):
        answer = by_id.get(caused.get(event["id"]))
        assert call.result == (answer["content"] if answer else None)
        assert call.paired == ("id" if answer else "none")
    worded = [step for step in parsed.steps if step.calls]
    assert all(step.tokens and step.model and step.time for step in worded)


@pytest.mark.real
def test_the_real_flat_records(folder):
    records = read(folder, "resolver_mock_output.jsonl")
    for record, steps in zip(records, (4, 22), strict=True):
        assert detect(record) is FORMAT
        parsed = parse(record)
        assert parsed.issues == []
        assert parsed.header_fields["format"] == "openhands-0-flat"
        assert "resolved" not in parsed.header_fields
        made_calls = [call for step in parsed.steps for call in step.calls]
        assert [call.paired for call in made_calls] == ["position"] * (steps - 1) + ["none"]
        acts = [event for event in record["history"] if "action" in event][1:]
        assert [call.arguments for call in made_calls[:-1]] == [e.get("command", e.get("code")) for e in acts[:-1]]
        results = [event for event in record["history"] if "observation" in event]
        assert [call.result for call in made_calls[:-1]] == [event["content"] for event in results]
        assert [call.exit_code for call in made_calls[:-1]] == [event.get("exit_code") for event in results]
        assert sum(step.cost for step in parsed.steps) == pytest.approx(parsed.header_fields["cost"])


def check(data):
    """Whatever the data is: nothing is raised, and every event is read, paired, known as context, or named."""
    FORMAT.matches(data)
    parsed = parse(data)
    sound(parsed)
    account = accounted(data)
    places = [data[place] for place in ("history", "events", "trajectory") if isinstance(data, dict) and place in data]
    entries = data if isinstance(data, list) else next((place for place in places if isinstance(place, list)), [])
    events = sum(len(entry) if isinstance(entry, list) else 1 for entry in entries)
    assert sum(account.values()) == events
    assert account.get("unpaired", 0) + account.get("not read", 0) <= len(parsed.issues)
    made_calls = [call for step in parsed.steps for call in step.calls]
    assert len(made_calls) == account.get("calls", 0)
    assert sum(call.paired != "none" for call in made_calls) == account.get("paired", 0)


MADE_UP = [
    [act(0, "system", content="p"), said(1, source="user"), act(2, call="a"), saw(3, 2), act(4), saw(5, 4), said(6)],
    {"history": [ASKED, FLAT_ACT, seen("run", exit_code=0), FLAT_ACT, seen("error"), flat("finish", outputs={})]},
    {"history": [[ASKED, seen("null", "")], [FLAT_ACT, seen("run")], [act(1), saw(2, 1)]]},
    RECORD | {"history": [v1_said(0, "user"), v1_act(1), v1_act(2), v1_saw(3, 2), v1_saw(4, 1), v1_said(5, "agent")]},
]


@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from(range(len(MADE_UP))))
def test_made_up_files_of_any_shape(seed, times, which):
    check(mutated(msgspec.json.decode(json.dumps(MADE_UP[which])), seed, times))


@pytest.mark.real
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([row[0] for row in FACTS]))
def test_real_event_lists_of_any_shape(folder, seed, times, name):
    check(mutated(read(folder, name), seed, times))


@pytest.mark.real
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([0, 1]))
def test_real_flat_records_of_any_shape(folder, seed, times, which):
    check(mutated(read(folder, "resolver_mock_output.jsonl")[which], seed, times))
