"""Credentials in the free text of runs: found by their own form, never by a word that stands near them.

A pattern of labels and short prefixes fires on ordinary source code and then destroys it; a real credential has a
prefix, a length, an alphabet and a randomness of its own, and all of them are asked for here. The result depends on
the text alone, never on the environment of the machine that reads it.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from .schema import Call, Run, Step

__all__ = ["DETECTORS", "Detector", "Hit", "Secrets", "redact", "redact_run", "seed_shapes", "sweep", "texts"]

_Check = Callable[[str, re.Match[str]], bool]


class Hit(msgspec.Struct, frozen=True, order=True):
    """A credential: characters ``start`` to ``end`` of the text, and what found it."""

    start: int
    end: int
    detector: str


class Detector(msgspec.Struct, frozen=True):
    """One kind of credential.

    Attributes:
        name: What it is, as written in the marker.
        needles: Texts of which one is in every such credential; texts without one are passed over quickly.
        pattern: Its form; the group ``secret``, where there is one, is the part that is secret.
        check: What the form cannot say (randomness, whether it can be decoded).
    """

    name: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    check: _Check


_STEADY = re.compile(r"(.)\1{6}")
_RISING = ("abcdefgh", "01234567", "12345678", "23456789", "abcdef0123", "qwertyui", "example", "changeme", "redacted")
_ESCAPED = re.compile(
    r"(?:\\[nrtbfv]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2}"
    r"|(?:\x1b|\\x1b|\\u001b|\\033|\\e|\^\[)\[[0-9;]*[A-Za-z])\Z"
)
"""What may stand right before a credential although it ends with a letter or digit: an escape, a colour."""


def _entropy(text: str) -> float:
    """Bits per character, from the characters of the text itself: -Σ p log2 p."""
    size = len(text)
    return -math.fsum(n / size * math.log2(n / size) for n in Counter(text).values()) if size else 0.0


def _random(text: str, bits: float) -> bool:
    """Whether it looks drawn by chance: enough bits per character, nothing that people type as a placeholder."""
    lower = text.lower()
    return _entropy(text) >= bits and not _STEADY.search(text) and not any(word in lower for word in _RISING)


def _kinds(text: str) -> int:
    """How many of small letters, capital letters and digits occur."""
    return sum(any(map(kind, text)) for kind in (str.islower, str.isupper, str.isdigit))


def _body(bits: float, classes: int = 2) -> _Check:
    return lambda _, found: _random(found["secret"], bits) and _kinds(found["secret"]) >= classes


def _decoded(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        return b""


def _jwt(_: str, found: re.Match[str]) -> bool:
    """Header and payload are JSON objects and the header names an algorithm other than none."""
    header, payload, _signature = found["secret"].split(".")
    try:
        first, second = json.loads(_decoded(header)), json.loads(_decoded(payload))
    except (ValueError, RecursionError):
        return False
    named = isinstance(first, dict) and isinstance(second, dict) and isinstance(first.get("alg"), str)
    return named and first["alg"].lower() != "none"


def _pypi(_: str, found: re.Match[str]) -> bool:
    return b"pypi.org" in _decoded(found["secret"][5:])[:24]


_PEM_NOISE = re.compile(
    r"(?:\x1b|\\x1b|\\u001b|\\033)?\[[0-9;]*m|(?:Proc-Type|DEK-Info|Comment|Version)\s?:(?:(?!\\n)[^\n])*|\\[nrt]"
    r"|[\s\"'\\+,|>:]+"
)


def _pem(_: str, found: re.Match[str]) -> bool:
    """At least 64 characters of base64 follow the first line, and they are no filling."""
    body = max(re.findall(r"[A-Za-z0-9/=]*", _PEM_NOISE.sub("", found["body"])), key=len)
    return len(body) >= 64 and _entropy(body[:1024]) >= 4.0


_WORDS = re.compile(r"pass|word|secret|token|user|name|test", re.I)


def _password(_: str, found: re.Match[str]) -> bool:
    """Random, of three kinds of characters or long, and made of no word that stands for a password in examples."""
    word = unquote(found["secret"])
    classes = _kinds(word) + any(not letter.isalnum() for letter in word)
    if _WORDS.search(word) or not (classes >= 3 or (classes == 2 and len(word) >= 16)):
        return False
    return len(word) >= 8 and _random(word, 2.8 if len(word) < 12 else 3.2)


def _detector(name: str, needles: str, pattern: str, check: _Check, flags: int = 0) -> Detector:
    return Detector(name, tuple(needles.split()), re.compile(pattern, flags), check)


_W = r"(?![A-Za-z0-9])"
_WD = r"(?![A-Za-z0-9_-])"
DETECTORS = (
    _detector("aws-access-key-id", "AKIA ASIA", rf"(?P<secret>A[KS]IA[A-Z2-7]{{16}}){_W}", _body(2.6, 1)),
    _detector(
        "aws-secret-access-key",
        "ecret_access_key ECRET_ACCESS_KEY ecretAccessKey ecret-access-key ecret_key ECRET_KEY ecretKey ecret-key",
        r"(?:aws[A-Za-z_-]{0,16}secret|secret[_-]?access)[_-]?(?:access)?[_-]?key\\{0,7}[\"']?[ \t]*(?:[:=]|=>|,)[ \t]*"
        r"\\{0,7}[\"']?(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        _body(4.0, 3),
        re.I,
    ),
    _detector(
        "github-token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"(?P<secret>gh[pousr]_[A-Za-z0-9]{{36,251}}){_W}", _body(3.6)
    ),
    _detector(
        "github-fine-grained-token",
        "github_pat_",
        rf"(?P<secret>github_pat_[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{59}}){_W}",
        _body(4.0),
    ),
    _detector(
        "slack-token",
        "xox",
        rf"(?P<secret>xox[abeoprs](?:\.xox[bp])?-(?=[A-Za-z-]{{0,255}}\d)[A-Za-z0-9-]{{20,255}}){_WD}",
        _body(3.2),
    ),
    _detector(
        "anthropic-key", "sk-ant-", rf"(?P<secret>sk-ant-[a-z0-9]{{2,12}}-[A-Za-z0-9_-]{{40,255}}){_WD}", _body(4.2)
    ),
    _detector(
        "openai-key",
        "sk-",
        rf"(?P<secret>sk-(?!ant-|or-)(?:(?:proj|svcacct|admin|None)-)?[A-Za-z0-9_-]{{40,255}}){_WD}",
        _body(4.2, 3),
    ),
    _detector("sk-hex-key", "sk-", rf"(?P<secret>sk-(?:or-v1-)?[0-9a-f]{{32,64}}){_WD}", _body(3.0)),
    _detector("google-api-key", "AIza", rf"(?P<secret>AIza[A-Za-z0-9_-]{{35}}){_WD}", _body(3.6)),
    _detector("huggingface-token", "hf_", r"(?P<secret>hf_[A-Za-z0-9]{34})(?![A-Za-z0-9_])", _body(3.8)),
    _detector(
        "gitlab-token", "glpat-", rf"(?P<secret>glpat-[A-Za-z0-9_-]{{20,300}}(?:\.[0-9a-z.]{{8,40}})?){_WD}", _body(3.2)
    ),
    _detector(
        "stripe-key", "k_live_ k_test_", rf"(?P<secret>[sr]k_(?:live|test)_[A-Za-z0-9]{{24,247}}){_W}", _body(3.6, 3)
    ),
    _detector("npm-token", "npm_", r"(?P<secret>npm_[A-Za-z0-9]{36})(?![A-Za-z0-9_])", _body(3.8)),
    _detector("pypi-token", "pypi-AgE", rf"(?P<secret>pypi-AgE[A-Za-z0-9_-]{{60,512}}){_WD}", _pypi),
    _detector(
        "jwt",
        "eyJ",
        rf"(?P<secret>eyJ[A-Za-z0-9_-]{{8,512}}\.[A-Za-z0-9_-]{{8,8192}}\.[A-Za-z0-9_-]{{16,1024}}){_WD}",
        _jwt,
    ),
    _detector(
        "private-key",
        "PRIVATE",
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?P<body>(?:[A-Za-z0-9+/=\s\"'\\,|>:]"
        r"|\x1b?\[[0-9;]{0,12}m|(?:Proc-Type|DEK-Info|Comment|Version)[^\n\\]{0,120}){64,16384})"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        _pem,
    ),
    _detector(
        "bearer-token",
        "uthorization UTHORIZATION",
        r"authorization\\{0,7}[\"']?[ \t]*[:=,][ \t]*f?\\{0,7}[\"']?(?:bearer|token)[ \t]+"
        r"(?P<secret>[A-Za-z0-9._~+/-]{20,4096}={0,2})(?![A-Za-z0-9._~+/=-])",
        _body(3.6, 3),
        re.I,
    ),
    _detector(
        "url-password",
        "://",
        r"://[^\s/:@\"'<>\\{}$]{1,64}:(?P<secret>[^\s/@\"'<>\\{}$*]{8,128})@(?=[A-Za-z0-9\[])",
        _password,
    ),
)
"""Every kind of credential that is looked for, by name; whatever has another form is not found."""


def _free(text: str, start: int) -> bool:
    """Whether nothing that could belong to it stands before a credential."""
    before = text[start - 1 : start]
    return not (before.isalnum() or before == "_") or bool(_ESCAPED.search(text, max(0, start - 24), start))


def sweep(text: str) -> list[Hit]:
    """The credentials in a text, by place; one text may be two kinds at once (a token as the password of a URL)."""
    hits = []
    for detector in DETECTORS:
        if any(needle in text for needle in detector.needles):
            for found in detector.pattern.finditer(text):
                if detector.check(text, found):
                    group = "secret" if "secret" in detector.pattern.groupindex else 0
                    if group and found.start() == found.start(group) and not _free(text, found.start()):
                        continue
                    hits.append(Hit(found.start(group), found.end(group), detector.name))
    return sorted(hits)


def redact(text: str) -> tuple[str, list[Hit]]:
    """Replace each credential by ``<redacted:kind>``; overlapping ones together, by the kind of the first.

    A text without a hit comes back as it is. What the replacement lays open is replaced too, so that redacting again
    changes nothing; the hits of such a further pass have their places in the text of that pass.
    """
    everything: list[Hit] = []
    while hits := sweep(text):
        everything += hits
        parts, at, end = [], 0, 0
        for hit in hits:
            if hit.start >= end:
                parts += [text[at : hit.start], f"<redacted:{hit.detector}>"]
            end = at = max(end, hit.end)
        text = "".join([*parts, text[at:]])
    return text, everything


def texts(run: Run) -> Iterator[str]:
    """Every free text of a run: what was said, arguments, results, metadata, and text among header and signals."""
    header = run.header
    yield from (value for value in (header.exit_status, *header.source.values()) if isinstance(value, str))
    for step in run.steps:
        yield step.text
        for call in step.calls:
            yield call.tool
            yield call.arguments
            if call.result is not None:
                yield call.result
        yield from step.metadata.values()
        yield from (value for value in step.signals.values() if isinstance(value, str))
        if step.outcome.failing_check is not None:
            yield step.outcome.failing_check
        yield step.outcome.why


def redact_run(run: Run, digest: Callable[[Sequence[Step]], str]) -> tuple[Run, list[Hit]]:
    """A run without the credentials in its free text; a run without a hit is given back itself.

    Args:
        run: The run.
        digest: Gives ``content_sha256`` of the changed steps (``digests.content_digest``).
    """
    hits: list[Hit] = []

    def clean(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text, found = redact(value)
        hits.extend(found)
        return text

    def clean_call(call: Call) -> Call:
        names = ("tool", "arguments", "result")
        return msgspec.structs.replace(call, **{name: clean(getattr(call, name)) for name in names})

    def clean_step(step: Step) -> Step:
        outcome = step.outcome
        return msgspec.structs.replace(
            step,
            text=clean(step.text),
            calls=tuple(map(clean_call, step.calls)),
            metadata={name: clean(value) for name, value in step.metadata.items()},
            signals={name: clean(value) for name, value in step.signals.items()},
            outcome=msgspec.structs.replace(
                outcome, why=clean(outcome.why), failing_check=clean(outcome.failing_check)
            ),
        )

    header = run.header
    source = {name: clean(value) for name, value in header.source.items()}
    exit_status = clean(header.exit_status)
    in_header = len(hits)
    steps = tuple(map(clean_step, run.steps))
    if not hits:
        return run, []
    content = digest(steps) if len(hits) > in_header else header.content_sha256
    changed = msgspec.structs.replace(
        header, source=source, exit_status=exit_status, redacted=header.redacted + len(hits), content_sha256=content
    )
    return Run(changed, steps), hits


class Secrets:
    """The sweep as a fold over runs: what was swept, and hits by detector and run (the hits alone take memory)."""

    def __init__(self) -> None:
        self._runs = self._texts = self._characters = 0
        self._files: dict[str, Counter[str]] = {}

    def add(self, run: Run) -> None:
        """Sweep the free text of a run; what occurs again (a history) is counted each time."""
        self._runs += 1
        for text in texts(run):
            self._texts += 1
            self._characters += len(text)
            for hit in sweep(text):
                self._files.setdefault(run.header.run_id, Counter())[hit.detector] += 1

    def merge(self, other: Secrets) -> None:
        """Take in what another part of the corpus counted."""
        self._runs += other._runs
        self._texts += other._texts
        self._characters += other._characters
        for name, hits in other._files.items():
            self._files.setdefault(name, Counter()).update(hits)

    def result(self) -> dict[str, Any]:
        """``runs``, ``texts``, ``characters`` swept; ``hits``; ``by_detector`` with a 0 for each that found nothing;
        ``files``: run id to detector to hits, for runs with hits only."""
        by_detector = {detector.name: 0 for detector in DETECTORS}
        for hits in self._files.values():
            for name, n in hits.items():
                by_detector[name] += n
        return {
            "runs": self._runs,
            "texts": self._texts,
            "characters": self._characters,
            "hits": sum(by_detector.values()),
            "by_detector": by_detector,
            "files": {name: dict(sorted(hits.items())) for name, hits in sorted(self._files.items())},
        }


_SEED = re.compile(
    r"\b(?:api[_-]?key|secret|token|bearer|authorization)[\"']?[ \t:=_-]+[\"']?[A-Za-z0-9_-]{12,}"
    r"|\b(?:sk|rk|pk|rq|gsk|csk|xai|nvapi|hf|fw|key|api|or|ds|mk|tgp)[-_][A-Za-z0-9_-]{12,}"
    r"|AIza[A-Za-z0-9_-]{10,}",
    re.I,
)


def seed_shapes(text: str) -> list[str]:
    """What shapes like those of the audited corpus find, for comparison only: labels and short prefixes.

    Built from the description in the facts sheet, section 1.5, which leaves the separators open; counts are near those
    of the original and not equal to them.
    """
    return [found[0] for found in _SEED.finditer(text)]
