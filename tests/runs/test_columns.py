"""The column audit: each relation with its exact exceptions, in any order of parts, and none by chance."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceaudit.runs import columns
from traceaudit.runs.columns import Columns, Table
from traceaudit.runs.relations import CAP
from traceaudit.runs.schema import Header, Outcome, Run, Step, Tokens, flat

from .test_secrets import runs_400

N = 500


def table(rows):
    out = Table()
    for row in rows:
        out.add(row)
    return out


def pair(a, b, wrong=0, bad=None):
    """A table of two columns; in the first ``wrong`` rows b is ``bad``."""
    result = table({"a": a(i), "b": bad(i) if i < wrong else b(i)} for i in range(N)).result()
    return result["duplicate"]


WORDS = ("ok", "bad", "odd")
LARGE = 5 * 10**12
RELATIONS = [  # columns a and b, how many rows break it and how, the relation, its exceptions, its rows
    (lambda i: f"t{i}", lambda i: f"t{i}", 0, None, "equal", 0, N),
    (lambda i: f"t{i}", lambda i: f"t{i}", 7, lambda i: "x", "equal", 7, N),
    (lambda i: i, lambda i: float(i), 0, None, "equal", 0, N),  # 1 and 1.0 are one number
    (lambda i: i if i % 5 else None, lambda i: i if i % 5 else None, 0, None, "equal", 0, 400),  # null beside null
    (lambda i: i if i % 5 else None, lambda i: i if i % 5 else None, 1, lambda i: 1, "equal", 1, 401),
    (lambda i: i % 2 == 0, lambda i: i % 2 == 1, 0, None, "negation", 0, N),
    (lambda i: i % 2 == 0, lambda i: i % 2 == 1, 3, lambda i: i % 2 == 0, "negation", 3, N),
    (lambda i: i, lambda i: 3 * i - 7, 0, None, "affine a*x+b", 0, N),
    (lambda i: i, lambda i: 3 * i - 7, 9, lambda i: -9999, "affine a*x+b", 9, N),
    (lambda i: i / 4, lambda i: i / 2 + 1, 0, None, "affine a*x+b", 0, N),
    (lambda i: LARGE + i, lambda i: 2 * (LARGE + i), 0, None, "affine a*x+b", 0, N),
    (lambda i: WORDS[i % 3], lambda i: i % 3, 0, None, "equal after mapping", 0, N),
    (lambda i: WORDS[i % 3], lambda i: (2, 0, 5)[i % 3], 5, lambda i: 9, "equal after mapping", 5, N),
    (lambda i: i % 3 == 0, lambda i: None if i % 3 == 0 else f"x{i}", 0, None, "null exactly where", 0, N),
    (lambda i: i % 3 == 0, lambda i: None if i % 3 else f"x{i}", 4, lambda i: None, "null exactly where", 2, N),
    (lambda i: f"a{i}" if i % 2 else None, lambda i: f"b{i}" if i % 2 else None, 0, None, "null together", 0, N),
    (
        lambda i: f"a{i}" if i % 2 else None,
        lambda i: f"b{i}" if i % 2 else None,
        4,
        lambda i: "x",
        "null together",
        2,
        N,
    ),
    (lambda i: i % 10, lambda i: WORDS[i % 10 % 3], 0, None, "determines", 0, N),
    (lambda i: i % 10, lambda i: WORDS[i % 10 % 3], 10, lambda i: "new", "determines", 10, N),
]


@pytest.mark.parametrize(("a", "b", "wrong", "bad", "relation", "exceptions", "rows"), RELATIONS)
def test_a_relation_is_found_with_its_exact_exceptions(a, b, wrong, bad, relation, exceptions, rows):
    found = pair(a, b, wrong, bad)
    assert [(row["relation"], row["exceptions"], row["rows"]) for row in found] == [(relation, exceptions, rows)]


UNRELATED = [  # columns a and b that a careless audit would call related
    (lambda i: i, str),  # 1 and "1"
    (lambda i: i % 2, lambda i: i % 2 == 1 if i % 3 else None),  # 1 and True, and nulls of its own
    (lambda i: i == 3, lambda i: i == 4),  # nearly constant, both mostly false
    (lambda i: f"key{i}", lambda i: WORDS[i % 3]),  # a key determines everything
    (lambda i: f"key{i}", lambda i: f"other{i}"),  # two keys map onto each other
    (lambda i: i * i, lambda i: i),  # no line
    (lambda i: None if i == 3 else f"a{i}", lambda i: None if i == 5 else f"b{i}"),  # nearly never null
    (lambda i: i % 10 * 7919 % 10, lambda i: i * i % 7),
]


@pytest.mark.parametrize(("a", "b"), UNRELATED)
def test_no_relation_is_made_of_chance(a, b):
    found = [row for row in pair(a, b) if row["relation"] != "equal after mapping" or row["exceptions"]]
    assert found == []


def test_above_the_share_nothing_is_reported():
    assert pair(lambda i: f"t{i}", lambda i: f"t{i}", 10, lambda i: "x")[0]["exceptions"] == 10
    assert pair(lambda i: f"t{i}", lambda i: f"t{i}", 11, lambda i: "x") == []


def test_the_line_and_the_direction_are_named():
    assert pair(lambda i: i, lambda i: 3 * i - 7)[0]["how"] == "b = 3*a + -7"
    assert pair(lambda i: WORDS[i % 6 % 3], lambda i: i % 6)[0] | {"rows": 0} == {
        "a": "b",
        "b": "a",
        "relation": "determines",
        "exceptions": 0,
        "rows": 0,
    }
    assert pair(lambda i: i % 3 == 0, lambda i: None if i % 3 else "x" + str(i))[0]["how"] == "a is false"


def test_empty_constant_and_one_value_with_nulls_are_told_apart():
    rows = [{"none": None, "one": 5, "some": 5 if i else None, "more": i, "text": "x" * 100} for i in range(9)]
    result = table(rows).result("p.")
    assert result["empty"] == ["p.none"]
    assert result["constant"] == [{"name": "p.one", "value": 5}, {"name": "p.text", "value": "x" * 79 + "…"}]
    assert result["single"] == [{"name": "p.some", "value": 5, "nulls": 1}]
    assert table([]).result() == {"rows": 0, "empty": [], "constant": [], "single": [], "duplicate": [], "beyond": 0}


def test_a_column_that_comes_late_was_null_before(monkeypatch):
    monkeypatch.setattr(columns, "BATCH", 50)
    rows = [{"a": i % 2 == 0} | ({"late": WORDS[i % 3]} if i >= 400 else {}) for i in range(N)]
    assert table(rows).result() == table({"late": None} | row for row in rows).result()
    assert table(rows).result()["duplicate"] == []


def test_more_pairs_of_values_than_are_counted_are_said_and_whole_numbers_still_compared():
    rows = [{"a": i, "b": 5 * i + 1, "c": i * i, "t": f"x{i}"} for i in range(CAP + 10)]
    result = table(rows).result()
    assert [(row["a"], row["b"], row["how"]) for row in result["duplicate"]] == [("a", "b", "b = 5*a + 1")]
    assert result["beyond"] == 6
    rows[77]["b"] += 1  # without the joint counts a line is exact or it is not found
    assert table(rows).result()["duplicate"] == []


def test_memory_does_not_grow_with_the_rows(monkeypatch):
    monkeypatch.setattr(columns, "BATCH", 2000)
    out = Table()
    sizes = []
    for i in range(30000):
        out.add({"a": i, "b": str(i), "c": i % 7, "d": i * 3})
        if i in (9999, 29999):
            out.flush()
            pairs = sum(len(joint[0]) for joint in out._joint.values() if joint is not None)
            sizes.append((pairs, sum(len(column.values) for column in out._columns)))
    assert sizes[0] == sizes[1]


SCALARS = st.sampled_from([None, True, False, 0, 1, 2, 1.0, 2.5, "x", "1", "", -0.0, float("inf"), 1 << 70])
ROWS = st.lists(st.dictionaries(st.sampled_from("abcd"), SCALARS), max_size=60)


def _same(x, y):
    if x is None or y is None or isinstance(x, bool) != isinstance(y, bool):
        return x is None and y is None
    return x == y


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(ROWS, min_size=1, max_size=4), batch=st.integers(1, 40))
def test_parts_in_any_order_and_batch_give_the_result_of_the_whole(parts, batch):
    whole = table(row for part in parts for row in part).result()
    before, columns.BATCH = columns.BATCH, batch
    try:
        ahead, behind = table([]), table([])
        for part in parts:
            ahead.merge(table(part))
        for part in reversed(parts):
            other = table(part)
            other.merge(behind)
            behind = other
    finally:
        columns.BATCH = before
    strip = {"constant": None, "single": None}  # 1 and 1.0 are one value, either may be shown
    for result in (ahead.result(), behind.result()):
        assert result | strip == whole | strip
        assert [row["name"] for row in result["constant"]] == [row["name"] for row in whole["constant"]]


@settings(max_examples=60, deadline=None)
@given(rows=ROWS)
def test_equality_and_nulls_against_rows_that_are_kept(rows):
    result = table(rows).result()
    names = {name for row in rows for name in row}
    assert set(result["empty"]) == {name for name in names if all(row.get(name) is None for row in rows)}
    told = {(row["a"], row["b"]): row for row in result["duplicate"] if row["relation"] == "equal"}
    for a, b in combinations(sorted(names), 2):
        either = [row for row in rows if row.get(a) is not None or row.get(b) is not None]
        wrong = sum(not _same(row.get(a), row.get(b)) for row in either)
        if (a, b) in told:
            assert (told[a, b]["exceptions"], told[a, b]["rows"]) == (wrong, len(either))
        elif either and not wrong:
            settled = {*result["empty"], *(row["name"] for row in result["constant"])}
            assert {a, b} & settled


def test_determination_against_rows_that_are_kept():
    draw = random.Random(5)
    rows = [{"a": draw.randrange(12), "b": 0} for _ in range(3000)]
    for row in rows:
        row["b"] = WORDS[row["a"] % 3] if draw.random() > 0.01 else WORDS[draw.randrange(3)]
    groups = {}
    for row in rows:
        groups.setdefault(row["a"], []).append(row["b"])
    wrong = sum(len(group) - max(map(group.count, WORDS)) for group in groups.values())
    (found,) = table(rows).result()["duplicate"]
    assert (found["relation"], found["exceptions"]) == ("determines", wrong) and wrong > 0


def run(k):
    """Ten steps; the seed's defects: an index given twice, a verdict and its check, one label that disagrees."""
    steps = []
    for i in range(10):
        failed = (k + i) % 3 == 0
        outcome = Outcome(
            state="measured", why="", passed=not failed, failing_check=f"t{k}" if failed and i < 9 else None
        )
        signals = {"decision_index": i, "blocking": failed, "parent": i - 1 if i else None, "is_revert": False}
        steps.append(Step(index=i, text=f"{k} {i}", outcome=outcome, signals=signals, tokens=Tokens(input=i * 10)))
    header = Header(run_id=f"r{k}", n_steps=10, api_calls=10 + k, cost=None, source={"bytes": k})
    return Run(header, tuple(steps))


def test_the_defects_of_the_seed_in_runs():
    fold, parts = Columns(), [Columns(), Columns()]
    for k in range(90):
        fold.add(run(k))
        parts[k % 2].add(run(k))
    result = fold.result()
    parts[1].merge(parts[0])
    assert parts[1].result() == result
    found = {(row["a"], row["b"]): row for row in result["duplicate"]}
    assert result["rows"] == {"steps": 900, "headers": 90}
    assert found["index", "signals.decision_index"]["relation"] == "equal"
    assert found["outcome.passed", "signals.blocking"]["relation"] == "negation"
    assert found["index", "tokens.input"]["how"] == "tokens.input = 10*index + 0"
    assert found["index", "signals.parent"]["relation"] == "equal after mapping"
    assert ("outcome.failing_check", "outcome.passed") not in found  # 30 last steps of 900 break it, above the share
    assert found["header.api_calls", "header.source.bytes"]["how"] == "header.source.bytes = 1*header.api_calls + -10"
    assert {"name": "signals.is_revert", "value": False} in result["constant"]
    assert {"name": "header.n_steps", "value": 10} in result["constant"]
    assert "cost" in result["empty"] and "header.cost" in result["empty"]


def test_the_columns_of_the_schema_are_scalars():
    for row in (flat(run(1).steps[3]), columns.header_row(run(1).header)):
        assert all(value is None or isinstance(value, bool | int | float | str) for value in row.values())


@pytest.mark.real
def test_the_400_real_runs(tmp_path_factory):
    """The columns that nothing fills are named, calls are steps, and two halves merge into the same."""
    fold, halves = Columns(), [Columns(), Columns()]
    for place, item in enumerate(runs_400(tmp_path_factory)):
        fold.add(item)
        halves[place % 2].add(item)
    result = fold.result()
    halves[0].merge(halves[1])
    assert halves[0].result() == result
    assert result["rows"] == {"steps": 16214, "headers": 400}
    assert {"tokens.cache_write", "outcome.passed", "header.licence"} <= set(result["empty"])
    assert {"name": "header.scaffold", "value": "mini-swe-agent"} in result["constant"]
    assert {"name": "tool", "value": "bash", "nulls": 554} in result["single"]
    found = {(row["a"], row["b"]): (row["relation"], row["exceptions"]) for row in result["duplicate"]}
    assert found["header.api_calls", "header.n_steps"] == ("equal", 0)
    assert found["exit_code", "result"] == ("null together", 15)
