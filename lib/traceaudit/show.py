"""Tables, figures and notes drawn from values alone, as Markdown that every renderer understands.

Nothing here sees a corpus: a cell is a recorded value or fixed words, so what a reader sees can be compared with the
record. All text that comes from data is escaped.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from .chapter import Chapter
from .claims import Claim, Finding
from .values import Value

__all__ = [
    "COLOURS",
    "banner",
    "cell",
    "escape",
    "figure",
    "findings",
    "inline",
    "listing",
    "markdown",
    "provenance",
    "table",
]

COLOURS = {
    "blue": "#0072b2",
    "orange": "#d55e00",
    "green": "#009e73",
    "pink": "#cc79a7",
    "sky": "#56b4e9",
    "grey": "#6b6b6b",
}
"""A palette that stays apart for colour-blind readers (Okabe and Ito, 2008)."""

# Characters that Markdown, a table row or HTML would take for markup, as entities: they are shown as themselves.
_MARKUP = {character: f"&#{ord(character)};" for character in "&<>\"'\\`*_{}[]()#+-.!|~^$@:"}
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_WIDEST = 44  # characters; a column is never given more of a table's width than this many
_LONG = 24  # characters; a longer value may break anywhere, a shorter one stays on one line


def escape(text: str) -> str:
    """Text from data, safe in Markdown, in a table cell and in HTML; control characters are shown by their code."""
    visible = _CONTROL.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)
    return "".join(_MARKUP.get(character, character) for character in visible)


def inline(value: Value) -> str:
    """A value as it stands in prose and tables, with its name for the reader who asks."""
    kind = "value long" if len(value.shown) > _LONG else "value"
    return f'<span class="{kind}" data-name="{value.name}">{escape(value.shown)}</span>'


def cell(content: Value | Finding | str | None) -> str:
    """One table cell: a value, a finding's verdict, or fixed words (Markdown allowed)."""
    if content is None:
        return ""
    if isinstance(content, Value):
        return inline(content)
    if isinstance(content, Finding):
        return verdict(content)
    return content.replace("|", "&#124;").replace("\n", " ")


def verdict(finding: Finding) -> str:
    """A verdict as a small label."""
    kind = str(finding.verdict).lower().replace(" ", "-")
    return f'<span class="verdict {kind}" data-finding="{finding.id}">{finding.verdict}</span>'


def markdown(text: str) -> None:
    """Show Markdown as one display output."""
    from IPython.display import Markdown, display

    display(Markdown(text))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Value | Finding | str | None]],
    *,
    caption: str,
    numeric: int | Collection[int] = 1,
    fold: str = "",
) -> None:
    """Show a table.

    Args:
        columns: Headings.
        rows: Cells; every row as long as ``columns``.
        caption: One sentence, shown above.
        numeric: Columns that are set to the right: these positions, or all from this one on.
        fold: What to open to see the table, for one that most readers pass over.
    """
    body = _table(columns, rows, caption=caption, numeric=numeric)
    if fold:
        body = f"<details>\n<summary>{_line(fold)}</summary>\n\n{body}\n</details>"
    markdown(body)


def _table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Value | Finding | str | None]],
    *,
    caption: str = "",
    numeric: int | Collection[int] = 1,
) -> str:
    head = [f'<p class="caption">{_line(caption)}</p>', ""] if caption else []
    right = range(numeric, len(columns)) if isinstance(numeric, int) else numeric
    cells = [[cell(content) for content in row] for row in rows]
    marks = []
    for position, column in enumerate(columns):
        width = max([_width(column), *(_width(row[position]) for row in cells)])
        dashes = "-" * max(4, min(width, _WIDEST))  # a wide table shares its width out by these
        marks.append(f"{dashes}:" if position in right else f":{dashes}")
    lines = [" | ".join(columns), " | ".join(marks), *(" | ".join(row) for row in cells)]
    return "\n".join(head + [f"| {line} |" for line in lines]) + "\n"


def _line(text: str) -> str:
    """Words of ours with figures in them, on one line and safe in HTML: a blank line would end the HTML around it."""
    return html.escape(_CONTROL.sub(" ", text))


def _width(shown: str) -> int:
    return len(html.unescape(re.sub(r"<[^>]*>", "", shown)))


def findings(found: Mapping[str, Finding], claims: Mapping[str, Claim], *, caption: str, link: bool = False) -> None:
    """Show findings as a table: id, claim, verdict, how far off it is.

    Args:
        found: claim id -> finding.
        claims: claim id -> claim.
        caption: One sentence, shown above.
        link: Let each id be an anchor that other pages and people can point at.
    """
    rows = []
    for id, finding in found.items():
        name = f'<span id="{id}">[{id}](#{id})</span>' if link else id
        rows.append([name, escape(claims[id].sentence), finding, escape(finding.magnitude)])
    table(("id", "claim", "verdict", "what was measured"), rows, caption=caption, numeric=4)


def banner(chapter: Chapter) -> None:
    """Say how this page got its values; call it after they are measured."""
    study, mode = chapter.study, chapter.mode
    told = chapter.provenance()
    if study.split == "demo":
        kind, said = "demo", "**Demo.** An invented corpus with planted defects. Nothing on this page is about TRAIL."
    elif mode == "recalled":
        kind = "recalled"
        said = (
            "**Recalled.** The benchmark's data was not at hand, so this page shows stored results, made earlier by "
            f"{_engine(told)}."
        )
    else:
        kind = "measured"
        said = f"**Measured here** by {_engine(told)}, from a {escape(study.source)}."
        if chapter.recalled:
            reasons = "; ".join(escape(reason) for reason in study.lacks.values())
            said += f" Part of it is recalled from the stored record: {reasons}."
    markdown(f'<p class="banner {kind}">{_bold(said)}</p>')


def _engine(told: Mapping[str, Any]) -> str:
    return escape(str(told.get("engine_says") or told.get("engine") or "this project"))


def _bold(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)


def figure(draw: Callable[[Any], None], *, alt: str, caption: str, size: tuple[float, float] = (7.2, 4.0)) -> None:
    """Draw a figure and show it as one SVG image with its finding as alternative text.

    Args:
        draw: Takes a Matplotlib axes and draws from values.
        alt: The finding, as a sentence for who cannot see the figure.
        caption: One sentence, shown below.
        size: Inches.

    The bytes depend on the values alone: no date, fixed ids, text as paths.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    style = {
        "svg.hashsalt": "traceaudit",
        "svg.fonttype": "path",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": COLOURS["grey"],
        "axes.labelcolor": "#333333",
        "xtick.color": "#333333",
        "ytick.color": "#333333",
        "figure.facecolor": "white",
    }
    with matplotlib.rc_context(style):
        drawn, axes = pyplot.subplots(figsize=size, layout="constrained")
        draw(axes)
        out = io.BytesIO()
        drawn.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(drawn)
    data = base64.b64encode(out.getvalue()).decode()
    image = f'<img alt="{_line(alt)}" src="data:image/svg+xml;base64,{data}">'
    markdown(f"<figure>{image}<figcaption>{_line(caption)}</figcaption></figure>")


def listing(chapter: Chapter) -> None:
    """Show every value of the page in a folded table: name, shown, raw, unit, n, what was left out, mode."""
    rows = []
    for value in chapter.values:
        dropped = "; ".join(f"{n}: {escape(reason)}" for reason, n in sorted(value.dropped.items()))
        rows.append(
            [
                f"`{value.name}`",
                value,
                escape("undefined" if value.raw is None else repr(value.raw)),
                escape(", ".join(part for part in (value.unit, value.of) if part)),
                "" if value.n is None else str(value.n),
                dropped,
                value.mode,
            ]
        )
    columns = ("name", "shown", "raw", "unit, of", "n", "left out", "mode")
    body = _table(columns, rows, numeric=7)
    summary = f"<summary>Every value of this page ({len(rows)})</summary>"
    markdown(f'<details class="listing">\n{summary}\n\n{body}\n</details>')


def provenance(chapter: Chapter) -> None:
    """Show what the values of this page rest on."""
    told = chapter.provenance()
    rows = [[escape(key), escape(_flat(value))] for key, value in told.items() if value not in ("", {}, None)]
    body = _table(("", "of this page"), rows, numeric=2)
    markdown(f'<details class="provenance">\n<summary>What this page rests on</summary>\n\n{body}\n</details>')


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_flat(part)}" for key, part in value.items())
    return str(value)
