"""Publishing to a branch: what is refused before anything is built, what is pushed, and when nothing is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from traceaudit.cli import main
from traceaudit.errors import GuardFailed, NothingToCheck, RecordMismatch, UsageError
from traceaudit.finishing import commit_of
from traceaudit.publishing import publish

from . import published_support as site
from .published_support import VALUES, edit, project


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """A committed project with two remotes: ``origin``, a bare repository, and ``gone``, which is not there."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A Tester")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "tester@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    root = project(tmp_path / "project")
    (root / ".gitignore").write_text("/_site/\n/report/\n/index.ipynb\n")
    git(root, "init", "--quiet", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "First")
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(root, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(root, "remote", "add", "gone", str(tmp_path / "gone.git"))
    return root


def ran(root: Path, *, remote: str = "", branch: str = "gh-pages", build=None) -> tuple[int, list[str]]:
    said: list[str] = []
    code = publish(root, build=build or (lambda: built(root)), remote=remote, branch=branch, say=said.append)
    return code, said


def built(root: Path) -> int:
    site.publish(root, VALUES, commit_of(root))
    return 0


def unasked() -> int:
    return pytest.fail("the report was built")


def test_without_a_remote_nothing_leaves_the_machine(root, tmp_path):
    code, said = ran(root)
    commit = git(root, "rev-parse", "HEAD")
    assert code == 0
    assert said[1:] == [
        f"branch gh-pages holds the site of commit {commit[:12]}",
        "nothing was pushed; to publish it: git push REMOTE gh-pages, or make publish REMOTE=origin",
    ]
    assert git(tmp_path / "remote.git", "branch", "--list") == ""
    files = git(root, "ls-tree", "-r", "--name-only", "gh-pages").splitlines()
    assert {".nojekyll", "index.html", "data/build.json", "report/tiny-demo.html"} <= set(files)
    assert not {"chapters/chapters.toml", "_site/index.html"} & set(files)
    assert git(root, "log", "-1", "--format=%s", "gh-pages") == f"Site of commit {commit}"
    assert git(root, "branch", "--show-current") == "main" and git(root, "status", "--porcelain") == ""


def test_a_named_remote_gets_one_commit_after_another(root, tmp_path):
    code, said = ran(root, remote="origin", branch="site")
    assert code == 0 and said[-1] == "pushed to site of origin"
    (root / "README.md").write_text("more\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "Second")
    assert ran(root, remote="origin", branch="site")[0] == 0
    subjects = git(tmp_path / "remote.git", "log", "--format=%s", "site").splitlines()
    assert subjects == [f"Site of commit {git(root, 'rev-parse', each)}" for each in ("HEAD", "HEAD~")]
    told = json.loads(git(tmp_path / "remote.git", "show", "site:data/build.json"))
    assert told["commit"] == git(root, "rev-parse", "HEAD") and told["changed"] is False
    assert (
        git(tmp_path / "remote.git", "branch", "--list", "--format=%(refname:short)") == "site"
    )  # and main is not there


def test_what_another_clone_published_is_built_upon(root, tmp_path):
    git(tmp_path, "clone", "--quiet", str(root), "other")
    git(tmp_path / "other", "remote", "set-url", "origin", str(tmp_path / "remote.git"))
    for each in ("_site/report", "report"):
        (tmp_path / "other" / each).mkdir(parents=True)
    assert ran(root, remote="origin")[0] == 0
    assert ran(tmp_path / "other", remote="origin")[0] == 0
    assert git(tmp_path / "remote.git", "rev-list", "--count", "gh-pages") == "2"


# what is done to the tree -> a word of the refusal
DIRTY = {
    "a changed file": (lambda root: edit(root / "_quarto.yml", "website", "book"), "M _quarto.yml"),
    "a file that is not committed": (
        lambda root: (root / "chapters" / "new.ipynb").write_text("{}"),
        "?? chapters/new",
    ),
    "a file that is gone": (lambda root: (root / "_quarto.yml").unlink(), "D _quarto.yml"),
    "a staged file": (
        lambda root: ((root / "x").write_text("x"), git(root, "add", "x")),
        "A  x",
    ),
}


@pytest.mark.parametrize("how", DIRTY)
def test_a_tree_with_changes_is_refused_before_it_is_built(how, root):
    do, words = DIRTY[how]
    do(root)
    with pytest.raises(GuardFailed, match="the tree has changes") as caught:
        ran(root, build=unasked)
    assert words in str(caught.value)


REFUSED = [
    ({"branch": "main"}, UsageError, "take the place of the sources"),  # the branch one stands on
    ({"branch": "sources"}, UsageError, "take the place of the sources"),  # another that holds chapters
    ({"branch": "a b"}, UsageError, "no name of a branch"),
    ({"branch": "-f"}, UsageError, "no name of a branch"),
    ({"branch": ""}, UsageError, "no name of a branch"),
    ({"remote": "elsewhere"}, UsageError, "there is no such remote"),
    ({"remote": "--force"}, UsageError, "there is no such remote"),
    ({"remote": "gone"}, NothingToCheck, "the remote cannot be reached"),
]


@pytest.mark.parametrize(("how", "kind", "words"), REFUSED)
def test_what_cannot_be_meant_is_refused_before_anything_is_built(how, kind, words, root):
    git(root, "branch", "sources")
    with pytest.raises(kind, match=words):
        ran(root, build=unasked, **how)
    assert git(root, "rev-parse", "sources") == git(root, "rev-parse", "main")


def test_only_a_working_tree_of_git_is_published(root):
    (root / ".git").rename(root / "git")
    with pytest.raises(UsageError, match="only a git working tree"):
        ran(root, build=unasked)


def test_without_the_tool_it_says_so(root, monkeypatch):
    monkeypatch.setattr("traceaudit.publishing.find_spec", lambda name: None)
    with pytest.raises(NothingToCheck, match="ghp-import is not installed"):
        ran(root, build=unasked)


def nothing_published(root: Path, tmp_path: Path) -> bool:
    return not git(root, "branch", "--list", "gh-pages") and not git(tmp_path / "remote.git", "branch", "--list")


def test_a_failed_build_is_not_published(root, tmp_path):
    assert ran(root, remote="origin", build=lambda: 1) == (1, [])
    assert nothing_published(root, tmp_path)


def test_a_site_that_differs_from_the_records_is_not_published(root, tmp_path):
    def build() -> int:
        built(root)
        edit(root / "_site/index.html", "0&#46;333", "0&#46;334")
        return 0

    with pytest.raises(RecordMismatch, match=r"index\.html: share: expected '0\.333', got '0\.334'"):
        ran(root, remote="origin", build=build)
    assert nothing_published(root, tmp_path)


def test_a_site_of_another_commit_is_not_published(root, tmp_path):
    """As when a build finds nothing to do, or somebody commits in the meantime."""
    with pytest.raises(GuardFailed, match="the site is not that of the commit"):
        ran(root, remote="origin", build=lambda: 0)

    def build() -> int:
        git(root, "commit", "--quiet", "--allow-empty", "-m", "In the meantime")
        return built(root)

    with pytest.raises(GuardFailed, match="the site is not that of the commit"):
        ran(root, remote="origin", build=build)
    assert nothing_published(root, tmp_path)


def test_a_remote_that_refuses_is_told_in_its_own_words(root, tmp_path):
    hook = tmp_path / "remote.git/hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GuardFailed, match=r"git push failed\n.*not today"):
        ran(root, remote="origin")


def test_the_command_builds_the_report_and_publishes_it(root, monkeypatch, capsys):
    monkeypatch.chdir(root)
    asked = []

    def report(arguments) -> int:
        asked.append(arguments)
        return built(root)

    monkeypatch.setattr("traceaudit.report._report", report)
    assert main(["publish", "--remote", "origin", "--branch", "site"]) == 0
    assert "pushed to site of origin" in capsys.readouterr().err
    assert [vars(each) for each in asked] == [{"renderer": "auto", "source": None, "judges": None}]
    (root / "x").write_text("x")
    assert main(["publish"]) == 1


def test_the_make_target_hands_on_what_it_was_given(root, tmp_path, pytestconfig):
    """With a program in the place of the command, which writes down how it was called."""
    home = tmp_path / "made"
    (home / ".venv/bin").mkdir(parents=True)
    (home / "Makefile").write_text((pytestconfig.rootpath / "Makefile").read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("requirements.lock", "pyproject.toml", ".venv/.ready"):
        (home / name).touch()
    told = home / ".venv/bin/traceaudit"
    told.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n")
    told.chmod(0o755)
    for given, wanted in (
        ([], ["publish"]),
        (["REMOTE=origin"], ["publish", "--remote", "origin"]),
        (["REMOTE=up", "BRANCH=pages"], ["publish", "--remote", "up", "--branch", "pages"]),
        (["BRANCH=pages"], ["publish", "--branch", "pages"]),
    ):
        done = subprocess.run(
            ["make", "--no-print-directory", "publish", *given], cwd=home, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() == str(wanted), done.stderr
