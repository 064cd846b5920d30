"""Normalize a folder of raw runs into a corpus: one file per run, labels from reports, nothing lost without a word.

A large corpus is not read in one go on every machine, so a state file remembers what became of each raw file; and two
runs of the same task, model and arm are two runs, so the second gets a number and never the first one's place.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from ..errors import NothingToCheck, UsageError, WorkerFailed
from ..records import write_whole
from .convert import Converted, Prepared, Task, convert
from .files import encode_line, read_header, read_run, run_bytes
from .formats import by_name, formats
from .issues import Issue
from .raw import walk
from .reports import RESOLVED_BY, Report, Reports, load_reports
from .schema import Run, run_id, slug

__all__ = ["STATE", "Summary", "normalize"]

STATE = ".normalize.state"
"""What became of each raw file, a line each; hidden, so that no reader of a corpus takes it for a run."""
Say = Callable[[str], None]
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,250}\Z")
_EVERY = 50


class Output(msgspec.Struct):
    """One run in the target: its name, the digest of its file, and what the label pass needs to know of it."""

    run_id: str
    base: str
    sha256: str
    steps: int
    instance: str | None
    model: str | None
    own: tuple[bool | None, str]
    label: tuple[bool | None, str]


class Done(msgspec.Struct):
    """One raw file that was converted: its digest, the digest of the options and the program, and what came of it."""

    name: str
    sha256: str
    key: str
    outputs: list[Output]
    issues: list[Issue]


class Summary(msgspec.Struct):
    """What normalizing did.

    Attributes:
        files: Candidate files in the source. ``ignored``: other files there.
        skipped: Candidate files that are unchanged since they were converted.
        written: Run files written by this call.
        runs, steps: In the corpus, from all candidate files.
        labelled: Runs with a terminal label. ``resolved``: those whose label is true.
        issues: Everything that is wrong, sorted.
    """

    files: int = 0
    ignored: int = 0
    skipped: int = 0
    written: int = 0
    runs: int = 0
    steps: int = 0
    labelled: int = 0
    resolved: int = 0
    issues: list[Issue] = []

    @property
    def kinds(self) -> dict[str, int]:
        """How many issues of each kind, the most frequent first."""
        return dict(sorted(Counter(issue.what for issue in self.issues).items(), key=lambda item: (-item[1], item[0])))

    def as_json(self) -> dict[str, Any]:
        """The summary for machines; ``issues`` counts by kind, ``details`` has each one."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return {**data, "issues": self.kinds, "details": data["issues"]}


def normalize(
    source: Path,
    target: Path,
    *,
    labels: Path | None = None,
    format: str = "",
    say: Say = lambda line: None,
    workers: int = 1,
    fields: dict[str, str] | None = None,
) -> Summary:
    """Convert every raw run below ``source`` (a folder or one file) into ``target/<run_id>.jsonl``.

    Files are taken in sorted order and written whole or not at all; a second call converts what is new or changed. A
    run of which the data names no model or arm has ``unknown`` or ``default`` in its id and None in its header. A label
    comes from the one report of its instance; without one, or where a report could be that of several runs, it is what
    the raw file says, else None.

    Args:
        source: Folder or file.
        target: Folder of the corpus; made where it is absent.
        labels: Folder with SWE-bench reports.
        format: Name of the format to read every file as; empty to find out by content.
        say: Takes progress lines.
        workers: Processes that convert.
        fields: Header fields for every run, over what the data says: model, arm, dataset, dataset_revision, licence.

    Raises:
        NothingToCheck: the source or the folder of labels is absent, or no file there may hold runs.
        WorkerFailed: a worker process died (out of memory …).
        UsageError: an unknown format, or the target is no folder or the source itself.
    """
    fields = {name: value for name, value in (fields or {}).items() if value}
    _check(source, target, format, workers)
    reports = load_reports(labels)
    found, ignored = walk(source, (target, *([labels] if labels else [])))
    if not found:
        next_step = "name a folder with .json, .jsonl or .traj files"
        raise NothingToCheck("no file here may hold runs", where=str(source), next_step=next_step)
    target.mkdir(parents=True, exist_ok=True)
    work = _Work(target, _key(format, fields), {name for name, _ in found})
    summary = Summary(files=len(found), ignored=ignored)
    tasks = [Task(name, path, format, fields, work.known(name)) for name, path in found]
    for number, converted in enumerate(_converted(tasks, workers), 1):
        if converted.runs is None:
            summary.skipped += 1
        else:
            summary.written += work.take(converted, converted.runs, reports)
        if number % _EVERY == 0 or number == len(tasks):
            say(f"{number} of {len(tasks)} files, {summary.skipped} unchanged, {summary.written} runs written")
    extra = [*reports.issues, *work.issues, *work.relabel(reports)]
    work.save()
    done = [work.done[name] for name, _ in found]
    outputs = [output for one in done for output in one.outputs]
    extra += _corpus_issues(done, outputs, reports)
    summary.runs, summary.steps = len(outputs), sum(output.steps for output in outputs)
    summary.labelled = sum(output.label[0] is not None for output in outputs)
    summary.resolved = sum(output.label[0] is True for output in outputs)
    every = [*extra, *(issue for one in done for issue in one.issues)]
    summary.issues = sorted(every, key=lambda issue: (issue.file, issue.line or 0, issue.what, issue.got))
    return summary


def _check(source: Path, target: Path, format: str, workers: int) -> None:
    if not source.exists():
        raise NothingToCheck("there is nothing here", where=str(source), next_step="name a folder or file of raw runs")
    if format and by_name(format) is None:
        known = ", ".join(one.name for one in formats())
        raise UsageError("no format of this name", got=format, expected=known, next_step="correct --format")
    if (target.exists() and not target.is_dir()) or target.resolve() == source.resolve():
        raise UsageError("the target must be a folder of its own", where=str(target), next_step="name another one")
    if workers < 1:
        raise UsageError("at least one worker is needed", got=str(workers), next_step="give 1 or more")


@cache
def _program() -> str:
    """Digest of the modules that decide what a run file holds; another program converts again."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*here.glob("formats/*.py"), *(here / f"{name}.py" for name in _DECIDING)]):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


_DECIDING = ("convert", "digests", "files", "normalize", "raw", "schema")


def _key(format: str, fields: dict[str, str]) -> str:
    return hashlib.sha256(msgspec.json.encode([_program(), format, sorted(fields.items())])).hexdigest()


def _converted(tasks: list[Task], workers: int) -> Iterator[Converted]:
    if workers == 1:
        yield from map(convert, tasks)
        return
    size = 8 * workers  # so many results wait at most, however many files there are
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for start in range(0, len(tasks), size):
                yield from pool.map(convert, tasks[start : start + size])
    except BrokenProcessPool:
        next_step = "give fewer --workers, or 1 to see which file it is; what was written is kept"
        raise WorkerFailed("a worker process died", next_step=next_step) from None


class _Work:
    """The target and what is known of it."""

    def __init__(self, target: Path, key: str, names: set[str]) -> None:
        self.target, self.key, self.issues = target, key, list[Issue]()
        self.done = {done.name: done for done in _load(target / STATE)}
        if self.done:
            self.save()  # ends a line that was torn
        self.taken = {output.run_id: done.name for done in self.done.values() for output in done.outputs}
        for name, done in self.done.items():
            if name not in names:
                got = ", ".join(output.run_id for output in done.outputs[:3])
                self.issues.append(Issue(name, "the raw file of runs in the target is gone", got=got))

    def path(self, run: str) -> Path:
        return self.target / f"{run}.jsonl"

    def known(self, name: str) -> str:
        """The digest of the raw file as it was converted, where all that came of it is still there unchanged."""
        done = self.done.get(name)
        if done is None or done.key != self.key:
            return ""
        return done.sha256 if all(_digest(self.path(one.run_id)) == one.sha256 for one in done.outputs) else ""

    def take(self, converted: Converted, runs: list[Prepared], reports: Reports) -> int:
        """Write the runs of a raw file and remember them; gives how many."""
        former = self.done.get(converted.name)
        before = list(former.outputs) if former else []
        outputs = []
        for run in runs:
            base = _base(run)
            again = next((output for output in before if output.base == base), None)
            if again is not None:
                before.remove(again)
            name = again.run_id if again is not None else self._free(base, converted.sha256)
            self.taken[name] = converted.name
            outputs.append(self._write(run, base, name, reports))
        for output in before:
            self._remove(output)
        done = Done(converted.name, converted.sha256, self.key, outputs, converted.issues)
        self.done[converted.name] = done
        with (self.target / STATE).open("ab") as file:
            file.write(msgspec.json.encode(done) + b"\n")
        return len(outputs)

    def _free(self, base: str, digest: str) -> str:
        """The first name of this base that no other run has; one that an interrupted call wrote for this raw file."""
        for repeat in count():
            name = f"{base}__{repeat + 1}" if repeat else base
            if name in self.taken:
                continue
            if not self.path(name).exists():
                return name
            header = read_header(self.path(name))
            if header is not None and header.source.get("sha256") == digest:
                return name
        return base

    def _write(self, run: Prepared, base: str, name: str, reports: Reports) -> Output:
        header = run.header
        own = (header.resolved, "" if header.resolved is None else header.resolved_by or "raw file")
        label = _label(reports.of(header.instance_id, header.model), own)
        header = msgspec.structs.replace(header, run_id=name, resolved=label[0], resolved_by=label[1])
        content = encode_line(header) + b"\n" + run.lines
        _put(self.path(name), content)
        digest = hashlib.sha256(content).hexdigest()
        return Output(name, base, digest, header.n_steps, header.instance_id, header.model, own, label)

    def _remove(self, output: Output) -> None:
        """Take away a run that its raw file no longer gives, unless someone has edited it."""
        path = self.path(output.run_id)
        if _digest(path) == output.sha256:
            path.unlink()
            self.taken.pop(output.run_id, None)
            what = "a run that its raw file no longer gives was removed"
        else:
            what = "a run that its raw file no longer gives was edited and stays"
        self.issues.append(Issue(path.name, what))

    def relabel(self, reports: Reports) -> list[Issue]:
        """Give every run the label that it should have now that all runs are known."""
        issues = []
        found = [(one, reports.of(one.instance, one.model)) for done in self.done.values() for one in done.outputs]
        users = Counter((report.file, report.instance_id) for _, report in found if report is not None)
        for output, report in found:
            if report is not None and users[report.file, report.instance_id] > 1:
                issues.append(Issue(report.file, "a report that could be that of several runs", got=output.run_id))
                report = None
            elif report is None and output.instance in reports.by_instance:
                file = reports.by_instance[output.instance][0].file
                issues.append(Issue(file, "several reports that could be that of one run", got=output.run_id))
            if report is not None and output.own[0] not in (None, report.resolved):
                issues.append(Issue(report.file, "a report contradicts the raw file of its run", got=output.run_id))
            self._set(output, _label(report, output.own))
        return issues

    def _set(self, output: Output, label: tuple[bool | None, str]) -> None:
        path = self.path(output.run_id)
        if output.label == label or (run := read_run(path, [])) is None:
            return
        header = msgspec.structs.replace(run.header, resolved=label[0], resolved_by=label[1])
        content = run_bytes(Run(header, run.steps))
        _put(path, content)
        output.label, output.sha256 = label, hashlib.sha256(content).hexdigest()

    def save(self) -> None:
        """Write the state as a whole, in the order of names."""
        lines = (msgspec.json.encode(self.done[name]) + b"\n" for name in sorted(self.done))
        write_whole(self.target / STATE, b"".join(lines))


def _label(report: Report | None, own: tuple[bool | None, str]) -> tuple[bool | None, str]:
    return own if report is None else (report.resolved, RESOLVED_BY)


def _load(path: Path) -> Iterable[Done]:
    """The remembered files; a torn or foreign line is left out, and its raw file is converted again."""
    if not path.is_file():
        return
    for line in path.read_bytes().splitlines():
        try:
            done = msgspec.json.decode(line, type=Done)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if all(_ID.match(output.run_id) for output in done.outputs):
            yield done


def _put(path: Path, content: bytes) -> None:
    """Write a run so that a reader sees all of it or nothing.

    The bytes are not forced to the disk file by file (that takes longer than all the rest): what a power failure loses
    differs from its digest in the state, and the next call converts it again.
    """
    aside = path.with_name(f".{path.name}.part")
    try:
        aside.write_bytes(content)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _base(run: Prepared) -> str:
    """The run id without a number; a part too long for a file name is cut and gets its digest."""
    parts = (run.instance, run.header.model or "unknown", run.header.arm or "default")
    instance, model, arm = map(_short, parts)
    name = run_id(instance, model, arm)
    return f"x{name}" if name.startswith(".") else name  # a hidden file would be read by nobody


def _short(part: str) -> str:
    name = slug(part)
    return name if len(name) <= 70 else f"{name[:57]}-{hashlib.sha256(part.encode()).hexdigest()[:12]}"


def _corpus_issues(done: list[Done], outputs: list[Output], reports: Reports) -> Iterator[Issue]:
    """What only the whole corpus can show."""
    instances = {output.instance for output in outputs if output.instance}
    for report in reports.without_run(instances):
        yield Issue(report.file, "a report without a run", got=report.instance_id[:80])
    seen: dict[str, str] = {}
    for one in done:
        if one.outputs and seen.setdefault(one.sha256, one.name) != one.name:
            yield Issue(one.name, "the same bytes as another raw file", got=seen[one.sha256])
    spellings: dict[str, Counter[str]] = {}
    for output in outputs:
        if output.model:
            spellings.setdefault(output.model.rsplit("/", 1)[-1].lower(), Counter())[output.model] += 1
    for spelled in spellings.values():
        if len(spelled) > 1:
            got = ", ".join(f"{model[:60]} {runs}" for model, runs in spelled.most_common())
            yield Issue("(the corpus)", "a model under several spellings", got=got)
