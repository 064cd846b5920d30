"""A small project with its stored records and its published site, and servers that publish it well or badly."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from nbformat import v4

from traceaudit import records, show, stored
from traceaudit.chapter import EMITTED, FINDING_MIME, PROVENANCE_MIME
from traceaudit.claims import Finding, Verdict
from traceaudit.finishing import Commit, finish
from traceaudit.instances import Instance, load_chapters
from traceaudit.linking import link_tables
from traceaudit.notebooks import to_bytes
from traceaudit.pages import html_of
from traceaudit.records import Record, path_of
from traceaudit.values import MIME, Value, count, score, text

CHAPTERS = """
[splits]
demo = "demo"
all = ""

[[chapter]]
name = "tiny"
title = "A tiny chapter"
splits = ["demo"]

[[chapter]]
name = "overview"
title = "Overview"
splits = ["all"]
page = "index.ipynb"
"""
COMMIT = Commit("0123456789abcdef0123456789abcdef01234567")
VALUES = {
    value.name: value
    for value in (
        score("share", 1 / 3, of="errors", n=3, dropped={"torn": 2}, measure="m"),
        count("errors", 12345, "errors", measure="m"),
        count("none", None, "errors", measure="m"),
        text("hostile", "=<b>&amp; \u202e|`x`\n", measure="m"),
        score("on_traces", 0.5, n=2, traces="aaaa", measure="m"),
    )
}
PART = Finding("P1", Verdict.HELD, "0 of 1", ("share",), measure="m")
FINDINGS = {
    "P1": Finding("P1", Verdict.VIOLATED, "1 of 3", ("share",), per_split={"demo": PART}, measure="m"),
    "W1": Finding("W1", Verdict.LATENT, "0 of 2", ("on_traces",), measure="m"),
}


def project(root: Path) -> Path:
    """A project of two chapters with stored records; its finished site is ``_site``."""
    for folder in ("chapters", "report", "data-pins/records", "_site/report"):
        (root / folder).mkdir(parents=True)
    (root / "chapters" / "chapters.toml").write_text(CHAPTERS)
    (root / "_quarto.yml").write_text("project: {type: website}\n")
    digests = {}
    for each in instances(root):
        path = path_of(each.chapter, each.split, root)
        records.save(Record(each.chapter, each.split, provenance={}, values=VALUES, findings=FINDINGS), path)
        digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (root / stored.DIGESTS).write_bytes(stored.dump_digests(digests))
    publish(root, VALUES)
    return root


def instances(root: Path) -> list[Instance]:
    return load_chapters(root / "chapters" / "chapters.toml")


def publish(root: Path, values: dict[str, Value], commit: Commit = COMMIT) -> None:
    """Write the site anew, from pages that recorded these values."""
    for each in instances(root):
        notebook = _notebook(each, values)
        (root / each.page).write_bytes(to_bytes(notebook))
        said = "\n".join(output["data"].get("text/markdown", "") for output in notebook.cells[0].outputs)
        spans = "\n".join(f"<td>{show.inline(value)}</td>" for value in values.values())
        verdicts = " ".join(show.verdict(each) for each in (*FINDINGS.values(), PART))
        page = f"<html><body><main><p>{verdicts}</p>\n{spans}\n{said}\n</main></body></html>\n"
        (root / "_site" / html_of(each.page)).write_text(page, encoding="utf-8")
    finish(root, root / "_site", commit=commit)


def _notebook(each: Instance, values: dict[str, Value]):
    cells = [[show._data(value)] for value in values.values()] + [[show._data(FINDINGS["P1"])], [show._data(PART)]]
    rows = {"caption": "The rows", "columns": ["one"], "rows": [*cells, ["plain"]]}
    outputs = [
        *({MIME: {**value.as_json(), "name": value.name, "mode": value.mode}} for value in values.values()),
        *({FINDING_MIME: {**finding.as_json(), "id": id, "mode": "measured"}} for id, finding in FINDINGS.items()),
        {show.TABLE_MIME: rows, "text/markdown": ""},
        {PROVENANCE_MIME: {"engine": "upstream", EMITTED: len(values) + len(FINDINGS)}},
    ]
    cell = v4.new_code_cell("x", id="a", outputs=[v4.new_output("display_data", data=data) for data in outputs])
    notebook = v4.new_notebook(cells=[cell])
    link_tables(notebook, each.page, each.id)
    return notebook


def change(name: str, **more) -> dict[str, Value]:
    """The values with one of them changed."""
    return VALUES | {name: dataclasses.replace(VALUES[name], **more)}


def edit(path: Path, was: str, now: str) -> None:
    """Change a file in one place, or fail."""
    content = path.read_text(encoding="utf-8")
    assert content.count(was) >= 1, (path.name, was)
    path.write_text(content.replace(was, now, 1), encoding="utf-8")


def edit_json(path: Path, do: Callable[[dict], object]) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    do(data)
    path.write_text(json.dumps(data), encoding="utf-8")


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder under ``/report-site/``, except for the paths of ``ways``, which misbehave."""

    ways: dict[str, Callable[[Handler], None]]

    def do_GET(self) -> None:
        self.path = re.sub("^/report-site/", "/", self.path)
        way = self.ways.get(self.path, self.ways.get("*", SimpleHTTPRequestHandler.do_GET))
        way(self)

    def log_message(self, *_: object) -> None:
        """Nothing: the tests say what matters."""


def redirect(to: str) -> Callable[[Handler], None]:
    def way(self: Handler) -> None:
        self.send_response(302)
        self.send_header("Location", to.format(port=self.server.server_port))
        self.send_header("Content-Length", "0")
        self.end_headers()

    return way


def answer(status: int, body: bytes = b"", length: int | None = None) -> Callable[[Handler], None]:
    def way(self: Handler) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    return way


def silent(self: Handler) -> None:
    """Takes longer than anyone waits."""
    time.sleep(1.5)
    self.close_connection = True


def dripping(self: Handler) -> None:
    """Never silent and never done."""
    self.send_response(200)
    self.end_headers()
    for _ in range(15):
        self.wfile.write(b" ")
        self.wfile.flush()
        time.sleep(0.1)


def cut(self: Handler) -> None:
    """Hangs up without an answer."""
    self.close_connection = True


@contextmanager
def serving(site: Path, ways: dict[str, Callable[[Handler], None]] | None = None) -> Iterator[str]:
    """The address of a server of this folder."""
    handler = partial(type("Own", (Handler,), {"ways": ways or {}}), directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # a client that gives up is what some tests are about
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/report-site/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
