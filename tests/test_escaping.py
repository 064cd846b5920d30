"""Text from data, wherever a page shows it: the reader sees the same text, and no element that the page did not mean.

Every place that shows such text is rendered by two Markdown readers, the preview's own and a plain CommonMark one. Each
kind of trouble stands in a table, and any other text comes from Hypothesis.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import markdown_it
import pytest
import smalldocs.markdown
from hypothesis import given, settings
from hypothesis import strategies as st

from traceaudit import show
from traceaudit.chapter import Chapter
from traceaudit.claims import Claim, Finding, Verdict
from traceaudit.linking import link_tables, link_values
from traceaudit.trail import receipt_page
from traceaudit.values import MIME, Value, count, measure, text

from .site.hostile_support import PAYLOADS

PLAIN = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
RENDERERS: Mapping[str, Callable[[str], str]] = {
    "markdown-it": PLAIN.render,
    "smalldocs": lambda source: smalldocs.markdown.render(source, {}, "markdown-smart"),
}
HARMLESS = "harmless"
VOID = {"br", "col", "hr", "img", "input", "meta", "link"}

# What no reader can see or what moves the text around it, as ranges of code points; held against the library's own.
UNSEEN = (
    *((0x0, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5)),
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xD800, 0xDFFF)),
    *((0xFE00, 0xFE0E), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0xFFFE, 0xFFFF), (0xE0000, 0xE0FFF)),
)
texts = st.text(st.characters(exclude_categories=()), max_size=40) | st.text(
    "<>&\"'`|*_[](){}#!-:.\\/$@~^=+ \n\tax1", max_size=40
)


class Page(HTMLParser):
    """A page as its elements in order, with the names of their attributes, and as what is read.

    Attributes:
        elements: Each start tag: name and the names of its attributes.
        text: Everything between tags.
        told: Every attribute's value.
        problems: End tags that end nothing, and elements left open.
    """

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.text, self.told, self.problems, self._open = "", [], [], []
        self.feed(source)
        self.close()
        self.problems += self._open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(sorted(name for name, _ in attrs))))
        self.told += [value or "" for _, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.problems.append(f"/{tag}")

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        self.problems.append(f"comment {data}")

    def handle_decl(self, decl):
        self.problems.append(f"declaration {decl}")

    handle_pi = unknown_decl = handle_decl


def visible(said: str) -> str:
    """A text as a page shows it, by the table above and without the library: codes, and at most 4 marks a letter."""
    out, marks = [], 0
    for each in said:
        mark = re.match(r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]", each)
        marks = marks + 1 if mark else 0
        code = ord(each)
        seen = not any(low <= code <= high for low, high in (*UNSEEN, (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A)))
        out.append(each if seen and marks <= 4 else f"<U+{code:04X}>")
    return "".join(out)


def squeezed(said: str) -> str:
    """Without white space, which HTML does not keep."""
    return re.sub(r"\s", "", said)


# ------------------------------------------------------------------------------------------------ every place


@dataclass
class Study:
    """What the core asks of a study; all of it said by somebody else."""

    said: str
    split: str = "gaia"
    has: frozenset[str] = frozenset({"gold"})
    lacks: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.said

    def provenance(self) -> dict[str, Any]:
        said = self.said
        return {
            "engine": said,
            "engine_says": said,
            "benchmark": said,
            f"key {said}": {said: said},
            "lacks": self.lacks,
        }


def chapter_of(said: str) -> Chapter:
    """A chapter that measured values whose every word is ``said``, and lacks something for that reason."""

    @measure(needs={"gold"})
    def strange(study: Study):
        more = {"of": said, "n": 3, "dropped": {said: 2, f"{said} again": 1}}
        yield Value("label", said, said, unit=said, **more)
        yield count("errors", 12, said, **more)

    chapter = Chapter("strange", Study(said))
    for item in strange(chapter.study):
        chapter.values.add(item)
    chapter._modes["strange"] = "measured"
    return chapter


def claim(said: str) -> Claim:
    return Claim("P1", "trail", said, "t", "2026-01-01", "exploration", "k", "c")


FINDING = Verdict.LATENT
# place -> what shows a text there
PLACES: Mapping[str, Callable[[str], None]] = {
    "cell": lambda said: show.table(("a", "b"), [[show.escape(said), "x"]], caption="c"),
    "value": lambda said: show.table(("a", "b"), [[text("label", said), "x"], ["y", "z"]], caption="c"),
    "prose": lambda said: show.markdown(f"Of all {show.inline(text('label', said))} is one."),
    "emphasis": lambda said: show.markdown(f"**x{show.escape(said)}x** and *{show.inline(text('label', said))}*"),
    "item": lambda said: show.markdown(f"* one {show.escape(said)}\n* two"),
    "caption": lambda said: show.table(("a",), [["x"]], caption=f"c {said}"),
    "fold": lambda said: show.table(("a",), [["x"]], caption="c", fold=f"All of {said}"),
    "findings": lambda said: show.findings({"P1": Finding("P1", FINDING, said)}, {"P1": claim(said)}, caption="c"),
    "banner": lambda said: show.banner(chapter_of(said)),
    "listing": lambda said: show.listing(chapter_of(said)),
    "provenance": lambda said: show.provenance(chapter_of(said)),
    "tooltip": lambda said: linked(said),
}


def linked(said: str) -> None:
    """A value that leads to its row and tells of itself in a tooltip, and a table with its links."""
    values = {"label": Value("label", said, said, unit=said, of=said, dropped={said: 1})}
    listing = '<details class="listing">\n\n<span id="v-label">x</span>\n</details>'
    table = {"caption": said, "columns": ["a"], "rows": [["x"]]}
    outputs = [
        {"data": {"text/markdown": f"Prose {show.inline(values['label'])}", show.TABLE_MIME: table}},
        {"data": {"text/markdown": listing}},
    ]
    notebook = Cells(cells=[Cells(cell_type="code", source="", outputs=outputs)])
    link_values(notebook, values)
    link_tables(notebook, "report/a.ipynb", "a.gaia")
    for output in outputs:
        show.markdown(output["data"]["text/markdown"])


class Cells(dict):
    """A notebook's node: keys that are attributes too."""

    __getattr__ = dict.__getitem__


@pytest.fixture(scope="module")
def shown_at():
    """Makes the Markdown that a place shows for a text."""

    def make(place: str, said: str) -> str:
        out: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(show, "markdown", lambda source, beside=None: out.append(source))
            PLACES[place](said)
        return "\n\n".join(out)

    return make


def check(source: str, twin: str, seen: str) -> None:
    """Rendered, a source has the elements of its twin, ends each, and shows the text as it shall be seen."""
    source.encode("utf-8")  # no lone surrogate is left
    for name, render in RENDERERS.items():
        page, other = Page(render(source)), Page(render(twin))
        assert page.elements == other.elements, name
        assert page.problems == other.problems == [], name
        assert squeezed(seen) in squeezed(page.text + "\0".join(page.told)), name
        assert not any(visible(each) != each for each in page.text if each != "\n"), name


def twin_of(said: str) -> str:
    """A harmless text that is as long on the page."""
    return HARMLESS * (len(visible(said)) // len(HARMLESS) + 1)


LINES = ("caption", "fold")  # one line of ours with a figure in it: what cannot be shown is a blank there


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_text_is_text_in_every_place(shown_at, place, payload):
    said = PAYLOADS[payload]
    seen = "".join(each for each in said if visible(each) == each) if place in LINES else visible(said)
    check(shown_at(place, said), shown_at(place, twin_of(said)), seen)


@pytest.mark.parametrize("place", [place for place in PLACES if place not in LINES])
@settings(max_examples=25, deadline=None)
@given(said=texts)
def test_any_text_is_text_in_every_place(shown_at, place, said):
    if said.strip():  # an empty cell is an empty cell
        check(shown_at(place, said), shown_at(place, twin_of(said)), visible(said))


# --------------------------------------------------------------------------------------------------- escaping


@settings(max_examples=300, deadline=None)
@given(texts)
def test_escaping_keeps_a_text(said):
    shown = show.escape(said)
    assert html.unescape(shown) == visible(said)
    assert not set("<>\"'|`*\\$[]{}\n") & set(shown)


def test_what_is_unseen_is_shown_and_all_else_is_left_alone():
    for low, high in UNSEEN:
        for code in (low, high):
            assert html.unescape(show.escape(f"a{chr(code)}b")) == f"a<U+{code:04X}>b"
    for seen in ("\xa0", "\u0600", "\u2027", "\u20ac", "\u3042", "\ufb1d", "\U0001f600", "e\u0301", "\u05d0"):
        assert html.unescape(show.escape(seen)) == seen


# marks on one letter -> how many stay marks
MARKS = [(0, 0), (1, 1), (4, 4), (5, 4), (300, 4)]


@pytest.mark.parametrize(("marks", "kept"), MARKS)
def test_a_tower_of_marks_does_not_grow(marks, kept):
    shown = html.unescape(show.escape("a" + "\u0301" * marks + "b\u0301"))
    assert Counter(shown)["\u0301"] == kept + 1
    assert shown.count("<U+0301>") == marks - kept


# a value's text -> whether it may break: a code takes eight characters
BREAKS = [("x" * 24, False), ("x" * 25, True), ("\x00" * 3, False), ("\x00" * 4, True), ("<" * 24, False)]


@pytest.mark.parametrize(("said", "may"), BREAKS, ids=ascii)
def test_a_text_that_is_long_as_shown_may_break(said, may):
    assert ('class="value long"' in show.inline(text("label", said))) is may


# ------------------------------------------------------------------------------------------------ figures, files


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("part", ["alt", "caption"])
def test_the_words_of_a_figure_make_no_element(part, payload):
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("IPython.display.display", lambda data, **_: found.append(data["text/markdown"]))
        words = {"alt": "A sentence of ours.", "caption": "One of ours."}
        show.figure(lambda axes: None, **words | {part: f"It says {PAYLOADS[payload]} here."}, size=(2, 1))
    for render in RENDERERS.values():
        names = [name for name, _ in Page(render(found[0])).elements]
        assert [name for name in names if name not in ("p", "div")] == ["figure", "img", "figcaption"]


# --------------------------------------------------------------------------------------------------- receipt


def cell(kind: str, said: str) -> dict[str, Any]:
    """A code cell with one output of a kind, or the code itself."""
    outputs = {
        "code": [],
        "stream": [{"output_type": "stream", "name": "stdout", "text": said}],
        "plain": [{"output_type": "display_data", "data": {"text/plain": said}}],
        "html": [{"output_type": "display_data", "data": {"text/html": said, "text/plain": said}}],
        "error": [{"output_type": "error", "ename": said, "evalue": said, "traceback": [said]}],
        "value": [{"output_type": "display_data", "data": {MIME: {"raw": said}, "text/plain": said}}],
        "markdown": [{"output_type": "display_data", "data": {"text/markdown": show.inline(text("label", said))}}],
    }[kind]
    return {"cell_type": "code", "source": said if kind == "code" else "x = 1", "outputs": outputs}


@pytest.mark.parametrize("kind", ["code", "stream", "plain", "html", "error", "value", "markdown"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_receipt_shows_whatever_a_cell_holds_as_text(kind, payload):
    said = PAYLOADS[payload]
    page, twin = (Page(receipt_page.render({"cells": [cell(kind, each)]})) for each in (said, "harmless"))
    assert page.elements == twin.elements
    assert page.problems == ["declaration DOCTYPE html"]
    if kind not in ("error", "value"):
        kept = "" if kind == "markdown" else "\n\t"  # what stands in lines keeps them
        seen = "".join(part if part in kept else visible(part) for part in re.split(r"([\n\t])", said))
        assert squeezed(seen) in squeezed(page.text)
    assert not [each for each in page.text if visible(each) != each and each not in "\n\t"]


@settings(max_examples=60, deadline=None)
@given(said=texts, kind=st.sampled_from(["code", "stream", "plain", "markdown"]))
def test_a_receipt_shows_any_text(said, kind):
    page = receipt_page.render({"cells": [cell(kind, f"x {said}")]})
    page.encode("utf-8")
    assert [name for name, _ in Page(page).elements][:6] == ["html", "head", "meta", "meta", "meta", "title"]
    assert not {"script", "iframe", "img", "a", "b"} & {name for name, _ in Page(page).elements}


# a title -> nothing of it acts
TITLES = ["</title><script>1</script>", "a & b", "\u202ex", "<!-- "]


@pytest.mark.parametrize("title", TITLES, ids=ascii)
def test_a_receipts_title_is_text(title):
    page = receipt_page.render({"cells": [{"cell_type": "markdown", "source": f"# {show.escape(title)}\n"}]})
    found = Page(page)
    assert [name for name, _ in found.elements].count("title") == 1
    assert not {"script"} & {name for name, _ in found.elements}
    assert found.problems == ["declaration DOCTYPE html"]
