"""Claim W11: whether the traces, which judges are shown whole, hold the reference answer of the task.

Only names of fields, counts and sizes are recorded; no value of such a field leaves this module.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from ...claims import Finding, Verdict
from ...values import Value, count, measure, score, text
from ..gold import place
from ..study import Study
from ..traces import field_values, spans, texts

__all__ = ["ANSWER_FIELDS", "exposure"]

ANSWER_FIELDS: Mapping[str, tuple[str, ...]] = {
    "gaia": ("true_answer", "Annotator Metadata"),
    "swe-bench": ("patch", "test_patch", "FAIL_TO_PASS", "hints_text"),
    "demo": ("true_answer",),
}
"""Fields of the task record that give its answer away, or how it is checked: split -> names."""


@measure(needs={"gold", "traces"})
def exposure(study: Study) -> Iterator[Value | Finding]:
    """W11 on the traces at hand: in how many, in which spans and in how many bytes the task's answer fields occur.

    Yields:
        Per field the traces, spans and bytes (of its JSON text); over all fields the traces and spans, and the gold
        errors located at such spans; traces whose other spans mention a field's name in their text. LATENT where the
        claim fails, since no published judge can be scored again without the answers.
    """
    corpus = study.corpus
    names = ANSWER_FIELDS[corpus.split]
    found: dict[str, dict[str, set[Any]]] = {name: {"traces": set(), "spans": set()} for name in names}
    size: dict[str, int] = defaultdict(int)
    exposed: set[tuple[str, str]] = set()
    elsewhere: set[str] = set()
    files = corpus.load_traces()
    for trace, data in files.items():
        if not any(name.encode() in data for name in names):
            continue
        for _, span in spans(data):
            own = str(span.get("span_id"))
            carries = False
            for name, value in field_values(span, frozenset(names)):
                if value in (None, "", [], {}):
                    continue
                carries = True
                found[name]["traces"].add(trace)
                found[name]["spans"].add((trace, own))
                size[name] += len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
            if carries:
                exposed.add((trace, own))
            elif any(names[0] in said for said in texts(span)):
                elsewhere.add(trace)
    errors = [(trace, error) for trace, error in corpus.gold.each_error() if trace in files]
    located = sum((trace, place(error)) in exposed for trace, error in errors)
    traces = {trace for trace, _ in exposed}
    dropped = {"trace file not in this source": len(corpus.traces_missing)} if corpus.traces_missing else {}
    more = {"n": len(files), "dropped": dropped}
    yield count("exposure_traces_read", len(files), "traces", **more)
    yield count("exposed_traces", len(traces), "traces", **more)
    yield count("exposed_spans", len(exposed), "spans", **more)
    yield count("exposed_bytes", sum(size.values()), "bytes", **more)
    yield count("exposure_fields", len(names), "fields")
    for position, name in enumerate(names, 1):
        yield text(f"exposed_{position}_field", name)
        yield count(f"exposed_{position}_traces", len(found[name]["traces"]), "traces", **more)
        yield count(f"exposed_{position}_spans", len(found[name]["spans"]), "spans", **more)
        yield count(f"exposed_{position}_bytes", size[name], "bytes", **more)
    yield count("exposed_errors", located, "gold errors", of="gold errors of these traces", n=len(errors))
    yield score("exposed_errors_share", located / len(errors) if errors else None, of="gold errors", n=len(errors))
    yield count("exposed_elsewhere", len(elsewhere), "traces", **more)
    yield Finding(
        "W11",
        Verdict.LATENT if traces else Verdict.HELD,
        f"{len(traces)} of the {len(files)} traces at hand carry the task's answer fields, in {len(exposed)} spans"
        + ("; what that did to published scores cannot be measured" if traces else ""),
        ("exposed_traces", "exposure_traces_read", "exposed_spans"),
    )
