"""Signatures over a corpus: a key, and an append-only chain of signed states.

Every value of a run can be recomputed by whoever edits it; only a key that the collector holds can say that the bytes
are those that were collected, and only a chain of signed states can say that none went missing since.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ..errors import NothingToCheck, TraceAuditError, UsageError
from ..records import write_whole
from .issues import Issue
from .manifest import CHAIN, MANIFEST, Entry, Problem, build_manifest, canonical, manifest_bytes, sha256_of

__all__ = [
    "ChainEntry",
    "fingerprint",
    "head",
    "keygen",
    "public_key_of",
    "sign",
    "sign_with",
    "verify_chain",
]

CHAIN_SCHEMA = "traceaudit-chain-1"
FIRST = "0" * 64
"""What the first entry of a chain names as its previous one."""


class ChainEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signed state of a corpus, told as what changed since the state before.

    Attributes:
        sequence: From 1. ``previous``: SHA-256 of the line before, without its line end.
        manifest: SHA-256 of the bytes of the manifest. ``files``, ``runs``: how many entries it has.
        added, replaced: file -> SHA-256 of its manifest entry. ``removed``: files that are gone.
        at: What the signer says of the time; no clock is read and nothing checks it.
        key: Fingerprint of the public key. ``signature``: Ed25519 over the canonical entry without this field, in hex.
    """

    sequence: int
    previous: str
    manifest: str
    files: int
    runs: int
    added: dict[str, str]
    replaced: dict[str, str]
    removed: list[str]
    key: str
    at: str = ""
    schema: str = CHAIN_SCHEMA
    signature: str = ""


# --- keys ---------------------------------------------------------------------------------------------------------


def _in_repository(path: Path) -> Path | None:
    """The git repository (with a work tree or bare) that a path lies in, if any."""
    for folder in path.resolve().parents:
        bare = (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
        if (folder / ".git").exists() or bare:
            return folder
    return None


def _refuse_repository(path: Path) -> None:
    if (repository := _in_repository(path)) is not None:
        raise UsageError(
            "a private key has no place in a git repository",
            where=str(path),
            got=f"inside {repository}",
            next_step="name a file outside of every repository",
        )


def keygen(path: Path) -> str:
    """Make an Ed25519 key pair: ``path`` (private, PEM, mode 0600) and ``path.pub``; gives the fingerprint.

    Raises:
        UsageError: the path lies in a git repository, or one of the two files exists.
    """
    _refuse_repository(path)
    public_path = path.with_name(path.name + ".pub")
    for taken in (path, public_path):
        if taken.exists() or taken.is_symlink():
            raise UsageError("this file exists and a key is never overwritten", where=str(taken))
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(private)
        file.flush()
        os.fsync(file.fileno())
    public = key.public_key()
    write_whole(
        public_path,
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    )
    return fingerprint(public)


def fingerprint(key: Ed25519PublicKey) -> str:
    """SHA-256 of the 32 raw bytes of a public key, in hex."""
    return sha256_of(key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw))


def _private_key(path: Path) -> Ed25519PrivateKey:
    _refuse_repository(path)
    if not path.is_file():
        raise NothingToCheck("there is no such key", where=str(path), next_step="traceaudit runs keygen FILE")
    if path.stat().st_mode & 0o077:
        raise UsageError("others may read this private key", where=str(path), expected="mode 0600")
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UsageError("this is not a private key in PEM form", where=str(path)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError("this is not an Ed25519 key", where=str(path))
    return key


def public_key_of(path: Path) -> Ed25519PublicKey:
    """Read a public key in PEM form.

    Raises:
        NothingToCheck: there is no such file.
        UsageError: it is no Ed25519 public key.
    """
    if not path.is_file():
        raise NothingToCheck("there is no such key", where=str(path), next_step="ask the collector for the public key")
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError("this is not a public key in PEM form", where=str(path)) from None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError("this is not an Ed25519 key", where=str(path))
    return key


# --- the chain ----------------------------------------------------------------------------------------------------


def _lines(folder: Path) -> tuple[list[bytes], str]:
    """The whole lines of a chain, and what is wrong with the file as such."""
    path = folder / CHAIN
    if not path.is_file():
        return [], "there is no chain"
    *lines, rest = path.read_bytes().split(b"\n")
    return lines, "the last line is torn" if rest else "" if lines else "the chain is empty"


def _state(entries: list[Entry]) -> dict[str, str]:
    return {entry.file: sha256_of(canonical(entry)) for entry in entries}


def head(folder: Path) -> str:
    """The newest entry of a chain as ``<sequence>:<SHA-256>``, to be kept elsewhere; empty without a chain.

    Whoever remembers it sees a rollback, which no signature can show.
    """
    lines, _ = _lines(folder)
    return f"{len(lines)}:{sha256_of(lines[-1])}" if lines else ""


def sign(folder: Path, key_path: Path, *, at: str = "") -> ChainEntry:
    """Write the manifest of a corpus and append its signed state to the chain; see :func:`sign_with`.

    Raises:
        UsageError: the key lies in a git repository or in the corpus, may be read by others, or is no Ed25519 key.
        NothingToCheck: no such key or folder.
    """
    if folder.resolve() in key_path.resolve().parents:
        raise UsageError("the private key lies in the corpus that it signs", where=str(key_path))
    return sign_with(folder, _private_key(key_path), at=at)


def sign_with(folder: Path, key: Ed25519PrivateKey, *, at: str = "") -> ChainEntry:
    """As :func:`sign`, with a key in memory. Removed and replaced files are named in the signed entry.

    Raises:
        TraceAuditError: a run cannot be read, or the chain so far is not whole or is of another key.
    """
    issues: list[Issue] = []
    entries = build_manifest(folder, issues)
    if issues:
        raise TraceAuditError("a corpus that cannot be read is not signed", where=str(issues[0]))
    public = key.public_key()
    lines, fault = _lines(folder)
    said, before = _replay(lines, public, None)
    broken = [fault, *(str(problem) for problem in said if problem.severity == "ERROR")]
    if (folder / CHAIN).exists() and any(broken):
        raise TraceAuditError(
            "nothing is appended to a chain that is not whole",
            where=CHAIN,
            got=next(filter(None, broken)),
            next_step="restore it",
        )
    now, data = _state(entries), manifest_bytes(entries)
    body = ChainEntry(
        sequence=len(lines) + 1,
        previous=sha256_of(lines[-1]) if lines else FIRST,
        manifest=sha256_of(data),
        files=len(entries),
        runs=sum(entry.run_id is not None for entry in entries),
        added={file: digest for file, digest in now.items() if file not in before},
        replaced={file: digest for file, digest in now.items() if before.get(file, digest) != digest},
        removed=sorted(set(before) - set(now)),
        key=fingerprint(public),
        at=at,
    )
    signed = msgspec.structs.replace(body, signature=key.sign(canonical(body)).hex())
    write_whole(folder / MANIFEST, data)
    write_whole(folder / CHAIN, b"".join(line + b"\n" for line in [*lines, canonical(signed)]))
    return signed


def _replay(lines: list[bytes], key: Ed25519PublicKey, remembered: str | None) -> tuple[list[Problem], dict[str, str]]:
    """Check every entry of a chain, and tell the state that it ends in (file -> digest of its manifest entry)."""
    found: list[Problem] = []
    state: dict[str, str] = {}
    own, previous = fingerprint(key), FIRST
    for number, line in enumerate(lines, 1):
        try:
            entry = msgspec.json.decode(line, type=ChainEntry)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            found.append(Problem("ERROR", "chain.line", "", f"entry {number} cannot be read: {error}"))
            previous = sha256_of(line)
            continue
        found += (
            Problem("ERROR", rule, "", f"entry {number} {what}")
            for rule, what in _entry_faults(entry, line, number, previous, own, key)
        )
        found += (
            Problem("WARN", "chain.removal", file, f"entry {number}: its signer removed it") for file in entry.removed
        )
        wrong = [file for file in entry.added if file in state]
        wrong += [file for file in [*entry.replaced, *entry.removed] if file not in state]
        state.update(entry.added)
        state.update(entry.replaced)
        for file in entry.removed:
            state.pop(file, None)
        if wrong or len(state) != entry.files:
            what = f"entry {number} does not follow from the one before ({len(state)} files, it says {entry.files})"
            found.append(Problem("ERROR", "chain.change", "", what))
        previous = sha256_of(line)
    if remembered is not None:
        sequence, _, digest = remembered.partition(":")
        at = int(sequence) if sequence.isascii() and sequence.isdecimal() else 0
        if not 0 < at <= len(lines) or sha256_of(lines[at - 1]) != digest:
            what = f"the chain has {len(lines)} entries and not the remembered one {remembered}"
            found.append(Problem("ERROR", "chain.head", "", what))
    return found, state


def _entry_faults(
    entry: ChainEntry, line: bytes, number: int, previous: str, own: str, key: Ed25519PublicKey
) -> Iterator[tuple[str, str]]:
    if canonical(entry) != line or entry.schema != CHAIN_SCHEMA:
        yield "chain.line", "is not in its canonical form"
    if entry.sequence != number:
        yield "chain.sequence", f"says that it is entry {entry.sequence}"
    if entry.previous != previous:
        yield "chain.previous", "does not name the entry before it"
    if entry.key != own:
        yield "chain.key", f"was signed with key {entry.key[:16]}, not with {own[:16]}"
    try:
        if bytes.fromhex(entry.signature).hex() != entry.signature:  # upper case, spaces
            yield "chain.line", "has a signature that is not in its canonical form"
        key.verify(bytes.fromhex(entry.signature), canonical(msgspec.structs.replace(entry, signature="")))
    except (InvalidSignature, ValueError):
        yield "chain.signature", "has a signature that this key did not make"


def verify_chain(
    folder: Path,
    public_key: Path | Ed25519PublicKey,
    *,
    remembered: str | None = None,
    entries: list[Entry] | None = None,
) -> list[Problem]:
    """Whether a corpus is, file by file, what the newest entry of a whole chain of one key says.

    Args:
        folder: The corpus.
        public_key: The collector's key, or its file, got on another way than the corpus.
        remembered: A :func:`head` kept from earlier. Without it a corpus, manifest and chain that were rolled back
            together to an older signed state pass, since that state was signed too.
        entries: The manifest entries of the folder, where they are at hand already.

    Returns:
        Problems, none where all is well: ``chain.*`` for the chain, ``signed.removed``, ``signed.replaced`` and
        ``signed.unlisted`` for single files, ``signed.manifest`` for the manifest.
    """
    key = public_key_of(public_key) if isinstance(public_key, Path) else public_key
    if remembered is not None and not remembered:
        raise UsageError("a remembered head is <sequence>:<SHA-256>", got="nothing")
    lines, fault = _lines(folder)
    found, signed = _replay(lines, key, remembered)
    if fault:
        found.append(Problem("ERROR", "chain.line" if "torn" in fault else "chain.missing", "", fault))
    if lines:
        entries = build_manifest(folder) if entries is None else entries
        found += _differences(signed, _state(entries), {entry.file: entry.run_id or entry.file for entry in entries})
        stored = folder / MANIFEST
        if not stored.is_file() or stored.read_bytes() != manifest_bytes(entries):
            found.append(Problem("ERROR", "signed.manifest", "", f"{MANIFEST} is not the manifest of this folder"))
    return found


def _differences(signed: Mapping[str, str], now: Mapping[str, str], names: Mapping[str, str]) -> Iterator[Problem]:
    for file in sorted({*signed, *now}):
        if file not in now:
            yield Problem("ERROR", "signed.removed", file, "it was signed and is not here")
        elif file not in signed:
            yield Problem("ERROR", "signed.unlisted", names[file], f"{file} is here and was not signed")
        elif signed[file] != now[file]:
            yield Problem("ERROR", "signed.replaced", names[file], f"{file} is not the file that was signed")
