"""Guards: each row is one sentence, cell or citation, and whether it breaks a rule."""

from __future__ import annotations

import hashlib
from pathlib import Path

import nbformat
import pytest

from traceaudit.errors import GuardFailed
from traceaudit.guards import (
    Problem,
    check_inline_names,
    check_lines,
    check_prose,
    check_shown,
    check_stripped,
    check_text,
    names_shown,
    raise_if,
    recorded_integers,
)
from traceaudit.notebooks import read_source
from traceaudit.values import Value

NOTEBOOKS = Path(__file__).parent / "data" / "notebooks"
RECORDED = {1234, 148, 30}


def markdown(*sources: str):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(source) for source in sources])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It scores 0.973 on all.", "a decimal number is typed: 0.973"),
        ("It scores .973 on all.", "a decimal number is typed: .973"),
        ("It is 12.3x as long.", "a decimal number is typed: 12.3"),
        ("About 11 percent agree.", "a percentage is typed: 11 percent"),
        ("About 11% agree.", "a percentage is typed: 11%"),
        ("About 8 per cent agree.", "a percentage is typed: 8 per cent"),
        ("About 12.5 % agree.", "a percentage is typed: 12.5 %"),
        ("There are 148 traces.", "a recorded number is typed: 148"),
        ("There are 1234 errors.", "a recorded number is typed: 1234"),
        ("There are 1,234 errors.", "a recorded number is typed: 1,234"),
        ("There are 1\u2009234 errors.", "a recorded number is typed: 1\u2009234"),  # a thin space
        ("There are 1_234 errors.", "a recorded number is typed: 1_234"),
        ("| traces | 148 |", "a recorded number is typed: 148"),  # a table
        ("# All 148 traces", "a recorded number is typed: 148"),  # a heading
        ("**148**", "a recorded number is typed: 148"),
        ("Table 5 and 148 traces", "a recorded number is typed: 148"),  # what follows a place is no place
        ("[148 traces](traces.html)", "a recorded number is typed: 148"),  # the text of a link is prose
        ("<b>148</b>", "a recorded number is typed: 148"),  # the text of markup is prose
        ("<!-- generated:x -->\n148", "a recorded number is typed: 148"),  # a block that is not closed
        ("There are 149 traces.", None),  # not recorded
        ("There are 9 claims and 3 splits.", None),  # up to nine
        ("```\n0.973\n```", None),  # fenced code
        ("Run `make -j 0.5` or ``148``.", None),  # code
        ("[a](page-148.html) <https://x.org/0.5> https://x.org/148", None),  # addresses
        ("[a]: https://x.org/148", None),
        ("<img width='148' alt='x'>", None),  # attributes
        ("<!-- 0.973 and\n148 -->", None),  # comments
        ("<!-- generated:headline -->\n0.973, 148, 11 %\n<!-- /generated -->", None),  # generated blocks
        ("`{python} v.joint`", None),  # inline values are code
        ("P1, W11, F1, F30, SHA-256, UTF-8, GPT-4.1, W148", None),  # identifiers
        ("Fixed on 2026-08-27, since 2026-08.", None),  # dates
        ("See arXiv:2505.08638 and 10.1000/182.5.", None),
        ("Python 3.11, Python ≥ 3.11, Python 3.11+, Quarto 1.11, version 2.7.0, v0.5.4", None),  # versions
        ("Table 1, Table 5.30, Figure 30, section 2.3, § 4.2, page 148, pp. 12-30, p. 30", None),  # places
        ("lines 119-148, line 30, seed 30, issue #148, exit code 64", None),
        ("commit 148abcd and digest e27721ff…", None),  # digests
        ("30. the thirtieth\n> 30) the same", None),  # numbering of lists
        ("&#30; &#148;", None),  # entities
    ],
)
def test_numbers_in_prose(text, found):
    got = check_text("README.md", text, RECORDED)
    assert [problem.what for problem in got] == ([] if found is None else [found])


def test_a_typed_number_is_found_where_it_stands():
    text = "one\n\n<!-- two\nlines -->\n\n```\n0.5\n```\nhere 0.5"
    (problem,) = check_text("README.md", text, set())
    assert str(problem) == "README.md, line 9: a decimal number is typed: 0.5"
    (problem,) = check_prose("chapters/x.ipynb", markdown("one", "There are\n148."), [Value("n", 148, "148")])
    assert (problem.cell, problem.line) == (1, 2)


def test_what_counts_as_recorded():
    values = [
        Value("a", 1234, "1,234"),
        Value("b", 0.5, "0.500"),  # a decimal number is found anyway
        Value("c", 30.0, "30"),  # a whole float
        Value("d", "x", "148 of 2,000"),  # within shown text
        Value("e", 7, "7"),  # too small to be a result
        Value("f", True, "yes"),
        Value("g", None, "undefined"),
        Value("h", -55, "-55"),
    ]
    assert recorded_integers(values) == {1234, 30, 148, 2000, 55}


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_notebooks_of_the_tests_are_stripped(path):
    assert not check_stripped(path.name, read_source(path))


def code(**more):
    return {"cell_type": "code", "metadata": {}, "source": "1", "outputs": [], "execution_count": None, **more}


@pytest.mark.parametrize(
    ("notebook", "found"),
    [
        ({"metadata": {}, "cells": [code()]}, None),
        ({"metadata": {"kernelspec": {}}, "cells": [code(metadata={"tags": ["parameters"]})]}, None),
        ({"metadata": {}, "cells": [code(outputs=[{}])]}, "x.ipynb, cell 0: the source holds outputs"),
        ({"metadata": {}, "cells": [code(execution_count=1)]}, "x.ipynb, cell 0: the source holds an execution count"),
        ({"metadata": {"papermill": {}}, "cells": []}, "x.ipynb: the notebook's metadata holds papermill"),
        ({"metadata": {"widgets": {}}, "cells": []}, "x.ipynb: the notebook's metadata holds widgets"),
        (
            {"metadata": {}, "cells": [code(metadata={"execution": {}})]},
            "x.ipynb, cell 0: the source holds metadata.execution",
        ),
        (
            {"metadata": {}, "cells": [code(metadata={"tags": ["injected-parameters"]})]},
            "x.ipynb, cell 0: the source holds parameters of a run",
        ),
        (
            {"metadata": {}, "cells": [code(metadata={"tags": ["papermill-error-cell-tag"]})]},
            "x.ipynb, cell 0: the source holds a mark of a failed run",
        ),
    ],
)
def test_sources_are_stripped(notebook, found):
    assert [str(problem) for problem in check_stripped("x.ipynb", notebook)] == ([] if found is None else [found])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`{python} v.a`", []),
        ('`{python} v["a"]`', []),
        ("one\n`{python} v.b`", ["x.ipynb, cell 0, line 2: no value is recorded for `{python} v.b`"]),
        ("`{python} v.a + 1`", ["x.ipynb, cell 0, line 1: no value is recorded for `{python} v.a + 1`"]),
        ("```\n`{python} v.b`\n```", []),
    ],
)
def test_every_name_in_prose_is_recorded(text, found):
    assert [str(problem) for problem in check_inline_names("x.ipynb", markdown(text), ["a"])] == found


def page(*shown: str):
    notebook = markdown("prose " + " ".join(shown[:1]))
    for index, (kind, text) in enumerate(zip(["text/html", "text/markdown", "text/plain"], shown[1:], strict=False)):
        output = nbformat.v4.new_output("display_data", data={kind: text})
        notebook.cells.append(nbformat.v4.new_code_cell("", outputs=[output], execution_count=index))
    return notebook


A, B, C = (f'<span class="value" data-name="{name}">1</span>' for name in "abc")


@pytest.mark.parametrize(
    ("notebook", "names", "found"),
    [
        (page(A, B, C), ["a", "b", "c"], []),  # in prose, in HTML, in Markdown
        (page(A, "<td data-name='b'>1</td>"), ["a", "b"], []),  # any element, either quote
        (page(A, B), ["a"], ["x.ipynb, cell 1: a value is shown that is not recorded: b"]),
        (page(A), ["a", "b"], ["x.ipynb: a recorded value is nowhere shown: b"]),
        (page("", "", "", A), ["a"], ["x.ipynb: a recorded value is nowhere shown: a"]),  # text/plain is not shown
    ],
)
def test_shown_and_recorded_are_the_same(notebook, names, found):
    assert [str(problem) for problem in check_shown("x.ipynb", notebook, names)] == found


def test_names_shown_are_read_from_notebooks_on_disk_too():
    cell = {"cell_type": "markdown", "source": ["one\n", A]}  # lines, as in the file
    output = {"data": {"text/html": ["<p>", B, "</p>"]}}
    notebook = {"cells": [cell, {"cell_type": "code", "source": [], "outputs": [output]}]}
    assert names_shown(notebook) == [(0, "a"), (1, "b")]


SOURCE = b"import json\n\ndef joint(a):\n    return a / b  # cited\n"
DIGEST = hashlib.sha256(b"return a / b  # cited").hexdigest()
ROW = {"name": "division", "number": 4, "digest": DIGEST}


@pytest.mark.parametrize(
    ("rows", "source", "found"),
    [
        ([ROW], SOURCE, None),
        ([ROW], None, None),  # without the bytes the row itself is well formed
        ([ROW], SOURCE.replace(b"\n", b"\r\n"), None),  # line ends are white space too
        ([ROW], SOURCE.replace(b"a / b", b"a / c"), "line 4 is another"),  # one changed byte
        ([{**ROW, "number": 3}], SOURCE, "that line is now line 4"),  # a wrong number
        ([{**ROW, "number": 40}], SOURCE, "line 40 does not exist; the cited file has 5"),
        ([{**ROW, "number": 0}], None, "no line number"),
        ([{**ROW, "number": True}], None, "no line number"),
        ([{**ROW, "digest": DIGEST.upper()}], None, "no SHA-256"),
        ([{**ROW, "digest": DIGEST[:12]}], None, "no SHA-256"),
        ([{**ROW, "name": "Two words"}], None, "no lower-case identifier"),
        ([ROW, ROW], None, "the name occurs twice"),
        ([{**ROW, "text": "return"}], None, "the fields are not name, number and digest"),  # the line is not ours
        ([{"name": "x"}], None, "the fields are not name, number and digest"),
    ],
)
def test_cited_lines(rows, source, found):
    got = [problem.what for problem in check_lines("trail-lines.toml", rows, source)]
    assert len(got) == (found is not None)
    assert found is None or found in got[0]


def test_problems_end_in_one_error():
    raise_if([])
    problems = [
        Problem("a.md", "one", line=1, next_step="mend it"),
        Problem("b.ipynb", "two", cell=2, next_step="mend it"),
    ]
    with pytest.raises(GuardFailed) as caught:
        raise_if(problems)
    assert str(caught.value) == (
        "2 rules of the report broken\n  a.md, line 1: one\n  b.ipynb, cell 2: two\n  next: mend it"
    )
    assert caught.value.exit_code == 1
