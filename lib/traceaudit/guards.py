"""Guards: rules of the report that no renderer and no runner would notice being broken.

Sources are stripped, prose types no result, every name shown is recorded and every recorded value shown, and every
cited line of someone else's code is the line we say it is. Each guard returns its problems; :func:`raise_if` ends it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import GuardFailed
from .notebooks import RUN_METADATA, inline_spans, prose_lines, tags
from .values import Value

__all__ = [
    "ALLOWED",
    "Problem",
    "check_inline_names",
    "check_lines",
    "check_prose",
    "check_shown",
    "check_stripped",
    "check_text",
    "names_shown",
    "raise_if",
    "recorded_integers",
]


@dataclass(frozen=True)
class Problem:
    """One broken rule: where and what.

    Attributes:
        file: The file, as a reader would name it.
        what: What is wrong, one clause.
        cell: Index of the cell, None outside notebooks.
        line: Line in the file or cell, from 1; None where it is about the whole.
        next_step: What to do about it.
    """

    file: str
    what: str
    cell: int | None = None
    line: int | None = None
    next_step: str = ""

    def __str__(self) -> str:
        place = [self.file]
        place += [] if self.cell is None else [f"cell {self.cell}"]
        place += [] if self.line is None else [f"line {self.line}"]
        return f"{', '.join(place)}: {self.what}"


def raise_if(problems: Iterable[Problem]) -> None:
    """Raise :class:`GuardFailed` with all problems, if there are any."""
    found = list(problems)
    if found:
        steps = dict.fromkeys(problem.next_step for problem in found if problem.next_step)
        raise GuardFailed(
            f"{len(found)} rule{'s' * (len(found) > 1)} of the report broken\n"
            + "\n".join(f"  {problem}" for problem in found),
            next_step="; ".join(steps),
        )


def check_stripped(file: str, notebook: Mapping[str, Any]) -> list[Problem]:
    """A chapter's source holds no outputs, no execution counts and no metadata of a run."""
    step = "clear the outputs and save the chapter again"
    out = [Problem(file, f"the notebook's metadata holds {key}", next_step=step) for key in _run_keys(notebook)]
    for index, cell in enumerate(notebook["cells"]):
        found = [f"metadata.{key}" for key in _run_keys(cell)]
        found += ["outputs"] if cell.get("outputs") else []
        found += ["an execution count"] if cell.get("execution_count") is not None else []
        found += ["parameters of a run"] if "injected-parameters" in tags(cell) else []
        found += ["a mark of a failed run"] if "papermill-error-cell-tag" in tags(cell) else []
        out += [Problem(file, f"the source holds {what}", cell=index, next_step=step) for what in found]
    return out


def _run_keys(part: Mapping[str, Any]) -> list[str]:
    return [key for key in (*RUN_METADATA, "widgets") if key in part.get("metadata", {})]


# What may hold a digit and is no result: (why, pattern). Everything else decimal is a result, and so is a percentage.
ALLOWED: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("an ISO date", re.compile(r"\b\d{4}-\d{2}(-\d{2})?\b")),
    ("an arXiv id or a DOI", re.compile(r"\b(arXiv:\s?\d{4}\.\d{4,5}(v\d+)?|10\.\d{4,9}/\S+)", re.IGNORECASE)),
    ("a version", re.compile(r"\b(Python|Quarto|version|v)[ -]?(≥|>=|==|=)?\s?\d+(\.\d+)*\+?", re.IGNORECASE)),
    (
        "a place in a text",
        re.compile(
            r"(\b(Table|Figure|Fig\.|Section|Appendix|Chapter|pages?|pp?\.|lines?|seed|issue|exit code)|§|#)"
            r"\s?\d+(\.\d+)*(\s?[-\u2013]\s?\d+)?",
            re.IGNORECASE,
        ),
    ),
    ("an identifier, such as P1, F1, SHA-256 or GPT-4.1", re.compile(r"\b[A-Za-z][A-Za-z_]*-?\d+(\.\d+)*[A-Za-z]*\b")),
    ("a hexadecimal digest", re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b…?")),
    ("a list's numbering", re.compile(r"^[\s>]*\d+[.)]\s")),
)
MASKED = (
    re.compile(r"(`+).*?\1"),  # code
    re.compile(r"\]\([^)]*\)"),  # the target of a link
    re.compile(r"^\s*\[[^\]]+\]:\s.*$"),  # a reference's target
    re.compile(r"<[A-Za-z/!][^>]*>"),  # markup and its attributes
    re.compile(r"https?://[^\s<>)\]]+"),
    re.compile(r"&#?\w+;"),  # entities
)
BLOCKS = re.compile(r"<!--\s*generated:[\w-]+\s*-->.*?<!--\s*/generated\s*-->|<!--.*?-->", re.DOTALL)
NUMBER = re.compile(
    r"(?P<number>\d{1,3}(?:[,'_\u00a0\u2009\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?P<percent>\s?(?:%|percent\b|per cent\b))?"
)
SEPARATORS = re.compile(r"[,'_\u00a0\u2009\u202f]")


def recorded_integers(values: Iterable[Value]) -> set[int]:
    """Every whole number above nine among the raw and shown results."""
    out: set[int] = set()
    for value in values:
        if isinstance(value.raw, int | float) and not isinstance(value.raw, bool) and float(value.raw).is_integer():
            out.add(abs(int(value.raw)))
        for match in NUMBER.finditer(value.shown):
            digits = SEPARATORS.sub("", match["number"])
            if digits.isdecimal():
                out.add(int(digits))
    return {number for number in out if number > 9}


def check_text(file: str, text: str, recorded: set[int], *, cell: int | None = None) -> list[Problem]:
    """A Markdown text types no decimal number, no percentage, and no whole number above nine that is recorded.

    Fenced and inline code, link targets, addresses, markup, comments and blocks between ``<!-- generated:NAME -->``
    and ``<!-- /generated -->`` are left out, and so is what :data:`ALLOWED` names.

    Args:
        file: How to name it.
        text: The Markdown.
        recorded: See :func:`recorded_integers`; of the chapter, or for the README of all records.
        cell: Index of the cell the text is from.
    """
    blanked = BLOCKS.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    out = []
    for number, line in prose_lines(blanked):
        for pattern in (*MASKED, *(pattern for _, pattern in ALLOWED)):
            line = pattern.sub(lambda match: " " * len(match.group()), line)
        for match in NUMBER.finditer(line):
            digits = SEPARATORS.sub("", match["number"])
            if match["percent"]:
                what = f"a percentage is typed: {match.group().strip()}"
            elif "." in digits:
                what = f"a decimal number is typed: {match['number']}"
            elif int(digits) > 9 and int(digits) in recorded:
                what = f"a recorded number is typed: {match['number']}"
            else:
                continue
            step = "name the value, `{python} v.NAME`; in the README use a generated block"
            out.append(Problem(file, what, cell=cell, line=number, next_step=step))
    return out


def check_prose(file: str, notebook: Mapping[str, Any], values: Iterable[Value]) -> list[Problem]:
    """:func:`check_text` over the Markdown cells of a chapter's source, against its own values."""
    recorded = recorded_integers(values)
    return [
        problem
        for index, cell in _markdown_cells(notebook)
        for problem in check_text(file, _source(cell), recorded, cell=index)
    ]


def _markdown_cells(notebook: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    return ((index, cell) for index, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "markdown")


def _source(cell: Mapping[str, Any]) -> str:
    """A cell's text, which notebooks on disk keep as a list of lines."""
    return _joined(cell["source"])


def _joined(text: str | Sequence[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def check_inline_names(file: str, notebook: Mapping[str, Any], names: Iterable[str]) -> list[Problem]:
    """Every inline value in a chapter's prose names a recorded value."""
    known = set(names)
    step = "correct the name, or record the value"
    return [
        Problem(file, f"no value is recorded for {text}", cell=index, line=line, next_step=step)
        for index, cell in _markdown_cells(notebook)
        for _, _, line, name, text in inline_spans(_source(cell))
        if name not in known
    ]


DATA_NAME = re.compile(r"""data-name\s*=\s*(?:"([^"]*)"|'([^']*)')""")


def names_shown(notebook: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Every ``data-name`` of an executed page, with its cell: in prose and in HTML or Markdown outputs."""
    out = []
    for index, cell in enumerate(notebook["cells"]):
        texts = [_source(cell)] if cell["cell_type"] == "markdown" else []
        for output in cell.get("outputs", []):
            texts += [_joined(output.get("data", {}).get(kind, "")) for kind in ("text/html", "text/markdown")]
        out += [(index, a or b) for text in texts for a, b in DATA_NAME.findall(text)]
    return out


def check_shown(file: str, notebook: Mapping[str, Any], names: Iterable[str]) -> list[Problem]:
    """In an executed page every value shown is recorded, and every recorded value is shown or listed."""
    known = list(names)
    shown = names_shown(notebook)
    out = [
        Problem(file, f"a value is shown that is not recorded: {name}", cell=index, next_step="record it, or drop it")
        for index, name in shown
        if name not in set(known)
    ]
    missing = set(known) - {name for _, name in shown}
    step = "show it, or end the chapter with the listing"
    return out + [
        Problem(file, f"a recorded value is nowhere shown: {name}", next_step=step) for name in known if name in missing
    ]


def check_lines(file: str, rows: Sequence[Mapping[str, Any]], source: bytes | None = None) -> list[Problem]:
    """Cited lines of someone else's file: each row is ``{name, number, digest}`` and, where we have the bytes, holds.

    Args:
        file: The file the rows are from.
        rows: ``name`` for citing, ``number`` of the line from 1, ``digest``: SHA-256 of the line stripped of white
            space at both ends. The line itself is not ours to copy.
        source: The bytes of the cited file; without them only the rows themselves are checked.
    """
    out: list[Problem] = []
    seen: set[str] = set()
    lines = None if source is None else source.split(b"\n")
    for position, row in enumerate(rows, 1):
        name = row.get("name")
        label = f"citation {name if isinstance(name, str) else position}"
        if set(row) != {"name", "number", "digest"}:
            out.append(Problem(file, f"{label}: the fields are not name, number and digest"))
            continue
        number, digest = row["number"], row["digest"]
        wrong = []
        if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            wrong.append("the name is no lower-case identifier")
        elif name in seen:
            wrong.append("the name occurs twice")
        if type(number) is not int or number < 1:
            wrong.append("the number is no line number")
        if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
            wrong.append("the digest is no SHA-256")
        seen.add(str(name))
        if not wrong and lines is not None:
            if number > len(lines):
                wrong.append(f"line {number} does not exist; the cited file has {len(lines)}")
            elif (found := hashlib.sha256(lines[number - 1].strip()).hexdigest()) != digest:
                where = [i for i, line in enumerate(lines, 1) if hashlib.sha256(line.strip()).hexdigest() == digest]
                moved = f"; that line is now line {where[0]}" if where else ""
                wrong.append(f"line {number} is another: expected {digest[:12]}…, found {found[:12]}…{moved}")
        step = "cite the line again"
        out += [Problem(file, f"{label}: {what}", line=position, next_step=step) for what in wrong]
    return out
