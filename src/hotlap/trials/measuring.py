"""One trial from start to end: runs it, reads its records, says why where there is nothing."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from hotlap import optimizations, stats
from hotlap.optimizations.training import APPLIED, EXCEPT, FOLDER, UNTIL
from hotlap.recipes import Recipe
from hotlap.records import Ending, Record
from hotlap.settings import Limits
from hotlap.trials import merging, raw, runner, writes
from hotlap.trials.folder import TrialFolder
from hotlap.trials.output import SIGNALS, ending
from hotlap.trials.raw import Raw
from hotlap.tunings import FAILED, OUT_OF_MEMORY, TIMED_OUT, Run

ELSEWHERE = "another program has started the training, as srun does, out of hotlap's reach"
FIRST_STEPS = 10  # compiling and cold caches are in these
_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|CUDA out of memory|MemoryError|std::bad_alloc|an(?:no|')t allocate memory"
    r"|CUDA (?:driver )?error: out of memory|CU\w+_STATUS_ALLOC_FAILED"  # libraries beside torch's
)
_LAST_ERROR = re.compile(
    r"^(?:\[rank\d+\]: )?(\w[\w.]*(?:Error|Exception|Interrupt|Exit|Failed|Warning)\b.*)$", re.M
)
_LAUNCHERS = "torch.distributed.elastic.multiprocessing.errors"  # says only that a rank failed


@dataclass(frozen=True, kw_only=True)
class Where:
    """What stays the same from trial to trial."""

    words: list[str]
    working: Path
    in_place: bool = False
    keep: bool = False
    trace: bool = False
    variables: dict[str, str] = field(default_factory=dict)
    warn: Callable[[str], None] = lambda text: None
    progress: runner.Progress = lambda state: None


@dataclass(frozen=True, kw_only=True)
class Measured:
    outcome: runner.Outcome
    record: Record | None
    raws: list[Raw]
    applied: dict[str, str]  # optimizations that were, with what they did
    refused: dict[str, str]  # and those that could not be, with why


def measure(
    where: Where,
    folder: TrialFolder,
    limits: Limits,
    *,
    recipe: Recipe,
    losses: bool = False,
    seed: int | None = None,
) -> Measured:
    """Runs the command under the recipe. The record is None where no step was measured."""
    changes = runner.Changes(
        recipe=dict(recipe.changes),
        variables={
            **where.variables,
            **optimizations.environment(dict(recipe.changes), dict(os.environ)),
        },
        seed=seed,
    )
    before = writes.snapshot(where.working, without=folder.path.parents[1])
    try:
        outcome = runner.run(
            where.words,
            folder,
            limits=limits,
            working=where.working,
            in_place=where.in_place,
            losses=losses,
            trace=where.trace,
            changes=changes,
            warn=where.warn,
            progress=where.progress,
        )
    except BaseException:
        folder.forget_writes(keep=where.keep)
        raise
    raws = raw.read(folder.records)
    outcome = _reached(outcome, raws, where)
    ending = _ending(outcome, folder, raws, before=before, where=where)
    record = merging.merge(raws, ending=ending, telemetry=outcome.telemetry)
    folder.forget_writes(keep=where.keep, elsewhere=outcome.upper)
    applied, refused = _said(folder, recipe, raws)
    return Measured(outcome=outcome, record=record, raws=raws, applied=applied, refused=refused)


def _reached(outcome: runner.Outcome, raws: Sequence[Raw], where: Where) -> runner.Outcome:
    """Where another program started the training, no overlay was over its files."""
    if where.in_place or not any(one.get("elsewhere") for one in raws):
        return outcome
    if outcome.overlay_refused is not None:
        return outcome
    where.warn(
        f"The command's writes could not be kept apart: {ELSEWHERE}. torch.save and "
        "TensorBoard logs were led into the trial's folder; anything else it wrote has landed "
        "where it always does."
    )
    return replace(outcome, overlay_refused=ELSEWHERE, protected=[])


def _ending(
    outcome: runner.Outcome,
    folder: TrialFolder,
    raws: Sequence[Raw],
    *,
    before: writes.Snapshot,
    where: Where,
) -> Ending:
    written, total = writes.in_overlay(outcome.upper or folder.path)
    touched: tuple[str, ...] = ()
    if outcome.overlay_refused is not None or where.in_place:
        touched = writes.changed(before, where.working, without=folder.path.parents[1])
    return Ending(
        code=outcome.code,
        signal=outcome.signal,
        stopped=outcome.stopped,
        seconds=outcome.seconds,
        protected=tuple(outcome.protected),
        overlay_refused=outcome.overlay_refused,
        in_place=where.in_place,
        written=written,
        written_bytes=total,
        written_in_place=touched,
        diverted=tuple(sorted({path for one in raws for path in one["diverted"]})),
        left_running=tuple(outcome.left_running),
    )


def _said(
    folder: TrialFolder, recipe: Recipe, raws: Sequence[Raw]
) -> tuple[dict[str, str], dict[str, str]]:
    """What the training processes said they did with the recipe; others (workers) do not count."""
    applied, refused = read_applied(folder.path, {one["pid"] for one in raws})
    for name in recipe.changes:
        if name not in applied and name not in refused:
            refused[name] = "the script never came to where it applies"
    return applied, {name: why for name, why in refused.items() if name not in applied}


def read_applied(path: Path, pids: set[int] | None = None) -> tuple[dict[str, str], dict[str, str]]:
    applied: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, said in _notes(path, pids):
        detail = str(said.get("detail", ""))
        skipped = said.get("skipped_steps")
        if skipped:
            detail += f"; {skipped} steps skipped by overflow"
        (applied if said.get("status") == APPLIED else refused)[name] = detail
    return applied, refused


def read_limits(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Of what was applied: why not to the end of training, and why not everywhere.

    What ended in one process and went on in another was not everywhere.
    """
    ended: dict[str, str] = {}
    in_part: dict[str, str] = {}
    notes = [(name, said) for name, said in _notes(path, None) if said.get("status") == APPLIED]
    for name, said in notes:
        everywhere = all(UNTIL in other for one, other in notes if one == name)
        why = said.get(UNTIL) or said.get(EXCEPT)
        if why is not None:
            (ended if everywhere else in_part).setdefault(name, str(why))
    return ended, in_part


def _notes(path: Path, pids: set[int] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """What each process noted about each optimization."""
    for file in sorted((path / FOLDER).glob("*.json")):
        if pids is not None and (not file.stem.isdigit() or int(file.stem) not in pids):
            continue
        content = _content(file)
        for name, said in content.items() if isinstance(content, dict) else ():
            if isinstance(said, dict):
                yield str(name), said


def as_run(measured: Measured, folder: TrialFolder, *, cold: bool, seed: int = 0) -> Run:
    """What a comparison needs of a trial."""
    outcome, record = measured.outcome, measured.record
    common: dict[str, Any] = {
        "folder": str(folder.path),
        "seconds": outcome.seconds,
        "cold": cold,
        "seed": seed,
        "refused": measured.refused,
        "detail": measured.applied,
    }
    status, reason = _trouble(measured, folder)
    if status is not None or record is None:
        return Run(status=status or FAILED, reason=reason, **common)
    main = next(
        one for one in measured.raws if any(rank.pid == one["pid"] for rank in record.ranks)
    )
    windows = _window_means(main)
    step = record.step.mean_seconds
    if windows:  # else each step starts a loader, and that is in it
        step = stats.median(windows) + _epoch_share(record)
    samples = record.step.samples
    return Run(
        step_seconds=step,
        sample_seconds=step / samples if samples else None,
        windows=tuple(windows),
        peak_bytes=record.memory.peak_bytes,
        start_seconds=_start(main, record, step),
        compile_seconds=record.startup.compile_seconds,
        other_cores=record.usage.other_cores,
        steps=record.step.seen,
        ended=outcome.stopped is None and main.get("complete") is not True,
        losses=record.losses,
        epoch_steps=record.loaders[0].batches if record.loaders else None,
        **common,
    )


def _window_means(one: Raw) -> list[float]:
    """The mean step of each timed window: steps that come in bursts average out within it."""
    windows = [window for window in one["windows"] if window["stage"] == "bare"]
    means = []
    for window in windows[-3:] if one["settled"] else windows:
        rows = [row for row in window["intervals"] if not row["disturbed"]]
        plain = [row["seconds"] for row in rows if row["kind"] == "step"]
        if plain:
            means.append(stats.mean(plain))
    return means


def _epoch_share(record: Record) -> float:
    """Starting the loader anew each epoch, spread over the epoch's steps."""
    batches = record.loaders[0].batches if record.loaders else None
    if not batches or record.epoch_start_seconds is None:
        return 0.0
    return record.epoch_start_seconds / batches


def _start(one: Raw, record: Record, step: float) -> float | None:
    """From the start of the command until steps take their usual time."""
    first = record.startup.first_step_seconds
    if first is None:
        return None
    warm = [window for window in one["windows"] if window["stage"] == "warmup"]
    rows = [float(row["seconds"]) for window in warm for row in window["intervals"]]
    return first + sum(max(0.0, seconds - step) for seconds in rows[:FIRST_STEPS])


def _trouble(measured: Measured, folder: TrialFolder) -> tuple[str | None, str]:
    """(status, reason) of a trial that did not go well."""
    outcome = measured.outcome
    if outcome.stopped in ("timeout", "stalled"):
        return TIMED_OUT, f"no step for {outcome.idle:.0f} s"
    status, reason = failure(outcome, folder)
    garbage = _unreadable(folder) if status is None else None
    if garbage is not None:
        return FAILED, f"its record {garbage} cannot be read: something wrote over it"
    if status is None and measured.record is None:
        return FAILED, "no training step was measured"
    return status, reason


def _unreadable(folder: TrialFolder) -> str | None:
    """A file of the training processes that is none: what it would have said is not known."""
    for file in (*folder.records.glob("*.json"), *(folder.path / FOLDER).glob("*.json")):
        if not isinstance(_content(file), dict):
            return f"{file.parent.name}/{file.name}"
    return None


def _content(file: Path) -> Any:
    """None where it is no JSON."""
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def failure(outcome: runner.Outcome, folder: TrialFolder) -> tuple[str | None, str]:
    """(status, reason) of a command that failed by itself; (None, "") of one that did not."""
    ended_badly = outcome.signal is not None or outcome.code not in (0, None)
    if outcome.stopped is None and ended_badly:
        text = ending(folder.output, lines=60)
        if _OUT_OF_MEMORY.search(text):
            return OUT_OF_MEMORY, _last_error(text) or "it ran out of memory"
        if outcome.signal == 9:
            return OUT_OF_MEMORY, "killed by SIGKILL, as the system does when memory runs out"
        if outcome.signal is not None:
            name = SIGNALS.get(outcome.signal, "?")
            return FAILED, f"killed by signal {outcome.signal} ({name})"
        return FAILED, _last_error(text) or _last_words(outcome.code, text)
    return None, ""


def _last_error(text: str) -> str:
    found = _LAST_ERROR.findall(text)
    own = [line for line in found if not line.startswith(_LAUNCHERS)] or found
    return own[-1][:200] if own else ""


def _last_words(code: int | None, text: str) -> str:
    """Of a command that ended without a traceback: it may have said why in a sentence."""
    said = text.rpartition("\n")[2].strip()[:200]
    return f"exit code {code}: {said}" if said else f"exit code {code}"


class LocalMachine:
    """Runs the trials of a tuning on this machine, one after the other, each in its own folder."""

    def __init__(
        self,
        where: Where,
        folder: Callable[[str], TrialFolder],
        *,
        timed: Limits,
        full: Limits,
        timeout: float,
        before: int = 0,
    ) -> None:
        self._where = where
        self._folder = folder
        self._timed = timed
        self._full = full
        self._timeout = timeout
        self._number = before  # trials that are there from before an interruption
        self.last: TrialFolder  # where the latest trial ran
        self._compiled = {""}  # what is in the compiler's cache by now
        self._filled = {""}  # and in the caches of samples

    def clock(self) -> float:
        return time.monotonic()

    def measure(
        self, recipe: Recipe, limits: Limits, *, limit: float, seed: int = 0
    ) -> tuple[Run, Measured]:
        self._number += 1
        folder = self.last = self._folder(f"{self._number:03d}-{slug(recipe)}")
        limits = replace(limits, timeout=min(self._timeout, limit))
        where = replace(self._where, progress=self._telling(recipe))
        measured = measure(where, folder, limits, recipe=recipe, losses=True, seed=seed)
        cold = recipe.compiled not in self._compiled
        self._compiled.add(recipe.compiled)
        run = as_run(measured, folder, cold=cold, seed=seed)
        filling = self.fills(recipe) and not _left_alone(recipe, measured)
        if filling and run.status is None:
            self._filled.add(recipe.fills)
        return msgspec.structs.replace(run, filling=filling), measured

    def fills(self, recipe: Recipe) -> bool:
        """Whether its next run has to fill a cache: no other one of this process has done so."""
        return recipe.fills not in self._filled

    def _telling(self, recipe: Recipe) -> runner.Progress:
        label, progress = recipe.label(), self._where.progress
        return lambda state: progress({**state, "recipe": label})

    def timed(self, recipe: Recipe, *, limit: float, seed: int = 0) -> tuple[Run, Measured]:
        return self.measure(recipe, self._timed, limit=limit, seed=seed)

    def full(self, recipe: Recipe, *, limit: float) -> tuple[Run, Measured]:
        return self.measure(recipe, self._full, limit=limit)


def _left_alone(recipe: Recipe, measured: Measured) -> bool:
    """Whether no cache was filled after all."""
    fill = [one.NAME for one in optimizations.known() if getattr(one, "FILLS", False)]
    return all(name in measured.refused for name in fill if name in recipe.changes)


def slug(recipe: Recipe) -> str:
    text: Any = re.sub(r"[^a-z0-9]+", "-", recipe.label().lower()).strip("-")
    return str(text)[:60].rstrip("-")
