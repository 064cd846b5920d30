"""Reading gold files: what parses, what does not and where, and what is odd."""

from __future__ import annotations

import json
import sys

import pytest

from traceaudit.trail.gold import Gold, parse_gold

GOOD = b'{"errors": [{"category": "A", "location": "x"}], "scores": []}'

# bytes -> (problem, line, column)
UNREADABLE = [
    (b'{"errors": [1,\n 2,\n]}', ("trailing comma", 2, 3)),  # before a square bracket
    (b'{"a": 1,}', ("trailing comma", 1, 8)),  # before a brace
    (b'{"a": ",]", "b": [1,]}', ("trailing comma", 1, 20)),  # the one inside a string does not count
    (b'{"a": "\\",]", "b": [1,]}', ("trailing comma", 1, 22)),  # nor one behind an escaped quote
    (b"", ("not JSON", 1, 1)),  # empty
    (b"\xff\xfe", ("not UTF-8 at byte 0", None, None)),
    (b"\xef\xbb\xbf{}", ("not JSON", 1, 1)),  # a byte order mark, as json.load refuses it
    (b"[" * 200_000, ("nested too deeply", None, None)),
    (b'{"n": ' + b"9" * 5000 + b"}", ("not JSON", None, None)),  # more digits than int() takes
]


@pytest.mark.parametrize(("data", "expected"), UNREADABLE)
def test_unreadable(data, expected):
    file = parse_gold("t", data)
    assert not file.parses
    assert (file.problem, file.line, file.column) == expected
    assert file.errors == ()


def test_a_trailing_comma_is_repaired_for_counting_only():
    file = parse_gold("t", b'{"errors": [{"location": "x"}, {"location": "y"},]}')
    assert file.errors == ()
    assert [error["location"] for error in file.errors_unread] == ["x", "y"]


# bytes -> words that must occur among the oddities
ODD = [
    (b"[]", "not an object"),
    (b"null", "not an object"),
    (b'{"errors": {}}', "not a list"),
    (b"{}", "not a list"),  # no errors at all
    (b'{"errors": ["x"]}', "not an object"),
    (b'{"errors": [], "errors": []}', "occurs twice"),
    (b'{"errors": [{"n": NaN}]}', "NaN is not JSON"),
    (b'{"errors": [{"n": -Infinity}]}', "-Infinity is not JSON"),
]


@pytest.mark.parametrize(("data", "words"), ODD)
def test_odd_but_readable(data, words):
    file = parse_gold("t", data)
    assert file.parses
    assert any(words in oddity for oddity in file.oddities)


def test_a_string_of_fifty_megabytes_is_read():
    data = json.dumps({"errors": [{"category": "x" * 50_000_000, "location": "y"}]}).encode()
    assert len(parse_gold("t", data).errors[0]["category"]) == 50_000_000
    broken = data[:-1] + b",}"
    assert parse_gold("t", broken).problem == "trailing comma"


def test_counts_of_a_split():
    gold = Gold({"a": GOOD, "b": b"{", "c": b'{"errors": [{"category": null}, {"category": 3}, {"category": "A"}]}'})
    assert (len(gold), gold.error_count, [file.trace for file in gold.unread]) == (3, 4, ["b"])
    assert gold.spellings == {"A": 2, "(null)": 1, "(3)": 1}
    assert gold.parsed["b"] is None


def test_a_category_that_is_no_number_is_counted_as_such():
    assert Gold({"a": b'{"errors": [{"category": NaN}]}'}).spellings == {"(NaN)": 1}


@pytest.mark.real
def test_the_unreadable_gold_file(trail_source):
    name = "a96c6811716c0473b86a23321db79c34"
    file = parse_gold(name, (trail_source / f"benchmarking/processed_annotations_gaia/{name}.json").read_bytes())
    assert (file.problem, file.line, file.column) == ("trailing comma", 38, 10), sys.version
    assert len(file.errors_unread) == 5
    assert len({error["location"] for error in file.errors_unread}) == 3
