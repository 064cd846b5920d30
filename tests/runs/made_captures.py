"""Captures made by code, for the tests of archives and of the state plane."""

from __future__ import annotations

import io
import tarfile

from traceaudit.runs.archives import member_name

ONE = {0: b"", 1: b"diff --git a/x b/x\n", 12: b"\0\xff" * 700}
TWO = {0: b"two"}


def put(folder, captures):
    folder.mkdir(parents=True, exist_ok=True)
    for index, data in captures.items():
        (folder / member_name(index)).write_bytes(data)


def host(tmp_path, runs, name="host"):
    for run, captures in runs.items():
        put(tmp_path / name / run, captures)
    return tmp_path / name


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.diff")}


def whats(issues):
    return sorted(f"{issue.file}: {issue.what.split(':')[0]}" for issue in issues)


def tar_of(*members, end=True, tail=b""):
    """A tar of (name, type, content, linkname)."""
    out = io.BytesIO()
    for name, kind, content, link in members:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, link, len(content)
        out.write(info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512))
    return out.getvalue() + bytes(1024 if end else 0) + tail


def file(name, content=b"x"):
    return (name, tarfile.REGTYPE, content, "")
