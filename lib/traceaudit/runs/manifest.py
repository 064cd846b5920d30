"""A canonical manifest of a corpus: every file by its bytes, every run by its header, steps and label.

The seed's manifest binds the label alone; here equal corpora give equal bytes, so that one signature covers all.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from ..errors import NothingToCheck, TraceAuditError
from .digests import content_digest
from .files import ENDINGS, read_run
from .issues import Issue
from .schema import Header, Run

__all__ = [
    "CHAIN",
    "MANIFEST",
    "Entry",
    "Problem",
    "build_manifest",
    "canonical",
    "entry_of",
    "header_digest",
    "load_manifest",
    "manifest_bytes",
    "run_files",
    "sha256_of",
]

MANIFEST = "manifest.json"
CHAIN = "manifest.chain"
"""JSON Lines; the name ends so that nothing takes it for a run."""
MANIFEST_SCHEMA = "traceaudit-manifest-1"
_ENCODER = msgspec.json.Encoder(order="sorted")


class Problem(msgspec.Struct, frozen=True, order=True):
    """One thing that an integrity check found.

    Attributes:
        severity: ``ERROR`` (the corpus contradicts itself, its manifest or its signature) or ``WARN``.
        rule: Name of the check, such as ``content.mismatch``.
        run_id: The run, or the file where no run could be read; empty for the corpus as a whole.
        detail: What is expected and what was found.
    """

    severity: str
    rule: str
    run_id: str
    detail: str

    def __str__(self) -> str:
        return f"{self.severity} {self.rule}" + (f" {self.run_id}" if self.run_id else "") + f": {self.detail}"


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a corpus. A file that is no readable run (a label report …) has its bytes covered and no run id.

    Attributes:
        file: Path below the corpus, with ``/``.
        size, sha256: Of the bytes of the file.
        run_id, n_steps, label, captures: As the run's header has them.
        content: Digest of the steps, recomputed. ``header``: digest of the whole header.
    """

    file: str
    size: int
    sha256: str
    run_id: str | None = None
    n_steps: int | None = None
    label: bool | None = None
    captures: int | None = None
    content: str | None = None
    header: str | None = None


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    entries: list[Entry]


def canonical(value: object) -> bytes:
    """JSON with sorted keys and no spaces, UTF-8; equal values give equal bytes."""
    return _ENCODER.encode(value)


def header_digest(header: Header) -> str:
    """SHA-256 of the canonical header, every field of it; the seed's manifest covers one field, the label."""
    return sha256_of(canonical(header))


def sha256_of(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def run_files(folder: Path) -> list[Path]:
    """The files of a corpus that are runs by their name, sorted: ``*.jsonl``, ``.gz``, ``.zst`` at the top."""
    return [path for path in _covered(folder) if path.parent == folder and path.name.endswith(ENDINGS)]


def _covered(folder: Path) -> list[Path]:
    """Every file but the hidden ones and the two that this module writes, sorted by name."""
    if not folder.is_dir():
        raise NothingToCheck("this is not a folder of runs", where=str(folder), next_step="traceaudit runs normalize")
    own = {folder / MANIFEST, folder / CHAIN}
    found = []
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and path not in own:
            found.append(path)
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def entry_of(path: Path, folder: Path, run: Run | None = None) -> Entry:
    """The manifest entry of one file; ``run`` is what was read from it, where it is a run."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    name, size = path.relative_to(folder).as_posix(), path.stat().st_size
    if run is None:
        return Entry(file=name, size=size, sha256=digest)
    return Entry(
        file=name,
        size=size,
        sha256=digest,
        run_id=run.header.run_id,
        n_steps=run.header.n_steps,
        label=run.header.resolved,
        captures=run.header.captures,
        content=content_digest(run.steps),
        header=header_digest(run.header),
    )


def build_manifest(folder: Path, issues: list[Issue] | None = None, *, runs: bool = True) -> list[Entry]:
    """The entries of every file below a corpus, sorted by name; one run is in memory at a time.

    Hidden files, the manifest and the chain are left out. A run that cannot be read has its bytes covered and its
    faults go to ``issues``; an empty folder gives an empty manifest. Without ``runs``, only the other files.

    Raises:
        NothingToCheck: there is no such folder.
    """
    found: list[Issue] = [] if issues is None else issues
    names = set(run_files(folder))
    entries = [entry_of(path, folder) for path in _covered(folder) if path not in names]
    if runs:
        entries += (entry_of(path, folder, read_run(path, found)) for path in sorted(names))
    return sorted(entries, key=lambda entry: entry.file)


def manifest_bytes(entries: list[Entry]) -> bytes:
    """The canonical bytes of a manifest: JSON, an entry a line, sorted by file; equal corpora give equal bytes."""
    rows = b",\n".join(canonical(entry) for entry in sorted(entries, key=lambda entry: entry.file))
    return b'{"entries":[\n' + rows + b'\n],"schema":' + canonical(MANIFEST_SCHEMA) + b"}\n"


def load_manifest(path: Path) -> list[Entry]:
    """Read a manifest.

    Raises:
        NothingToCheck: there is none.
        TraceAuditError: it is no manifest, of another version, or not in its canonical form (which would give the
            same entries another SHA-256).
    """
    if not path.is_file():
        raise NothingToCheck("there is no manifest", where=path.name, next_step="traceaudit runs sign DIR --key FILE")
    data = path.read_bytes()
    try:
        manifest = msgspec.json.decode(data, type=_Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TraceAuditError("this is not a manifest", where=path.name, got=str(error)) from None
    if manifest.schema != MANIFEST_SCHEMA or manifest_bytes(manifest.entries) != data:
        raise TraceAuditError("the manifest is not in its canonical form", where=path.name, expected=MANIFEST_SCHEMA)
    return manifest.entries
