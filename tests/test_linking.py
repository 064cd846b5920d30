"""Links of a page: every value to its row, every table to its files, and no link within a link."""

from __future__ import annotations

import nbformat
import pytest
from nbformat import v4

from traceaudit.linking import data_folder, link_tables, link_values, tables_of, told
from traceaudit.show import TABLE_MIME
from traceaudit.values import Value, count, score, text

A = '<span class="value" data-name="a">1</span>'
LONG = '<span class="value long" data-name="b">a long text</span>'
LISTING = '<details class="listing">\n<span id="v-a">`a`</span> <span id="v-b">`b`</span> ' + A + "\n</details>"
VALUES = {"a": count("a", 1, "errors", n=3), "b": text("b", "a long | text")}


def notebook(prose: str, *outputs: dict) -> nbformat.NotebookNode:
    cell = v4.new_code_cell("x", outputs=[v4.new_output("display_data", data=data) for data in outputs])
    return v4.new_notebook(cells=[v4.new_markdown_cell(prose), cell])


@pytest.mark.parametrize(
    ("prose", "linked"),
    [
        (f"Of {A} errors", True),
        (f"<p class='answer'>Of {LONG}</p>", True),
        (f'<a href="x.html">see {A}</a>', False),  # HTML link
        (f"[see {A}](x.html)", False),  # Markdown link
        (f'<a href="x.html">see</a> {A}', True),
        (f"[see](x.html) {A}", True),
        (f"a [ that closes nowhere\n\n{A}", True),  # a paragraph later
        ('<span class="value" data-name="c">1</span>', False),  # not listed
    ],
)
def test_a_value_in_prose_leads_to_its_row_unless_it_is_in_a_link(prose, linked):
    page = notebook(prose, {"text/markdown": LISTING})
    link_values(page, VALUES | {"c": count("c", 1, "errors")})
    assert ('class="value-link"' in page.cells[0].source) == linked
    if not linked:
        assert page.cells[0].source == prose


def test_a_table_links_its_values_and_the_listing_itself_does_not():
    page = notebook("x", {"text/markdown": f"| {A} | {LONG} |"}, {"text/markdown": LISTING})
    link_values(page, VALUES)
    table, listing = (output["data"]["text/markdown"] for output in page.cells[1].outputs)
    assert table.count('href="#v-a"') == 1 and table.count('href="#v-b"') == 1
    assert "a long | text" not in table and "a long &#124; text" in table  # a bar would end the cell
    assert listing == LISTING


def test_a_page_without_a_listing_keeps_its_values_as_they_are():
    page = notebook(A, {"text/markdown": A})
    link_values(page, VALUES)
    assert page.cells[0].source == A and page.cells[1].outputs[0]["data"]["text/markdown"] == A


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            score("s", 2 / 3, of="gold errors", n=3, dropped={"no reply": 2}),
            "raw 0.6666666666666666; share; gold errors; n 3; 2 left out: no reply; measured",
        ),
        (count("n", None, "errors"), "raw undefined; errors; measured"),
        (Value("t", "x" * 500, "x", mode="recalled"), f"raw '{'x' * 159}…; recalled"),
    ],
)
def test_a_value_is_told_in_one_line(value, words):
    assert told(value) == words


@pytest.mark.parametrize(
    ("page", "folder"), [("index.ipynb", "data/"), ("report/a.ipynb", "../data/"), ("a/b/c.ipynb", "../../data/")]
)
def test_the_way_to_the_data(page, folder):
    assert data_folder(page) == folder


def test_tables_are_named_once_and_lead_to_their_files():
    data = [{"text/markdown": "| a |", TABLE_MIME: {"caption": c, "columns": ["a"], "rows": []}} for c in CAPTIONS]
    page = notebook("x", *data, {"text/markdown": LISTING})
    link_tables(page, "report/a-demo.ipynb", "a.demo")
    assert list(tables_of(page)) == [
        "the-claim",
        "the-claim-2",
        "one-two-three-four-five-six-seven-eight-nine",
        "table",
    ]
    shown = [output["data"]["text/markdown"] for output in page.cells[1].outputs]
    assert 'href="../data/a.demo/the-claim-2.csv" download aria-label="The claim, as CSV"' in shown[1]
    assert 'href="../data/a.demo.json" download' in shown[-1]
    assert all(text.startswith("| a |\n\n<p") for text in shown[:-1])  # a blank line, or it would be a row


CAPTIONS = ("The claim", "The claim", "One two three four five six seven eight nine ten", "…")
