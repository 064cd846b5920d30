"""Build the report: execute the chapter instances that changed and swap their pages in.

Pages, records of the run and stored records are written only when all of a build has succeeded, so that a reader
never meets half of one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import card, records, stored
from .claims import Finding
from .errors import NothingToCheck, PinMismatch
from .execute import Executed
from .instances import Inputs, Instance, choose, load_chapters
from .pool import Extra, Parameters, Progress, Say, parameters_of, run_all
from .records import path_of, write_whole
from .staging import Staging, clear_up, explain_full_disk, lock
from .values import Value

__all__ = ["BuildReport", "build", "built_path"]


@dataclass(frozen=True)
class BuildReport:
    """What a build did; ``recorded`` and ``removed`` are paths relative to the root."""

    executed: tuple[Instance, ...] = ()
    unchanged: tuple[Instance, ...] = ()
    removed: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()


def built_path(instance: Instance) -> str:
    """Where the record of the run behind a built page is kept, modes included; relative to the root."""
    return f".traceaudit/built/{instance.id}.json"


def build(
    root: Path,
    *,
    parameters: Parameters,
    only: Iterable[str] | None = None,
    workers: int = 2,
    record: bool = False,
    may_record: Callable[[Executed], str | None] | None = None,
    say: Say = lambda line: None,
    key_extra: Extra = "",
    env: Mapping[str, str | None] | None = None,
    wait: float = 600.0,
) -> BuildReport:
    """Execute the chapter instances that changed and swap their pages in.

    Args:
        root: The project; pages and records are written below it.
        parameters: By name for all instances, or a function of the instance; ``split`` is added.
        only: Chapters, pages or ``<chapter>.<split>`` to build; all by default.
        workers: How many worker processes at a time.
        record: Write ``data-pins/records`` too; then everything chosen is executed, and all or nothing is written.
        may_record: Says why an executed chapter must not become a record, or None.
        say: Takes each progress line.
        key_extra: A digest of what the source holds, or a function of the instance.
        env: Variables to add to the chapters' environment (``TRACEAUDIT_ROOT`` and, for those that run last,
            ``TRACEAUDIT_BUILT``, the directory of all the others' fresh records, are set here).
        wait: Seconds to wait for another build.

    Raises:
        ChapterFailed: one or several chapters failed (all are named), or the error of the only one.
        PinMismatch: ``may_record`` refused.
        TraceAuditError: another build does not end, or the disk is full. Former pages stay as they were in each case.
    """
    root = root.resolve()
    with explain_full_disk(root), lock(root, wait=wait, say=say):
        clear_up(root, say)
        instances = load_chapters(root / "chapters" / "chapters.toml")
        job = _Build(root, instances, parameters, workers, record, may_record, say, key_extra, env or {})
        try:
            return job.run(choose(instances, only))
        except BaseException:
            job.staging.discard()
            raise


class _Build:
    def __init__(
        self,
        root: Path,
        instances: list[Instance],
        parameters: Parameters,
        workers: int,
        record: bool,
        may_record: Callable[[Executed], str | None] | None,
        say: Say,
        key_extra: Extra,
        env: Mapping[str, str | None],
    ) -> None:
        self.root, self.instances, self.workers, self.record, self.say = root, instances, workers, record, say
        self.parameters: Callable[[Instance], Mapping[str, Any]] = lambda instance: parameters_of(parameters, instance)
        self.extra: Callable[[Instance], str] = key_extra if callable(key_extra) else lambda instance: key_extra
        self.may_record = may_record or (lambda executed: None)
        self.env = env
        self.staging = Staging(root)
        self.executed: dict[Instance, Executed] = {}
        self.unchanged: list[Instance] = []
        self.keys: dict[Instance, str] = {}
        self.progress = Progress(say, 0)
        self.inputs = Inputs(root)

    def run(self, chosen: list[Instance]) -> BuildReport:
        self.progress = Progress(self.say, len(chosen))
        self._stage([i for i in chosen if not i.last], self.env)
        recorded = self._records(early=any(i.last for i in chosen))
        if last := [i for i in chosen if i.last]:
            for instance in self.instances:
                if not instance.last and instance not in self.executed and (kept := self._kept(instance)):
                    self.staging.add(built_path(instance), kept)
            beside = self.staging.directory / "files" / ".traceaudit" / "built"
            self._stage(last, {**self.env, "TRACEAUDIT_BUILT": str(beside)})
            recorded += self._records(early=False, skip=recorded)
        removed = self._stale()
        self.staging.swap(removed)
        if self.record:
            self._stamp_again()
        return BuildReport(tuple(self.executed), tuple(self.unchanged), tuple(removed), tuple(recorded))

    def _stage(self, chosen: list[Instance], env: Mapping[str, str | None]) -> None:
        """Execute what changed of these and stage pages and records of the run."""
        inputs = Inputs(self.root)
        for instance in chosen:
            self.keys[instance] = self._key(inputs, instance)
        todo = [i for i in chosen if self.record or not self._is_unchanged(i)]
        for instance in chosen:
            if instance not in todo:
                self.unchanged.append(instance)
                self.progress.line(instance, "unchanged")
        for instance, executed in run_all(
            self.root, todo, self.parameters, self.workers, self.staging.directory / "work", env, self.progress
        ).items():
            self.executed[instance] = executed
            self.staging.add(instance.page, executed.page)
            self.staging.add(built_path(instance), self._built(instance))

    def _key(self, inputs: Inputs, instance: Instance) -> str:
        extra = self.extra(instance)
        if instance.last:
            others = [i for i in self.instances if not i.last]
            digest = hashlib.sha256(b"\0".join(self._without_build(i) for i in others)).hexdigest()
            extra = f"{extra} {digest}"
        return inputs.key(self.root, instance, self.parameters(instance), extra)

    def _without_build(self, instance: Instance) -> bytes:
        aside = self.staging.directory / "files" / built_path(instance)
        content = aside.read_bytes() if aside.is_file() else self._kept(instance)
        data = json.loads(content) if content else {}
        data.pop("build", None)
        return json.dumps(data, sort_keys=True).encode("utf-8")

    def _kept(self, instance: Instance) -> bytes | None:
        """The former record of the run, if it is whole."""
        path = self.root / built_path(instance)
        try:
            records.load(path, modes=True)
            return path.read_bytes()
        except (NothingToCheck, PinMismatch):
            return None

    def _is_unchanged(self, instance: Instance) -> bool:
        """Equal key, and the page is what was written."""
        kept, page = self._kept(instance), self.root / instance.page
        was = json.loads(kept).get("build", {}) if kept else {}
        return (
            was.get("key") == self.keys[instance]
            and page.is_file()
            and hashlib.sha256(page.read_bytes()).hexdigest() == was.get("page_sha256")
        )

    def _built(self, instance: Instance) -> bytes:
        executed = self.executed[instance]
        data = executed.record(instance.chapter, instance.split).as_json(modes=True)
        stamp = {"key": self.keys[instance], "page": instance.page, **card.stamp(executed.seconds, executed.peak_bytes)}
        stamp["page_sha256"] = hashlib.sha256(executed.page).hexdigest()
        return records.dump({**data, "build": stamp}, where=instance.id)

    def _records(self, *, early: bool, skip: Iterable[str] = ()) -> list[str]:
        """Stage the records, or put them in place for the chapters that count them."""
        if not self.record:
            return []
        refused = [f"{i}: {why}" for i, executed in self.executed.items() if (why := self.may_record(executed))]
        if refused:
            raise PinMismatch(
                "no record is written",
                where="data-pins/records",
                got="\n    ".join(refused),
                next_step="record with the committed index, the upstream engine and everything measured",
            )
        contents = {}
        for instance, executed in self.executed.items():
            target = path_of(instance.chapter, instance.split, self.root).relative_to(self.root).as_posix()
            if target not in skip:
                contents[target] = records.to_bytes(executed.record(instance.chapter, instance.split))
        listed = {Path(target).name: hashlib.sha256(content).hexdigest() for target, content in contents.items()}
        owned = {path_of(i.chapter, i.split, self.root).name for i in self.instances}
        kept = {name: digest for name, digest in stored.digests(self.root).items() if name in owned}
        lists = {stored.DIGESTS: stored.dump_digests(kept | listed)}
        if early:
            self.staging.put_now(contents | lists)
        else:
            for target, content in (contents | lists).items():
                self.staging.add(target, content)
        return list(contents)

    def _stamp_again(self) -> None:
        """Records are inputs of pages that recall them; these were measured, so new records alone re-run nothing."""
        inputs = Inputs(self.root)
        if not inputs.differ_in_records_alone(self.inputs):
            return  # something else was edited meanwhile: the next build will see it
        for instance, executed in self.executed.items():
            items: list[Value | Finding] = [*executed.values.values(), *executed.findings.values()]
            if instance.last or all(item.mode == "measured" for item in items):
                self.keys[instance] = self._key(inputs, instance)
                write_whole(self.root / built_path(instance), self._built(instance))

    def _stale(self) -> list[str]:
        owned = {i.page for i in self.instances} | {built_path(i) for i in self.instances}
        found = [*self.root.glob("report/*.ipynb"), *self.root.glob(".traceaudit/built/*.json")]
        names = (path.relative_to(self.root).as_posix() for path in found)
        return sorted(name for name in names if name not in owned)
