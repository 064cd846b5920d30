"""The card: one structure whatever the order, the partition and the engine, and every bad file counted in it."""

from __future__ import annotations

import json
import random
import sys
import tracemalloc
from functools import cache

import msgspec
import pytest

from traceaudit.errors import NothingToCheck, UsageError
from traceaudit.runs.card import SHOWN, CardFold, card, card_dask
from traceaudit.runs.files import POINTER, write_run
from traceaudit.runs.issues import Issue
from traceaudit.runs.normalize import normalize
from traceaudit.runs.schema import Call, Header, Outcome, Run, Step

from ..conftest import REAL
from . import real_400

RED = Outcome(state="measured", why="", passed=False, failing_check="t")
NEEDED = (
    *("trajectories", "steps", "instances", "repositories", "models", "arms", "stamped", "unstamped", "median_steps"),
    *("min_steps", "max_steps", "terminal_failure_rate", "terminal_failure_rate_stamped", "per_model", "columns"),
    *("digest", "coverage", "licences", "secrets", "issues", "formats", "not_measured"),
)


def run(at: int, length: int = 0) -> Run:
    outcomes = [RED if at % 3 and place < at % 5 else Outcome() for place in range(length or 2 + at % 5)]
    header = Header(
        run_id=f"a__b-{at}__m{at % 4}__x", n_steps=len(outcomes), instance_id=f"a__b-{at % 7}", model=f"m{at % 4}",
        arm="x", resolved=None if at % 11 == 0 else at % 2 == 0, licence="MIT" if at % 6 == 0 else None,
    )  # fmt: skip
    token = "ghp_" + "".join(random.Random(at).choices("abcdefghijkLMNOPQRS0123456789", k=34)) + "x9"
    calls = [
        Call(tool="bash", arguments=f"ls {at % 3}", result=token if (at, p) == (5, 0) else f"{at} {p}")
        for p in range(9)
    ]
    steps = (
        Step(index=place, calls=(calls[place % 9],), outcome=outcome, signals={"n": place * 2, "k": at % 2 == 0})
        for place, outcome in enumerate(outcomes)
    )
    return Run(header, tuple(steps))


RUNS = [run(at) for at in range(40)]


@cache
def whole() -> str:
    return json.dumps(card(RUNS))


@pytest.fixture(name="folder")
def _folder(tmp_path):
    for one in RUNS:
        write_run(one, tmp_path)
    return tmp_path


def test_the_card_has_the_keys_that_were_asked_for_and_is_plain_json():
    made = json.loads(whole())
    assert [name for name in NEEDED if name not in made] == []
    assert {"empty", "constant", "duplicate"} <= made["columns"].keys()
    assert made == card(RUNS)
    assert made["trajectories"] == 40 and made["secrets"]["hits"] == 1 and made["licences"]["with"] == 7


@pytest.mark.parametrize("seed", range(12))
def test_any_order_and_partition_gives_the_same_card(seed):
    draw = random.Random(seed)
    folds = [CardFold() for _ in range(draw.randrange(1, 9))]
    for one in draw.sample(RUNS, len(RUNS)):
        draw.choice(folds).add(one)
    while len(folds) > 1:  # any tree of merges
        one = folds.pop(draw.randrange(len(folds)))
        other = folds.pop(draw.randrange(len(folds)))
        before = json.dumps(other.result())
        one.merge(other)
        assert json.dumps(other.result()) == before
        folds.append(one)
    assert json.dumps(folds[0].result()) == whole()


def test_a_folder_gives_the_card_of_its_runs(folder):
    made = card(folder)
    assert made.pop("files") == {"read": 40, "unread": 0}
    runs = json.loads(whole())
    assert runs.pop("files") == {"read": 0, "unread": 0}
    assert made == runs


@pytest.mark.parametrize("change", ["label", "text", "gone"])
def test_the_digest_moves_with_the_data(change):
    one = RUNS[3]
    changed = {
        "label": [Run(msgspec.structs.replace(one.header, resolved=not one.header.resolved), one.steps)],
        "text": [Run(one.header, (msgspec.structs.replace(one.steps[0], text="x"), *one.steps[1:]))],
        "gone": [],
    }[change]
    assert card([*RUNS[:3], *changed, *RUNS[4:]])["digest"] != json.loads(whole())["digest"]


BAD = {  # a file beside the good ones -> its content, the issue
    "pointer.jsonl": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", POINTER),
    "empty.jsonl": (b"", "the file is empty"),
    "torn.jsonl": (b'{"run_id":', "the line is torn"),
    "repr.jsonl": (b"{'run_id': None}\n", "this is not JSON"),
    "packed.jsonl.gz": (b"no gzip", "the packed file is damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_counted_and_hides_no_other(folder, name):
    content, what = BAD[name]
    (folder / name).write_bytes(content)
    made = card(folder)
    assert made["trajectories"] == 40 and made["files"] == {"read": 40, "unread": 1}
    assert what in made["issues"] and name in {row["file"] for row in made["details"]}
    assert made["digest"] == json.loads(whole())["digest"]


def test_issues_are_counted_all_and_shown_in_part_whatever_the_partition():
    issues = [Issue(f"f{at:04d}", f"kind {at % 3}", at or None) for at in range(3 * SHOWN)]
    made = []
    for seed in range(3):
        parts = [CardFold(secrets=False) for _ in range(4)]
        draw = random.Random(seed)
        for issue in draw.sample(issues, len(issues)):
            draw.choice(parts).add_issues([issue])
        first = parts.pop()
        for part in parts:
            first.merge(part)
        made.append(first.result())
    assert made[0] == made[1] == made[2]
    assert made[0]["issues"] == {f"kind {kind}": SHOWN for kind in range(3)}
    assert [row["file"] for row in made[0]["details"]] == [f"f{at:04d}" for at in range(SHOWN)]


def test_without_a_sweep_the_card_says_so_and_the_rest_is_the_same():
    made, full = card(RUNS, secrets=False), json.loads(whole())
    assert made["secrets"] is None and full["secrets"] is not None
    assert made | {"secrets": 0} == full | {"secrets": 0}
    with pytest.raises(UsageError, match="swept"):
        CardFold(secrets=False).merge(CardFold())


def test_a_folder_without_runs_gives_zeros_and_no_folder_is_nothing_to_check(tmp_path):
    made = card(tmp_path)
    assert made["trajectories"] == 0 and made["terminal_failure_rate"] is None and made["per_model"] == []
    for engine in (card, card_dask):
        with pytest.raises(NothingToCheck, match="no such folder"):
            engine(tmp_path / "absent")
    assert made == card_dask(tmp_path)


@pytest.mark.parametrize("partition", [1, 7, 100])
def test_dask_gives_the_same_card(folder, partition):
    pytest.importorskip("dask", reason="dask is not installed (the extra dask)")
    (folder / "pointer.jsonl").write_bytes(BAD["pointer.jsonl"][0])
    scheduler = "synchronous" if partition < 100 else None  # None: dask's own processes
    assert json.dumps(card_dask(folder, partition=partition, scheduler=scheduler)) == json.dumps(card(folder))


def test_dask_refuses_a_partition_of_nothing(folder):
    pytest.importorskip("dask", reason="dask is not installed (the extra dask)")
    with pytest.raises(UsageError, match="at least one file"):
        card_dask(folder, partition=0)


def test_without_dask_the_engine_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    monkeypatch.setitem(sys.modules, "dask.bag", None)
    with pytest.raises(UsageError, match="dask"):
        card_dask(folder)


def _peak(runs: int) -> int:
    tracemalloc.start()
    try:
        card((run(at % 50, 30) for at in range(runs)), secrets=False)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_runs():
    assert _peak(1200) < 1.2 * _peak(400)  # both above one batch of the column audit


@pytest.mark.real
def test_the_400_real_runs(tmp_path_factory, tmp_path):
    source = real_400(tmp_path_factory)
    normalize(source / "trajs", tmp_path, labels=source / "logs")
    made = card(tmp_path)
    census = ("trajectories", "steps", "instances", "repositories", "median_steps", "min_steps", "max_steps")
    assert [made[name] for name in census] == [400, 16_214, 400, 12, 36, 13, 145]
    assert (made["terminal_failures"], made["terminal_failure_rate"], made["unlabelled"]) == (103, 103 / 400, 0)
    assert (made["stamped"], made["terminal_failure_rate_stamped"]) == (0, None)
    assert made["not_measured"] == [{"why": "never graded", "steps": 16_214, "runs": 400}]
    assert made["coverage"]["drop_by_outcome"]["not_measured"] == "no labelled run is stamped"
    assert made["issues"] == {} and made["secrets"]["hits"] == 0 and made["licences"]["with"] == 0


@pytest.mark.real
def test_the_small_real_files_of_every_format(tmp_path):
    folder = REAL / "trajectories"
    if not folder.is_dir():
        pytest.skip("the real trajectories are not beside this repository (../shared/data/trajectories)")
    summary = normalize(folder, tmp_path)
    made = card(tmp_path)
    assert made["trajectories"] == summary.runs > 10 and made["steps"] == summary.steps
    assert sum(made["formats"].values()) == made["trajectories"] and len(made["formats"]) >= 4
    assert made["files"] == {"read": summary.runs, "unread": 0}
