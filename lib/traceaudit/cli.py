"""The command line: thin commands over the library, one exit code per thing a script must tell apart.

0 nothing to report, 1 what is on disk does not match a pin or a record, 2 there is nothing here to check, 3 a claim
came back violated or latent, 64 wrong usage. A fault of this program itself ends with 70, so that it is never taken for
one of these.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from .errors import TraceAuditError, UsageError

__all__ = ["FAULT", "add_source", "check_target", "main", "positive", "say", "write_json"]

FAULT = 70


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints end with exit code 64."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        sys.stderr.write(f"{self.prog}: {message}\n")
        raise SystemExit(UsageError.exit_code)


def say(line: str = "") -> None:
    """One line for people; on standard error, so that standard output stays machine-readable."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def add_source(parser: argparse.ArgumentParser) -> None:
    """The option that every command shares which reads benchmark data."""
    parser.add_argument(
        "--source", metavar="DIR", default=None, help="git repository or folder; else TRACEAUDIT_SOURCE, else the cache"
    )


def write_json(data: Any, target: str) -> None:
    """Write JSON to a file (whole or not at all) or, for ``-``, to standard output."""
    text = json.dumps(data, indent=2, allow_nan=False) + "\n"  # ASCII, so that lone surrogates survive
    if target == "-":
        sys.stdout.write(text)
        return
    from .records import write_whole

    write_whole(Path(check_target(target)), text.encode())


def check_target(target: str) -> str:
    """A file that can be written, or ``-``; called before the work, so that none is lost.

    Raises:
        UsageError: it is empty, a folder, or in a folder that is absent or not writable.
    """
    path = Path(target)
    folder = path if path.is_dir() else path.resolve().parent
    wrong = {
        "a file name is needed": not target,
        "this is a folder": bool(target) and path.is_dir(),
        "its folder does not exist": not folder.is_dir(),
        "it cannot be written": folder.is_dir() and not os.access(path if path.exists() else folder, os.W_OK),
    }
    reason = next((what for what, holds in wrong.items() if holds), None)
    if reason and target != "-":
        raise UsageError(reason, where=repr(target), next_step="name a file that can be written, or -")
    return target


def positive(text: str) -> int:
    """A whole number of at least one, for options."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _parser() -> Parser:
    from . import report
    from .runs import commands as runs
    from .trail import commands as trail

    parser = Parser(prog="traceaudit", description="Audit benchmarks of agent traces and build the report.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    report.add_commands(commands)
    trail.add_commands(commands)
    runs.add_commands(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    try:
        arguments = _parser().parse_args(argv)
        run: Callable[[argparse.Namespace], int] = arguments.run
        return run(arguments)
    except TraceAuditError as error:
        say(f"traceaudit: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("traceaudit: interrupted; nothing half-written was kept")
        return 130
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        say(f"traceaudit: {error.strerror or error}: {error.filename or ''}".rstrip(": "))
        say("  next: look at the path, its permissions and the room on the disk")
        return UsageError.exit_code
    except Exception:
        traceback.print_exc()
        say("traceaudit: this is a fault of the program, not of its input; please report it with the lines above")
        return FAULT


if __name__ == "__main__":
    sys.exit(main())
