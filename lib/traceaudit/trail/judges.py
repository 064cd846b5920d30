"""Real judges: runs whose raw replies are public, pinned file by file, and invented ones for the demo.

Table 1 of the paper has no raw outputs, so what the scorer does with what a judge really writes can only be seen on
runs that somebody published.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..committed import committed_bytes
from ..errors import NothingToCheck, PinMismatch
from ..pins import RESTORE, Pin, data_pins, git_tree_id, load_pin
from ..reading import Source, read_verified
from .pin import trace_id

__all__ = ["SEED", "JudgeRun", "JudgesPin", "RunPin", "demo_runs", "load", "missing", "read_runs"]

SEED = 20260827
PIN_FILE = "trail-judges.toml"


@dataclass(frozen=True)
class JudgeRun:
    """What one judge wrote on one split.

    Attributes:
        name: The run's name: its folder's, less the prefix that all of them share.
        split: The split it answered.
        replies: trace id -> bytes of the reply; a trace without a file is absent.
    """

    name: str
    split: str
    replies: Mapping[str, bytes]


@dataclass(frozen=True)
class RunPin:
    """One pinned run.

    Attributes:
        name: Its name.
        split: ``gaia`` or ``swe-bench``.
        folder: Name of its folder.
        files: Names of its files, sorted.
    """

    name: str
    split: str
    folder: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class JudgesPin:
    """The pinned runs.

    Attributes:
        pin: The repository's pin, with the paths of its tree.
        flat: The same files with nothing above the runs' folders, as an archive of the runs alone has them.
        runs: name -> run, sorted by name.
        home: The folder in the tree that holds the runs' folders.
    """

    pin: Pin
    flat: Pin
    runs: Mapping[str, RunPin]
    home: str

    def of_split(self, split: str) -> tuple[RunPin, ...]:
        """The runs of one split, sorted by name; none for a split that no run answered."""
        return tuple(run for run in self.runs.values() if run.split == split)

    def paths(self, run: RunPin, pin: Pin) -> tuple[str, ...]:
        """Paths of a run's files in a source that reads by ``pin``, which is :attr:`pin` or :attr:`flat`."""
        below = f"{run.folder}/{run.files[0]}"
        above = "" if below in pin.files else f"{self.home}/"
        return tuple(f"{above}{run.folder}/{file}" for file in run.files)


def load(folder: Path | None = None) -> JudgesPin:
    """Read the pin of the judges' replies.

    Args:
        folder: The folder of pins; by default the committed one.

    Raises:
        NothingToCheck: the pin file is absent.
        PinMismatch: it or its file list is damaged (see :func:`traceaudit.pins.load_pin`), a file belongs to no run,
            or the files of a run do not make its folder's tree.
    """
    if folder is None:
        committed_bytes(PIN_FILE)
    pin = load_pin((folder or data_pins()) / PIN_FILE, extra=("outputs", "runs"))
    try:
        home, prefix = (str(pin.extra["outputs"][name]) for name in ("folder", "prefix"))
        about = {
            name: (str(run["split"]), int(run["files"]), str(run["tree"])) for name, run in pin.extra["runs"].items()
        }
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged("outputs and runs", "folder, prefix; split, files, tree", repr(error)) from None
    below: dict[str, dict[str, str]] = {}
    for path, file in pin.files.items():
        where, _, name = path.removeprefix(f"{home}/").rpartition("/")
        below.setdefault(where, {})[name] = file.blob
    folders = {f"{prefix}{name}": name for name in about}
    if set(folders) != set(below):
        odd = sorted(set(folders) ^ set(below))
        raise _damaged("runs", "one run for each folder of the file list", ", ".join(odd[:4]))
    runs = {}
    for where, name in sorted(folders.items()):
        split, count, tree = about[name]
        found = git_tree_id(below[where])
        if (len(below[where]), found) != (count, tree):
            raise _damaged(f"runs.{name}", f"{count} files, tree {tree}", f"{len(below[where])} files, tree {found}")
        if split not in ("gaia", "swe-bench"):
            raise _damaged(f"runs.{name}, split", "gaia or swe-bench", split)
        runs[name] = RunPin(name, split, where, tuple(sorted(below[where])))
    return JudgesPin(pin, _flat(pin, home), runs, home)


def _flat(pin: Pin, home: str) -> Pin:
    short = {path.removeprefix(f"{home}/"): file for path, file in pin.files.items()}
    return replace(pin, files={path: replace(file, path=path) for path, file in short.items()})


def _damaged(where: str, expected: str, got: str) -> PinMismatch:
    return PinMismatch(
        "the pin file is damaged", where=f"{PIN_FILE}, {where}", expected=expected, got=got, next_step=RESTORE
    )


def missing(source: Source, pinned: JudgesPin, split: str) -> tuple[str, ...]:
    """Pinned files of a split's runs for which the source has no bytes, in pinned order."""
    there = source.names()
    paths = (path for run in pinned.of_split(split) for path in pinned.paths(run, source.pin))
    return tuple(path for path in paths if path not in there)


def read_runs(source: Source, pinned: JudgesPin, split: str) -> tuple[JudgeRun, ...]:
    """Read a split's runs, every file held against its pin.

    Returns:
        The runs, sorted by name; none for a split that no run answered.

    Raises:
        PinMismatch: one error for all files that differ or were refused; nothing is handed over then.
        NothingToCheck: files are not in the source; the first is named, all are counted.
    """
    runs = pinned.of_split(split)
    asked = {run.name: pinned.paths(run, source.pin) for run in runs}
    reading = read_verified(source, source.pin, [path for paths in asked.values() for path in paths])
    if reading.missing:
        raise NothingToCheck(
            f"{len(reading.missing)} of {sum(map(len, asked.values()))} files of the judges are not in this source",
            where=reading.missing[0],
            expected=source.pin.files[reading.missing[0]].described(),
            next_step="traceaudit fetch --judges, or give a source that has all of them",
        )
    return tuple(
        JudgeRun(run.name, split, {trace_id(path): reading.files[path] for path in asked[run.name]}) for run in runs
    )


# The demo's judges: invented, from a seed, each with one habit that the scorer rewards or passes over.

_REMARK = "{label} (as far as can be seen)"
_HABITS = {
    # name: (share of gold errors found, invented errors a trace, what it does to its files)
    "invented-answers-everything": (0.45, 2, "plain"),
    "invented-breaks-its-json": (0.55, 1, "torn"),
    "invented-leaves-files-out": (0.65, 1, "absent"),
    "invented-own-words": (0.70, 1, "words"),
}


def demo_runs(
    gold: Mapping[str, Any], spans: Mapping[str, Sequence[str]], taxonomy: Sequence[str], *, seed: int = SEED
) -> tuple[JudgeRun, ...]:
    """Four invented judges on the demo corpus.

    One answers every trace; one finds more and breaks every other reply; one leaves files out; one writes categories in
    its own words (a label with a remark, a scrap that several labels contain, a label in capitals, null).

    Args:
        gold: trace id -> parsed gold, ``None`` where it does not parse.
        spans: trace id -> span ids.
        taxonomy: The labels.
        seed: Same seed, same bytes.
    """
    runs = []
    for position, (name, (found, invented, habit)) in enumerate(_HABITS.items()):
        draw = random.Random(seed + position)
        replies = {}
        for at, trace in enumerate(sorted(gold)):
            errors = (gold[trace] or {}).get("errors", [])
            said = [_place(error) for error in errors if draw.random() < found]
            said += [
                {"category": draw.choice(taxonomy), "location": draw.choice(spans[trace])} for _ in range(invented)
            ]
            if habit == "words":
                said = [_reworded(error, number) for number, error in enumerate(said, at)]
            reply = f"My findings:\n{json.dumps({'errors': said}, indent=1)}\n"
            if habit == "torn" and at % 2:
                reply = _torn(reply, said, at)
            if habit != "absent" or at % 5 < 3:
                replies[trace] = reply.encode()
        runs.append(JudgeRun(name, "demo", replies))
    return tuple(runs)


def _place(error: Mapping[str, Any]) -> dict[str, Any]:
    return {name: error.get(name) for name in ("category", "location")}


def _reworded(error: dict[str, Any], number: int) -> dict[str, Any]:
    label = error["category"]
    words = (label, _REMARK.format(label=label), str(label).upper(), "error", label, None, str(label)[:-1])
    return error | {"category": words[number % len(words)]}


def _torn(reply: str, said: list[dict[str, Any]], at: int) -> str:
    kind = at // 2 % 4
    if kind == 0:
        return "No answer was produced.\n"
    if kind == 1:
        return json.dumps({"errors": [error | {"category": [error["category"]]} for error in said]})
    return reply[: len(reply) * 2 // 3] + ("" if kind == 2 else "}")
