"""Executing one chapter: what papermill lets pass is an error here, and equal inputs give equal bytes."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from traceaudit.errors import ChapterFailed, GuardFailed, TraceAuditError, UsageError, ValueProblem, WorkerFailed
from traceaudit.execute import Execution, execute
from traceaudit.notebooks import check_parameters, fill_inline, inline_spans, parameter_names, read_source, to_bytes
from traceaudit.values import Value

NOTEBOOKS = Path(__file__).parent / "data" / "notebooks"

# notebook, kind of error, what the message must say: chapter, cell, its first lines, the exception, the next step
FAILING = [
    ("raises", ChapterFailed, r"raises, cell 3: a cell raised\n  found: ZeroDivisionError.*\n  in: # a comment\nx / 0"),
    ("exits-0-in-the-middle", ChapterFailed, r"cell 2: a cell raised\n  found: SystemExit: 0\n.*\n.*\n.*never ran"),
    ("loops-for-ever", ChapterFailed, r"cell 2: a cell did not end in time\n.*still running.*\n  in: while True"),
    ("writes-to-stderr", ChapterFailed, r"cell 2: a cell wrote to stderr\n.*UserWarning: the data are odd"),
    ("kernel-killed", ChapterFailed, r"cell 1: the kernel died\n[\s\S]*memory"),
    ("value-recorded-twice", ValueProblem, r"cell 4: a name is recorded twice\n  found: errors"),
    ("finding-without-its-value", ValueProblem, r"finding P1 rests on values the chapter does not record"),
    ("unknown-inline-name", GuardFailed, r"cell 2, line 3: no value is called errros"),
    ("shows-an-address", ChapterFailed, r"cell 1: an output holds an object's address"),
    ("skips-a-cell", ChapterFailed, r"cell 1: a cell never ran"),
]
PASSING = ["records-values", "records-values-again", "stderr-allowed-by-tag", "cells-without-ids", "surroundings"]
FILES = {"records-values-again": "records-values", "surroundings": "tells-its-surroundings"}


@pytest.fixture(scope="module")
def startup(tmp_path_factory):
    """A start-up file of whoever runs the suite, which no kernel may read."""
    path = tmp_path_factory.mktemp("startup") / "startup.py"
    path.write_text("raise RuntimeError('a start-up file was run')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONSTARTUP", str(path))
        yield path


@pytest.fixture(scope="module")
def outcomes(startup, tmp_path_factory):
    """Every notebook executed once, two at a time: name -> Executed or the error."""
    waiting = [name for name, *_ in FAILING] + PASSING
    running, idle, out = {}, [], {}
    while waiting or running:
        while waiting and len(running) < 2:
            name = waiting.pop(0)
            running[name] = Execution(
                NOTEBOOKS / f"{FILES.get(name, name)}.ipynb",
                {"split": "demo", "source": str(tmp_path_factory.mktemp("s"))},
                workdir=tmp_path_factory.mktemp(name),
                timeout=4 if name == "loops-for-ever" else 60,
                worker=idle.pop() if idle else None,
            )
        for name in [name for name, execution in running.items() if execution.done()]:
            try:
                out[name] = running[name].result()
            except TraceAuditError as error:
                out[name] = error
            if worker := running.pop(name).close(keep_worker=True):
                idle.append(worker)
        time.sleep(0.02)
    for worker in idle:
        worker.kill()
    return out


@pytest.mark.parametrize(("name", "kind", "says"), FAILING, ids=[row[0] for row in FAILING])
def test_what_papermill_lets_pass_is_an_error(name, kind, says, outcomes):
    error = outcomes[name]
    assert isinstance(error, kind), error
    assert re.search(says, str(error)), str(error)
    assert str(error).startswith(name)  # the chapter's name comes first
    assert error.exit_code == 1


def test_a_chapter_gives_values_findings_and_provenance(outcomes):
    got = outcomes["records-values"]
    assert {name: value.shown for name, value in got.values.items()} == {
        "errors": "1,234",
        "share": "0.250",
        "label": "demo | *of* all",
    }
    assert got.values["label"].traces == "abc" and got.values["errors"].measure == "count_errors"
    assert got.findings["P1"].values == ("errors",)
    assert got.provenance == {"engine": "independent"}  # a parameter not given keeps its default


def test_equal_inputs_give_equal_bytes(outcomes):
    # two runs, in two directories, with two source paths
    assert outcomes["records-values"].page == outcomes["records-values-again"].page


def test_nothing_of_the_run_is_left(outcomes):
    page = outcomes["records-values"].page.decode()
    assert "papermill" not in page and "iopub" not in page and "/tmp" not in page
    assert '"version"' not in page
    notebook = outcomes["records-values"].notebook
    (injected,) = [c for c in notebook.cells if "injected-parameters" in c.metadata.get("tags", [])]
    assert injected.id == "injected-parameters"
    assert {"remove-cell", "hide-cell"} <= set(injected.metadata["tags"])
    assert injected.source == "#| include: false\nsource = '(a path)'\nsplit = 'demo'"
    nbformat.validate(notebook)


def test_inline_values_are_filled_in(outcomes):
    prose = next(cell.source for cell in outcomes["records-values"].notebook.cells if cell.cell_type == "markdown")
    assert 'Of <span class="value" data-name="errors">1,234</span> errors' in prose
    row = prose.splitlines()[-1]
    assert row.count("|") == 3 and "*of*" not in row  # the text's own bar and asterisks cannot break the table
    assert "{python}" not in prose


def test_a_kernel_has_our_interpreter_and_a_directory_of_its_own(outcomes):
    values = outcomes["surroundings"].values
    assert values["executable"].raw == sys.executable
    assert values["files"].raw == "" and values["startup"].raw == ""


def test_a_tag_allows_stderr(outcomes):
    assert not isinstance(outcomes["stderr-allowed-by-tag"], Exception)


def test_cells_without_ids_get_the_same_ones_each_time(outcomes):
    assert [cell.id for cell in outcomes["cells-without-ids"].notebook.cells] == [
        "cell-0",
        "injected-parameters",
        "cell-1",
        "cell-2",
    ]


def test_no_kernel_is_left_behind(outcomes):
    ours = [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    assert not [p for p in ours if "ipykernel" in " ".join(p.cmdline())]


@pytest.mark.parametrize(
    ("notebook", "parameters", "kind", "says"),
    [
        ("records-values", {"splitt": "demo"}, UsageError, r"found: splitt"),  # mistyped: papermill only warns
        ("records-values", {"splitt": "demo"}, UsageError, r"expected: split, source, engine"),  # and the known ones
        ("records-values", {"split": object()}, UsageError, "plain data"),
        ("no-parameters-cell", {}, ChapterFailed, "exactly one code cell tagged `parameters`"),
        ("absent", {}, UsageError, "no such chapter"),
    ],
)
def test_wrong_calls_are_refused_before_anything_runs(notebook, parameters, kind, says, tmp_path):
    with pytest.raises(kind, match=says):
        execute(NOTEBOOKS / f"{notebook}.ipynb", parameters, workdir=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"nbformat": 3, "cells": []}', '{"nbformat": 4, "cells": [{}]}'])
def test_a_file_that_is_no_notebook_is_refused(content, tmp_path):
    (tmp_path / "torn.ipynb").write_text(content)
    with pytest.raises(ChapterFailed, match=r"torn\.ipynb: the chapter is not a notebook"):
        read_source(tmp_path / "torn.ipynb")


def test_another_interpreter_is_noticed(tmp_path):
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    with pytest.raises(ChapterFailed, match="another interpreter"):
        execute(NOTEBOOKS / "cells-without-ids.ipynb", {}, workdir=tmp_path / "w", python=str(other))


def test_a_worker_that_dies_is_an_error_that_says_so(tmp_path):
    execution = Execution(NOTEBOOKS / "takes-its-time.ipynb", {"seconds": 60}, workdir=tmp_path)
    psutil.Process(execution.worker.pid).kill()
    while not execution.done():
        time.sleep(0.01)
    with pytest.raises(WorkerFailed, match=r"takes-its-time: the worker ended without a report[\s\S]*memory"):
        execution.result()
    execution.close()


def test_a_worker_ends_when_nobody_holds_its_input(tmp_path):
    execution = Execution(NOTEBOOKS / "takes-its-time.ipynb", {"seconds": 60}, workdir=tmp_path)
    worker = psutil.Process(execution.worker.pid)
    deadline = time.monotonic() + 30
    while not (kernels := worker.children(recursive=True)) and time.monotonic() < deadline:
        time.sleep(0.05)
    execution.worker._process.stdin.close()  # as when the build is killed
    execution.worker._process.wait(timeout=10)
    psutil.wait_procs(kernels, timeout=10)
    assert not [kernel for kernel in kernels if kernel.is_running() and kernel.status() != psutil.STATUS_ZOMBIE]
    execution.close()


VALUES = {"a": Value("a", 1, "1"), "b_2": Value("b_2", 2, "<2>|3")}
A = '<span class="value" data-name="a">1</span>'
INLINE = [
    ("`{python} v.a`", A),
    ("`{python} v[\"a\"]` and `{python} v['a']`", f"{A} and {A}"),
    ("`{python}  v.a `", A),  # blanks
    ("x `code` `{python} v.a` `more`", f"x `code` {A} `more`"),  # between other code
    ("```\n`{python} v.a`\n```\n`{python} v.a`", f"```\n`{{python}} v.a`\n```\n{A}"),  # fenced code is left alone
    ("~~~~ md\n```\n`{python} v.x`\n~~~\n~~~~", None),  # a fence closes with its own kind and length only
    ("> ```\n> `{python} v.x`\n> ```\n\n`{python} v.a`", f"> ```\n> `{{python}} v.x`\n> ```\n\n{A}"),  # quoted fence
    ("`` `{python} v.x` ``", None),  # a longer code span shows the form itself
    ("\\`{python} v.x`", None),  # an escaped backtick opens nothing
    ("`python v.x`", None),
    ("```not a fence``` `{python} v.a`", f"```not a fence``` {A}"),
]


@pytest.mark.parametrize(("source", "filled"), INLINE)
def test_the_inline_form(source, filled):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(source)])
    fill_inline(notebook, VALUES, "chapter")
    assert notebook.cells[0].source == (source if filled is None else filled)


@pytest.mark.parametrize("expression", ["v.unknown", "v.a + 1", "len(v)", "w.a", "v.a.raw", "", "v[0]"])
def test_prose_may_name_recorded_values_only(expression):
    source = f"# Title\n\ntext `{{python}} {expression}`"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(source)])
    with pytest.raises(GuardFailed, match="chapter, cell 0, line 3"):
        fill_inline(notebook, VALUES, "chapter")


def test_markup_in_a_value_is_text_in_prose():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("| `{python} v.b_2` |")])
    fill_inline(notebook, VALUES, "chapter")
    assert notebook.cells[0].source.count("|") == 2 and "<2>" not in notebook.cells[0].source


def test_inline_spans_tell_their_place():
    assert [(line, name) for _, _, line, name, _ in inline_spans("one\n`{python} v.a` `{python} v.b_2`")] == [
        (2, "a"),
        (2, "b_2"),
    ]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("split = 'demo'\nsource = ''", ["split", "source"]),
        ("# a comment\nsplit: str = 'demo'  # typed", ["split"]),
        ("a = b = 1", ["a", "b"]),
        ("import os", []),
    ],
)
def test_parameters_are_what_the_cell_assigns(source, names):
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]})
    assert parameter_names(nbformat.v4.new_notebook(cells=[cell]), "chapter") == names


def test_a_parameters_cell_that_is_no_python_is_an_error():
    cell = nbformat.v4.new_code_cell("split =", metadata={"tags": ["parameters"]})
    with pytest.raises(ChapterFailed, match="chapter, cell 0"):
        check_parameters(nbformat.v4.new_notebook(cells=[cell]), {}, "chapter")


def test_notebooks_for_tests_are_stored_in_the_one_byte_form():
    for path in NOTEBOOKS.glob("*.ipynb"):
        if path.stem != "cells-without-ids":
            assert to_bytes(read_source(path)) == path.read_bytes(), path.name
