"""A published site held against the stored records: its data files, and every figure its pages show.

A page is read long after it was built and by people who cannot build it, so what it shows is compared with the records
as it stands there, not as it was meant.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import unescape
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urljoin

import msgspec

from . import records, stored
from .errors import NothingToCheck, PinMismatch, RecordMismatch, TraceAuditError
from .finishing import table_csv, values_csv
from .instances import Instance, load_chapters
from .named_texts import NamedTexts
from .pages import CARD, html_of
from .records import Record
from .show import escape
from .site_source import Site, open_site

__all__ = ["Mismatch", "Published", "check_site", "compare_site", "read_build"]

BUILD = "data/build.json"
_SHOWN = 12  # characters of a commit or digest that a message shows
_WIDEST = 160  # characters of a text that a message shows
_MOST = 20  # differences of one page that are listed


class BuiltPage(msgspec.Struct, frozen=True):
    """What ``data/build.json`` says of one page."""

    chapter: str
    split: str
    record: str
    record_sha256: str


class Built(msgspec.Struct, frozen=True):
    """What ``data/build.json`` says of a site; fields that are not read here may stand beside these."""

    commit: str
    changed: bool
    pages: dict[str, BuiltPage]

    def __str__(self) -> str:
        changed = ", with changes" if self.changed else ""
        return f"commit {self.commit[:_SHOWN]}{changed}" if self.commit else "no known commit"


@dataclass(frozen=True)
class Mismatch:
    """One thing that a published page says otherwise than the record.

    Attributes:
        page: The page, or the file of the site.
        name: The value, finding or leaf it is about.
        expected: What the stored record holds.
        got: What is published.
    """

    page: str
    name: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.page}: {self.name}: expected {self.expected[:_WIDEST]}, got {self.got[:_WIDEST]}"


@dataclass
class Published:
    """What a comparison came to.

    Attributes:
        built: What the site says it was built from.
        pages: Number of pages that were read.
        values: Number of recorded values on them.
        mismatches: What differs.
        not_comparable: What was measured on another set of traces.
        unread: Why files could not be read, each with its name.
    """

    built: Built
    pages: int = 0
    values: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    not_comparable: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def check_site(place: str, root: Path, say: Callable[[str], None]) -> int:
    """Hold a published site against the stored records and say how that went.

    Args:
        place: Its address or its folder.
        root: The project that holds the records.
        say: Takes one line for the reader at a time.

    Returns:
        0: everything is as recorded, or not comparable and listed.

    Raises:
        RecordMismatch: something differs; every difference with page, name, expected and got.
        NothingToCheck: there is no site, or part of it could not be read.
        UsageError: the address is of no kind that can be read.
        PinMismatch: a stored record is damaged itself.
    """
    site = open_site(place)
    found = compare_site(site, root)
    for line in found.not_comparable:
        say(f"{line} was recorded on another set of traces: not comparable")
    if found.mismatches:
        lines = [*_listed(found.mismatches), *(f"not read: {line}" for line in found.unread)]
        raise RecordMismatch(
            f"the published site ({found.built}) does not hold what the records say:\n  " + "\n  ".join(lines),
            where=str(site),
            next_step="check out the commit it was built from and check again; if it differs still, publish it anew",
        )
    if found.unread:
        raise NothingToCheck(
            "part of the published site could not be read, so it was not checked:\n  " + "\n  ".join(found.unread),
            where=str(site),
            next_step="try again",
        )
    say(f"{site}: {found.built}: {found.pages} pages with {found.values:,} values hold what the records say")
    return 0


def _listed(mismatches: list[Mismatch]) -> Iterator[str]:
    of_page: dict[str, list[Mismatch]] = {}
    for each in mismatches:
        of_page.setdefault(each.page, []).append(each)
    for page, there in of_page.items():
        yield from (str(each) for each in there[:_MOST])
        if len(there) > _MOST:
            yield f"{page}: and {len(there) - _MOST} more"


def compare_site(site: Site, root: Path) -> Published:
    """Read a whole site and compare it; see :func:`check_site`."""
    instances = load_chapters(root / "chapters" / "chapters.toml")
    found = Published(read_build(site))
    listed = {html_of(each.page) for each in instances}
    extra = set(found.built.pages) | (site.pages() or set())
    for page in sorted(extra - listed - {html_of(CARD)}):
        found.mismatches.append(Mismatch(page, "the page", "none of this name in chapters.toml", "a page"))
    digests = stored.digests(root)
    for each in instances:
        try:
            record = stored.stored(each.chapter, each.split, root)
        except NothingToCheck:
            found.mismatches.append(Mismatch(html_of(each.page), "the record", f"{each.id}.json", "none stored here"))
            continue
        _OnePage(site, each, record, found).compare(digests[f"{each.id}.json"])
    return found


def read_build(site: Site) -> Built:
    """What a site says of itself.

    Raises:
        NothingToCheck: it says nothing, so it is no report.
        RecordMismatch: what it says cannot be read.
    """
    step = "give the address or folder of a finished report (see `make report`)"
    try:
        content = site.read(BUILD)
    except RecordMismatch as error:
        raise NothingToCheck(error.what, where=str(site), expected=BUILD, got=error.got, next_step=step) from None
    if content is None or content.lstrip()[:1] == b"<":
        got = "no such file" if content is None else "a page instead of it"
        raise NothingToCheck("there is no report", where=str(site), expected=BUILD, got=got, next_step=step)
    try:
        return msgspec.json.decode(content, type=Built)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordMismatch(
            "what the site says of its build cannot be read", where=f"{site}: {BUILD}", got=str(error),
            next_step="publish the site anew",
        ) from None  # fmt: skip


class _OnePage:
    """One page of a site, its files, and the stored record they are held against."""

    def __init__(self, site: Site, instance: Instance, record: Record, found: Published) -> None:
        self._site, self._instance, self._stored, self._found = site, instance, record, found
        self._page = html_of(instance.page)
        self._values = dict(record.values)
        self._findings = dict(record.findings)

    def compare(self, digest: str) -> None:
        """Compare everything of the page."""
        self._compare_build(digest)
        self._compare_record()
        self._compare_csv()
        content = self._read(self._page)
        if content is None:
            return
        shown = NamedTexts(content.decode("utf-8", "replace"))
        self._compare_shown(shown)
        self._found.pages += 1
        self._found.values += len(self._values)
        folder = f"data/{self._instance.id}/"
        files = {PurePosixPath(urljoin("/" + self._page, unquote(link))).as_posix()[1:] for link in shown.links}
        for path in sorted(file for file in files if file.startswith(folder) and file.endswith(".json")):
            self._compare_table(path)

    def _differ(self, place: str, name: str, expected: object, got: object) -> None:
        self._found.mismatches.append(Mismatch(place, name, str(expected), str(got)))

    def _read(self, path: str) -> bytes | None:
        """A file of the site; one that is not there or cannot be read is noted."""
        try:
            content = self._site.read(path)
        except RecordMismatch as error:
            self._differ(path, error.what, error.expected, error.got)
            return None
        except TraceAuditError as error:
            self._found.unread.append(f"{path}: {error.what} ({error.got})")
            return None
        if content is None:
            self._differ(path, "the file", "a page" if path == self._page else "a file", "no such file")
        return content

    def _compare_build(self, digest: str) -> None:
        told = self._found.built.pages.get(self._page)
        if told is None:
            self._differ(BUILD, self._page, "an entry", "none")
            return
        wanted = {
            "chapter": self._instance.chapter, "split": self._instance.split,
            "record": f"{self._instance.id}.json", "record_sha256": digest,
        }  # fmt: skip
        for name, expected in wanted.items():
            if (got := getattr(told, name)) != expected:
                self._differ(self._page, f"{name} in {BUILD}", expected, got or "nothing")

    def _compare_record(self) -> None:
        """Leaf by leaf; where nothing differs, the rest of the page is held against what was published here."""
        path = f"data/{self._instance.id}.json"
        content = self._read(path)
        if content is None:
            return
        try:
            now = records.parse(content, PurePosixPath(path).name, modes=True)
        except PinMismatch as error:
            self._differ(path, error.what, error.expected or "a record", error.got or "something else")
            return
        comparison = records.compare(self._stored, now)
        for each in comparison.differences:
            self._differ(self._page, f"{each.leaf} in {path}", repr(each.was), repr(each.now))
        self._found.not_comparable += [f"{self._page}: {leaf}" for leaf in comparison.not_comparable]
        wrong = {tuple(each.leaf.split(".")[:2]) for each in comparison.differences}
        self._values |= {n: v for n, v in now.values.items() if n in self._values and ("values", n) not in wrong}
        self._findings |= {
            n: f for n, f in now.findings.items() if n in self._findings and ("findings", n) not in wrong
        }

    def _compare_csv(self) -> None:
        path = f"data/{self._instance.id}.csv"
        content = self._read(path)
        if content is None:
            return
        wanted, got = _rows(values_csv(replace(self._stored, values=self._values))), _rows(content)
        for name in [*wanted, *(name for name in got if name not in wanted)]:
            if name not in wanted or name not in got:
                self._differ(path, name, "a line" if name in wanted else "no line", "a line" if name in got else "none")
                continue
            for column, expected in wanted[name].items():
                if column != "mode" and got[name].get(column) != expected:
                    self._differ(path, f"{name}, {column}", expected, got[name].get(column, "no such column"))

    def _compare_shown(self, shown: NamedTexts) -> None:
        """What a reader sees: every value and verdict under its name, and every recorded value at least once."""
        texts = {name: repr(_visible(value.shown)) for name, value in self._values.items()}
        for name, text in shown.values:
            if repr(text) != texts.get(name):
                self._differ(self._page, name, texts.get(name, "no value of this name"), repr(text))
        for name in sorted(texts.keys() - {name for name, _ in shown.values}):
            self._differ(self._page, name, texts[name], "nothing of this name")
        for id, text in shown.findings:
            verdicts = [verdict for verdict, _ in self._judged(id)]
            if text not in verdicts:
                self._differ(
                    self._page, id, " or ".join(dict.fromkeys(verdicts)) or "no finding of this id", repr(text)
                )

    def _judged(self, id: str) -> list[tuple[str, str]]:
        """Verdict and magnitude of a finding, then of its parts by split, which carry the same id on a page."""
        finding = self._findings.get(id)
        whole = [finding, *(finding.per_split or {}).values()] if finding else []
        return [(str(each.verdict), each.magnitude) for each in whole]

    def _compare_table(self, path: str) -> None:
        """A table that a reader can take away: its named cells, and its CSV form."""
        content = self._read(path)
        if content is None:
            return
        try:
            table = json.loads(content)
            cells = [cell for row in table["rows"] for cell in row if isinstance(cell, Mapping)]
            as_csv = table_csv(table)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._differ(path, "the table", "columns and rows as JSON", f"{type(error).__name__}: {error}")
            return
        for cell in cells:
            self._compare_cell(path, cell)
        beside = path.removesuffix(".json") + ".csv"
        if (content := self._read(beside)) is not None and content != as_csv:
            self._differ(beside, "the table", "what its JSON form holds", "something else")

    def _compare_cell(self, path: str, cell: Mapping[str, Any]) -> None:
        if "finding" in cell:
            id, got = str(cell["finding"]), (cell.get("verdict"), cell.get("magnitude"))
            if got not in (judged := self._judged(id)):
                self._differ(path, id, judged[0] if judged else "no finding of this id", got)
            return
        name = str(cell.get("name"))
        value = self._values.get(name)
        if value is None:
            self._differ(path, name, "no value of this name", cell.get("shown"))
            return
        raw = _visible(value.raw) if isinstance(value.raw, str) else value.raw
        for key, expected in (("shown", _visible(value.shown)), ("raw", raw), ("n", value.n)):
            if cell.get(key) != expected:
                self._differ(path, f"{name}, {key}", repr(expected), repr(cell.get(key)))


def _visible(text: str) -> str:
    """A recorded text as a page shows it, control characters by their code."""
    return unescape(escape(text))


def _rows(content: bytes) -> dict[str, dict[str, Any]]:
    try:
        rows = csv.DictReader(io.StringIO(content.decode("utf-8", "replace"), newline=""))
        return {row.get("name") or f"line {number}": row for number, row in enumerate(rows, 2)}
    except csv.Error:
        return {}
