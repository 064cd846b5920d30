"""Hostile texts: replies and gold files that are torn, wrapped, wrongly encoded or too deep, and odd pairings.

The rows of :mod:`.hostile_cases` are about values; these are about what surrounds them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .hostile_cases import GOLD, PLAIN, REPLY, Case, encode

__all__ = ["pair_cases", "text_cases"]

DEEP, SHALLOW = 100_000, 50
OPEN = '{"errors": [{"category": "Formatting Errors", "location": "span-1"}]'

# Replies as text: (slug, text, words).
REPLIES = [
    ("prose", f"Here it is:\n{PLAIN}\nThat is all.", "prose around the object"),
    ("fence", f"```json\n{PLAIN}\n```", "a fence around the object"),
    ("bom", f"\ufeff{PLAIN}", "a byte order mark in front"),
    ("indented", json.dumps(REPLY, indent=4), "indented"),
    ("crlf", json.dumps(REPLY, indent=1).replace("\n", "\r\n"), "line ends of two characters"),
    ("cr", json.dumps(REPLY, indent=1).replace("\n", "\r"), "line ends of the old kind"),
    ("compact", json.dumps(REPLY, separators=(",", ":")), "no white space"),
    ("spaced", f" \t\n{PLAIN} \t\n", "white space around"),
    ("form-feed", f"\x0c{PLAIN}\x0c", "form feeds around"),
    ("brace-after", PLAIN + "}", "one closing brace too many"),
    ("braces-after", PLAIN + "}" * 20, "twenty closing braces too many"),
    ("brace-after-prose", PLAIN + " and so on }", "prose with a closing brace behind"),
    ("braces-in-prose-after", PLAIN + " {done}", "braces in the prose behind"),
    ("braces-in-prose-before", "{note} " + PLAIN, "braces in the prose in front: nothing is found"),
    ("empty-before", "{} " + PLAIN, "an empty object in front, with a blank behind: the empty one is found"),
    ("empty-directly-before", "{}" + PLAIN, "an empty object directly in front: nothing is found"),
    ("two", PLAIN + PLAIN, "two objects: the first is found"),
    ("two-lines", PLAIN + "\n" + json.dumps(GOLD), "two objects on two lines"),
    ("list", f"[{PLAIN}]", "a list around the object"),
    ("list-of-two", f"[{PLAIN}, {PLAIN}]", "a list of two objects"),
    ("quoted", json.dumps(PLAIN), "the object as one quoted text"),
    ("nothing", "", "an empty file"),
    ("white", " \n\t ", "white space alone"),
    ("prose-alone", "I found no errors.", "prose without braces"),
    ("open", "{", "an opening brace"),
    ("close", "}", "a closing brace"),
    ("close-open", "} {", "a closing brace before an opening one"),
    ("empty", "{}", "an empty object"),
    ("empty-blank", "{ }", "an empty object with a blank inside"),
    ("empty-brace", "{}}", "an empty object and a brace: not found"),
    ("empty-blank-brace", "{} }", "an empty object, a blank and a brace: found"),
    ("empty-line-brace", "{}\n}", "an empty object, a line end and a brace: found"),
    ("empty-cr-brace", "{}\r}", "an empty object, a carriage return and a brace: found"),
    ("empty-tab-brace", "{}\t}", "an empty object, a tab and a brace: found"),
    ("empty-letter-brace", "{}x}", "an empty object, a letter and a brace: not found"),
    ("empty-no-break-brace", "{}\u00a0}", "an empty object, a no-break blank and a brace: not found"),
    ("empty-form-feed-brace", "{}\x0c}", "an empty object, a form feed and a brace: not found"),
    ("blank-inside-letter-brace", "{ }x}", "three characters are enough to be found"),
    ("trailing-comma", PLAIN[:-1] + ",}", "a comma before the last brace"),
    ("trailing-comma-list", OPEN[:-1] + ",]}", "a comma before the end of the list"),
    ("missing-comma", PLAIN.replace(", ", " ", 1), "a comma is missing"),
    ("single-quotes", PLAIN.replace('"', "'"), "single quotes"),
    ("comment", PLAIN[:-1] + "// done\n}", "a comment"),
    ("bare-key", "{errors: []}", "a key without quotes"),
    ("python", PLAIN.replace("2.75", "None"), "a Python constant"),
    ("line-in-text", OPEN.replace("span-1", "span\n1") + "}", "a line end inside a text"),
    ("tab-in-text", OPEN.replace("span-1", "span\t1") + "}", "a tab inside a text"),
    ("null-in-text", OPEN.replace("span-1", "span\x001") + "}", "a null character inside a text"),
    ("delete-in-text", OPEN.replace("span-1", "span-1\x7f") + "}", "a delete character inside a text, allowed"),
    ("separator-in-text", OPEN.replace("span-1", "span-1\u2028") + "}", "a line separator inside a text"),
    ("escaped", OPEN.replace("span-1", "\\u0073pan\\u002d1") + "}", "escapes for plain letters"),
    ("escaped-key", OPEN.replace("location", "loc\\u0061tion") + "}", "an escape inside a key"),
    ("escaped-slash", OPEN.replace("span-1", "span-1\\/") + "}", "an escaped slash"),
    ("bad-escape", OPEN.replace("span-1", "span\\-1") + "}", "an escape that does not exist"),
    ("short-escape", OPEN.replace("span-1", "span\\u00e") + "}", "an escape with a digit missing"),
    ("pair-escape", OPEN.replace("span-1", "\\ud83d\\ude00") + "}", "a surrogate pair"),
    ("split-pair", OPEN.replace("span-1", "\\ud83dx\\ude00") + "}", "a surrogate pair torn apart"),
    ("swapped-pair", OPEN.replace("span-1", "\\ude00\\ud83d") + "}", "a surrogate pair the wrong way round"),
    ("brace-in-text", OPEN.replace("span-1", "}{}}{") + "}", "braces inside a text"),
    ("duplicate-errors", OPEN + ', "errors": []}', "errors twice: the last counts"),
    ("duplicate-errors-first-empty", '{"errors": null, ' + OPEN[1:] + "}", "errors twice, the first one null"),
    ("duplicate-category", OPEN.replace('"location"', '"category": "Goal Deviation", "location"') + "}", "a key twice"),
    ("duplicate-scores", OPEN + ', "scores": [1e, 2], "scores": []}', "scores twice, the first one malformed"),
    ("capital-key", OPEN.replace("errors", "Errors") + "}", "a key in capitals, which is another key"),
    ("unknown-keys", OPEN + ', "model": "m", "usage": {"tokens": 12}}', "keys that nobody reads"),
    ("all-fields", OPEN[:-2] + ', "evidence": "e", "description": "d", "impact": "LOW"}]}', "all five fields"),
    ("number-evidence", OPEN.replace('"span-1"', '"span-1", "evidence": 1e5') + "}", "a number where nobody reads"),
    ("leading-zero", OPEN + ', "n": 01}', "a number with a leading zero"),
    ("plus", OPEN + ', "n": +1}', "a number with a plus"),
    ("point-first", OPEN + ', "n": .5}', "a number that starts with its point"),
    ("point-last", OPEN + ', "n": 1.}', "a number that ends with its point"),
    ("minus", OPEN + ', "n": -}', "a minus alone"),
    ("exponent", OPEN + ', "n": 1e}', "an exponent without digits"),
    ("constants", OPEN + ', "n": [NaN, Infinity, -Infinity]}', "the constants that JSON lacks"),
    ("small-nan", OPEN + ', "n": nan}', "a constant in small letters"),
    ("digits-4300", OPEN + ', "n": ' + "7" * 4300 + "}", "an integer of as many digits as allowed"),
    ("digits-4301", OPEN + ', "n": ' + "7" * 4301 + "}", "an integer of one digit too many"),
    ("digits-negative", OPEN + ', "n": -' + "7" * 4301 + "}", "the same, negative"),
    ("digits-real", OPEN + ', "n": ' + "7" * 5000 + ".5}", "a real number of five thousand digits, which is infinite"),
    ("digits-then-torn", OPEN + ', "n": ' + "7" * 4301 + ", !}", "an integer of too many digits before the tear"),
    ("digits-behind", OPEN + ', ! "n": ' + "7" * 4301 + "}", "an integer of too many digits behind the tear"),
    ("digits-real-torn", OPEN + ', "n": ' + "7" * 4400 + ".5 !}", "a cut turns a real number into too long an integer"),
    ("shallow-lists", OPEN + ', "n": ' + "[" * SHALLOW + "]" * SHALLOW + "}", "fifty lists in each other"),
    ("shallow-objects", OPEN + ', "n": ' + '{"n": ' * SHALLOW + "0" + "}" * SHALLOW + "}", "fifty objects nested"),
    ("deep-lists", OPEN + ', "n": ' + "[" * DEEP + "]" * DEEP + "}", "a hundred thousand lists in each other"),
    ("deep-objects", '{"n": ' * DEEP + "0" + "}" * DEEP, "a hundred thousand objects in each other"),
    ("deep-unclosed", OPEN + ', "n": ' + "[" * DEEP + "}", "a hundred thousand lists that never close"),
    ("deep-behind", OPEN + "} " + "[" * DEEP + "}", "a hundred thousand lists behind the object"),
    ("braces-open", "{" * 2000, "opening braces alone"),
    ("braces-balanced", "{" * 200 + "}" * 200, "braces with nothing between them"),
    ("zero-width", f"\u200b{PLAIN}\u200b", "zero-width blanks around"),
]

# Bytes that are not what they should be: (slug, bytes, words).
ENCODINGS = [
    ("invalid-inside", PLAIN.encode().replace(b"span-1", b"span-\xff"), "an invalid byte inside a text"),
    ("invalid-before", b"\xff" + PLAIN.encode(), "an invalid byte in front"),
    ("invalid-after", PLAIN.encode() + b"\n\xc3", "half a character at the end"),
    ("overlong", PLAIN.encode().replace(b"span-1", b"span-\xc0\x80"), "an overlong null"),
    ("surrogate-bytes", PLAIN.encode().replace(b"span-1", b"\xed\xa0\x80"), "an encoded surrogate"),
    ("latin", PLAIN.replace("span-1", "sp\u00e4n").encode("latin-1"), "Latin-1"),
    ("utf-16", PLAIN.encode("utf-16"), "UTF-16"),
    ("planes", PLAIN.replace("span-1", "\U0001f600\uffff").encode(), "characters of four and three bytes"),
    ("null-bytes", b"\x00" + PLAIN.encode() + b"\x00", "null bytes around"),
]

# Pairings: (slug, gold rows, predicted rows, words); a row is (category, location), ABSENT leaves the field out.
ABSENT = object()
A, B = "Formatting Errors", "Goal Deviation"
PAIRS: list[tuple[str, list[tuple[Any, Any]], list[tuple[Any, Any]], str]] = [
    ("silent", [(A, "s1"), (B, "s2")], [], "a silent reply"),
    ("gold-silent", [], [(A, "s1")], "no gold error, one predicted"),
    ("both-silent", [], [], "nothing on either side"),
    ("swapped", [(A, "s1"), (B, "s2")], [(B, "s1"), (A, "s2")], "categories swapped"),
    ("reordered", [(A, "s1"), (B, "s2")], [(B, "s2"), (A, "s1")], "the same in another order"),
    ("repeated", [(A, "s1"), (A, "s1")], [(A, "s1")] * 5, "repeated rows count once"),
    ("shift-first", [(A, "s1"), (B, "s2")], [("", "s0"), (A, "s1"), (B, "s2")], "an empty category shifts the rest"),
    ("shift-helps", [(A, "s1"), (B, "s2")], [(None, "s1"), (A, "s2"), (B, "s3")], "the shift makes a pair come true"),
    ("shift-gold", [(None, "s1"), (A, "s2"), (B, "s3")], [(A, "s1"), (B, "s2")], "the shift on the gold side"),
    ("shift-both", [(0, "s1"), (A, "s2")], [([], "s1"), (A, "s2")], "both shift, and agree"),
    ("last-empty", [(A, "s1"), (B, "s2")], [(A, "s1"), (B, "s2"), (False, "s3")], "an empty category at the end"),
    ("all-empty", [(A, "s1")], [("", "s1"), ({}, "s1")], "no category at all"),
    ("gold-all-empty", [("", "s1")], [(A, "s1")], "no gold category at all"),
    ("no-location", [(A, ABSENT)], [(A, ABSENT)], "no location on both sides, which is the empty text on both"),
    ("no-category", [(ABSENT, "s1")], [(ABSENT, "s1")], "no category on both sides"),
    ("empty-location", [(A, "")], [(A, ABSENT)], "an empty location equals an absent one"),
    ("null-location", [(A, None)], [(A, ABSENT)], "a null location does not"),
    ("case-location", [(A, "S1")], [(A, "s1")], "locations are not normalised: case"),
    ("blank-location", [(A, "s1 ")], [(A, "s1")], "locations are not normalised: blanks"),
    ("true-is-one", [(A, True)], [(A, 1.0)], "true and 1.0 are the same location"),
    ("zero-is-zero", [(A, 0)], [(A, -0.0)], "zero and negative zero are the same location"),
    ("text-one", [(A, 1)], [(A, "1")], "one and the text of it are not"),
    ("nan-location", [(A, float("nan"))], [(A, float("nan"))], "NaN is the same location as NaN"),
    ("big-location", [(A, 10**30)], [(A, 1e30)], "an integer and the nearest real number are not"),
    ("composed-location", [(A, "\u00e9")], [(A, "e\u0301")], "composed and decomposed letters are not"),
    ("list-location", [(A, "s1")], [(A, ["s1"])], "a list cannot be compared"),
    ("list-location-unpaired", [(A, "s1")], [(A, "s1"), ("", ["s2"])], "nor where it has no pair"),
    ("list-location-silent-gold", [], [(A, ["s1"])], "nor where gold is silent"),
    ("object-location-gold", [(A, {})], [(A, "s1")], "nor on the gold side"),
    ("many", [(A, "s1")], [(A, f"s{i}") for i in range(500)], "five hundred rows"),
    ("all-labels", [(A, "s1")], [(c, "s1") for c in ("e", "r", "t", "Resource", "Time", A)], "many at one span"),
]


def pair_cases() -> Iterator[Case]:
    """One case per pairing; the score columns are the plain ones."""
    for slug, gold, predicted, words in PAIRS:
        documents = [
            {
                "errors": [
                    {key: value for key, value in (("category", c), ("location", at)) if value is not ABSENT}
                    for c, at in rows
                ],
                "scores": plain["scores"],
            }
            for rows, plain in ((gold, GOLD), (predicted, REPLY))
        ]
        yield Case(f"pairs-{slug}", f"pairs: {words}", encode(documents[0]), encode(documents[1]))


def text_cases() -> Iterator[Case]:
    """Each text and each encoding on either side, torn replies, and a reply that is not there."""
    for slug, text, words in REPLIES:
        yield Case(f"text-{slug}", f"reply: {words}", encode(GOLD), text.encode("utf-8"))
        yield Case(f"gold-text-{slug}", f"gold: {words}", text.encode("utf-8"), encode(REPLY))
    for slug, data, words in ENCODINGS:
        yield Case(f"bytes-{slug}", f"reply: {words}", encode(GOLD), data)
        yield Case(f"gold-bytes-{slug}", f"gold: {words}", data, encode(REPLY))
    for share in range(1, 20):
        cut = len(PLAIN) * share // 20
        torn = PLAIN[:cut].encode("utf-8")
        yield Case(f"torn-{share:02d}", f"reply torn after {share} twentieths", encode(GOLD), torn)
        yield Case(f"torn-{share:02d}-closed", "the same, closed by a brace", encode(GOLD), torn + b"}")
    for slug, raw in (("null", "null"), ("list", "[]"), ("text", '"errors"'), ("number", "3"), ("constant", "NaN")):
        yield Case(f"gold-top-{slug}", f"gold is a {slug}, not an object", raw.encode("ascii"), encode(REPLY))
    yield Case("no-file", "no reply file", encode(GOLD), None)
    yield Case("no-file-broken-gold", "no reply file, and gold that is no JSON", b"{", None)
