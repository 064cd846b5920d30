"""Notebooks as data: read a source, check an executed copy, collect what it recorded, fill its prose, strip the run.

Papermill calls a half-run notebook a success and leaves clocks and random ids behind; these pure functions are what
the runner holds every executed copy against.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from .chapter import EMITTED, FINDING_MIME, PROVENANCE_MIME
from .claims import Finding
from .errors import ChapterFailed, GuardFailed, UsageError, ValueProblem
from .show import inline
from .values import MIME, Value

__all__ = [
    "INJECTED_ID",
    "check_parameters",
    "check_ran",
    "collect",
    "fill_inline",
    "first_lines",
    "inline_spans",
    "parameter_names",
    "prose_lines",
    "read_source",
    "strip_run",
    "tags",
    "to_bytes",
]

INJECTED_ID = "injected-parameters"
HIDDEN = ("remove-cell", "hide-cell")
RUN_METADATA = ("papermill", "execution", "ExecuteTime")
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{6,}")
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
FENCE = re.compile(r"^[\s>]*(?:[-*+]\s+|\d+[.)]\s+)?(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
TICKS = re.compile(r"`+")
INLINE = re.compile(r"\{python\}(?P<expression>.*)\Z", re.DOTALL)
NAMED = re.compile(r"""\s*v(?:\.(?P<name>\w+)|\[\s*(?P<quote>["'])(?P<key>[^"']*)(?P=quote)\s*\])\s*\Z""")


def tags(cell: Mapping[str, Any]) -> list[str]:
    """The cell's tags."""
    return list(cell.get("metadata", {}).get("tags", []))


def first_lines(source: str, most: int = 3) -> str:
    """The first lines of a cell that are not blank, for messages."""
    lines = [line for line in source.splitlines() if line.strip()]
    return "\n".join(lines[:most]) + ("\n…" if len(lines) > most else "")


def read_source(path: Path) -> NotebookNode:
    """Read a notebook as format 4.5; a cell without an id gets one from its position, never a random one.

    Raises:
        UsageError: there is no such file.
        ChapterFailed: it is not a notebook.
    """
    if not path.is_file():
        raise UsageError("there is no such chapter", where=str(path), next_step="see chapters/chapters.toml")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["nbformat"] != 4:
            raise ValueError(f"format {data['nbformat']}")
        data["nbformat_minor"] = 5
        for index, cell in enumerate(data["cells"]):
            cell.setdefault("id", f"cell-{index}")
        notebook = nbformat.reads(json.dumps(data), as_version=nbformat.NO_CONVERT)
        nbformat.validate(notebook)
    except (ValueError, KeyError, TypeError, AttributeError, nbformat.ValidationError) as error:
        raise ChapterFailed(
            "the chapter is not a notebook of format 4",
            where=path.name,
            got=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200],
            next_step="restore it from version control",
        ) from None
    return notebook


def to_bytes(notebook: NotebookNode) -> bytes:
    """The one byte form of a notebook: sorted keys, one-space indent, newline at the end."""
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT).rstrip("\n").encode("utf-8") + b"\n"


def parameter_names(notebook: NotebookNode, chapter: str) -> list[str]:
    """The names that the one cell tagged ``parameters`` assigns, in order.

    Raises:
        ChapterFailed: there is no such cell, there are several, or it is not Python.
    """
    cells = [(i, cell) for i, cell in enumerate(notebook.cells) if "parameters" in tags(cell)]
    if len(cells) != 1 or cells[0][1].cell_type != "code":
        raise ChapterFailed(
            "a chapter needs exactly one code cell tagged `parameters`",
            where=chapter,
            got=f"{len(cells)}",
            next_step="tag the cell that assigns split, source and engine",
        )
    index, cell = cells[0]
    try:
        body = ast.parse(cell.source).body
    except SyntaxError as error:
        raise ChapterFailed(
            "the parameters cell is not Python", where=f"{chapter}, cell {index}", got=str(error)
        ) from None
    names = []
    for line in body:
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names


def check_parameters(notebook: NotebookNode, parameters: Mapping[str, Any], chapter: str) -> None:
    """Refuse a parameter the chapter does not declare (papermill would run on with the default).

    Raises:
        UsageError: an unknown name, or a value that is not plain data.
        ChapterFailed: see :func:`parameter_names`.
    """
    known = parameter_names(notebook, chapter)
    if unknown := [name for name in parameters if name not in known]:
        raise UsageError(
            "the chapter has no such parameter",
            where=chapter,
            expected=", ".join(known),
            got=", ".join(unknown),
            next_step="correct the name, or add it to the chapter's parameters cell",
        )
    for name, value in parameters.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise UsageError("a parameter must be plain data", where=f"{chapter}, {name}", got=str(error)) from None


def _fail(chapter: str, index: int, cell: NotebookNode, what: str, got: str, next_step: str) -> ChapterFailed:
    where = f"{chapter}, cell {index}"
    return ChapterFailed(
        what, where=where, expected="", got=f"{got}\n  in: {first_lines(cell.source)}", next_step=next_step
    )


def check_ran(notebook: NotebookNode, chapter: str) -> None:
    """Hold an executed copy against everything papermill does not check.

    Raises:
        ChapterFailed: an error output, a code cell that never ran (a bare ``sys.exit(0)`` ends the run and is called
            a success), text on stderr from a cell not tagged ``stderr-ok``, or an object's address in an output.
    """
    code = [(i, cell) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()]
    for index, cell in code:
        for output in cell.outputs:
            if output.output_type == "error":
                text = ANSI.sub("", f"{output.ename}: {output.evalue}")
                step = "open the chapter and run it alone"
                if output.ename == "SystemExit":
                    step = "a chapter must not exit; the cells after this one never ran"
                raise _fail(chapter, index, cell, "a cell raised", text, step)
    for index, cell in code:
        if cell.execution_count is None:
            raise _fail(chapter, index, cell, "a cell never ran", "no execution count", "look at the cells before it")
        for output in cell.outputs:
            text = (
                output.get("text", "") if output.output_type == "stream" else output.get("data", {}).get("text/plain")
            )
            if output.get("name") == "stderr" and "stderr-ok" not in tags(cell):
                step = "mend what it warns of, or tag the cell `stderr-ok`"
                raise _fail(chapter, index, cell, "a cell wrote to stderr", first_lines(ANSI.sub("", text)), step)
            if isinstance(text, str) and (address := ADDRESS.search(text)):
                step = "show text, or end the line with a semicolon"
                raise _fail(chapter, index, cell, "an output holds an object's address", address.group(), step)


def collect(notebook: NotebookNode, chapter: str) -> tuple[dict[str, Value], dict[str, Finding], dict[str, Any]]:
    """What a chapter recorded in its outputs: values by name, findings by claim id, provenance.

    Raises:
        ValueProblem: a name recorded twice, a malformed output, a finding resting on a value that is not recorded.
    """
    values: dict[str, Value] = {}
    findings: dict[str, Finding] = {}
    provenance: dict[str, Any] | None = None
    for index, cell in enumerate(notebook.cells):
        for data in (output.get("data", {}) for output in cell.get("outputs", [])):
            where = f"{chapter}, cell {index}"
            if MIME in data:
                row = _plain(data[MIME])
                _once(values, row, "name", where, lambda row: Value.from_json(row["name"], row))
            if FINDING_MIME in data:
                row = _plain(data[FINDING_MIME])
                _once(findings, row, "id", where, lambda row: Finding.from_json(row["id"], row))
            if PROVENANCE_MIME in data:
                if provenance is not None:
                    raise ValueProblem("the provenance is recorded twice", where=where)
                provenance = dict(_plain(data[PROVENANCE_MIME]))
    emitted = (provenance or {}).pop(EMITTED, None)
    if emitted not in (None, len(values) + len(findings)):
        raise ValueProblem(
            "outputs were lost on their way out of the kernel",
            where=chapter,
            expected=f"{emitted} values and findings",
            got=str(len(values) + len(findings)),
            next_step="run the chapter again",
        )
    for finding in findings.values():
        if unknown := [name for name in finding.values if name not in values]:
            raise ValueProblem(
                f"finding {finding.id} rests on values the chapter does not record",
                where=chapter,
                got=", ".join(unknown),
                next_step="record these values in the chapter",
            )
    return values, findings, provenance or {}


def _once(into: dict[str, Any], row: Any, key: str, where: str, build: Callable[[Any], Any]) -> None:
    try:
        name, item = row[key], build(row)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueProblem(
            "a recorded output is malformed", where=where, got=f"{type(error).__name__}: {error}"
        ) from None
    except ValueProblem as error:
        raise ValueProblem(error.what, where=f"{where}, {error.where}", got=error.got) from None
    if name in into:
        raise ValueProblem(
            "a name is recorded twice", where=where, got=name, next_step="give the second one a name of its own"
        )
    into[name] = item


def _plain(data: Any) -> Any:
    """Plain dicts and lists instead of notebook nodes."""
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in data.items()}
    return [_plain(value) for value in data] if isinstance(data, list) else data


def prose_lines(markdown: str) -> Iterator[tuple[int, str]]:
    """The lines of a Markdown text that are outside fenced code, with their numbers from 1."""
    fence = ""
    for number, line in enumerate(markdown.splitlines(keepends=True), 1):
        match = FENCE.match(line.rstrip("\r\n"))
        if fence:
            closes = match and match["fence"].startswith(fence) and not match["info"].strip()
            fence = "" if closes else fence
        elif match and not (match["fence"][0] == "`" and "`" in match["info"]):
            fence = match["fence"]
        else:
            yield number, line


def _code_spans(text: str) -> Iterator[tuple[int, int, int]]:
    """Start, end and number of backticks of each code span, as CommonMark finds them."""
    runs = list(TICKS.finditer(text))
    at = 0
    while at < len(runs):
        opening = runs[at]
        escaped = (opening.start() - len(text[: opening.start()].rstrip("\\"))) % 2
        width = opening.end() - opening.start()
        closing = next((i for i in range(at + 1, len(runs)) if runs[i].end() - runs[i].start() == width), None)
        if escaped or closing is None:
            at += 1
            continue
        yield opening.start(), runs[closing].end(), width
        at = closing + 1


def inline_spans(markdown: str) -> Iterator[tuple[int, int, int, str | None, str]]:
    """Every `` `{python} …` `` outside fenced code: start, end, line, the value's name (None: no name), the text."""
    at = 0
    starts = {}
    for number, line in enumerate(markdown.splitlines(keepends=True), 1):
        starts[number] = at
        at += len(line)
    for number, line in prose_lines(markdown):
        for start, end, width in _code_spans(line):
            match = INLINE.match(line[start + 1 : end - 1]) if width == 1 else None
            if match:
                named = NAMED.match(match["expression"])
                name = (named["name"] or named["key"]) if named else None
                yield starts[number] + start, starts[number] + end, number, name, line[start:end]


def fill_inline(notebook: NotebookNode, values: Mapping[str, Value], chapter: str) -> None:
    """Replace each inline value in the Markdown cells by a span that shows it and carries its name.

    ``v.NAME`` and ``v["NAME"]`` are the two forms; fenced code and longer code spans are left alone.

    Raises:
        GuardFailed: an unknown name, or an expression that is not the name of a value.
    """
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "markdown":
            continue
        for start, end, line, name, text in reversed(list(inline_spans(cell.source))):
            if name is None or name not in values:
                close = [known for known in values if name and known[:6] == name[:6]][:5]
                raise GuardFailed(
                    "prose may name recorded values only" if name is None else f"no value is called {name}",
                    where=f"{chapter}, cell {index}, line {line}",
                    expected=", ".join(close) or "`{python} v.NAME` with one of the chapter's value names",
                    got=text,
                    next_step="correct the name, or record the value in the chapter",
                )
            cell.source = cell.source[:start] + inline(values[name]) + cell.source[end:]


def strip_run(notebook: NotebookNode, injected: str) -> None:
    """Remove what differs between two equal runs, and mark the injected cell so that renderers hide it.

    Args:
        notebook: The executed copy, changed in place.
        injected: The source the injected-parameters cell shall show (no path of this machine).
    """
    notebook.metadata.pop("papermill", None)
    notebook.metadata.pop("widgets", None)
    language = notebook.metadata.get("language_info", {})
    notebook.metadata["language_info"] = {"name": language.get("name", "python")}
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.cells = [cell for cell in notebook.cells if "papermill-error-cell-tag" not in tags(cell)]
    for cell in notebook.cells:
        for key in RUN_METADATA:
            cell.metadata.pop(key, None)
        if not cell.metadata.get("tags", True):
            del cell.metadata["tags"]
        if "injected-parameters" in tags(cell):
            cell.id = INJECTED_ID
            cell.metadata["tags"] = ["injected-parameters", *HIDDEN]
            cell.source = "#| include: false\n" + injected


def set_title(notebook: NotebookNode, title: str) -> None:
    """Give the executed copy its page title as front matter, in place of the chapter's own first heading."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            lines = cell.source.split("\n")
            if lines[0].startswith("# "):
                cell.source = "\n".join(lines[1:]).lstrip("\n")
            break
    front = nbformat.v4.new_raw_cell(f"---\ntitle: {json.dumps(title, ensure_ascii=False)}\n---", id="front-matter")
    notebook.cells.insert(0, front)
