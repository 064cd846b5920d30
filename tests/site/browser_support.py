"""A browser for the tests of the rendered site: a server on this machine, a watched page, and what is asked of it.

A page is loaded once and looked at in all ways that need no second load; the tests then read what was seen.
"""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CHROMIUM = "chromium"
MISSING = "chromium is not on this machine"
# The browser asks nobody but the server: no proxy, and no name is ever looked up. Playwright turns off the rest.
ARGUMENTS = ("--disable-gpu", "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}
PATIENCE = 10_000  # milliseconds
FAILED = 400  # the first status of an answer that is none

# Every pair of colours that words of the page's own part have, with the ratio of WCAG 2.2 and an example. What lies
# behind a word is the nearest background that is not transparent; words in a folded part are not seen and do not count.
CONTRASTS = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const read = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = read(getComputedStyle(each).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return read('white');
  };
  const found = {};
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
    const [ink, paper] = [read(getComputedStyle(element).color), behind(element)];
    const key = `${ink.slice(0, 3)} on ${paper.slice(0, 3)}`;
    if (key in found) continue;
    const [more, less] = [light(ink), light(paper)].sort((x, y) => y - x);
    const place = `${element.tagName.toLowerCase()}.${element.className}: ${node.data.trim().slice(0, 40)}`;
    found[key] = {ratio: (more + 0.05) / (less + 0.05), colours: key, place};
  }
  return {pairs: Object.values(found), paper: light(behind(document.body))};
}"""

# How wide a page is, and what sticks out of the window with no box around it that scrolls, so that it may be cut off.
WIDTH = """() => {
  const scrolls = (e) => e && (['auto', 'scroll'].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  const wide = [...document.querySelectorAll('main *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1
    && e.checkVisibility() && !scrolls(e.parentElement));
  const name = (e) => `${e.tagName.toLowerCase()}.${e.className}: ${e.textContent.trim().slice(0, 60)}`;
  return {width: document.scrollingElement.scrollWidth, wide: wide.slice(0, 3).map(name)};
}"""

# What a folded part holds is neither seen nor read out; without it a page of thousands of rows is tried in a moment.
UNFOLD_NOTHING = """() => {
  for (const each of document.querySelectorAll('details:not([open]) > :not(summary)')) each.remove();
}"""

AXE = """async (excused) => {
  const found = await axe.run({resultTypes: ['violations'], iframes: false});
  const ours = (id, node) =>
    !excused.some(([rule, selector]) => rule === id && document.querySelector(node.target.at(-1)).matches(selector));
  return found.violations.filter((each) => ['serious', 'critical'].includes(each.impact)).flatMap(({id, nodes}) => {
    const left = nodes.filter((node) => ours(id, node));
    return left.slice(0, 3).map((node) =>
      `${id}, one of ${left.length}: ${node.target.join(' ')}: ${node.failureSummary.replace(/\\s+/g, ' ')}`);
  });
}"""

# Findings that are the renderers' own: rule and elements. A wide block of code scrolls in a box that says nothing of
# the keyboard; chromium and Firefox let the keyboard into it all the same, and the test of the keyboard holds that.
EXCUSED = (("scrollable-region-focusable", "pre, .sourceCode"),)

# Whether the start of an element is seen: in the window, and nothing lies over it.
SEEN = """(id) => {
  const element = document.getElementById(id);
  const box = element.getBoundingClientRect();
  const top = document.elementFromPoint(box.left + 2, box.top + box.height / 2);
  const main = document.querySelector('main');
  return Boolean(top && (element.contains(top) || top.contains(element)) && !top.contains(main));
}"""

# Everything that a mouse can act on or scroll sideways, and how it looks; then what the keyboard is at, and whether it
# can be seen.
PREPARE = """() => {
  const every = 'a[href], button, input, select, textarea, summary, [tabindex], [onclick], [role=button], '
    + '[data-bs-toggle]';
  const look = (element) => {
    const looks = [];
    for (let each = element, i = 0; each && i < 4; each = each.parentElement, i += 1) {
      const style = getComputedStyle(each);
      const outline = style.outlineStyle === 'none' ? '' : style.outline;
      looks.push([outline, style.boxShadow, style.borderColor, style.backgroundColor, style.textDecoration].join(';'));
    }
    return looks.join('/');
  };
  const shown = (e) => e.checkVisibility({visibilityProperty: true}) && !e.disabled && e.getClientRects().length
    && e.getAttribute('tabindex') !== '-1';
  const wide = (e) => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1
    && e.checkVisibility() && ![...e.querySelectorAll(every)].some(shown);
  const boxes = [...document.querySelectorAll('main *')].filter(wide);
  const acting = [...new Set([...document.querySelectorAll(every), ...boxes])].filter(shown);
  const before = new Map(acting.map((e) => [e, look(e)]));
  window.keyboard = {acting, before, look};
  return acting.map((e) => ({
    tag: e.tagName.toLowerCase(), words: (e.getAttribute('aria-label') || e.textContent).trim().slice(0, 40),
    link: e.hasAttribute('href'), toggle: e.dataset.bsToggle ?? '',
  }));
}"""
AT = """() => {
  const at = document.activeElement;
  const {acting, before, look} = window.keyboard;
  const box = at.getBoundingClientRect();
  return {
    left: at === document.body || at === document.documentElement,
    place: acting.indexOf(at),
    marked: look(at) !== before.get(at),
    inside: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
}"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing; a browser's question for an icon is not a page's."""

    def do_GET(self) -> None:
        """A file, or nothing in place of the icon."""
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on the loopback address; gives the address of its root, without a slash at the end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def browser() -> Iterator[Any]:
    """The chromium of this machine; Playwright brings none."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which(CHROMIUM), args=list(ARGUMENTS))
        try:
            yield started
        finally:
            started.close()


def new_context(browser: Any, **more: Any) -> Any:
    """A window of a desk's size, in which nothing moves by itself and nothing is waited for long."""
    context = browser.new_context(viewport=DESKTOP, reduced_motion="reduce", **more)
    context.set_default_timeout(PATIENCE)
    return context


class Watched:
    """A page of a browser that keeps what it noticed: errors, warnings, failed requests, requests to elsewhere."""

    def __init__(self, context: Any, base: str) -> None:
        self.base = base
        self.page = context.new_page()
        self.noticed: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.noticed.append(f"error: {error}"))
        self.page.on("request", self._request)
        self.page.on("requestfailed", lambda request: self.noticed.append(f"failed: {request.url[:200]}"))
        self.page.on("response", self._response)

    def _console(self, said: Any) -> None:
        if said.type in ("error", "warning"):
            self.noticed.append(f"{said.type}: {said.text[:200]}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((f"{self.base}/", "data:", "blob:")):
            self.noticed.append(f"asked elsewhere: {request.url[:200]}")

    def _response(self, response: Any) -> None:
        if response.status >= FAILED:
            self.noticed.append(f"{response.status}: {response.url[:200]}")

    def open(self, name: str) -> list[str]:
        """Load a page; the list fills with what is noticed of it, until the next one is opened."""
        self.noticed = []
        self.page.goto(f"{self.base}/{name}")
        return self.noticed


def look(browser: Any, base: str, names: Sequence[str], dark: Collection[str]) -> dict[str, dict[str, Any]]:
    """Load every page once in light mode, and some in dark mode too, and tell what was seen.

    Args:
        browser: A started browser.
        base: Address of the served site.
        names: The pages.
        dark: Those that are looked at in dark mode too.

    Returns:
        page -> what was noticed, and of each mode: contrasts, axe's violations and how light the figures are; of the
        light one also whether a printed page has the sidebar and how wide a page is on a phone.
    """
    seen: dict[str, dict[str, Any]] = {name: {"noticed": []} for name in names}
    for scheme in ("light", "dark"):
        context = new_context(browser, color_scheme=scheme)
        watched = Watched(context, base)
        page = watched.page
        for name in names if scheme == "light" else [name for name in names if name in dark]:
            noticed = watched.open(name)
            told = {"contrasts": page.evaluate(CONTRASTS), "figures": [_lightness(each) for each in _figures(page)]}
            if scheme == "light":
                page.emulate_media(media="print")
                seen[name]["printed"] = page.locator("#quarto-sidebar").filter(visible=True).count()
                page.emulate_media(media="screen")
                page.set_viewport_size(PHONE)
                seen[name]["phone"] = page.evaluate(WIDTH)
                page.set_viewport_size(DESKTOP)
            page.evaluate(UNFOLD_NOTHING)
            told["axe"] = axe(page)
            seen[name][scheme] = told
            seen[name]["noticed"] += [f"{scheme}: {each}" for each in noticed]
        context.close()
    return seen


def axe(page: Any) -> list[str]:
    """The serious and critical violations of a page: rule, the first of the elements, and what is wrong."""
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    return page.evaluate(AXE, EXCUSED)


def _figures(page: Any) -> list[Any]:
    return page.locator("main figure img").filter(visible=True).all()


def _lightness(image: Any) -> float:
    """Mean of a picture as it is seen: 0 is black, 1 white."""
    from matplotlib.image import imread

    return float(imread(io.BytesIO(image.screenshot()), format="png")[..., :3].mean())
