"""JSON of any depth: the parser without recursion gives what the standard one gives."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceaudit.trail import deep_json

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(value=plain, indent=st.sampled_from([None, 0, 3]), ascii=st.booleans())
def test_the_flat_parser_agrees_with_the_standard_one(value, indent, ascii):
    text = f" \n{json.dumps(value, indent=indent, ensure_ascii=ascii)}\t"
    assert deep_json._parse_flat(text) == json.loads(text) == value


@given(value=plain, at=st.integers(0, 200), to=st.sampled_from(list('{}[],:"x 1\\')))
def test_the_flat_parser_refuses_what_the_standard_one_refuses(value, at, to):
    text = json.dumps(value)
    text = text[: at % len(text)] + to + text[at % len(text) + 1 :]
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            deep_json._parse_flat(text)
    else:
        assert deep_json._parse_flat(text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "[", "[1,]", "{", '{"a"', '{"a":', '{"a":1,', '{"a":1,}', "[1 2]", "{1:2}", "]", "[}", "1 1"]
)
def test_the_flat_parser_on_torn_text(text):
    for parse in (json.loads, deep_json._parse_flat):
        with pytest.raises(ValueError):
            parse(text)
