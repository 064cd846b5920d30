"""Commands of integrity: ``traceaudit runs verify``, ``sign``, ``keygen`` and ``attack``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from .. import cli

__all__ = ["add_integrity", "table"]


def add_integrity(parts: Any) -> None:
    """Add the four commands below ``traceaudit runs``."""
    verify = parts.add_parser("verify", help="check a corpus against itself, its manifest and its signed chain")
    verify.add_argument("folder", metavar="DIR")
    verify.add_argument(
        "--key", metavar="PUB", default=None, help="the collector's public key; checks the signed chain"
    )
    verify.add_argument("--head", metavar="N:SHA256", default="", help="a head of the chain kept from earlier")
    verify.add_argument("--manifest", metavar="FILE", default=None, help="another manifest than the one in the folder")
    verify.add_argument(
        "--json", metavar="FILE|-", nargs="?", const="-", default=None, help="write the problems as JSON"
    )
    verify.set_defaults(run=_verify)

    sign = parts.add_parser("sign", help="write the manifest of a corpus and append its signed state to the chain")
    sign.add_argument("folder", metavar="DIR")
    sign.add_argument("--key", metavar="PRIV", required=True, help="private key, outside of every git repository")
    sign.add_argument("--at", metavar="TEXT", default="", help="what the entry says of the time; no clock is read")
    sign.set_defaults(run=_sign)

    keygen = parts.add_parser("keygen", help="make a key pair, FILE (mode 0600) and FILE.pub")
    keygen.add_argument("file", metavar="FILE")
    keygen.set_defaults(run=_keygen)

    attack = parts.add_parser("attack", help="forge copies of a corpus and show which layer sees which forgery")
    attack.add_argument("folder", metavar="DIR", nargs="?", default=None, help="by default a made-up corpus")
    attack.add_argument("--out", metavar="DIR", required=True, help="a folder that is not there yet, for the copies")
    attack.add_argument("--seed", type=int, default=0, help="what is forged, and the draw of the sample")
    attack.add_argument("--sample", type=cli.positive, default=4, help="runs that are executed again")
    attack.add_argument("--json", metavar="FILE|-", default=None, help="write the table as JSON")
    attack.set_defaults(run=_attack)


def _verify(arguments: argparse.Namespace) -> int:
    from .signing import head
    from .verify import summary, verify

    if arguments.json is not None:
        cli.check_target(arguments.json)
    folder = Path(arguments.folder)
    problems = verify(
        folder,
        manifest=Path(arguments.manifest) if arguments.manifest else None,
        key=Path(arguments.key) if arguments.key else None,
        remembered=arguments.head,
    )
    errors = sum(problem.severity == "ERROR" for problem in problems)
    for problem in problems:
        cli.say(str(problem))
    cli.say(f"{errors} errors, {len(problems) - errors} warnings")
    if arguments.key is None:
        cli.say("no key was given, so nothing here says who collected the runs or whether one is missing")
    elif not arguments.head:
        cli.say(f"head of the chain: {head(folder)} (keep it; only --head shows that a newer state was taken back)")
    if arguments.json is not None:
        rows = [msgspec.to_builtins(problem) for problem in problems]
        cli.write_json({"errors": errors, "rules": summary(problems), "problems": rows}, arguments.json)
    return 1 if errors else 0


def _sign(arguments: argparse.Namespace) -> int:
    from .signing import head, sign

    entry = sign(Path(arguments.folder), Path(arguments.key), at=arguments.at)
    cli.say(f"signed {entry.runs} runs, {entry.files} files, with key {entry.key}")
    cli.say(f"{len(entry.added)} added, {len(entry.replaced)} replaced, {len(entry.removed)} removed")
    cli.say(f"publish this head: {head(Path(arguments.folder))}")
    return 0


def _keygen(arguments: argparse.Namespace) -> int:
    from .signing import keygen

    cli.say(f"key {keygen(Path(arguments.file))}; keep {arguments.file} and hand out {arguments.file}.pub")
    return 0


def _attack(arguments: argparse.Namespace) -> int:
    from . import toy
    from .files import iter_runs
    from .layers import attack_corpus

    if arguments.json is not None:
        cli.check_target(arguments.json)
    with tempfile.TemporaryDirectory() as made:
        source = Path(made) / "toy"
        if arguments.folder is None:
            toy.toy_corpus(source)
        else:
            source = Path(arguments.folder)
        first = next(iter_runs(source, []), None) if source.is_dir() else None
        replay = toy.replay if first is not None and first.header.format == toy.FORMAT else None
        rows = attack_corpus(source, Path(arguments.out), replay=replay, size=arguments.sample, seed=arguments.seed)
    for line in table(rows):
        cli.say(line)
    if arguments.json is not None:
        cli.write_json(rows, arguments.json)
    return 0


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Lines for people: a forgery a line, one mark a layer (X caught, . not seen, ? could not look)."""
    from .layers import LAYERS

    mark = {True: "X", False: ".", None: "?"}
    lines = [f"{number}  {layer.title}" for number, layer in enumerate(LAYERS, 1)]
    lines.append(" ".join(["forgery".ljust(20), *map(str, range(1, len(LAYERS) + 1))]))
    for row in rows:
        marks = [mark[row["layers"][layer.id]["caught"]] if row["layers"] else " " for layer in LAYERS]
        lines.append(" ".join([row["attack"].ljust(20), *marks, row["did"]]))
    return [*lines, *(f"{layer.title}: {layer.cannot}" for layer in LAYERS)]
