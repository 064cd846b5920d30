"""What the tests of replies share: three trace ids, two replies, and makers of archives."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

IDS = ("aa", "bb", "cc")
TEXT = {"aa": b'{"errors": []}', "bb": "prose \u00e4 {".encode()}
MIB = 1 << 20
PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def tar_of(members, *, form=tarfile.PAX_FORMAT) -> bytes:
    """A tar of (name, bytes) pairs and of ready members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def odd(name: str, kind: bytes, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def zip_of(members) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def lines_of(rows) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def files(prefix: str = "") -> list[tuple[str, bytes]]:
    return [(f"{prefix}{trace}.json", data) for trace, data in TEXT.items()]


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


ROWS = [{"trace_id": "aa", "reply": {"errors": []}}, {"trace_id": "bb", "reply": TEXT["bb"].decode(), "model": "x"}]
