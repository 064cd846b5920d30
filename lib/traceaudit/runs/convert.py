"""One raw file becomes the lines of its runs: the part of normalizing that needs nothing but the file.

It knows no other file and no folder, so that several can be done at once; names, labels and writing come after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from .digests import content_digest
from .files import encode_line, shown
from .formats import PYTHON_REPR, UNKNOWN, Format, Parsed, by_name, detect, is_python_repr
from .issues import Issue
from .raw import documents, raw_stem, read_raw
from .schema import SCHEMA, Header, repository_of

__all__ = ["Converted", "Prepared", "Task", "convert"]


class Task(msgspec.Struct, frozen=True):
    """One raw file to convert.

    Attributes:
        name: Its name below the source. ``path``: where it is.
        format: Name of the format to read it as; empty to find out.
        fields: Header fields that the caller knows better than the file (model, arm, licence …).
        known: SHA-256 of the file when it was last converted; an unchanged file is not converted again.
    """

    name: str
    path: Path
    format: str = ""
    fields: dict[str, str] = {}
    known: str = ""


class Prepared(msgspec.Struct, frozen=True):
    """One run: its header, still without a run id, its instance for naming, and the lines of its steps."""

    header: Header
    instance: str
    lines: bytes


class Converted(msgspec.Struct, frozen=True):
    """What became of a raw file; ``runs`` is None where it is unchanged and was not converted."""

    name: str
    sha256: str
    runs: list[Prepared] | None
    issues: list[Issue]


def convert(task: Task) -> Converted:
    """Convert one raw file; whatever is wrong with it becomes an issue."""
    issues: list[Issue] = []
    read = read_raw(task.path, task.name, issues)
    digest = read.sha256
    if digest and digest == task.known:
        return Converted(task.name, digest, None, [])
    runs: list[Prepared] = []
    for document in documents(read.content, task.name, issues) if read.content else ():
        source: dict[str, Any] = {"name": task.name, "bytes": read.size, "sha256": digest}
        if document.line is not None:
            source["line"] = document.line
        for parsed in _parsed(document.data, document.line, task, issues):
            issues.extend(_placed(issue, task.name, document.line) for issue in parsed.issues)
            if parsed.steps:
                runs.append(_prepared(parsed, task, source, issues))
            elif not parsed.issues:
                issues.append(Issue(task.name, "the run has no decision", document.line))
    return Converted(task.name, digest, runs, issues)


def _placed(issue: Issue, name: str, line: int | None) -> Issue:
    return Issue(name, issue.what, line if issue.line is None else issue.line, issue.got)


def _parsed(data: Any, line: int | None, task: Task, issues: list[Issue]) -> list[Parsed]:
    """The runs of one document; a document of no known format is an issue."""
    chosen: Format | None = by_name(task.format) if task.format else detect(data)
    if chosen is None:
        what, got = UNKNOWN, f"{type(data).__name__} {_keys(data)}".strip()
        if isinstance(data, dict) and data.get("schema") == SCHEMA:
            what, got = "this is a run in our own form already", ""
        elif is_python_repr(data):
            what = PYTHON_REPR
        issues.append(Issue(task.name, what, line, got))
        return []
    try:
        return chosen.parse(data, task.name)
    except Exception as error:  # a reader that stumbles over one file must not hide the others
        what = f"the reader of {chosen.name} failed on this"
        issues.append(Issue(task.name, what, line, shown(f"{type(error).__name__}: {error}")))
        return []


def _keys(data: Any) -> str:
    if isinstance(data, list):
        return f"of {len(data)}, first {type(data[0]).__name__} {_keys(data[0])}" if data else "without items"
    return shown("with " + ", ".join(sorted(map(str, data))), 100) if isinstance(data, dict) else ""


def _prepared(parsed: Parsed, task: Task, source: dict[str, Any], issues: list[Issue]) -> Prepared:
    fields = _sound(parsed.header_fields, task.name, issues) | task.fields
    stem = raw_stem(task.name)
    instance = fields.get("instance_id")
    if instance and not fields.get("repository"):
        fields["repository"] = repository_of(instance)
    header = Header(
        **{
            **fields,
            "run_id": "",
            "n_steps": len(parsed.steps),
            "source": source,
            "content_sha256": content_digest(parsed.steps),
        }
    )
    where = f"{stem}-{source['line']}" if "line" in source else stem
    lines = b"".join(encode_line(step) + b"\n" for step in parsed.steps)
    return Prepared(header, instance or where, lines)


def _sound(fields: dict[str, Any], name: str, issues: list[Issue]) -> dict[str, Any]:
    """The fields that the schema takes; any other is an issue."""
    base = {"run_id": "", "n_steps": 0}
    try:
        msgspec.convert(base | fields, Header)
        return dict(fields)
    except msgspec.ValidationError:
        sound = {}
    for field, value in fields.items():
        try:
            msgspec.convert(base | {field: value}, Header)
            sound[field] = value
        except msgspec.ValidationError as error:
            issues.append(Issue(name, "a header field that the schema does not take", got=shown(f"{field}: {error}")))
    return sound
