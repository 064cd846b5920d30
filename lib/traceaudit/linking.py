"""Linking: from each value on a page to its row in the listing, and from each table to the files it can be taken as.

A chapter run by itself has no site around it, so the runner adds these links to the executed copy, once it knows which
page the copy becomes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from nbformat import NotebookNode

from .show import TABLE_MIME, escape
from .values import Value

__all__ = ["data_folder", "link_tables", "link_values", "tables_of", "told"]

SPAN = re.compile(r'(?P<span><span class="value(?: long)?" data-name="(?P<name>\w+)">[^<]*</span>)')
LISTED = re.compile(r'id="v-(\w+)"')
LISTING = '<details class="listing">'
_LONGEST = 160  # characters of a raw text in a tooltip
_WORDS = 9  # words of a caption that name its file


def told(value: Value) -> str:
    """A value in one line, for a tooltip: raw, unit, denominator, how many were used and left out, mode."""
    raw = "undefined" if value.raw is None else repr(value.raw)
    parts = [f"raw {raw if len(raw) <= _LONGEST else raw[:_LONGEST] + '…'}"]
    parts += [part for part in (value.unit, value.of) if part]
    parts += [f"n {value.n}"] if value.n is not None else []
    parts += [f"{n} left out: {reason}" for reason, n in sorted(value.dropped.items())]
    return "; ".join([*parts, value.mode])


def link_values(notebook: NotebookNode, values: Mapping[str, Value]) -> None:
    """Let each value on the page lead to its row in the listing, and tell it in a tooltip; in place.

    A page without a listing, and the listing itself, are left alone.
    """
    listed = set(LISTED.findall("\n".join(str(data.get("text/markdown", "")) for data in _shown(notebook))))

    def link(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in listed or name not in values or _in_a_link(match.string, match.start()):
            return match.group()
        return f'<a class="value-link" href="#v-{name}" title="{escape(told(values[name]))}">{match["span"]}</a>'

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = SPAN.sub(link, cell.source)
    for data in _shown(notebook):
        if "text/markdown" in data and LISTING not in data["text/markdown"]:
            data["text/markdown"] = SPAN.sub(link, data["text/markdown"])


def _in_a_link(text: str, place: int) -> bool:
    """Whether a link is open there, in HTML or in Markdown: a link holds no other."""
    opened = max(text.rfind("<a ", 0, place), text.rfind("[", 0, place))
    return opened > max(text.rfind("</a>", 0, place), text.rfind("]", 0, place), text.rfind("\n\n", 0, place))


def link_tables(notebook: NotebookNode, page: str, id: str) -> None:
    """Name each table of the page once and put links to its files under it; in place.

    Args:
        notebook: The executed copy.
        page: The page it becomes, such as ``report/trail-headline-gaia.ipynb``.
        id: The chapter instance, such as ``trail-headline.gaia``; it names the folder of the files.
    """
    folder, taken = f"{data_folder(page)}{id}", set()
    for data in _shown(notebook):
        text = data.get("text/markdown", "")
        if LISTING in text:
            data["text/markdown"] = text + _take(f"{folder}", "every value of this page")
        if TABLE_MIME not in data:
            continue
        caption = data[TABLE_MIME]["caption"]
        name, again = _slug(caption), 2
        while name in taken:
            name, again = f"{_slug(caption)}-{again}", again + 1
        taken.add(name)
        data[TABLE_MIME]["name"] = name
        data["text/markdown"] = text + _take(f"{folder}/{name}", caption)


def tables_of(notebook: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The tables of a linked page: name -> caption, columns and rows."""
    found = (data[TABLE_MIME] for data in _shown(notebook) if TABLE_MIME in data)
    return {data["name"]: data for data in found if "name" in data}


def data_folder(page: str) -> str:
    """The way from a page to the site's data: ``../data/`` from ``report/…``."""
    return "../" * (len(PurePosixPath(page).parts) - 1) + "data/"


def _shown(notebook: Mapping[str, Any]) -> list[Any]:
    return [output["data"] for cell in notebook["cells"] for output in cell.get("outputs", []) if "data" in output]


def _take(path: str, what: str) -> str:
    links = " ".join(
        f'<a href="{path}.{kind.lower()}" download aria-label="{escape(f"{what}, as {kind}")}">{kind}</a>'
        for kind in ("CSV", "JSON")
    )
    return f'\n\n<p class="take">{links}</p>\n'


def _slug(caption: str) -> str:
    words = re.findall(r"[a-z0-9]+", caption.lower())
    return "-".join(words[:_WORDS]) or "table"
