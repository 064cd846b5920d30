"""What a finished site gives away: records and tables as files, a foot on each page, and citations."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess

import pytest
from nbformat import v4

from traceaudit.chapter import EMITTED, FINDING_MIME, PROVENANCE_MIME
from traceaudit.claims import Finding, Verdict
from traceaudit.errors import GuardFailed
from traceaudit.finishing import Commit, bibtex, commit_of, finish, table_csv, values_csv
from traceaudit.instances import Instance
from traceaudit.linking import link_tables
from traceaudit.notebooks import to_bytes
from traceaudit.records import Record
from traceaudit.show import TABLE_MIME
from traceaudit.values import MIME, Value, count, score

VALUES = [
    score("share", 1 / 3, of="errors", n=3, dropped={"torn": 2}, measure="m"),
    count("none", None, "errors", measure="m"),
    Value("formula", "=1+1", "=1+1", measure="m", mode="recalled"),
]
EACH = Instance("a", "demo", "A: demo", "report/a-demo.ipynb")
COMMIT = Commit("0123456789abcdef", changed=True)


def page_of(values: list[Value]):
    told = {"engine": "upstream", "engine_says": "the <pinned> scorer", EMITTED: len(values) + 1}
    finding = Finding("P1", Verdict.HELD, "0 of 3", ("share",), measure="m")
    table = {
        "caption": "The rows",
        "columns": ["what", "share"],
        "rows": [["-x", _cell(VALUES[0])], ["y", _cell(VALUES[1])]],
    }
    outputs = [
        *({MIME: {**value.as_json(), "name": value.name, "mode": value.mode}} for value in values),
        {FINDING_MIME: {**finding.as_json(), "id": "P1", "mode": "measured"}},
        {TABLE_MIME: table, "text/markdown": "| |"},
        {PROVENANCE_MIME: told},
    ]
    cell = v4.new_code_cell("x", outputs=[v4.new_output("display_data", data=data) for data in outputs])
    notebook = v4.new_notebook(cells=[cell])
    notebook.cells[0].id = "a"
    link_tables(notebook, EACH.page, EACH.id)
    return notebook


def _cell(value: Value) -> dict:
    return {"name": value.name, "shown": value.shown, "raw": value.raw, "unit": value.unit, "n": value.n}


@pytest.fixture
def site(tmp_path):
    """A project of one page, rendered by nobody: ``root`` and its ``_site``."""
    (tmp_path / "_site" / "report").mkdir(parents=True)
    (tmp_path / "report").mkdir()
    (tmp_path / EACH.page).write_bytes(to_bytes(page_of(VALUES)))
    (tmp_path / "_site/report/a-demo.html").write_text("<main><p>x</p></main></body>", encoding="utf-8")
    return tmp_path


def read(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode())))


def test_the_files_hold_what_the_page_recorded(site):
    finish(site, site / "_site", instances=[EACH], commit=COMMIT)
    data = site / "_site" / "data"
    record = json.loads((data / "a.demo.json").read_bytes())
    assert {name: value["raw"] for name, value in record["values"].items()} == {v.name: v.raw for v in VALUES}
    assert record["values"]["formula"]["mode"] == "recalled" and record["findings"]["P1"]["verdict"] == "HELD"
    rows = read((data / "a.demo.csv").read_bytes())
    assert rows[1] == ["share", "0.333", "0.3333333333333333", "share", "errors", "3", "2: torn", "measured"]
    assert rows[2][:3] == ["none", "undefined", ""]
    assert rows[3][1] == "'=1+1"  # no spreadsheet runs it
    assert read((data / "a.demo/the-rows.csv").read_bytes()) == [
        ["what", "share"],
        ["'-x", "0.3333333333333333"],
        ["y", ""],
    ]
    assert json.loads((data / "a.demo/the-rows.json").read_bytes())["rows"][1][1]["raw"] is None


def test_the_site_says_what_it_was_built_from(site):
    build = finish(site, site / "_site", instances=[EACH], commit=COMMIT)
    assert build == json.loads((site / "_site/data/build.json").read_bytes())
    assert (build["commit"], build["changed"]) == (COMMIT.name, True)
    page = build["pages"]["report/a-demo.html"]
    assert (page["mode"], page["engine"], page["record"]) == ("partly recalled", "upstream", "a.demo.json")


def test_the_foot_names_commit_and_engine_and_a_second_time_changes_nothing(site):
    path = site / "_site/report/a-demo.html"
    finish(site, site / "_site", instances=[EACH], commit=COMMIT)
    once = path.read_bytes()
    assert b"Commit 0123456789ab, with changes" in once and b"(partly recalled)" in once
    assert b'engine: <span class="raw">the &#60;pinned&#62; scorer</span>' in once
    assert once.endswith(b"</footer>\n</main></body>") and b'href="../data/a.demo.csv"' in once
    finish(site, site / "_site", instances=[EACH], commit=COMMIT)
    assert path.read_bytes() == once
    finish(site, site / "_site", instances=[EACH], commit=Commit())
    assert b"Commit not known" in path.read_bytes() and path.read_bytes().count(b"<footer") == 1


def test_a_page_without_a_main_part_is_an_error(site):
    (site / "_site/report/a-demo.html").write_text("<p>x</p>", encoding="utf-8")
    with pytest.raises(GuardFailed, match="no main part"):
        finish(site, site / "_site", instances=[EACH], commit=COMMIT)


def test_files_of_a_page_that_is_gone_go_too(site):
    finish(site, site / "_site", instances=[EACH], commit=COMMIT)
    (site / "_site/data/old.demo.json").write_text("{}", encoding="utf-8")
    finish(site, site / "_site", instances=[EACH], commit=COMMIT)
    assert not (site / "_site/data/old.demo.json").exists()


@pytest.mark.parametrize("value", ["\ud800", "a\nb", 'a"b,c', "\u202egnp"])
def test_any_text_can_be_taken_away(value):
    record = Record("a", "demo", provenance={}, values={"t": Value("t", value, value)}, findings={})
    (_, row) = read(values_csv(record))
    assert row[2] == value.encode("utf-8", "backslashreplace").decode()


def test_a_table_gives_findings_as_verdicts_and_numbers_unrounded():
    finding = {"finding": "P1", "verdict": "HELD", "magnitude": "x"}
    rows = [[finding, {"name": "a", "raw": 1e-17}, {"name": "b", "raw": -3}, "@x"]]
    assert read(table_csv({"columns": ["a", "b", "c", "d"], "rows": rows}))[1] == ["HELD", "1e-17", "-3", "'@x"]


def test_the_commit_of_a_tree(tmp_path):
    assert commit_of(tmp_path) == Commit()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    (tmp_path / "x").write_text("1", encoding="utf-8")
    for step in (["init", "-q"], ["add", "x"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *step], check=True)
    clean = commit_of(tmp_path)
    assert len(clean.name) == 40 and not clean.changed and str(clean) == clean.name[:12]
    (tmp_path / "x").write_text("2", encoding="utf-8")
    assert commit_of(tmp_path).changed
    shutil.rmtree(tmp_path / ".git")
    assert str(commit_of(tmp_path)) == "not known"


def test_the_citation_in_bibtex(root):
    text = bibtex(root / "CITATION.cff", Commit("abc"))
    assert text.startswith("@software{traceaudit,\n") and "note = {commit abc}" in text
    assert "@misc{trail,\n" in text and "author = {Deshpande, Darshan" in text and "arxiv.org/abs/2505.08638" in text
    assert text.count("{") == text.count("}")
