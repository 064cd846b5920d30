"""What the repository promises about itself: its pages, its prose, its files, and what it does not hold."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from traceaudit import guards, pages, records
from traceaudit.instances import load_chapters
from traceaudit.pins import data_pins
from traceaudit.trail import pin
from traceaudit.trail.measures.citations import load_lines


def tracked(root: Path) -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [root / name for name in done.stdout.decode().split("\0") if name and (root / name).is_file()]


def test_pages_and_sidebar_are_the_listed_chapters(root):
    guards.raise_if(pages.compare_quarto(root / "_quarto.yml", load_chapters(root / "chapters" / "chapters.toml")))


def test_readme_types_no_recorded_number(root):
    stored = [records.load(path) for path in sorted((data_pins() / "records").glob("*.json"))]
    recorded = guards.recorded_integers(value for record in stored for value in record.values.values())
    guards.raise_if(guards.check_text("README.md", (root / "README.md").read_text(encoding="utf-8"), recorded))


def test_cited_lines_are_well_formed():
    rows = [{key: row[key] for key in ("name", "number", "digest")} for row in load_lines()]
    guards.raise_if(guards.check_lines("trail-lines.toml", rows))


@pytest.mark.upstream
def test_cited_lines_are_what_the_pinned_scorer_holds(scorer_source):
    from traceaudit.trail.study import open_study

    with open_study("demo", scorer_source) as study:
        rows = [{key: row[key] for key in ("name", "number", "digest")} for row in load_lines()]
        guards.raise_if(guards.check_lines("trail-lines.toml", rows, study.scorer))


def test_every_chapter_cites_lines_by_name(root):
    """A line number typed into prose would escape the check above."""
    typed = re.compile(r"\blines? \d", re.IGNORECASE)
    for path in sorted((root / "chapters").glob("*.ipynb")):
        assert not typed.search(path.read_text(encoding="utf-8")), path.name


def test_no_library_file_is_longer_than_400_lines(root):
    long = {path.name: n for path in (root / "lib").rglob("*.py") if (n := len(path.read_text().splitlines())) > 400}
    assert long == {}


def test_no_file_of_the_audited_repository_is_committed(root):
    blobs = {pinned.blob for pinned in pin.load().pin.files.values()}
    for path in tracked(root):
        data = path.read_bytes()
        assert hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() not in blobs, path.name


@pytest.mark.upstream
def test_no_line_of_the_pinned_scorer_is_committed(root, scorer_source):
    """Longer lines only: `import json` is nobody's."""
    from traceaudit.trail.study import open_study

    with open_study("demo", scorer_source) as study:
        theirs = {line.strip() for line in study.scorer.decode().splitlines() if len(line.strip()) > 40}
    for path in tracked(root):
        if path.suffix in (".py", ".ipynb", ".toml", ".md"):
            ours = {line.strip().strip('",').removesuffix("\\n") for line in path.read_text().splitlines()}
            assert not ours & theirs, path.name


@pytest.mark.real
def test_no_text_of_a_gold_file_is_committed(root, trail_source):
    """Evidence, descriptions and reasons are sentences; none longer than a few words occurs in a committed file."""
    import json

    theirs = set()
    for path in trail_source.glob("benchmarking/processed_annotations_*/*.json"):
        try:
            errors = json.loads(path.read_text(encoding="utf-8"))["errors"]
        except ValueError:
            continue
        for error in errors:
            texts = (error.get(key) for key in ("evidence", "description"))
            theirs |= {text.strip() for text in texts if isinstance(text, str) and len(text.split()) > 5}
    assert len(theirs) > 1000
    committed = "\n".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in tracked(root)
        if path.suffix in (".json", ".toml", ".tsv", ".py", ".ipynb", ".md")
    )
    assert [text[:60] for text in theirs if text in committed] == []


def test_no_path_of_a_machine_is_committed(root):
    private = re.compile(r"/(?:home|Users|root)/\w|/wor[k]/")
    for path in tracked(root):
        if path.relative_to(root).parts[0] != "tests":
            assert not private.search(path.read_text(encoding="utf-8", errors="replace")), path.name


@pytest.mark.parametrize("command", [("check",), ("format", "--check")])
def test_style(command, root):
    ruff = Path(sys.executable).with_name("ruff")
    done = subprocess.run([ruff, *command, "--quiet", "."], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_group_of_tests_stays_in_one_process(request):
    """Else each process executes the chapters and renders the site for itself, silently."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("the tests run in one process")
    assert request.node.nodeid.endswith("@test_repository.py")
