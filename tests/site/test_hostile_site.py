"""Nothing a stranger wrote runs or breaks a page: the real chapters over a hostile demo, opened in a browser.

Each page is held against its twin, the same chapter over harmless texts: what data can change is text, never an
element, an attribute's name, a script or the place of what stands beside it.
"""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from traceaudit import guards, pages, show
from traceaudit.finishing import Commit, finish
from traceaudit.instances import Instance

from . import hostile_support
from .browser_support import CHROMIUM, DESKTOP, MISSING, PHONE, Watched, serve
from .hostile_support import INSTANCES, PAYLOADS, RECEIPT, Made

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]  # Quarto takes its time over two sites

MADE = [*INSTANCES, RECEIPT]
TAKEN = {  # renderer -> chapters; one takes so long over a page that it gets those that show strangers' texts
    "preview": {each.chapter for each in MADE},
    "quarto": {"trail-corpus", "trail-judges", "trail-category-f1", "trail-receipt"},
}
RECEIPT_PAGE = "receipt.html"
WIDTHS = (DESKTOP["width"], PHONE["width"])
OWN_LINKS = ("https://quarto.org/",)  # one renderer names itself at the foot
SAME_LINE = 2  # pixels that two words of one line may differ by in height
WIDER = 3.0  # a table may be so many times as wide as its twin, since hostile texts are longer
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")

# The page as its elements: names, names of attributes and classes, in order. A long value has a class of its own, and a
# table may have its columns' widths or not.
SKELETON = """() => {
  const walk = (element) => [
    element.tagName,
    [...element.attributes].map((each) => each.name).sort().join(' '),
    [...element.classList].filter((each) => each !== 'long' && !each.startsWith('headroom')).sort().join(' '),
    [...element.children].filter((each) => each.tagName !== 'COLGROUP').map(walk),
  ];
  return JSON.stringify(walk(document.documentElement));
}"""

SEEN = """() => {
  const every = [...document.querySelectorAll('*')];
  for (const each of document.querySelectorAll('details')) each.open = true;
  const box = (element) => { const r = element.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  const values = [...document.querySelectorAll('main .value')];
  const plain = (text) => text.replaceAll('../', '');
  return {
    pwned: window.__pwned ?? null,
    text: document.body.textContent,
    handlers: every.flatMap((e) => [...e.attributes].filter((a) => a.name.startsWith('on'))
      .map((a) => `${e.tagName} ${a.name}=${a.value}`)),
    scripts: [...document.scripts].map((e) => plain(e.outerHTML)),
    links: every.flatMap((e) => ['href', 'src', 'action', 'srcdoc'].filter((name) => e.hasAttribute(name))
      .map((name) => [e.tagName, e.getAttribute(name)])),
    width: document.scrollingElement.scrollWidth,
    right: every.filter((e) => getComputedStyle(e).direction !== 'ltr').map((e) => e.tagName),
    rows: [...document.querySelectorAll('main tr')].filter((row) => getComputedStyle(row).display === 'table-row')
      .map((row) => [...row.cells].map((cell) => box(cell)[0])),
    tables: [...document.querySelectorAll('main table')].map((table) => table.offsetWidth),
    open: values.filter((e) => !['isolate', 'isolate-override'].includes(getComputedStyle(e).unicodeBidi)).length,
    lines: [...new Set(values.map((e) => e.closest('p, li, td')).filter(Boolean))].map(
      (block) => [...block.querySelectorAll('.value')].map(box)),
  };
}"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[bool, Made]:
    """Both corpora's projects, not rendered yet."""
    if shutil.which(CHROMIUM) is None:
        pytest.skip(MISSING)
    return hostile_support.make(tmp_path_factory.mktemp("hostile"))


@dataclass(frozen=True)
class Sites:
    """Both corpora's projects, rendered and finished.

    Attributes:
        roots: Whether its texts are hostile -> project; its ``_site`` also holds the receipt that is sent by itself.
        instances: The chapters on it.
    """

    roots: Mapping[bool, Path]
    instances: tuple[Instance, ...]


def render(made: Made, renderer: str, instances: tuple[Instance, ...]) -> Path:
    """A rendered and finished copy of a project."""
    root = made.root.with_name(f"{made.root.name}-{renderer}")
    shutil.copytree(made.root, root)
    config = yaml.safe_load((root / "_quarto.yml").read_text(encoding="utf-8"))
    config["project"]["render"] = ["index.md", *(each.page for each in instances)]
    (root / "_quarto.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    command = {"preview": Path(sys.executable).with_name("smalldocs"), "quarto": shutil.which("quarto")}[renderer]
    done = subprocess.run([str(command), "render"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    finish(root, root / "_site", instances=instances, commit=Commit())
    (root / "_site" / RECEIPT_PAGE).write_text(made.receipt, encoding="utf-8")
    return root


@pytest.fixture(
    scope="module",
    params=["preview", pytest.param("quarto", marks=[pytest.mark.quarto, pytest.mark.slow])],
)
def sites(request, made) -> Sites:
    """Both projects, once per renderer."""
    if request.param == "quarto" and shutil.which("quarto") is None:
        pytest.skip("quarto is not on this machine")
    taken = tuple(each for each in MADE if each.chapter in TAKEN[request.param])
    return Sites({hostile: render(each, request.param, taken) for hostile, each in made.items()}, taken)


class Wary(Watched):
    """A watched page that also notices a dialog or a window that opens."""

    def __init__(self, context: Any, base: str) -> None:
        super().__init__(context, base)
        self.page.on("dialog", lambda dialog: (self.noticed.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("popup", lambda other: self.noticed.append(f"window: {other.url}"))

    def look(self, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Open a page and look at it in each width, its folds opened; what is noticed until then belongs to each."""
        noticed = self.open(name)
        skeleton = self.page.evaluate(SKELETON)
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": DESKTOP["height"]})
            seen = self.page.evaluate(SEEN)
            yield width, {**seen, "base": f"{self.base}/", "skeleton": skeleton, "noticed": noticed}


@dataclass(frozen=True)
class Looked:
    """What a browser saw and noticed.

    Attributes:
        seen: (hostile, width, page) -> what it saw.
        names: The pages of chapters, and the receipt that is sent by itself.
        searched: hostile -> what the site's search made of hostile words; empty where it is not one we know.
    """

    seen: Mapping[tuple[bool, int, str], dict[str, Any]]
    names: tuple[str, ...]
    searched: Mapping[bool, dict[str, Any]]

    def pairs(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Each page in each width: how a message names it, with hostile texts, and its twin."""
        for name in self.names:
            for width in WIDTHS:
                yield f"{name} at {width}", self.seen[True, width, name], self.seen[False, width, name]


@pytest.fixture(scope="module")
def looked(sites, browser) -> Looked:
    """Every page looked at; each is loaded once."""
    names = (*(pages.html_of(each.page) for each in sites.instances), RECEIPT_PAGE)
    out, searched = {}, {}
    for hostile, root in sites.roots.items():
        with serve(root / "_site") as base:
            context = browser.new_context(viewport=DESKTOP)
            watched = Wary(context, base)
            for name in ("index.html", *names):
                out |= {(hostile, width, name): seen for width, seen in watched.look(name)}
            searched[hostile] = search(watched)
            context.close()
    return Looked(out, names, searched)


def search(watched: Wary) -> dict[str, Any]:
    """What the site's own search makes of hostile words; only the preview's is known by name."""
    watched.page.set_viewport_size(DESKTOP)
    noticed = watched.open("index.html")
    box = watched.page.locator(".smalldocs-search input")
    if not box.count():
        return {}
    box.first.fill("window pwned")
    results = watched.page.locator(".smalldocs-search-results").first
    results.locator("div").first.wait_for()
    tags = results.evaluate("box => [...new Set([...box.querySelectorAll('*')].map(e => e.tagName))].sort()")
    return {"tags": tags, "pwned": watched.page.evaluate("window.__pwned ?? null"), "noticed": noticed}


def test_nothing_runs_and_nothing_is_asked_of_another(looked):
    for where, seen, _ in looked.pairs():
        assert seen["noticed"] == [], where
        assert seen["pwned"] is None, where
        odd = [link for link in seen["links"] if re.match(r"\s*(?!data:image/svg)[a-z+]*:|//", link[1], re.IGNORECASE)]
        assert [link for link in odd if not link[1].startswith((seen["base"], *OWN_LINKS))] == [], where


def test_a_page_has_the_elements_of_its_twin(looked):
    for where, hostile, harmless in looked.pairs():
        assert difference(json.loads(hostile["skeleton"]), json.loads(harmless["skeleton"])) == "", where


def difference(one: list[Any], other: list[Any], way: str = "") -> str:
    """Where two skeletons part, in words; empty where they are equal."""
    if one[:3] != other[:3]:
        return f"{way}: {one[:3]} is {other[:3]} without the hostile text"
    way = f"{way}>{one[0]}.{one[2]}"
    for a, b in zip(one[3], other[3], strict=False):
        if found := difference(a, b, way):
            return found
    if len(one[3]) != len(other[3]):
        return f"{way}: {[each[0] for each in one[3]]} is {[each[0] for each in other[3]]} without the hostile text"
    return ""


def test_no_script_or_handler_but_the_renderers_own(looked):
    """Those of a page of plain words are the renderer's; a receipt has no renderer and none at all."""
    plain = looked.seen[False, WIDTHS[0], "index.html"]
    for where, *both in looked.pairs():
        for seen in both:
            for kind in ("scripts", "handlers"):
                own = [] if where.startswith(RECEIPT_PAGE) else plain[kind]
                assert set(seen[kind]) <= set(own), where


def test_the_layout_holds(looked):
    for where, hostile, harmless in looked.pairs():
        width = int(where.rpartition(" ")[2])
        assert hostile["width"] <= width, where
        assert hostile["right"] == [], where
        assert [order(row) for row in hostile["rows"]] == [order(row) for row in harmless["rows"]], where
        for wide, own in zip(hostile["tables"], harmless["tables"], strict=True):
            assert wide <= WIDER * max(own, width), where


def order(places: list[float]) -> list[bool]:
    """Whether each cell of a row stands to the right of the one before; stacked rows are not asked."""
    return [round(one) < round(other) for one, other in pairwise(places)]


def test_direction_stays_with_the_text_that_has_it(looked):
    for where, seen, _ in looked.pairs():
        assert seen["open"] == 0, where  # every value is isolated from what stands beside it
        for boxes in seen["lines"]:
            for one, other in pairwise(boxes):
                on_one_line = abs(one[1] - other[1]) < SAME_LINE and abs(one[3] - other[3]) < SAME_LINE
                assert not on_one_line or one[2] <= other[0] + 1, where


def visible(text: str) -> str:
    """A text as a page shows it; several blanks are one there."""
    return " ".join(html.unescape(show.escape(text)).split())


def test_every_text_is_seen_as_itself(looked, sites, made):
    """Terminal controls, for one, by their codes."""
    everything = ""
    for each in sites.instances:
        seen = " ".join(looked.seen[True, WIDTHS[0], pages.html_of(each.page)]["text"].split())
        assert UNSEEN.search(seen) is None, each
        assert [text for text in made[True].texts[each.id] if visible(text) not in seen] == [], each
        everything += seen
    assert [name for name, text in PAYLOADS.items() if visible(text) not in everything] == []
    assert "<U+001B>[31mred<U+001B>[0m" in everything


def test_the_twin_is_harmless(looked):
    assert [where for where, _, harmless in looked.pairs() if "pwned" in harmless["text"]] == []


def test_search_shows_hostile_text_as_text(looked):
    seen = looked.searched[True]
    if not seen:
        pytest.skip("this renderer's search box is not one that the test knows")
    assert set(seen["tags"]) <= {"A", "DIV", "MARK"}
    assert (seen["pwned"], seen["noticed"]) == (None, [])


def test_the_check_of_the_site_passes_data_that_looks_like_markup(sites):
    """A text of the corpus that reads like a failed reference is no failed reference."""
    root = sites.roots[True]
    names = [each.page for each in sites.instances]
    guards.raise_if(pages.check_pages(root / "_site", names, {name: root / name for name in names}))


def test_the_files_of_a_page_are_whole(sites):
    for hostile, root in sites.roots.items():
        found = sorted((root / "_site" / "data").rglob("*.csv"))
        assert len(found) > len(sites.instances), hostile
        for path in found:
            with path.open(encoding="utf-8", newline="") as lines:
                rows = list(csv.reader(lines))
            assert len({len(row) for row in rows}) == 1, path.name
            assert not [cell for row in rows for cell in row if cell.startswith(("=", "@", "+"))], path.name
        for path in (root / "_site" / "data").rglob("*.json"):
            json.loads(path.read_bytes())
