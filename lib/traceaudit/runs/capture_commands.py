"""Commands of captures and inputs: ``traceaudit runs state``, ``captures`` and ``inputs``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .. import cli
from ..errors import NothingToCheck, PinMismatch
from .archives import BadArchiveError
from .issues import Issue
from .schema import Run

if TYPE_CHECKING:
    from .capture_audit import Record

__all__ = ["RECORDS", "add_captures"]

RECORDS = "capture-audit.json"
"""The records of the audit, beside the runs."""


def add_captures(parts: Any) -> None:
    """Add the three commands below ``traceaudit runs``."""
    state = parts.add_parser("state", help="move per-step captures between hosts, the same bytes for the same captures")
    under = state.add_subparsers(dest="state_command", metavar="COMMAND", required=True)
    for name, what in (
        ("export", "pack the captures of every run here into the state folder"),
        ("import", "restore the captures of every run of the index, each whole or not at all"),
        ("verify", "check archives and captures against the index"),
    ):
        parser = under.add_parser(name, help=what)
        parser.add_argument("folder", metavar="DIR", type=Path, help="the corpus")
        parser.add_argument("--captures", metavar="DIR", type=Path, default=None, help="default: DIR/captures")
        parser.add_argument("--state", metavar="DIR", type=Path, default=None, help="default: DIR/state")
        if name != "verify":
            parser.add_argument("--force", action="store_true", help="replace other captures of the same run")
        parser.set_defaults(run=_state)

    captures = parts.add_parser("captures", help="audit the captures, mark lost steps, and guard that none is missing")
    captures.add_argument("folder", metavar="DIR", type=Path, help="the corpus")
    captures.add_argument("--captures", metavar="DIR", type=Path, default=None, help="default: DIR/captures")
    captures.add_argument("--state", metavar="DIR", type=Path, default=None, help="default: DIR/state")
    captures.add_argument("--records", metavar="FILE", type=Path, default=None, help="default: DIR/capture-audit.json")
    captures.add_argument("--write", action="store_true", help="write the records and mark the runs; else only guard")
    captures.set_defaults(run=_captures)

    inputs = parts.add_parser("inputs", help="name every input that is missing, and what to do about it")
    inputs.add_argument("folder", metavar="DIR", type=Path, help="the corpus")
    inputs.set_defaults(run=_inputs)


def _inputs(arguments: argparse.Namespace) -> int:
    from .inputs import run_inputs

    return run_inputs(arguments.folder, cli.say)


def _places(arguments: argparse.Namespace) -> tuple[Path, Path]:
    from .inputs import CAPTURES, STATE

    return arguments.captures or arguments.folder / CAPTURES, arguments.state or arguments.folder / STATE


def _state(arguments: argparse.Namespace) -> int:
    from .state import export_state, import_state, verify_state

    captures, state = _places(arguments)
    if arguments.state_command == "verify":
        issues = tuple(verify_state(state, captures))
        done = "every archive is what the index says" if not issues else f"{len(issues)} faults"
    else:
        if arguments.state_command == "export":
            moved = export_state(captures, state, force=arguments.force)
        else:
            moved = import_state(state, captures, force=arguments.force)
        issues = moved.issues
        done = f"{len(moved.written)} runs written, {len(moved.present)} there already, {len(issues)} refused"
    for issue in issues:
        cli.say(str(issue))
    cli.say(done)
    return 1 if issues else 0


def _captures(arguments: argparse.Namespace) -> int:
    from .capture_audit import AuditCount, guard, load_records, save_records
    from .files import iter_runs, run_paths

    if not arguments.folder.is_dir() or not run_paths(arguments.folder):
        raise NothingToCheck("there is no run here", where=str(arguments.folder), next_step="name a folder of runs")
    path = arguments.records or arguments.folder / RECORDS
    issues: list[Issue] = []
    find = _finder(*_places(arguments), issues)
    records = load_records(path, issues)
    if arguments.write:
        if issues:
            raise PinMismatch(
                "the records that are there cannot be read, so nothing is written",
                where=str(path),
                got=str(issues[0]),
                next_step="restore or remove the file",
            )
        records |= _audited(arguments.folder, find, issues)
        save_records(records, path)
    count = AuditCount(records)

    def counted() -> Iterator[Run]:
        for run in iter_runs(arguments.folder, issues):
            count.add(run)
            yield run

    found = guard(counted(), records, find)
    problems = sorted({*issues, *found}, key=str)
    for issue in problems:
        cli.say(str(issue))
    result = count.result()
    for name in ("runs", "stamped", "audited_runs", "marked_runs", "marked_steps", "undecided_steps"):
        cli.say(f"{name.replace('_', ' ')}: {result[name]}")
    for name in ("marked_share_of_all", "marked_share_of_audited"):
        share = result[name]
        cli.say(f"{name.replace('_', ' ')} steps: " + ("not measured" if share is None else f"{share:.3f}"))
    return 1 if problems else 0


def _finder(captures: Path, state: Path, issues: list[Issue]) -> Callable[[str], dict[int, bytes] | None]:
    """Captures by run id; what is there and cannot be relied on is an issue and gives None."""
    from .state import stored_captures

    find = stored_captures(captures, state)

    def found(run_id: str) -> dict[int, bytes] | None:
        try:
            return find(run_id)
        except BadArchiveError as error:
            issues.append(Issue(run_id, "the captures cannot be read", got=str(error)))
            return None

    return found


def _audited(folder: Path, find: Callable[[str], dict[int, bytes] | None], issues: list[Issue]) -> dict[str, Record]:
    """Audit every run whose captures are here and write it marked; a packed file is not rewritten."""
    from .capture import mark
    from .capture_audit import record
    from .digests import content_digest
    from .files import read_run, run_paths, write_run

    records = {}
    for path in run_paths(folder):
        faults: list[Issue] = []
        run = read_run(path, faults)
        stored = find(run.header.run_id) if run is not None else None
        if run is None or not stored:
            continue
        made = record(run, stored)
        records[run.header.run_id] = made
        marked = mark(run, made.losses)
        if marked is run:
            continue
        if faults or path.name != f"{run.header.run_id}.jsonl":
            issues.append(Issue(path.name, "steps are lost, and a packed or faulty file is not rewritten"))
            continue
        header = msgspec.structs.replace(marked.header, content_sha256=content_digest(marked.steps))
        write_run(Run(header, marked.steps), folder)
    return records
