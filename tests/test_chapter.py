"""A chapter at work: what is measured, what is recalled, and that nothing is lost on its way into the notebook."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, field

import nbformat
import pytest
from nbclient import NotebookClient

from traceaudit import records, stored
from traceaudit.chapter import EMITTED, FINDING_MIME, PROVENANCE_MIME, Chapter
from traceaudit.claims import Finding, Verdict
from traceaudit.errors import NothingToCheck, PinMismatch, ValueProblem
from traceaudit.notebooks import check_ran, collect
from traceaudit.records import Record
from traceaudit.values import MIME, Value, count, measure, text

from .kernels import LocalKernel

NAME, SPLIT = "a-chapter", "gaia"


@dataclass
class Study:
    """What the core asks of a study."""

    has: frozenset[str] = frozenset({"gold", "traces"})
    lacks: dict[str, str] = field(default_factory=dict)
    split: str = SPLIT
    source: str = "folder"
    traces_digest: str = "set-a"
    wrong: int = 0

    def provenance(self):
        return {"engine": "independent", "source": self.source}


@measure(needs={"gold"})
def of_gold(study):
    yield count("errors", 12 + study.wrong, "errors", n=12, dropped={"torn": 1})
    yield Finding("P1", Verdict.VIOLATED, "by 12", ("errors",))


@measure(needs={"gold", "traces"})
def of_traces(study):
    yield count("spans", 40, "spans")


@measure()
def of_pins(study):
    yield text("commit", "abc")


@measure(needs={"traces"})
def never_recorded(study):
    yield count("late", 1, "traces")


@measure()
def errors_again(study):
    yield count("errors", 12, "errors")


@measure()
def finding_again(study):
    yield Finding("P1", Verdict.HELD, "none")


RECORDED = (of_gold, of_traces, of_pins)


@pytest.fixture
def root(tmp_path):
    """A project with the record of the chapter, made by another engine, and its digest."""
    items = [item for each in RECORDED for item in each(Study())]
    record = Record(
        NAME,
        SPLIT,
        provenance={"engine": "upstream", "source": "git repository"},
        values={item.name: item for item in items if isinstance(item, Value)},
        findings={item.id: item for item in items if isinstance(item, Finding)},
    )
    path = records.path_of(NAME, SPLIT, tmp_path)
    records.save(record, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / stored.DIGESTS).write_bytes(stored.dump_digests({path.name: digest}))
    return tmp_path


@pytest.fixture
def emitted(monkeypatch):
    """The display outputs of the test, as (MIME type, data, plain text)."""
    out: list[tuple] = []
    monkeypatch.setattr("traceaudit.chapter.emit", lambda *parts: out.append(parts))
    return out


# what the study has -> mode of the chapter, measures recalled, engine of the provenance
MODES = [
    ({"gold", "traces"}, "measured", (), "independent"),
    ({"gold", "traces", "more"}, "measured", (), "independent"),
    ({"gold"}, "partly recalled", ("of_traces",), "independent"),
    ({"traces"}, "recalled", ("of_gold", "of_traces"), "upstream"),  # one need of two is not enough
    (set(), "recalled", ("of_gold", "of_traces"), "upstream"),  # what needs nothing is measured and does not count
]


@pytest.mark.parametrize(("has", "mode", "recalled", "engine"), MODES)
def test_what_the_study_lacks_is_recalled(has, mode, recalled, engine, root, emitted):
    chapter = Chapter(NAME, Study(frozenset(has)), root=root)
    chapter.measure(*RECORDED)
    chapter.close()
    assert (chapter.mode, chapter.recalled) == (mode, recalled)
    modes = {value.name: value.mode for value in chapter.values} | {"P1": chapter.findings["P1"].mode}
    said = {measure: "recalled" if measure in recalled else "measured" for measure in ("of_gold", "of_traces")}
    assert modes == {
        "errors": said["of_gold"],
        "P1": said["of_gold"],
        "spans": said["of_traces"],
        "commit": "measured",
    }
    assert chapter.provenance()["engine"] == engine
    assert [mime for mime, _, _ in emitted] == [MIME, FINDING_MIME, MIME, MIME, PROVENANCE_MIME]
    assert [data["mode"] for _, data, _ in emitted[:-1]] == [
        modes[name] for name in ("errors", "P1", "spans", "commit")
    ]
    assert emitted[-1][1] == {**chapter.provenance(), EMITTED: 4}


def test_a_page_shows_the_same_in_every_mode(root, emitted):
    shown = []
    for has in (frozenset({"gold", "traces"}), frozenset()):
        chapter = Chapter(NAME, Study(has), root=root)
        chapter.measure(*RECORDED)
        shown.append([item.as_json() for item in (*chapter.values, *chapter.findings.values())])
    assert shown[0] == shown[1]


def test_what_is_recalled_partly_says_whose_record_it_is(root, emitted):
    chapter = Chapter(NAME, Study(frozenset({"gold"})), root=root)
    chapter.measure(*RECORDED)
    assert chapter.provenance()["recalled"] == {
        "measures": "of_traces",
        "engine": "upstream",
        "source": "git repository",
    }


def test_what_is_measured_is_not_the_record(root, emitted):
    chapter = Chapter(NAME, Study(wrong=1), root=root)
    chapter.measure(of_gold)
    assert chapter.values.errors.raw == 13


def test_a_value_of_traces_carries_the_set_it_was_measured_on(root, emitted):
    chapter = Chapter(NAME, Study(traces_digest="set-b"), root=root)
    chapter.measure(*RECORDED)
    assert {value.name: value.traces for value in chapter.values} == {"errors": None, "spans": "set-b", "commit": None}
    recalled = Chapter(NAME, Study(frozenset(), traces_digest="set-b"), root=root)
    recalled.measure(*RECORDED)
    assert recalled.values.spans.traces == "set-a"  # the record's own


def test_without_source_and_record_there_is_nothing_to_show(root, emitted):
    for name, split in ((NAME, "swe-bench"), ("another", SPLIT)):
        study = Study(frozenset(), {"gold": "no gold is here", "traces": "nor a trace"}, split=split)
        with pytest.raises(NothingToCheck, match="cannot be measured here and no record") as caught:
            Chapter(name, study, root=root).measure(of_gold)
        assert caught.value.where == f"{name}, {split}"
        assert caught.value.got == "no gold is here; nor a trace"
    assert emitted == []


def test_the_record_is_not_even_read_where_all_is_measured(root, emitted):
    records.path_of(NAME, SPLIT, root).write_text("{")
    chapter = Chapter(NAME, Study(), root=root)
    chapter.measure(*RECORDED)
    assert chapter.mode == "measured"


def test_a_measure_the_record_does_not_know_is_not_recalled_as_nothing(root, emitted):
    chapter = Chapter(NAME, Study(frozenset()), root=root)
    with pytest.raises((NothingToCheck, ValueProblem)):
        chapter.measure(never_recorded)


def changed(content: bytes) -> bytes:
    return content.replace(b'"raw": 12', b'"raw": 11').replace(b'"shown": "12"', b'"shown": "11"')


# what was done to the record or the list of digests -> words of the error
TAMPERED = [
    (lambda path: path.write_bytes(changed(path.read_bytes())), "differs from its digest"),  # another result
    (lambda path: path.write_bytes(path.read_bytes() + b" "), "differs from its digest"),  # one byte, same content
    (lambda path: path.with_name("digests.toml").unlink(), "differs from its digest"),  # no list
    (lambda path: path.with_name("digests.toml").write_text("[sha256]\n"), "none listed"),  # not in the list
    (lambda path: path.with_name("digests.toml").write_text("x = 1\n"), "the list of records cannot be read"),
    (lambda path: path.write_text("{}"), "lacks a field"),  # no record at all
    (lambda path: path.write_text("{"), "not strict JSON"),  # torn
]


@pytest.mark.parametrize(("tamper", "words"), TAMPERED)
def test_a_tampered_record_is_not_shown(tamper, words, root, emitted):
    tamper(records.path_of(NAME, SPLIT, root))
    with pytest.raises(PinMismatch, match=words):
        Chapter(NAME, Study(frozenset()), root=root).measure(of_gold)
    assert emitted == []


# measures -> words of the error
DOUBLED = [
    ((of_gold, of_gold), "a value of this name is recorded already"),  # the same twice
    ((of_gold, errors_again), "a value of this name is recorded already"),  # equal, and still a second one
    ((of_gold, finding_again), "a finding of this claim is recorded already"),
]


@pytest.mark.parametrize("has", [frozenset({"gold"}), frozenset()])
@pytest.mark.parametrize(("measures", "words"), DOUBLED)
def test_a_name_is_recorded_once(measures, words, has, root, emitted):
    with pytest.raises(ValueProblem, match=words):
        Chapter(NAME, Study(has), root=root).measure(*measures)


def test_an_unknown_value_is_an_error_and_names_what_is_near(root, emitted):
    chapter = Chapter(NAME, Study(), root=root)
    chapter.measure(of_gold)
    with pytest.raises(ValueProblem, match="errors") as caught:
        _ = chapter.values.errorss
    assert caught.value.where == "errorss"


# ------------------------------------------------------------------------------------- outputs that were lost


def notebook(chapter, emitted) -> nbformat.NotebookNode:
    """The executed notebook of a chapter whose outputs were caught."""
    outputs = [
        nbformat.v4.new_output("display_data", {mime: data, "text/plain": plain}) for mime, data, plain in emitted
    ]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("…", execution_count=1, outputs=outputs)])


# what is done to the outputs of a chapter with three values and a finding -> words of the error, None for none
LOST = [
    (lambda outputs: outputs, None),
    (lambda outputs: [*outputs[:2], *outputs[3:]], "expected: 4 values and findings"),  # a value in the middle
    (lambda outputs: [*outputs[:2], outputs[-1]], "found: 2"),  # two of them
    (lambda outputs: outputs[1:], "outputs were lost"),  # one that a finding rests on
    (lambda outputs: [outputs[0], *outputs[2:]], "were lost on their way"),  # the finding
    (lambda outputs: [outputs[-1]], "found: 0"),  # all of them
    (lambda outputs: [outputs[0], *outputs], "recorded twice"),  # one came twice
    (lambda outputs: [*outputs, outputs[-1]], "the provenance is recorded twice"),
    (lambda outputs: outputs[:-1], None),  # no provenance, so nobody says how many there were
]


@pytest.mark.parametrize(("lose", "words"), LOST)
def test_outputs_that_were_lost_are_noticed(lose, words, root, emitted):
    chapter = Chapter(NAME, Study(), root=root)
    chapter.measure(*RECORDED)
    chapter.close()
    emitted[:] = lose(list(emitted))
    executed = notebook(chapter, emitted)
    if words is not None:
        with pytest.raises(ValueProblem, match=words):
            collect(executed, NAME)
        return
    values, findings, provenance = collect(executed, NAME)
    assert list(values) == ["errors", "spans", "commit"] and list(findings) == ["P1"]
    assert EMITTED not in provenance  # a guard of the way, not of the record


MANY = """
from traceaudit.chapter import Chapter
from traceaudit.values import count, measure

class Study:
    split, source, has, lacks = "gaia", "folder", frozenset(), {}
    def provenance(self):
        return {"engine": "independent"}

@measure()
def many(study):
    for n in range(5000):
        yield count(f"value_{n}", n, "x" * 2000)

chapter = Chapter("a-chapter", Study())
chapter.measure(many)
chapter.close()
"""


class Slow(NotebookClient):
    """A client that is busy with something else while the kernel writes."""

    waited = False

    def process_message(self, *message, **more):
        if not self.waited and message[0]["msg_type"] == "display_data":
            self.waited = True
            time.sleep(2)
        return super().process_message(*message, **more)


def test_five_thousand_values_of_one_cell_leave_the_kernel(tmp_path):
    """A kernel drops outputs, silently, once a thousand are waiting; ours must not."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(MANY)])
    client = Slow(
        made,
        timeout=60,
        iopub_timeout=20,
        raise_on_iopub_timeout=True,
        kernel_name="python3",
        kernel_manager_class=LocalKernel,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute(env=dict(os.environ))
    check_ran(made, NAME)
    values, _, provenance = collect(made, NAME)
    assert [value.raw for value in values.values()] == list(range(5000))
    assert provenance == {"engine": "independent"}
