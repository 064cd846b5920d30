"""The rendered site, checked for what renderers let pass, on the preview always and on Quarto's output where it is."""

from __future__ import annotations

import nbformat

from traceaudit import guards, pages

from ..chapters.running import INSTANCES, REAL, run


def test_pages_are_whole(site):
    names = [each.page for each in INSTANCES]
    guards.raise_if(pages.check_pages(site / "_site", names, {name: site / name for name in names}))


def test_every_shown_value_is_recorded_and_every_recorded_value_is_shown(site):
    for each in INSTANCES:
        ran = run(each.id, str(REAL) if REAL.is_dir() and each.split != "demo" else "")
        notebook = nbformat.read(site / each.page, as_version=4)
        guards.raise_if(guards.check_shown(each.page, notebook, ran.values))
        html = (site / "_site" / pages.html_of(each.page)).read_text(encoding="utf-8")
        assert pages.Page(html).names == set(ran.values), each.page


def test_a_page_carries_its_title_and_no_value_is_lost_in_it(site):
    for each in INSTANCES:
        html = (site / "_site" / pages.html_of(each.page)).read_text(encoding="utf-8")
        assert f"{each.title}</h1>" in html, each.page
        assert html.count("<h1") == 1, each.page


def test_demo_figures_stand_on_demo_pages_only(site):
    for each in INSTANCES:
        html = (site / "_site" / pages.html_of(each.page)).read_text(encoding="utf-8")
        assert ("invented judge A" in html) == (each.id in ("trail-headline.demo", "trail-judges.demo")), each.page
        assert ("Nothing on this page is about TRAIL" in html) == (each.split == "demo"), each.page
