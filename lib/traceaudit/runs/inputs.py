"""What a corpus still needs before its steps can be graded: every missing input by its name, with what to do about it.

A replay that stops at the first missing thing is started again as often as things are missing; here all are named at
once, and each can be satisfied.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ..errors import NothingToCheck, TraceAuditError
from .archives import BadArchiveError
from .executor import image_name
from .files import POINTER, iter_runs, shown
from .issues import Issue
from .reports import load_reports
from .state import INDEX, load_index, stored_captures, verify_state

__all__ = ["CAPTURES", "DATASET", "LABELS", "LOGS", "STATE", "Requirement", "inputs", "run_inputs"]

LABELS, CAPTURES, STATE, DATASET, LOGS = "labels", "captures", "state", "dataset", "logs"
"""Folders beside the runs. ``dataset`` holds ``rows.jsonl`` and ``pin.json``; ``logs`` a folder per task or run."""
_FIELDS = ("instance_id", "repo", "base_commit", "patch", "test_patch", "FAIL_TO_PASS", "PASS_TO_PASS")
_LOG_ENDINGS = ("test_output.txt", ".log")
_MOST = 4 << 30


class Requirement(msgspec.Struct, frozen=True):
    """One input.

    Attributes:
        name: Such as ``state.index``.
        satisfied: Whether all of it is here.
        detail: What is here and what is not.
        remedy: What to do about it; also where nothing is missing.
    """

    name: str
    satisfied: bool
    detail: str
    remedy: str

    def __str__(self) -> str:
        line = f"{'OK  ' if self.satisfied else 'MISS'} {self.name}: {self.detail}"
        return line if self.satisfied else f"{line}\n     next: {self.remedy}"


class _Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dataset: str
    revision: str
    sha256: str


class _Need(msgspec.Struct):
    """What the runs say of themselves."""

    run_ids: list[str] = []
    instances: set[str] = set()
    unlabelled: dict[str, tuple[str | None, str | None]] = {}
    captures: dict[str, int | None] = {}
    issues: list[Issue] = []


def _answers(engine: str) -> bool:
    try:
        return subprocess.run([engine, "info"], capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _has_image(engine: str, image: str) -> bool:
    call = [engine, "image", "inspect", image]
    try:
        return subprocess.run(call, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def inputs(
    folder: Path,
    *,
    find: Callable[[str], str | None] = shutil.which,
    answers: Callable[[str], bool] = _answers,
    has_image: Callable[[str, str], bool] = _has_image,
) -> list[Requirement]:
    """Every input that grading the steps of a corpus needs, here or not; nothing is fetched and nothing is written.

    Args:
        folder: The corpus: run files, and beside them the folders named in this module.
        find: Where a command is; None for none.
        answers: Whether a container engine answers.
        has_image: Whether an engine has an image.

    Returns:
        ``runs``, ``labels``, ``captures``, ``state.index``, ``dataset.rows``, ``container.engine``,
        ``container.images``, ``graded.logs``, in this order. With no runs nothing that is needed per run can be
        satisfied, since then nobody knows what is needed.

    Raises:
        NothingToCheck: there is no such folder.
    """
    if not folder.is_dir():
        raise NothingToCheck("there is no such folder", where=str(folder), next_step="name the folder of a corpus")
    need = _needed(folder)
    engine = next((name for name in ("docker", "podman") if find(name) and answers(name)), None)
    return [
        _runs(need),
        _labels(folder, need),
        _captures(folder, need),
        _index(folder, need),
        _dataset(folder / DATASET, need),
        _engine(engine, [name for name in ("docker", "podman") if find(name)]),
        _images(engine, need, has_image),
        _logs(folder / LOGS, need),
    ]


def run_inputs(folder: Path, say: Callable[[str], None]) -> int:
    """Say every requirement, and how many are missing; 0 when none is, else 2."""
    found = inputs(folder)
    for requirement in found:
        for line in str(requirement).split("\n"):
            say(line)
    missing = sum(not requirement.satisfied for requirement in found)
    say(f"{missing} of {len(found)} inputs are missing" if missing else "every input is here")
    return NothingToCheck.exit_code if missing else 0


def _needed(folder: Path) -> _Need:
    need = _Need()
    for run in iter_runs(folder, need.issues):
        header = run.header
        need.run_ids.append(header.run_id)
        need.captures[header.run_id] = header.captures
        if header.instance_id is not None:
            need.instances.add(header.instance_id)
        if header.resolved is None:
            need.unlabelled[header.run_id] = (header.instance_id, header.model)
    return need


def _some(names: list[str]) -> str:
    return shown(", ".join(names[:3]), 160) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _runs(need: _Need) -> Requirement:
    bad = sorted({issue.file for issue in need.issues})
    pointers = sum(issue.what == POINTER for issue in need.issues)
    detail = f"{len(need.run_ids)} runs of {len(need.instances)} tasks"
    remedy = "convert raw runs: traceaudit runs normalize SRC DST"
    if bad:
        detail += f"; {len(bad)} files have faults ({_some(bad)})"
        remedy = "traceaudit runs verify DIR names the faults"
    if pointers:
        detail += f"; {pointers} are Git LFS pointers"
        remedy = "fetch the files behind the pointers: git lfs pull"
    return Requirement("runs", bool(need.run_ids) and not bad, detail, remedy)


def _labels(folder: Path, need: _Need) -> Requirement:
    remedy = f"put the SWE-bench reports (<id>.report.json) below {LABELS}/ and normalize with --labels"
    place = folder / LABELS
    reports = load_reports(place if place.is_dir() else None)
    without = [name for name, (task, model) in need.unlabelled.items() if reports.of(task, model) is None]
    labelled = len(need.run_ids) - len(without)
    detail = f"{labelled} of {len(need.run_ids)} runs have a label or a report"
    if without:
        detail += f"; not {_some(without)}"
    return Requirement("labels", bool(need.run_ids) and not without, detail, remedy)


def _captures(folder: Path, need: _Need) -> Requirement:
    remedy = (
        f"bring the captures of the host that ran the agent: {CAPTURES}/<run>/step_NNNN.diff, or {STATE}/<run>.tar.gz "
        "with its index, then traceaudit runs state import"
    )
    absent, wrong, unknown, have = [], [], [], 0
    try:
        find = stored_captures(folder / CAPTURES, folder / STATE)
    except TraceAuditError:
        find = stored_captures(folder / CAPTURES, None)
    for name, said in need.captures.items():
        try:
            count = len(find(name) or {})
        except (BadArchiveError, OSError) as error:
            wrong.append(f"{name} ({shown(error, 60)})")
            continue
        if said is None:
            unknown.append(name)
        elif count == said:
            have += 1
        elif count:
            wrong.append(f"{name} ({count} of {said})")
        else:
            absent.append(name)
    parts = [f"captures of {have} of {len(need.run_ids)} runs, here or in an archive"]
    parts += [f"none of {_some(absent)}"] if absent else []
    parts += [f"not those of {_some(wrong)}"] if wrong else []
    if unknown:
        parts.append(f"{len(unknown)} headers do not say how many there were ({_some(unknown)})")
        remedy += "; a header gets its count on that host, since absent files cannot tell"
    return Requirement("captures", bool(need.run_ids) and have == len(need.run_ids), "; ".join(parts), remedy)


def _index(folder: Path, need: _Need) -> Requirement:
    remedy = "on the host that has the captures: traceaudit runs state export, and commit the folder"
    state = folder / STATE
    try:
        index = load_index(state)
    except TraceAuditError as error:
        return Requirement("state.index", False, f"{error.what} ({error.got})", "restore the file")
    if not (state / INDEX).exists():
        return Requirement("state.index", False, f"there is no {STATE}/{INDEX}", remedy)
    unlisted = [name for name, said in need.captures.items() if said and name not in index]
    issues = verify_state(state)
    parts = [f"{len(index)} runs in the index"]
    parts += [f"not {_some(unlisted)}"] if unlisted else []
    parts += [f"{len(issues)} faults, the first: {issues[0]}"] if issues else []
    return Requirement("state.index", not unlisted and not issues, "; ".join(parts), remedy)


def _dataset(place: Path, need: _Need) -> Requirement:
    rows, pin = place / "rows.jsonl", place / "pin.json"
    remedy = (
        f"export the task rows of a fixed revision as {DATASET}/rows.jsonl and write {DATASET}/pin.json with dataset, "
        "revision and the file's sha256"
    )

    def missing(detail: str) -> Requirement:
        return Requirement("dataset.rows", False, detail, remedy)

    if absent := [path.name for path in (rows, pin) if not path.is_file()]:
        return missing(f"there is no {' and no '.join(f'{DATASET}/{name}' for name in absent)}")
    try:
        said = msgspec.json.decode(pin.read_bytes(), type=_Pin)
        if rows.stat().st_size > _MOST:
            return missing("the rows are too large to read")
        raw = rows.read_bytes()
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        return missing(f"the pin or the rows cannot be read ({shown(error)})")
    if (got := hashlib.sha256(raw).hexdigest()) != said.sha256:
        return missing(f"the rows are not those of the pin (sha256 {got[:16]}, pinned {said.sha256[:16]})")
    have = set(_complete(raw))
    without = sorted(need.instances - have)
    detail = f"{len(need.instances) - len(without)} of {len(need.instances)} tasks in {said.dataset} at {said.revision}"
    if without:
        detail += f"; no whole row of {_some(without)}"
    return Requirement("dataset.rows", bool(need.instances) and not without, detail, remedy)


def _complete(raw: bytes) -> Iterator[str]:
    """Ids of the rows that have every field that grading needs; what is no row gives none."""
    for line in raw.splitlines():
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(row, dict) and all(row.get(field) is not None for field in _FIELDS):
            yield str(row["instance_id"])


def _engine(engine: str | None, installed: list[str]) -> Requirement:
    remedy = "start the engine" if installed else "install docker or podman"
    detail = f"{engine} answers" if engine else f"{' and '.join(installed)} without an engine that answers"
    if not engine and not installed:
        detail = "neither docker nor podman is installed"
    return Requirement("container.engine", engine is not None, detail, remedy)


def _images(engine: str | None, need: _Need, has_image: Callable[[str, str], bool]) -> Requirement:
    names = sorted(map(image_name, need.instances))
    have = [name for name in names if engine is not None and has_image(engine, name)]
    without = sorted(set(names) - set(have))
    detail = f"{len(have)} of {len(names)} images" + (f"; not {_some(without)}" if without else "")
    remedy = f"pull each: {engine or 'docker'} pull {without[0] if without else '<image>'}"
    return Requirement("container.images", bool(names) and not without, detail, remedy)


def _logs(place: Path, need: _Need) -> Requirement:
    """Raw test logs, by the folder they lie in: one named for the run, or for its task."""
    folders: set[str] = set()
    if place.is_dir():
        for path in place.rglob("*"):
            if path.name.endswith(_LOG_ENDINGS) and path.is_file() and path.stat().st_size:
                folders.update(path.relative_to(place).parts[:-1])
    tasks = sorted(need.instances)
    without = [
        task for task in tasks if task not in folders and not any(name.startswith(f"{task}__") for name in folders)
    ]
    detail = f"logs of {len(tasks) - len(without)} of {len(tasks)} tasks" + (
        f"; not {_some(without)}" if without else ""
    )
    remedy = f"put the raw test logs at {LOGS}/<task or run>/test_output.txt"
    return Requirement("graded.logs", bool(tasks) and not without, detail, remedy)
