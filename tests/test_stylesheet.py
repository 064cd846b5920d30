"""The stylesheet: legible in both modes, nothing from elsewhere; cards on a phone, figures in the reader's mode."""

from __future__ import annotations

import base64
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from traceaudit import figures
from traceaudit.figures import COLOURS, DARK

from .test_figures import MODES, contrast

STYLESHEET = (Path(__file__).resolve().parent.parent / "chapters" / "style.css").read_text(encoding="utf-8")
CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on this machine")


def variables(css: str) -> dict[str, str]:
    return dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6}|[0-9]+, [0-9]+, [0-9]+);", css))


_SPLIT = STYLESHEET.index("@media screen and (prefers-color-scheme: dark)")
PAGE = {"light": variables(STYLESHEET[:_SPLIT])}
PAGE["dark"] = PAGE["light"] | variables(STYLESHEET[_SPLIT : STYLESHEET.index("\n}\n", _SPLIT)])
TEXT = ["ink", "soft", "link", "link-near", "code", *(name[2:] for name in PAGE["light"] if name.startswith("--token"))]
VERDICTS = ["violated", "latent", "held", "unmeasured"]


def test_the_page_and_its_figures_lie_on_the_same_paper():
    assert {mode: PAGE[mode]["--paper"] for mode in MODES} == {mode: MODES[mode]["paper"] for mode in MODES}


@pytest.mark.parametrize("mode", MODES)
def test_every_text_of_a_page_can_be_read(mode):
    colours = PAGE[mode]
    pairs = [(name, behind) for name in TEXT for behind in ("paper", "wash")]
    pairs += [("ink", "glow"), ("link", "glow"), ("code", "glow"), ("soft", "glow")]
    pairs += [(name, f"{name}-wash") for name in VERDICTS]
    faint = {pair: found for pair in pairs if (found := contrast(*(colours[f"--{name}"] for name in pair))) < 4.5}
    assert len(pairs) > 20 and not faint


def test_a_colour_in_two_notations_is_one_colour():
    for colours in PAGE.values():
        for name in ("--link", "--link-near"):
            parts = [int(part) for part in colours[f"{name}-rgb"].split(", ")]
            assert "#" + "".join(f"{part:02x}" for part in parts) == colours[name]


def test_the_stylesheet_loads_nothing_and_names_only_variables_that_it_sets():
    assert not re.findall(r"url\(|@import|@font-face|https?://", STYLESHEET)
    named = set(re.findall(r"var\((--[\w-]+)\)", STYLESHEET))
    assert named <= set(re.findall(r"^\s+(--[\w-]+):", STYLESHEET, re.MULTILINE))
    assert STYLESHEET.count("{") == STYLESHEET.count("}")


# --------------------------------------------------------------------------------------------- in a browser

PAPER = """<!doctype html><html lang="en"><meta charset="utf-8"><title>t</title>
<meta name="viewport" content="width=device-width"><style>body {{ margin: 0 }} {style}</style>
<div id="quarto-sidebar">menu</div><main class="content"><p>A <a class="value-link" href="#v-x">0.5</a>
<a href="https://a.example/x">out</a> <a href="https://b.example/y.html">in</a></p>
<figure tabindex="0"><img alt="A bar of each colour." src="data:image/svg+xml;base64,{figure}"></figure>
<details class="code-fold"><summary>Code</summary><pre><code>x</code></pre></details>
<div class="claims"><table class="table"><thead><tr><th>id</th><th>claim</th><th>verdict</th>
<th>measured</th></tr></thead>
<tbody><tr><td><span id="P1">P1</span></td><td>{long}</td><td><span class="verdict held">HELD</span></td><td>{long}</td>
</tr></tbody></table></div><div class="cell-output-markdown"><table class="table"><tr><td id="v-x">{unbroken}</td></tr>
</table></div></main></html>"""


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def page_of(browser, **options):
    page = browser.new_page(reduced_motion="reduce", **options)
    html = PAPER.format(
        style=STYLESHEET,
        figure=base64.b64encode(figures.svg(chart)).decode(),
        long="word " * 30,
        unbroken="a_wide_cell_" * 40,
    )
    page.set_content(html)
    return page


def pixels(page, selector: str) -> set[str]:
    """Every colour of an element as it is on the screen."""
    from io import BytesIO

    from matplotlib import image

    shot = image.imread(BytesIO(page.locator(selector).screenshot()), format="png")
    codes = np.unique((shot[..., :3] * 255).round().astype(int).reshape(-1, 3), axis=0)
    return {"#" + "".join(f"{part:02x}" for part in code) for code in codes}


def chart(axes):
    """A bar, marks and a line of every colour of the palette."""
    for place, colour in enumerate(COLOURS.values()):
        axes.bar(place, 1, color=colour)
        axes.plot(place, 2, "s", color=colour, markersize=15)
        axes.plot([place - 0.4, place + 0.4], [3, 3], color=colour, linewidth=8)


@needs_browser
@pytest.mark.browser
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("media", ["screen", "print"])
def test_a_figure_on_a_page_follows_the_mode_and_is_light_on_paper(browser, mode, media):
    page = page_of(browser, color_scheme=mode)
    page.emulate_media(media=media)
    expected = MODES[mode if media == "screen" else "light"]
    seen = pixels(page, "figure img")
    assert set(expected.values()) <= seen
    other = DARK if expected is COLOURS else COLOURS
    assert not {other[name] for name in COLOURS} & seen
    paper = page.evaluate("getComputedStyle(document.body).getPropertyValue('--paper')").strip()
    assert paper == expected["paper"]
    page.close()


@needs_browser
@pytest.mark.browser
def test_on_a_phone_claims_are_cards_and_nothing_goes_sideways(browser):
    page = page_of(browser, viewport={"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("document.querySelector('.cell-output-markdown').scrollWidth") > 360  # in its own box
    cells = page.locator(".claims td")
    id, claim, verdict, measured = (cells.nth(place).bounding_box() for place in range(4))
    assert abs(id["y"] - verdict["y"]) < 4 < id["width"] < verdict["x"]
    assert claim["y"] >= id["y"] + id["height"] and measured["y"] >= claim["y"] + claim["height"]
    page.set_viewport_size({"width": 900, "height": 700})
    claim, verdict = (cells.nth(place).bounding_box() for place in (1, 2))
    assert claim["y"] == verdict["y"]
    page.close()


@needs_browser
@pytest.mark.browser
def test_on_paper_stands_what_is_read(browser):
    page = page_of(browser, color_scheme="dark")
    page.emulate_media(media="print")
    assert not page.locator("#quarto-sidebar").is_visible()
    assert not page.locator("details.code-fold").is_visible()
    after = "link => getComputedStyle(link, '::after').content"
    contents = [link.evaluate(after) for link in page.locator("main p a").all()]
    assert contents == ["none", '" (https://a.example/x)"', "none"]
    page.close()


@needs_browser
@pytest.mark.browser
@pytest.mark.parametrize("mode", MODES)
def test_the_row_that_was_asked_for_is_marked_and_a_value_looks_like_its_text(browser, mode):
    page = page_of(browser, color_scheme=mode)
    link = page.locator(".value-link")
    style = "what => { const s = getComputedStyle(what); return [s.color, s.textDecorationLine, s.outlineStyle] }"
    assert link.evaluate(style) == [page.locator("main p").first.evaluate(style)[0], "none", "none"]
    page.keyboard.press("Tab")
    assert link.evaluate(style)[1:] == ["underline", "solid"]
    page.evaluate("location.hash = 'P1'")
    page.wait_for_function("document.querySelector(':target')")
    glow = PAGE[mode]["--glow"]
    behind = page.locator(".claims td").first.evaluate("cell => getComputedStyle(cell).backgroundColor")
    assert behind == f"rgb({', '.join(str(int(glow[i : i + 2], 16)) for i in (1, 3, 5))})"
    page.close()
