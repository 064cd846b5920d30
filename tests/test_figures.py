"""Figures: one palette, legible in both modes; a drawing that leaves it is refused; same values, same bytes."""

from __future__ import annotations

import base64
import itertools
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from traceaudit import figures
from traceaudit.errors import GuardFailed
from traceaudit.figures import COLOURS, DARK, MARKS, WORDS

ROOT = Path(__file__).resolve().parent.parent
MODES = {"light": COLOURS, "dark": DARK}


# ------------------------------------------------------------------------------------------------- colours


def linear(colour: str) -> np.ndarray:
    """A colour as linear red, green and blue, as WCAG 2.2 defines relative luminance."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_measured_as_wcag_does():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    assert contrast("#808080", "#808080") == 1


def test_both_modes_have_the_same_names_and_a_colour_has_one_name():
    assert list(COLOURS) == list(DARK)
    for palette in MODES.values():
        assert len(set(palette.values())) == len(palette)
        assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in palette.values())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MARKS)
def test_a_mark_stands_out_and_words_can_be_read(mode, name):
    palette = MODES[mode]
    assert contrast(palette[name], palette["paper"]) >= (4.5 if name in WORDS else 3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("behind", ["pale", "wash"])
def test_ink_can_be_read_on_areas_too(mode, behind):
    assert contrast(MODES[mode]["ink"], MODES[mode][behind]) >= 4.5


# Machado, Oliveira and Fernandes (2009), full severity, on linear colours
SEEN = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]


def lab(colour: str, seen: str) -> np.ndarray:
    """A colour in CIELAB (D65), as somebody with this deficiency sees it."""
    xyz = np.array(TO_XYZ) @ np.clip(np.array(SEEN[seen]) @ linear(colour), 0, 1) / [0.95047, 1, 1.08883]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seen", SEEN)
def test_marks_stay_apart_for_colour_blind_readers(mode, seen):
    """A distance of 2.3 is just noticeable; the marks keep at least four times that."""
    close = {
        (one, other): distance
        for one, other in itertools.combinations([name for name in MARKS if name != "ink"], 2)
        if (distance := float(np.linalg.norm(lab(MODES[mode][one], seen) - lab(MODES[mode][other], seen)))) < 9.2
    }
    assert not close


# ------------------------------------------------------------------------------------------------- drawings


def curve(axes):
    """A bit of everything: a line, marks, an area, a hatch, words, a legend."""
    axes.plot([1, 2, 3], [3, 1, 2], "o-", label="a rule", color=COLOURS["blue"])
    axes.bar([1], [2], color=COLOURS["pale"], edgecolor=COLOURS["grey"], hatch="//")
    figures.label(axes, "here", (2, 1), colour="orange", side="above right")
    axes.set(xlabel="errors", ylabel="score")
    axes.legend()


def test_every_colour_of_a_drawing_has_its_dark_rule_and_no_other_has():
    drawn = figures.svg(curve).decode()
    style = drawn[drawn.index("<style>") : drawn.index("</style>")]
    assert "@media (prefers-color-scheme: dark)" in style
    used = {name for name in COLOURS if re.search(f": {COLOURS[name]}\\b", drawn.replace(style, ""))}
    assert used == {"blue", "orange", "grey", "ink", "pale", "paper"}
    for name in COLOURS:
        for paint in ("fill", "stroke"):
            light, dark = COLOURS[name], DARK[name]
            rule = f'[style*="{paint}: {light}"], [{paint}="{light}"] {{ {paint}: {dark} !important }}'
            assert (rule in style) == (name in used), name


def test_a_figure_holds_no_letters_no_date_and_no_maker():
    drawn = figures.svg(curve).decode()
    assert "<text" not in drawn  # letters are paths, so that no font of the reader's matters
    assert "<dc:date>" not in drawn and "Matplotlib" not in drawn
    assert not re.findall(r'(?:href|src)="(?!#)', drawn)


# what is drawn -> what the refusal names
REFUSED = {
    "a named colour": (lambda axes: axes.plot([1, 2], [1, 2], color="red"), "#ff0000 (red)"),
    "a colour by its code": (lambda axes: axes.bar([1], [2], color="#123456"), "#123456"),
    "an edge": (lambda axes: axes.bar([1], [2], color=COLOURS["blue"], edgecolor="#abcdef"), "#abcdef"),
    "a colour with transparency": (lambda axes: axes.bar([1], [2], color="#12345680"), "#123456"),
    "a black area, which SVG leaves out": (lambda axes: axes.bar([1], [2], color="black"), "#000000 (black)"),
    "black marks": (lambda axes: axes.scatter([1], [1], color="black"), "#000000 (black)"),
    "marks black inside": (
        lambda axes: axes.plot([1], [1], "o", markerfacecolor="k", markeredgecolor=COLOURS["blue"]),
        "#000000 (black)",
    ),
    "a hatch": (
        lambda axes: axes.bar([1], [1], color=COLOURS["pale"], edgecolor="#00ff00", hatch="/"),
        "#00ff00 (lime)",
    ),
    "black words": (lambda axes: axes.text(0, 0, "hello", color="black"), "hello"),
    "faint words": (lambda axes: axes.set_title("faint", color=COLOURS["sky"]), "#3c9ad9 (sky)"),
    "words of an axis": (lambda axes: axes.tick_params(labelcolor=COLOURS["rule"]), "#cccccc (rule)"),
    "pixels": (lambda axes: axes.imshow([[1, 2], [3, 4]]), "pixels"),
}


@pytest.mark.parametrize("situation", REFUSED)
def test_a_drawing_that_cannot_follow_the_mode_is_refused_by_name(situation):
    from matplotlib import pyplot

    draw, named = REFUSED[situation]
    with pytest.raises(GuardFailed, match=re.escape(named)) as refused:
        figures.svg(draw, where="of this figure")
    assert refused.value.where == "of this figure"
    assert pyplot.get_fignums() == []


# colours by other ways of writing them, and what has no colour
TAKEN = {
    "white": lambda axes: axes.plot([1], [1], "o", color="white", markeredgecolor=COLOURS["orange"]),
    "upper case": lambda axes: axes.plot([1, 2], [1, 2], color=COLOURS["blue"].upper()),
    "transparency": lambda axes: axes.plot([1, 2], [1, 2], color=COLOURS["blue"], alpha=0.5),
    "no colour named": lambda axes: [axes.plot([1, 2], [n, 2]) for n in range(7)],
    "nothing": lambda axes: None,
    "an edge alone": lambda axes: axes.bar([1], [2], color="none", edgecolor=COLOURS["grey"]),
    "hidden words": lambda axes: axes.text(0, 0, "x", color="black").set_visible(False),
    "no formula": lambda axes: axes.text(0, 0, "$\\frac{", color=COLOURS["ink"]),
}


@pytest.mark.parametrize("situation", TAKEN)
def test_a_drawing_in_colours_of_the_palette_is_taken(situation):
    assert figures.svg(TAKEN[situation]).startswith(b"<?xml")


def test_the_settings_end_with_the_figure():
    import matplotlib

    before = dict(matplotlib.rcParams)
    figures.svg(curve)
    assert dict(matplotlib.rcParams) == before


# the ends of a logarithmic axis -> the labels in between
LOGARITHMIC = {
    (0.7, 150): ["1", "10", "100"],
    (900, 2_000_000): ["1,000", "10,000", "100,000", "1,000,000"],
    (0.0005, 0.2): ["0.001", "0.01", "0.1"],
}


@pytest.mark.parametrize("ends", LOGARITHMIC)
def test_a_logarithmic_axis_has_plain_numbers(ends):
    kept = []

    def draw(axes):
        axes.set(xscale="log", xlim=ends)
        kept.append(axes)

    figures.svg(draw)
    (axes,) = kept
    formatter = axes.xaxis.get_major_formatter()
    low, high = ends
    assert [formatter(place) for place in axes.get_xticks() if low <= place <= high] == LOGARITHMIC[ends]


# how the rows of an axis are told apart -> does it get a grid
GRIDS = {
    "numbers": (lambda axes: axes.plot([1, 2], [1, 2]), True),
    "logarithm": (lambda axes: axes.set(yscale="log", ylim=(1, 100)), True),
    "names": (lambda axes: axes.barh(["a", "b"], [1, 2]), False),
    "labels given": (lambda axes: axes.set_yticks([0, 1], ["a", "b"]), False),
}


@pytest.mark.parametrize("situation", GRIDS)
def test_an_axis_that_counts_has_a_grid(situation):
    kept = []
    draw, expected = GRIDS[situation]
    figures.svg(lambda axes: (draw(axes), kept.append(axes)))
    lines = kept[0].yaxis.get_gridlines()
    assert lines and all(line.get_visible() == expected for line in lines)


# where a label stands -> on which side of its place it is drawn
SIDES = {
    "right": (1, 0),
    "left": (-1, 0),
    "above": (0, 1),
    "below": (0, -1),
    "above right": (1, 1),
    "above left": (-1, 1),
    "below right": (1, -1),
    "below left": (-1, -1),
}


@pytest.mark.parametrize("side", SIDES)
def test_a_label_stands_where_it_is_told_and_on_paper(side):
    from matplotlib import pyplot

    drawn, axes = pyplot.subplots()
    axes.set(xlim=(0, 2), ylim=(0, 2))
    figures.label(axes, "word", (1, 1), colour="green", side=side)
    (words,) = axes.texts
    box, (x, y) = words.get_window_extent(drawn.canvas.get_renderer()), axes.transData.transform((1, 1))
    pyplot.close(drawn)
    for low, high, place, expected in ((box.x0, box.x1, x, SIDES[side][0]), (box.y0, box.y1, y, SIDES[side][1])):
        assert int(low > place) - int(high < place) == expected
    assert words.get_color() == COLOURS["green"]
    assert words.get_bbox_patch().get_facecolor() == (1, 1, 1, 1)


# ------------------------------------------------------------------------------------------ figures of a page


class Elements(HTMLParser):
    """The elements of a fragment."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.fixture
def shown(monkeypatch) -> list[str]:
    """The Markdown that is shown while a test runs."""
    import IPython.display

    bodies: list[str] = []
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: bodies.append(data["text/markdown"]))
    return bodies


def test_a_figure_is_one_image_with_its_finding_and_a_caption(shown):
    figures.figure(curve, alt='The "best" rule\n\n goes <up>.', caption="two & three\n\n# four")
    elements = Elements(shown[0]).found
    assert [tag for tag, _ in elements] == ["figure", "img", "figcaption"]
    assert elements[1][1]["alt"] == 'The "best" rule goes <up>.'
    assert elements[0][1] == {"tabindex": "0"}  # on a phone it scrolls, with the keyboard too
    assert "<figcaption>two &amp; three # four</figcaption>" in shown[0]
    assert "\n" not in shown[0]
    data = elements[1][1]["src"].removeprefix("data:image/svg+xml;base64,")
    assert base64.b64decode(data) == figures.svg(curve)


# an alternative text that tells nothing
WORDLESS = ["", "  ", "\n", "figure.png", "joint score", "Joint score of each judge", "...", "\u200b\u200b."]


@pytest.mark.parametrize("alt", WORDLESS)
def test_an_alternative_text_that_is_no_sentence_is_refused(alt, shown):
    with pytest.raises(GuardFailed, match="no sentence") as refused:
        figures.figure(curve, alt=alt, caption="of this figure")
    assert refused.value.where == "of this figure"
    assert not shown


DRAWN = """
import sys
sys.path.insert(0, {tests!r})
import test_figures
from traceaudit import figures
sys.stdout.buffer.write(figures.svg(test_figures.curve))
"""


def test_a_figure_has_the_same_bytes_in_another_process_at_another_place(tmp_path):
    bodies = [figures.svg(curve), figures.svg(curve)]
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": f"1{seed}00000000"}
        command = [sys.executable, "-c", DRAWN.format(tests=str(ROOT / "tests"))]
        bodies.append(
            subprocess.run(command, cwd=tmp_path / seed, env=environment, capture_output=True, check=True).stdout
        )
    assert len(set(bodies)) == 1
    assert str(tmp_path).encode() not in bodies[0]
