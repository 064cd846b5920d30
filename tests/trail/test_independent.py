"""The parts of the independent engine alone: extraction, the typed decoder, the normaliser, cost, imports."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceaudit.trail import documents, hostile
from traceaudit.trail.documents import Sides, load_reply, load_reply_exactly, sides
from traceaudit.trail.extraction import extract, reply_text
from traceaudit.trail.normaliser import Normaliser

MANY = settings(max_examples=400, deadline=None)


def cut_by_cut(text):
    """The slow way to find the object: whole piece first, then shorter and shorter ones, three characters at least."""
    start, stop = text.find("{"), text.rfind("}") + 1
    piece = text[start:stop] if 0 <= start < stop else ""
    if not piece:
        raise ValueError("no braces")
    for size in [len(piece), *range(len(piece), 2, -1)]:
        try:
            return json.loads(piece[:size])
        except json.JSONDecodeError:
            continue
    raise ValueError("nothing parses")


def answer(function, argument):
    """Comparable: the type of the exception, or how the result looks (NaN looks like NaN)."""
    try:
        return repr(function(argument))
    except (ValueError, RecursionError) as error:
        return type(error).__name__


TEXTS = [
    '{"a": 1}',  # whole
    '{"a": 1}}',  # one brace too many
    '{"a": 1} }',  # white space before it
    '{"a": 1} x {y}',  # prose with braces behind
    '{x} {"a": 1}',  # prose with braces in front: nothing
    "{}",  # two characters, whole
    "{}}",  # two characters, cut: not found
    "{} }",  # the third is white space: found
    "{}\r}",  # carriage return counts as white space
    "{}\x0c}",  # form feed does not
    "{}\u00a0}",  # nor a no-break blank
    "{ }}",  # three characters, cut: found
    "} {",  # the wrong way round
    "",  # nothing
    "[]",  # no brace
    '{"a": NaN, "b": -Infinity}',  # constants
    '{"a": 1, "a": 2}',  # duplicate key
    '{"a": "\\ud800"}',  # lone surrogate
    '{"a": "\n"}',  # control character
    '{"a": "}"}}',  # brace inside a text
    '{"a": "}',  # torn inside a text
    '{"a": ' + "1" * 4300 + "}",  # as many digits as allowed
    '{"a": ' + "1" * 4301 + "}",  # one too many
    '{"a": ' + "1" * 4301 + " !}",  # the same before a tear
    '{"a": ! ' + "1" * 4301 + "}",  # and behind one
    '{"a": ' + "1" * 4301 + ".5}",  # a real number may be long
    '{"a": ' + "1" * 4301 + ".5 !}",  # but a cut makes an integer of it
    '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",  # too deep
    '{"a": ' + "[" * 100_000 + "}",  # too deep and torn
    '{"a": 1} ' + "[" * 100_000 + "}",  # deep only behind the object
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:24])
def test_extraction_by_hand(text):
    assert answer(extract, text) == answer(cut_by_cut, text)


@MANY
@given(st.text(alphabet='{}[]",: \n a1', max_size=40))
def test_extraction_of_noise(text):
    assert answer(extract, text) == answer(cut_by_cut, text)


@st.composite
def mutated(draw):
    """JSON with a few characters taken out, doubled or replaced, and noise around it."""
    text = st.text(alphabet='a{}"\\\u00e9\ud800', max_size=4)
    values = st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), text),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
        max_leaves=8,
    )
    text = json.dumps({"errors": draw(values)}, indent=draw(st.sampled_from([None, 1])))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        change = draw(st.sampled_from(["", "}", "{", " ", '"', ",", "]", "\r"]))
        text = text[:at] + change + text[at + draw(st.integers(0, 1)) :]
    noise = st.text(alphabet='{} x}\n"', max_size=5)
    return draw(noise) + text + draw(noise)


@MANY
@given(mutated())
def test_extraction_of_mutated_json(text):
    assert answer(extract, text) == answer(cut_by_cut, text)


def test_extraction_takes_linear_time():
    """A megabyte that does not parse: the slow way would need a million parses of it."""
    text = '{"a": "' + "}" * 1_000_000
    start = time.perf_counter()
    with pytest.raises(ValueError, match="no prefix"):
        extract(text)
    assert time.perf_counter() - start < 5


@MANY
@given(st.binary(max_size=30) | st.text(alphabet="a\r\n\u00e9\ufeff", max_size=20).map(str.encode))
def test_text_is_what_open_reads(data):
    """Decoding and line ends as for a file in text mode."""
    import io

    def read(raw):
        with io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8") as file:
            return file.read()

    assert answer(reply_text, data) == answer(read, data)


FIELDS = ["category", "location", "evidence", "description", "impact"]


@st.composite
def reply_bytes(draw):
    """Replies near the edge of the typed decoder: its fields, a foreign one now and then, escapes, broken bytes."""
    text = st.text(alphabet='ab \\"/\u00e9\u2028\U0001f600\ud800\x7f', max_size=4) | st.none()
    value = st.one_of(text, text, text, text, st.sampled_from([1, 2.5, [], {}, True]))
    key = st.sampled_from([*FIELDS, *FIELDS, "extra", "Category"] if draw(st.integers(0, 3)) == 0 else FIELDS)
    errors = draw(st.lists(st.lists(st.tuples(key, value), max_size=4), max_size=4))
    ascii_only = draw(st.booleans())
    pad = draw(st.sampled_from(["", " ", "\r\n", "\t"]))

    def dumps(part):
        return json.dumps(part, ensure_ascii=ascii_only)

    items = [f"{{{pad}" + f",{pad}".join(f"{dumps(k)}:{pad}{dumps(v)}" for k, v in error) + "}" for error in errors]
    body = f'{{{pad}"errors":{pad}[' + f",{pad}".join(items) + f"]{pad}}}"
    if draw(st.booleans()):
        body = body.replace("a", "\\u0061", draw(st.integers(1, 3)))
    data = body.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(data)))
        change = draw(st.sampled_from([b"\xff", b"\xc3", b"\n", b"\x00", b",", b"}", b"\\", b"1"]))
        data = data[:at] + change + data[at:]
    around = st.sampled_from([b"", b"", b"x", b"\xef\xbb\xbf", b"\xff", b"```json\n", b" }", b"{"])
    return draw(around) + data + draw(around)


def both_ways(data):
    """The answers of the typed and of the exact path, in one form, and whether the typed one was taken."""

    def form(load):
        try:
            found = load(data)
            found = found if isinstance(found, Sides) else sides(found)
        except Exception as error:
            return type(error).__name__
        return repr((found.categories, found.locations, found.document.get("scores") or None))

    try:
        typed = isinstance(load_reply(data), Sides)
    except (ValueError, RecursionError):
        typed = False
    return form(load_reply), form(load_reply_exactly), typed


@MANY
@given(reply_bytes())
def test_typed_and_exact_decoding_agree(data):
    fast, exact, _ = both_ways(data)
    assert fast == exact


def test_typed_and_exact_decoding_agree_on_hostile_replies():
    """And both paths are taken."""
    taken = set()
    for case in hostile.cases():
        fast, exact, typed = both_ways(case.reply or b"")
        assert fast == exact, case.id
        taken.add(typed)
    assert taken == {True, False}


# Reply, whether the typed decoder takes it.
TYPED = [
    (b'{"errors": []}', True),  # nothing in it
    (b'x {"errors": [{"category": "a", "location": null}]} y', True),  # prose around
    (b'{"errors": [{"evidence": "e", "impact": "LOW"}]}', True),  # the usual fields
    (b'{"errors": [{"category": 1}]}', False),  # a wrong type
    (b'{"errors": [], "scores": []}', False),  # numbers may follow
    (b'{"errors": [{"note": "n"}]}', False),  # an unknown field may hold anything
    (b'{"errors": [{"category": "\\ud800"}]}', False),  # a lone surrogate
    (b'{"errors": []} \xff}', False),  # not UTF-8
    (b'{"errors": []}\xff', False),  # not UTF-8 outside the braces
]


@pytest.mark.parametrize(("data", "typed"), TYPED, ids=[str(row[0][:40]) for row in TYPED])
def test_which_replies_are_typed(data, typed):
    fast, exact, taken = both_ways(data)
    assert fast == exact
    assert taken is typed


# Text, label; under the order Ab Cd, cde, ab.
NORMALISED = [
    ("ab cd", "Ab Cd"),  # equal
    ("A bc D ", "Ab Cd"),  # equal without blanks
    ("AB", "ab"),  # equality is tried over all labels before containment
    ("b", "Ab Cd"),  # contained in the first
    ("de", "cde"),  # contained in the second
    ("cdef", "cdef"),  # longer than any: stays, lowercased
    (" X Y ", "x y"),  # stripped, inner blank kept
    ("\t", "Ab Cd"),  # white space is contained in the first
    ("", ""),  # falsy
    (None, ""),  # falsy
    ([], ""),  # falsy
]


@pytest.mark.parametrize(("text", "label"), NORMALISED)
def test_normaliser(text, label):
    table = Normaliser(["Ab Cd", "cde", "ab"])
    assert table.normalise(text) == label
    assert table.normalise(text) == label  # the kept answer


def test_normaliser_forgets(monkeypatch):
    """What is kept is bounded."""
    monkeypatch.setattr("traceaudit.trail.normaliser.KEPT", 10)
    table = Normaliser(["A"])
    assert [table.normalise(f"x{i}") for i in range(100)] == [f"x{i}" for i in range(100)]
    assert len(table) <= 10


def test_nothing_to_score(independent):
    """No gold at all, and gold without a reply: zeros, as from the scorer, and nothing scored."""
    for gold in ({}, {"t": b'{"errors": []}'}):
        report = independent.score(gold, {})
        assert (report.joint, report.location, report.weighted_f1) == (0, 0, 0)
        assert (report.scored, report.missing) == ((), tuple(gold))
        assert set(report.categories) == set(independent.taxonomy)


def test_imports_neither_scikit_learn_nor_scipy():
    """Importing the engine, and scoring without score columns, is cheap."""
    code = (
        "import sys; from traceaudit.trail.independent import IndependentEngine as E;"
        "r = E(['A']).score({'t': b'{\"errors\": []}'}, {'t': b'{}'}); assert r.scored == ('t',);"
        "print([m for m in ('sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_documents_without_errors():
    """A document without the list has empty sides."""
    assert documents.sides({}) == Sides([], [], {})
