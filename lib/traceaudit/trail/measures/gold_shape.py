"""Claims W6, W7 and W8: repeated gold errors, their fields, and the score columns beside them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...claims import Finding, Verdict
from ...values import Value, count, counted, measure, score, text
from ..predictors import HEADLINE
from ..scoring import scored
from ..study import Corpus, Study
from .silence import written

__all__ = ["DIMENSIONS", "FIELDS", "duplicates", "fields", "score_columns"]

FIELDS = ("category", "location", "evidence", "description", "impact")
READ = {"category", "location"}
DIMENSIONS: Mapping[str, str] = {
    "reliability": "reliability_score",
    "security": "security_score",
    "instruction_adherence": "instruction_adherence_score",
    "plan_optimization": "plan_opt_score",
    "overall": "overall",
}
"""The scorer's name of a score column -> its key in the gold."""


def _triple(error: Mapping[str, Any]) -> str:
    return json.dumps([error.get("location"), error.get("category")], sort_keys=True)


@measure(needs={"gold"})
def duplicates(study: Study) -> Iterator[Value | Finding]:
    """W6: gold errors that repeat trace, location and category of another.

    VIOLATED where a figure of the headline predictors moves once each is kept once, LATENT where none does.
    """
    total = repeated = figures = moved = 0
    for corpus in study.corpora.values():
        once: dict[str, bytes] = dict(corpus.gold.bytes)
        for trace, file in corpus.gold.items():
            seen = Counter(_triple(error) for error in file.errors)
            total += len(file.errors)
            extra = len(file.errors) - len(seen)
            repeated += extra
            if extra:
                kept = list({_triple(error): error for error in reversed(file.errors)}.values())[::-1]
                once[trace] = json.dumps({**file.value, "errors": kept}).encode()
        for name in HEADLINE:
            before = scored(study, corpus, name).report
            after = study.engine.score(once, written(study, corpus, name))
            figures += 2
            moved += (before.joint != after.joint) + (before.location != after.location)
    yield count("repeated_errors", repeated, "gold errors", n=total)
    yield count("repeatable_errors", total, "gold errors")
    yield count("repeated_figures", figures, "figures")
    yield count("repeated_figures_moved", moved, "figures", n=figures)
    yield Finding(
        "W6",
        Verdict.HELD if not repeated else Verdict.VIOLATED if moved else Verdict.LATENT,
        f"{repeated} of {total} gold errors repeat another's trace, location and category; {moved} of {figures} "
        "headline figures move once each is kept once",
        ("repeated_errors", "repeatable_errors", "repeated_figures_moved", "repeated_figures"),
    )


@measure(needs={"gold"})
def fields(study: Study) -> Iterator[Value | Finding]:
    """W7: gold errors whose fields are not exactly the five; VIOLATED where one that the scorer reads is missing."""
    total = odd = stray = 0
    missing: Counter[str] = Counter()
    for corpus in study.corpora.values():
        for _, error in corpus.gold.each_error():
            total += 1
            odd += set(error) != set(FIELDS)
            missing.update(set(FIELDS) - set(error))
            stray += len(set(error) - set(FIELDS))
    yield count("fielded_errors", total, "gold errors")
    yield count("odd_errors", odd, "gold errors", n=total)
    yield count("odd_stray_fields", stray, "fields", n=odd)
    yield text("odd_missing_fields", ", ".join(sorted(missing)) or "none")
    verdict = Verdict.HELD if not odd else Verdict.VIOLATED if set(missing) & READ else Verdict.LATENT
    lacking = f"lacking {', '.join(sorted(missing)) or 'nothing'} and holding {stray} fields of no known name"
    yield Finding(
        "W7",
        verdict,
        f"{odd} of {total} gold errors do not have exactly the five fields" + (f", {lacking}" if odd else ""),
        ("odd_errors", "fielded_errors", "odd_stray_fields"),
    )


def _gold_scores(corpus: Corpus) -> dict[str, Mapping[str, Any]]:
    out: dict[str, Mapping[str, Any]] = {}
    for trace, file in corpus.gold.items():
        rows = file.value.get("scores") if isinstance(file.value, dict) else None
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            out[trace] = rows[0]
    return out


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 1e9
    return isinstance(value, float) and math.isfinite(value)


def _pearson(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Pearson's r; ``None`` where a side does not vary or there are fewer than two pairs."""
    if len(a) < 2 or len(set(a)) < 2 or len(set(b)) < 2:
        return None
    mean_a, mean_b = math.fsum(a) / len(a), math.fsum(b) / len(b)
    both = math.fsum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    one = math.fsum((x - mean_a) ** 2 for x in a)
    other = math.fsum((y - mean_b) ** 2 for y in b)
    return both / math.sqrt(one * other)


@measure(needs={"gold"})
def score_columns(study: Study) -> Iterator[Value | Finding]:
    """W8: how each gold score dimension varies, and what becomes of a judge's zeros.

    The judge repeats the gold's reliability but says zero wherever the gold is at its lowest. VIOLATED where a
    dimension does not vary (its correlation is undefined for every judge) or the scorer's r is not the r of what the
    judge said.
    """
    constant = rows = 0
    differs = []
    for corpus in study.corpora.values():
        single = len(study.corpora) == 1
        gold = _gold_scores(corpus)
        rows += len(gold)
        for name, key in DIMENSIONS.items():
            found = [row[key] for row in gold.values() if _is_number(row.get(key))]
            constant += len(found) > 1 and len(set(found)) == 1
            if single:
                yield count(f"dimension_{name}_distinct", len(set(found)), "distinct values", n=len(found))
                yield score(f"dimension_{name}_lowest", min(found, default=None), digits=2, unit="points", n=len(found))
                yield score(
                    f"dimension_{name}_highest", max(found, default=None), digits=2, unit="points", n=len(found)
                )
                yield count(f"dimension_{name}_zeros", found.count(0), "traces", n=len(found))
        theirs, plain, zeros = _zeros(study, corpus, gold)
        differs.append((theirs, plain))
        if single:
            yield count("zeros_said", zeros, "traces", n=len(gold))
            yield score("zeros_r_scorer", theirs, unit="Pearson's r", n=len(gold))
            yield score("zeros_r_plain", plain, unit="Pearson's r", n=len(gold))
    yield count("dimensions_constant", constant, "dimensions", n=len(DIMENSIONS) * len(study.corpora))
    yield count("score_rows", rows, "traces")
    moved = any(a is not None and b is not None and abs(a - b) > 1e-9 for a, b in differs)
    said = "; ".join(f"{a:.3f} instead of {b:.3f}" for a, b in differs if a is not None and b is not None)
    yield Finding(
        "W8",
        Verdict.VIOLATED if constant or moved else Verdict.HELD,
        f"{counted(constant, 'gold score dimension')} without variation; a judge that says zero gets r "
        f"{said or 'undefined'} on reliability, since zero becomes minus one",
        ("dimensions_constant", "score_rows"),
    )


def _zeros(
    study: Study, corpus: Corpus, gold: Mapping[str, Mapping[str, Any]]
) -> tuple[float | None, float | None, int]:
    key = DIMENSIONS["reliability"]
    right = {trace: row[key] for trace, row in gold.items() if _is_number(row.get(key))}
    lowest = min(right.values(), default=0)
    said = {trace: 0 if value == lowest else int(value) for trace, value in right.items()}
    replies = {t: json.dumps({"errors": [], "scores": [{key: value}]}).encode() for t, value in said.items()}
    found = study.engine.score(corpus.gold.bytes, replies).correlations.get("reliability")
    theirs = None if found is None or math.isnan(found.r) else found.r
    plain = _pearson([float(value) for value in right.values()], [float(value) for value in said.values()])
    return theirs, plain, sum(value == 0 for value in said.values())
