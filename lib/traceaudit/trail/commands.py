"""Commands of the TRAIL audit: ``traceaudit fetch``, ``trail audit`` and ``trail index``."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from typing import Any

from .. import cli
from ..claims import Finding, Verdict, load_claims
from ..errors import NothingToCheck
from . import score_command

__all__ = ["add_commands"]


def add_commands(commands: Any) -> None:
    """Add the commands to the command line."""
    fetch = commands.add_parser("fetch", help="fetch the pinned benchmark into the cache, or check what is there")
    fetch.add_argument("--source", metavar="URL|DIR", default=None, help="where to fetch from; else the pinned address")
    fetch.add_argument("--check", action="store_true", help="fetch nothing; verify what the source or the cache holds")
    fetch.add_argument(
        "--judges", action="store_true", help="the commit with the judges' replies instead of the benchmark's"
    )
    fetch.set_defaults(run=_fetch)

    trail = commands.add_parser("trail", help="the audit of the TRAIL scorer")
    parts = trail.add_subparsers(dest="part", metavar="PART", required=True)
    audit = parts.add_parser("audit", help="measure every claim and print the verdicts")
    audit.add_argument("--split", default="all", help="gaia, swe-bench, demo or all (the two real ones)")
    audit.add_argument("--engine", default="auto", help="auto, upstream or independent")
    audit.add_argument("--index", metavar="FILE", default=None, help="another span index than the committed one")
    audit.add_argument("--unpinned", action="store_true", help="read the source without verification (never recorded)")
    audit.add_argument("--json", metavar="FILE|-", default=None, help="write values and findings as JSON")
    cli.add_source(audit)
    audit.set_defaults(run=_audit)

    score_command.add_score(parts)
    index = parts.add_parser("index", help="build the span index from the traces, or check the committed one")
    index.add_argument("--check", action="store_true", help="rebuild from the traces at hand and compare")
    index.add_argument("--out", metavar="FILE", default=None, help="write another file than the committed one")
    cli.add_source(index)
    index.set_defaults(run=_index)


def _fetch(arguments: argparse.Namespace) -> int:
    from .. import fetching
    from . import judges_source, pin

    if arguments.judges:
        report = judges_source.fetch(arguments.source, check=arguments.check, say=cli.say)
    else:
        report = fetching.fetch(pin.load().pin, arguments.source, check=arguments.check, say=cli.say)
    for line in report.lines():
        cli.say(line)
    return 0


def _index(arguments: argparse.Namespace) -> int:
    from . import index

    return index.command_index(arguments.source, arguments.check, arguments.out, cli.say)


def _audit(arguments: argparse.Namespace) -> int:
    from .audit import audit
    from .study import open_study

    if arguments.json is not None:
        cli.check_target(arguments.json)
    with open_study(
        arguments.split,
        arguments.source,
        engine=arguments.engine,
        index_path=arguments.index,
        unpinned=arguments.unpinned,
    ) as study:
        cli.say(f"TRAIL, split {study.split}, engine {study.engine.name}, span index {study.index_digest[:12]}")
        cli.say(f"source: {study.source}")
        for reason in study.lacks.values():
            cli.say(f"  lacking: {reason}")
        if study.split != "demo":
            there = sum(len(corpus.traces) for corpus in study.corpora.values())
            traces = there + sum(len(corpus.traces_missing) for corpus in study.corpora.values())
            cli.say(f"spans: from {study.spans_from}; {there} of {traces} trace files at hand")
        if not any("gold" in study.only(split).has for split in study.corpora):
            raise NothingToCheck(
                "no claim can be measured",
                where=f"split {study.split}",
                got=study.lacks.get("gold", ""),
                next_step="give --source, set TRACEAUDIT_SOURCE, or run traceaudit fetch; --split demo needs nothing",
            )
        done = audit(study)
        provenance = study.provenance()
    claims = load_claims(subjects=["trail"])
    if arguments.json is not None:
        cli.write_json(
            {
                "schema": 1,
                "provenance": provenance,
                "values": {value.name: _value(value.as_json()) for value in done.values},
                "findings": [{"id": id, **_finding(finding)} for id, finding in done.findings.items()],
                "splits": done.splits,
            },
            arguments.json,
        )
    if arguments.json != "-":
        for id, finding in done.findings.items():
            _print(id, claims[id].sentence, finding)
        verdicts = [finding.verdict for finding in done.findings.values()]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict if verdict in verdicts)
        cli.say(f"{len(verdicts)} claims: {counts}")
    failed = any(finding.verdict in (Verdict.VIOLATED, Verdict.LATENT) for finding in done.findings.values())
    return 3 if failed else 0


def _value(stored: dict[str, Any]) -> dict[str, Any]:
    return {key: stored[key] for key in ("raw", "shown", "unit", "n", "dropped")}


def _finding(finding: Finding) -> dict[str, Any]:
    stored = finding.as_json()
    parts = finding.per_split or {}
    return {
        **{key: stored[key] for key in ("verdict", "magnitude", "values")},
        "per_split": {split: _finding(part) for split, part in parts.items()},
    }


def _print(id: str, sentence: str, finding: Finding) -> None:
    import sys

    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    head = f"{id:<4}{finding.verdict!s:<14}"
    body = textwrap.wrap(sentence, width - len(head))
    body += textwrap.wrap(f"-> {finding.magnitude}", width - len(head))
    lines = [head + body[0], *(" " * len(head) + line for line in body[1:])]
    sys.stdout.write("\n".join(lines) + "\n")
