"""Finishing a rendered site: the files a reader takes away, and a foot on every page that says what it was built from.

The commit of a build is known to the site and not to its pages, whose bytes depend on their inputs alone; so this is
added once the renderer is done. The files are data of the executed pages, never of the rendered ones.
"""

from __future__ import annotations

import csv
import hashlib
import html
import io
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat
import yaml

from . import card, records, stored
from .errors import GuardFailed
from .instances import Instance, load_chapters
from .linking import data_folder, tables_of
from .notebooks import collect
from .pages import CARD, html_of
from .records import Record, write_whole
from .show import raw

__all__ = ["Commit", "bibtex", "commit_of", "finish", "record_of_page", "table_csv", "values_csv"]

CITATION = "CITATION.cff"
FOOT = re.compile(r'<footer class="built">.*?</footer>\n?', re.DOTALL)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
_SHOWN = 12  # characters of a digest or commit that a page shows


@dataclass(frozen=True)
class Commit:
    """What the working tree is at: the commit's name, empty where there is none, and whether files differ from it."""

    name: str = ""
    changed: bool = False

    def __str__(self) -> str:
        return f"{self.name[:_SHOWN]}{', with changes' if self.changed else ''}" if self.name else "not known"


def commit_of(root: Path) -> Commit:
    """The commit that the tree at ``root`` is at; an empty one where it is no working tree of its own."""
    if not (root / ".git").exists():
        return Commit()

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    name = git("rev-parse", "HEAD")
    return Commit(name, bool(name and git("status", "--porcelain", "--untracked-files=no")))


def finish(
    root: Path, site: Path, *, instances: Sequence[Instance] | None = None, commit: Commit | None = None
) -> Mapping[str, Any]:
    """Write the site's data and put a foot on every page; a second time changes nothing.

    Args:
        root: The project, with the executed pages.
        site: The rendered site, which gets a folder ``data``.
        instances: The pages, by default those of ``chapters/chapters.toml``.
        commit: What the site is built from, by default what the working tree is at.

    Returns:
        What ``data/build.json`` holds: commit, version, and per page chapter, split, mode, engine and record.

    Raises:
        GuardFailed: a page has no end of its main part to put the foot at.
    """
    instances = load_chapters(root / "chapters" / "chapters.toml") if instances is None else instances
    commit = commit_of(root) if commit is None else commit
    version = metadata.version("traceaudit")
    digests = stored.digests(root)
    shutil.rmtree(site / "data", ignore_errors=True)
    (site / "data").mkdir(parents=True)
    beside = {CARD: (site / html_of(CARD)).is_file(), CITATION: (root / CITATION).is_file()}
    pages = {}
    for each in instances:
        page = html_of(each.page)
        if not (root / each.page).is_file() or not (site / page).is_file():
            continue  # whoever checks the site says so
        notebook = nbformat.read(root / each.page, as_version=nbformat.NO_CONVERT)
        record = record_of_page(notebook, each)
        _write_files(site / "data", each.id, record, tables_of(notebook))
        pages[page] = {
            "chapter": each.chapter,
            "split": each.split,
            "mode": record.mode or "measured",
            "engine": str(record.provenance.get("engine", "")),
            "record": f"{each.id}.json",
            "record_sha256": digests.get(f"{each.id}.json", ""),
        }
        _put_foot(site / page, _foot(each, pages[page], record, commit, version, beside))
    build = {"commit": commit.name, "changed": commit.changed, "version": version, "pages": pages}
    write_whole(site / "data" / "build.json", _json(build))
    if beside[CITATION]:
        write_whole(site / "data" / "cite.bib", bibtex(root / CITATION, commit).encode())
        write_whole(site / "data" / CITATION, (root / CITATION).read_bytes())
    if (root / card.FACTS).is_file():
        write_whole(site / "data" / "reproduction.json", (root / card.FACTS).read_bytes())
    return build


def record_of_page(notebook: Any, instance: Instance) -> Record:
    """What an executed page recorded, modes included."""
    values, findings, provenance = collect(notebook, instance.id)
    return Record(instance.chapter, instance.split, provenance=provenance, values=values, findings=findings)


def _write_files(folder: Path, id: str, record: Record, tables: Mapping[str, Mapping[str, Any]]) -> None:
    (folder / id).mkdir(parents=True, exist_ok=True)
    (folder / f"{id}.json").write_bytes(records.dump(record.as_json(modes=True), where=id))
    (folder / f"{id}.csv").write_bytes(values_csv(record))
    for name, table in tables.items():
        (folder / id / f"{name}.csv").write_bytes(table_csv(table))
        kept = {key: table[key] for key in ("caption", "columns", "rows")}
        (folder / id / f"{name}.json").write_bytes(_json(kept))


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()  # ASCII, so that any text survives


def values_csv(record: Record) -> bytes:
    """Every value of a page, a line each; raw numbers at full precision, undefined as an empty field."""
    rows = [
        [
            value.name,
            value.shown,
            value.raw,
            value.unit,
            value.of,
            value.n,
            "; ".join(f"{n}: {reason}" for reason, n in sorted(value.dropped.items())),
            value.mode,
        ]
        for value in record.values.values()
    ]
    return _csv([["name", "shown", "raw", "unit", "of", "n", "left_out", "mode"], *rows])


def table_csv(table: Mapping[str, Any]) -> bytes:
    """A table of a page: its headings, then its cells; a value as its raw form, a finding as its verdict."""
    return _csv([table["columns"], *([_plain(cell) for cell in row] for row in table["rows"])])


def _plain(cell: Any) -> Any:
    if isinstance(cell, Mapping):
        return cell["verdict"] if "verdict" in cell else cell["raw"]
    return cell


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows([_field(item) for item in row] for row in rows)
    return out.getvalue().encode("utf-8", "backslashreplace")


def _field(item: Any) -> Any:
    """Numbers as Python writes them; a text that a spreadsheet would run as a formula gets an apostrophe."""
    if isinstance(item, float):
        return repr(item)
    return f"'{item}" if isinstance(item, str) and item.startswith(FORMULA) else item


def _foot(
    each: Instance,
    page: Mapping[str, str],
    record: Record,
    commit: Commit,
    version: str,
    beside: Mapping[str, bool],
) -> str:
    data = data_folder(each.page)
    engine = record.provenance.get("engine_says") or record.provenance.get("engine") or "this project"
    digest = page["record_sha256"]
    said = [
        f"Commit {html.escape(str(commit))}",
        f"traceaudit {html.escape(version)}",
        f"engine: {raw(str(engine))} ({html.escape(page['mode'])})",
        f"stored record {digest[:_SHOWN]}" if digest else "no stored record",
    ]
    links = [
        f'<a href="{data}{each.id}.json" download>this page\'s record (JSON)</a>',
        f'<a href="{data}{each.id}.csv" download>its values (CSV)</a>',
        f'<a href="{data}build.json">what the site was built from</a>',
    ]
    if beside[CITATION]:
        links.append(f'<a href="{data}cite.bib" download>cite it (BibTeX)</a>')
    if beside[CARD]:
        its_page = data.removesuffix("data/") + html_of(CARD)
        links.append(f'<a href="{its_page}">how to rebuild it</a>')
    return f'<footer class="built">\n<p>{" · ".join(said)}</p>\n<p>{" · ".join(links)}</p>\n</footer>\n'


def _put_foot(path: Path, foot: str) -> None:
    page = FOOT.sub("", path.read_text(encoding="utf-8"))
    before, end, after = page.rpartition("</main>")
    if not end:
        raise GuardFailed(
            "the page has no main part", where=path.name, expected="</main>", next_step="look at the renderer's output"
        )
    write_whole(path, (before + foot + end + after).encode("utf-8"))


def bibtex(citation: Path, commit: Commit) -> str:
    """BibTeX entries of a CITATION.cff: the software at this commit, then what it asks to cite beside it."""
    data = yaml.safe_load(citation.read_text(encoding="utf-8"))
    entries = [
        _entry(
            "software",
            "traceaudit",
            {
                "title": data["title"],
                "author": _authors(data),
                "version": str(data.get("version", "")),
                "note": f"commit {commit.name}" if commit.name else "",
                "url": str(data.get("repository-code", data.get("url", ""))),
                "license": str(data.get("license", "")),
            },
        )
    ]
    for reference in data.get("references", []):
        key = hashlib.sha256(str(reference.get("title", "")).encode()).hexdigest()[:8]
        name = re.sub(r"[^a-z]", "", str(reference.get("title", "")).lower().split(":")[0].split(" ")[0]) or key
        fields = {
            "title": reference.get("title", ""),
            "author": _authors(reference),
            "year": str(reference.get("year", "")),
            "url": str(reference.get("url", "")),
        }
        entries.append(_entry("misc", name, fields))
    return "\n".join(entries)


def _authors(data: Mapping[str, Any]) -> str:
    names = [
        f"{author['family-names']}, {author.get('given-names', '')}".rstrip(", ")
        if "family-names" in author
        else f"{{{author['name']}}}"
        for author in data.get("authors", [])
    ]
    return " and ".join(names)


def _entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items() if text)
    return f"@{kind}{{{key},\n{lines}}}\n"
