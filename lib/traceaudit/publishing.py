"""Publishing without CI: the built and checked site of a clean tree, as one commit on a branch of its own.

What is published is named by a commit, so nothing is published that the commit does not hold; and nothing leaves this
machine unless a remote was named.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from .errors import GuardFailed, NothingToCheck, UsageError
from .published import BUILD, check_site, read_build
from .site_source import FolderSite

__all__ = ["publish"]

Say = Callable[[str], None]
_SHOWN = 12  # characters of a commit that a message shows


def publish(root: Path, *, build: Callable[[], int], remote: str, branch: str, say: Say) -> int:
    """Build the site, hold it against the stored records, put it on a branch and push that where a remote is named.

    Args:
        root: The working tree; its site is ``_site``.
        build: Makes the site and returns an exit code.
        remote: Name of the remote to push to; empty: push nothing.
        branch: The branch that the site is put on; each publication is a commit on it.
        say: Takes one line for the reader at a time.

    Returns:
        0, or the code of a build that failed.

    Raises:
        UsageError: no working tree, an unknown remote, or a branch that cannot be meant.
        GuardFailed: files differ from the commit, or git refused.
        RecordMismatch: the site does not hold what the stored records say.
        NothingToCheck: the remote cannot be reached, or the tool is not installed.
    """
    git = _Git(root)
    commit = git.clean_commit()
    git.check_branch(branch)
    there = bool(remote) and git.has_branch(remote, branch)
    if find_spec("ghp_import") is None:
        raise NothingToCheck(
            "ghp-import is not installed", next_step="run make publish, or install traceaudit[publish]"
        )
    if code := build():
        return code
    site = root / "_site"
    check_site(str(site), root, say)
    built = read_build(FolderSite(site))
    if git.clean_commit() != commit or built.commit != commit or built.changed:
        raise GuardFailed(
            "the site is not that of the commit", where="_site", expected=f"commit {commit[:_SHOWN]}", got=str(built),
            next_step="let nobody change the tree while it is published, and try again",
        )  # fmt: skip
    if there:
        git("fetch", "--quiet", remote, f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}")
    message = f"Site of commit {commit}"
    command = [sys.executable, "-m", "ghp_import", "--no-jekyll", "-m", message, "-b", branch]
    command += ["-r", remote] if remote else []
    done = subprocess.run([*command, str(site)], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode or git.bytes_of(f"refs/heads/{branch}:{BUILD}") != (site / BUILD).read_bytes():
        lines = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise GuardFailed("the site was not put on its branch", where=branch, got="; ".join(lines))
    say(f"branch {branch} holds the site of commit {commit[:_SHOWN]}")
    if not remote:
        say(f"nothing was pushed; to publish it: git push REMOTE {branch}, or make publish REMOTE=origin")
        return 0
    git("push", "--quiet", remote, f"refs/heads/{branch}:refs/heads/{branch}")
    say(f"pushed to {branch} of {remote}")
    return 0


class _Git:
    """Git in one working tree."""

    def __init__(self, root: Path) -> None:
        self._root = root
        if not (root / ".git").exists():
            raise UsageError("only a git working tree can be published", where=root.name, next_step="clone the project")

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["git", *arguments], cwd=self._root, capture_output=True, check=False)

    def __call__(self, *arguments: str) -> str:
        """What git says; its complaint as an error."""
        done = self._run(*arguments)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise GuardFailed(f"git {arguments[0]} failed", got="; ".join(said[-5:]), next_step="see what git says")
        return done.stdout.decode("utf-8", "replace").strip()

    def bytes_of(self, name: str) -> bytes | None:
        """A committed file, such as ``main:README.md``; ``None`` where there is none."""
        done = self._run("cat-file", "blob", name)
        return None if done.returncode else done.stdout

    def clean_commit(self) -> str:
        """The commit that the tree is at; an error where a file differs from it or is not known to it."""
        changed = self("status", "--porcelain", "--untracked-files=all").splitlines()
        if changed:
            raise GuardFailed(
                "the tree has changes, so no commit would hold what is published", where=self._root.name,
                got="; ".join(changed[:5]) + (f"; and {len(changed) - 5} more" if len(changed) > 5 else ""),
                next_step="commit them, or put them aside",
            )  # fmt: skip
        return self("rev-parse", "--verify", "HEAD^{commit}")

    def check_branch(self, branch: str) -> None:
        """Refuse a name that is none, and a branch of sources: the site takes the place of all that it holds."""
        if branch.startswith("-") or self._run("check-ref-format", f"refs/heads/{branch}").returncode:
            raise UsageError("this is no name of a branch", where=repr(branch), next_step="name another, as gh-pages")
        sources = self.bytes_of(f"refs/heads/{branch}:chapters/chapters.toml") is not None
        if sources or self("branch", "--show-current") == branch:
            raise UsageError(
                "the site would take the place of the sources on this branch", where=branch,
                next_step="name a branch that holds nothing else, as gh-pages",
            )  # fmt: skip

    def has_branch(self, remote: str, branch: str) -> bool:
        """Whether a remote has the branch; an error where there is no such remote or it does not answer."""
        if remote not in self("remote").splitlines():
            raise UsageError("there is no such remote", where=remote, expected=", ".join(self("remote").splitlines()))
        done = self._run("ls-remote", "--exit-code", "--heads", remote, f"refs/heads/{branch}")
        if done.returncode not in (0, 2):
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise NothingToCheck("the remote cannot be reached", where=remote, got="; ".join(said[-3:]))
        return done.returncode == 0
