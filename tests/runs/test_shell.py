"""Reading of shell commands: what was staged, undone and written, by command line."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceaudit.runs.capture import actions_of
from traceaudit.runs.formats.mini_swe_agent import MiniSweAgent
from traceaudit.runs.schema import Header, Run
from traceaudit.runs.shell import read_script
from traceaudit.runs.shell_words import split_script

from . import real_400

STAGED = [  # command, path that it stages
    ("git add -A", "lib/x.py"),
    ("git add --all", "x.py"),
    ("git add -u", "x.py"),
    ("git add --update", "x.py"),
    ("git add .", "lib/x.py"),
    ("git add *", "lib/x.py"),
    ("git add '*'", "lib/x.py"),
    ("git add :/", "x.py"),
    ("git add", "x.py"),  # the facts count it as everything
    ("git add x.py", "x.py"),
    ("git add lib", "lib/deep/x.py"),
    ("git add lib/", "lib/x.py"),
    ("git add ./lib/../x.py", "x.py"),
    ("git add a.py lib/x.py", "lib/x.py"),
    ("git add -- x.py", "x.py"),
    ("git add -Av", "x.py"),
    ("git add -f 'a file.py'", "a file.py"),
    ('git add "a file.py"', "a file.py"),
    ("git add a\\ file.py", "a file.py"),
    ("git add *.py", "x.py"),
    ("git add lib/*.py", "lib/x.py"),
    ("git stage x.py", "x.py"),
    ("git -C lib add x.py", "lib/x.py"),
    ("git -C /testbed/lib add x.py", "lib/x.py"),
    ("git -c core.pager=cat --no-pager add x.py", "x.py"),
    ("cd lib && git add x.py", "lib/x.py"),
    ("cd /testbed/lib; git add x.py", "lib/x.py"),
    ("cd lib\ncd ..\ngit add x.py", "x.py"),
    ("(cd lib && true); git add x.py", "x.py"),
    ("git add /testbed/lib/x.py", "lib/x.py"),
    ("git status && git add x.py || true", "x.py"),
    ("git diff | cat; git add x.py", "x.py"),
    ("if true; then git add x.py; fi", "x.py"),
    ("for i in 1 2; do git add x.py; done", "x.py"),
    ("! git add x.py", "x.py"),
    ("GIT_PAGER=cat git add x.py", "x.py"),
    ("sudo -u root env A=1 git add x.py", "x.py"),
    ("timeout -s KILL 5 git add x.py", "x.py"),
    ("/usr/bin/git add x.py", "x.py"),
    ("bash -c 'git add x.py'", "x.py"),
    ('bash -lc "cd lib && git add x.py"', "lib/x.py"),
    ("eval git add x.py", "x.py"),
    ("bash <<EOF\ngit add x.py\nEOF\n", "x.py"),
    ("echo $(git add x.py)", "x.py"),
    ('echo "done: $(git add x.py)"', "x.py"),
    ("echo `git add x.py`", "x.py"),
    ("git \\\n  add x.py", "x.py"),
    ("echo a\\\\\ngit add x.py", "x.py"),
    ("git add x.py 2>&1", "x.py"),
    ("git add x.py > /dev/null 2>&1", "x.py"),
    ("git add -A && git diff --cached > /tmp/out.patch", "x.py"),
    ("git add -A # now it is staged", "x.py"),
    ("cat <<'EOF' | grep a\nno $( here ' \" `\nEOF\ngit add x.py", "x.py"),
    ("cat <<'EOF'\nends in a backslash\\\nEOF\ngit add x.py", "x.py"),
    ("cat <<-EOF\n\tx\n\tEOF\ngit add x.py", "x.py"),
    ("cat <<A <<B\n1\nA\n2\nB\ngit add x.py", "x.py"),
    ("git add a.py && git commit -m 'all' && git add x.py", "x.py"),
    ("[[ 2 > 1 ]] && git add x.py", "x.py"),
    ("echo $((1 + (2 > 1))) && git add x.py", "x.py"),
    ("echo ${a:-it\\'s} $'it\\'s' && git add x.py", "x.py"),
]


@pytest.mark.parametrize(("script", "path"), STAGED)
def test_what_is_staged(script, path):
    reading = read_script(script)
    assert reading.stages(path), reading
    assert reading.evidence == "staged"


NOT_STAGED = [  # command, path that it does not stage (or it cannot be told)
    ("git add x.py", "lib/x.py"),
    ("git add lib", "library/x.py"),
    ("git add lib -A", "x.py"),  # with a path, -A is of that path
    ("git add *.py", "lib/x.py"),  # a shell's star does not cross a slash
    ("cd lib && git add .", "x.py"),
    ("cd lib && git add x.py", "x.py"),
    ("git add -N x.py", "x.py"),
    ("git add --intent-to-add .", "x.py"),
    ("git add -n .", "x.py"),
    ("git add --dry-run -A", "x.py"),
    ("git add -p", "x.py"),
    ("git add -i", "x.py"),
    ("git add --pathspec-from-file=list", "x.py"),
    ("git add $FILES", "x.py"),
    ("git add . ':!x.py'", "x.py"),
    ("git ls-files -m | xargs git add", "x.py"),
    ("cd $DIR && git add .", "x.py"),
    ("cd /tmp/clone && git add .", "x.py"),
    ("cd ../other && git add .", "x.py"),
    ("git -C /tmp/clone add -A", "x.py"),
    ("git --git-dir=/tmp/o/.git add -A", "x.py"),
    ("echo git add x.py", "x.py"),
    ("echo 'git add x.py'", "x.py"),
    ("# git add x.py", "x.py"),
    ("cat <<EOF\ngit add x.py\nEOF\n", "x.py"),
    ("python -c 'import os; os.system(\"git add x.py\")'", "x.py"),
    ("grep -rn 'git add' .", "x.py"),
    ("git log --grep add x.py", "x.py"),
    ("git addx x.py", "x.py"),
    ("git add x.py && git checkout x.py", "x.py"),
    ("git stash; git add -A", "x.py"),
    ("git add -A && git reset", "x.py"),
    ("git restore --staged . ; git add x.py", "x.py"),
    ("git clean -fd && git add .", "x.py"),
    ("git revert HEAD --no-edit && git add .", "x.py"),
    ("sed -i s/a/b/ x.py && git add x.py", "x.py"),
    ("sed -ni p x.py && git add x.py", "x.py"),
    ("sed --in-place=.bak s/a/b/ x.py && git add x.py", "x.py"),
    ("perl -pi -e s/a/b/ x.py && git add x.py", "x.py"),
    ("echo 1 > x.py && git add x.py", "x.py"),
    ("echo 1 >> x.py; git add x.py", "x.py"),
    ("echo 1 | tee x.py; git add x.py", "x.py"),
    ("cat <<EOF > x.py\n1\nEOF\ngit add x.py", "x.py"),
    ("python - <<EOF\n1\nEOF\ngit add x.py", "x.py"),
    ("python3 -c 'pass'; git add x.py", "x.py"),
    ("patch -p1 < fix.patch; git add x.py", "x.py"),
    ("git apply fix.patch && git add x.py", "x.py"),
    ("rm x.py; git add -A", "x.py"),
    ("mv x.py y.py; git add -A", "x.py"),
    ("cp y.py x.py && git add x.py", "x.py"),
    ("find . -name x.py -delete; git add -A", "x.py"),
    ("git add x.py; echo 'never closed", "x.py"),
    ('git add x.py; echo "$(never closed', "x.py"),
    ("git add x.py; cat <<EOF\nnever ended", "x.py"),
    ("", "x.py"),
]


@pytest.mark.parametrize(("script", "path"), NOT_STAGED)
def test_what_is_not_staged_or_cannot_be_told(script, path):
    assert not read_script(script).stages(path)


EVIDENCE = [
    ("git add a && git commit -m x && git stash && git reset", "staged"),
    ("git commit -am x && git stash", "committed"),
    ("git commit --dry-run", "unexplained"),
    ("git stash && git checkout .", "stashed"),
    ("git stash push -m x", "stashed"),
    ("git stash list", "unexplained"),
    ("git checkout -- x.py", "reverted"),
    ("git reset --hard", "reverted"),
    ("git restore x.py", "reverted"),
    ("git clean -fd", "unexplained"),
    ("git add -N x.py", "unexplained"),
    ("echo 'git commit'", "unexplained"),
    ("ls", "unexplained"),
]


@pytest.mark.parametrize(("script", "evidence"), EVIDENCE)
def test_evidence_of_an_empty_capture(script, evidence):
    assert read_script(script).evidence == evidence


WRITES = [
    ("grep a > /dev/null", False),
    ("grep a 2>&1 >/tmp/x", False),
    ("grep a 2> err.txt", True),
    ("grep a &> out.txt", True),
    ("[[ a > b ]]", False),
    ("diff <(ls a) <(ls b)", False),
    ("sed -n 1,5p x", False),
    ("sed -ne p x", False),
    ("perl -ne print x", False),
    ("python x.py", False),
    ("python -m pytest", False),
    ("find . -exec rm {} +", True),
    ("git apply --check x", False),
    ("str_replace_editor view /testbed/x.py", False),
    ("str_replace_editor str_replace /testbed/x.py", True),
    ("echo 'a > b'", False),
]


@pytest.mark.parametrize(("script", "writes"), WRITES)
def test_what_writes(script, writes):
    assert read_script(script).writes is writes


def test_a_root_of_another_name():
    assert read_script("cd /repo/lib && git add x.py", "/repo").stages("lib/x.py")
    assert not read_script("cd /repo/lib && git add x.py").stages("lib/x.py")


def test_scripts_in_scripts_end():
    script = "git add x.py"
    for _ in range(8):
        script = "bash -c " + "'" + script.replace("'", "'\\''") + "'"
    assert read_script(script).whole is False


@given(st.text(alphabet="gitad -A.;&|()<>'\"\\$`#{}[]\nEOF=x", max_size=60))
def test_any_text_is_read(script):
    commands, whole = split_script(script)
    assert isinstance(whole, bool)
    assert sum(len("".join(command.words)) for command in commands) <= 4 * len(script)
    read_script(script)


@pytest.mark.real
def test_bash_agrees_on_real_actions(tmp_path_factory):
    """What ``bash -n`` calls unfinished is what is not read whole, on every tenth run."""
    import msgspec

    paths = sorted(real_400(tmp_path_factory).joinpath("trajs").glob("*/*.traj.json"))[::10]
    read = torn = 0
    for path in paths:
        for parsed in MiniSweAgent().parse(msgspec.json.decode(path.read_bytes()), path.name):
            run = Run(Header(run_id="x", n_steps=len(parsed.steps)), tuple(parsed.steps))
            script = "\n".join(
                f"{{ :\n{action}\n}}" for action in actions_of(run) if action and read_script(action).whole
            )
            checked = subprocess.run(["bash", "-n"], input=script.encode("utf-8", "replace"), capture_output=True)
            assert checked.returncode == 0, (path.name, checked.stderr[:300])
            read += len(parsed.steps)
            for action in actions_of(run):
                if not read_script(action).whole:
                    torn += 1
                    alone = subprocess.run(["bash", "-n"], input=action.encode(), capture_output=True)
                    assert alone.returncode != 0, (path.name, action[-200:])
    assert len(paths) == 40 and read > 1000
    assert torn <= 3
