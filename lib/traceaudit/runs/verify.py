"""Consistency of a corpus: does each file agree with itself, with its neighbours and with the manifest.

All of it is recomputed from the files that declare it, so it finds accidents and careless edits; what a careful forger
leaves behind only a signature or a replay can show (:mod:`traceaudit.runs.signing`, :mod:`traceaudit.runs.sampling`).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ..errors import NothingToCheck, TraceAuditError
from .digests import content_digest
from .files import read_run, stem
from .issues import Issue
from .manifest import MANIFEST, Entry, Problem, build_manifest, entry_of, load_manifest, run_files
from .schema import SCHEMA, Header, Outcome, Run, Step, Tokens, slug
from .signing import verify_chain

__all__ = ["RULES", "Problem", "check_run", "summary", "verify"]

RULES = {
    "file.unreadable": "a file of runs can be read as one run of this schema",
    "file.form": "a file that can be read has the form that we write (line ends, no blank lines …)",
    "file.name": "a file is named for its run",
    "run.duplicate": "a run id occurs in one file",
    "content.missing": "a header carries the digest of the steps",
    "content.mismatch": "the digest of the steps is the one in the header",
    "content.repeated": "no two runs have the same steps",
    "n_steps.mismatch": "a header counts the steps that follow",
    "step.index": "steps are numbered from 0 without gaps",
    "step.number": "costs and token counts are not negative, and finite",
    "step.time": "times are ISO 8601 and do not run backwards",
    "step.pairing": "an observation is there exactly where one was paired",
    "outcome.contradiction": "the fields of an outcome fit together (no success with a failing check …)",
    "instrument.missing": "a measured outcome before the last step names the instrument that measured it",
    "instrument.mismatch": "the instrument of a step is the one of the header",
    "instrument.unused": "a header names an instrument only where something was measured",
    "label.terminal": "the outcome of the last step is the label of the run",
    "label.unmeasured": "a graded run has a measured last step where it has a label, and a label where it has that",
    "label.source": "a label says who gave it, and only a label does",
    "captures.count": "captures are not negative and not more than the steps",
    "captures.none": "a run without captures has no measured step before its last",
    "header.schema": "the header is of this version",
    "header.id": "a run id is made of its instance, model and arm",
    "header.format": "digests, times and counts have their form",
    "header.cost": "a run costs what its steps cost, where each has a cost",
    "header.captured_at": "a run was captured when its first step was",
    "manifest.missing": "there is a manifest",
    "manifest.unreadable": "the manifest is one, in its canonical form",
    "manifest.unlisted": "every file is in the manifest",
    "manifest.orphan": "every file of the manifest is here",
    "manifest.hash": "the bytes of a file are those of the manifest",
    "manifest.content": "the steps are those of the manifest",
    "manifest.label": "the label is the one of the manifest",
    "manifest.header": "the other header fields are those of the manifest",
    "manifest.run_id": "the run in a file is the one of the manifest",
    "manifest.count": "steps and captures are as many as the manifest says",
}
"""Every rule, as the sentence that holds where nothing is found (``chain.*`` and ``signed.*`` need a key)."""

_SAID = {
    "an outcome contradicts itself",
    "the header counts other steps than follow",
    "the file is not named for its run",
}
"""What the reader says of a run that it read and that a rule of ours says too."""
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_ID = re.compile(r"[A-Za-z0-9._-]+\Z")
_Found = Iterator[tuple[str, str, str]]


def verify(
    folder: Path, *, manifest: Path | None = None, key: Path | Ed25519PublicKey | None = None, remembered: str = ""
) -> list[Problem]:
    """Check a corpus against itself, its manifest and, with a key, its signed chain.

    Args:
        folder: The corpus; one run is in memory at a time.
        manifest: A manifest to compare with instead of the one in the folder, such as a published one.
        key: The collector's public key; without it nothing signed is looked at.
        remembered: A head of the chain kept from earlier, see :func:`traceaudit.runs.signing.head`.

    Returns:
        Problems, errors first, then by rule and run. A file that cannot be read is a problem and hides no other.

    Raises:
        NothingToCheck: no such folder, no run in it, or no such key.
    """
    paths = run_files(folder)
    if not paths:
        raise NothingToCheck("there are no runs here", where=str(folder), next_step="traceaudit runs normalize")
    found: list[Problem] = []
    entries: list[Entry] = []
    ids: dict[str, list[str]] = defaultdict(list)
    contents: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        issues: list[Issue] = []
        run = read_run(path, issues)
        if run is None:
            found += (Problem("ERROR", "file.unreadable", path.name, str(issue)) for issue in issues)
        else:
            odd = (issue for issue in issues if issue.what not in _SAID)
            found += (Problem("WARN", "file.form", run.header.run_id, str(issue)) for issue in odd)
        entry = entry_of(path, folder, run)
        entries.append(entry)
        if run is None:
            continue
        found += check_run(run, path.name, entry.content)
        ids[run.header.run_id].append(path.name)
        if run.steps and entry.content:
            contents[entry.content].append(run.header.run_id)
    found += (
        Problem("ERROR", "run.duplicate", name, f"in {', '.join(files)}") for name, files in ids.items() if files[1:]
    )
    for same in contents.values():
        if len(set(same)) > 1:
            found.append(Problem("WARN", "content.repeated", same[1], f"the same steps as {same[0]}"))
    entries += build_manifest(folder, runs=False)
    found += _against(entries, manifest or folder / MANIFEST)
    if key is not None:
        found += verify_chain(folder, key, remembered=remembered or None, entries=entries)
    return sorted(found)


def summary(problems: list[Problem]) -> dict[str, int]:
    """How many problems of each rule, by name of the rule."""
    counts: dict[str, int] = {}
    for problem in problems:
        counts[problem.rule] = counts.get(problem.rule, 0) + 1
    return dict(sorted(counts.items()))


def check_run(run: Run, file: str, content: str | None = None) -> list[Problem]:
    """Everything that one run can say against itself.

    Args:
        run: The run.
        file: Name of the file that it was read from.
        content: The digest of its steps, where it is at hand already.
    """
    content = content or content_digest(run.steps)
    checks = (_file(run, file, content), _header(run.header), *(map(_step, run.steps)), _sums(run), _outcomes(run))
    rows = [row for check in checks for row in check]
    return [Problem(severity, rule, run.header.run_id, detail) for severity, rule, detail in rows]


def _file(run: Run, file: str, content: str) -> _Found:
    header = run.header
    if stem(Path(file)) != header.run_id:
        yield "ERROR", "file.name", f"the file is {file}"
    if not header.content_sha256:
        yield "WARN", "content.missing", "the header has no digest of the steps"
    elif header.content_sha256 != content:
        yield "ERROR", "content.mismatch", f"header {header.content_sha256[:16]}, steps {content[:16]}"
    if header.n_steps != len(run.steps):
        yield "ERROR", "n_steps.mismatch", f"header {header.n_steps}, file {len(run.steps)}"
    for position, step in enumerate(run.steps):
        if step.index != position:
            yield "ERROR", "step.index", f"step {position} says {step.index}"
            break


def _header(header: Header) -> _Found:
    if header.schema != SCHEMA:
        yield "ERROR", "header.schema", f"expected {SCHEMA}, got {header.schema}"
    if not _ID.match(header.run_id):
        yield "ERROR", "header.id", "a run id has letters, digits and ._- only"
    parts = [part for part in (header.instance_id, header.model, header.arm) if part is not None]
    start = "__".join(map(slug, parts))
    if header.instance_id is not None:
        whole = len(parts) == 3
        rest = header.run_id.removeprefix(start)
        fits = re.fullmatch(r"(__\d+)?", rest) if whole else rest.startswith("__")
        if not header.run_id.startswith(start if whole else slug(header.instance_id)) or (whole and not fits):
            yield "ERROR", "header.id", f"instance, model and arm give {start}"
    for name, digest in (("instrument", header.instrument), ("content_sha256", header.content_sha256 or None)):
        if digest is not None and not _DIGEST.match(digest):
            yield "WARN", "header.format", f"{name} is no SHA-256"
    for name, amount in (
        ("n_steps", header.n_steps),
        ("api_calls", header.api_calls),
        ("cost", header.cost),
        ("redacted", header.redacted),
    ):
        if amount is not None and not (math.isfinite(amount) and amount >= 0):
            yield "ERROR", "header.format", f"{name} is {amount}"
    if header.captured_at is not None and _when(header.captured_at) is None:
        yield "ERROR", "header.format", "captured_at is not ISO 8601"
    if (header.resolved is None) == bool(header.resolved_by):
        yield "WARN", "label.source", f"label {header.resolved}, given by {header.resolved_by or 'nobody'}"
    if header.captures is not None and not 0 <= header.captures <= header.n_steps:
        yield "ERROR", "captures.count", f"{header.captures} captures of {header.n_steps} steps"


def _step(step: Step) -> _Found:
    tokens = step.tokens or Tokens()
    numbers = [step.cost, *(getattr(tokens, name) for name in Tokens.__struct_fields__)]
    if any(number is not None and not (math.isfinite(number) and number >= 0) for number in numbers):
        yield "ERROR", "step.number", f"step {step.index}"
    if any((call.paired == "none") != (call.result is None) for call in step.calls):
        yield "ERROR", "step.pairing", f"step {step.index}"
    if step.outcome.contradiction:
        yield "ERROR", "outcome.contradiction", f"step {step.index}: {step.outcome.contradiction}"


def _when(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _sums(run: Run) -> _Found:
    before: datetime | None = None
    first = next((step.time for step in run.steps if step.time is not None), None)
    for step in run.steps:
        if step.time is None:
            continue
        now = _when(step.time)
        if now is None:
            yield "ERROR", "step.time", f"step {step.index} is not ISO 8601"
        elif before and (now.tzinfo is None) == (before.tzinfo is None) and now < before:
            yield "WARN", "step.time", f"step {step.index} is earlier than the one before"
        before = now or before
    costs, cost = [step.cost for step in run.steps if step.cost is not None], run.header.cost
    whole = cost is not None and bool(costs) and len(costs) == len(run.steps)
    if whole and not math.isclose(cost or 0, total := math.fsum(costs), rel_tol=1e-6, abs_tol=1e-9):
        yield "WARN", "header.cost", f"header {cost:g}, steps {total:g}"
    if run.header.captured_at is not None and first is not None and run.header.captured_at != first:
        yield "WARN", "header.captured_at", f"header {run.header.captured_at}, first step {first}"


def _outcomes(run: Run) -> _Found:
    header = run.header
    measured = [step for step in run.steps if step.outcome.state == "measured"]
    early = [step for step in run.steps[:-1] if step.outcome.state == "measured"]
    last = run.steps[-1].outcome if run.steps else Outcome()
    if missing := [step.index for step in early if step.outcome.instrument is None]:
        yield "WARN", "instrument.missing", f"{len(missing)} steps, the first is step {missing[0]}"
    other = [step.index for step in measured if step.outcome.instrument not in (None, header.instrument)]
    if other:
        yield "ERROR", "instrument.mismatch", f"{len(other)} steps, the first is step {other[0]}"
    if header.instrument is not None and not any(step.outcome.instrument for step in run.steps):
        yield "WARN", "instrument.unused", "no step was measured with the header's instrument"
    if header.resolved is not None and last.passed is not None and header.resolved != last.passed:
        yield "ERROR", "label.terminal", f"label {header.resolved}, last step {last.passed}"
    if early and (header.resolved is None) != (last.passed is None):
        yield "WARN", "label.unmeasured", f"label {header.resolved}, last step {last.passed}"
    if early and header.captures == 0:
        yield "ERROR", "captures.none", f"{len(early)} measured steps and no capture"


def _against(entries: list[Entry], path: Path) -> list[Problem]:
    """Compare what is in a folder with a manifest; the most telling difference of a file is reported."""
    try:
        listed = {entry.file: entry for entry in load_manifest(path)}
    except NothingToCheck:
        return [Problem("ERROR", "manifest.missing", "", f"there is no {path.name}")]
    except TraceAuditError as error:
        return [Problem("ERROR", "manifest.unreadable", "", error.what)]
    found = []
    here = {entry.file: entry for entry in entries}
    for file, entry in sorted(here.items()):
        name, told = entry.run_id or file, listed.get(file)
        if told is None:
            found.append(Problem("ERROR", "manifest.unlisted", name, f"{file} is not in the manifest"))
        elif told != entry:
            found += (Problem("ERROR", rule, name, detail) for rule, detail in _changes(told, entry))
    for file in sorted(set(listed) - set(here)):
        found.append(Problem("ERROR", "manifest.orphan", listed[file].run_id or file, f"{file} is not here"))
    return found


def _changes(told: Entry, got: Entry) -> Iterator[tuple[str, str]]:
    if told.run_id != got.run_id:
        yield "manifest.run_id", f"manifest {told.run_id}, file {got.run_id}"
    if told.label != got.label:
        yield "manifest.label", f"manifest {told.label}, file {got.label}"
    elif told.header != got.header:
        yield "manifest.header", "the header is another"
    if told.content != got.content:
        yield "manifest.content", f"manifest {(told.content or '')[:16]}, file {(got.content or '')[:16]}"
    if (told.n_steps, told.captures) != (got.n_steps, got.captures):
        yield "manifest.count", f"steps {told.n_steps} and {got.n_steps}, captures {told.captures} and {got.captures}"
    if (told.sha256, told.size) != (got.sha256, got.size):
        yield "manifest.hash", f"manifest {told.sha256[:16]}, file {got.sha256[:16]}"
