"""The report as one command: pages built, records refused or compared, a site rendered, checked and not made twice."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import sys
from pathlib import Path

import nbformat
import pytest

from traceaudit import committed, readme, records, report, stored
from traceaudit import execute as execute_module
from traceaudit.cli import main
from traceaudit.errors import GuardFailed, PinMismatch
from traceaudit.pins import data_pins

from .published_support import CHAPTERS

QUARTO = f"""
project:
  type: website
  output-dir: _site
  pre-render: {sys.executable} before.py
  post-render: {sys.executable} -m traceaudit check-site
  render: [index.ipynb, report/tiny-demo.ipynb]
execute:
  enabled: true
  ipynb: false
website:
  title: Tiny
  sidebar:
    contents: [index.ipynb, report/tiny-demo.ipynb]
format:
  html:
    theme: default
    css: chapters/style.css
"""
BEFORE = "import pathlib\nwith pathlib.Path('rendered.txt').open('a') as file:\n    file.write('once\\n')\n"

CELLS = (
    'split = "demo"\nsource = ""\nengine = "auto"',
    """
import os
from IPython.display import display

if os.environ.get("TINY_FAILS") == NAME:
    raise RuntimeError("this one fails")

def emit(kind, **data):
    display({f"application/vnd.traceaudit.{kind}+json": data, "text/plain": kind}, raw=True)

for name, raw in (("errors", 12), ("share", 0.25)):
    emit("value", name=name, raw=raw, shown=str(raw), unit="errors", n=None, dropped={})
emit("finding", id="P1", verdict="HELD", magnitude="none", values=["errors"])
emit("provenance", engine=engine, recordable="yes")
""",
)


def notebook(name: str) -> bytes:
    """The source of a chapter that emits two values and a finding."""
    cells = [
        nbformat.v4.new_code_cell(CELLS[0], id="a", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_markdown_cell(f"# {name}\n\nOf `{{python}} v.errors` errors, `{{python}} v.share`.", id="b"),
        nbformat.v4.new_code_cell(CELLS[1].replace("NAME", repr(name)), id="c"),
    ]
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()


def project(root: Path) -> Path:
    """A project of two tiny chapters, with what a renderer needs."""
    for folder in ("chapters", "lib", "data-pins/records"):
        (root / folder).mkdir(parents=True)
    (root / "chapters" / "chapters.toml").write_text(CHAPTERS)
    (root / "chapters" / "style.css").write_text("p { margin: 0 }\n")
    for name in ("tiny", "overview"):
        (root / "chapters" / f"{name}.ipynb").write_bytes(notebook(name))
    (root / "_quarto.yml").write_text(QUARTO)
    (root / "before.py").write_text(BEFORE)
    return root


@pytest.fixture(scope="module")
def font_cache(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("matplotlib")
    execute_module.make_font_cache(place)
    return place


@pytest.fixture(scope="module")
def built(tmp_path_factory, font_cache) -> Path:
    """A project built once through the command line, records and all."""
    root = project(tmp_path_factory.mktemp("built") / "project")
    shutil.copytree(font_cache, root / ".traceaudit" / "matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root / "chapters")  # a folder below the project will do
        assert main(["build", "--record"]) == 0
    return root


@pytest.fixture
def copy(built, tmp_path, monkeypatch) -> Path:
    """A copy of the built project to change; the test stands in it."""
    root = tmp_path / "project"
    shutil.copytree(built, root)
    monkeypatch.chdir(root)
    return root


def ran(*arguments: str) -> int:
    try:
        return main(list(arguments))
    except SystemExit as end:
        return end.code


def files(root: Path) -> dict[str, str]:
    """Digest of every file but those of the build's own folder."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".traceaudit" not in path.parts and path.name != "reproduction.md"
    }


# ---------------------------------------------------------------------------------------------------- build


def test_a_build_makes_pages_and_records(built):
    assert {
        "index.ipynb",
        "report/tiny-demo.ipynb",
        "data-pins/records/overview.all.json",
        "data-pins/records/tiny.demo.json",
        "data-pins/records/digests.toml",
    } <= set(files(built))
    page = (built / "report" / "tiny-demo.ipynb").read_text()
    assert "A tiny chapter: demo" in page and 'data-name=\\"errors\\">12</span>' in page
    assert stored.stored("tiny", "demo", built).values["share"].raw == 0.25


def test_a_second_build_says_what_is_at_hand_and_runs_nothing(copy, capsys):
    before = files(copy)
    assert main(["build"]) == 0
    said = capsys.readouterr()
    assert "TRAIL: no source" in said.err and "judges: no replies" in said.err
    assert "0 pages executed, 2 unchanged" in said.err
    assert said.out == ""
    assert files(copy) == before


@pytest.fixture
def pretended(monkeypatch):
    """Lets chapters give what their records hold without a kernel, with other modes or another provenance; what was
    asked for is returned."""
    asked: list[dict] = []

    def pretend(mode: str = "measured", recordable: str = "yes") -> list[dict]:
        def run_all(root, chosen, parameters, workers, workdir, env, progress):
            asked.append({"chosen": [i.id for i in chosen], "parameters": parameters, "workers": workers, "env": env})
            out = {}
            for instance in chosen:
                record = records.load(records.path_of(instance.chapter, instance.split, root))
                values = {name: dataclasses.replace(value, mode=mode) for name, value in record.values.items()}
                findings = {id: dataclasses.replace(finding, mode=mode) for id, finding in record.findings.items()}
                told = {"engine": "upstream", "recordable": recordable}
                page = nbformat.v4.new_notebook()
                out[instance] = execute_module.Executed(str(instance), {}, page, values, findings, told)
            return out

        for module in ("build", "checking"):
            monkeypatch.setattr(f"traceaudit.{module}.run_all", run_all)
        return asked

    return pretend


def test_what_is_asked_for_reaches_the_chapters(copy, tmp_path, pretended, monkeypatch, capsys):
    asked = pretended()
    source = tmp_path / "source" / "benchmarking" / "processed_annotations_gaia"
    source.mkdir(parents=True)
    monkeypatch.chdir(copy / "lib")
    place = os.path.relpath(tmp_path / "source")
    assert main(["build", "--engine", "independent", "--only", "tiny", "--workers", "1", "--source", place]) == 0
    assert "1 pages executed, 0 unchanged" in capsys.readouterr().err
    (call,) = [each for each in asked if each["chosen"]]
    assert (call["chosen"], call["workers"]) == (["tiny.demo"], 1)
    assert call["env"]["TRACEAUDIT_SOURCE"] == str(tmp_path / "source")  # absolute: a chapter runs elsewhere


# how chapters got their values -> words of the refusal
REFUSED = [
    ({"mode": "recalled"}, "tiny demo: 3 values or findings were recalled, not measured"),
    ({"recordable": "the engine was not the pinned scorer"}, "tiny demo: the engine was not the pinned scorer"),
]


@pytest.mark.parametrize(("how", "words"), REFUSED)
def test_a_record_is_refused_with_the_reason(how, words, copy, pretended, capsys):
    before = files(copy)
    pretended(**how)
    assert main(["build", "--record", "--only", "tiny.demo"]) == 1
    said = capsys.readouterr().err
    assert "data-pins/records: no record is written" in said and words in said
    assert files(copy) == before


def test_a_chapter_that_says_nothing_of_itself_is_not_recordable():
    executed = execute_module.Executed("x", {}, nbformat.v4.new_notebook(), {}, {}, {"engine": "upstream"})
    assert report._may_record(executed) == "its provenance says nothing about it"


def test_a_refusal_without_a_reason_is_a_refusal(copy, pretended):
    pretended(recordable="")
    assert main(["build", "--record", "--only", "tiny.demo"]) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("build", "--engine", "best"), 64, "expected: auto, upstream, independent"),  # an unknown engine
        (("check", "--engine", "best"), 64, "unknown engine"),
        (("build", "--workers", "0"), 64, "0 is not at least 1"),
        (("check", "--workers", "0"), 64, "0 is not at least 1"),
        (("build", "--only", "tinny"), 64, "no such chapter"),
        (("build", "--only", "tiny.gaia"), 64, "expected: tiny, overview"),  # no such split of it
        (("check", "--only", "tinny"), 64, "no such chapter"),
        (("build", "--source", "no/such/place"), 2, "no such folder"),
        (("build", "--source", "."), 2, "does not hold the upstream layout"),  # a folder of something else
        (("build", "--source", "https://example.invalid/x"), 64, "can only be fetched from"),
        (("build", "--judges", "no/such/place"), 2, "nothing of the judges' replies is here"),
        (("report", "--source", "no/such/place"), 2, "no such folder"),
    ],
)
def test_what_is_asked_wrongly_is_refused_before_anything_runs(arguments, code, words, copy, monkeypatch, capsys):
    before = files(copy)
    monkeypatch.setattr("traceaudit.pool.Worker", lambda: pytest.fail("a chapter was started"))
    for variable in ("TRACEAUDIT_SOURCE", "TRACEAUDIT_JUDGES"):
        monkeypatch.setenv(variable, "")  # `report` hands its sources on through the environment
    assert ran(*arguments) == code
    assert words in capsys.readouterr().err
    assert files(copy) == before


@pytest.mark.parametrize("command", ["build", "check", "report", "readme", "check-site"])
def test_outside_a_project_there_is_nothing_to_do(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([command]) == 2
    assert "this is not inside a project" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_changed_committed_file_stops_a_build(copy, tmp_path, monkeypatch, capsys):
    """Which one does not matter, so each file of the list has one byte changed."""
    pins = Path(shutil.copytree(data_pins(), tmp_path / "pins", ignore=shutil.ignore_patterns("records")))
    monkeypatch.setattr(committed, "data_pins", lambda: pins)
    monkeypatch.setattr("traceaudit.pool.Worker", lambda: pytest.fail("a chapter was started"))
    assert main(["build"]) == 0  # the copy is as good as the original
    for name in committed.digests():
        good = (pins / name).read_bytes()
        (pins / name).write_bytes(bytes([*good[:-30], good[-30] ^ 1, *good[-29:]]))
        for command in (["build"], ["check"], ["report", "--renderer", "preview"]):
            capsys.readouterr()
            assert main(command) == 1, (name, command)
            assert f"{name}: a committed file differs from its digest" in capsys.readouterr().err
        (pins / name).write_bytes(good)


# ---------------------------------------------------------------------------------------------------- check


def test_records_that_hold_are_said_to(copy, pretended, capsys):
    before = files(copy)
    pretended()
    assert main(["check"]) == 0
    assert "2 pages hold what their records say" in capsys.readouterr().err
    assert files(copy) == before


def rewrite(root: Path, was: bytes, now: bytes) -> None:
    """Change a record and its digest with it, so that nothing but running the chapter again can find it."""
    path = root / "data-pins" / "records" / "tiny.demo.json"
    content = path.read_bytes().replace(was, now)
    assert content != path.read_bytes()
    path.write_bytes(content)
    listed = stored.digests(root) | {path.name: hashlib.sha256(content).hexdigest()}
    (root / stored.DIGESTS).write_bytes(stored.dump_digests(listed))


def test_a_tampered_record_is_found_with_chapter_leaf_was_and_is(copy, capsys):
    rewrite(copy, b'"raw": 0.25', b'"raw": 0.26')
    assert main(["check", "--only", "tiny"]) == 1
    said = capsys.readouterr().err
    assert "data-pins/records: the records do not hold:" in said
    assert "tiny demo: values.share.raw: was 0.26, is 0.25" in said
    assert "overview" not in said.split("do not hold")[1]


def test_where_nothing_could_be_measured_nothing_was_checked(copy, pretended, capsys):
    pretended(mode="recalled")
    assert main(["check"]) == 2
    said = capsys.readouterr().err
    assert "6 values could only be recalled here, which proves nothing about them" in said
    assert "no page could be measured, so nothing was checked" in said
    assert "set TRACEAUDIT_SOURCE" in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda at: (at / "tiny.demo.json").unlink(), "tiny demo: no record is stored"),
        (lambda at: shutil.copy(at / "tiny.demo.json", at / "old.demo.json"), "old.demo.json: no chapter instance"),
    ],
)
def test_records_and_chapters_belong_together(change, words, copy, monkeypatch, capsys):
    change(copy / "data-pins" / "records")
    monkeypatch.setattr("traceaudit.checking.run_all", lambda *_: {})  # which needs no chapter to be seen
    assert main(["check", "--only", "tiny"]) == 1
    assert words in capsys.readouterr().err


# --------------------------------------------------------------------------------------------------- report


@pytest.fixture(scope="module")
def rendered(built, tmp_path_factory) -> tuple[Path, str]:
    """The project with its site, rendered by the preview renderer, and what was said."""
    root = tmp_path_factory.mktemp("rendered") / "project"
    shutil.copytree(built, root)
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setattr("traceaudit.cli.say", lines.append)
        assert main(["report", "--renderer", "preview"]) == 0
    return root, "\n".join(lines)


@pytest.fixture
def site(rendered, tmp_path, monkeypatch) -> Path:
    """A copy of the rendered project to change; the test stands in it."""
    root = tmp_path / "project"
    shutil.copytree(rendered[0], root)
    monkeypatch.chdir(root)
    return root


def times(root: Path) -> int:
    """How often the renderer began."""
    return len((root / "rendered.txt").read_text().splitlines())


def test_the_preview_is_rendered_from_the_same_configuration(rendered):
    root, said = rendered
    assert "rendering a preview with smalldocs" in said
    assert f"the report is at {root / '_site' / 'index.html'}" in said
    html = (root / "_site" / "report" / "tiny-demo.html").read_text(encoding="utf-8")
    assert '<span class="value" data-name="errors">12</span>' in html
    assert "A tiny chapter: demo</h1>" in html
    assert times(root) == 1  # pre-render ran


def test_a_second_report_says_that_nothing_changed(site, capsys):
    before = files(site)
    assert main(["report", "--renderer", "preview"]) == 0
    said = capsys.readouterr().err
    assert f"nothing changed since the site was rendered: {site / '_site' / 'index.html'}" in said
    assert "rendering" not in said
    assert files(site) == before and times(site) == 1


def test_a_changed_result_is_rendered_again(site, monkeypatch, capsys):
    (site / "chapters" / "tiny.ipynb").write_bytes(notebook("tiny").replace(b'\\"share\\", 0.25', b'\\"share\\", 0.75'))
    assert main(["report", "--renderer", "preview"]) == 0
    assert "1 pages executed, 1 unchanged" in capsys.readouterr().err
    assert times(site) == 2
    html = (site / "_site" / "report" / "tiny-demo.html").read_text(encoding="utf-8")
    assert 'data-name="share">0.75</span>' in html


@pytest.fixture
def no_renderer(monkeypatch) -> list[list[str]]:
    """The commands that would render, none of them run."""
    started: list[list[str]] = []
    real = report.subprocess.run

    def run(command, **more):
        if command[-1] != "render":
            return real(command, **more)
        started.append(list(map(str, command)))
        return real([sys.executable, "-c", ""], check=False)

    monkeypatch.setattr(report.subprocess, "run", run)
    return started


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


# what changed -> whether the site is rendered again
STAMPED = [
    (lambda root: None, False),
    (lambda root: append(root / "chapters" / "style.css", "a {}\n"), True),
    (lambda root: append(root / "_quarto.yml", "# another\n"), True),
    (lambda root: (root / "_site" / "index.html").unlink(), True),
    (lambda root: (root / ".traceaudit" / "site.sha256").unlink(), True),
    (lambda root: (root / ".traceaudit" / "site.sha256").write_text("torn"), True),
    (lambda root: append(root / "before.py", "# another\n"), False),  # no page depends on it
]


@pytest.mark.parametrize(("change", "again"), STAMPED)
def test_what_a_site_depends_on(change, again, site, no_renderer, capsys):
    change(site)
    assert main(["report", "--renderer", "preview"]) == 0
    assert len(no_renderer) == again
    assert ("nothing changed" in capsys.readouterr().err) == (not again)
    assert main(["report", "--renderer", "preview"]) == 0
    assert len(no_renderer) == again or not (site / "_site" / "index.html").is_file()  # and only once


def test_a_lost_page_of_the_site_is_rendered_again(site, no_renderer):
    (site / "_site" / "report" / "tiny-demo.html").unlink()
    assert main(["report", "--renderer", "preview"]) == 0
    assert len(no_renderer) == 1


def test_the_two_renderers_do_not_pass_for_each_other(site, no_renderer, monkeypatch, capsys):
    monkeypatch.setattr(report.shutil, "which", lambda name: f"/somewhere/{name}")
    assert main(["report"]) == 0
    assert no_renderer == [["/somewhere/quarto", "render"]]
    assert "rendering with quarto" in capsys.readouterr().err
    assert main(["report", "--renderer", "preview"]) == 0
    assert len(no_renderer) == 2 and Path(no_renderer[1][0]).name == "smalldocs"
    assert "since quarto is not on this machine" not in capsys.readouterr().err


def test_without_quarto_the_preview_says_why(site, no_renderer, monkeypatch, capsys):
    monkeypatch.setattr(report.shutil, "which", lambda name: None)
    append(site / "chapters" / "style.css", "b {}\n")
    assert main(["report"]) == 0
    assert "a preview with smalldocs, since quarto is not on this machine" in capsys.readouterr().err
    assert main(["report", "--renderer", "quarto"]) == 2
    assert "quarto is not on this machine" in capsys.readouterr().err


def test_a_failing_chapter_fails_the_report_and_leaves_the_site(site, monkeypatch, capsys):
    monkeypatch.setenv("TINY_FAILS", "tiny")
    (site / "chapters" / "tiny.ipynb").write_bytes(notebook("tiny") + b"\n")
    before = files(site)
    assert main(["report", "--renderer", "preview"]) == 1
    said = capsys.readouterr().err
    assert "tiny demo, cell 2: a cell raised" in said and "RuntimeError: this one fails" in said
    assert "rendering" not in said
    assert files(site) == before


# script that fails -> words on standard error; smalldocs ends with its own code, the command with 1
SCRIPTS = [
    ("pre-render", "import sys\nsys.exit(3)\n"),
    ("post-render", None),  # the check of the site
]


@pytest.mark.parametrize(("script", "body"), SCRIPTS)
def test_a_script_that_fails_fails_the_report_and_takes_the_stamp(script, body, site, capfd):
    if body:
        (site / "before.py").write_text(body)
    else:
        (site / "before.py").write_text("import pathlib\npathlib.Path('report/tiny-demo.ipynb').write_text('{}')\n")
    append(site / "chapters" / "style.css", "c {}\n")
    assert main(["report", "--renderer", "preview"]) == 1
    assert "the site was not rendered" in capfd.readouterr().err
    assert not (site / ".traceaudit" / "site.sha256").exists()


# ----------------------------------------------------------------------------------------------- check-site


def damage(name: str, was: str, now: str):
    def change(root: Path) -> None:
        path = root / "_site" / name
        body = path.read_text(encoding="utf-8")
        assert was in body
        path.write_text(body.replace(was, now, 1), encoding="utf-8")

    return change


def damage_quarto(root: Path) -> None:
    path = root / "_quarto.yml"
    path.write_text(
        path.read_text().replace("contents: [index.ipynb, report/tiny-demo.ipynb]", "contents: [index.ipynb]")
    )


TINY = "report/tiny-demo.html"
VALUE = '<span class="value" data-name="errors">12</span>'
# what is done to the project or its site -> words on standard error
DAMAGED = [
    (lambda root: (root / "_site" / TINY).unlink(), f"{TINY}: the page is missing"),
    (damage(TINY, VALUE, "12"), "report/tiny-demo.ipynb: its page lost a value: errors"),
    (damage(TINY, VALUE, "`{python} v.errors`"), "inline code is left as text"),
    (damage(TINY, "</body>", "<p>?@fig-x</p></body>"), "a reference is unresolved: ?@fig-x"),
    (damage(TINY, "</body>", '<a href="gone.html">x</a></body>'), "a link leads nowhere: gone.html"),
    (damage("index.html", "</body>", '<img src="https://e.invalid/x"></body>'), "fetched from elsewhere"),
    (lambda root: (root / "report" / "tiny-demo.ipynb").unlink(), "the executed notebook is missing"),
    (damage_quarto, "the sidebar lacks report/tiny-demo.ipynb"),
]


def test_a_good_site_is_whole(site, capsys):
    assert main(["check-site"]) == 0
    assert main(["check-site", str(site / "_site")]) == 0
    assert capsys.readouterr().err == "2 pages are whole\n" * 2


@pytest.mark.parametrize(("change", "words"), DAMAGED)
def test_a_damaged_site_is_named_by_page(change, words, site, capsys):
    change(site)
    assert main(["check-site"]) == 1
    assert words in capsys.readouterr().err


def test_a_folder_without_pages_lacks_every_one(site, capsys):
    assert main(["check-site", "chapters"]) == 1
    said = capsys.readouterr().err
    assert "index.html: the page is missing" in said and f"{TINY}: the page is missing" in said


# ---------------------------------------------------------------------------------------------------- readme


def test_the_readme_is_current(root):
    assert readme.update(root, check=True)


@pytest.fixture
def own_readme(tmp_path, monkeypatch) -> Path:
    """A project whose README has the two blocks, one of them out of date."""
    here = project(tmp_path / "project")
    monkeypatch.setattr(readme, "BLOCKS", {"one": lambda root: "1\n", "two": lambda root: f"{root.name}\n"})
    monkeypatch.chdir(here / "lib")
    block = "<!-- generated:{} -->\n{}<!-- /generated -->\n"
    (here / "README.md").write_text(
        "# Tiny\n\n" + block.format("one", "1\n") + "between\n" + block.format("two", "old\n")
    )
    return here / "README.md"


def test_a_readme_out_of_date_is_said_and_then_written(own_readme, capsys):
    former = own_readme.read_bytes()
    assert main(["readme", "--check"]) == 1
    assert "README.md: a generated block differs from the records" in capsys.readouterr().err
    assert own_readme.read_bytes() == former
    assert main(["readme"]) == 0
    assert "the README was written anew" in capsys.readouterr().err
    assert own_readme.read_text() == former.decode().replace("old", "project")
    for command in (["readme", "--check"], ["readme"]):
        assert main(command) == 0
        assert "the README holds what the records say" in capsys.readouterr().err


# what the README has in the place of its second block -> what is found
MARKERS = [
    ("", "one"),  # a generator without a block
    ("<!-- generated:three -->\n<!-- /generated -->\n", "one, three"),  # a block without a generator
    ("<!-- generated:two -->\n<!-- /generated -->\n" * 2, "one, two, two"),  # one of them twice
    ("<!-- generated:two -->\nnot closed\n", "one"),
    ("<!-- generated: two -->\n<!-- /generated -->\n", "one"),  # not the marker's form
]


@pytest.mark.parametrize("command", [["readme"], ["readme", "--check"]])
@pytest.mark.parametrize(("second", "found"), MARKERS)
def test_markers_and_generators_belong_together(second, found, command, own_readme, capsys):
    body = own_readme.read_text()
    own_readme.write_text(body[: body.index("<!-- generated:two")] + second)
    before = own_readme.read_bytes()
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "expected: one, two\n" in said and f"found: {found}\n" in said
    assert own_readme.read_bytes() == before


def test_an_unclosed_block_does_not_swallow_the_next(own_readme):
    body = own_readme.read_text().replace("<!-- /generated -->", "", 1)  # the first one is not closed
    with pytest.raises(GuardFailed):
        readme.render(body, own_readme.parent)


def test_a_readme_without_any_block_is_an_error(own_readme):
    with pytest.raises(GuardFailed, match="found: none"):
        readme.render("# nothing generated\n", own_readme.parent)


@pytest.mark.parametrize("name", list(readme.BLOCKS))
def test_a_block_is_made_from_a_genuine_record_alone(name, root, tmp_path):
    path = records.path_of("overview", "all", tmp_path)
    path.parent.mkdir(parents=True)
    genuine = records.path_of("overview", "all", root).read_bytes()
    path.write_bytes(genuine)
    shutil.copy(root / stored.DIGESTS, tmp_path / stored.DIGESTS)
    assert readme.BLOCKS[name](tmp_path) == readme.BLOCKS[name](root)
    assert readme.BLOCKS[name](root) in (root / "README.md").read_text(encoding="utf-8")
    path.write_bytes(genuine.replace(b"VIOLATED", b"HELD", 1))
    with pytest.raises(PinMismatch, match="differs from its digest"):
        readme.BLOCKS[name](tmp_path)
