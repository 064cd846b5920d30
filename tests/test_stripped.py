"""Every notebook of the repository is a source: no output, no execution count, no trace of a run."""

from __future__ import annotations

import json
import subprocess

import pytest

from traceaudit import guards


def test_every_notebook_is_stripped(root):
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.ipynb"]
    done = subprocess.run(listed, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    names = sorted(name for name in set(done.stdout.split("\0")) if name and (root / name).is_file())
    assert len(names) > 20
    problems = []
    for name in names:
        problems += guards.check_stripped(name, json.loads((root / name).read_text(encoding="utf-8")))
    guards.raise_if(problems)
