"""Building many chapters: only what changed, two at a time, everything or nothing, and nothing half-written."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from traceaudit import build as build_module
from traceaudit import execute as execute_module
from traceaudit import records, staging
from traceaudit.errors import (
    ChapterFailed,
    NothingToCheck,
    PinMismatch,
    RecordMismatch,
    TraceAuditError,
    UsageError,
    WorkerFailed,
)
from traceaudit.instances import Inputs, Instance, choose, load_chapters
from traceaudit.run import build, built_path, check, execute
from traceaudit.staging import Staging, clear_up, lock

NOTEBOOKS = Path(__file__).parent / "data" / "notebooks"
PARAMETERS = {"source": "", "engine": "independent"}
SPLITS = '\n[splits]\ndemo = "demo"\ngaia = "GAIA"\nall = ""\n'
CHAPTERS = """
[[chapter]]
name = "values"
title = "Values"
splits = ["demo", "gaia"]

[[chapter]]
name = "overview"
title = "Overview"
splits = ["all"]
page = "index.ipynb"
last = true
"""


def project(root: Path, chapters: str = CHAPTERS, **sources: str) -> Path:
    """A project of tiny chapters: name of the chapter -> notebook of tests/data."""
    sources = sources or {"values": "records-values", "overview": "counts-the-others"}
    for folder in ("chapters", "lib", "data-pins/records"):
        (root / folder).mkdir(parents=True)
    (root / "chapters" / "chapters.toml").write_text(chapters + SPLITS)
    (root / "lib" / "library.py").write_text("x = 1\n")
    (root / "data-pins" / "pins.toml").write_text("x = 1\n")
    (root / "requirements.lock").write_text("x==1\n")
    for name, notebook in sources.items():
        shutil.copy(NOTEBOOKS / f"{notebook}.ipynb", root / "chapters" / f"{name.replace('_', '-')}.ipynb")
    return root


def snapshot(root: Path) -> dict[str, str]:
    """Digest of every page, record and record of a run."""
    found = [
        p for pattern in ("*.ipynb", "report/*", "data-pins/**/*", ".traceaudit/built/*") for p in root.glob(pattern)
    ]
    return {p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in found if p.is_file()}


def leftovers(root: Path) -> list[str]:
    """What a build must not leave."""
    return [p.name for p in (root / ".traceaudit").iterdir() if p.name not in ("lock", "built", "matplotlib")]


@pytest.fixture(scope="module")
def font_cache(tmp_path_factory):
    """Made once; the tests are not about it."""
    place = tmp_path_factory.mktemp("matplotlib")
    execute_module.make_font_cache(place)
    return place


@pytest.fixture(scope="module")
def built(tmp_path_factory, font_cache):
    """A project that was built once, with records, and its report and progress lines."""
    root = project(tmp_path_factory.mktemp("built"))
    shutil.copytree(font_cache, root / ".traceaudit" / "matplotlib")
    lines: list[str] = []
    report = build(root, parameters=PARAMETERS, record=True, say=lines.append)
    return root, report, lines


@pytest.fixture
def copy(built, tmp_path):
    """A copy of the built project to change."""
    shutil.copytree(built[0], tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def no_kernels(monkeypatch):
    """Fail the test if a chapter is executed."""
    monkeypatch.setattr(
        build_module, "run_all", lambda root, chosen, *more: {} if not chosen else pytest.fail(str(chosen))
    )


def test_a_build_writes_pages_records_of_the_run_and_records(built):
    root, report, lines = built
    assert [str(i) for i in report.executed] == ["values demo", "values gaia", "overview all"]
    assert set(snapshot(root)) == {
        "index.ipynb",
        "report/values-demo.ipynb",
        "report/values-gaia.ipynb",
        "data-pins/pins.toml",
        "data-pins/records/digests.toml",
        *(f"data-pins/records/{name}.json" for name in ("overview.all", "values.demo", "values.gaia")),
        *(f".traceaudit/built/{name}.json" for name in ("overview.all", "values.demo", "values.gaia")),
    }
    assert not leftovers(root)
    assert sorted(line.split(":")[0].split("] ")[1] for line in lines) == ["overview all", "values demo", "values gaia"]
    assert lines[2].startswith("[3/3] overview all: executed in ")


def test_the_last_chapter_sees_the_records_of_all_others(built):
    values = records.load(built[0] / "data-pins/records/overview.all.json").values
    assert (values["records"].raw, values["fresh"].raw, values["errors"].raw) == (2, 2, 2468)


def test_the_record_of_a_run_has_the_record_and_the_modes(built):
    root = built[0]
    run = json.loads((root / ".traceaudit/built/values.demo.json").read_text())
    assert {v["mode"] for v in run["values"].values()} == {"measured"}
    page = (root / "report/values-demo.ipynb").read_bytes()
    assert run["build"]["page_sha256"] == hashlib.sha256(page).hexdigest()
    stored = records.load(root / "data-pins/records/values.demo.json")
    assert records.compare(stored, records.load(root / ".traceaudit/built/values.demo.json", modes=True)).equal


def test_nothing_changed_nothing_is_run(copy, no_kernels):
    before, lines = snapshot(copy), []
    report = build(copy, parameters=PARAMETERS, say=lines.append)
    assert not report.executed and len(report.unchanged) == 3
    assert "[1/3] values demo: unchanged" in lines
    assert snapshot(copy) == before  # new records alone made nothing stale either


def test_a_second_project_gives_the_same_bytes(built, tmp_path, font_cache):
    root = project(tmp_path / "another" / "place")
    shutil.copytree(font_cache, root / ".traceaudit" / "matplotlib")
    build(root, parameters={**PARAMETERS, "source": str(tmp_path)}, only=["values.demo"], record=True)
    ours, theirs = snapshot(root), snapshot(built[0])
    for path in ("report/values-demo.ipynb", "data-pins/records/values.demo.json"):
        assert (root / path).read_bytes().replace(b"'(a path)'", b"''") == (built[0] / path).read_bytes(), path
    assert len(ours) == 5 and len(theirs) == 11  # one chapter alone writes its own files alone


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        (lambda root: (root / "lib" / "library.py").write_text("x = 2\n"), 2),
        (lambda root: (root / "lib" / "new.py").write_text(""), 2),  # even an empty new file
        (lambda root: (root / "data-pins" / "pins.toml").write_text("x = 2\n"), 2),
        (lambda root: (root / "data-pins" / "records" / "values.demo.json").unlink(), 2),  # pages may recall it
        (lambda root: (root / "requirements.lock").write_text("x==2\n"), 2),
        (lambda root: append(root / "chapters" / "values.ipynb"), 2),
        (lambda root: append(root / "report" / "values-demo.ipynb"), 1),  # the page was edited
        (lambda root: (root / "report" / "values-demo.ipynb").unlink(), 1),  # or lost
        (lambda root: (root / ".traceaudit" / "built" / "values.gaia.json").write_text("{"), 1),  # torn
        (lambda root: (root / "lib" / "__pycache__").mkdir(), 0),
        (lambda root: (root / "lib" / ".hidden").write_text(""), 0),
        (lambda root: (root / "README.md").write_text("x"), 0),
    ],
)
def test_what_makes_a_page_stale(change, stale, copy, monkeypatch):
    change(copy)
    ran = []
    monkeypatch.setattr(build_module, "run_all", lambda root, chosen, *more: ran.extend(chosen) or {})
    build(copy, parameters=PARAMETERS, only=["values"])
    assert len(ran) == stale


@pytest.mark.parametrize(
    ("arguments", "stale"),
    [
        ({"key_extra": "another source"}, 2),
        ({"key_extra": lambda instance: "x" if instance.split == "gaia" else ""}, 1),  # a source that has gaia only
        ({"parameters": {**PARAMETERS, "engine": "upstream"}}, 2),
        ({"parameters": lambda i: PARAMETERS if i.split == "demo" else {"source": "x"}}, 1),
    ],
)
def test_which_arguments_make_a_page_stale(arguments, stale, copy, monkeypatch):
    ran = []
    monkeypatch.setattr(build_module, "run_all", lambda root, chosen, *more: ran.extend(chosen) or {})
    build(copy, **{"parameters": PARAMETERS, "only": ["values"], **arguments})
    assert len(ran) == stale


def test_the_last_chapter_is_stale_when_another_was_run_with_another_result(copy):
    built_now = copy / ".traceaudit" / "built" / "values.gaia.json"
    data = json.loads(built_now.read_text())
    inputs, chapters = Inputs(copy), load_chapters(copy / "chapters" / "chapters.toml")

    def key():
        job = build_module._Build(copy, chapters, PARAMETERS, 2, False, None, print, "", {})
        try:
            return job._key(inputs, chapters[2])
        finally:
            job.staging.discard()

    before = key()
    built_now.write_text(json.dumps(data | {"build": {}}))
    assert key() == before  # the stamp of a build is no result
    data["values"]["errors"]["raw"] = 5
    built_now.write_text(json.dumps(data))
    assert key() != before


def test_pages_that_no_chapter_owns_are_removed(copy, no_kernels):
    for stale in ("report/old-demo.ipynb", ".traceaudit/built/old.demo.json"):
        (copy / stale).write_text("{}")
    (copy / "report" / "notes.txt").write_text("not ours")
    report = build(copy, parameters=PARAMETERS)
    assert report.removed == (".traceaudit/built/old.demo.json", "report/old-demo.ipynb")
    assert not (copy / "report/old-demo.ipynb").exists() and (copy / "report/notes.txt").exists()


TWO_BAD = """
[[chapter]]
name = "bad"
title = "Bad"
splits = ["demo"]
[[chapter]]
name = "worse"
title = "Worse"
splits = ["demo"]
[[chapter]]
name = "good"
title = "Good"
splits = ["demo"]
"""


@pytest.fixture(scope="module")
def two_bad(tmp_path_factory, font_cache):
    """A project two of whose three chapters fail, after a build that was to replace a good page."""
    root = project(
        tmp_path_factory.mktemp("bad"),
        TWO_BAD,
        bad="raises",
        worse="exits-0-in-the-middle",
        good="cells-without-ids",
    )
    shutil.copytree(font_cache, root / ".traceaudit" / "matplotlib")
    (root / "report").mkdir()
    (root / "report" / "good-demo.ipynb").write_text("the former page")
    with pytest.raises(ChapterFailed) as caught:
        build(root, parameters=PARAMETERS, record=True)
    return root, str(caught.value)


def test_every_failing_chapter_is_named(two_bad):
    message = two_bad[1]
    assert "2 of 3 chapters failed" in message
    assert "bad demo, cell 3: a cell raised" in message and "ZeroDivisionError" in message
    assert "worse demo, cell 2: a cell raised" in message and "SystemExit" in message


def test_a_failed_build_leaves_the_former_pages(two_bad):
    root = two_bad[0]
    assert (root / "report/good-demo.ipynb").read_text() == "the former page"
    assert set(snapshot(root)) == {"report/good-demo.ipynb", "data-pins/pins.toml"} and not leftovers(root)


def test_the_error_of_the_only_failing_chapter_is_its_own(copy):
    with pytest.raises(UsageError, match=r"values demo: the chapter has no such parameter") as caught:
        build(copy, parameters={**PARAMETERS, "enginee": "x"}, only=["values.demo"])
    assert caught.value.exit_code == 64


def test_records_are_taken_back_when_the_last_chapter_fails(copy):
    (copy / "data-pins" / "records" / "values.gaia.json").unlink()
    (copy / "data-pins" / "records" / "values.demo.json").write_text("an older record")
    (copy / "data-pins" / "fail-last").write_text("")
    before = snapshot(copy)
    with pytest.raises(ChapterFailed, match="the last one fails"):
        build(copy, parameters=PARAMETERS, only=["values.gaia", "overview"], record=True)
    assert snapshot(copy) == before and not leftovers(copy)


def test_a_refused_record_writes_nothing(copy):
    before = snapshot(copy)
    with pytest.raises(PinMismatch, match=r"no record is written[\s\S]*values gaia: not the upstream engine"):
        build(
            copy,
            parameters=PARAMETERS,
            only=["values.gaia"],
            record=True,
            may_record=lambda done: "not the upstream engine" if done.parameters["split"] == "gaia" else None,
        )
    assert snapshot(copy) == before


def test_a_full_disk_is_named_and_loses_nothing(copy, monkeypatch):
    before, real = snapshot(copy), staging.write_whole

    def full(path, content):
        if path.name == "values-gaia.ipynb":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content)

    monkeypatch.setattr(staging, "write_whole", full)
    with pytest.raises(
        TraceAuditError, match=r"the disk is full[\s\S]*former pages and records are untouched"
    ) as caught:
        build(copy, parameters={**PARAMETERS, "engine": "upstream"}, only=["values.gaia"])
    assert caught.value.exit_code == 1
    assert snapshot(copy) == before and not leftovers(copy)


def test_a_chapter_beyond_all_limits_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(execute_module, "GRACE", -2.5)  # so that the backstop comes before the worker's own limit
    with pytest.raises(WorkerFailed, match="did not end within 4 s"):
        execute(NOTEBOOKS / "loops-for-ever.ipynb", {}, workdir=tmp_path, timeout=4)


SLOW = """
[[chapter]]
name = "slow"
title = "Slow"
splits = ["demo"]
"""
SCRIPT = """
import sys
from pathlib import Path
from traceaudit.run import build
build(Path(sys.argv[1]), parameters={"seconds": float(sys.argv[2])}, say=lambda line: print(line, flush=True))
"""


def begin(root: Path, seconds: float) -> subprocess.Popen:
    """Start a build of the slow project in another process and wait until its kernel runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(root), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any("ipykernel" in " ".join(p.cmdline()) for p in psutil.Process(process.pid).children(recursive=True)):
            return process
        time.sleep(0.05)
    raise AssertionError("the build did not start a kernel")


@pytest.fixture
def slow(tmp_path, font_cache):
    root = project(tmp_path / "slow", SLOW, slow="takes-its-time")
    shutil.copytree(font_cache, root / ".traceaudit" / "matplotlib")
    (root / "report").mkdir()
    (root / "report" / "slow-demo.ipynb").write_text("the former page")
    return root


def test_a_killed_build_leaves_the_former_pages_and_no_process(slow):
    process = begin(slow, 60)
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (slow / "report/slow-demo.ipynb").read_text() == "the former page"
    gone, alive = psutil.wait_procs(below, timeout=15)
    assert not alive and len(gone) >= 2  # worker and kernel
    assert leftovers(slow)
    lines: list[str] = []
    build(slow, parameters={"seconds": 0}, say=lines.append)  # nothing is in the way of the next
    assert lines[0] == "clearing away an earlier build that was cut short"
    assert "value" in (slow / "report/slow-demo.ipynb").read_text() and not leftovers(slow)


def test_two_builds_at_once(slow):
    process = begin(slow, 2)
    try:
        with pytest.raises(TraceAuditError, match=r"another build is still at work after 0\.2 s"):
            build(slow, parameters={"seconds": 2}, wait=0.2)
        lines: list[str] = []
        report = build(slow, parameters={"seconds": 2.0}, wait=60, say=lines.append)
    finally:
        said, _ = process.communicate()
    assert lines == ["another build is at work here; waiting for it", "[1/1] slow demo: unchanged"]
    assert len(report.unchanged) == 1 and "executed in" in said


def test_a_lock_goes_with_its_holder(tmp_path):
    holding, go_on = threading.Event(), threading.Event()

    def hold():
        with lock(tmp_path, wait=1, say=print):
            holding.set()
            go_on.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait(10)
    with pytest.raises(TraceAuditError), lock(tmp_path, wait=0, say=lambda line: None):
        pass
    go_on.set()
    thread.join()
    with lock(tmp_path, wait=0, say=print):
        pass


def test_a_swap_cut_short_is_finished_by_the_next_build(tmp_path, monkeypatch):
    (tmp_path / "report").mkdir()
    for name in ("a", "b", "old"):
        (tmp_path / "report" / name).write_text("former")
    job = Staging(tmp_path, "build-1")
    job.add("report/a", b"new")
    job.add("report/b", b"new")
    real, moved = Path.replace, []

    def cut(self, target):
        if Path(target).parent.name == "report" and Path(target).parent.parent == tmp_path:
            if moved:
                raise KeyboardInterrupt  # as good as a kill: the second move never happens
            moved.append(target)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", cut)
    with pytest.raises(KeyboardInterrupt):
        job.swap(["report/old"])
    monkeypatch.undo()
    assert (tmp_path / "report/b").read_text() == "former"
    lines: list[str] = []
    clear_up(tmp_path, lines.append)
    assert lines == ["finishing what an earlier build had ready when it was cut short"]
    assert [p.read_text() for p in sorted((tmp_path / "report").iterdir())] == ["new", "new"]
    assert not list((tmp_path / ".traceaudit").iterdir())


def test_records_put_in_place_by_a_killed_build_are_taken_back(tmp_path):
    (tmp_path / "kept").write_text("former")
    Staging(tmp_path, "build-1").put_now({"kept": b"new", "added": b"new"})
    assert (tmp_path / "kept").read_text() == (tmp_path / "added").read_text() == "new"
    clear_up(tmp_path, lambda line: None)
    assert (tmp_path / "kept").read_text() == "former" and not (tmp_path / "added").exists()


def test_an_unwritten_swap_is_discarded(tmp_path):
    Staging(tmp_path, "build-1").add("report/a", b"new")
    clear_up(tmp_path, lambda line: None)
    assert not (tmp_path / "report").exists() and not list((tmp_path / ".traceaudit").iterdir())


# ---------------------------------------------------------------------------------------------------- check


@pytest.fixture(scope="module")
def checked(built, tmp_path_factory):
    """The built project with one leaf of a record changed, a record removed and one that nobody makes."""
    root = tmp_path_factory.mktemp("checked") / "project"
    shutil.copytree(built[0], root)
    stored = root / "data-pins" / "records"
    data = json.loads((stored / "values.demo.json").read_text())
    data["values"]["share"]["raw"] = 0.26
    data["values"]["label"]["traces"] = "another set"
    (stored / "values.demo.json").write_text(json.dumps(data))
    (stored / "values.gaia.json").rename(stored / "old.gaia.json")
    before = snapshot(root)
    report = check(root, parameters=PARAMETERS, only=["values"])
    assert snapshot(root) == before  # a check writes nothing
    return report


def test_a_check_names_chapter_leaf_was_and_is(checked):
    assert not checked.equal
    assert checked.problems() == [
        "values demo: values.share.raw: was 0.26, is 0.25",
        "values gaia: no record is stored",
        "old.gaia.json: no chapter instance makes this record",
    ]
    with pytest.raises(RecordMismatch, match=r"values\.share\.raw: was 0\.26, is 0\.25") as caught:
        checked.raise_if_unequal()
    assert caught.value.exit_code == 1


def test_a_check_lists_what_is_not_comparable_and_what_was_recalled(checked):
    (one,) = checked.checked
    assert one.comparison.not_comparable == ("values.label",) and one.recalled == ()


def test_a_malformed_record_stops_a_check_before_anything_runs(copy, monkeypatch):
    path = copy / "data-pins" / "records" / "values.demo.json"
    path.write_bytes(path.read_bytes().replace(b'"schema": 1', b'"schema": 3'))
    with pytest.raises(PinMismatch, match=r"values\.demo\.json: the schema is another"):
        check(copy, parameters=PARAMETERS)


# ----------------------------------------------------------------------------------------- chapters.toml


def test_the_list_of_chapters(built):
    assert load_chapters(built[0] / "chapters" / "chapters.toml") == [
        Instance("values", "demo", "Values: demo", "report/values-demo.ipynb"),
        Instance("values", "gaia", "Values: GAIA", "report/values-gaia.ipynb"),
        Instance("overview", "all", "Overview", "index.ipynb", last=True),
    ]
    assert built_path(Instance("a", "all", "A", "index.ipynb")) == ".traceaudit/built/a.all.json"


ONE = '[[chapter]]\nname = "a"\ntitle = "A"\nsplits = ["demo"]\n'


@pytest.mark.parametrize(
    ("content", "kind", "says"),
    [
        ("", NothingToCheck, "no chapter is listed"),
        ("[[chapter]", PinMismatch, "not TOML"),
        ("x = 1", PinMismatch, "unknown key"),
        (ONE + "colour = 1", PinMismatch, r"chapter a has an unknown key[\s\S]*colour"),
        (ONE.replace("title", "titel"), PinMismatch, "unknown key"),
        (ONE.replace('title = "A"\n', ""), PinMismatch, "lacks a key"),
        (ONE + 'timeout = "5"', PinMismatch, "timeout has the wrong type"),
        (ONE + "timeout = true", PinMismatch, "timeout has the wrong type"),
        (ONE + "timeout = 0", PinMismatch, "timeout must be positive"),
        (ONE.replace('["demo"]', "[]"), PinMismatch, "unknown split, or none"),
        (ONE.replace('["demo"]', '["dmeo"]'), PinMismatch, "unknown split, or none"),
        (ONE.replace('"a"', '"A b"'), PinMismatch, "a name is lower-case"),
        (ONE.replace('["demo"]', '["demo", "gaia"]') + 'page = "index.ipynb"', PinMismatch, "a page occurs twice"),
        (ONE + ONE, PinMismatch, "occurs twice"),
        (ONE + 'page = "../x.ipynb"', PinMismatch, r"index\.ipynb or report/"),
        (ONE + 'page = "report/x.html"', PinMismatch, r"index\.ipynb or report/"),
        (ONE + 'page = "report/{nam}.ipynb"', PinMismatch, "page may hold"),
    ],
)
def test_a_wrong_list_of_chapters_is_refused(content, kind, says, tmp_path):
    (tmp_path / "chapters.toml").write_text(content + SPLITS)
    with pytest.raises(kind, match=says):
        load_chapters(tmp_path / "chapters.toml")


def test_an_absent_list_of_chapters_is_nothing_to_check(tmp_path):
    with pytest.raises(NothingToCheck):
        load_chapters(tmp_path / "chapters.toml")


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        (None, ["values.demo", "values.gaia", "overview.all"]),
        (["values"], ["values.demo", "values.gaia"]),  # a chapter
        (["values.gaia"], ["values.gaia"]),  # an instance
        (["index.ipynb", "values-demo"], ["values.demo", "overview.all"]),  # a page
    ],
)
def test_choosing(only, chosen, built):
    instances = load_chapters(built[0] / "chapters" / "chapters.toml")
    assert [instance.id for instance in choose(instances, only)] == chosen


def test_choosing_what_is_not_there(built):
    with pytest.raises(UsageError, match="expected: values, overview"):
        choose(load_chapters(built[0] / "chapters" / "chapters.toml"), ["valeus"])


def test_a_listed_chapter_without_a_source_is_named(copy):
    (copy / "chapters" / "values.ipynb").unlink()
    with pytest.raises(UsageError, match=r"values\.ipynb: a listed chapter has no source"):
        build(copy, parameters=PARAMETERS)
