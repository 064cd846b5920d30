"""Small raw runs and reports made by code, and what tests ask of a corpus."""

from __future__ import annotations

import json

from traceaudit.runs.files import read_run

from .test_mini_swe_agent import answer, file, response, said


def raw(instance="a__b-1", command="ls", model="p/m"):
    data = file([said(command, extra=response(model=model)), answer(0)])
    return json.dumps(data | {"instance_id": instance}).encode()


def put(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def report(resolved, **more):
    return json.dumps({"resolved": resolved, "patch_successfully_applied": True, **more}).encode()


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def kinds(summary):
    return {(issue.file, issue.what) for issue in summary.issues}


def read(target, name):
    issues = []
    run = read_run(target / name, issues)
    assert issues == [] and run is not None
    return run
