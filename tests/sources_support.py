"""A tiny upstream repository with its pin, made on the fly, so that any kind of source can be tested on few bytes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from traceaudit.fetching import FetchReport, fetch
from traceaudit.pins import Pin, corpus_digest, git_blob_id, git_tree_id, load_pin, sha256_hex
from traceaudit.reading import Reading, Source
from traceaudit.sources import cached_source, pin_cache, read_verified

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared" / "data" / "trail"
NO_SHARED = "the real data folder ../shared/data/trail is not on this machine"

SCORER = "bench/score.py"
GOLD = ("bench/gold/a.json", "bench/gold/b.json")
TRACES = ("bench/data/One Split/a.json", "bench/data/One Split/b.json")
FILES = {
    "README.md": b"a tiny benchmark\n",
    SCORER: b"def main():\n    return 1\n",
    GOLD[0]: b'{"trace_id": "a",\n "errors": []}\n',
    GOLD[1]: b'{"trace_id": "b",\n "errors": []}\n',
    TRACES[0]: b'{"spans": [{"span_id": "s1", "child_spans": []}]}',
    TRACES[1]: b'{"spans": []}',
}
NEEDED = (*TRACES, *GOLD, SCORER)


def git(*arguments: str | Path, cwd: Path | None = None, **more: str) -> str:
    """Run git apart from this machine's configuration; returns what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ALLOW_PROTOCOL": "file",
        "GIT_AUTHOR_NAME": "somebody",
        "GIT_AUTHOR_EMAIL": "somebody@example.invalid",
        "GIT_COMMITTER_NAME": "somebody",
        "GIT_COMMITTER_EMAIL": "somebody@example.invalid",
        **more,
    }
    done = subprocess.run(
        ["git", *map(str, arguments)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"git {arguments}: {done.stderr}")
    return done.stdout.strip()


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files under their posix paths."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def make_repository(folder: Path, files: dict[str, bytes]) -> str:
    """A repository with one commit of these files; returns its id."""
    write_files(folder, files)
    git("init", "--quiet", "--initial-branch=main", folder)
    git("config", "uploadpack.allowAnySHA1InWant", "true", cwd=folder)
    git("config", "uploadpack.allowFilter", "true", cwd=folder)
    git("add", "--all", cwd=folder)
    git("-c", "core.autocrlf=false", "commit", "--quiet", "-m", "all", cwd=folder)
    return git("rev-parse", "HEAD", cwd=folder)


def file_list(files: dict[str, bytes], *, unknown_size: tuple[str, ...] = ()) -> str:
    """The text of a pinned file list."""
    rows = [
        f"{path}\t{git_blob_id(data)}\t{'-' if path in unknown_size else len(data)}\n"
        for path, data in sorted(files.items())
    ]
    return "path\tblob\tsize\n" + "".join(rows)


def write_pin(folder: Path, files: dict[str, bytes], commit: str, repository: str, /, **changes: str) -> Path:
    """A pin of these files in a folder; ``changes`` replaces lines of the pin file by their first word."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = file_list(files, unknown_size=(TRACES[1],))
    (folder / "tiny-files.tsv").write_text(listed, encoding="utf-8")
    corpus = [*TRACES, *GOLD]
    digest = sha256_hex("".join(f"{path}  {sha256_hex(files[path])}\n" for path in corpus).encode())
    lines = {
        "schema": "1",
        "name": '"tiny"',
        "repository": json.dumps(repository),
        "commit": f'"{commit}"',
        "tree": f'"{git_tree_id({path: git_blob_id(data) for path, data in files.items()})}"',
        "licence": '"MIT"',
        "copyright": '"2026 somebody"',
        "terms": '["The data come under terms.", "Keep them here."]',
        "files": f'{{ list = "tiny-files.tsv", sha256 = "{sha256_hex(listed.encode())}", '
        f"count = {len(files)}, complete = true }}",
        "sha256": f'{{ "{SCORER}" = "{sha256_hex(files[SCORER])}" }}',
        "corpus": f'{{ digest = "{digest}", files = 4, bytes = 0, directories = ["bench/data", "bench/gold"] }}',
    } | changes
    path = folder / "tiny.toml"
    path.write_text("".join(f"{name} = {text}\n" for name, text in lines.items() if text), encoding="utf-8")
    return path


@dataclass
class Tiny:
    """The tiny repository: where it is, its pin, and its files."""

    repository: Path
    commit: str
    pins: Path
    pin: Pin
    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))

    @property
    def address(self) -> str:
        return self.repository.as_uri()

    def folder(self, place: Path, *, without: tuple[str, ...] = (), **changed: bytes) -> Path:
        """A plain folder with the upstream layout."""
        return write_files(place, {path: data for path, data in self.files.items() if path not in without})


def make_tiny(place: Path) -> Tiny:
    """Build it all below a folder."""
    repository = place / "upstream"
    commit = make_repository(repository, FILES)
    path = write_pin(place / "pins", FILES, commit, repository.as_uri())
    pin = load_pin(path)
    digests = {name: sha256_hex(data) for name, data in FILES.items()}
    if corpus_digest(pin, digests) != pin.corpus.digest:
        raise RuntimeError("the tiny pin is wrong")
    return Tiny(repository, commit, path.parent, pin)


def member(name: str, data: bytes = b"", **attributes: object) -> tuple[tarfile.TarInfo, bytes]:
    """A member of an archive, honest or not."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info, data


def write_archive(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """Pack members as they are given."""
    with tarfile.open(path, "w:xz") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return path


def flipped(data: bytes, at: int = 0) -> bytes:
    """The same bytes with one bit of one byte changed."""
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def with_archive(
    place: Path, members: list[tuple[tarfile.TarInfo, bytes]], *, without: tuple[str, ...] = TRACES
) -> Path:
    """A folder that lacks some files, with an archive beside."""
    write_files(place, {path: data for path, data in FILES.items() if path not in without})
    write_archive(place / "traces.tar.xz", members)
    return place


def loose(repository: Path, id: str) -> Path:
    """The file of one object, made writable."""
    path = repository / ".git" / "objects" / id[:2] / id[2:]
    path.chmod(0o644)
    return path


def read_needed(source: Source, pin: Pin) -> Reading:
    """Read everything the tiny pin needs."""
    return read_verified(source, pin, NEEDED)


def fetch_environment(folder: Path) -> dict[str, str]:
    """The variables a fetch sees: a cache of its own and no way out of this machine."""
    here = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "TRACEAUDIT_"))}
    return here | {"TRACEAUDIT_CACHE": str(folder / "cache"), "GIT_ALLOW_PROTOCOL": "file"}


class Fetcher:
    """Calls ``fetch`` and keeps what it said."""

    def __init__(self, pin: Pin, environ: dict[str, str]) -> None:
        self.pin, self.environ, self.said = pin, environ, []

    def __call__(
        self, source: str | None = None, *, check: bool = False, pin: Pin | None = None, **more: str
    ) -> FetchReport:
        return fetch(pin or self.pin, source, check=check, say=self.said.append, environ=self.environ | more)


def kept(tiny: Tiny, environ: dict[str, str]) -> list[str]:
    """What lies in the cache, apart from the lock."""
    home = pin_cache(tiny.pin, environ)
    return sorted(entry.name for entry in home.iterdir() if entry.name != "lock") if home.is_dir() else []


def cached_files(tiny: Tiny, environ: dict[str, str]) -> dict[str, bytes]:
    """What the cache holds of what is needed."""
    return dict(read_verified(cached_source(tiny.pin, environ), tiny.pin, NEEDED).files)
