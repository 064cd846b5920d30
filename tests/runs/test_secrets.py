"""The secret sweep: every planted credential is found wherever it stands, and ordinary code is left as it is."""

from __future__ import annotations

import base64
import json
import random
import string
import time
from collections import Counter

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given, settings
from hypothesis import strategies as st

from traceaudit.runs.formats import detect
from traceaudit.runs.schema import Call, Header, Outcome, Run, Step
from traceaudit.runs.secrets import DETECTORS, Secrets, redact, redact_run, seed_shapes, sweep, texts

from . import real_400

LETTERS = string.ascii_letters
ALNUM = LETTERS + string.digits
URL = ALNUM + "-_"


def pem(draw, kind="RSA "):
    raw = base64.b64encode(draw.randbytes(600)).decode()
    lines = "\n".join(raw[at : at + 64] for at in range(0, len(raw), 64))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


def openssh(draw):
    """A key in OpenSSH's form, which starts with a long run of one letter."""
    key = ed25519.Ed25519PrivateKey.from_private_bytes(draw.randbytes(32))
    form = serialization.PrivateFormat.OpenSSH
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode().strip()


def packed(data):
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def some(draw, n, letters=ALNUM):
    return "".join(draw.choices(letters, k=n))


def mixed(draw, n, letters=ALNUM):
    """As :func:`some`, with a small letter, a capital and a digit, as the longer ones all have."""
    return some(draw, n - 3, letters) + "aQ7"


MADE = [  # detector, what makes one, the part that must go
    ("aws-access-key-id", lambda d: "AKIA" + some(d, 16, string.ascii_uppercase + "234567")),
    ("aws-access-key-id", lambda d: "ASIA" + some(d, 16, string.ascii_uppercase + "234567")),
    ("aws-secret-access-key", lambda d: f"aws_secret_access_key = {mixed(d, 40, ALNUM + '/+')}"),
    ("aws-secret-access-key", lambda d: f'"SecretAccessKey": "{mixed(d, 40, ALNUM + "/+")}"'),
    ("aws-secret-access-key", lambda d: f"AWS_SECRET_ACCESS_KEY={mixed(d, 40, ALNUM + '/+')}"),
    ("github-token", lambda d: "ghp_" + some(d, 36)),
    ("github-token", lambda d: "gho_" + some(d, 36)),
    ("github-token", lambda d: "ghs_" + some(d, 36)),
    ("github-fine-grained-token", lambda d: f"github_pat_{some(d, 22)}_{some(d, 59)}"),
    ("slack-token", lambda d: f"xoxb-{some(d, 12, string.digits)}-{some(d, 13, string.digits)}-{some(d, 24)}"),
    ("slack-token", lambda d: f"xoxp-{some(d, 12, string.digits)}-{some(d, 12, string.digits)}-{some(d, 32)}"),
    ("openai-key", lambda d: f"sk-{mixed(d, 20)}T3BlbkFJ{some(d, 20)}"),
    ("openai-key", lambda d: f"sk-proj-{mixed(d, 74, URL)}T3BlbkFJ{mixed(d, 73, URL)}"),
    ("sk-hex-key", lambda d: "sk-" + some(d, 32, "0123456789abcdef")),
    ("sk-hex-key", lambda d: "sk-or-v1-" + some(d, 64, "0123456789abcdef")),
    ("anthropic-key", lambda d: f"sk-ant-api03-{mixed(d, 93, URL)}AA"),
    ("google-api-key", lambda d: "AIza" + some(d, 35, URL)),
    ("huggingface-token", lambda d: "hf_" + some(d, 34, LETTERS)),
    ("gitlab-token", lambda d: "glpat-" + some(d, 20, URL)),
    ("stripe-key", lambda d: "sk_live_" + mixed(d, 24)),
    ("stripe-key", lambda d: "rk_live_" + mixed(d, 99)),
    ("npm-token", lambda d: "npm_" + some(d, 36)),
    ("pypi-token", lambda d: "pypi-" + packed(b"\x02\x01\x08pypi.org" + d.randbytes(100))),
    (
        "jwt",
        lambda d: ".".join(
            [packed({"alg": "HS256", "typ": "JWT"}), packed({"sub": some(d, 9)}), packed(d.randbytes(32))]
        ),
    ),
    ("private-key", pem),
    ("private-key", lambda d: pem(d, "")),
    ("private-key", lambda d: pem(d, "EC ")),
    ("private-key", openssh),
    ("private-key", lambda d: pem(d).rsplit("\n", 3)[0]),  # cut before its end
    ("bearer-token", lambda d: f"Authorization: Bearer {mixed(d, 40, URL)}"),
    ("bearer-token", lambda d: f"authorization: token {mixed(d, 32)}"),
    ("bearer-token", lambda d: f'"Authorization": "Bearer {mixed(d, 40, URL)}"'),
    ("url-password", lambda d: f"https://deploy:{mixed(d, 14)}@host.example.org/x.git"),
    ("url-password", lambda d: f"postgresql://svc:{mixed(d, 12)}%21@10.0.0.7:5432/db"),
]
SITES = [  # where it stands
    ("alone", lambda s: s),
    ("python", lambda s: f"client = connect({json.dumps(s)}, retries=3)\n"),
    ("shell", lambda s: f"export KEY='{s}' && run --fast"),
    ("log", lambda s: f"2025-11-19 00:01:56 DEBUG send ({s}) took 3 ms"),
    ("json", lambda s: json.dumps({"env": {"key": s, "more": [1, 2]}})),
    ("json in json", lambda s: json.dumps({"output": json.dumps({"key": f"first\n{s}\nlast"})})),
    ("url", lambda s: f"curl https://api.test/v1?key={s}&page=2" if "\n" not in s else f"key={s}"),
    ("colours", lambda s: f"\x1b[1;31m{s}\x1b[0m done"),
    ("colours as text", lambda s: f"\\x1b[32m{s}\\x1b[0m done"),
    ("line breaks", lambda s: f"cat .env\n{s}\nNEXT=1\r\n"),
    ("escaped line breaks", lambda s: f"cat .env\\n{s}\\nNEXT=1"),
    ("escaped letters", lambda s: f"k\\u003d{s}"),
    ("percent", lambda s: f"redirect?to=a%3D{s}"),
    ("xml", lambda s: f"<output>{s}</output>"),
    ("diff", lambda s: f"-old\n+{s}\n"),
]


@pytest.mark.parametrize("site", SITES, ids=[name for name, _ in SITES])
@pytest.mark.parametrize("made", range(len(MADE)), ids=[f"{at}-{name}" for at, (name, _) in enumerate(MADE)])
def test_recall(made, site):
    """Twenty credentials of each form at each place: all are found, nothing of them is left, and once is enough."""
    name, make = MADE[made]
    for seed in range(20):
        secret = make(random.Random(1000 * made + seed))
        text = site[1](secret)
        assert name in {hit.detector for hit in sweep(text)}, (seed, text)
        clean, hits = redact(text)
        assert hits and "<redacted:" in clean
        core = secret.split("\n")[1] if "\n" in secret else secret.split("@")[0].rsplit(":", 1)[-1].strip(' "')
        assert core.split()[-1].rsplit("=", 1)[-1] not in clean, (seed, clean)
        assert redact(clean) == (clean, [])


def test_every_detector_is_planted():
    assert {name for name, _ in MADE} == {detector.name for detector in DETECTORS}


INNOCENT = [  # what shapes by label or short prefix fire on, and what looks like a credential
    "if pk_default_used or pk_default_value: return self.pk_val_is_default",
    "SECRET_KEY_FALLBACKS = getattr(settings, 'SECRET_KEY_FALLBACKS', [])",
    '{"token": token_generator.make_token(user), "key_transform_in": 1}',
    "task-sk-learn-kernel-density-estimation-with-a-very-long-hyphenated-name",
    "disk-usage sk-learn-contrib-something-that-goes-on-and-on-and-on-for-long",
    "hf_hub_download(repo_id) hf_ThisIsARatherLongNameWithoutAnyDigit",
    "npm_config_registry npm_package_dependencies_something_long_enough",
    "ghp_" + "x" * 36,
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "aws_secret_access_key = os.environ['AWS_SECRET_ACCESS_KEY']",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $GITHUB_TOKEN_FOR_THE_RELEASE_JOB",
    'headers = {"Authorization": f"Bearer {self.access_token_of_this_session}"}',
    "http://user:pass@host:8080 http://user%40name:pass%40word@host",
    "postgres://postgres:postgres@localhost/db https://user:${PASSWORD}@host/",
    "git://github.com:443/a.git and mailto:first:last@host",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "-----BEGIN PUBLIC KEY-----\n" + "MIIBIjANBgkqhkiG9w0BAQEF" * 8 + "\n-----END PUBLIC KEY-----",
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2lnbmF0dXJlLXNpZ25hdHVyZQ",  # its algorithm is none
    "eyJ_not_json_at_all.eyJ_not_json_either.and_something_long_enough",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "sk-0000000000000000000000000000000000000000",
    "xoxb-not-a-token-but-a-rather-long-name",
    "glpat-your-token-goes-right-here-please",
]


@pytest.mark.parametrize("text", INNOCENT)
def test_ordinary_text_does_not_fire(text):
    assert sweep(text) == []
    assert redact(text) == (text, [])


def test_the_seeds_shapes_fire_on_ordinary_code():
    assert sum(bool(seed_shapes(text)) for text in INNOCENT[:3]) == 3
    assert seed_shapes("plain text") == []


def test_overlapping_ones_go_together_and_a_letter_before_is_no_start():
    token = MADE[5][1](random.Random(1))
    clean, hits = redact(f"https://bot:{token}@github.com/a.git")
    assert clean == "https://bot:<redacted:github-token>@github.com/a.git"
    assert [hit.detector for hit in hits] == ["github-token", "url-password"]
    assert sweep("x" + token) == sweep(token + "9" * 300) == []
    assert redact(f"{token} {token}")[0] == "<redacted:github-token> <redacted:github-token>"


def test_a_cut_key_takes_no_code_with_it():
    text = pem(random.Random(2)).rsplit("\n", 1)[0] + "\n(returncode 0)\ndef f(x):\n    return x\n"
    assert redact(text)[0] == "<redacted:private-key>(returncode 0)\ndef f(x):\n    return x\n"


def test_the_environment_has_no_part_in_it(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "open-sesame-open-sesame")
    assert redact("open-sesame-open-sesame") == ("open-sesame-open-sesame", [])


PIECES = st.sampled_from(
    [make(random.Random(at)) for at, (_, make) in enumerate(MADE)]
    + INNOCENT
    + ["\n", " ", "://a:", "@h", "sk-", "=", "n"]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES | st.text(max_size=20), max_size=8).map("".join))
def test_redacting_twice_changes_nothing_and_no_hit_means_no_change(text):
    clean, hits = redact(text)
    assert redact(clean) == (clean, [])
    assert (clean == text) == (not hits)
    for hit in sweep(text):
        assert 0 <= hit.start < hit.end <= len(text)


def planted(secret):
    """A run with the secret once in each free text."""
    outcome = Outcome(state="measured", why="", passed=False, failing_check=f"t[{secret}]")
    call = Call(tool="bash", arguments=f"echo {secret}", result=secret, paired="position")
    step = Step(
        index=0, text=f"I use {secret}", calls=(call,), outcome=outcome, signals={"s": secret}, metadata={"m": secret}
    )
    clean = Step(index=1, text="nothing here")
    header = Header(run_id="r", n_steps=2, source={"name": f"/tmp/{secret}"}, exit_status=secret, content_sha256="old")
    return Run(header, (step, clean))


def test_a_run_is_cleaned_everywhere_and_says_so():
    secret = MADE[5][1](random.Random(3))
    run = planted(secret)
    clean, hits = redact_run(run, lambda steps: f"digest of {len(steps)}")
    assert secret not in msgspec.json.encode(clean).decode()
    assert len(hits) == clean.header.redacted == 8 == msgspec.json.encode(run).decode().count(secret)
    assert clean.header.content_sha256 == "digest of 2" and clean.steps[1] == run.steps[1]
    assert redact_run(clean, lambda steps: "") == (clean, [])


def test_the_fold_counts_by_detector_and_run_and_merges():
    secret = MADE[5][1](random.Random(3))
    runs = [planted(secret), planted("nothing"), planted(pem(random.Random(4)))]
    runs = [Run(msgspec.structs.replace(run.header, run_id=f"r{at}"), run.steps) for at, run in enumerate(runs)]
    whole, parts = Secrets(), [Secrets(), Secrets()]
    for at, run in enumerate(runs):
        whole.add(run)
        parts[at % 2].add(run)
    parts[1].merge(parts[0])
    result = whole.result()
    assert parts[1].result() == result
    assert (
        result["runs"] == 3 and result["hits"] == 16 and result["texts"] == sum(len(list(texts(run))) for run in runs)
    )
    assert result["files"] == {"r0": {"github-token": 8}, "r2": {"private-key": 8}}
    assert result["by_detector"]["jwt"] == 0 and len(result["by_detector"]) == len(DETECTORS)


HARD = [  # texts that a careless pattern takes long for
    "-----BEGIN PRIVATE KEY-----" * 4000,
    "-----BEGIN PRIVATE KEY-----\n" + "Proc-Type: " * 20000,
    "://" * 60000,
    "://a:" * 40000,
    "eyJ" + "a" * 200000,
    "eyJaaaaaaaaa." * 16000,
    "sk-" + "a-" * 100000,
    "authorization: bearer " * 10000,
    "aws_secret" * 20000 + "ecret_key",
    "xoxb-" + "a" * 200000,
    *(
        part * 40000
        for part in ("xoxb-", "sk-", "sk-ant-a1-", "glpat-", "pypi-AgE", "eyJ", "ghp_", "AIza", "xoxe.xoxb-")
    ),
]


@pytest.mark.parametrize("text", HARD, ids=range(len(HARD)))
def test_no_text_takes_long(text):
    start = time.process_time()
    sweep(text)
    assert time.process_time() - start < 2


_RUNS: list[Run] = []


def runs_400(tmp_path_factory):
    """The 400 real runs, parsed once per process; skips without them."""
    folder = real_400(tmp_path_factory)
    if not _RUNS:
        for path in sorted(folder.glob("trajs/*/*.traj.json")):
            data = json.loads(path.read_bytes())
            for parsed in detect(data).parse(data, path.name):
                header = Header(run_id=path.parent.name, n_steps=len(parsed.steps), **parsed.header_fields)
                _RUNS.append(Run(header, tuple(parsed.steps)))
    return _RUNS


@pytest.mark.real
def test_precision_on_the_400_real_runs(tmp_path_factory):
    """Nothing fires; the seed's shapes do, on ordinary names of variables only, and would destroy them."""
    fold, seed, files = Secrets(), Counter(), set()
    for run in runs_400(tmp_path_factory):
        fold.add(run)
        for text in texts(run):
            if found := seed_shapes(text):
                seed.update(found)
                files.add(run.header.run_id)
    result = fold.result()
    assert result["runs"] == 400 and result["characters"] > 30_000_000
    assert result["hits"] == 0 and result["files"] == {}
    assert (seed.total(), len(seed), len(files)) == (184, 19, 18)
    assert seed.most_common(2) == [("pk_default_used", 82), ("SECRET_KEY_FALLBACKS", 36)]


@pytest.mark.real
def test_planted_into_real_text_all_are_found(tmp_path_factory):
    """One credential of each form between two lines of the longest result of each of twenty real runs."""
    for at, run in enumerate(runs_400(tmp_path_factory)[::20]):
        lines = max((call.result or "" for step in run.steps for call in step.calls), key=len).split("\n")
        for name, make in MADE:
            draw = random.Random(at)
            place = draw.randrange(len(lines))
            text = "\n".join([*lines[:place], make(draw), *lines[place:]])
            assert [hit.detector for hit in sweep(text) if hit.detector == name] == [name]
            assert redact(text)[0].count("<redacted:") >= 1
