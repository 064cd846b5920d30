"""The reproduction card: what ran, when, for how long, in how much memory, on which versions, and how to run it again.

Times and machines belong beside the report and never in it: the card is written anew by each build, and no record, no
page of a chapter and no key depends on it.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import stored
from .errors import PinMismatch
from .instances import Instance
from .pages import CARD
from .records import parse, write_whole
from .show import escape

if TYPE_CHECKING:  # finishing puts the card's data into the site, so it may import this module
    from .finishing import Commit

__all__ = ["FACTS", "STARTED", "Entry", "entry", "facts", "now", "renderer", "stamp", "to_markdown", "write_card"]

FACTS = ".traceaudit/reproduction.json"
"""The card as data; it goes into the site beside the page."""

STARTED = "TRACEAUDIT_STARTED"
"""The variable in which a command that builds more than once says when it started (a time as :func:`now` gives it)."""

INPUTS = ("requirements.lock", stored.DIGESTS, "data-pins/committed.toml")
_MISSING = "not noted"
_WIDEST = 44  # characters; a wide table shares its width out by these


@dataclass(frozen=True)
class Entry:
    """One chapter instance on the card.

    Attributes:
        instance: The chapter and split.
        seconds: Wall-clock seconds of its last run, the start of its process included; None where none were noted.
        peak_bytes: The most memory that its largest process held at a time; None where none was noted.
        when: When that run ended, ISO 8601 in UTC; empty where it was not noted.
        fresh: Whether that run was part of this build; else its page was kept.
        mode: ``measured``, ``recalled`` or ``partly recalled``; empty for a chapter that records nothing.
        engine: The engine's name in the provenance, if it has one.
    """

    instance: Instance
    seconds: float | None = None
    peak_bytes: int | None = None
    when: str = ""
    fresh: bool = False
    mode: str = ""
    engine: str = ""


def now() -> str:
    """The time in UTC, to the second, such as ``2025-01-31T12:00:00Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp(seconds: float, peak_bytes: int | None) -> dict[str, Any]:
    """What a build keeps of a run for later cards: ``seconds``, ``peak_bytes`` and ``when``."""
    return {"seconds": round(seconds, 3), "peak_bytes": peak_bytes, "when": now()}


def entry(instance: Instance, kept: bytes | None, *, since: str = "") -> Entry:
    """A chapter instance as its kept record of the run tells it.

    Args:
        instance: The chapter and split.
        kept: The bytes of ``.traceaudit/built/<id>.json``; where there are none, or damaged ones, nothing was noted.
        since: When this build started; a run that ended before was kept.
    """
    try:
        record = parse(kept or b"", f"{instance.id}.json", modes=True)
    except PinMismatch:
        return Entry(instance)
    build = json.loads(kept or b"{}").get("build", {})
    when = str(build.get("when", ""))
    return Entry(
        instance,
        build.get("seconds"),
        build.get("peak_bytes"),
        when,
        bool(when and since and when >= since),
        record.mode,
        str(record.provenance.get("engine", "")),
    )


def renderer(environ: Mapping[str, str] = os.environ) -> str:
    """Name and version of the renderer that called this build; empty where none did, or it cannot be told."""
    if "SMALLDOCS" in environ:
        return f"smalldocs {metadata.version('smalldocs')}"
    if "QUARTO_PROJECT_DIR" not in environ:
        return ""
    try:
        version = Path(environ["QUARTO_SHARE_PATH"], "version").read_text(encoding="utf-8").strip()
    except (KeyError, OSError, ValueError):
        version = ""
    return f"quarto {version}" if re.fullmatch(r"[\w.+-]+", version) else "quarto"


def facts(
    root: Path, entries: Sequence[Entry], *, commit: Commit, sources: Iterable[str] = (), rendered_by: str = ""
) -> dict[str, Any]:
    """Everything on the card as plain data: no path, host name or user name is among it.

    Args:
        root: The project.
        entries: Every page's chapter instance.
        commit: What the working tree is at.
        sources: What the sources hold, a line each, as the build said it.
        rendered_by: The renderer, see :func:`renderer`.

    Returns:
        ``commit``, ``changed``, ``chapters`` (a list), ``python``, ``packages`` (name -> version or None),
        ``renderer``, ``machine``, ``inputs`` (file -> SHA-256 or None), ``sources`` and ``commands``.
    """
    return {
        "commit": commit.name,
        "changed": commit.changed,
        "chapters": [_as_json(each) for each in entries],
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": _packages(),
        "renderer": rendered_by,
        "machine": _machine(),
        "inputs": {name: _digest(root / name) for name in INPUTS},
        "sources": list(sources),
        "commands": _commands(root, commit),
    }


def _as_json(each: Entry) -> dict[str, Any]:
    return {
        "chapter": each.instance.chapter,
        "split": each.instance.split,
        "title": each.instance.title,
        "page": each.instance.page,
        "mode": each.mode,
        "engine": each.engine,
        "seconds": each.seconds,
        "peak_bytes": each.peak_bytes,
        "when": each.when,
        "fresh": each.fresh,
    }


def _packages() -> dict[str, str | None]:
    """This project and what it needs by name, without its extras."""
    needed = [line for line in metadata.requires("traceaudit") or () if "extra ==" not in line]
    names = [match[0] for line in needed if (match := re.match(r"[\w.-]+", line))]
    out: dict[str, str | None] = {}
    for name in ["traceaudit", *sorted(names, key=str.lower)]:
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            out[name] = None
    return out


def _machine() -> dict[str, Any]:
    import psutil

    try:
        release = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:  # not Linux, or it does not say
        release = f"macOS {platform.mac_ver()[0]}" if platform.mac_ver()[0] else ""
    return {
        "system": platform.system(),
        "release": release,
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
    }


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _commands(root: Path, commit: Commit) -> list[str]:
    """From nothing to a checked report; the repository is named where CITATION.cff names it."""
    citation = root / "CITATION.cff"
    named = re.search(r"^repository-code: *[\"']?(https://[\w./~-]+)", _text(citation), re.MULTILINE)
    return [
        f"git clone {named[1] if named else 'REPOSITORY'} traceaudit",
        "cd traceaudit",
        *([f"git checkout {commit.name}"] if commit.name else []),
        "make report",
        ".venv/bin/traceaudit check",
    ]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def to_markdown(told: Mapping[str, Any]) -> str:
    """The card as a page of Markdown that every renderer of the project reads; all that is data is escaped."""
    rows = told["chapters"]
    seconds = [row["seconds"] for row in rows if row["seconds"] is not None]
    peaks = [row["peak_bytes"] for row in rows if row["peak_bytes"] is not None]
    noted = f", of the {len(seconds)} whose run was noted" if 0 < len(seconds) < len(rows) else ""
    machine = told["machine"]
    versions = [
        ("Python", told["python"]),
        *((name, version or "absent") for name, version in told["packages"].items()),
    ]
    versions += [("renderer", told["renderer"])] if told["renderer"] else []
    system = [machine["release"] or machine["system"], machine["architecture"], _cores(machine["cores"])]
    parts = [
        "---\ntitle: Reproduction\n---",
        "What the build behind this site ran, and on what. The figures on this page depend on the machine and the "
        "moment. So they are in no record, and nothing compares them.",
        "## Run it again",
        "```sh\n" + "\n".join(told["commands"]) + "\n```",
        _tree(told),
        "With the benchmark's data at hand: `make report SOURCE=DIR JUDGES=DIR`. "
        "The last command runs every chapter once more and compares it with the stored records.",
        "## What ran",
        f"{len(rows)} pages. Seconds together{noted}: {_seconds(sum(seconds) if seconds else None)}. "
        f"Most memory: {_bytes(max(peaks, default=None))}.",
        _table(
            ("page", "how", "seconds", "peak memory", "run"),
            [[_page(row), _how(row), _seconds(row["seconds"]), _bytes(row["peak_bytes"]), _run(row)] for row in rows],
            right=(2, 3),
        ),
        "Seconds are from the start of a chapter's process to its end; several may run at a time. Peak memory is that "
        "of the chapter's largest process: its own, or one that it started, such as the scorer's.",
        "## What it read",
        "\n".join(f"* {escape(line)}" for line in told["sources"]),
        _table(
            ("file", "SHA-256"),
            [[f"`{name}`", f"`{digest}`" if digest else "absent"] for name, digest in told["inputs"].items()],
        ),
        "## On what",
        f"{', '.join(escape(str(part)) for part in system)}, {_bytes(machine['memory_bytes'])} of memory.",
        _table(("software", "version"), [[escape(name), escape(version)] for name, version in versions]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _tree(told: Mapping[str, Any]) -> str:
    if not told["commit"]:
        return "The site was built outside a git repository, so its commit is not known."
    if told["changed"]:
        return "Files differed from that commit when the site was built: the commit alone may not give the same pages."
    return "No file differed from that commit when the site was built."


def _page(row: Mapping[str, Any]) -> str:
    target = row["page"].removeprefix("report/") if row["page"].startswith("report/") else f"../{row['page']}"
    return f"[{escape(row['title'])}]({target})"


def _how(row: Mapping[str, Any]) -> str:
    return escape(", ".join(part for part in (row["mode"], row["engine"]) if part)) or "records nothing"


def _run(row: Mapping[str, Any]) -> str:
    if not row["when"]:
        return _MISSING
    shown = row["when"].replace("T", " ").removesuffix("Z") + " UTC"
    return escape(f"in this build, {shown}" if row["fresh"] else f"kept from {shown}")


def _seconds(seconds: float | None) -> str:
    return _MISSING if seconds is None else f"{seconds:.1f} s"


def _bytes(number: int | None) -> str:
    if number is None:
        return _MISSING
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


def _cores(number: int | None) -> str:
    return "an unknown number of cores" if number is None else f"{number} core{'s' if number != 1 else ''}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    marks = []
    for position, column in enumerate(columns):
        dashes = "-" * min(max(len(column), 4, *(_width(row[position]) for row in rows)), _WIDEST)
        marks.append(f"{dashes}:" if position in right else f":{dashes}")
    lines = "\n".join(f"| {' | '.join(line)} |" for line in (columns, marks, *rows))
    return f'<div class="wide" tabindex="0">\n\n{lines}\n\n</div>'


def _width(cell: str) -> int:
    return len(html.unescape(re.sub(r"\]\([^)]*\)", "", cell)))


def write_card(
    root: Path, entries: Sequence[Entry], *, commit: Commit, sources: Iterable[str] = (), rendered_by: str | None = None
) -> dict[str, Any]:
    """Write ``report/reproduction.md``, and its :func:`facts` beside the build, and return these; arguments as there.

    Args:
        root: The project.
        entries: Every page's chapter instance, in the order of the list of chapters.
        commit: What the working tree is at.
        sources: What the sources hold, a line each.
        rendered_by: The renderer, by default the one that called this build.
    """
    by = renderer() if rendered_by is None else rendered_by
    told = facts(root, entries, commit=commit, sources=sources, rendered_by=by)
    write_whole(root / CARD, to_markdown(told).encode("utf-8"))
    write_whole(root / FACTS, (json.dumps(told, indent=1) + "\n").encode())
    return told
