"""Figures of one style, drawn from values alone: one SVG image each, which follows the reader's light or dark mode.

One look in one place spares every chapter its own; and since a figure may use the colours of the palette only, each of
them can be exchanged for its dark counterpart, and their contrast can be tested.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from .errors import GuardFailed

__all__ = ["COLOURS", "DARK", "MARKS", "STYLE", "WORDS", "drawable", "figure", "label", "svg"]

COLOURS = {
    "blue": "#00629b",
    "orange": "#bf5000",
    "green": "#00805c",
    "pink": "#af4f87",
    "sky": "#3c9ad9",
    "grey": "#5f6368",
    "ink": "#333333",
    "rule": "#cccccc",
    "pale": "#e3e3e3",
    "wash": "#eeeeee",
    "paper": "#ffffff",
}
"""The palette, name -> colour: the hues of Okabe and Ito (2008), which stay apart for colour-blind readers, darkened
until words can be set in them."""

DARK = {
    "blue": "#6cc0f2",
    "orange": "#ee8434",
    "green": "#1fb587",
    "pink": "#eda6d0",
    "sky": "#2c7fb5",
    "grey": "#9da2a7",
    "ink": "#dfe2e5",
    "rule": "#50555b",
    "pale": "#3d4248",
    "wash": "#282b30",
    "paper": "#17191c",
}
"""What each colour of the palette becomes where the reader's system is dark."""

WORDS = ("ink", "grey", "blue", "orange", "green", "pink")
"""Colours that words may have: at least 4.5:1 on paper, in both modes."""

MARKS = (*WORDS, "sky")
"""Colours that a mark with a meaning may have: at least 3:1. The others are for what lies behind."""

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "traceaudit",  # ids in the file depend on what is drawn alone
    "svg.fonttype": "path",  # no font of the reader's matters
    "text.parse_math": False,  # a label from data is no formula
    "font.size": 10,
    "text.color": COLOURS["ink"],
    "figure.facecolor": COLOURS["paper"],
    "axes.facecolor": COLOURS["paper"],
    "axes.edgecolor": COLOURS["grey"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.prop_cycle": f"cycler('color', {[COLOURS[name] for name in MARKS if name not in ('ink', 'grey')]})",
    "grid.color": COLOURS["pale"],
    "grid.linewidth": 0.6,
    "hatch.color": COLOURS["grey"],
    "hatch.linewidth": 0.6,
    "xtick.color": COLOURS["grey"],
    "ytick.color": COLOURS["grey"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"],
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "lines.linewidth": 1.4,
    "lines.markersize": 6,
    "patch.edgecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 9,
}
"""Matplotlib's settings for every figure."""

_SIDES = {  # where a label stands -> points to move it by, and which edge of it meets the place
    "right": ((7, 0), "left", "center"),
    "left": ((-7, 0), "right", "center"),
    "above": ((0, 5), "center", "bottom"),
    "below": ((0, -5), "center", "top"),
    "above right": ((5, 4), "left", "bottom"),
    "above left": ((-5, 4), "right", "bottom"),
    "below right": ((5, -4), "left", "top"),
    "below left": ((-5, -4), "right", "top"),
}
_SVG = "{http://www.w3.org/2000/svg}"
_PAINT = re.compile(r"\b(?:fill|stroke|stop-color): (#[0-9a-f]{3,8})")
_TOO_SHORT = 3  # words; fewer are a name and no sentence


def figure(draw: Callable[[Any], None], *, alt: str, caption: str, size: tuple[float, float] = (7.2, 4.0)) -> None:
    """Draw a figure and show it as one SVG image with its finding as alternative text.

    Args:
        draw: Takes a Matplotlib axes and draws from values, in colours of ``COLOURS``.
        alt: The finding, as a sentence for who cannot see the figure.
        caption: One sentence, shown below.
        size: Inches.

    Raises:
        GuardFailed: ``alt`` is no sentence, or the drawing uses what cannot follow the reader's mode (see ``svg``).
    """
    from IPython.display import display

    words = _line(alt)
    if len(words.split()) < _TOO_SHORT or not words.endswith((".", "!", "?")):
        raise GuardFailed(
            "the alternative text of a figure is no sentence",
            where=_line(caption),
            expected="what the figure shows, as a sentence with its full stop",
            got=repr(alt),
            next_step="write the finding into alt, with its values",
        )
    data = base64.b64encode(svg(draw, size=size, where=_line(caption))).decode()
    image = f'<img alt="{html.escape(words)}" src="data:image/svg+xml;base64,{data}">'
    # on a phone a figure scrolls in its box, and who has no pointer must reach the box
    body = f'<figure tabindex="0">{image}<figcaption>{html.escape(_line(caption))}</figcaption></figure>'
    display({"text/markdown": body, "text/plain": "<Markdown>"}, raw=True)


def svg(draw: Callable[[Any], None], *, size: tuple[float, float] = (7.2, 4.0), where: str = "a figure") -> bytes:
    """The drawing as SVG; its bytes depend on what is drawn alone: no date, fixed ids, letters as paths.

    Args:
        draw: Takes a Matplotlib axes and draws on it.
        size: Inches.
        where: What an error calls the figure.

    Raises:
        GuardFailed: a colour is not in the palette, words have a colour too faint to read, or the drawing holds
            pixels; none of these would be right in both modes.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(STYLE):
        drawn, axes = pyplot.subplots(figsize=size, layout="constrained")
        try:
            draw(axes)
            _finish(drawn)
            out = io.BytesIO()
            drawn.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
            _check_words(drawn, where)  # an axis has its words once it is drawn
        finally:
            pyplot.close(drawn)
    plain = out.getvalue().decode("utf-8")
    used = _colours(plain, where)
    return re.sub(r"<svg\b[^>]*>", lambda tag: f"{tag.group()}\n{_style(used)}", plain, count=1).encode("utf-8")


def label(
    axes: Any,
    words: str,
    at: tuple[float, float],
    *,
    colour: str = "ink",
    side: str = "right",
    frame: Any = "data",
    size: float = 9,
) -> None:
    """Write words beside what they name, on paper so that no line crosses them; it spares a legend.

    Args:
        axes: Where to write.
        words: What to write.
        at: The place that is named.
        colour: A name of ``WORDS``, the colour of what is named.
        side: ``right``, ``left``, ``above``, ``below`` of it, or a corner such as ``above left``.
        frame: What ``at`` counts in, as Matplotlib's ``xycoords``: ``("axes fraction", "data")`` is a share of the
            width and a value.
        size: Points.
    """
    offset, horizontal, vertical = _SIDES[side]
    axes.annotate(
        words,
        at,
        xycoords=frame,
        textcoords="offset points",
        xytext=offset,
        horizontalalignment=horizontal,
        verticalalignment=vertical,
        color=COLOURS[colour],
        fontsize=size,
        bbox={"facecolor": COLOURS["paper"], "edgecolor": "none", "pad": 0.5},
    )


def drawable(text: str, most: int = 60) -> str:
    """Text from data as a figure can show it: one line, cut to ``most`` characters, unknown letters by their code."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont("DejaVu Sans"))
    known = "".join(
        each if each.isprintable() and font.get_char_index(ord(each)) else f"<U+{ord(each):04X}>"
        for each in text[: most + 1]
    )
    return known if len(known) <= most else f"{known[:most]}…"


def _finish(drawn: Any) -> None:
    """Numbers on a logarithmic axis as they are written; a grid on axes that count, none on rows with names."""
    from matplotlib.ticker import LogFormatter, LogFormatterSciNotation, ScalarFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:,.10f}".rstrip("0").rstrip(".") if super().__call__(x, pos) else ""

    for axes in drawn.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatterSciNotation):
                axis.set_major_formatter(Plain())
            if isinstance(axis.get_minor_formatter(), LogFormatterSciNotation):
                axis.set_minor_formatter(Plain())
            axis.grid(isinstance(axis.get_major_formatter(), ScalarFormatter | LogFormatter))


def _check_words(drawn: Any, where: str) -> None:
    from matplotlib.colors import to_hex
    from matplotlib.text import Text

    legible = {COLOURS[name] for name in WORDS}
    for text in drawn.findobj(Text):
        colour = to_hex(text.get_color())
        if text.get_visible() and text.get_text().strip() and colour not in legible:
            raise GuardFailed(
                f"words of a figure have the colour {_named(colour)}, which is not made for words",
                where=where,
                expected=f"a colour of figures.WORDS: {', '.join(WORDS)}",
                got=text.get_text(),
                next_step="set the words in a colour of figures.COLOURS that is made for them",
            )


def _colours(plain: str, where: str) -> list[str]:
    """Which colours of the palette a drawing uses, in the palette's order."""
    root = ElementTree.fromstring(plain)
    inside = {id(part) for defs in root.iter(f"{_SVG}defs") for part in defs.iter()}
    used = set()
    for element in root.iter():
        paints = element.get("style", "")
        used |= set(_PAINT.findall(paints))
        used |= {paint for key in ("fill", "stroke") if (paint := element.get(key, "")).startswith("#")}
        if element.tag == f"{_SVG}image":
            raise GuardFailed(
                "a figure holds pixels, which cannot follow the reader's mode",
                where=where,
                expected="lines, areas, marks and words",
                next_step="draw it without an image",
            )
        shape = element.tag == f"{_SVG}path" or (element.tag == f"{_SVG}use" and paints)  # a letter is a bare use
        if shape and "fill" not in paints and id(element) not in inside:
            used.add("#000000")  # Matplotlib leaves out what SVG would fill with of itself
    unknown = sorted(used - set(COLOURS.values()))
    if unknown:
        raise GuardFailed(
            f"a figure uses {', '.join(map(_named, unknown))}, which the palette does not have",
            where=where,
            expected=f"colours of figures.COLOURS: {', '.join(COLOURS)}",
            got=", ".join(unknown),
            next_step="draw with a colour of figures.COLOURS, or give the palette this one for both modes",
        )
    return [name for name in COLOURS if COLOURS[name] in used]


def _named(colour: str) -> str:
    """A colour with the name that a drawing may have given it."""
    from matplotlib.colors import CSS4_COLORS

    names = [name for name, code in CSS4_COLORS.items() if str(code).lower() == colour]
    names += [name for name, code in COLOURS.items() if code == colour]
    return f"{colour} ({', '.join(names)})" if names else colour


def _style(used: list[str]) -> str:
    """The rules that exchange each used colour for its dark counterpart; without them the drawing is light."""
    rules = []
    for name in used:
        light, dark = COLOURS[name], DARK[name]
        for paint in ("fill", "stroke"):
            rules.append(f'[style*="{paint}: {light}"], [{paint}="{light}"] {{ {paint}: {dark} !important }}')
    return "<style>\n@media (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}\n</style>"


def _line(text: str) -> str:
    """Words on one line, less what cannot be printed: a blank line would end the HTML around them."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
