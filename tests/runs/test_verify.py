"""Consistency: one planted fault a row, and the rule that must name it; every rule has a row."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from traceaudit.errors import NothingToCheck
from traceaudit.runs import files, manifest, toy, verify
from traceaudit.runs.attacks import rebuild
from traceaudit.runs.schema import Outcome, Run, Tokens

OTHER = "0" * 64


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    toy.toy_corpus(tmp_path)
    rebuild(tmp_path)
    return tmp_path


def first(folder: Path) -> Path:
    return manifest.run_files(folder)[0]


def read(path: Path) -> Run:
    run = files.read_run(path, [])
    assert run is not None
    return run


def write(path: Path, run: Run) -> None:
    """The run as it is, in the file that it had."""
    path.write_bytes(files.run_bytes(run))


def header(**changes):
    """Edit header fields and let everything that covers them follow."""

    def edit(folder: Path) -> None:
        run = read(first(folder))
        write(first(folder), Run(replace(run.header, **changes), run.steps))
        rebuild(folder)

    return edit


def step(at: int, seal: bool = True, **changes):
    """Edit one step and let digest and manifest follow."""

    def edit(folder: Path) -> None:
        run = read(first(folder))
        steps = list(run.steps)
        steps[at] = replace(steps[at], **changes)
        changed = Run(run.header, tuple(steps))
        if seal:
            digest = manifest.content_digest(changed.steps)
            changed = Run(replace(run.header, content_sha256=digest), changed.steps)
        write(first(folder), changed)
        rebuild(folder)

    return edit


def outcome(index: int, **changes):
    def edit(folder: Path) -> None:
        step(index, outcome=replace(read(first(folder)).steps[index].outcome, **changes))(folder)

    return edit


def pairing(folder: Path) -> None:
    call = read(first(folder)).steps[0].calls[0]
    step(0, calls=(replace(call, paired="none"),))(folder)


def torn(folder: Path) -> None:
    first(folder).write_bytes(first(folder).read_bytes()[:-40])
    rebuild(folder)


def blank_line(folder: Path) -> None:
    first(folder).write_bytes(first(folder).read_bytes() + b"\n")
    rebuild(folder)


def renamed(folder: Path) -> None:
    first(folder).rename(folder / "another.jsonl")
    rebuild(folder)


def twice(folder: Path) -> None:
    (folder / "another.jsonl").write_bytes(first(folder).read_bytes())
    rebuild(folder)


def repeated(folder: Path) -> None:
    run = read(first(folder))
    files.write_run(Run(replace(run.header, run_id=run.header.run_id + "__2"), run.steps), folder)
    rebuild(folder)


def fewer_steps(folder: Path) -> None:
    run = read(first(folder))
    write(first(folder), Run(run.header, run.steps[:-1]))
    rebuild(folder)


def no_manifest(folder: Path) -> None:
    (folder / manifest.MANIFEST).unlink()


def spaced_manifest(folder: Path) -> None:
    path = folder / manifest.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text())))


def unlisted(folder: Path) -> None:
    (folder / "notes.txt").write_text("new")


def orphan(folder: Path) -> None:
    first(folder).unlink()


def other_report(folder: Path) -> None:
    next((folder / "labels").iterdir()).write_text("{}")


def entry(**changes):
    """Edit what the manifest says of the first run."""

    def edit(folder: Path) -> None:
        entries = manifest.load_manifest(folder / manifest.MANIFEST)
        at = next(i for i, row in enumerate(entries) if row.run_id)
        entries[at] = replace(entries[at], **changes)
        (folder / manifest.MANIFEST).write_bytes(manifest.manifest_bytes(entries))

    return edit


def unmeasured_end(folder: Path) -> None:
    step(-1, outcome=Outcome(why="state not observed"))(folder)


def no_instrument(folder: Path) -> None:
    run = read(first(folder))
    for index in range(len(run.steps)):
        outcome(index, instrument=None)(folder)


FAULTS = [
    ("file.unreadable", torn),
    ("file.form", blank_line),
    ("file.name", renamed),
    ("run.duplicate", twice),
    ("content.missing", header(content_sha256="")),
    ("content.mismatch", step(0, seal=False, text="edited")),  # the seed's hand-edited step
    ("content.repeated", repeated),
    ("n_steps.mismatch", fewer_steps),
    ("n_steps.mismatch", header(n_steps=99)),
    ("step.index", step(1, index=7)),
    ("step.number", step(0, cost=-1.0)),
    ("step.number", step(0, tokens=Tokens(output=-3))),
    ("step.time", step(0, time="yesterday")),
    ("step.time", step(-1, time="2001-01-01T00:00:00+00:00")),  # earlier than the step before
    ("step.pairing", pairing),
    ("outcome.contradiction", outcome(-1, passed=True, failing_check="t::a")),  # success with a failing check
    ("outcome.contradiction", outcome(0, why="never graded")),  # measured, and a reason for not being
    ("instrument.missing", outcome(0, instrument=None)),
    ("instrument.mismatch", outcome(0, instrument=OTHER)),
    ("instrument.unused", no_instrument),
    ("label.terminal", header(resolved=True)),  # the first toy run failed
    ("label.unmeasured", unmeasured_end),
    ("label.unmeasured", header(resolved=None, resolved_by="")),
    ("label.source", header(resolved_by="")),
    ("captures.count", header(captures=10**6)),
    ("captures.count", header(captures=-1)),
    ("captures.none", header(captures=0)),
    ("header.id", header(instance_id="toy__other-9")),
    ("header.id", header(model="model-b")),
    ("header.format", header(instrument="no digest")),
    ("header.format", header(captured_at="yesterday")),
    ("header.format", header(cost=-1.0)),
    ("header.cost", header(cost=9.0)),
    ("header.captured_at", header(captured_at="2024-12-31T00:00:00+00:00")),
    ("manifest.missing", no_manifest),
    ("manifest.unreadable", spaced_manifest),
    ("manifest.unlisted", unlisted),
    ("manifest.orphan", orphan),
    ("manifest.hash", entry(sha256=OTHER)),
    ("manifest.hash", other_report),  # files beside the runs are covered too
    ("manifest.content", entry(content=OTHER)),
    ("manifest.label", entry(label=True)),
    ("manifest.header", entry(header=OTHER)),
    ("manifest.run_id", entry(run_id="another")),
    ("manifest.count", entry(n_steps=1)),
    ("manifest.count", entry(captures=None)),
]


def test_intact_corpus_has_no_problem(corpus: Path) -> None:
    assert verify.verify(corpus) == []


@pytest.mark.parametrize(("rule", "plant"), FAULTS, ids=[f"{i}-{rule}" for i, (rule, _) in enumerate(FAULTS)])
def test_planted_fault_is_named_by_its_rule(corpus: Path, rule: str, plant) -> None:
    plant(corpus)
    found = verify.verify(corpus)
    assert rule in verify.summary(found), [str(problem) for problem in found]
    assert {problem.rule for problem in found} <= set(verify.RULES)


def test_header_of_another_version_is_reported(corpus: Path) -> None:
    """The reader refuses such a file; a run in memory is told by the rule."""
    run = read(first(corpus))
    problems = verify.check_run(Run(replace(run.header, schema="2"), run.steps), first(corpus).name)
    assert [problem.rule for problem in problems] == ["header.schema"]


def test_every_rule_has_a_row() -> None:
    assert {rule for rule, _ in FAULTS} | {"header.schema"} == set(verify.RULES)


def test_bad_file_hides_no_other(corpus: Path) -> None:
    paths = manifest.run_files(corpus)
    paths[0].write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    paths[1].write_bytes(b"\xff\xfe")
    run = read(paths[2])
    write(paths[2], Run(replace(run.header, n_steps=99), run.steps))
    found = verify.verify(corpus)
    assert {p.run_id for p in found if p.rule == "file.unreadable"} == {path.name for path in paths[:2]}
    assert [p.run_id for p in found if p.rule == "n_steps.mismatch"] == [run.header.run_id]


def test_manifest_from_elsewhere_is_compared(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    published = tmp_path_factory.mktemp("elsewhere") / "manifest.json"
    published.write_bytes((corpus / manifest.MANIFEST).read_bytes())
    header(licence="MIT-0")(corpus)
    assert verify.verify(corpus) == []
    assert verify.summary(verify.verify(corpus, manifest=published)) == {"manifest.hash": 1, "manifest.header": 1}


def test_every_header_field_is_covered(corpus: Path) -> None:
    """The seed's manifest binds the label alone; here a change of any field has another digest."""
    run = read(first(corpus))
    before = manifest.header_digest(run.header)
    values = {int: 12345, float: 0.5, str: "changed", bool: True, dict: {"a": 1}}
    for field in msgspec.structs.fields(type(run.header)):
        value = getattr(run.header, field.name)
        changed = "changed" if value is None else not value if isinstance(value, bool) else values[type(value)]
        assert manifest.header_digest(replace(run.header, **{field.name: changed})) != before, field.name


@pytest.mark.parametrize("make", [Path, lambda path: path / "absent"], ids=["empty", "absent"])
def test_nothing_to_check(tmp_path: Path, make) -> None:
    with pytest.raises(NothingToCheck):
        verify.verify(make(tmp_path))
