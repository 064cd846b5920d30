"""The command ``traceaudit trail score``: a receipt for a judge's replies, as text, JSON or one HTML page.

It reports and does not judge: its exit code is 0 whatever the figures are.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from .. import cli

__all__ = ["add_score"]


def add_score(parts: Any) -> None:
    """Add the command to those of ``traceaudit trail``."""
    score = parts.add_parser("score", help="a receipt for a judge's own replies: its score, and what the score costs")
    score.add_argument("predictions", metavar="PREDICTIONS", help="folder, .jsonl, .zip or .tar of replies by trace id")
    score.add_argument("--split", required=True, help="gaia, swe-bench or demo")
    score.add_argument("--engine", default="auto", help="auto, upstream or independent")
    score.add_argument("--unpinned", action="store_true", help="read the source without verification; it is signed so")
    score.add_argument("--json", metavar="FILE|-", default=None, help="write the receipt as JSON")
    score.add_argument("--html", metavar="FILE", default=None, help="write the receipt as one self-contained page")
    cli.add_source(score)
    score.set_defaults(run=_score)


def _score(arguments: argparse.Namespace) -> int:
    from .receipt import make_receipt, open_scoring, text
    from .replies import load_replies

    with open_scoring(arguments.split, arguments.source, engine=arguments.engine, unpinned=arguments.unpinned) as study:
        replies = load_replies(arguments.predictions, study.corpus.gold)
        receipt = make_receipt(study, replies)
    if arguments.html:
        _write_page(arguments)
    if arguments.json:
        cli.write_json(receipt.as_json(), arguments.json)
    if arguments.json != "-":
        sys.stdout.write(text(receipt))
    return 0


def _write_page(arguments: argparse.Namespace) -> None:
    """Execute the receipt's chapter on the same input and write its page."""
    from ..execute import execute, make_font_cache
    from ..records import write_whole
    from ..sources import VARIABLE
    from .receipt_page import chapter_path, render

    given = arguments.source or os.environ.get(VARIABLE, "")
    parameters = {
        "split": arguments.split,
        "source": str(Path(given).expanduser().resolve()) if given else "",  # the chapter runs in another folder
        "engine": arguments.engine,
        "predictions": str(Path(arguments.predictions).resolve()),
        "unpinned": arguments.unpinned,
    }
    with tempfile.TemporaryDirectory(prefix="traceaudit-") as folder:
        fonts = Path(folder, "fonts")
        make_font_cache(fonts)
        done = execute(chapter_path(), parameters, workdir=Path(folder), env={"MPLCONFIGDIR": str(fonts)})
    write_whole(Path(arguments.html), render(done.notebook).encode("utf-8"))
    cli.say(f"wrote {arguments.html}")
