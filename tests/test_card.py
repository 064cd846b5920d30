"""The reproduction card: what it tells of each run, what it must not tell, and that nothing depends on it."""

from __future__ import annotations

import getpass
import json
import os
import platform
import pwd
import re
import socket
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import numpy
import pytest

from traceaudit import card, records
from traceaudit.finishing import Commit
from traceaudit.instances import Inputs, Instance
from traceaudit.records import Record
from traceaudit.values import Value
from traceaudit.worker import run

HEADLINE = Instance("headline", "gaia", "What volume buys: GAIA", "report/headline-gaia.ipynb")
OVERVIEW = Instance("overview", "all", "Overview", "index.ipynb")
COMMIT = Commit("0123456789abcdef0123456789abcdef01234567")
RAN = {"seconds": 4.25, "peak_bytes": 300 * 2**20, "when": "2025-01-31T12:00:00Z"}


def kept(instance=HEADLINE, *, modes=("measured",), stamp=None):
    """The bytes a build keeps of a run."""
    values = {f"v{n}": Value(f"v{n}", 1, "1", unit="x", mode=mode, measure="m") for n, mode in enumerate(modes)}
    record = Record(instance.chapter, instance.split, provenance={"engine": "upstream"}, values=values)
    build = {"key": "k", "page": instance.page, "page_sha256": "0" * 64, **(stamp or {})}
    return records.dump({**record.as_json(modes=True), "build": build}, where=instance.id)


def told(*entries, commit=COMMIT, root=Path("absent"), **more):
    """Facts and page of a card."""
    facts = card.facts(root, entries, commit=commit, **more)
    return facts, card.to_markdown(facts)


# kept record of the run, start of this build -> seconds, memory, how and when it ran, as the page shows them
RUNS = [
    (kept(stamp=RAN), "2025-01-31T11:59:59Z", "4.2 s | 300 MiB", "measured, upstream", "in this build, 2025-01-31"),
    (kept(stamp=RAN), "2025-01-31T12:00:00Z", "4.2 s | 300 MiB", "measured, upstream", "in this build, 2025-01-31"),
    (kept(stamp=RAN), "2025-01-31T12:00:01Z", "4.2 s | 300 MiB", "measured, upstream", "kept from 2025-01-31 12:00"),
    (kept(stamp=RAN), "", "4.2 s | 300 MiB", "measured, upstream", "kept from"),
    (kept(stamp=RAN | {"peak_bytes": None}), "", "4.2 s | not noted", "measured, upstream", "kept from"),
    (kept(stamp=RAN | {"peak_bytes": 3 * 2**30}), "", "4.2 s | 3.0 GiB", "measured, upstream", "kept from"),
    (
        kept(),
        "",
        "not noted | not noted",
        "measured, upstream",
        "not noted |",
    ),  # kept by a build before there was a card
    (kept(modes=("recalled",), stamp=RAN), "", "4.2 s", "recalled, upstream", "kept from"),
    (kept(modes=("recalled", "measured"), stamp=RAN), "", "4.2 s", "partly recalled, upstream", "kept from"),
    (kept(modes=(), stamp=RAN), "", "4.2 s", "| upstream |", "kept from"),
    (None, "", "not noted | not noted", "records nothing", "not noted |"),  # never built
    (b'{"schema": 1', "", "not noted | not noted", "records nothing", "not noted |"),  # damaged
]


@pytest.mark.parametrize(("content", "since", "cost", "how", "when"), RUNS)
def test_runs(content, since, cost, how, when):
    _, page = told(card.entry(HEADLINE, content, since=since))
    row = next(
        line for line in page.replace("&#45;", "-").replace("&#58;", ":").splitlines() if "headline-gaia" in line
    )
    for part in (cost, how, when, "[What volume buys: GAIA](headline-gaia.ipynb)"):
        assert part in row


def test_sums_over_what_was_noted():
    first = card.entry(HEADLINE, kept(stamp=RAN))
    second = card.Entry(OVERVIEW, seconds=1.5, peak_bytes=400 * 2**20)
    for entries, said in (
        ((first, second), "2 pages. Seconds together: 5.8 s. Most memory: 400 MiB."),
        ((first, card.Entry(OVERVIEW)), "Seconds together, of the 1 whose run was noted: 4.2 s. Most memory: 300 MiB."),
        ((card.Entry(OVERVIEW),), "Seconds together: not noted. Most memory: not noted."),
    ):
        assert said in told(*entries)[1]


def test_a_page_at_the_top_is_linked_from_below():
    assert "[Overview](../index.ipynb)" in told(card.Entry(OVERVIEW))[1]


# commit -> words on the tree, whether it is checked out
TREES = [
    (COMMIT, "No file differed from that commit", True),
    (replace(COMMIT, changed=True), "Files differed from that commit", True),
    (Commit(), "its commit is not known", False),
]


@pytest.mark.parametrize(("commit", "said", "named"), TREES)
def test_commit(commit, said, named):
    facts, page = told(commit=commit)
    assert said in page
    assert (f"git checkout {COMMIT.name}" in facts["commands"]) is named
    assert facts["commands"][-2:] == ["make report", ".venv/bin/traceaudit check"]
    assert all(line in page for line in facts["commands"])


# what CITATION.cff says -> what is cloned; nothing that a shell would act on
ADDRESSES = [
    ("repository-code: https://example.org/a/b.git\n", "https://example.org/a/b.git"),
    ('title: x\nrepository-code: "https://example.org/a"\n', "https://example.org/a"),
    ("repository-code: $(touch x)\n", "REPOSITORY"),
    ("title: x\n", "REPOSITORY"),
    (None, "REPOSITORY"),
]


@pytest.mark.parametrize(("citation", "address"), ADDRESSES)
def test_repository(tmp_path, citation, address):
    if citation is not None:
        (tmp_path / "CITATION.cff").write_text(citation)
    assert told(root=tmp_path)[0]["commands"][0] == f"git clone {address} traceaudit"


# environment of the build -> renderer
RENDERERS = [
    ({}, ""),
    ({"SMALLDOCS": "1", "QUARTO_PROJECT_DIR": "/x"}, "smalldocs "),
    ({"QUARTO_PROJECT_DIR": "/x", "QUARTO_SHARE_PATH": "SHARE"}, "quarto 1.9.5"),
    ({"QUARTO_PROJECT_DIR": "/x", "QUARTO_SHARE_PATH": "/absent"}, "quarto"),
    ({"QUARTO_PROJECT_DIR": "/x"}, "quarto"),
]


@pytest.mark.parametrize(("environ", "expected"), RENDERERS)
def test_renderer(tmp_path, environ, expected):
    (tmp_path / "version").write_text("1.9.5\n")
    found = card.renderer({name: value.replace("SHARE", str(tmp_path)) for name, value in environ.items()})
    assert found.startswith(expected) if expected.endswith(" ") else found == expected


def test_inputs_versions_and_machine(tmp_path):
    (tmp_path / "requirements.lock").write_bytes(b"x")
    facts, page = told(root=tmp_path, sources=["TRAIL, all verified"], rendered_by="quarto 1.9.5")
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert facts["inputs"] == {
        "requirements.lock": digest, "data-pins/records/digests.toml": None, "data-pins/committed.toml": None
    }  # fmt: skip
    assert f"| `requirements.lock` | `{digest}` |" in page
    assert "| `data-pins/records/digests.toml` | absent |" in page
    assert facts["packages"]["numpy"] == numpy.__version__
    assert "pytest" not in facts["packages"]  # an extra
    assert facts["python"].endswith(platform.python_version())
    assert facts["machine"]["cores"] >= 1 < facts["machine"]["memory_bytes"]
    assert "* TRAIL, all verified" in page and "quarto 1&#46;9&#46;5" in page
    assert json.loads(json.dumps(facts)) == facts


def test_nothing_names_the_machine_or_its_user(tmp_path, monkeypatch):
    home, host = tmp_path / "home-of-somebody", "host-of-somebody"
    for name in ("HOME", "TRACEAUDIT_SOURCE", "TRACEAUDIT_JUDGES", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("USER", "somebody")
    monkeypatch.setenv("HOSTNAME", host)
    for module, name in ((socket, "gethostname"), (platform, "node")):
        monkeypatch.setattr(module, name, lambda: host)
    root = tmp_path / "project-of-somebody"
    (root / "report").mkdir(parents=True)
    facts = card.write_card(root, [card.entry(HEADLINE, kept(stamp=RAN))], commit=COMMIT)
    page = (root / "report" / "reproduction.md").read_text(encoding="utf-8")
    real = {pwd.getpwuid(os.getuid()).pw_dir, sys.prefix, str(Path.cwd()), os.uname().nodename}
    for text in (page, json.dumps(facts)):
        assert "somebody" not in text and str(tmp_path) not in text
        assert not re.search(r"(?<![\w:/.])/(?:home|root|Users|tmp|work|opt|usr)\b", text)
        assert not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in real if len(name) > 2)
        if len(getpass.getuser()) > 4:
            assert getpass.getuser() not in text


def test_data_are_escaped():
    hostile = "<script>x</script>|`a`\n\n# b {python} [c](d)"
    each = card.Entry(replace(HEADLINE, title=hostile), mode=hostile, engine=hostile, when=hostile)
    _, page = told(each, sources=[hostile], rendered_by=hostile)
    assert "<script" not in page and "{python}" not in page and "`a`" not in page and "](d)" not in page
    row = next(line for line in page.splitlines() if "headline-gaia" in line)
    assert row.count("|") == 6
    assert not re.search(r"^# b", page, re.MULTILINE)


def test_nothing_depends_on_the_card(tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "chapters").mkdir()
    HEADLINE.source(tmp_path).write_text("{}")
    before = Inputs(tmp_path).key(tmp_path, HEADLINE, {}, "")
    card.write_card(tmp_path, [card.entry(HEADLINE, kept(stamp=RAN))], commit=COMMIT)
    assert before == Inputs(tmp_path).key(tmp_path, HEADLINE, {}, "")
    record = records.parse(kept(stamp=RAN), "headline.gaia.json", modes=True)
    plain = records.parse(kept(), "headline.gaia.json", modes=True)
    assert records.to_bytes(record) == records.to_bytes(plain)
    assert b"seconds" not in records.to_bytes(record)


def test_equal_facts_give_equal_bytes(tmp_path):
    (tmp_path / "report").mkdir()
    pages = set()
    for _ in range(2):
        card.write_card(tmp_path, [card.entry(HEADLINE, kept(stamp=RAN))], commit=COMMIT, rendered_by="")
        pages.add((tmp_path / "report" / "reproduction.md").read_bytes())
    assert len(pages) == 1


def test_a_stamp_is_plain_data_of_the_moment():
    made = card.stamp(1.23456, 5)
    assert made == {"seconds": 1.235, "peak_bytes": 5, "when": made["when"]}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["when"]) and made["when"] <= card.now()


MIB = 2**20
FILL = "x = bytearray({size})\nfor i in range(0, len(x), 4096): x[i] = 1\n"
CHILD = "import subprocess, sys, time\np = subprocess.Popen([sys.executable, '-c', {code!r}], stdout=subprocess.PIPE)\n"

# what a chapter does -> at least and at most so many MiB
PEAKS = [
    ("1", 20, 150),
    (FILL.format(size=300 * MIB) + "del x", 300, 450),  # given back before the end
    (CHILD.format(code=FILL.format(size=400 * MIB)) + "p.communicate()", 400, 520),  # a child that has ended
    (  # a child that still runs, as the scorer's does
        CHILD.format(code=FILL.format(size=400 * MIB) + "print(1, flush=True)\nimport time\ntime.sleep(60)")
        + "p.stdout.readline()",
        400, 520,
    ),
    ("import psutil\npsutil.Process = None", None, None),  # no figure, and no failure for it
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("code", "least", "most"), PEAKS)
def test_peak_memory(tmp_path, code, least, most):
    runtime = tmp_path / "r"
    runtime.mkdir()
    book = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("split = 'demo'", metadata={"tags": ["parameters"]}),
            nbformat.v4.new_code_cell(code),
        ]
    )
    nbformat.write(book, tmp_path / "in.ipynb")
    report = run(
        {
            "notebook": str(tmp_path / "in.ipynb"), "output": str(tmp_path / "out.ipynb"), "parameters": {},
            "cwd": str(tmp_path), "runtime": str(runtime), "python": sys.executable, "timeout": 60, "cell_timeout": 60,
        }
    )  # fmt: skip
    assert (report["outcome"], report["python"]) == ("done", sys.executable)
    if least is None:
        assert report["peak_bytes"] is None
    else:
        assert least * MIB <= report["peak_bytes"] <= most * MIB
