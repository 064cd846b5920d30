"""Manifest, keys and chain: equal corpora give equal bytes, keys stay private, and every change of a chain shows."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from msgspec.structs import replace

from traceaudit.errors import NothingToCheck, TraceAuditError, UsageError
from traceaudit.runs import files, manifest, signing, toy, verify
from traceaudit.runs.schema import Run

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
PUBLIC = KEY.public_key()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Twelve runs, signed three times: at nine, at twelve, and with one changed."""
    folder = tmp_path / "corpus"
    toy.toy_corpus(folder)
    late = {path: path.read_bytes() for path in manifest.run_files(folder)[9:]}
    for path in late:
        path.unlink()
    signing.sign_with(folder, KEY)
    for path, data in late.items():
        path.write_bytes(data)
    signing.sign_with(folder, KEY, at="2025-06-01")
    edit_run(folder)
    signing.sign_with(folder, KEY)
    return folder


def edit_run(folder: Path) -> str:
    run = files.read_run(manifest.run_files(folder)[0], [])
    assert run is not None
    files.write_run(Run(replace(run.header, licence=f"{run.header.licence}-0"), run.steps), folder)
    return run.header.run_id


def rules(folder: Path, **more) -> set[str]:
    return {problem.rule for problem in signing.verify_chain(folder, PUBLIC, **more) if problem.severity == "ERROR"}


def lines(folder: Path) -> list[bytes]:
    return (folder / manifest.CHAIN).read_bytes().splitlines()


def put(folder: Path, rows: list[bytes]) -> None:
    (folder / manifest.CHAIN).write_bytes(b"".join(row + b"\n" for row in rows))


# --- manifest -----------------------------------------------------------------------------------------------------


def test_equal_corpora_give_equal_bytes(tmp_path: Path) -> None:
    data = []
    for name in ("a", "b"):
        toy.toy_corpus(tmp_path / name)
        data.append(manifest.manifest_bytes(manifest.build_manifest(tmp_path / name)))
    assert data[0] == data[1]
    edit_run(tmp_path / "b")
    assert manifest.manifest_bytes(manifest.build_manifest(tmp_path / "b")) != data[0]


def test_manifest_is_read_back_and_sorted(corpus: Path) -> None:
    entries = manifest.load_manifest(corpus / manifest.MANIFEST)
    assert entries == manifest.build_manifest(corpus)
    assert [entry.file for entry in entries] == sorted(entry.file for entry in entries)
    assert sum(entry.run_id is not None for entry in entries) == 12
    assert sum(entry.file.startswith("labels/") for entry in entries) == 12
    assert manifest.manifest_bytes(entries[::-1]) == (corpus / manifest.MANIFEST).read_bytes()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"entries":[\n\n],"schema":"traceaudit-manifest-2"}\n',
        b'{"entries":[],"schema":"x","y":1}',
    ],
)
def test_what_is_no_manifest(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.json").write_bytes(data)
    with pytest.raises(TraceAuditError):
        manifest.load_manifest(tmp_path / "m.json")


def test_unreadable_run_is_covered_by_its_bytes_and_told(corpus: Path) -> None:
    path = manifest.run_files(corpus)[3]
    path.write_bytes(b"{")
    issues: list = []
    entries = {entry.file: entry for entry in manifest.build_manifest(corpus, issues)}
    assert entries[path.name].run_id is None and entries[path.name].size == 1
    assert {issue.file for issue in issues} == {path.name}


def test_packed_runs_are_runs_and_hidden_files_are_left_out(corpus: Path) -> None:
    import gzip

    path = manifest.run_files(corpus)[0]
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    (corpus / ".state").write_text("x")
    entries = {entry.file: entry for entry in manifest.build_manifest(corpus)}
    assert entries[path.name + ".gz"].n_steps
    assert ".state" not in entries


# --- keys ---------------------------------------------------------------------------------------------------------


def test_keygen_writes_a_private_file_and_signs(tmp_path: Path) -> None:
    toy.toy_corpus(tmp_path / "corpus")
    name = signing.keygen(tmp_path / "keys" / "k")
    assert stat.S_IMODE((tmp_path / "keys" / "k").stat().st_mode) == 0o600
    public = tmp_path / "keys" / "k.pub"
    assert b"PRIVATE" not in public.read_bytes()
    assert signing.fingerprint(signing.public_key_of(public)) == name
    entry = signing.sign(tmp_path / "corpus", tmp_path / "keys" / "k", at="today")
    assert (entry.sequence, entry.runs, entry.key, entry.at) == (1, 12, name, "today")
    assert verify.verify(tmp_path / "corpus", key=public) == []
    assert not any(b"PRIVATE" in path.read_bytes() for path in (tmp_path / "corpus").rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", ["worktree", "linked worktree", "bare", "deep"])
def test_no_key_in_a_git_repository(tmp_path: Path, kind: str) -> None:
    place = tmp_path
    if kind == "linked worktree":
        (tmp_path / ".git").write_text("gitdir: elsewhere")
    elif kind == "bare":
        (tmp_path / "HEAD").write_text("ref: refs/heads/main")
        (tmp_path / "objects").mkdir()
        (tmp_path / "refs").mkdir()
    else:
        (tmp_path / ".git").mkdir()
        place = tmp_path / "a" / "b" if kind == "deep" else tmp_path
    with pytest.raises(UsageError, match="git repository"):
        signing.keygen(place / "k")
    assert not (place / "k").exists()


def test_link_into_a_repository_is_followed(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "outside").symlink_to(tmp_path / "repo")
    with pytest.raises(UsageError, match="git repository"):
        signing.keygen(tmp_path / "outside" / "k")


@pytest.mark.parametrize("taken", ["k", "k.pub"])
def test_key_is_never_overwritten(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine")
    with pytest.raises(UsageError, match="never overwritten"):
        signing.keygen(tmp_path / "k")
    assert (tmp_path / taken).read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


def pem(key, mode: int = 0o600):
    data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def make(path: Path) -> None:
        path.write_bytes(data)
        path.chmod(mode)

    return make


def garbage(path: Path) -> None:
    path.write_bytes(b"no key")
    path.chmod(0o600)


def in_repository(path: Path) -> None:
    pem(KEY)(path)
    (path.parent / ".git").mkdir()


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: None, NothingToCheck),
        (garbage, UsageError),
        (pem(KEY, 0o640), UsageError),  # others may read it
        (pem(X25519PrivateKey.from_private_bytes(b"\x01" * 32)), UsageError),  # not for signing
        (in_repository, UsageError),
    ],
)
def test_refused_private_keys(tmp_path: Path, make, error) -> None:
    toy.toy_corpus(tmp_path / "corpus")
    (tmp_path / "keys").mkdir()
    make(tmp_path / "keys" / "k")
    with pytest.raises(error):
        signing.sign(tmp_path / "corpus", tmp_path / "keys" / "k")
    assert not (tmp_path / "corpus" / manifest.CHAIN).exists()


def test_key_in_the_corpus_is_refused(corpus: Path) -> None:
    signing.keygen(corpus / "labels" / "k")
    with pytest.raises(UsageError, match="lies in the corpus"):
        signing.sign(corpus, corpus / "labels" / "k")


def test_public_key_of_another_kind(tmp_path: Path) -> None:
    public = X25519PrivateKey.from_private_bytes(b"\x01" * 32).public_key()
    (tmp_path / "p").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(UsageError):
        signing.public_key_of(tmp_path / "p")
    (tmp_path / "p").write_bytes(b"x")
    with pytest.raises(UsageError):
        signing.public_key_of(tmp_path / "p")
    with pytest.raises(NothingToCheck):
        signing.public_key_of(tmp_path / "q")


# --- chain --------------------------------------------------------------------------------------------------------


def test_whole_chain_holds(corpus: Path) -> None:
    assert signing.verify_chain(corpus, PUBLIC, remembered=signing.head(corpus)) == []
    entries = [msgspec.json.decode(line, type=signing.ChainEntry) for line in lines(corpus)]
    assert [(e.sequence, e.runs, e.at) for e in entries] == [(1, 9, ""), (2, 12, "2025-06-01"), (3, 12, "")]
    assert [(len(e.added), len(e.replaced), len(e.removed)) for e in entries] == [(21, 0, 0), (3, 0, 0), (0, 1, 0)]


def test_signing_is_repeatable(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "copy")
    for folder in (corpus, tmp_path / "copy"):
        signing.sign_with(folder, KEY)
    assert lines(corpus) == lines(tmp_path / "copy")


def test_what_the_signer_removed_is_told(corpus: Path) -> None:
    gone = manifest.run_files(corpus)[5]
    gone.unlink()
    signing.sign_with(corpus, KEY)
    found = signing.verify_chain(corpus, PUBLIC)
    assert [(problem.severity, problem.rule, problem.run_id) for problem in found] == [
        ("WARN", "chain.removal", gone.name)
    ]
    assert signing.sign_with(corpus, KEY).sequence == 5  # it is told and does not stop the collector


def field(number: int, **changes):
    """Edit an entry and leave the rest, as a forger without the key."""

    def edit(folder: Path) -> None:
        rows = lines(folder)
        entry = msgspec.json.decode(rows[number], type=signing.ChainEntry)
        rows[number] = manifest.canonical(replace(entry, **changes))
        put(folder, rows)

    return edit


def with_rows(change):
    return lambda folder: put(folder, change(lines(folder)))


def resigned(folder: Path) -> None:
    (folder / manifest.CHAIN).unlink()
    signing.sign_with(folder, OTHER_KEY)


def capitals(folder: Path) -> None:
    """The same signature in other letters, so that the entry has another digest."""
    entry = msgspec.json.decode(lines(folder)[-1], type=signing.ChainEntry)
    field(2, signature=entry.signature.upper())(folder)


def removed_run(folder: Path) -> None:
    manifest.run_files(folder)[2].unlink()
    data = manifest.manifest_bytes(manifest.build_manifest(folder))
    (folder / manifest.MANIFEST).write_bytes(data)


def added_run(folder: Path) -> None:
    run = toy.toy_runs(seed=9)[0]
    files.write_run(Run(replace(run.header, run_id="toy__alpha-1__model-a__default__2"), run.steps), folder)


CHANGES = [
    ("chain.missing", lambda folder: (folder / manifest.CHAIN).unlink()),
    ("chain.missing", with_rows(lambda rows: [])),
    ("chain.line", with_rows(lambda rows: [*rows[:2], b"{}"])),
    ("chain.line", with_rows(lambda rows: [*rows[:2], rows[2].replace(b":", b": ", 1)])),  # not canonical
    ("chain.line", lambda folder: (folder / manifest.CHAIN).write_bytes(b"\n".join(lines(folder)))),  # torn
    ("chain.line", capitals),
    ("chain.sequence", with_rows(lambda rows: rows[1:])),  # the first entry removed
    ("chain.previous", with_rows(lambda rows: [rows[0], rows[2]])),  # one removed in between
    ("chain.previous", with_rows(lambda rows: [rows[0], rows[2], rows[1]])),  # reordered
    ("chain.sequence", with_rows(lambda rows: [*rows, rows[2]])),  # repeated
    ("chain.change", with_rows(lambda rows: [rows[0], rows[2]])),
    ("chain.signature", field(1, at="2031-01-01")),
    ("chain.signature", field(2, runs=13)),
    ("chain.signature", field(2, removed=["x"])),
    ("chain.signature", field(2, signature="")),
    ("chain.signature", field(2, signature="no hex")),
    ("chain.key", resigned),
    ("chain.signature", resigned),
    ("signed.replaced", with_rows(lambda rows: rows[:2])),  # the chain rolled back, the runs not
    ("signed.unlisted", with_rows(lambda rows: rows[:1])),
    ("signed.removed", removed_run),
    ("signed.replaced", edit_run),
    ("signed.unlisted", added_run),
    ("signed.manifest", lambda folder: (folder / manifest.MANIFEST).unlink()),
    ("signed.manifest", lambda folder: (folder / manifest.MANIFEST).write_bytes(b"{}")),
    ("signed.replaced", lambda folder: next((folder / "labels").iterdir()).write_text("{}")),
]


@pytest.mark.parametrize(("rule", "change"), CHANGES, ids=[f"{i}-{rule}" for i, (rule, _) in enumerate(CHANGES)])
def test_change_shows(corpus: Path, rule: str, change) -> None:
    change(corpus)
    assert rule in rules(corpus)


def test_rollback_needs_a_remembered_head(corpus: Path, tmp_path: Path) -> None:
    """An older state was signed too: only whoever remembers the newer one sees that it was taken back."""
    shutil.copytree(corpus, tmp_path / "old")
    edit_run(corpus)
    signing.sign_with(corpus, KEY)
    newest = signing.head(corpus)
    assert rules(tmp_path / "old") == set()
    assert rules(tmp_path / "old", remembered=newest) == {"chain.head"}
    assert rules(corpus, remembered=signing.head(tmp_path / "old")) == set()  # it grew since
    assert verify.summary(verify.verify(tmp_path / "old", key=PUBLIC, remembered=newest)) == {"chain.head": 1}


@pytest.mark.parametrize("remembered", ["nonsense", "0:aa", "2:" + "0" * 64, "-1:x", "\u00b2:x"])
def test_remembered_head_that_never_was(corpus: Path, remembered: str) -> None:
    assert rules(corpus, remembered=remembered) == {"chain.head"}


def test_broken_chain_is_not_signed_on(corpus: Path) -> None:
    put(corpus, lines(corpus)[1:])
    before = lines(corpus)
    with pytest.raises(TraceAuditError, match="not whole"):
        signing.sign_with(corpus, KEY)
    with pytest.raises(TraceAuditError, match="not whole"):
        signing.sign_with(corpus, OTHER_KEY)
    assert lines(corpus) == before


@pytest.mark.parametrize("data", [b"", b"{", b"torn"])
def test_chain_without_a_whole_entry_is_not_replaced(corpus: Path, data: bytes) -> None:
    (corpus / manifest.CHAIN).write_bytes(data)
    with pytest.raises(TraceAuditError, match="not whole"):
        signing.sign_with(corpus, KEY)
    assert (corpus / manifest.CHAIN).read_bytes() == data


def test_unreadable_corpus_is_not_signed(corpus: Path) -> None:
    manifest.run_files(corpus)[0].write_bytes(b"{")
    with pytest.raises(TraceAuditError, match="cannot be read"):
        signing.sign_with(corpus, KEY)
