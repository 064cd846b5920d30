"""The workflows and the hooks: every command in them exists, every action is pinned, no job may do more than it needs.

They run elsewhere, where a slip shows itself days later, so whatever can be known of them here is checked here.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from traceaudit.cli import _parser

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".github" / "workflows"
FILES = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yml"))}
ON = True  # YAML 1.1 reads the key `on` as a truth value
HOOKS = ROOT / ".pre-commit-config.yaml"
LINE = re.compile(r"(?:\S*/)?(?P<tool>make|traceaudit)\s")

# What each job may do; whatever is not here is refused.
PERMISSIONS = {
    ("ci.yml", "test"): {"contents": "read"},
    ("ci.yml", "lint"): {"contents": "read"},
    ("build.yml", "site"): {"contents": "read"},
    ("pages.yml", "build"): {"contents": "read"},
    ("pages.yml", "deploy"): {"pages": "write", "id-token": "write"},
    ("scheduled.yml", "rebuild"): {"contents": "read"},
    ("scheduled.yml", "records"): {"contents": "read"},
    ("scheduled.yml", "published"): {"contents": "read"},
}
JOBS = [(file, name) for file, data in FILES.items() for name in data["jobs"]]


def job(file: str, name: str) -> dict:
    return FILES[file]["jobs"][name]


def steps(file: str, name: str) -> list[dict]:
    return job(file, name).get("steps", [])


def commands(text: str) -> Iterator[list[str]]:
    """The calls of make and of the command in a shell text, variables kept as one word."""
    for line in text.splitlines():
        if LINE.match(line.strip() + " "):
            words = shlex.split(line, comments=True)
            yield [Path(words[0]).name, *words[1:]]


def all_commands() -> list[tuple[str, list[str]]]:
    return [
        (file, words) for file, name in JOBS for step in steps(file, name) for words in commands(step.get("run", ""))
    ]


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    names = {name for line in re.findall(r"^([a-z][a-z -]*):(?!=)", text, re.MULTILINE) for name in line.split()}
    ready = re.search(r"^READY := \$\(VENV\)(\S+)$", text, re.MULTILINE)
    return names | {f".venv{ready[1]}"}


def test_there_is_one_workflow_a_purpose():
    assert sorted(FILES) == ["build.yml", "ci.yml", "pages.yml", "scheduled.yml"]
    assert set(PERMISSIONS) == set(JOBS)


def test_when_each_runs():
    when = {file: data[ON] for file, data in FILES.items()}
    assert set(when["ci.yml"]) == {"push", "pull_request"}
    assert set(when["build.yml"]) == {"workflow_call", "workflow_dispatch"}
    assert when["pages.yml"] == {"push": {"branches": ["main"]}, "workflow_dispatch": None}
    assert job("pages.yml", "build")["if"] == "github.ref == 'refs/heads/main'"  # by hand from another branch: nothing
    assert [len(each["cron"].split()) for each in when["scheduled.yml"]["schedule"]] == [5]


@pytest.mark.parametrize("words", [pytest.param(words, id=f"{of}: {' '.join(words)}") for of, words in all_commands()])
def test_every_command_exists(words):
    tool, *rest = words
    if tool == "make":
        targets = [word for word in rest if "=" not in word]
        assert targets and set(targets) <= make_targets()
        text = (ROOT / "Makefile").read_text(encoding="utf-8")
        for variable in (word.partition("=")[0] for word in rest if "=" in word):
            assert re.search(rf"^ifdef {variable}$|\$\({variable}\)", text, re.MULTILINE), variable
    else:
        _parser().parse_args(rest)  # ends the test where it does not know the call


def test_what_must_be_called_is_called():
    called = {file: [" ".join(words) for of, words in all_commands() if of == file] for file in FILES}
    assert "make report FETCH=1" in called["build.yml"]
    assert "traceaudit check --site _site" in called["build.yml"]
    assert called["build.yml"].index("make report FETCH=1") < called["build.yml"].index("traceaudit check --site _site")
    assert "make lint" in called["ci.yml"]
    weekly = called["scheduled.yml"]
    order = [weekly.index(each) for each in ("traceaudit fetch", "traceaudit fetch --judges", "traceaudit check")]
    assert order == sorted(order)
    assert any(each.startswith("traceaudit check --site ${SITE_URL:-https://") for each in weekly)
    assert ".ci/run" in [step.get("run") for step in steps("ci.yml", "test")]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_a_command_that_does_not_exist_would_be_found():
    assert list(commands(".venv/bin/traceaudit chekc --site x\nmake\n# make it so\necho make")) == [
        ["traceaudit", "chekc", "--site", "x"],
        ["make"],
    ]
    with pytest.raises(SystemExit):
        _parser().parse_args(["chekc"])
    assert {"report", "test", "lint", "publish", ".venv/.ready"} <= make_targets() and "READY" not in make_targets()


@pytest.mark.parametrize(("file", "name"), JOBS)
def test_a_job_may_do_what_it_needs_and_no_more(file, name):
    assert FILES[file]["permissions"] == {}
    assert job(file, name)["permissions"] == PERMISSIONS[file, name]
    text = (FOLDER / file).read_text(encoding="utf-8")
    assert "secrets" not in text and "pull_request_target" not in text
    for step in steps(file, name):
        assert "${{" not in step.get("run", "")  # what comes from outside reaches a shell as a variable only
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize(("file", "name"), JOBS)
def test_a_job_ends_and_runs_on_a_named_system(file, name):
    assert {"group", "cancel-in-progress"} == set(FILES[file]["concurrency"])
    if "uses" in job(file, name):  # the called workflow has its own
        return
    assert 5 <= job(file, name)["timeout-minutes"] <= 60
    assert job(file, name)["runs-on"] == "ubuntu-24.04"


def test_a_called_workflow_does_not_wait_for_its_caller():
    """Two groups of one name, one within the other, would wait for each other."""
    groups = {file: data["concurrency"]["group"] for file, data in FILES.items()}
    assert len(set(groups.values())) == len(groups)
    assert "github.workflow" in groups["build.yml"]  # which is the caller's name


def test_actions_are_pinned_and_each_once():
    pinned: dict[str, set[str]] = {}
    for path in FOLDER.glob("*.yml"):
        for used, said in re.findall(r"uses: (\S+)(.*)", path.read_text(encoding="utf-8")):
            if used.startswith("./"):
                assert (ROOT / used).is_file()
                continue
            assert re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}", used), used
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", said), (used, said)
            pinned.setdefault(used.partition("@")[0], set()).add(used + said)
    assert all(len(each) == 1 for each in pinned.values())
    owners = {name.partition("/")[0] for name in pinned}
    assert owners == {"actions", "quarto-dev"}


def test_every_environment_is_the_locked_one():
    for file, name in JOBS:
        used = {step["uses"].partition("@")[0]: step.get("with", {}) for step in steps(file, name) if "uses" in step}
        if "actions/checkout" not in used:
            continue
        assert used["actions/setup-python"]["python-version"] == "3.11"
        assert "hashFiles('requirements.lock')" in used["actions/cache"]["key"]
        assert "restore-keys" not in used["actions/cache"]


def test_quarto_has_one_version():
    """Written once, in the workflow that renders; wherever else one is named, it is that one."""
    version = FILES["build.yml"]["env"]["QUARTO_VERSION"]
    assert re.fullmatch(r"1\.\d+\.\d+", version)
    (setup,) = [step for step in steps("build.yml", "site") if "quarto-actions/setup" in step.get("uses", "")]
    assert setup["with"] == {"version": "${{ env.QUARTO_VERSION }}"}
    named = re.compile(r"quarto[\w ]{0,12}[:=<> v-]{1,4}(\d+\.\d+\.\d+)", re.IGNORECASE)
    places = [*FOLDER.glob("*.yml"), ROOT / "README.md", ROOT / "environment.yml", ROOT / "Makefile", HOOKS]
    found = [(path.name, each) for path in places for each in named.findall(path.read_text(encoding="utf-8"))]
    assert ("build.yml", version) in found
    assert {each for _, each in found} == {version}
    assert [name for name, _ in found if name.endswith(".yml") and name != "environment.yml"] == ["build.yml"]


def test_the_site_that_is_deployed_is_the_one_that_was_checked():
    ran = [step.get("run") or step["uses"].partition("@")[0] for step in steps("build.yml", "site")]
    uploads = ["actions/upload-artifact", "actions/upload-pages-artifact"]
    assert ran[-3:] == [".venv/bin/traceaudit check --site _site", *uploads]
    assert [step["with"]["path"] for step in steps("build.yml", "site")[-2:]] == ["_site", "_site"]
    assert job("pages.yml", "deploy")["needs"] == "build"
    assert job("pages.yml", "build")["uses"] == job("scheduled.yml", "rebuild")["uses"]


# ------------------------------------------------------------------------------------------------ hooks


def hooks() -> list[dict]:
    (local,) = yaml.safe_load(HOOKS.read_text(encoding="utf-8"))["repos"]
    assert local["repo"] == "local"  # so that versions are those of the lock file
    return local["hooks"]


def test_the_hooks_are_well_formed():
    tool = Path(sys.executable).with_name("pre-commit")
    done = subprocess.run([tool, "validate-config", HOOKS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook["id"])
def test_the_tool_of_each_hook_is_installed_and_locked(hook):
    program, *arguments = shlex.split(hook["entry"])
    assert program.startswith(".venv/bin/") and Path(sys.executable).with_name(Path(program).name).exists()
    package = "pytest" if arguments[:2] == ["-m", "pytest"] else Path(program).name
    assert re.search(rf"^{package}==", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    for argument in arguments:
        if "/" in argument:
            assert (ROOT / argument).exists(), argument


def test_the_hooks_are_the_ones_promised():
    assert [hook["id"] for hook in hooks()] == ["ruff-check", "ruff-format", "stripped", "mypy"]
