"""What a page shows: data stays text, tables keep their shape, figures their bytes, and banners tell the truth."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

import markdown_it
import pytest
import smalldocs.markdown
import yaml

from traceaudit import records, show, stored
from traceaudit.chapter import Chapter
from traceaudit.claims import Claim, Finding, Verdict
from traceaudit.records import Record
from traceaudit.values import Value, count, measure, text

READER = "markdown-smart"  # as in _quarto.yml; see test_the_site_is_read_without_typography
PARSER = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
RENDERERS = {"markdown-it": PARSER.render, "smalldocs": lambda source: smalldocs.markdown.render(source, {}, READER)}

# text from data -> what a reader shall see, where that is another text; one kind of markup a row
HOSTILE = {
    "<script>alert(1)</script>": "",
    "<img src=x onerror=alert(1)>": "",
    "</span></td></table></details>": "",  # closes what it stands in
    "<!- comment ->": "",
    '" onmouseover="alert(1)': "",  # leaves an attribute
    "&lt;b&gt; &#60;b&#62; &amp;": "",  # an entity is text too
    "a|b||c\\|d": "",  # would end a cell
    "`code` ``more``": "",
    "`{python} v.share`": "",  # inline code of ours
    "**b** __b__ *i* _i_ ~~s~~ ~u~ ^p^": "",
    "# heading": "",
    "1. item": "",
    "- item": "",
    "> quote": "",
    "[a](javascript:alert(1)) [b][c] [^1]": "",
    "![x](http://evil.example/x.png)": "",
    "http://a.example www.b.example a@b.example": "",  # links by themselves
    "{{< include /etc/passwd >}}": "",  # a shortcode
    "[@cite] @fig-x ?@x": "",
    "$x$ $$y$$ \\(z\\)": "",
    "::: {.callout-note}": "",
    "[x]{.y onclick=z}": "",
    "\\": "",
    "line\n\n# another": "line<U+000A><U+000A># another",
    "a\r\nb\tc": "a<U+000D><U+000A>b<U+0009>c",
    "\x1b[31mred\x1b[0m\x07": "<U+001B>[31mred<U+001B>[0m<U+0007>",  # ANSI
    "\x00\x7f\x9b": "<U+0000><U+007F><U+009B>",
    "\u202egnp\u202c \u2066x\u2069 \u200f\u200e": "<U+202E>gnp<U+202C> <U+2066>x<U+2069> <U+200F><U+200E>",  # direction
    "a\u200bb\ufeff\u2028\u2060": "a<U+200B>b<U+FEFF><U+2028><U+2060>",  # unseen
    "\ud800 \udfff": "<U+D800> <U+DFFF>",  # lone surrogates
    "\u65e5\u672c\u8a9e \u00e9 \U0001f600": "",  # ordinary text of the world
}
HTML = {"span", "table", "thead", "tbody", "tr", "th", "td", "div"}  # what a table with values is made of


class Page(HTMLParser):
    """Elements and text of a page."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def shown(monkeypatch) -> list[str]:
    """The Markdown outputs of the test, in order."""
    out: list[str] = []
    monkeypatch.setattr(show, "markdown", lambda text, beside=None: out.append(text))
    return out


# ------------------------------------------------------------------------------------------------ escaping


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)
def test_text_from_data_is_shown_as_it_is_and_makes_no_element(hostile, renderer):
    value = text("label", hostile)
    source = show._table(("what", "value"), [[show.escape(hostile), value]])
    source.encode("utf-8")  # no lone surrogate is left
    page = Page(RENDERERS[renderer](source))
    assert {tag for tag, _ in page.elements} <= HTML
    spans = [attributes for tag, attributes in page.elements if tag == "span"]
    assert [(span["data-name"], set(span)) for span in spans] == [("label", {"class", "data-name"})]
    assert [tag for tag, _ in page.elements].count("td") == 2
    assert page.text.count((HOSTILE[hostile] or hostile).strip()) == 2


@pytest.mark.parametrize("renderer", RENDERERS)
def test_text_from_data_in_prose_makes_no_element(renderer):
    for hostile in HOSTILE:
        page = Page(RENDERERS[renderer](f"Of all {show.inline(text('label', hostile))} is one."))
        assert [tag for tag, _ in page.elements] == ["p", "span"], ascii(hostile)


@pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)
def test_a_terminal_and_an_editor_see_nothing_but_plain_characters(hostile):
    assert all(character.isprintable() for character in show.escape(hostile))
    assert not set("<>\"'|`*\\") & set(show.escape(hostile))


@pytest.mark.parametrize(
    "unseen",
    [
        "\u061c",  # Arabic letter mark, a control of direction
        "\u00ad",  # soft hyphen
        "\u206e",  # deprecated format characters
        "\ufff9",  # interlinear annotation
        "\U000e0041",  # tags
    ],
    ids=ascii,
)
def test_other_unseen_characters_are_shown_by_their_code(unseen):
    assert f"U+{ord(unseen):04X}" in Page(show.escape(f"a{unseen}b")).text


def test_the_site_is_read_without_typography(root):
    config = yaml.safe_load((root / "_quarto.yml").read_text(encoding="utf-8"))
    assert config["format"]["html"]["from"] == READER


@pytest.mark.parametrize("plain", ["--judges", "a --- b", "<!-- x -->", "and so on..."])
def test_the_preview_does_not_set_data_in_other_characters(plain):
    page = Page(RENDERERS["smalldocs"](show._table(("what", "value"), [["x", text("label", plain)]])))
    assert plain in page.text


def test_a_long_value_may_break_and_a_short_one_may_not():
    assert '<span class="value" data-name="a">' in show.inline(text("a", "x" * 24))
    assert '<span class="value long" data-name="a">' in show.inline(text("a", "x" * 25))


# what -> its cell
CELLS = [
    (None, ""),
    ("plain **words**", "plain **words**"),  # fixed words may hold Markdown
    ("a | b\nc", "a &#124; b c"),  # and cannot break the table
    (count("n", 1234, "errors"), '<span class="value" data-name="n">1,234</span>'),
    (count("n", None, "errors"), '<span class="value" data-name="n">undefined</span>'),
    (Finding("P1", Verdict.HELD, "x"), '<span class="verdict held" data-finding="P1">HELD</span>'),
    (
        Finding("P1", Verdict.NOT_MEASURED, "x"),
        '<span class="verdict not-measured" data-finding="P1">NOT MEASURED</span>',
    ),
]


@pytest.mark.parametrize(("content", "cell"), CELLS)
def test_cells(content, cell):
    assert show.cell(content) == cell


# -------------------------------------------------------------------------------------------------- tables

# columns, rows, numeric -> the line under the heading
WIDTHS = [
    (("a", "b"), [["x", "y"]], 1, "| :---- | ----: |"),  # never less than four
    (("name", "n"), [["x" * 20, "y"]], 1, f"| :{'-' * 20} | ----: |"),  # as wide as the widest cell
    (("a heading", "n"), [["x", "y"]], 1, f"| :{'-' * 9} | ----: |"),  # or the heading
    (("a", "b"), [["x" * 500, "y"]], 1, f"| :{'-' * 44} | ----: |"),  # a wide one leaves room for the others
    (("a", "b"), [[text("n", "<" * 7), "y"]], 1, f"| :{'-' * 7} | ----: |"),  # markup and entities take no room
    (("a", "b", "c"), [["x", "y", "z"]], 0, "| ----: | ----: | ----: |"),  # all to the right
    (("a", "b", "c"), [["x", "y", "z"]], 3, "| :---- | :---- | :---- |"),  # none
    (("a", "b", "c"), [["x", "y", "z"]], {1}, "| :---- | ----: | :---- |"),  # this one alone
    (("a", "b"), [], 1, "| :---- | ----: |"),  # no row
]


@pytest.mark.parametrize(("columns", "rows", "numeric", "line"), WIDTHS)
def test_width_and_side_of_columns(columns, rows, numeric, line, shown):
    show.table(columns, rows, caption="A caption", numeric=numeric)
    assert shown[0].splitlines()[3] == line
    assert shown[0].startswith('<p class="caption">A caption</p>\n\n| ')


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_table_in_a_fold_is_a_table(renderer, shown):
    show.table(("a", "b"), [["x", "y"]], caption='of "a" < b', fold="All & more")
    page = Page(RENDERERS[renderer](shown[0]))
    names = [tag for tag, _ in page.elements if tag != "div"]
    assert names == ["details", "summary", "p", "table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]
    assert 'of "a" < b' in page.text and "All & more" in page.text


def test_findings_stand_in_the_order_given_with_their_words_escaped(shown):
    claims = {
        id: Claim(id, "trail", f"{id} <b>sentence</b>", "t", "2026-01-01", "exploration", "k", "c")
        for id in ("P1", "P2")
    }
    found = {"P2": Finding("P2", Verdict.LATENT, "a | b"), "P1": Finding("P1", Verdict.VIOLATED, "*c*")}
    show.findings(found, claims, caption="x")
    page = Page(RENDERERS["markdown-it"](shown[0]))
    rows = page.text.split("P2", 1)[1]
    assert rows.index("P2 <b>sentence</b>") < rows.index("a | b") < rows.index("P1 <b>sentence</b>")
    assert [attributes["href"] for tag, attributes in page.elements if tag == "a"] == ["#P2", "#P1"]
    assert {attributes.get("id") for tag, attributes in page.elements if tag == "span"} >= {"P1", "P2"}
    assert not {"b", "em"} & {tag for tag, _ in page.elements}


def test_a_table_is_given_as_data_beside_its_markdown(monkeypatch):
    out = []
    monkeypatch.setattr(show, "markdown", lambda text, beside=None: out.append(beside))
    finding = Finding("P1", Verdict.HELD, "0 of 3")
    row = [Value("share", 1 / 3, "0.333", unit="share", n=3), None, finding, "[**a** &lt;b&gt;](x.html) <i>`c`</i>"]
    show.table(("a", "b", "c", "d"), [row], caption="of it")
    assert out[0][show.TABLE_MIME] == {
        "caption": "of it",
        "columns": ["a", "b", "c", "d"],
        "rows": [
            [
                {"name": "share", "shown": "0.333", "raw": 1 / 3, "unit": "share", "n": 3},
                "",
                {"finding": "P1", "verdict": "HELD", "magnitude": "0 of 3"},
                "a <b> c",
            ]
        ],
    }


def test_a_signature_names_what_must_be_equal_and_nothing_that_is_absent():
    told = {"benchmark": "TRAIL", "split": "gaia", "commit": "c" * 40, "engine": "upstream", "versions": {"numpy": "2"}}
    assert show.signature(told) == "TRAIL · split gaia · commit cccccccccccc · engine upstream · numpy 2"
    assert show.signature({}) == ""


# a caption is one sentence, but it may hold the text of a value
BROKEN_OUT = 'x <b> "q"\n\n![x](http://evil.example/x.png)\n\n# y'


@pytest.mark.parametrize("part", ["caption", "fold"])
def test_a_caption_that_shows_a_value_makes_no_element(part, shown):
    show.table(("a",), [["x"]], **{"caption": "c", "fold": "f", part: BROKEN_OUT})
    page = Page(PARSER.render(shown[0]))
    assert not {"h1", "img", "b"} & {tag for tag, _ in page.elements}


# ---------------------------------------------------------------------------- banner, listing, provenance


@dataclass
class Study:
    """What the core asks of a study."""

    split: str = "gaia"
    source: str = "folder"
    has: frozenset[str] = frozenset({"gold", "scorer"})
    lacks: dict[str, str] = field(default_factory=dict)
    told: dict = field(default_factory=lambda: {"engine": "independent", "source": "folder"})

    def provenance(self):
        return dict(self.told)


@measure(needs={"gold"})
def of_gold(study):
    yield count("errors", 12, "errors", of="all | of them", n=12, dropped={"torn <b>": 2, "absent": 1})
    yield text("label", "<script>|`*")
    yield Finding("P1", Verdict.HELD, "none", ("errors",))


@measure(needs={"scorer"})
def of_scorer(study):
    yield count("lines", 3, "lines")


@measure()
def of_nothing(study):
    yield count("pins", 2, "files")
    yield Value("undefined_share", None, "undefined", unit="share")


MEASURES = (of_gold, of_scorer, of_nothing)


@pytest.fixture
def opened(tmp_path):
    """Makes a chapter, measured or recalled as its study allows; its record was made by another engine."""

    def make(study: Study) -> Chapter:
        items = [item for each in MEASURES for item in each(study)]
        record = Record(
            "a-chapter",
            study.split,
            provenance={"engine": "up*stream*", "source": "a <git> repository"},
            values={item.name: item for item in items if isinstance(item, Value)},
            findings={item.id: item for item in items if isinstance(item, Finding)},
        )
        path = records.path_of("a-chapter", study.split, tmp_path)
        records.save(record, path)
        listed = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
        (tmp_path / stored.DIGESTS).write_bytes(stored.dump_digests(listed))
        chapter = Chapter("a-chapter", study, root=tmp_path)
        chapter.measure(*MEASURES)
        return chapter

    return make


NO_GOLD = "2 of 3 gold files <are> not | here: *a*.json"
HOSTILE_STUDY = {"engine": "in*depend*ent", "source": "a <b>folder</b>", "empty": "", "none": None, "nothing": {}}

# study -> (class of the banner, its whole text, words of the provenance, words that are not in it)
BANNERS = {
    "measured": (
        Study(),
        "measured",
        "Measured here by independent, from a folder.",
        ("independent", "folder"),
        ("up*stream*", "recalled"),
    ),
    "measured, from an odd place": (
        Study(source="a <b>folder</b>", told=HOSTILE_STUDY),
        "measured",
        "Measured here by in*depend*ent, from a a <b>folder</b>.",
        ("in*depend*ent", "a <b>folder</b>"),
        ("empty", "none", "nothing"),  # what is empty is not shown
    ),
    "recalled": (
        Study(has=frozenset(), lacks={"gold": NO_GOLD, "scorer": "no scorer"}),
        "recalled",
        "Recalled. The benchmark's data was not at hand, so this page shows stored results, made earlier by "
        "up*stream*.",
        ("up*stream*", "a <git> repository"),
        ("independent",),
    ),
    "partly recalled": (
        Study(has=frozenset({"scorer"}), lacks={"gold": NO_GOLD}),
        "measured",
        f"Measured here by independent, from a folder. Part of it is recalled from the stored record: {NO_GOLD}.",
        ("independent", "measures: of_gold, engine: up*stream*, source: a <git> repository"),
        (),
    ),
    "demo": (
        Study(split="demo", source="built from a seed"),
        "demo",
        "Demo. An invented corpus with planted defects. Nothing on this page is about TRAIL.",
        ("independent",),
        (),
    ),
    "demo, whatever it lacks": (
        Study(split="demo", has=frozenset(), lacks={"gold": "x", "scorer": "y"}),
        "demo",
        "Demo. An invented corpus with planted defects. Nothing on this page is about TRAIL.",
        ("up*stream*",),
        (),
    ),
}


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("name", BANNERS)
def test_the_banner_says_how_the_page_got_its_values(name, renderer, opened, shown):
    study, kind, words, _, _ = BANNERS[name]
    show.banner(opened(study))
    page = Page(RENDERERS[renderer](shown[-1]))
    assert page.elements == [("p", {"class": f"banner {kind}"}), ("strong", {})]
    assert page.text.strip() == words


@pytest.mark.parametrize("name", BANNERS)
def test_provenance_says_what_the_values_rest_on(name, opened, shown):
    study, _, _, words, absent = BANNERS[name]
    show.provenance(opened(study))
    page = Page(RENDERERS["markdown-it"](shown[-1]))
    assert {tag for tag, _ in page.elements} <= HTML | {"details", "summary"}
    assert all(word in page.text for word in words)
    assert not any(word in page.text for word in absent)


@pytest.mark.parametrize("renderer", RENDERERS)
def test_the_listing_shows_every_value_with_what_was_left_out_and_its_mode(renderer, opened, shown):
    show.listing(opened(BANNERS["partly recalled"][0]))
    page = Page(RENDERERS[renderer](shown[-1]))
    assert {tag for tag, _ in page.elements} <= HTML | {"details", "summary", "code", "p"}
    names = [attributes["data-name"] for tag, attributes in page.elements if "data-name" in attributes]
    assert names == ["errors", "label", "lines", "pins", "undefined_share"]
    assert [tag for tag, _ in page.elements].count("td") == 5 * 7
    words = re.sub(r"\s+", " ", page.text)
    assert "Every value of this page (5)" in words
    assert "errors 12 12 errors, all | of them 12 1: absent; 2: torn <b> recalled" in words
    assert "label <script>|`* '<script>|`*' text recalled" in words
    assert "lines 3 3 lines measured" in words
    assert {attributes.get("id") for tag, attributes in page.elements} >= {f"v-{name}" for name in names}
    assert "Signature of each that was measured: " in words
    assert "undefined_share undefined undefined share measured" in words


def test_a_listing_of_nothing_is_empty(tmp_path, shown):
    show.listing(Chapter("a-chapter", Study(), root=tmp_path))
    assert "Every value of this page (0)" in shown[-1]
