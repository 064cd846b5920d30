"""Executors of a replay: a git worktree of a local repository, and a container engine, which is specified only.

Whatever executes runs other people's code, so nothing runs before :meth:`open` is called, the environment is emptied,
time and output are limited, and the workspace is taken away at the end. A local executor is no sandbox: it is for
repositories and diffs that one trusts.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import NothingToCheck
from .replay import Execution, Patch, Role, Session, Spec

__all__ = ["ContainerExecutor", "LocalExecutor", "image_name"]

TIMED_OUT = ">>>>> Tests Timed Out"
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_APPLY = ("apply", "--whitespace=nowarn")
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--binary")
_WAIT = 0.05
_GIT_SECONDS = 120.0


def image_name(instance_id: str) -> str:
    """Name of SWE-bench's public image of a task: the id in lower case, with ``__`` as ``_1776_``."""
    return f"swebench/sweb.eval.x86_64.{instance_id.lower().replace('__', '_1776_')}:latest"


class LocalExecutor:
    """Executes states in a detached git worktree of a local repository.

    An edit that the repository has in its own worktree and has not staged stands for the edit that an image comes
    with: it is captured once and is present exactly once in every state, whether or not a step's diff holds it.

    Args:
        repository: The repository; nothing here changes its worktree, index or branches (a command that calls git
            itself could, since a worktree shares them).
        environment: Variables of the command beside ``PATH``; nothing else of the caller's environment reaches it.
        most_output: Bytes of output after which an execution is broken off as not measured.
    """

    def __init__(
        self, repository: Path, *, environment: Mapping[str, str] | None = None, most_output: int = 20_000_000
    ) -> None:
        self.repository = repository
        self.environment = dict(environment or {})
        self.most_output = most_output

    @property
    def name(self) -> str:
        """``local worktree``."""
        return "local worktree"

    def commands(self, spec: Spec, roles: Sequence[Role]) -> tuple[str, ...]:
        """The commands of one execution, in order; see :class:`_Worktree`."""
        apply = "git apply --whitespace=nowarn"
        before = [f"{apply} <{role} diff>" for role in roles if role != "test"]
        after = ["git checkout <base> -- <files of the test diff>", f"{apply} <test diff>"] if "test" in roles else []
        return (
            f"git checkout -q --detach -f {spec.base_commit}",
            f"git reset -q --hard {spec.base_commit}",
            "git clean -ffdq",
            *before,
            f"git apply --reverse --check <build edit> || {apply} <build edit>",
            *after,
            shlex.join(spec.command),
        )

    @contextlib.contextmanager
    def open(self, spec: Spec) -> Iterator[Session]:
        """Make the worktree at the base commit and remove it at the end.

        Raises:
            NothingToCheck: there is no git, no repository, or no such commit.
        """
        if shutil.which("git") is None:
            raise NothingToCheck("there is no git command", where="git", next_step="install git")
        with tempfile.TemporaryDirectory(prefix="traceaudit-replay-", ignore_cleanup_errors=True) as folder:
            home = Path(folder)
            work = home / "work"
            (home / "home").mkdir()
            (home / "tmp").mkdir()
            session = _Worktree(self, spec, home, work)
            try:
                made = session.git("worktree", "add", "-q", "--detach", str(work), spec.base_commit, at=self.repository)
                if made.returncode:
                    raise NothingToCheck(
                        "no worktree can be made at the base commit",
                        where=str(self.repository),
                        expected=f"a git repository with the commit {spec.base_commit}",
                        got=made.stderr.decode("utf-8", "replace").strip()[:200],
                        next_step="clone the repository with its history",
                    )
                bare = session.git("rev-parse", "--is-bare-repository", at=self.repository).stdout.strip() == b"true"
                if not bare:
                    edit = session.git(*_DIFF, at=self.repository)
                    if edit.returncode:
                        raise NothingToCheck(
                            "the repository's own edit cannot be read",
                            where=str(self.repository),
                            got=edit.stderr.decode("utf-8", "replace").strip()[:200],
                            next_step="run git diff there",
                        )
                    session.build_edit = edit.stdout
                yield session
            finally:
                session.git("worktree", "remove", "--force", "--force", str(work), at=self.repository)
                shutil.rmtree(work, ignore_errors=True)
                session.git("worktree", "prune", at=self.repository)


class _Worktree:
    """An open worktree.

    Plain ``git apply`` only: the three-way and index variants stage what they apply, and a later reset would then
    keep a part of one step in the next.
    """

    def __init__(self, owner: LocalExecutor, spec: Spec, home: Path, work: Path) -> None:
        self.owner, self.spec, self.home, self.work = owner, spec, home, work
        self.build_edit = b""
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home / "home"),
            "TMPDIR": str(home / "tmp"),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONUTF8": "1",
            "PYTHONHASHSEED": "0",
            # A file that changes twice in a second and keeps its size would be imported from its old byte code.
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
        }

    def git(self, *arguments: str, at: Path | None = None, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run git without hooks and without the user's configuration; a failure or a timeout is a return code."""
        call = [*_GIT, "-C", str(at or self.work), *arguments]
        try:
            return subprocess.run(
                call, input=stdin, capture_output=True, env=self.environment, timeout=_GIT_SECONDS, check=False
            )
        except (subprocess.TimeoutExpired, OSError) as error:
            return subprocess.CompletedProcess(call, 255, b"", str(error).encode())

    def execute(self, patches: Sequence[Patch]) -> Execution:
        """Reset, apply, run; the first stage that fails is named."""
        failed = self._prepare(patches)
        return Execution(failed=failed) if failed else self._run()

    def _prepare(self, patches: Sequence[Patch]) -> str:
        base = self.spec.base_commit
        for arguments in (("checkout", "-q", "--detach", "-f", base), ("reset", "-q", "--hard", base)):
            if self.git(*arguments).returncode:
                return "the workspace could not be reset"
        self.git("clean", "-ffdq")
        if self.git("status", "--porcelain").stdout:
            return "the workspace could not be reset"
        for patch in patches:
            if patch.role != "test" and not self._apply(patch.diff):
                return f"the {patch.role} diff does not apply"
        absent = self.build_edit and self.git(*_APPLY, "--reverse", "--check", "-", stdin=self.build_edit).returncode
        if absent and not self._apply(self.build_edit):
            return "the build edit does not apply"
        for patch in patches:
            if patch.role == "test" and patch.diff:
                self._restore(patch.diff)
                if not self._apply(patch.diff):
                    return "the test diff does not apply"
        return ""

    def _apply(self, diff: bytes) -> bool:
        return not diff.strip() or self.git(*_APPLY, "-", stdin=diff).returncode == 0

    def _restore(self, diff: bytes) -> None:
        """Put the files of the test diff back to the base: what an agent did to them is not what is graded."""
        rows = self.git("apply", "--numstat", "-z", "-", stdin=diff).stdout.split(b"\0")
        for row in rows:
            name = row.split(b"\t", 2)[-1].decode("utf-8", "surrogateescape")
            if not name:
                continue
            if self.git("checkout", "-q", self.spec.base_commit, "--", name).returncode:
                self.git("clean", "-ffdqx", "--", name)

    def _run(self) -> Execution:
        path = self.home / "output"
        environment = {**self.environment, **self.owner.environment}
        with path.open("wb") as out:
            try:
                process = subprocess.Popen(
                    self.spec.command,
                    cwd=self.work,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                return Execution(failed=f"the command cannot be started ({type(error).__name__})")
            ended, cut = self._wait(process, path)
        if cut:
            return Execution(failed="the output is over its limit")
        log = path.read_bytes().decode("utf-8", "replace")
        if not ended:
            return Execution(log=f"{log}\n{TIMED_OUT}\n")
        return Execution(exit_code=process.returncode, log=log)

    def _wait(self, process: subprocess.Popen[bytes], path: Path) -> tuple[bool, bool]:
        """Wait for the end, the time limit or the output limit; its process group is ended in any case."""
        deadline = time.monotonic() + self.spec.seconds
        ended = cut = False
        try:
            while not (ended or cut) and time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_WAIT)
                    ended = True
                cut = path.stat().st_size > self.owner.most_output
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return ended, cut


def _answers(engine: str) -> bool:
    try:
        return subprocess.run([engine, "info"], capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class ContainerExecutor:
    """The executor that SWE-bench's tasks need, specified: its commands can be planned, and :meth:`open` refuses.

    Args:
        find: Where a command is; None for none.
        answers: Whether an engine answers.
    """

    def __init__(
        self, *, find: Callable[[str], str | None] = shutil.which, answers: Callable[[str], bool] = _answers
    ) -> None:
        self._find, self._answers = find, answers

    @property
    def name(self) -> str:
        """``container``."""
        return "container"

    def commands(self, spec: Spec, roles: Sequence[Role]) -> tuple[str, ...]:
        """The commands of one execution in a container of :func:`image_name`, kept open for all steps of a run."""
        run = f"docker exec -i <{image_name(spec.instance_id)}> git -C /testbed"
        apply = "apply --whitespace=nowarn -"
        before = [f"{run} {apply} < <{role} diff>" for role in roles if role != "test"]
        after = [f"{run} {apply} < <test diff>"] if "test" in roles else []
        return (
            f"{run} checkout -- .",
            f"{run} clean -fdq",
            *before,
            f"{run} apply --reverse --check - < <build edit> || {run} {apply} < <build edit>",
            *after,
            f"docker exec -w /testbed -e PYTHONIOENCODING=utf-8 <{image_name(spec.instance_id)}> "
            + shlex.join(spec.command),
        )

    def open(self, spec: Spec) -> contextlib.AbstractContextManager[Session]:
        """Refuse, saying what is missing.

        Raises:
            NothingToCheck: there is no engine, it does not answer, or (with one) this executor was never built.
        """
        found = [engine for engine in ("docker", "podman") if self._find(engine)]
        image = image_name(spec.instance_id)
        if not found:
            raise NothingToCheck(
                "there is no container engine",
                where=image,
                expected="the command docker or podman",
                next_step="install docker or podman, or replay a repository of yours with the local executor",
            )
        if not any(self._answers(engine) for engine in found):
            raise NothingToCheck(
                "no container engine answers",
                where=image,
                expected="a running engine behind docker or podman",
                got=f"{' and '.join(found)} without one",
                next_step="start the engine, or replay a repository of yours with the local executor",
            )
        raise NothingToCheck(
            "replay in a container is specified and not built",
            where=image,
            got=f"an engine that answers ({found[0]})",
            next_step="run the planned commands, or replay a repository of yours with the local executor",
        )
