"""The check of the rendered site: each row is one page that a renderer passes with exit code 0."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from traceaudit.errors import NothingToCheck, PinMismatch
from traceaudit.instances import Instance
from traceaudit.notebooks import to_bytes
from traceaudit.pages import Page, check_pages, compare_quarto, expected_from_quarto, expected_pages, html_of

GOOD = '<!doctype html><html><head><link rel="stylesheet" href="site.css"></head><body id="top">{}</body></html>'


def site(root: Path, body: str = "", *, css: str = "", name: str = "index.html") -> Path:
    """A site of one page under test, another page to link to, and a style sheet."""
    for path, content in {
        name: GOOD.format(body),
        "report/other.html": '<html><body><h2 id="there">x</h2><a name="old"></a></body></html>',
        "site.css": css,
        "image.svg": "<svg/>",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return root


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("<p>text</p>", None),
        ("<p><strong>?@tbl-x</strong></p>", "a reference is unresolved: ?@tbl-x"),
        ("<p>what?</p> <p>@ home</p>", None),
        ("<p><code>{python} v.a</code></p>", "inline code is left as text: {python} v.a"),
        ("<script>x = '{python}'</script>", None),  # not what a reader sees
        ("<p><strong>?var:version</strong></p>", "a shortcode is unresolved: ?var:version"),
        ("<p>?meta:title</p>", "a shortcode is unresolved: ?meta:title"),
        ("<p>?env:HOME</p>", "a shortcode is unresolved: ?env:HOME"),
        # fetched from elsewhere
        (
            '<script src="https://cdn.example.org/x.js"></script>',
            "fetched from elsewhere: https://cdn.example.org/x.js",
        ),
        ('<script src="//cdn.example.org/x.js"></script>', "fetched from elsewhere: //cdn.example.org/x.js"),
        ('<link rel="stylesheet" href="https://x.org/a.css">', "fetched from elsewhere"),
        ('<link rel="preconnect" href="https://fonts.example.org">', "fetched from elsewhere"),
        ('<link rel="canonical" href="https://x.org/">', None),  # named, not fetched
        ('<img src="https://x.org/badge.svg">', "fetched from elsewhere"),
        (
            '<img src="image.svg" srcset="image.svg 1x, https://x.org/2.png 2x">',
            "fetched from elsewhere: https://x.org/2",
        ),
        ('<iframe src="http://x.org"></iframe>', "fetched from elsewhere"),
        ('<object data="https://x.org/x.svg"></object>', "fetched from elsewhere"),
        ('<svg><image xlink:href="https://x.org/x.png"/></svg>', "fetched from elsewhere"),
        ('<p style="background: url(https://x.org/x.png)">', "fetched from elsewhere"),
        ("<style>@import 'https://x.org/a.css';</style>", "fetched from elsewhere: https://x.org/a.css"),
        ("<style>@import url(https://x.org/a.css);</style>", "fetched from elsewhere: https://x.org/a.css"),
        ('<img src="data:image/png;base64,AA//BB,https://">', None),  # inlined
        ('<a href="https://x.org/paper">paper</a>', None),  # a link to read
        # links
        ('<a href="report/other.html">x</a> <a href="./report/other.html?x=1#there">x</a>', None),
        ('<a href="report/other.html#old">x</a> <a href="#top">x</a> <a href="#">x</a> <a href="">x</a>', None),
        ('<a href="/report/other.html">x</a> <a href="mailto:a@b.c">x</a>', None),
        ('<a href="report/missing.html">x</a>', "a link leads nowhere: report/missing.html"),
        ('<a href="report/other.ipynb">x</a>', "a link leads nowhere: report/other.ipynb"),
        ('<a href="../outside.html">x</a>', "a link leads nowhere: ../outside.html"),
        ('<a href="#nowhere">x</a>', "an anchor that is not there: #nowhere"),
        ('<a href="report/other.html#nowhere">x</a>', "an anchor that is not there: report/other.html#nowhere"),
        ('<img src="missing.png">', "a link leads nowhere: missing.png"),
        ('<a href="report/%6Fther.html">x</a>', None),  # percent-encoded
    ],
)
def test_a_page(body, found, tmp_path):
    got = check_pages(site(tmp_path, body), ["index.ipynb"], {})
    assert len(got) == (found is not None), got
    assert found is None or found in got[0].what
    assert all(problem.file == "index.html" and problem.line for problem in got)


def test_links_are_relative_to_their_page(tmp_path):
    body = '<a href="other.html#there">x</a><a href="../index.html">x</a><a href="..">x</a>'
    site(tmp_path, body, name="report/page.html")
    (tmp_path / "index.html").write_text("<html></html>")
    got = [str(p) for p in check_pages(tmp_path, [], {})]
    assert got == ["report/page.html, line 1: a link leads nowhere: site.css"]  # it is one folder up


@pytest.mark.parametrize(
    ("css", "found"),
    [
        ("body { color: red }", 0),
        ("@font-face { src: url('fonts/a.woff2') }", 0),
        ("@font-face { src: url('https://x.org/a.woff2') }", 1),
        ('@import "https://x.org/a.css";', 1),
        ("@import url(//x.org/a.css);", 1),
        ("/* url(https://x.org/licence) */", 0),  # a comment
        ("a { background: url(data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'%3E) }", 0),
    ],
)
def test_a_style_sheet(css, found, tmp_path):
    got = check_pages(site(tmp_path, css=css), [], {})
    assert len(got) == found and all(problem.file == "site.css" for problem in got)


def test_a_missing_page_is_named(tmp_path):
    got = check_pages(site(tmp_path), ["index.ipynb", "report/trail-headline-gaia.ipynb"], {})
    assert [str(problem) for problem in got] == ["report/trail-headline-gaia.html: the page is missing"]


def test_an_empty_site_is_all_missing(tmp_path):
    assert len(check_pages(tmp_path / "nothing", ["index.ipynb"], {})) == 1


SPAN = '<span class="value" data-name="{}">1</span>'


def notebook(tmp_path: Path, prose: str, *outputs, tags: tuple[str, ...] = ()) -> Path:
    cells = [nbformat.v4.new_markdown_cell(prose, id="prose")]
    cells.append(nbformat.v4.new_code_cell("1", outputs=list(outputs), id="code", metadata={"tags": list(tags)}))
    path = tmp_path / "executed.ipynb"
    path.write_bytes(to_bytes(nbformat.v4.new_notebook(cells=cells)))
    return path


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ((), ["index.ipynb: its page lost a value: b"]),  # a is on the page, b is not
        (("remove-cell",), []),  # what is hidden need not be there
    ],
)
def test_every_value_of_a_notebook_is_on_its_page(tags, found, tmp_path):
    output = nbformat.v4.new_output("display_data", data={"text/html": SPAN.format("b")})
    path = notebook(tmp_path, SPAN.format("a"), output, tags=tags)
    got = check_pages(site(tmp_path / "site", SPAN.format("a")), [], {"index.ipynb": path})
    assert [str(problem) for problem in got] == found


def test_an_error_output_is_found(tmp_path):
    output = nbformat.v4.new_output("error", ename="KeyError", evalue="x", traceback=[])
    got = check_pages(site(tmp_path / "site"), [], {"index.ipynb": notebook(tmp_path, "", output)})
    assert [str(problem) for problem in got] == ["index.ipynb, cell 1: the notebook holds an error output: KeyError"]


def test_a_missing_notebook_is_found(tmp_path):
    got = check_pages(site(tmp_path), [], {"index.ipynb": tmp_path / "gone.ipynb"})
    assert [problem.what for problem in got] == ["the executed notebook is missing"]


def test_a_page_is_read_as_a_browser_would():
    page = Page("<p data-name=a>x &#63;@</p><SCRIPT>'<p id=no>'</SCRIPT><p ID='yes'>")
    assert page.names == {"a"} and page.anchors == {"yes"}
    assert [text for _, text in page.text if text.strip()] == ["x ?@"]


def test_where_a_renderer_puts_a_page():
    assert html_of("report/a.ipynb") == "report/a.html" and html_of("about.qmd") == "about.html"


# ------------------------------------------------------------------------------------------- _quarto.yml

INSTANCES = [
    Instance("overview", "all", "Overview", "index.ipynb"),
    Instance("trail", "gaia", "TRAIL", "report/trail-gaia.ipynb"),
]
QUARTO = """
project:
  type: website
  render:
    - index.ipynb
    - report/trail-gaia.ipynb
website:
  navbar:
    left:
      - text: Code
        href: https://x.org/repository
  sidebar:
    - title: Report
      contents:
        - index.ipynb
        - section: TRAIL
          contents:
            - text: GAIA
              href: report/trail-gaia.ipynb
"""


def test_what_a_project_file_expects(tmp_path):
    (tmp_path / "_quarto.yml").write_text(QUARTO)
    pages = ["index.ipynb", "report/trail-gaia.ipynb"]
    assert expected_from_quarto(tmp_path / "_quarto.yml") == (pages, pages)
    (tmp_path / "_quarto.yml").write_text(QUARTO.replace("    - index.ipynb\n", '    - "*.md"\n    - about.qmd\n', 1))
    assert expected_pages(tmp_path / "_quarto.yml", INSTANCES) == [*pages, "about.qmd"]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", []),
        ("    - report/trail-gaia.ipynb\n", "", ["the render list lacks report/trail-gaia.ipynb"]),
        ("    - report/trail-gaia.ipynb\n", "    - report/*.ipynb\n", []),  # a glob that fits
        (
            "    - report/trail-gaia.ipynb\n",
            '    - report/*.ipynb\n    - "!report/trail-gaia.ipynb"\n',
            ["the render list lacks report/trail-gaia.ipynb"],
        ),
        (
            "    - index.ipynb\n",
            "    - index.ipynb\n    - report/old.ipynb\n",
            ["the render list names a page no chapter makes: report/old.ipynb"],
        ),
        ("    - index.ipynb\n", "    - index.ipynb\n    - about.qmd\n", []),  # a source beside it
        (
            "    - index.ipynb\n",
            "    - index.ipynb\n    - missing.qmd\n",
            ["the render list names a page no chapter makes: missing.qmd"],
        ),
        (
            "href: report/trail-gaia.ipynb",
            "href: report/trail-giaa.ipynb",
            [
                "the sidebar lacks report/trail-gaia.ipynb",
                "the sidebar names a page no chapter makes: report/trail-giaa.ipynb",
            ],
        ),
        ("        - index.ipynb\n", "", ["the sidebar lacks index.ipynb"]),
    ],
)
def test_project_file_and_chapters_are_held_equal(old, new, found, tmp_path):
    assert old in QUARTO
    (tmp_path / "about.qmd").write_text("# About")
    (tmp_path / "_quarto.yml").write_text(QUARTO.replace(old, new, 1) if old else QUARTO)
    assert [problem.what for problem in compare_quarto(tmp_path / "_quarto.yml", INSTANCES)] == found


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (None, NothingToCheck),  # absent
        ("a: [", PinMismatch),
        ("- a", PinMismatch),
        ("", PinMismatch),
    ],
)
def test_a_broken_project_file(content, kind, tmp_path):
    if content is not None:
        (tmp_path / "_quarto.yml").write_text(content)
    with pytest.raises(kind):
        expected_from_quarto(tmp_path / "_quarto.yml")
