"""Forgeries against layers: what each layer sees of each forgery is pinned, and so is what it cannot see."""

from __future__ import annotations

import hashlib
import random
import shutil
from pathlib import Path

import pytest

from traceaudit.errors import NothingToCheck, UsageError
from traceaudit.runs import attacks, files, layers, manifest, toy, verify

ORDER = ["consistency", "seed_digest", "corpus_digest", "signed_chain", "remembered_head", "reexecution"]
# X caught, . not seen; the columns are ORDER; for the consistency layer the rule that sees it
EXPECTED = {
    "flip_outcome": (". . X X X X", ""),
    "restamp_all": (". . X X X X", ""),
    "append_failing": (". . X X X .", ""),
    "flip_label": ("X . X X X X", "label.terminal"),
    "relabel": (". . X X X X", ""),
    "swap_models": (". . X X X .", ""),
    "delete_run": (". X X X X .", ""),
    "delete_file": ("X X X X X .", "manifest.orphan"),
    "duplicate": ("X X X X X .", "content.repeated"),
    "duplicate_disguised": (". X X X X .", ""),
    "invent_run": (". X X X X X", ""),
    "replay_old": (". X X X X .", ""),
    "roll_back": (". X X . X .", ""),
    "truncate": (". . X X X .", ""),
    "edit_header": (". . X X X .", ""),
    "edit_manifest": ("X . . X X .", "manifest.label"),
    "edit_exit_codes": (". . X X X .", ""),
    "edit_report": (". . . X X .", ""),
    "rename_file": ("X . . X X .", "file.name"),
    "resign": (". . X X X X", ""),
    "drop_chain": (". . X X X X", ""),
    "cut_chain": (". X X X X .", ""),
}


def digest(folder: Path) -> dict[str, str]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy") / "corpus"
    toy.toy_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def attacked(source: Path) -> tuple[Path, dict[str, dict]]:
    before = digest(source)
    target = source.parent / "out"
    rows = layers.attack_corpus(source, target, replay=toy.replay)
    assert digest(source) == before  # the corpus itself is never touched
    return target, {row["attack"]: row for row in rows}


def test_there_are_the_seeds_four_and_eight_more() -> None:
    assert [attack.id for attack in attacks.ATTACKS if attack.of_seed] == [
        "flip_outcome",
        "restamp_all",
        "append_failing",
        "flip_label",
    ]
    assert len(attacks.ATTACKS) >= 12
    assert list(EXPECTED) == [attack.id for attack in attacks.ATTACKS]
    assert [layer.id for layer in layers.LAYERS] == ORDER
    assert all("cannot testify" in layer.cannot for layer in layers.LAYERS)


@pytest.mark.parametrize("name", EXPECTED)
def test_layers_see_what_they_can(attacked, name: str) -> None:
    row = attacked[1][name]
    assert list(row["layers"]) == ORDER, row["did"]
    seen = " ".join("X" if layer["caught"] else "." for layer in row["layers"].values())
    assert (seen, row["layers"]["consistency"]["by"]) == EXPECTED[name], row


@pytest.mark.parametrize("name", EXPECTED)
def test_attack_changes_the_corpus(attacked, name: str) -> None:
    target, _ = attacked
    assert digest(target / name) != digest(target / "corpus")


def test_unforged_corpus_is_caught_by_no_layer(attacked) -> None:
    target, _ = attacked
    published = layers.publish(
        target / "corpus",
        layers.Ed25519PrivateKey.from_private_bytes(random.Random("collector:0").randbytes(32)).public_key(),
    )
    assert published.problems == frozenset()
    rows = layers.detect(target / "corpus", published, replay=toy.replay)
    assert [row.caught for row in rows] == [False] * len(ORDER), rows
    assert rows[-1].chance == 0.0


@pytest.mark.parametrize("seed", [1, 2])
def test_another_draw_gives_the_same_table(source: Path, tmp_path: Path, seed: int) -> None:
    """What is caught follows from the kind of forgery, not from the run that it met."""
    rows = layers.attack_corpus(source, tmp_path / "out", replay=toy.replay, seed=seed, keep=False)
    seen = {
        row["attack"]: " ".join("X" if layer["caught"] else "." for layer in row["layers"].values()) for row in rows
    }
    assert seen == {name: expected for name, (expected, _) in EXPECTED.items()}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["corpus", "past"]


def test_same_seed_forges_the_same(source: Path, attacked, tmp_path: Path) -> None:
    rows = layers.attack_corpus(source, tmp_path / "out", replay=toy.replay)
    assert rows == list(attacked[1].values())
    assert digest(tmp_path / "out") == digest(attacked[0])


def test_seeds_third_forgery_appends_500(attacked) -> None:
    target, _ = attacked
    steps = {path.name: len(path.read_bytes().splitlines()) for path in manifest.run_files(target / "append_failing")}
    before = {path.name: len(path.read_bytes().splitlines()) for path in manifest.run_files(target / "corpus")}
    assert [steps[name] - before[name] for name in steps if steps[name] != before[name]] == [500]


def test_restamping_leaves_no_failure(attacked) -> None:
    for run in files.iter_runs(attacked[0] / "restamp_all", []):
        assert run.header.resolved and all(step.outcome.passed for step in run.steps)


def test_forged_runs_read_without_an_issue(attacked) -> None:
    """A forger that leaves a malformed file is not a careful one; renaming leaves the name alone."""
    for name in EXPECTED:
        issues: list = []
        list(files.iter_runs(attacked[0] / name, issues))
        assert not issues or name == "rename_file", (name, issues)


def test_without_key_or_replay_a_layer_says_so(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "c")
    attacks.rebuild(tmp_path / "c")
    rows = layers.detect(tmp_path / "c", layers.publish(tmp_path / "c"))
    assert {row.layer: row.by for row in rows if row.caught is None} == {
        "signed_chain": "nothing was signed",
        "remembered_head": "nothing was signed",
        "reexecution": "nothing can be replayed here",
    }
    assert layers.detect(tmp_path / "c", layers.publish(tmp_path / "c"), replay=lambda run: None)[-1].caught is None


def test_only_what_is_new_counts(source: Path, tmp_path: Path) -> None:
    """A corpus with a fault of its own: its fault is not a forgery, another one is."""
    shutil.copytree(source, tmp_path / "c")
    path = manifest.run_files(tmp_path / "c")[0]
    path.write_bytes(path.read_bytes() + b"\n")
    attacks.rebuild(tmp_path / "c")
    published = layers.publish(tmp_path / "c")
    assert {rule for rule, _ in published.problems} == {"file.form"}
    assert layers.detect(tmp_path / "c", published)[0].caught is False
    other = manifest.run_files(tmp_path / "c")[1]
    other.write_bytes(other.read_bytes() + b"\n")
    attacks.rebuild(tmp_path / "c")
    assert layers.detect(tmp_path / "c", published)[0].by == "file.form"


def test_attack_that_has_nothing_to_change(tmp_path: Path) -> None:
    """Ungraded runs: what needs a grade or a label is not made, and says so; the rest is."""
    for run in toy.toy_runs(graded=False):
        files.write_run(run, tmp_path / "c")
    rows = layers.attack_corpus(tmp_path / "c", tmp_path / "out", replay=toy.replay, keep=False)
    made = {row["attack"] for row in rows if row["layers"]}
    assert made == {
        "swap_models",
        "delete_run",
        "delete_file",
        "roll_back",
        "edit_header",
        "edit_manifest",
        "rename_file",
        "cut_chain",
    }
    assert all(row["did"].startswith("not made: ") for row in rows if not row["layers"])


def test_target_is_never_overwritten_nor_inside(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="overwritten"):
        layers.attack_corpus(source, tmp_path)
    with pytest.raises(UsageError, match="inside"):
        layers.attack_corpus(source, source / "out")
    files.write_run(toy.toy_runs()[0], tmp_path / "one")
    with pytest.raises(NothingToCheck):
        layers.attack_corpus(tmp_path / "one", tmp_path / "out")


def test_packed_corpus_is_attacked_too(source: Path, tmp_path: Path) -> None:
    import gzip

    for path in manifest.run_files(source):
        packed = tmp_path / "c" / f"{path.name}.gz"
        packed.parent.mkdir(exist_ok=True)
        packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    shutil.copytree(source / "labels", tmp_path / "c" / "labels")
    rows = layers.attack_corpus(tmp_path / "c", tmp_path / "out", replay=toy.replay)
    seen = {
        row["attack"]: " ".join("X" if layer["caught"] else "." for layer in row["layers"].values()) for row in rows
    }
    assert seen == {name: layer for name, (layer, _) in EXPECTED.items()}


@pytest.mark.real
def test_real_run_under_attack(tmp_path: Path) -> None:
    """Two real runs, normalized: every forgery that can be made of them shows in the signed chain or the head."""
    from tests.conftest import REAL
    from traceaudit.runs.normalize import normalize

    source = REAL / "trajectories" / "mini_swe_agent"
    if not source.is_dir():
        pytest.skip("the real trajectories are not beside this repository (../shared/data/trajectories)")
    normalize(source, tmp_path / "runs", labels=source / "labels", say=lambda line: None)
    known = verify.summary(verify.verify(tmp_path / "runs"))
    assert set(known) <= {"manifest.missing", "step.time"}
    rows = [row for row in layers.attack_corpus(tmp_path / "runs", tmp_path / "out") if row["layers"]]
    assert len(rows) >= 8
    for row in rows:
        assert row["layers"]["remembered_head"]["caught"], row
