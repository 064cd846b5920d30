"""The rendered site in a real browser: what a reader meets with mouse, keyboard, phone, dark mode or printer."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import nbformat
import pytest

from traceaudit import pages
from traceaudit.notebooks import collect

from ..chapters.running import INSTANCES
from . import browser_support
from .browser_support import AT, DESKTOP, PHONE, PREPARE, SEEN, Watched, axe, look, new_context

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which(browser_support.CHROMIUM) is None, reason=browser_support.MISSING),
]

OVERVIEW = "index.html"
DEMO = "report/trail-headline-demo.html"
GAIA = "report/trail-headline-gaia.html"
BY_PAGE = {pages.html_of(each.page): each for each in INSTANCES}
FIRST = {each.chapter: name for name, each in reversed(BY_PAGE.items())}  # one page of each chapter
LEGIBLE = 4.5  # ratio that WCAG 2.2 asks of words, level AA
OPEN_ALL = "for (const each of document.querySelectorAll('details')) each.open = true"
BLACK, WHITE = 0.1, 0.8  # luminance that a dark page's paper is below, a light one's above
DARKER = 0.2  # by how much a figure's mean is lower in dark mode


@pytest.fixture(scope="module")
def names(site) -> list[str]:
    """Every page of the site."""
    root = site / "_site"
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.html"))


@pytest.fixture(scope="module")
def looked(browser, base, names) -> Mapping[str, Mapping[str, Any]]:
    """What a browser saw of every page."""
    return look(browser, base, names, dark=FIRST.values())


@pytest.fixture
def watched(browser, base) -> Iterator[Watched]:
    """A page in a window of a desk's size."""
    context = new_context(browser)
    yield Watched(context, base)
    context.close()


def fail_if(found: Mapping[str, Any]) -> None:
    """Fail with a line for each that was found."""
    if found:
        pytest.fail("\n".join(f"{where}: {what}" for where, what in found.items()), pytrace=False)


def test_there_is_a_page_of_every_chapter(names):
    assert set(BY_PAGE) <= set(names)


def test_every_page_loads_in_silence_and_asks_nobody_else(looked):
    fail_if({name: seen["noticed"] for name, seen in looked.items() if seen["noticed"]})


def test_a_request_to_elsewhere_would_be_noticed(watched):
    noticed = watched.open(OVERVIEW)
    assert noticed == []
    watched.page.evaluate("fetch('http://elsewhere.example/x').catch(() => {})")
    watched.page.wait_for_timeout(200)
    assert any(each.startswith("asked elsewhere") for each in noticed)
    assert any(each.startswith("failed") for each in noticed)  # and the browser cannot reach it


def in_mode(looked: Mapping[str, Mapping[str, Any]], scheme: str) -> dict[str, Any]:
    """What was seen of each page that was looked at in this mode: in dark mode one of each chapter."""
    seen = {name: each[scheme] for name, each in looked.items() if scheme in each}
    assert set(seen) >= (set(looked) if scheme == "light" else set(FIRST.values()))
    return seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_are_legible(looked, scheme):
    faint = {
        f"{name} {pair['place']}": f"{pair['colours']}: {pair['ratio']:.2f}"
        for name, seen in in_mode(looked, scheme).items()
        for pair in seen["contrasts"]["pairs"]
        if pair["ratio"] < LEGIBLE
    }
    fail_if(faint)
    assert all(seen["contrasts"]["pairs"] for seen in in_mode(looked, scheme).values())


def test_the_paper_follows_the_readers_mode(looked):
    paper = {
        mode: {name: seen["contrasts"]["paper"] for name, seen in in_mode(looked, mode).items()}
        for mode in ("light", "dark")
    }
    fail_if({name: light for name, light in paper["light"].items() if light < WHITE})
    fail_if({name: light for name, light in paper["dark"].items() if light > BLACK})


def test_figures_follow_the_readers_mode(looked):
    dark = in_mode(looked, "dark")
    both = {name: (looked[name]["light"]["figures"], seen["figures"]) for name, seen in dark.items()}
    assert sum(len(light) for light, _ in both.values()) >= len(FIRST) // 2
    same = {
        name: (light, dark)
        for name, (light, dark) in both.items()
        if any(a - b < DARKER for a, b in zip(light, dark, strict=True))
    }
    fail_if(same)


def test_a_printed_page_has_no_sidebar(looked):
    fail_if({name: seen["printed"] for name, seen in looked.items() if seen["printed"]})


def test_a_page_fits_a_phone(looked):
    phones = {name: seen["phone"] for name, seen in looked.items()}
    fail_if({name: told for name, told in phones.items() if told["width"] > PHONE["width"] or told["wide"]})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(looked, scheme):
    fail_if({name: seen["axe"] for name, seen in in_mode(looked, scheme).items() if seen["axe"]})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_what_is_folded(watched, scheme):
    watched.page.emulate_media(color_scheme=scheme)
    watched.open(DEMO)
    assert watched.page.locator("details").count() > 1
    watched.page.evaluate(OPEN_ALL)
    fail_if(dict(enumerate(axe(watched.page))))


@pytest.mark.parametrize("way", ["click", "keyboard", "phone"])
def test_the_sidebar_leads_to_a_chapter_and_back(watched, way):
    page = watched.page
    noticed = watched.open(OVERVIEW)
    for target, words in ((GAIA, "What volume buys"), (OVERVIEW, "Overview")):
        if way == "phone":
            page.set_viewport_size(PHONE)
            page.get_by_role("button", name="Toggle sidebar navigation").first.click()
        link = page.locator("#quarto-sidebar").get_by_role("link", name=words, exact=True).first
        link.wait_for()
        if way == "keyboard":
            tab_to(page, link)
            page.keyboard.press("Enter")
        else:
            link.click()
        page.wait_for_url(re.compile(f"/{target.removesuffix('index.html')}(index.html)?$"))  # or the folder's address
        assert page.locator("h1").inner_text() == BY_PAGE[target].title
    page.go_back()
    assert urlsplit(page.url).path == f"/{GAIA}"
    assert noticed == []


def tab_to(page: Any, element: Any, most: int = 60) -> None:
    """Press Tab until the keyboard is at an element."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if element.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{most} times Tab did not lead to {element}")


def results(page: Any) -> Any:
    """The links that the search box of either renderer shows."""
    return page.locator(".smalldocs-search-results a, .aa-Panel a").filter(visible=True)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("silence", "What silence buys"),  # in the title
        ("reproduction receipt", ""),  # wherever it is, or nowhere; the box must not break
        ("wqxzjkvq", ""),  # nowhere
    ],
)
def test_search_finds_a_page(watched, words, found):
    page = watched.page
    noticed = watched.open(OVERVIEW)
    page.locator("#quarto-search input").press_sequentially(words)
    if found:
        results(page).filter(has_text=found).first.click()
        page.wait_for_url(re.compile(r"/report/"))
        assert page.locator("h1").inner_text().startswith(found)
    elif " " not in words:
        page.get_by_text("No results", exact=False).filter(visible=True).first.wait_for()
        assert results(page).count() == 0
    assert noticed == []


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize(("name", "id"), [(OVERVIEW, "P1"), (OVERVIEW, "W1"), (OVERVIEW, "W12"), (GAIA, "P1")])
def test_the_address_of_a_finding_leads_to_its_row(watched, name, id, size):
    watched.page.set_viewport_size(size)
    watched.open(f"{name}#{id}")
    assert watched.page.evaluate("scrollY") > 0 or name == GAIA
    watched.page.wait_for_function(SEEN, arg=id)
    row = watched.page.locator(f"tr:has(#{id})")
    assert row.locator(f"[data-finding='{id}']").count() == 1


def test_every_finding_is_an_anchor_on_its_page_and_on_the_overview(site):
    anchors = {name: pages.Page((site / "_site" / name).read_text(encoding="utf-8")).anchors for name in BY_PAGE}
    for name, each in BY_PAGE.items():
        _, found, _ = collect(nbformat.read(site / each.page, as_version=4), each.id)
        assert set(found) <= anchors[name], name
        assert set(found) <= anchors[OVERVIEW], name


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", [OVERVIEW, DEMO, GAIA])
def test_a_value_leads_to_its_row_in_the_folded_listing(watched, name, size):
    page = watched.page
    page.set_viewport_size(size)
    noticed = watched.open(name)
    assert page.locator("details.listing[open]").count() == 0
    link = page.locator("main a.value-link").filter(visible=True).first
    value, shown = link.locator(".value").get_attribute("data-name"), link.inner_text()
    link.click()
    row = page.locator(f"details.listing[open] tr:has(#v-{value})")
    row.wait_for()
    page.wait_for_function(SEEN, arg=f"v-{value}")
    assert urlsplit(page.url).fragment == f"v-{value}"
    assert row.locator(".value").inner_text() == shown
    watched.open(OVERVIEW if name != OVERVIEW else DEMO)
    watched.open(f"{name}#v-{value}")  # and who is sent the address gets there too
    page.wait_for_function(SEEN, arg=f"v-{value}")
    assert noticed == []


def test_every_value_outside_the_listing_leads_there(looked, site):
    for name in BY_PAGE:
        html = (site / "_site" / name).read_text(encoding="utf-8")
        outside, _, _ = html.partition('<details class="listing">')
        linked = re.findall(r'href="#v-(\w+)"[^>]*><span class="value[^"]*" data-name="(\w+)"', outside)
        assert all(target == value for target, value in linked), name
        assert len(linked) == outside.count('data-name="'), name
    assert len(looked) >= len(BY_PAGE)


@pytest.mark.parametrize("name", [DEMO, GAIA])
def test_what_can_be_taken_away_is_what_was_recorded(watched, site, name):
    each = BY_PAGE[name]
    values, found, _ = collect(nbformat.read(site / each.page, as_version=4), each.id)
    watched.open(name)
    links = watched.page.locator("main a[download]")
    taken = {}
    for href in dict.fromkeys(link.get_attribute("href") for link in links.all()):
        path = urlsplit(urljoin(watched.page.url, href)).path.removeprefix("/data/")
        taken[path] = (site / "_site" / "data" / path).read_text(encoding="utf-8")
    for link in (links.nth(0), links.nth(1), *watched.page.locator("footer.built a[download]").all()):
        with watched.page.expect_download() as waiting:
            link.click()
        path = urlsplit(waiting.value.url).path.removeprefix("/data/")
        assert waiting.value.suggested_filename == path.rpartition("/")[2]
        assert waiting.value.path().read_text(encoding="utf-8") == taken[path]
    record = json.loads(taken.pop(f"{each.id}.json"))
    assert {n: v["raw"] for n, v in record["values"].items()} == {n: v.raw for n, v in values.items()}
    assert {n: f["verdict"] for n, f in record["findings"].items()} == {n: str(f.verdict) for n, f in found.items()}
    rows = list(csv.DictReader(io.StringIO(taken.pop(f"{each.id}.csv"))))
    assert [row["name"] for row in rows] == list(values)
    assert all(same(row["raw"], values[row["name"]].raw) for row in rows)
    assert "@software{" in taken.pop("cite.bib")
    tables = {path.removesuffix(".json"): json.loads(text) for path, text in taken.items() if path.endswith(".json")}
    assert len(tables) * 2 == len(taken) > 0
    for path, table in tables.items():
        head, *lines = csv.reader(io.StringIO(taken[f"{path}.csv"]))
        assert head == table["columns"]
        assert len(lines) == len(table["rows"])
        for line, row in zip(lines, table["rows"], strict=True):
            for text, cell in zip(line, row, strict=True):
                if isinstance(cell, dict) and "name" in cell:
                    assert same(text, values[cell["name"]].raw)
                    assert cell["raw"] == values[cell["name"]].raw
                    assert cell["shown"] == values[cell["name"]].shown


def same(text: str, raw: Any) -> bool:
    """Whether a field of a CSV file is a raw value, to the last digit."""
    if raw is None:
        return text == ""
    return type(raw)(text) == raw if type(raw) in (int, float) else text.removeprefix("'") == str(raw).removeprefix("'")


def test_the_site_says_what_every_page_was_built_from(site):
    root = site / "_site"
    build = json.loads((root / "data" / "build.json").read_text(encoding="utf-8"))
    assert {name: (page["chapter"], page["split"]) for name, page in build["pages"].items()} == {
        name: (each.chapter, each.split) for name, each in BY_PAGE.items()
    }
    for name, page in build["pages"].items():
        assert (root / "data" / page["record"]).is_file()
        assert page["record_sha256"][:12] in (root / name).read_text(encoding="utf-8")


# The toggle of a section in the sidebar is a link without an address in both renderers, which no Tab reaches. The
# sections are open, so that the keyboard loses nothing by it.
UNREACHED = "collapse"


@pytest.mark.parametrize(
    ("name", "size", "opened"),
    [(OVERVIEW, DESKTOP, False), (DEMO, DESKTOP, True), (DEMO, PHONE, True)],
    ids=["overview", "chapter with its folds open", "the same on a phone"],
)
def test_the_keyboard_reaches_everything_and_is_seen_where_it_is(watched, name, size, opened):
    page = watched.page
    page.set_viewport_size(size)
    watched.open(name)
    page.wait_for_function("document.querySelector('#quarto-search')?.querySelector('input, button')")
    if opened:
        page.evaluate(OPEN_ALL)
    acting = page.evaluate(PREPARE)
    assert {"a", "summary", "input" if size is DESKTOP else "button"} <= {each["tag"] for each in acting}
    at, reached, unmarked = {"left": False}, set(), []
    for _ in range(2 * len(acting) + 20):
        page.keyboard.press("Tab")
        at = page.evaluate(AT)
        if at["left"]:
            break
        reached.add(at["place"])
        if not (at["marked"] and at["inside"]) and at["place"] >= 0:
            unmarked.append({**acting[at["place"]], **at})
    assert at["left"], "a keyboard that comes in gets out at the end"
    fail_if(dict(enumerate(unmarked)))
    missed = [each for place, each in enumerate(acting) if place not in reached]
    fail_if(dict(enumerate(each for each in missed if each["link"] or each["toggle"] != UNREACHED)))


def test_enter_opens_and_closes_what_is_folded(watched):
    page = watched.page
    watched.open(DEMO)
    listing = page.locator("details.listing")
    listing.locator("summary").focus()
    for opened in (1, 0):
        page.keyboard.press("Enter")
        assert page.locator("details.listing[open]").count() == opened
