"""``traceaudit trail score``: what it prints and writes, how it ends, and the page that asks nothing of any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from traceaudit import cli, guards
from traceaudit.errors import GuardFailed
from traceaudit.notebooks import collect
from traceaudit.pages import Page
from traceaudit.trail import receipt_page
from traceaudit.trail.measures.receipt import receipt_measure
from traceaudit.trail.receipt import open_scoring
from traceaudit.trail.replies import Replies
from traceaudit.values import Value

HOSTILE = ["<script>alert(1)</script>.txt", "![x](http://evil.example).md", '"onload="x', "`{python} v.joint`", "|a|b|"]
CHAPTER = receipt_page.chapter_path()


@pytest.fixture(scope="module")
def gold() -> dict[str, bytes]:
    """The demo's gold, as it can be read."""
    with open_scoring("demo", engine="independent") as study:
        return {trace: file for trace, file in study.corpus.gold.bytes.items() if study.corpus.gold[trace].parses}


@pytest.fixture(scope="module")
def predictions(gold, tmp_path_factory) -> Path:
    """Replies to the demo: most exact, one torn, one absent; a link and hostile names beside them."""
    folder = tmp_path_factory.mktemp("parent") / "predictions"
    folder.mkdir()
    first, second, *rest = gold
    for trace in (first, *rest):
        (folder / f"{trace}.json").write_bytes(gold[trace])
    (folder / f"{first}.json").write_bytes(b'{"errors": [}')
    (folder / f"{second}.json").symlink_to("elsewhere")
    for name in HOSTILE:
        (folder / name.replace("/", "\u2044")).write_bytes(b"")
    return folder


def run(*arguments: str) -> int:
    try:
        return cli.main(["trail", "score", *arguments])
    except SystemExit as error:
        return error.code


def test_it_prints_a_receipt_and_does_not_judge(predictions, capsys):
    assert run(str(predictions), "--split", "demo") == 0
    out = capsys.readouterr().out
    for words in (
        "Receipt, Demo, engine independent",
        "the JSON does not parse",
        "a symbolic link",
        "demo@20260827|split:",
    ):
        assert words in out


def test_json_is_all_there_is_on_standard_output(predictions, tmp_path, capsys):
    assert run(str(predictions), "--split", "demo", "--json", "-") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["scored"], printed["missing"], printed["dropped"]) == (11, 1, {"the JSON does not parse": 1})
    assert len(printed["unknown_files"]) == len(HOSTILE)
    assert run(str(predictions), "--split", "demo", "--json", str(tmp_path / "r.json")) == 0
    assert json.loads((tmp_path / "r.json").read_bytes()) == printed
    assert "Receipt, Demo" in capsys.readouterr().out  # a file does not take the place of the text


def test_a_receipt_holds_no_path_and_no_time(predictions, capsys):
    run(str(predictions), "--split", "demo", "--json", "-")
    printed = capsys.readouterr().out
    run(str(predictions), "--split", "demo", "--json", "-")
    assert capsys.readouterr().out == printed
    assert str(predictions.parent) not in printed


# arguments -> (exit code, words); {good} stands for usable predictions
ENDINGS = [
    (("{good}",), 64, "--split"),  # no split
    (("--split", "demo"), 64, "PREDICTIONS"),  # no predictions
    (("{good}", "--split", "all"), 64, "one split"),
    (("{good}", "--split", "GAIA"), 64, "one split"),
    (("{good}", "--split", "demo", "--engine", "best"), 64, "unknown engine"),
    (("{good}", "--split", "demo", "--bogus"), 64, "--bogus"),
    (("{good}", "--split", "demo", "--engine", "upstream"), 2, "pinned scorer is not in this source"),
    (("{good}", "--split", "gaia"), 2, "without the gold files"),  # no source
    (("{good}", "--split", "gaia", "--source", "no/such/place"), 2, "no such folder"),
    (("no/such/predictions", "--split", "demo"), 2, "cannot be found"),
    (("{empty}", "--split", "demo"), 2, "no reply"),
    ((__file__, "--split", "demo"), 64, "no known kind"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), ENDINGS, ids=lambda part: str(part)[:40])
def test_endings(arguments, code, words, predictions, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    places = {"{good}": str(predictions), "{empty}": str(tmp_path / "empty")}
    assert run(*(places.get(each, each) for each in arguments)) == code
    captured = capsys.readouterr()
    assert words in captured.err
    assert (captured.out, "Traceback" in captured.err) == ("", False)


@pytest.mark.real
def test_a_changed_gold_file_ends_with_one(predictions, trail_source, tmp_path, capsys):
    folder = "benchmarking/processed_annotations_gaia"
    (tmp_path / "t" / folder).mkdir(parents=True)
    for path in (trail_source / folder).iterdir():
        (tmp_path / "t" / folder / path.name).write_bytes(path.read_bytes() + b" ")
    assert run(str(predictions), "--split", "gaia", "--source", str(tmp_path / "t")) == 1
    assert capsys.readouterr().out == ""


# The page.


@pytest.fixture(scope="module")
def rendered(predictions, tmp_path_factory) -> tuple[str, dict]:
    """The page, and the same receipt as data."""
    out = tmp_path_factory.mktemp("out")
    assert run(str(predictions), "--split", "demo", "--html", str(out / "r.html"), "--json", str(out / "r.json")) == 0
    return (out / "r.html").read_text(encoding="utf-8"), json.loads((out / "r.json").read_bytes())


def test_the_page_is_self_contained_and_shows_the_figures(rendered, predictions):
    page, receipt = rendered
    found = Page(page)
    assert [address for _, address in found.fetched if not address.startswith("data:image/")] == []
    assert len([address for _, address in found.fetched]) == 1  # the figure
    assert [address for _, address in found.links if not address.startswith("#")] == []
    shown = " ".join(text for _, text in found.text)
    for words in (receipt["signature"], f"{receipt['joint']:.4f}", f"{receipt['joint_all_traces']:.4f}", "Demo."):
        assert words in shown
    assert {"joint", "joint_all_traces", "signature", "replies_digest", "sprayed_joint"} <= found.names
    assert str(predictions.parent) not in page  # no path of this machine


def test_hostile_names_are_text_on_the_page(rendered):
    page, _ = rendered
    shown = " ".join(text for _, text in Page(page).text)
    for name in HOSTILE:
        assert name.replace("/", "\u2044") in shown
    assert "<script" not in page
    assert "<img alt" in page
    assert page.count("<img") == 1


# a notebook's cell -> what its page must hold, and must not
CELLS = [
    ({"cell_type": "markdown", "source": "# A *title*"}, "<h1>A <em>title</em></h1>", "nothing"),
    ({"cell_type": "code", "source": "a < b", "outputs": []}, "a &lt; b", "nothing"),
    ({"cell_type": "code", "source": "#| include: false\nhidden", "outputs": []}, "<main>", "hidden"),
    ({"cell_type": "code", "source": "#| echo: false\nhidden", "outputs": []}, "<main>", "hidden"),
    ({"cell_type": "raw", "source": "hidden"}, "<main>", "hidden"),
]


@pytest.mark.parametrize(("cell", "there", "absent"), CELLS)
def test_cells(cell, there, absent):
    page = receipt_page.render({"cells": [cell]})
    assert there in page
    assert absent not in page.partition("<main>")[2]


def output(kind: str, text: str) -> dict:
    return {"output_type": "display_data", "data": {kind: text, "text/plain": "plain <b>"}}


def test_outputs():
    stream = {"output_type": "stream", "name": "stdout", "text": "said <i>"}
    outputs = [output("text/markdown", "**bold**"), output("text/plain", "plain <b>"), stream]
    own = output("application/vnd.traceaudit.value+json", "{}")
    page = receipt_page.render({"cells": [{"cell_type": "code", "source": "", "outputs": [*outputs, own]}]})
    for words in ("<strong>bold</strong>", "plain &lt;b&gt;", "said &lt;i&gt;"):
        assert page.count(words) == 1
    hidden = {"cell_type": "code", "source": "#| output: false", "outputs": outputs}
    assert "bold" not in receipt_page.render({"cells": [hidden]}).partition("<main>")[2]


@pytest.mark.parametrize(
    "markdown",
    [
        "![x](http://evil.example/a.png)",
        '<img src="//evil.example/a">',
        '<link rel="stylesheet" href="a.css">',
        "<style>@import 'http://evil.example/a.css';</style>",
        '<p style="background: url(http://evil.example)">x</p>',
        "<script>1</script>",
        '<p onclick="1">x</p>',
        "[out](https://evil.example)",
        '<img src="a.png">',
        '<iframe src="data:text/html,x"></iframe>',
    ],
)
def test_a_page_that_asks_anything_of_another_is_an_error(markdown):
    with pytest.raises(GuardFailed, match="ask nothing"):
        receipt_page.render({"cells": [{"cell_type": "markdown", "source": markdown}]})


# The chapter.


def test_the_chapter_keeps_the_rules_of_the_others(gold):
    notebook = json.loads(CHAPTER.read_text(encoding="utf-8"))
    replies = Replies({min(gold): b"no"}, ("x",), {"y": "a symbolic link"})
    with open_scoring("demo", engine="independent") as study:
        values = [item for item in receipt_measure(replies)(study) if isinstance(item, Value)]
    names = [value.name for value in values]
    guards.raise_if(
        guards.check_stripped(CHAPTER.name, notebook)
        + guards.check_prose(CHAPTER.name, notebook, [])
        + guards.check_inline_names(CHAPTER.name, notebook, names)
    )


def test_the_chapter_is_no_page_of_the_report(root):
    """It has no fixed input, so it has no record either."""
    assert CHAPTER.relative_to(root).as_posix() == "chapters/receipt/trail-receipt.ipynb"
    assert CHAPTER.stem not in (root / "chapters" / "chapters.toml").read_text(encoding="utf-8")
    assert not list((root / "data-pins" / "records").glob("*receipt*"))


def papermill(chapter: Path, out: Path, folder: Path, **parameters: str) -> subprocess.CompletedProcess[str]:
    given = [part for name, value in parameters.items() for part in ("-p", name, value)]
    command = [sys.executable, "-m", "papermill", str(chapter), str(out), "--no-progress-bar", *given]
    environment = {**os.environ, "TRACEAUDIT_SOURCE": ""}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def test_bare_papermill_runs_the_chapter(predictions, gold, tmp_path):
    """With a path relative to where it is called; and an archive gives the values that the folder gives."""
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        for path in sorted(predictions.iterdir()):
            if not path.is_symlink():
                archive.write(path, f"run/{path.name}")
    for folder, name in ((predictions.parent, "predictions"), (tmp_path, "p.zip")):
        done = papermill(CHAPTER, tmp_path / f"{name}.ipynb", folder, predictions=name, split="demo")
        assert done.returncode == 0, done.stderr[-800:]
    executed = [nbformat.read(tmp_path / f"{name}.ipynb", as_version=4) for name in ("predictions", "p.zip")]
    (by_folder, *_), (by_zip, *_) = (collect(notebook, "trail-receipt") for notebook in executed)
    assert by_folder["replies_digest"].raw == by_zip["replies_digest"].raw
    guards.raise_if(guards.check_shown("trail-receipt", executed[0], by_folder))
    assert {value.mode for value in by_folder.values()} == {"measured"}
    assert by_folder["joint"].raw == by_zip["joint"].raw


def test_bare_papermill_without_predictions_says_so(tmp_path):
    done = papermill(CHAPTER, tmp_path / "out.ipynb", tmp_path, split="demo")
    assert done.returncode != 0
    assert "no reply to a trace" in done.stderr


@pytest.mark.real
def test_the_page_of_a_real_judge(trail_source, tmp_path, root):
    import tarfile

    run_name = "outputs_openai-gemini-2.5-flash-GAIA-graph_causal_only_train"
    packed = root.parent / "shared/data/judges/outputs.tar.xz"
    with tarfile.open(packed) as archive:
        members = [member for member in archive if member.name.startswith(f"{run_name}/")]
        archive.extractall(tmp_path, members=members, filter="data")
    arguments = [str(tmp_path / run_name), "--split", "gaia", "--source", str(trail_source)]
    assert run(*arguments, "--engine", "independent", "--html", str(tmp_path / "one.html")) == 0
    shown = " ".join(text for _, text in Page((tmp_path / "one.html").read_text(encoding="utf-8")).text)
    for figure in ("0.2187", "0.1169", "0.5669", "181", "116", "54", "62"):
        assert figure in shown
    assert "Measured here" in shown
