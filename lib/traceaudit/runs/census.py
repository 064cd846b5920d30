"""The census of a corpus: how many of what, how long, how often failed, and how much of it was measured at all.

A rate without its denominator is read as the wrong one sooner or later, so every rate here stands beside both of its
counts, and runs that nobody labelled are counted apart and in no rate.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from .schema import Run, repository_of

__all__ = ["Census", "median"]

_NAMED = ("format", "scaffold", "scaffold_version", "dataset", "dataset_revision", "licence")


def median(lengths: Counter[int]) -> int | float | None:
    """Median of counted whole numbers; the mean of the middle two where their number is even, None where it is 0."""
    total = sum(lengths.values())
    middle = {(total - 1) // 2, total // 2}
    found, seen = [], 0
    for length in sorted(lengths):
        found += [length for place in middle if seen <= place < seen + lengths[length]]
        seen += lengths[length]
    if not total:
        return None
    mean = sum(found) / len(found)
    return int(mean) if mean.is_integer() else mean


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


class _Group:
    """Counts of the runs of one model."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lengths: Counter[int] = Counter()

    def add(self, run: Run) -> None:
        resolved, stamped = run.header.resolved, run.stamped
        self.lengths[len(run.steps)] += 1
        self.counts["trajectories"] += 1
        self.counts["stamped"] += stamped
        if resolved is not None:
            self.counts["labelled"] += 1
            self.counts["failed"] += not resolved
            self.counts["labelled_stamped"] += stamped
            self.counts["failed_stamped"] += stamped and not resolved
        for step in run.steps[:-1]:
            if step.outcome.passed is False:
                self.counts["red"] += 1
                self.counts["red_named"] += step.outcome.failing_check is not None

    def merge(self, other: _Group) -> None:
        self.counts.update(other.counts)
        self.lengths.update(other.lengths)

    def result(self) -> dict[str, Any]:
        n = self.counts
        steps = sum(length * times for length, times in self.lengths.items())
        empty = self.lengths[0]
        return {
            "trajectories": n["trajectories"],
            "stamped": n["stamped"],
            "unstamped": n["trajectories"] - n["stamped"],
            "stamped_share": _rate(n["stamped"], n["trajectories"]),
            "steps": steps,
            "nonterminal_steps": steps - (n["trajectories"] - empty),
            "failed_nonterminal_steps": n["red"],
            "failed_nonterminal_steps_with_check": n["red_named"],
            "median_steps": median(self.lengths),
            "min_steps": min(self.lengths, default=None),
            "max_steps": max(self.lengths, default=None),
            "labelled": n["labelled"],
            "unlabelled": n["trajectories"] - n["labelled"],
            "terminal_failures": n["failed"],
            "terminal_failure_rate": _rate(n["failed"], n["labelled"]),
            "labelled_stamped": n["labelled_stamped"],
            "terminal_failures_stamped": n["failed_stamped"],
            "terminal_failure_rate_stamped": _rate(n["failed_stamped"], n["labelled_stamped"]),
        }


class Census:
    """The census as a fold: counts that add up over parts of a corpus.

    Memory grows with the distinct names (instances, models, arms …), not with runs or steps. A run's steps are those
    that follow, whatever its header says (a difference is an issue of the reader, and a finding of ``verify``).
    """

    def __init__(self) -> None:
        self._groups: dict[str | None, _Group] = {}
        self._names: dict[str, Counter[str]] = {name: Counter() for name in ("instance", "repository", "arm", *_NAMED)}
        self._verdicts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._runs_by_reason: Counter[str] = Counter()
        self._more: Counter[str] = Counter()
        self._instruments: Counter[tuple[str, str | None]] = Counter()

    def add(self, run: Run) -> None:
        """Count one run."""
        header = run.header
        self._groups.setdefault(header.model, _Group()).add(run)
        named = {name: getattr(header, name) for name in _NAMED} | {"arm": header.arm, "instance": header.instance_id}
        named["repository"] = header.repository or repository_of(header.instance_id)
        for name, value in named.items():
            if value:
                self._names[name][value] += 1
        reasons: Counter[str] = Counter()
        for step in run.steps:
            outcome = step.outcome
            if outcome.state == "measured":
                verdict = "passed" if outcome.passed else "failed"
                self._verdicts[verdict] += 1
                self._verdicts["confirmed failures"] += outcome.confirmed is True
                self._verdicts["failures not reproduced"] += outcome.confirmed is False
                self._verdicts["exit code"] += outcome.exit_code is not None
                if outcome.instrument is not None:
                    self._instruments[outcome.instrument, header.model] += 1
            else:
                reasons[outcome.why] += 1
        self._reasons.update(reasons)
        self._runs_by_reason.update(reasons.keys())
        self._more["redacted"] += header.redacted
        self._more["redacted runs"] += header.redacted > 0
        self._more["captures"] += header.captures or 0
        self._more["captures unknown"] += header.captures is None
        self._more["no captures"] += header.captures == 0

    def merge(self, other: Census) -> None:
        """Take in what another part of the corpus counted; the other stays as it is."""
        for model, group in other._groups.items():
            self._groups.setdefault(model, _Group()).merge(group)
        for name, counts in other._names.items():
            self._names[name].update(counts)
        for mine, theirs in (
            (self._verdicts, other._verdicts),
            (self._reasons, other._reasons),
            (self._runs_by_reason, other._runs_by_reason),
            (self._more, other._more),
        ):
            mine.update(theirs)
        self._instruments.update(other._instruments)

    def result(self) -> dict[str, Any]:
        """The census; names are sorted, a rate with nothing under it is None.

        Returns:
            ``trajectories``, ``steps``, ``nonterminal_steps`` (all but the last of each run, which carries the label);
            ``instances``, ``repositories``, ``models``, ``arms``: distinct names; ``stamped``: runs with a measured
            outcome after some step that is not the last; ``median_steps``, ``min_steps``, ``max_steps``: of all runs,
            None without a run; ``labelled``, ``unlabelled``; ``terminal_failure_rate`` = ``terminal_failures`` /
            ``labelled``; ``terminal_failure_rate_stamped`` = ``terminal_failures_stamped`` / ``labelled_stamped``;
            ``outcomes``: steps measured (passed, failed, failures confirmed and not reproduced by a second execution,
            with an exit code) and not measured; ``not_measured``: rows {why, steps, runs}; ``instruments``: rows
            {instrument, steps, models} of the measured steps that name one, with steps per model; ``captures``: how
            many, and the runs where that is not known or none; ``redacted``: passages and runs; ``formats``,
            ``scaffolds``, ``scaffold_versions``, ``datasets``, ``arm_names``, ``repository_names``: runs by name;
            ``licences`` and ``dataset_revisions``: {with, without, values}; ``unnamed``: runs without instance,
            repository, model or arm; ``per_model``: a row per model, by name, with the model None last for runs that
            name none.
        """
        whole = _Group()
        for group in self._groups.values():
            whole.merge(group)
        total = whole.counts["trajectories"]
        names = self._names
        models = sorted(self._groups, key=lambda model: (model is None, model or ""))
        nameless = self._groups[None].counts["trajectories"] if None in self._groups else 0
        unnamed = {name: total - sum(names[name].values()) for name in ("instance", "repository", "arm")}
        measured = {name: self._verdicts[name] for name in ("passed", "failed")}
        return {
            **whole.result(),
            "instances": len(names["instance"]),
            "repositories": len(names["repository"]),
            "models": len(models) - (None in self._groups),
            "arms": len(names["arm"]),
            "arm_names": dict(sorted(names["arm"].items())),
            "repository_names": dict(sorted(names["repository"].items())),
            "unnamed": unnamed | {"model": nameless},
            "outcomes": {
                "measured": sum(measured.values()),
                **measured,
                "confirmed_failures": self._verdicts["confirmed failures"],
                "failures_not_reproduced": self._verdicts["failures not reproduced"],
                "with_exit_code": self._verdicts["exit code"],
                "not_measured": sum(self._reasons.values()),
            },
            "not_measured": [
                {"why": why, "steps": steps, "runs": self._runs_by_reason[why]}
                for why, steps in sorted(self._reasons.items())
            ],
            "instruments": self._by_instrument(),
            "captures": {
                "steps": self._more["captures"],
                "runs_unknown": self._more["captures unknown"],
                "runs_without": self._more["no captures"],
            },
            "formats": dict(sorted(names["format"].items())),
            "scaffolds": dict(sorted(names["scaffold"].items())),
            "scaffold_versions": dict(sorted(names["scaffold_version"].items())),
            "datasets": dict(sorted(names["dataset"].items())),
            "licences": _carried(names["licence"], total),
            "dataset_revisions": _carried(names["dataset_revision"], total),
            "redacted": {"passages": self._more["redacted"], "runs": self._more["redacted runs"]},
            "per_model": [{"model": model, **self._groups[model].result()} for model in models],
        }

    def _by_instrument(self) -> list[dict[str, Any]]:
        rows: dict[str, dict[str, int]] = {}
        for (instrument, model), steps in sorted(
            self._instruments.items(), key=lambda item: (item[0][0], str(item[0][1]))
        ):
            rows.setdefault(instrument, {})["" if model is None else model] = steps
        return [
            {"instrument": instrument, "steps": sum(models.values()), "models": models}
            for instrument, models in rows.items()
        ]


def _carried(values: Counter[str], total: int) -> dict[str, Any]:
    carried = sum(values.values())
    return {"with": carried, "without": total - carried, "values": dict(sorted(values.items()))}
