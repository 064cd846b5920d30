"""A published site held against the stored records: each thing that can be wrong with it is planted and found."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from traceaudit import site_source, stored
from traceaudit.cli import main
from traceaudit.errors import NothingToCheck, RecordMismatch, TraceAuditError, UsageError
from traceaudit.finishing import Commit
from traceaudit.published import check_site, compare_site
from traceaudit.site_source import FolderSite, WebSite, open_site

from .published_support import (
    VALUES,
    answer,
    change,
    cut,
    dripping,
    edit,
    edit_json,
    project,
    publish,
    redirect,
    serving,
    silent,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return project(tmp_path_factory.mktemp("published") / "project")


@pytest.fixture
def root(made, tmp_path, monkeypatch) -> Path:
    """A copy to change. A proxy that this machine may have is not asked for loopback."""
    monkeypatch.setenv("no_proxy", "*")
    return Path(shutil.copytree(made, tmp_path / "project"))


def checked(place: str, root: Path) -> tuple[int, str]:
    """Exit code and everything that was said."""
    said: list[str] = []
    try:
        return check_site(place, root, said.append), "\n".join(said)
    except TraceAuditError as error:
        return error.exit_code, "\n".join([*said, str(error)])


GOOD = "commit 0123456789ab: 2 pages with 10 values hold what the records say"


def test_a_good_site_holds_in_a_folder_and_behind_an_address(root):
    site = root / "_site"
    assert checked(str(site), root) == (0, f"{site}: {GOOD}")
    with serving(site) as address:
        for given in (address, address.rstrip("/"), address + "index.html"):
            assert checked(given, root) == (0, f"{address}: {GOOD}")


def test_a_site_of_a_changed_tree_says_so(root):
    publish(root, VALUES, Commit("fedcba9876543210", changed=True))
    assert "commit fedcba987654, with changes: 2 pages" in checked(str(root / "_site"), root)[1]
    publish(root, VALUES, Commit())
    assert "no known commit: 2 pages" in checked(str(root / "_site"), root)[1]


def at(site: Path, name: str) -> Path:
    return site / {"page": "report/tiny-demo.html", "build": "data/build.json"}.get(name, f"data/{name}")


# What is done to the published files -> lines that name page, value, expected and got
PLANTED = {
    "a number of the page": (
        lambda site: edit(at(site, "page"), "0&#46;333</span>", "0&#46;334</span>"),
        ["report/tiny-demo.html: share: expected '0.333', got '0.334'"],
    ),
    "a number written in two elements": (
        lambda site: edit(at(site, "page"), "0&#46;333</span>", "0.33<span>4</span></span>"),
        ["report/tiny-demo.html: share: expected '0.333', got '0.334'"],
    ),
    "a digit after the number": (
        lambda site: edit(at(site, "page"), "0&#46;333</span>", "0&#46;3331</span>"),
        ["report/tiny-demo.html: share: expected '0.333', got '0.3331'"],
    ),
    "a name nobody recorded": (
        lambda site: edit(at(site, "page"), 'data-name="share"', 'data-name="shares"'),
        [
            "report/tiny-demo.html: shares: expected no value of this name, got '0.333'",
            "report/tiny-demo.html: share: expected '0.333', got nothing of this name",
        ],
    ),
    "a value that is nowhere shown": (
        lambda site: edit(at(site, "page"), '<span class="value" data-name="none">undefined</span>', "undefined"),
        ["report/tiny-demo.html: none: expected 'undefined', got nothing of this name"],
    ),
    "a verdict of the page": (
        lambda site: edit(at(site, "page"), ">LATENT<", ">HELD<"),
        ["report/tiny-demo.html: W1: expected LATENT, got 'HELD'"],
    ),
    "a verdict on no claim": (
        lambda site: edit(at(site, "page"), 'data-finding="W1"', 'data-finding="W9"'),
        ["report/tiny-demo.html: W9: expected no finding of this id, got 'LATENT'"],
    ),
    "a page that ends early": (
        lambda site: at(site, "page").write_text(at(site, "page").read_text().partition("12,3")[0]),
        ["report/tiny-demo.html: on_traces: expected '0.500', got nothing of this name"],
    ),
    "a raw value": (
        lambda site: edit_json(at(site, "tiny.demo.json"), lambda data: data["values"]["errors"].update(raw=12346)),
        ["report/tiny-demo.html: values.errors.raw in data/tiny.demo.json: expected 12345, got 12346"],
    ),
    "a float in its tenth digit": (
        lambda site: edit_json(
            at(site, "tiny.demo.json"), lambda data: data["values"]["share"].update(raw=0.3333333334)
        ),
        ["values.share.raw in data/tiny.demo.json: expected 0.3333333333333333, got 0.3333333334"],
    ),
    "a count as a float": (
        lambda site: edit_json(at(site, "tiny.demo.json"), lambda data: data["values"]["errors"].update(raw=12345.0)),
        ["values.errors.raw in data/tiny.demo.json: expected 12345, got 12345.0"],
    ),
    "a verdict of the record": (
        lambda site: edit_json(at(site, "tiny.demo.json"), lambda data: data["findings"]["P1"].update(verdict="HELD")),
        ["findings.P1.verdict in data/tiny.demo.json: expected 'VIOLATED', got 'HELD'"],
    ),
    "a value less": (
        lambda site: edit_json(at(site, "tiny.demo.json"), lambda data: data["values"].pop("none")),
        ["values.none in data/tiny.demo.json: expected 'undefined', got absent"],
    ),
    "a value more": (
        lambda site: edit_json(
            at(site, "tiny.demo.json"), lambda data: data["values"].update(more=data["values"]["none"])
        ),
        ["values.more in data/tiny.demo.json: expected absent, got 'undefined'"],
    ),
    "a torn record": (
        lambda site: at(site, "tiny.demo.json").write_bytes(at(site, "tiny.demo.json").read_bytes()[:200]),
        ["data/tiny.demo.json: the record is not strict JSON: expected a record, got"],
    ),
    "a page instead of a record": (
        lambda site: at(site, "tiny.demo.json").write_text("<!doctype html><p>not found</p>"),
        ["data/tiny.demo.json: the record is not strict JSON"],
    ),
    "a record that says NaN": (
        lambda site: edit(at(site, "tiny.demo.json"), "12345", "NaN"),
        ["data/tiny.demo.json: the record is not strict JSON: expected a record, got NaN is not a JSON number"],
    ),
    "no record": (
        lambda site: at(site, "tiny.demo.json").unlink(),
        ["data/tiny.demo.json: the file: expected a file, got no such file"],
    ),
    "a number of the CSV": (
        lambda site: edit(at(site, "tiny.demo.csv"), "0.3333333333333333", "0.3333333333333334"),
        ["data/tiny.demo.csv: share, raw: expected 0.3333333333333333, got 0.3333333333333334"],
    ),
    "a line of the CSV": (
        lambda site: edit(at(site, "tiny.demo.csv"), "none,", "other,"),
        [
            "data/tiny.demo.csv: none: expected a line, got none",
            "data/tiny.demo.csv: other: expected no line, got a line",
        ],
    ),
    "a column of the CSV": (
        lambda site: edit(at(site, "tiny.demo.csv"), "raw", "rough"),
        ["data/tiny.demo.csv: share, raw: expected 0.3333333333333333, got no such column"],
    ),
    "a page instead of the CSV": (
        lambda site: at(site, "tiny.demo.csv").write_text("<!doctype html>"),
        ["data/tiny.demo.csv: share: expected a line, got none"],
    ),
    "a number of a table": (
        lambda site: edit(at(site, "tiny.demo/the-rows.json"), '"shown": "0.333"', '"shown": "0.433"'),
        ["data/tiny.demo/the-rows.json: share, shown: expected '0.333', got '0.433'"],
    ),
    "a raw number of a table": (
        lambda site: edit(at(site, "tiny.demo/the-rows.json"), '"raw": 12345', '"raw": 54321'),
        [
            "data/tiny.demo/the-rows.json: errors, raw: expected 12345, got 54321",
            "data/tiny.demo/the-rows.csv: the table: expected what its JSON form holds, got something else",
        ],
    ),
    "a verdict of a table": (
        lambda site: edit(at(site, "tiny.demo/the-rows.json"), '"verdict": "VIOLATED"', '"verdict": "LATENT"'),
        ["data/tiny.demo/the-rows.json: P1: expected ('VIOLATED', '1 of 3'), got ('LATENT', '1 of 3')"],
    ),
    "a name in a table": (
        lambda site: edit(at(site, "tiny.demo/the-rows.json"), '"name": "none"', '"name": ["none"]'),
        ["data/tiny.demo/the-rows.json: ['none']: expected no value of this name, got undefined"],
    ),
    "a torn table": (
        lambda site: edit(at(site, "tiny.demo/the-rows.json"), "]", ""),
        ["data/tiny.demo/the-rows.json: the table: expected columns and rows as JSON"],
    ),
    "the CSV of a table": (
        lambda site: edit(at(site, "tiny.demo/the-rows.csv"), "12345", "12346"),
        ["data/tiny.demo/the-rows.csv: the table: expected what its JSON form holds, got something else"],
    ),
    "no page": (
        lambda site: at(site, "page").unlink(),
        ["report/tiny-demo.html: the file: expected a page, got no such file"],
    ),
    "a page that the site does not know": (
        lambda site: edit_json(at(site, "build"), lambda data: data["pages"].pop("report/tiny-demo.html")),
        ["data/build.json: report/tiny-demo.html: expected an entry, got none"],
    ),
    "a page of no chapter": (
        lambda site: edit_json(
            at(site, "build"), lambda data: data["pages"].update({"report/old.html": data["pages"]["index.html"]})
        ),
        ["report/old.html: the page: expected none of this name in chapters.toml, got a page"],
    ),
    "another digest": (
        lambda site: edit_json(
            at(site, "build"), lambda data: data["pages"]["report/tiny-demo.html"].update(record_sha256="0" * 64)
        ),
        [f"report/tiny-demo.html: record_sha256 in data/build.json: expected {{digest}}, got {'0' * 64}"],
    ),
    "no digest": (
        lambda site: edit_json(at(site, "build"), lambda data: data["pages"]["index.html"].update(record_sha256="")),
        ["index.html: record_sha256 in data/build.json: expected ", ", got nothing"],
    ),
    "another split": (
        lambda site: edit_json(at(site, "build"), lambda data: data["pages"]["index.html"].update(split="gaia")),
        ["index.html: split in data/build.json: expected all, got gaia"],
    ),
}


@pytest.mark.parametrize("how", PLANTED)
def test_what_is_planted_is_found_and_named(how, root):
    do, lines = PLANTED[how]
    do(root / "_site")
    code, said = checked(str(root / "_site"), root)
    assert code == 1, said
    for line in lines:
        assert line.format(digest=stored.digests(root)["tiny.demo.json"]) in said
    assert "the published site (commit 0123456789ab) does not hold what the records say" in said
    assert "overview" not in said  # the other page is as it was


@pytest.mark.parametrize("how", ["a number of the page", "a raw value", "no page", "another digest", "no record"])
def test_the_same_is_found_behind_an_address(how, root):
    do, lines = PLANTED[how]
    do(root / "_site")
    with serving(root / "_site") as address:
        code, said = checked(address, root)
    assert code == 1 and f"{address}: the published site" in said
    assert lines[0].format(digest=stored.digests(root)["tiny.demo.json"]) in said


def test_pages_in_a_folder_that_no_chapter_makes(root):
    (root / "_site/report/reproduction.html").write_text("<main></main>")  # the card has no record
    assert checked(str(root / "_site"), root)[0] == 0
    (root / "_site/report/draft.html").write_text("<main></main>")
    assert "report/draft.html: the page: expected none" in checked(str(root / "_site"), root)[1]


def test_one_altered_leaf_is_one_difference(root):
    """What a file of the site says wrongly is not said again of every file that is right."""
    PLANTED["a raw value"][0](root / "_site")
    assert len(compare_site(open_site(str(root / "_site")), root).mismatches) == 1


def test_another_machines_last_digit_is_no_difference(root):
    publish(root, change("share", raw=1 / 3 + 1e-14))
    assert checked(str(root / "_site"), root)[0] == 0


def test_another_set_of_traces_is_listed_and_no_difference(root):
    publish(root, change("on_traces", raw=0.7, shown="0.700", traces="bbbb"))
    code, said = checked(str(root / "_site"), root)
    assert code == 0
    for leaf in ("values.on_traces", "findings.W1"):
        assert f"report/tiny-demo.html: {leaf} was recorded on another set of traces: not comparable" in said
    edit(root / "_site/report/tiny-demo.html", "0&#46;700", "0&#46;900")  # but the page holds what its file says
    assert "on_traces: expected '0.700', got '0.900'" in checked(str(root / "_site"), root)[1]


def test_a_site_with_nothing_right_is_told_briefly(root):
    page = root / "_site/report/tiny-demo.html"
    page.write_text('<main><p class="x">' + '<span data-name="errors">1</span>' * 500)
    said = checked(str(root / "_site"), root)[1]
    assert said.count("errors: expected '12,345', got '1'") == 20
    assert "report/tiny-demo.html: and 484 more" in said


def test_a_stored_record_that_was_altered_is_a_fault_here_and_not_there(root):
    edit(root / "data-pins/records/tiny.demo.json", "12345", "12346")
    code, said = checked(str(root / "_site"), root)
    assert code == 1 and said.startswith("tiny.demo.json: a stored record differs from its digest")


def test_a_chapter_without_a_stored_record(root):
    (root / "data-pins/records/tiny.demo.json").unlink()
    assert "report/tiny-demo.html: the record: expected tiny.demo.json, got none stored here" in checked(
        str(root / "_site"), root
    )[1]  # fmt: skip


# ------------------------------------------------------------------------------------------ nothing there

BROKEN = [
    ("{", 1, "what the site says of its build cannot be read"),  # torn
    ("[]", 1, "Expected `object`, got `array`"),
    ('{"commit": "x", "changed": false}', 1, "missing required field `pages`"),
    ('{"commit": 7, "changed": false, "pages": {}}', 1, "Expected `str`, got `int`"),
    ("\ufffe", 1, "what the site says of its build cannot be read"),
    ("", 1, "what the site says of its build cannot be read"),
    ("\n<!doctype html>", 2, "there is no report"),  # a server that answers everything with a page
    (None, 2, "there is no report"),
]


@pytest.mark.parametrize(("content", "code", "words"), BROKEN)
def test_a_build_that_cannot_be_read(content, code, words, root):
    build = root / "_site/data/build.json"
    build.write_text(content, encoding="utf-8") if content is not None else build.unlink()
    got = checked(str(root / "_site"), root)
    assert got[0] == code and words in got[1] and str(root / "_site") in got[1]
    with serving(root / "_site") as address:
        got = checked(address, root)
        assert got[0] == code and words in got[1] and address in got[1]


@pytest.mark.parametrize("place", ["no/such/folder", "", "README.md"])
def test_no_folder(place, root):
    code, said = checked(place, root)
    assert code == 2 and "there is no such folder" in said


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("ftp://example.org/", "only http and https addresses can be read"),
        ("file:///etc/", "only http and https"),
        ("https://", "only http and https"),
        ("https://me:secret@example.org/", "has no name, password, query or fragment"),
        ("https://example.org/?a=b", "has no name, password, query or fragment"),
        ("https://example.org/#top", "has no name, password, query or fragment"),
        ("https://example.org:http/", "this is no address"),
        ("https://[::1/", "this is no address"),
    ],
)
def test_no_address(place, words, root):
    code, said = checked(place, root)
    assert code == 64 and words in said and "secret" not in said


def test_a_port_where_nobody_listens(root):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    code, said = checked(f"http://127.0.0.1:{port}/", root)
    assert code == 2 and "the site cannot be reached" in said and "Connection refused" in said


def test_a_server_that_speaks_no_tls(root):
    with serving(root / "_site") as address:
        code, said = checked(address.replace("http:", "https:"), root)
    assert code == 2 and "no trusted connection to the server" in said


# --------------------------------------------------------------------------------------- how a server fails

WAYS = {
    "elsewhere": (
        redirect("http://localhost:{port}/data/build.json"),
        RecordMismatch,
        "redirected to http://localhost",
    ),
    "another port": (redirect("http://127.0.0.1:1/"), RecordMismatch, "redirected to http://127.0.0.1:1/"),
    "another scheme": (redirect("ftp://127.0.0.1:{port}/"), RecordMismatch, "redirected to ftp://127.0.0.1"),
    "a file of this machine": (redirect("file:///etc/hostname"), RecordMismatch, "redirected to file:///etc"),
    "a circle": (redirect("/report-site/x"), RecordMismatch, "redirected to /report-site/x"),
    "an error": (answer(500), NothingToCheck, "500 Internal Server Error"),
    "forbidden": (answer(403), NothingToCheck, "403 Forbidden"),
    "silence": (silent, NothingToCheck, "the server did not answer in time"),
    "drops": (dripping, NothingToCheck, "the server did not answer in time"),
    "no answer": (cut, NothingToCheck, "the site cannot be reached"),
    "half a file": (answer(200, b"half", 8), NothingToCheck, "4 bytes are lacking"),
    "too much": (answer(200, b"x" * 2001), RecordMismatch, "at most 2,000 bytes"),
}


@pytest.mark.parametrize("how", WAYS)
def test_each_way_a_server_fails_has_its_own_words(how, root):
    way, kind, words = WAYS[how]
    with serving(root / "_site", {"/x": way}) as address:
        site = WebSite(address, largest=2000, silence=0.4, longest=0.6)
        with pytest.raises(kind, match=r"/x: ") as caught:
            site.read("x")
    assert words in str(caught.value) and caught.value.next_step


def test_a_redirect_on_the_same_host_is_followed(root):
    with serving(root / "_site", {"/x": redirect("/report-site/data/build.json")}) as address:
        assert WebSite(address).read("x") == (root / "_site/data/build.json").read_bytes()


def test_from_http_to_https_of_the_same_host_only():
    def allowed(old: str, new: str) -> bool:
        import urllib.request

        class File:
            def close(self) -> None:
                pass

        try:
            return bool(
                site_source._SamePlace().redirect_request(urllib.request.Request(old), File(), 301, "", {}, new)
            )
        except RecordMismatch:
            return False

    assert allowed("http://a.org/x", "https://a.org/x")
    assert allowed("http://A.org/x", "http://a.ORG/y")
    assert not allowed("https://a.org/x", "http://a.org/x")
    assert not allowed("http://a.org/x", "https://b.org/x")
    assert not allowed("http://a.org/x", "https://a.org:8443/x")


def test_what_is_not_there_is_not_an_error(root):
    with serving(root / "_site", {"/gone": answer(410)}) as address:
        assert WebSite(address).read("none") is None and WebSite(address).read("gone") is None
        assert WebSite(address).pages() is None


def test_a_large_file_of_a_folder(root):
    (root / "_site/large").write_bytes(b"x" * 2001)
    with pytest.raises(RecordMismatch, match=r"too large.*\n.*at most 2,000 bytes\n.*2,001 bytes"):
        FolderSite(root / "_site", largest=2000).read("large")


@pytest.mark.parametrize("how", WAYS)
def test_a_failing_server_never_passes_for_a_good_site(how, root):
    """The build says that there is a report; the page then cannot be read, or something else comes instead."""
    way, kind, _ = WAYS[how]
    with serving(root / "_site", {"/report/tiny-demo.html": way}) as address:
        small = WebSite(address, largest=1900 if how == "too much" else 50_000, silence=0.4, longest=0.6)
        found = compare_site(small, root)
        if kind is NothingToCheck:
            assert [line.partition(":")[0] for line in found.unread] == ["report/tiny-demo.html"]
            assert not found.mismatches
        else:
            assert "report/tiny-demo.html" in {each.page for each in found.mismatches}
        assert found.pages == 1 or how == "too much"


def test_differences_are_told_although_other_files_could_not_be_read(root):
    edit(root / "_site/index.html", "0&#46;333", "0&#46;334")
    with serving(root / "_site", {"/report/tiny-demo.html": answer(500)}) as address:
        code, said = checked(address, root)
    assert code == 1
    assert "index.html: share: expected '0.333', got '0.334'" in said
    assert "not read: report/tiny-demo.html: the server does not give this file (500" in said


def test_a_site_of_which_a_part_could_not_be_read_was_not_checked(root):
    with serving(root / "_site", {"/report/tiny-demo.html": answer(500)}) as address:
        code, said = checked(address, root)
    assert code == 2 and "part of the published site could not be read, so it was not checked" in said


@pytest.mark.parametrize("how", [how for how in WAYS if how not in ("silence", "drops", "too much", "half a file")])
def test_a_server_that_fails_at_once_has_nothing_to_check(how, root):
    with serving(root / "_site", {"*": WAYS[how][0]}) as address:
        code, said = checked(address, root)
    assert code == 2 and "next:" in said


# ------------------------------------------------------------------------------------------ the command


def test_the_command_checks_a_site_and_runs_no_chapter(root, monkeypatch, capsys):
    monkeypatch.chdir(root)
    monkeypatch.setattr("traceaudit.pool.Worker", lambda: pytest.fail("a chapter was started"))
    assert main(["check", "--site", "_site"]) == 0
    assert GOOD in capsys.readouterr().err
    edit(root / "_site/index.html", "0&#46;333", "0&#46;334")
    assert main(["check", "--site", "_site"]) == 1
    assert main(["check", "--site", "elsewhere"]) == 2
    assert main(["check", "--site", "ftp://example.org"]) == 64
    capsys.readouterr()
    assert main(["check", "--site", "_site", "--only", "tiny"]) == 64
    assert "a site is checked as a whole" in capsys.readouterr().err
    with pytest.raises(UsageError, match="only http and https"):
        open_site("gopher://x")
