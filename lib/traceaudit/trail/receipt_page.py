"""A receipt as one HTML page: an executed chapter in a file that asks nothing of any other.

What a reader sends to a colleague must open anywhere and call nowhere; so style and figure are in it, there is no
script, and a page that would fetch something is an error.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from ..errors import GuardFailed
from ..pages import Page
from ..pins import data_pins
from ..show import escape

__all__ = ["chapter_path", "render"]

OPTION = re.compile(r"#\| *([a-z-]+): *(\S+)\s*\Z")
HEADING = re.compile(r"^# +(.+)$", re.MULTILINE)
VERBATIM = re.compile(r"[^\n\t]+")
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
FRAME = """\
body { margin: 0; background: #fff; color: #1d1f21; font: 16px/1.5 system-ui, sans-serif; }
main { margin: 2rem auto; padding: 0 1.25rem; }
h1 { line-height: 1.2; }
pre { background: #f5f6f8; padding: 0.75rem; overflow-x: auto; font-size: 0.85rem; }
.output { overflow-x: auto; }
.value.long { overflow-wrap: anywhere; }
"""


def chapter_path() -> Path:
    """The receipt's source chapter."""
    return data_pins().parent / "chapters" / "receipt" / "trail-receipt.ipynb"


def render(notebook: Mapping[str, Any]) -> str:
    """The page of an executed chapter.

    Markdown cells and Markdown outputs are rendered (they are the chapter's own; whatever comes from data is escaped
    there), other text is escaped here, code is folded. The options ``include``, ``echo`` and ``output`` are obeyed.

    Raises:
        GuardFailed: the page would fetch something, links out of itself, or runs a script.
    """
    to_html = MarkdownIt("commonmark", {"html": True}).enable("table")
    body = "\n".join(part for cell in notebook["cells"] for part in _cell(cell, to_html))
    prose = "\n".join(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    heading = HEADING.search(prose)
    style = FRAME + (chapter_path().parents[1] / "style.css").read_text(encoding="utf-8")
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(heading[1] if heading else 'Receipt')}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
    _check(page)
    return page


def _cell(cell: Mapping[str, Any], to_html: MarkdownIt) -> Iterator[str]:
    if cell["cell_type"] == "markdown":
        yield to_html.render(cell["source"])
    if cell["cell_type"] != "code":
        return
    lines = cell["source"].split("\n")
    options = {match[1]: match[2] for line in lines if (match := OPTION.match(line))}
    if options.get("include") == "false":
        return
    code = "\n".join(line for line in lines if not line.startswith("#|"))
    if options.get("echo") != "false" and code.strip():
        yield f"<details><summary>Code</summary><pre><code>{_verbatim(code)}</code></pre></details>"
    if options.get("output") == "false":
        return
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "text/markdown" in data:
            yield f'<div class="output">{to_html.render(data["text/markdown"])}</div>'
        elif output["output_type"] == "stream":
            yield f"<pre>{_verbatim(output['text'])}</pre>"
        elif not any(kind.startswith("application/vnd.traceaudit.") for kind in data) and "text/plain" in data:
            yield f"<pre>{_verbatim(data['text/plain'])}</pre>"


def _verbatim(text: str) -> str:
    """Text in its own lines and columns, escaped; other controls are shown by their code, as everywhere."""
    return VERBATIM.sub(lambda part: html.escape(html.unescape(escape(part.group()))), text)


def _check(content: str) -> None:
    page = Page(content)
    outside = [address for _, address in page.fetched if not address.startswith("data:image/")]
    outside += [address for _, address in page.links if not address.startswith("#")]
    if outside or re.search(r"<script|\son\w+\s*=|javascript:", _tags(content), re.IGNORECASE):
        raise GuardFailed(
            "a receipt's page must ask nothing of any other",
            where="receipt",
            got=", ".join(address[:100] for address in outside) or "a script",
            next_step="remove it from the receipt's chapter",
        )


def _tags(content: str) -> str:
    """The tags of a page alone, without the text between them."""
    return "".join(re.findall(r"<[a-zA-Z!][^>]*>", content))
