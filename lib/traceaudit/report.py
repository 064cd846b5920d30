"""The report as a whole: build its pages, render the site, check pages and records.

This is where the subjects meet the core: a build asks each of them what its source holds, so that a page is executed
again when that changes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import card, cli, committed, pages
from .claims import Finding
from .errors import GuardFailed, NothingToCheck, RecordMismatch, UsageError
from .execute import Executed
from .finishing import commit_of, finish
from .guards import raise_if
from .instances import Instance, load_chapters
from .published import check_site
from .publishing import publish
from .run import build, built_path, check
from .sources import VARIABLE
from .values import Value

__all__ = ["add_commands", "project_root"]

STAMP = ".traceaudit/site.sha256"


def add_commands(commands: Any) -> None:
    """Add ``build``, ``check``, ``report``, ``readme`` and ``check-site`` to the command line."""
    making = commands.add_parser("build", help="execute the chapters that changed")
    making.add_argument("--record", action="store_true", help="write the stored records as well")
    making.add_argument("--only", nargs="+", metavar="NAME", default=None, help="chapters, or CHAPTER.SPLIT")
    making.add_argument("--workers", type=cli.positive, default=2, help="worker processes at a time (2)")
    making.set_defaults(run=_build)
    checking = commands.add_parser("check", help="run every chapter again and compare with the stored records")
    checking.add_argument("--only", nargs="+", metavar="NAME", default=None, help="chapters, or CHAPTER.SPLIT")
    checking.add_argument("--workers", type=cli.positive, default=2, help="worker processes at a time (2)")
    checking.add_argument(
        "--site", metavar="URL|DIR", default=None, help="run nothing; hold a published site against the stored records"
    )
    checking.set_defaults(run=_check)
    for parser in (making, checking):
        parser.add_argument("--engine", default="auto", help="auto, upstream or independent")
        cli.add_source(parser)
        _add_judges(parser)
    report = commands.add_parser("report", help="build the site with quarto, or a preview where it is missing")
    report.add_argument("--renderer", default="auto", choices=("auto", "quarto", "preview"))
    cli.add_source(report)
    _add_judges(report)
    report.set_defaults(run=_report)
    readme = commands.add_parser("readme", help="write the README's generated blocks anew from the records")
    readme.add_argument("--check", action="store_true", help="write nothing; exit 1 where a block differs")
    readme.set_defaults(run=_readme)
    site = commands.add_parser("check-site", help="finish the rendered site and check it for what renderers let pass")
    site.add_argument("folder", nargs="?", default=None, help="the site; by default the project's output folder")
    site.set_defaults(run=_check_site)
    publishing = commands.add_parser("publish", help="build the report, check it, put it on a branch of its own")
    publishing.add_argument("--remote", metavar="NAME", default="", help="push there; without it nothing is pushed")
    publishing.add_argument("--branch", metavar="NAME", default="gh-pages", help="the branch (gh-pages)")
    publishing.set_defaults(run=_publish)


def _add_judges(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--judges", metavar="GIT|DIR|TAR", default=None,
        help="replies of real judges: git repository, folder or tar archive; else TRACEAUDIT_JUDGES, else the cache",
    )  # fmt: skip


def project_root() -> Path:
    """The project: this folder or the nearest one above that holds ``chapters/chapters.toml``.

    Raises:
        NothingToCheck: there is none.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "chapters" / "chapters.toml").is_file() and (folder / "_quarto.yml").is_file():
            return folder
    raise NothingToCheck(
        "this is not inside a project", where=here.name, expected="chapters/chapters.toml", next_step="change folder"
    )


def _environment(source: str | None, judges: str | None) -> dict[str, str]:
    """What chapters inherit: the sources, made absolute, since each chapter runs in a folder of its own."""
    from .trail import judges_source

    chosen = {VARIABLE: source, judges_source.VARIABLE: judges}
    given = {name: place or os.environ.get(name, "") for name, place in chosen.items()}
    return {name: str(Path(place).resolve()) for name, place in given.items() if place}


def _parameters(engine: str) -> dict[str, str]:
    from .trail.study import ENGINES

    if engine not in ENGINES:
        raise UsageError("unknown engine", where=engine, expected=", ".join(ENGINES))
    return {"source": "", "engine": engine}


def _state(source: str | None, judges: str | None) -> tuple[str, list[str]]:
    """A digest of all that the sources hold, verified and said, and what was said."""
    from .trail import judges_source
    from .trail.source_state import source_state

    for name in committed.digests():
        committed.committed_bytes(name)
    benchmark, replies = source_state(source), judges_source.state(judges)
    cli.say(benchmark.line)
    cli.say(replies.line)
    return f"{benchmark.digest} {replies.digest}", [benchmark.line, replies.line]


def _build(arguments: argparse.Namespace) -> int:
    parameters, root = _parameters(arguments.engine), project_root()
    started = os.environ.get(card.STARTED) or card.now()
    state, said = _state(arguments.source, arguments.judges)
    done = build(
        root,
        parameters=parameters,
        only=arguments.only,
        workers=arguments.workers,
        record=arguments.record,
        may_record=_may_record,
        say=_say_what_changes,
        key_extra=state,
        env=_environment(arguments.source, arguments.judges),
    )
    _write_card(root, started, said)
    cli.say(f"{len(done.executed)} pages executed, {len(done.unchanged)} unchanged")
    if done.recorded:
        cli.say(f"{len(done.recorded)} records written")
    return 0


def _write_card(root: Path, started: str, said: list[str]) -> None:
    kept = ((each, root / built_path(each)) for each in _instances(root))
    entries = [card.entry(each, path.read_bytes() if path.is_file() else None, since=started) for each, path in kept]
    card.write_card(root, entries, commit=commit_of(root), sources=said)


def _say_what_changes(line: str) -> None:
    """Progress without the pages that stay as they are: a renderer builds again before it starts."""
    if not line.endswith(": unchanged"):
        cli.say(line)


def _may_record(executed: Executed) -> str | None:
    items: list[Value | Finding] = [*executed.values.values(), *executed.findings.values()]
    recalled = [item for item in items if item.mode != "measured"]
    if recalled:
        return f"{len(recalled)} values or findings were recalled, not measured"
    recordable = executed.provenance.get("recordable", "its provenance says nothing about it")
    return None if recordable == "yes" else str(recordable) or "its provenance gives no word on it"


def _check(arguments: argparse.Namespace) -> int:
    if arguments.site is not None:
        if arguments.only is not None or arguments.source is not None or arguments.judges is not None:
            raise UsageError("a site is checked as a whole", next_step="leave out --only, --source and --judges")
        return check_site(arguments.site, project_root(), cli.say)
    parameters, root = _parameters(arguments.engine), project_root()
    _state(arguments.source, arguments.judges)
    report = check(
        root,
        parameters=parameters,
        only=arguments.only,
        workers=arguments.workers,
        say=cli.say,
        env=_environment(arguments.source, arguments.judges),
    )
    for checked in report.checked:
        for name in checked.comparison.not_comparable:
            cli.say(f"{checked.instance}: {name} was recorded on another set of traces: not comparable")
    recalled = sum(len(checked.recalled) for checked in report.checked)
    if recalled:
        cli.say(f"{recalled} values could only be recalled here, which proves nothing about them")
    report.raise_if_unequal()
    measured = [checked for checked in report.checked if not checked.recalled_throughout]
    if not measured:
        raise NothingToCheck(
            "no page could be measured, so nothing was checked",
            where=", ".join(str(checked.instance) for checked in report.checked[:3]),
            next_step="give --source, set TRACEAUDIT_SOURCE, or run traceaudit fetch",
        )
    left = len(report.checked) - len(measured)
    cli.say(f"{len(measured)} pages hold what their records say" + (f"; {left} were only recalled" if left else ""))
    return 0


def _readme(arguments: argparse.Namespace) -> int:
    from .readme import update

    if update(project_root(), check=arguments.check):
        cli.say("the README holds what the records say")
    elif arguments.check:
        raise RecordMismatch(
            "a generated block differs from the records", where="README.md", next_step="run traceaudit readme"
        )
    else:
        cli.say("the README was written anew")
    return 0


def _report(arguments: argparse.Namespace) -> int:
    root = project_root()
    environment = {**os.environ, **_environment(arguments.source, arguments.judges), card.STARTED: card.now()}
    os.environ.update(environment)
    quarto = shutil.which("quarto")
    if arguments.renderer == "quarto" and quarto is None:
        raise NothingToCheck("quarto is not on this machine", next_step="install it, or use --renderer preview")
    preview = quarto is None or arguments.renderer == "preview"
    _build(argparse.Namespace(engine="auto", source=None, judges=None, only=None, workers=2, record=False))
    state = _site_state(root, "preview" if preview else "quarto")
    stamp, index = root / STAMP, root / "_site" / "index.html"
    whole = all((root / "_site" / pages.html_of(each.page)).is_file() for each in _instances(root))
    if whole and stamp.is_file() and stamp.read_text(encoding="ascii") == state:
        cli.say(f"nothing changed since the site was rendered: {index}")
        return 0
    stamp.unlink(missing_ok=True)
    if quarto is None or preview:
        cli.say("rendering a preview with smalldocs" + (", since quarto is not on this machine" if not quarto else ""))
        command = [sys.executable, "-m", "smalldocs.cli", "render"]
        if (entry := Path(sys.executable).with_name("smalldocs")).exists():
            command = [str(entry), "render"]
    else:
        cli.say("rendering with quarto")
        command = [quarto, "render"]
    done = subprocess.run(command, cwd=root, env=environment, check=False)
    if done.returncode:
        raise GuardFailed(
            "the site was not rendered", where=" ".join(command[-1:]), got=f"exit code {done.returncode}",
            next_step="see the lines above",
        )  # fmt: skip
    stamp.write_text(state, encoding="ascii")
    cli.say(f"the report is at {index}")
    return 0


def _instances(root: Path) -> list[Instance]:
    return load_chapters(root / "chapters" / "chapters.toml")


def _site_state(root: Path, renderer: str) -> str:
    """Digest of everything that a rendered site depends on: pages, configuration, style, renderer, commit."""
    digest = hashlib.sha256(f"{renderer} {commit_of(root)}".encode())
    names = [instance.page for instance in _instances(root)]
    for name in ("_quarto.yml", "chapters/style.css", *sorted(names)):
        digest.update(name.encode() + b"\0" + (root / name).read_bytes() + b"\0")
    return digest.hexdigest()


def _publish(arguments: argparse.Namespace) -> int:
    def made() -> int:
        return _report(argparse.Namespace(renderer="auto", source=None, judges=None))

    return publish(project_root(), build=made, remote=arguments.remote, branch=arguments.branch, say=cli.say)


def _check_site(arguments: argparse.Namespace) -> int:
    root = project_root()
    instances = _instances(root)
    folder = Path(arguments.folder) if arguments.folder else root / "_site"
    finish(root, folder, instances=instances)
    problems = pages.compare_quarto(root / "_quarto.yml", instances)
    names = [instance.page for instance in instances]
    problems += pages.check_pages(folder, names, {name: root / name for name in names})
    raise_if(problems)
    cli.say(f"{len(instances)} pages are whole")
    return 0
