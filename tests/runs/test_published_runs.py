"""The published figures: which agree with each other, which do not, and that a changed one is noticed."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import pytest

from traceaudit.errors import PinMismatch
from traceaudit.pins import sha256_hex
from traceaudit.runs.published import FILE, load, parse
from traceaudit.runs.published_checks import DERIVABLE, checks

from ..conftest import ROOT

BYTES = (ROOT / "data-pins" / FILE).read_bytes()
DATA = tomllib.loads(BYTES.decode("utf-8"))

DISAGREE = {  # id -> published, computed
    "drop_by_outcome": (105 / 1022, 72 / 407),
    "shipped_beats_base": (0.3653, 335 / 914),
    "capture_of_audited": (5.1, 100 * 1957 / 30541),
    "capture_heading": (6, 100 * 1957 / 38211),
    "capture_uncovered": (0, 200),
    "capture_classes": (1957, 1959),
    "capture_runs": (309, 310),
    "state_runs": (792, 917),
    "gate_instances": (200, 199),
    "gate_exit_code": (0, 38),
    "gate_psf": (5, 2),
    "card_repositories": (10, 12),
    "card_replay_rc": (0, 7243),
    "card_identical_columns": (0, 407),
    "card_digest": ("when any datum moves", "when counts or stamped runs' instances move"),
    "claim_auroc": (0.7103, 0.7312),
    "claim_base": (0.4177, 0.3653),
    "claim_null_top": (0.5492, 0.5432),
    "claim_lowest_share": (0.5161, 0.6774),
    "claim_last_rung": (36.8, 29.01),
    "claim_precision": (0.4177, 0.3665),
    "claim_rungs": (6, 7),
    "claim_rising": (4, 3),
    "claim_glm": (16, 21),
    "claim_qwen": (47, 51),
    "comment_runs": (799, 1022),
    "comment_steps": (29422, 38211),
}
AGREE = {  # id -> computed; a few of each kind, by hand
    "sum_trajectories": 272 + 200 + 284 + 111 + 59 + 65 + 31,
    "sum_stamped": 252 + 174 + 266 + 99 + 54 + 51 + 21,
    "sum_unstamped": 105,
    "sum_steps": 37189 + 1022,
    "sum_failed": 93 + 30 + 135 + 67 + 7 + 56 + 19,
    "share_terminal_failure_rate_stamped": 335 / 917,
    "share_drop_glm_5_2": 100 * 10 / 31,
    "op_auroc": 0.73116,
    "op_precision": 270 / 470,
    "op_lift": (270 / 470) / (335 / 917),
    "shipped_precision": 335 / 914,
    "ladder_p_floor": 1 / 2001,
    "rung_4_n": 266 + 252 + 54 + 99,
    "rung_7_retained": 266 / 917,
    "rung_7_delta": 0.6257 - 0.7312,
    "capture_of_all": 100 * 1957 / 38211,
    "capture_audited_steps": 30541,
    "capture_empties": 13829 - 11908 - 24,
    "gate_exit_sum": 37,
    "history_last_rung": 100 * 266 / 723,
    "history_lowest": 16 / 31,
    "history_probe": 863,
}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    rows = checks(parse(DATA))
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: row for row in rows}


def test_exactly_these_disagree(found: dict[str, Any]) -> None:
    assert {row.id for row in found.values() if not row.agrees} == set(DISAGREE)


@pytest.mark.parametrize("id", sorted(DISAGREE))
def test_a_disagreement_has_both_numbers(found: dict[str, Any], id: str) -> None:
    published, computed = DISAGREE[id]
    row = found[id]
    if isinstance(published, str):
        assert (row.published, row.computed) == (published, computed)
    else:
        assert (row.published, row.computed) == (pytest.approx(published), pytest.approx(computed))
    assert row.note and row.says


@pytest.mark.parametrize("id", sorted(AGREE))
def test_an_agreement_was_computed(found: dict[str, Any], id: str) -> None:
    assert found[id].agrees
    assert found[id].computed == pytest.approx(AGREE[id], abs=5e-6)


def test_the_note_says_who_was_dropped(found: dict[str, Any]) -> None:
    note = found["drop_by_outcome"].note
    for part in ("72 of 105", "68.6 %", "72 of 407", "17.7 %", "33 of 615", "5.4 %"):
        assert part in note
    assert "6.4" in f"{found['capture_of_audited'].computed:.1f}" and "37.6 %" in found["capture_of_audited"].note


def test_expectations_are_told_from_printed_figures(found: dict[str, Any]) -> None:
    assert {row.id for row in found.values() if row.kind == "expectation"} == {
        "drop_by_outcome",
        "shipped_beats_base",
        "capture_uncovered",
        "state_runs",
        "gate_exit_code",
    }


@pytest.mark.parametrize(
    ("path", "value", "broken"),
    [
        (("census", "trajectories"), 1021, {"sum_trajectories", "sum_steps", "capture_audited_runs"}),
        (("census", "red_steps"), 22908, {"sum_red_steps"}),
        (("operating", "tp"), 271, {"op_fires", "op_stamped", "op_failed", "op_precision", "op_auroc"}),
        (("operating", "lift"), 1.5726, {"op_lift"}),
        (("ladder", "p"), 0.0006, {"ladder_p_floor"}),
        (("ladder", "rows", 3, 2), 672, {"rung_4_n", "rung_4_retained"}),
        (("ladder", "rows", 5, 5), -0.0126, {"rung_6_delta"}),
        (("per_model", "rows", 6, 2), 22, {"sum_stamped", "share_stamped_glm_5_2", "rung_1_share", "rung_1_n"}),
        (("per_model", "rows", 0, 7), 0.3452, {"share_failed_deepseek_v4_flash", "sum_failed"}),
        (("as_shipped", "precision"), 0.3653, {"shipped_precision"}),
        (("admissibility", "admissible"), 191, {"gate_sum"}),
        (("capture", "orphans_in_losses"), 23, {"capture_empties"}),
    ],
)
def test_a_changed_figure_breaks_its_checks(path: tuple, value: float, broken: set[str]) -> None:
    data = copy.deepcopy(DATA)
    table = data
    for key in path[:-1]:
        table = table[key]
    assert table[path[-1]] != value
    table[path[-1]] = value
    failing = {row.id for row in checks(parse(data)) if not row.agrees}
    assert broken <= failing - set(DISAGREE)


def folder(tmp_path: Any, data: bytes, digest: str) -> Any:
    (tmp_path / FILE).write_bytes(data)
    (tmp_path / "committed.toml").write_text(f'[sha256]\n"{FILE}" = "{digest}"\n', encoding="utf-8")
    return tmp_path


def test_load_is_held_to_its_digest(tmp_path: Any) -> None:
    good = load(folder(tmp_path, BYTES, sha256_hex(BYTES)))
    assert good.source_of("census").path.endswith("metrics.json") and len(good.rungs) == 7
    assert [row.runs for row in good.generations] == [799, 822]
    with pytest.raises(PinMismatch):
        load(folder(tmp_path, BYTES + b"\n", sha256_hex(BYTES)))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("[operating]", "[other]"),
        lambda text: text.replace('source = "capture"', 'source = "nowhere"'),
        lambda text: text.replace("266, 0.937, 6.3", "266, 0.937"),
        lambda text: text.replace("rungs = 6", "rung = 6"),
        lambda text: text + "[",
    ],
)
def test_a_malformed_file_is_a_pin_mismatch(tmp_path: Any, change: Any) -> None:
    data = change(BYTES.decode("utf-8")).encode("utf-8")
    assert data != BYTES
    with pytest.raises(PinMismatch):
        load(folder(tmp_path, data, sha256_hex(data)))


def test_what_a_clone_cannot_recompute_is_named() -> None:
    assert {row.possible for row in DERIVABLE} == {True, False}
    assert len({row.figure for row in DERIVABLE}) == len(DERIVABLE)
