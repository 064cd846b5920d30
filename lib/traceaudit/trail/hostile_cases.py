"""The hostile inputs themselves: small tables of odd values and odd texts, put at every place of gold and reply.

Each row is one situation. A value is JSON text, not a Python object, since much of what is odd (duplicate keys, NaN,
integers of thousands of digits, torn ends) has no object to stand for it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Case", "cases"]

HERE = "@here@"


class Case(NamedTuple):
    """One situation: a gold file and a reply (``None``: no file) that stand beside the controls."""

    id: str
    about: str
    gold: bytes
    reply: bytes | None


GOLD: dict[str, Any] = {
    "errors": [
        {"category": "Formatting Errors", "location": "span-1"},
        {"category": "Goal Deviation", "location": "span-2"},
    ],
    "scores": [
        {
            "reliability_score": 4,
            "security_score": 5,
            "instruction_adherence_score": 3,
            "plan_opt_score": 2,
            "overall": 3.5,
        }
    ],
}
REPLY: dict[str, Any] = {
    "errors": [
        {"category": "Formatting Errors", "location": "span-1"},
        {"category": "Rate Limiting", "location": "span-2"},
    ],
    "scores": [
        {
            "reliability_score": 2.75,
            "security_score": 4,
            "instruction_adherence_score": 4,
            "plan_opt_score": 1,
            "overall": 2.25,
        }
    ],
}
PLAIN = json.dumps(REPLY)

# What may stand where something else is expected: (slug, JSON text, words).
WRONG = [
    ("null", "null", "null"),
    ("true", "true", "true"),
    ("false", "false", "false, which counts as nothing"),
    ("zero", "0", "zero, which counts as nothing"),
    ("one", "1", "one, which equals true"),
    ("real", "2.5", "a real number"),
    ("empty-text", '""', "the empty text"),
    ("blank", '" "', "a blank"),
    ("text", '"span-2"', "a text"),
    ("empty-list", "[]", "an empty list"),
    ("empty-object", "{}", "an empty object"),
    ("list", "[1, 2]", "a list"),
    ("list-of-list", '[["span-1"]]', "a list in a list"),
    ("object", '{"category": "Goal Deviation"}', "an object"),
    ("keyed-object", '{"0": {}, "overall": 1}', "an object with the key 0"),
    ("nan", "NaN", "NaN, equal to nothing but itself"),
    ("infinity", "-Infinity", "an infinite number"),
    ("big", "1" + "0" * 30, "an integer beyond 64 bits"),
    ("surrogate", '"\\ud800"', "a lone surrogate"),
]

# Every place where a wrong value is tried.
PLACES: list[tuple[str, tuple[str | int, ...]]] = [
    ("errors", ("errors",)),
    ("first-error", ("errors", 0)),
    ("last-error", ("errors", 1)),
    ("category", ("errors", 0, "category")),
    ("location", ("errors", 0, "location")),
    ("scores", ("scores",)),
    ("first-scores", ("scores", 0)),
]

# What a score column may hold.
NUMBERS = [
    ("zero", "0", "zero, which becomes -1"),
    ("zero-real", "-0.0", "negative zero, which becomes -1"),
    ("fraction", "3.7", "a fraction, cut off where int() is used"),
    ("negative-fraction", "-3.7", "a negative fraction, cut towards zero"),
    ("true", "true", "true, which is one"),
    ("false", "false", "false, which becomes -1"),
    ("null", "null", "null, which becomes -1"),
    ("empty-text", '""', "the empty text, which becomes -1"),
    ("text-number", '"4"', "a number as text"),
    ("text-blanks", '"\\u00a04\\n"', "a number as text between white space"),
    ("text-fraction", '"3.7"', "a fraction as text, which int() refuses"),
    ("text-nan", '"nan"', "the text nan"),
    ("text-infinity", '"Infinity"', "the text Infinity"),
    ("text-overflow", '"1e400"', "a text beyond the range of a float"),
    ("text-underscore", '"1_0"', "a text with an underscore between digits, which is ten"),
    ("text-arabic", '"\\u0663"', "a digit that is not ASCII"),
    ("text-word", '"high"', "a word"),
    ("text-slash", '"4/5"', "a score with its maximum"),
    ("text-surrogate", '"\\udfff"', "a lone surrogate"),
    ("text-long", '"' + "9" * 4301 + '"', "a text of more digits than an integer may have"),
    ("empty-list", "[]", "an empty list, which becomes -1"),
    ("list", "[4]", "a list"),
    ("object", '{"score": 4}', "an object"),
    ("nan", "NaN", "NaN"),
    ("infinity", "Infinity", "an infinite number"),
    ("overflow", "1e400", "a number beyond the range of a float"),
    ("big", "1" + "0" * 30, "an integer beyond 64 bits"),
    ("huge", "1" + "0" * 400, "an integer beyond the range of a float"),
]
FEW = {"zero", "text-word", "list", "nan", "huge", "null"}

# Categories as the normaliser meets them; gold has Formatting Errors, Goal Deviation.
CATEGORIES = [
    ("upper", "FORMATTING ERRORS", "capitals"),
    ("blanks-around", "  Formatting Errors  ", "blanks around"),
    ("blanks-inside", "Formatting   Errors", "more blanks inside"),
    ("no-blank", "FormattingErrors", "no blank inside"),
    ("blanks-everywhere", "F o r m a t t i n g Errors", "a blank behind every letter"),
    ("no-break", "Formatting\u00a0Errors", "a no-break blank inside, which is not removed"),
    ("no-break-around", "\u00a0Formatting Errors\u00a0", "no-break blanks around, which are stripped"),
    ("tab-inside", "Formatting\tErrors", "a tab inside, which is not removed"),
    ("tab-around", "\tFormatting Errors\n", "a tab and a line end around, which are stripped"),
    ("next-line", "\x85Formatting Errors\x1c", "rarer white space around"),
    ("ideographic", "\u3000Formatting Errors\u2003", "wide white space around"),
    ("zero-width", "Formatting\u200b Errors", "a zero-width blank, which is no white space"),
    ("joiner", "\ufeffFormatting Errors", "a byte order mark in front, which is no white space"),
    ("soft-hyphen", "For\u00admatting Errors", "a soft hyphen"),
    ("full-width", "\uff26ormatting Errors", "a full-width letter"),
    ("long-s", "Formatting Error\u017f", "a long s, which lowercasing keeps"),
    ("kelvin", "Tas\u212a Orchestration", "a Kelvin sign, which lowercases to k"),
    ("dotted", "FORMATT\u0130NG ERRORS", "a dotted capital I, which lowercases to two characters"),
    ("sharp-s", "Formatting Erro\u1e9e", "a capital sharp s"),
    ("sigma", "\u03a3\u03a3", "sigmas, whose lower case depends on their place"),
    ("ligature", "Pro\ufb01le", "a ligature"),
    ("combining", "Formatting Errors\u0301", "a combining accent"),
    ("singular", "Formatting Error", "a part of the label"),
    ("word", "Formatting", "one word of the label"),
    ("shared-word", "Errors", "a word that several labels share"),
    ("resource", "Resource", "a word of three labels, the first of which wins"),
    ("letter", "e", "one letter"),
    ("hyphen", "-", "a hyphen alone"),
    ("across-words", "ing Err", "a part across two words"),
    ("plural", "Goal Deviations", "more than the label, which is not found"),
    ("remark", "Formatting Errors (minor)", "a remark behind the label"),
    ("two", "Formatting Errors, Goal Deviation", "two labels"),
    ("underscore", "Formatting_Errors", "an underscore for the blank"),
    ("hyphenless", "Language only", "a blank for the hyphen"),
    ("quoted", '"Formatting Errors"', "quotes around"),
    ("numbered", "8. Formatting Errors", "a number in front"),
    ("two-blanks", "  ", "blanks alone, which every label contains"),
    ("white", "\t\n", "white space alone, which every label contains"),
    ("no-break-alone", "\u00a0", "a no-break blank alone, stripped to nothing"),
    ("zero-width-alone", "\u200b", "a zero-width blank alone, contained in no label"),
    ("null-character", "Formatting Errors\x00", "a null character"),
    ("emoji", "\U0001f600", "a character beyond the first plane"),
    ("surrogate", "Formatting Errors\ud83d", "a lone surrogate behind"),
    ("long", "x" * 10_000, "ten thousand letters"),
    ("unknown", "Hallucination", "a category off the taxonomy"),
]


def cases() -> list[Case]:
    """All cases, in a fixed order."""
    from .hostile_texts import pair_cases, text_cases  # they put their rows into the documents above

    return [*_values(), *_numbers(), *_categories(), *pair_cases(), *text_cases()]


def put(document: dict[str, Any], path: tuple[str | int, ...], raw: str | None) -> bytes:
    """``document`` as JSON with the text ``raw`` at ``path``; ``None`` takes the place away."""
    changed = copy.deepcopy(document)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    if raw is None:
        del place[path[-1]]
    else:
        place[path[-1]] = HERE
    return json.dumps(changed).replace(json.dumps(HERE), raw or "").encode("utf-8")


def encode(document: Any) -> bytes:
    """``document`` as JSON bytes."""
    return json.dumps(document).encode("ascii")


def _both(name: str, about: str, path: tuple[str | int, ...], raw: str | None) -> Iterator[Case]:
    yield Case(f"gold-{name}", f"gold: {about}", put(GOLD, path, raw), encode(REPLY))
    yield Case(f"reply-{name}", f"reply: {about}", encode(GOLD), put(REPLY, path, raw))


def _values() -> Iterator[Case]:
    yield Case("plain", "nothing odd at all", encode(GOLD), encode(REPLY))
    yield Case("exact", "the reply is the gold", encode(GOLD), encode(GOLD))
    for place, path in PLACES:
        if place != "first-scores":  # without it the list is empty, which is a row of the table
            yield from _both(f"{place}-absent", f"{place} is absent", path, None)
        for slug, raw, words in WRONG:
            yield from _both(f"{place}-{slug}", f"{place} is {words}", path, raw)
    for place, path in PLACES[1:]:
        raws = [(slug, raw) for slug, raw, _ in WRONG if slug in {"null", "nan", "one", "list", "surrogate", "object"}]
        for slug, raw in raws:
            about = f"{place} is the same odd value on both sides"
            yield Case(f"both-{place}-{slug}", about, put(GOLD, path, raw), put(REPLY, path, raw))


def _numbers() -> Iterator[Case]:
    for column in GOLD["scores"][0]:
        path = ("scores", 0, column)
        name = column.removesuffix("_score").replace("_", "-")
        yield from _both(f"{name}-absent", f"{column} is absent", path, None)
        for slug, raw, words in NUMBERS:
            if slug in FEW or name in {"reliability", "overall"}:
                yield from _both(f"{name}-{slug}", f"{column} is {words}", path, raw)
    silent = {"errors": [], "scores": GOLD["scores"]}
    broken = put(REPLY, ("scores", 0, "security_score"), "[4]")
    late = put(GOLD, ("scores", 0, "overall"), "[4]")
    yield Case("late-error", "an exact reply whose scores raise: counted above the line only", encode(GOLD), late)
    yield Case("late-error-silent", "the same on a trace without errors", encode(silent), broken)


def _categories() -> Iterator[Case]:
    for slug, text, words in CATEGORIES:
        raw = json.dumps(text)
        path = ("errors", 0, "category")
        yield Case(f"label-{slug}", f"predicted category: {words}", encode(GOLD), put(REPLY, path, raw))
        yield Case(f"gold-label-{slug}", f"gold category: {words}", put(GOLD, path, raw), encode(REPLY))
