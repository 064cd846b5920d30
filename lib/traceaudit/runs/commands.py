"""The commands of trajectory corpora: normalize raw runs, show the data card, check and attack a corpus.

What a corpus is worth is asked before anything is computed on it, so each part is a command of its own.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..cli import check_target, positive, say, write_json
from ..errors import NothingToCheck, UsageError
from .capture_commands import add_captures
from .integrity_commands import add_integrity

__all__ = ["add_commands"]


def add_commands(commands: Any) -> None:
    """Add ``runs`` with its subcommands."""
    runs = commands.add_parser("runs", help="audit a corpus of agent trajectories")
    under = runs.add_subparsers(dest="runs_command", metavar="COMMAND", required=True)
    _add_normalize(under)
    _add_card(under)
    add_captures(under)
    _add_export(under)
    add_integrity(under)


def _add_normalize(under: Any) -> None:
    parser = under.add_parser("normalize", help="convert raw runs into one file per run")
    parser.add_argument("source", metavar="SRC", type=Path, help="folder or file of raw runs")
    parser.add_argument("target", metavar="DST", type=Path, help="folder of the corpus")
    parser.add_argument("--labels", metavar="DIR", type=Path, default=None, help="folder of SWE-bench reports")
    parser.add_argument("--format", metavar="NAME", default="", help="read every file as this format")
    parser.add_argument("--workers", metavar="N", type=positive, default=1, help="processes that convert (default 1)")
    for name, what in _FIELDS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="TEXT", default="", help=what)
    parser.add_argument("--json", metavar="FILE", default=None, help="write the summary as JSON, - for standard output")
    parser.set_defaults(run=_normalize)


_FIELDS = {
    "model": "model of every run, over what the data says",
    "arm": "variant of every run, over what the data says",
    "dataset": "name of the data set of the tasks",
    "dataset_revision": "its revision",
    "licence": "its licence",
}
_SHOWN = 20


def _normalize(arguments: argparse.Namespace) -> int:
    from .normalize import normalize

    if arguments.json is not None:
        check_target(arguments.json)
    summary = normalize(
        arguments.source,
        arguments.target,
        labels=arguments.labels,
        format=arguments.format,
        say=say,
        workers=arguments.workers,
        fields={name: getattr(arguments, name) for name in _FIELDS},
    )
    for issue in summary.issues[:_SHOWN]:
        say(f"  {issue}")
    if len(summary.issues) > _SHOWN:
        say(f"  … and {len(summary.issues) - _SHOWN} more")
    for what, count in summary.kinds.items():
        say(f"{count} times: {what}")
    say(
        f"{summary.files} files ({summary.ignored} others ignored), {summary.skipped} unchanged; {summary.written} "
        f"runs written, {summary.runs} in all with {summary.steps} steps, {summary.labelled} labelled"
    )
    if arguments.json is not None:
        write_json(summary.as_json(), arguments.json)
    return 0 if summary.runs else NothingToCheck.exit_code


def _add_card(under: Any) -> None:
    parser = under.add_parser("card", help="the data card of a corpus: census, coverage, columns, licences, secrets")
    parser.add_argument("folder", metavar="DIR", type=Path, help="a folder of runs, as normalize writes it")
    parser.add_argument("--json", metavar="FILE|-", default=None, help="write the card as JSON")
    parser.add_argument("--engine", default="plain", choices=("plain", "dask"), help="dask: over partitions (plain)")
    parser.set_defaults(run=_card)


def _card(arguments: argparse.Namespace) -> int:
    from .card import card, card_dask

    if arguments.json is not None:
        check_target(arguments.json)
    folder = _folder(arguments.folder)
    made = (card_dask if arguments.engine == "dask" else card)(folder)
    if not made["trajectories"]:
        raise NothingToCheck(
            "no run could be read here",
            where=str(arguments.folder),
            got=f"{len(made['issues'])} kinds of issues",
            next_step="convert raw runs first: traceaudit runs normalize SRC DST",
        )
    for line in lines(made):
        say(line)
    if arguments.json is not None:
        write_json(made, arguments.json)
    return 0


def lines(card: dict[str, Any]) -> list[str]:
    """The card for people, a line a fact; whatever was not measured says so."""

    def rate(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.3f}"

    out = [
        f"{card['trajectories']:,} trajectories, {card['steps']:,} steps, {card['instances']} instances, "
        f"{card['repositories']} repositories, {card['models']} models, {card['arms']} arms",
        f"steps per run: median {card['median_steps']}, from {card['min_steps']} to {card['max_steps']}",
        f"stamped {card['stamped']}, unstamped {card['unstamped']}",
        f"terminal failure rate {rate(card['terminal_failure_rate'])} over all labelled, "
        f"{rate(card['terminal_failure_rate_stamped'])} over stamped",
    ]
    out += [
        f"  {row['model']}: {row['trajectories']} trajectories, {row['stamped']} stamped, "
        f"failure rate {rate(row['terminal_failure_rate'])}"
        for row in card["per_model"]
    ]
    columns = card["columns"]
    out.append(
        f"columns: {len(columns['empty'])} empty, {len(columns['constant'])} constant, "
        f"{len(columns['duplicate'])} pairs that say the same"
    )
    return [*out, f"digest {card['digest']}"]


def _add_export(under: Any) -> None:
    parser = under.add_parser("export", help="write the fields that may be published, and no free text")
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("target", metavar="DST", type=Path)
    parser.add_argument("--checks", action="store_true", help="keep the names of failing checks instead of their hash")
    parser.set_defaults(run=_export)


def _export(arguments: argparse.Namespace) -> int:
    from .projection import export

    done = export(_folder(arguments.folder), arguments.target, checks=arguments.checks)
    for issue in done.issues[:_SHOWN]:
        say(f"  {issue}")
    say(f"{done.runs} runs with {done.steps} steps exported, {done.hashed} texts hashed, {len(done.issues)} issues")
    return 0 if done.runs else NothingToCheck.exit_code


def _folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise UsageError("there is no such folder", where=str(folder), next_step="name a folder of runs")
    return folder
