"""Terminal labels from reports: one report grades one run, and what is no clear verdict gives no label."""

from __future__ import annotations

import pytest

from traceaudit.runs.files import iter_runs
from traceaudit.runs.normalize import normalize
from traceaudit.runs.reports import load_reports

from ..conftest import REAL
from .made import put, raw, read, report

LABELS = [  # files of labels, label and source of a__b-1, issues by kind
    ({}, None, "", set()),
    ({"a__b-1/report.json": report(True)}, True, "swebench report", set()),
    ({"a__b-1.report.json": report(False)}, False, "swebench report", set()),
    ({"x~a__b-1~report.json": report(True)}, True, "swebench report", set()),
    ({"report.json": b'{"a__b-1": {"resolved": true}}'}, True, "swebench report", set()),
    ({"a__b-1/report.json": b"{"}, None, "", {"a report is not JSON"}),
    ({"a__b-1/report.json": b"[1]"}, None, "", {"a report says not whether it is resolved"}),
    ({"a__b-1/report.json": report("yes")}, None, "", {"a report says not whether it is resolved"}),
    ({"a__b-7/report.json": report(True)}, None, "", {"a report without a run"}),
    (
        {"a__b-1/report.json": report(True, patch_successfully_applied=False)},
        True,
        "swebench report",
        {"a report calls resolved what it says did not apply"},
    ),
    ({"p_m/a__b-1/report.json": report(True), "q/a__b-1/report.json": report(False)}, True, "swebench report", set()),
    (
        {"r/a__b-1/report.json": report(True), "q/a__b-1/report.json": report(False)},
        None,
        "",
        {"several reports that could be that of one run"},
    ),
    ({"r/a__b-1/report.json": report(True), "a__b-1.report.json": report(True)}, True, "swebench report", set()),
]


@pytest.mark.parametrize(("files", "resolved", "by", "what"), LABELS)
def test_labels(source, target, tmp_path, files, resolved, by, what):
    put(source, "a.json", raw())
    labels = tmp_path / "labels"
    labels.mkdir()
    for name, content in files.items():
        put(labels, name, content)
    summary = normalize(source, target, labels=labels)
    header = read(target, "a__b-1__p_m__default.jsonl").header
    assert (header.resolved, header.resolved_by) == (resolved, by)
    assert {issue.what for issue in summary.issues} == what
    assert (summary.labelled, summary.resolved) == (resolved is not None, resolved is True)


def test_one_report_labels_no_two_runs_and_labels_follow_later_changes(source, target, tmp_path):
    labels = tmp_path / "labels"
    put(labels, "a__b-1/report.json", report(True))
    put(source, "a.json", raw())
    assert normalize(source, target, labels=labels).labelled == 1
    second = put(source, "b.json", raw(command="other"))
    shared = normalize(source, target, labels=labels)
    assert shared.labelled == 0 and shared.skipped == 1
    assert {issue.what for issue in shared.issues} == {"a report that could be that of several runs"}
    assert [run.header.resolved for run in iter_runs(target, [])] == [None, None]
    assert normalize(source, target, labels=labels).skipped == 2  # the state knows the runs as they are now
    second.write_bytes(raw("a__b-2"))
    put(labels, "a__b-1/report.json", report(False))
    summary = normalize(source, target, labels=labels)
    assert {run.header.instance_id: run.header.resolved for run in iter_runs(target, [])} == {
        "a__b-1": False,
        "a__b-2": None,
    }
    assert summary.skipped == 1
    assert normalize(source, target).labelled == 0  # without labels there are none


@pytest.mark.real
def test_real_reports_that_contradict_themselves():
    folder = REAL / "trajectories" / "swe_smith" / "labels"
    if not folder.is_dir():
        pytest.skip("the real trajectories are not beside this repository (../shared/data/trajectories)")
    smith = load_reports(folder)
    assert {issue.what for issue in smith.issues} == {
        "a report calls resolved what it says did not apply",
        "a report says not whether it is resolved",
    }
    found = smith.of("pandas-dev__pandas.95280573.pr_53652", None)
    assert found is not None and found.resolved
