"""Tables, figures and notes drawn from values alone, as Markdown that every renderer understands.

Nothing here sees a corpus: a cell is a recorded value or fixed words, so what a reader sees can be compared with the
record. All text that comes from data is escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .chapter import Chapter
from .claims import Claim, Finding
from .figures import COLOURS, drawable, figure, label
from .values import Value

__all__ = [
    "COLOURS",
    "TABLE_MIME",
    "banner",
    "cell",
    "drawable",
    "escape",
    "figure",
    "findings",
    "inline",
    "label",
    "listing",
    "markdown",
    "provenance",
    "raw",
    "signature",
    "table",
]

# Characters that Markdown, a table row or HTML would take for markup, as entities: they are shown as themselves.
_MARKUP = {character: f"&#{ord(character)};" for character in "&<>\"'\\`*_{}[]()#+-.!|~^$@:"}
# Controls, and what no reader could see: joiners, fillers, variations, tags.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\u3164\ud800-\udfff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
_MARK = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_TOWER = re.compile(f"(?<={_MARK}{{4}}){_MARK}")  # marks on marks grow over the lines around them
TABLE_MIME = "application/vnd.traceaudit.table+json"
"""Beside a table's Markdown: its caption, columns and cells as data, for who takes it away."""

_WIDEST = 44  # characters; a column is never given more of a table's width than this many
_LONG = 24  # characters; a longer value may break anywhere, a shorter one stays on one line


def escape(text: str) -> str:
    """Text from data, safe in Markdown, in a table cell and in HTML; control characters are shown by their code."""
    return "".join(_MARKUP.get(character, character) for character in _visible(text))


def _visible(text: str) -> str:
    for unseen in (_TOWER, _CONTROL):
        text = unseen.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)
    return text


def inline(value: Value) -> str:
    """A value as it stands in prose and tables, with its name for the reader who asks."""
    kind = "value long" if len(_visible(value.shown)) > _LONG else "value"
    return f'<span class="{kind}" data-name="{value.name}">{escape(value.shown)}</span>'


def raw(text: str) -> str:
    """Text from data that is no value: escaped, apart from the direction of what stands beside it, free to break."""
    return f'<span class="{"raw long" if len(_visible(text)) > _LONG else "raw"}">{escape(text)}</span>'


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


def markdown(text: str, beside: Mapping[str, Any] | None = None) -> None:
    """Show Markdown as one display output; ``beside`` holds more of the same output, by MIME type."""
    from IPython.display import display

    display({"text/markdown": text, "text/plain": "<Markdown>", **(beside or {})}, raw=True)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Value | Finding | str | None]],
    *,
    caption: str,
    numeric: int | Collection[int] = 1,
    fold: str = "",
    kind: str = "",
) -> None:
    """Show a table, and its cells as data beside it.

    Args:
        columns: Headings.
        rows: Cells; every row as long as ``columns``.
        caption: One sentence, shown above.
        numeric: Columns that are set to the right: these positions, or all from this one on.
        fold: What to open to see the table, for one that most readers pass over.
        kind: A class for the element around it, such as ``claims``.
    """
    kept = [list(row) for row in rows]
    body = _table(columns, kept, caption=caption, numeric=numeric)
    if fold:
        body = f"<details>\n<summary>{_line(fold)}</summary>\n\n{body}\n</details>"
    if kind:
        body = f'<div class="{kind}">\n\n{body}\n</div>'
    data = {"caption": caption, "columns": list(columns), "rows": [[_data(content) for content in row] for row in kept]}
    markdown(body, {TABLE_MIME: data})


def _data(content: Value | Finding | str | None) -> Any:
    """One cell as data: a value with its raw form, a finding with its verdict, or words without markup."""
    if isinstance(content, Value):
        told = {"name": content.name, "shown": content.shown, "raw": content.raw, "unit": content.unit, "n": content.n}
        return _utf8(told)
    if isinstance(content, Finding):
        return {"finding": content.id, "verdict": str(content.verdict), "magnitude": content.magnitude}
    words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"<[^>]*>", "", content or ""))
    return html.unescape(words.replace("`", "").replace("**", ""))


def _utf8(told: dict[str, Any]) -> dict[str, Any]:
    """Lone surrogates by their code, as everywhere on a page: no file could hold them."""
    return {key: _visible(item) if isinstance(item, str) else item for key, item in told.items()}


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


def findings(found: Mapping[str, Finding], claims: Mapping[str, Claim], *, caption: str) -> None:
    """Show findings as a table: id, claim, verdict, how far off it is; each id is a permanent link to its row.

    Args:
        found: claim id -> finding.
        claims: claim id -> claim.
        caption: One sentence, shown above.
    """
    rows: list[list[Value | Finding | str | None]] = []
    for id, finding in found.items():
        name = f'<span id="{id}">[{id}](#{id})</span>'
        rows.append([name, escape(claims[id].sentence), finding, escape(finding.magnitude)])
    table(("id", "claim", "verdict", "what was measured"), rows, caption=caption, numeric=4, kind="claims")


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


def listing(chapter: Chapter) -> None:
    """Show every value of the page in a folded table: name, shown, raw, unit, n, what was left out, mode.

    Each row is the anchor ``v-<name>``, where whoever asks for a value on the page is led.
    """
    rows: list[list[Value | Finding | str | None]] = []
    for value in chapter.values:
        dropped = "; ".join(f"{n}: {escape(reason)}" for reason, n in sorted(value.dropped.items()))
        rows.append(
            [
                f'<span id="v-{value.name}">`{value.name}`</span>',
                value,
                raw("undefined" if value.raw is None else repr(value.raw)),
                escape(", ".join(part for part in (value.unit, value.of) if part)),
                "" if value.n is None else str(value.n),
                dropped,
                value.mode,
            ]
        )
    columns = ("name", "shown", "raw", "unit, of", "n", "left out", "mode")
    body = _table(columns, rows, numeric=7)
    summary = f"<summary>Every value of this page ({len(rows)})</summary>"
    signed = signature(chapter.provenance())
    signed = f"<p>Signature of each that was measured: {raw(signed)}</p>" if signed else ""
    markdown(f'<details class="listing">\n{summary}\n{signed}\n\n{body}\n</details>')


def signature(told: Mapping[str, Any]) -> str:
    """What must be equal for two values of one name to be comparable: benchmark, commit, engine, inputs, library."""
    versions = told.get("versions") or {}
    parts = [
        told.get("benchmark"),
        f"split {told['split']}" if told.get("split") else "",
        f"commit {str(told['commit'])[:12]}" if told.get("commit") else "",
        f"engine {told['engine']}" if told.get("engine") else "",
        f"traces {str(told['traces_digest'])[:12]}" if told.get("traces_digest") else "",
        *(f"{name} {version}" for name, version in versions.items()),
    ]
    return " · ".join(str(part) for part in parts if part)


def provenance(chapter: Chapter) -> None:
    """Show what the values of this page rest on."""
    told = chapter.provenance()
    rows = [[raw(key), raw(_flat(value))] for key, value in told.items() if value not in ("", {}, None)]
    body = _table(("what", "of this page"), rows, numeric=2)
    markdown(f'<details class="provenance">\n<summary>What this page rests on</summary>\n\n{body}\n</details>')


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_flat(part)}" for key, part in value.items())
    return str(value)
