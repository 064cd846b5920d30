"""Pages: check the rendered site for what renderers pass with exit code 0.

A missing page, an unresolved reference, inline code left as text, a stored error output or a font fetched from
elsewhere all render without complaint; each is a problem here.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from .errors import NothingToCheck, PinMismatch
from .guards import Problem, names_shown
from .instances import Instance
from .notebooks import HIDDEN, read_source, tags

__all__ = ["CARD", "Page", "check_pages", "compare_quarto", "expected_from_quarto", "expected_pages", "html_of"]

CARD = "report/reproduction.md"
"""The page that a build writes beside the chapters: what ran, when and where. It has no record."""

# Attributes that make a browser fetch something, by element; links to read (a href) are not among them.
FETCHES = {
    "audio": ("src",),
    "embed": ("src",),
    "frame": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
LINKS_THAT_FETCH = re.compile(
    r"\b(stylesheet|icon|preload|prefetch|modulepreload|preconnect|dns-prefetch|manifest)\b", re.IGNORECASE
)
CSS_FETCH = re.compile(
    r"""@import\s+(?:url\(\s*)?["']?(?P<sheet>[^"')\s;]+)|url\(\s*["']?(?P<file>[^"')]+)""", re.IGNORECASE
)
ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
UNRESOLVED = (
    ("a reference is unresolved", re.compile(r"\?@[\w-]+")),
    ("inline code is left as text", re.compile(r"\{python\}[^<`\n]{0,40}")),
    ("a shortcode is unresolved", re.compile(r"\?(?:var|meta|env):[\w.-]*")),
)


class Page(HTMLParser):
    """What the checks need of one HTML page.

    Attributes:
        anchors: Every ``id`` and ``name`` of an anchor.
        links: Every ``href`` of a link to read, with its line.
        fetched: Everything a browser would fetch for it, with its line.
        names: Every ``data-name``.
        text: Pairs of line and text, scripts and styles left out.
        words: The same without what comes from data.
    """

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = set()
        self.links: list[tuple[int, str]] = []
        self.fetched: list[tuple[int, str]] = []
        self.names: set[str] = set()
        self.text: list[tuple[int, str]] = []
        self.words: list[tuple[int, str]] = []
        self._inside = ""
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what one element brings."""
        line, found = self.getpos()[0], {name: value or "" for name, value in attrs}
        if tag in ("script", "style"):
            self._inside = tag
        if tag == "span" and {"value", "raw"} & set(found.get("class", "").split()):
            self._inside = tag  # text from data, with no element in it: it may read like anything
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a" and "name" in found:
            self.anchors.add(found["name"])
        if "data-name" in found:
            self.names.add(found["data-name"])
        if tag in ("a", "area") and found.get("href"):
            self.links.append((line, found["href"]))
        for attribute in FETCHES.get(tag, ()):
            if found.get(attribute):
                several = attribute == "srcset" and not found[attribute].startswith("data:")
                parts = found[attribute].split(",") if several else [found[attribute]]
                self.fetched += [(line, part.split()[0]) for part in parts if part.split()]
        if tag == "link" and LINKS_THAT_FETCH.search(found.get("rel", "")) and found.get("href"):
            self.fetched.append((line, found["href"]))
        self.fetched += [(line, address) for address in _css_fetches(found.get("style", ""))]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element closed at once, such as those in SVG."""
        self.handle_starttag(tag, attrs)
        if self._inside == tag:
            self._inside = ""

    def handle_endtag(self, tag: str) -> None:
        """Leave a script, a style or a text from data."""
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        """Text a reader sees, or a style sheet in the page."""
        line = self.getpos()[0]
        if self._inside == "style":
            self.fetched += [(line, address) for address in _css_fetches(data)]
        elif self._inside != "script":
            self.text.append((line, data))
            self.words += [(line, data)] if self._inside != "span" else []


def _css_fetches(css: str) -> Iterator[str]:
    for match in CSS_FETCH.finditer(CSS_COMMENT.sub("", css)):
        yield (match["sheet"] or match["file"]).strip()


def html_of(page: str) -> str:
    """Where a renderer puts the page of a source: ``report/a.ipynb`` becomes ``report/a.html``."""
    return PurePosixPath(page).with_suffix(".html").as_posix()


def check_pages(site: Path, expected: Iterable[str], notebooks: Mapping[str, Path]) -> list[Problem]:
    """Hold a rendered site against what it must hold.

    Args:
        site: The output directory.
        expected: Sources that must have a page, such as ``report/trail-headline-gaia.ipynb``.
        notebooks: Executed notebook of each source that has one.

    Returns:
        Missing pages; unresolved references, inline code and shortcodes; anything fetched from another host; links
        and anchors that lead nowhere; error outputs in the notebooks; values of a notebook that its page lost.
    """
    wanted = {html_of(source): source for source in expected}
    out = [
        Problem(page, "the page is missing", next_step="see the renderer's messages and its render list")
        for page in wanted
        if not (site / page).is_file()
    ]
    pages = {
        path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8", errors="replace"))
        for path in sorted(site.rglob("*.html"))
    }
    for name, page in pages.items():
        out += _check_text(name, page) + _check_fetched(name, page) + _check_links(site, name, page, pages)
    for path in sorted(site.rglob("*.css")):
        css = path.read_text(encoding="utf-8", errors="replace")
        out += [
            Problem(path.relative_to(site).as_posix(), f"something is fetched from elsewhere: {address}")
            for address in _css_fetches(css)
            if ELSEWHERE.match(address)
        ]
    for source, path in notebooks.items():
        out += _check_notebook(source, path, pages.get(html_of(source)))
    return out


def _check_text(name: str, page: Page) -> list[Problem]:
    return [
        Problem(name, f"{what}: {match.group()}", line=line)
        for line, text in page.words
        for what, pattern in UNRESOLVED
        for match in pattern.finditer(text)
    ]


def _check_fetched(name: str, page: Page) -> list[Problem]:
    return [
        Problem(name, f"something is fetched from elsewhere: {address[:120]}", line=line)
        for line, address in page.fetched
        if ELSEWHERE.match(address)
    ]


def _check_links(site: Path, name: str, page: Page, pages: Mapping[str, Page]) -> list[Problem]:
    out = []
    for line, address in (*page.links, *page.fetched):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc or address in ("#", "#top", ""):
            continue
        path, anchor = unquote(parts.path), unquote(parts.fragment)
        target = _resolve(name, path)
        if target is None or not (site / target).exists():
            out.append(Problem(name, f"a link leads nowhere: {address}", line=line))
            continue
        if (site / target).is_dir():
            target = (PurePosixPath(target) / "index.html").as_posix()
        if anchor and target in pages and anchor not in pages[target].anchors:
            out.append(Problem(name, f"a link leads to an anchor that is not there: {address}", line=line))
    return out


def _resolve(name: str, path: str) -> str | None:
    """The file a relative address means, as a path in the site; None if it leads out of it."""
    if not path:
        return name
    parts: list[str] = [] if path.startswith("/") else list(PurePosixPath(name).parent.parts)
    for part in path.split("/"):
        if part == ".." and not parts:
            return None
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) or "."


def _check_notebook(source: str, path: Path, page: Page | None) -> list[Problem]:
    if not path.is_file():
        return [Problem(source, "the executed notebook is missing", next_step="run `traceaudit build`")]
    notebook = read_source(path)
    out = [
        Problem(source, f"the notebook holds an error output: {output.get('ename', '')}", cell=index)
        for index, cell in enumerate(notebook.cells)
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]
    if page is not None:
        lost = [
            name for index, name in names_shown(notebook) if name not in page.names and _visible(notebook.cells[index])
        ]
        out += [Problem(source, f"its page lost a value: {name}") for name in dict.fromkeys(lost)]
    return out


def _visible(cell: Mapping[str, Any]) -> bool:
    return not {*HIDDEN, "remove-output", "hide-output"} & set(tags(cell)) and "#| include: false" not in cell["source"]


def expected_from_quarto(path: Path) -> tuple[list[str], list[str]]:
    """The render list and the targets of sidebar and navigation bar in ``_quarto.yml``, in order.

    Raises:
        NothingToCheck: there is no such file.
        PinMismatch: it is not YAML, or not a mapping.
    """
    if not path.is_file():
        raise NothingToCheck("there is no project file for the renderer", where=path.name)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PinMismatch("the project file is not YAML", where=path.name, got=str(error)) from None
    if not isinstance(data, dict):
        raise PinMismatch("the project file is not a mapping", where=path.name, got=type(data).__name__)
    render = (data.get("project") or {}).get("render") or []
    website = data.get("website") or {}
    targets = list(_targets([website.get("sidebar"), website.get("navbar")]))
    return [str(each) for each in render], list(dict.fromkeys(targets))


SOURCES = (".ipynb", ".qmd", ".md")


def _targets(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        if part.partition("#")[0].endswith(SOURCES) and not ELSEWHERE.match(part):
            yield part.partition("#")[0].removeprefix("/")
    elif isinstance(part, Mapping):
        for key in ("href", "file", "section", "contents", "left", "right", "menu"):
            yield from _targets(part.get(key))
    elif isinstance(part, Sequence):
        for each in part:
            yield from _targets(each)


def expected_pages(path: Path, instances: Sequence[Instance]) -> list[str]:
    """Sources that must have a page: those of the chapters, and whatever else ``_quarto.yml`` names one by one."""
    named = [
        entry for entry in expected_from_quarto(path)[0] if entry.endswith(SOURCES) and not set("!*?[") & set(entry)
    ]
    return list(dict.fromkeys([*(instance.page for instance in instances), *named]))


def compare_quarto(path: Path, instances: Sequence[Instance]) -> list[Problem]:
    """Hold render list and sidebar of ``_quarto.yml`` equal to ``chapters.toml``, both ways.

    The renderer passes a missing target silently. A glob in the render list counts for every page it fits. Other
    sources in it must exist beside the file.
    """
    render, targets = expected_from_quarto(path)
    pages = [instance.page for instance in instances]
    made = [*pages, CARD]
    chosen = [entry for entry in render if not entry.startswith("!")]
    barred = [entry[1:] for entry in render if entry.startswith("!")]
    rendered = {page for page in pages if any(fnmatch.fnmatch(page, entry) for entry in chosen)}
    rendered -= {page for page in pages if any(fnmatch.fnmatch(page, entry) for entry in barred)}
    name, step = path.name, "correct _quarto.yml or chapters/chapters.toml"
    out = [Problem(name, f"the render list lacks {page}", next_step=step) for page in pages if page not in rendered]
    out += [Problem(name, f"the sidebar lacks {page}", next_step=step) for page in pages if page not in targets]
    for entry in chosen:
        there = (path.parent / entry).exists() and entry not in pages and not entry.startswith("report/")
        if not there and not any(fnmatch.fnmatch(page, entry) for page in made):
            out.append(Problem(name, f"the render list names a page no chapter makes: {entry}", next_step=step))
    for entry in targets:
        there = (path.parent / entry).is_file() and entry != "index.ipynb" and not entry.startswith("report/")
        if entry not in made and not there:
            out.append(Problem(name, f"the sidebar names a page no chapter makes: {entry}", next_step=step))
    return out
