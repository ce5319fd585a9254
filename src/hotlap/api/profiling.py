"""hotlap.profile: one trial of the command as it is, and what follows from its record."""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from hotlap import __version__, records
from hotlap.api.failures import counted, failed, how_it_failed, why_nothing
from hotlap.errors import CommandFailed, Interrupted, RecordError, UsageError
from hotlap.recipes import Recipe
from hotlap.records import SCHEMA, Profile, Record
from hotlap.rules import find
from hotlap.rules.verdict import judge
from hotlap.settings import Limits
from hotlap.trials import measuring, merging, runner, traces
from hotlap.trials.folder import RunFolder, TrialFolder
from hotlap.trials.measuring import Where
from hotlap.trials.output import ending
from hotlap.trials.scratch import remove_tree

STEPS_FOR_A_SECOND_LOOK = 8


def profile(
    command: str | Sequence[str],
    *,
    steps: int | None = None,
    seconds: float | None = None,
    timeout: float | None = None,
    out: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    keep: bool = False,
    trace: str | os.PathLike[str] | None = None,
    warn: Callable[[str], None] = lambda text: None,
    progress: Callable[[dict[str, Any]], None] = lambda state: None,
) -> Profile:
    """Runs a training command under watch and says where its steps go.

    command: the words one would type (`["train.py", "--epochs", "90"]`), or the line itself.
    steps, seconds: measure at most so much (2000 steps, 30 s); the command is stopped once three
        windows of steps agree.
    timeout: give up when no step comes for so many seconds (600).
    out: the folder for runs (./.hotlap).
    in_place: let the command write where it always does; keep: keep what it wrote in the run.
    trace: write what torch.profiler saw of a few steps to this file, for Perfetto or TensorBoard
        (compressed if it ends in .gz).
    warn, progress: called with a sentence, and with the state of the run ten times a second.

    Raises `UsageError`, `CommandFailed`, `NothingMeasured` or `Interrupted`.
    """
    words = as_words(command)
    limits = _limits(steps=steps, seconds=seconds, timeout=timeout)
    working = working_directory()
    run = RunFolder.new("profile", out=Path(out) if out is not None else None)
    trial = run.trial("baseline")
    where = Where(
        words=words,
        working=working,
        in_place=in_place,
        keep=keep,
        trace=trace is not None,
        warn=warn,
        progress=progress,
    )
    trials = [trial]
    try:
        measured = measuring.measure(where, trial, limits, recipe=Recipe())
    except UsageError:
        forget(run, trial)
        raise
    outcome, record = measured.outcome, measured.record
    if record is None:
        raise why_nothing(words, outcome, trial, limits)
    interrupted = outcome.stopped == "interrupted"
    if _ended_early(record, outcome) and not in_place:
        again = run.trial("again")
        trials.append(again)
        silent = replace(where, keep=False, warn=lambda text: None)
        second = measuring.measure(silent, again, replace(limits, brief=True), recipe=Recipe())
        interrupted = second.outcome.stopped == "interrupted"
        record = merging.complete(record, second.raws)
    result = conclude(record, words, run)
    records.save(result, run.result)
    if trace is not None:  # after that: a large one takes a while, and may be interrupted
        kept = _bring_trace(trials, record, Path(trace), warn)
        result = msgspec.structs.replace(result, trace=kept)
        records.save(result, run.result)
    if interrupted:
        raise Interrupted(
            f"Interrupted after {record.step.seen} steps. What was measured is in {run.result}",
            profile=result,
        )
    if outcome.stopped is None and failed(outcome):
        raise CommandFailed(
            f"{how_it_failed(words, outcome)} after {counted(outcome, record.step.seen)}. "
            f"What was measured until then is in {run.result}",
            output=ending(trial.output),
            profile=result,
        )
    return result


def _bring_trace(
    trials: Sequence[TrialFolder], record: Record, target: Path, warn: Callable[[str], None]
) -> str | None:
    """Where it is; None where there is none, which is told."""
    found = traces.found(trials, record.ranks)
    if found is not None:
        try:
            traces.bring(found, target)
        except RecordError as problem:  # what was measured is worth more than that
            warn(f"{problem} The trace is kept in {found}")
            return str(found)
    for trial in trials:
        remove_tree(trial.traces)
    if found is not None:
        return str(target)
    seen = record.kernels
    reason = seen.problem if seen else "it ended before torch.profiler had seen a whole step of it"
    warn(f"There is no trace of the command: {reason or 'it could not be written'}.")
    return None


def as_words(command: str | Sequence[str]) -> list[str]:
    return shlex.split(command) if isinstance(command, str) else [str(word) for word in command]


def working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError(
            "The working directory is not there any more. Go to one that is."
        ) from None


def _ended_early(record: Record, outcome: runner.Outcome) -> bool:
    """The command ended by itself before memory and kernels were seen, but has steps enough."""
    return (
        outcome.stopped is None
        and not failed(outcome)
        and record.kernels is None
        and record.step.seen >= STEPS_FOR_A_SECOND_LOOK
    )


def _limits(*, steps: int | None, seconds: float | None, timeout: float | None) -> Limits:
    plain = Limits()
    chosen = Limits(
        steps=plain.steps if steps is None else steps,
        seconds=plain.seconds if seconds is None else seconds,
        timeout=plain.timeout if timeout is None else timeout,
    )
    for name, value, least in (
        ("steps", chosen.steps, 1),
        ("seconds", chosen.seconds, 0),
        ("timeout", chosen.timeout, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"--{name} is {value!r}; it must be a number.")
        if not value >= least or (least == 0 and value == 0):
            raise UsageError(f"--{name} is {value}; it must be positive.")
    if not math.isfinite(chosen.seconds):
        raise UsageError(f"--seconds is {chosen.seconds}; it must end. An hour is 3600.")
    return chosen


def conclude(record: Record, words: list[str], run: RunFolder) -> Profile:
    verdict = judge(record)
    fields = {name: getattr(record, name) for name in Record.__struct_fields__}
    return Profile(
        schema=SCHEMA,
        hotlap=__version__,
        command=tuple(words),
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        folder=str(run.path),
        verdict=verdict,
        findings=find(record, verdict),
        **fields,
    )


def forget(run: RunFolder, trial: TrialFolder | None) -> None:
    """A request that was wrong leaves no folder behind."""
    if trial is not None:
        trial.forget_writes(keep=False)
    remove_tree(run.path)
    home = run.path.parent
    if home.name == ".hotlap" and {entry.name for entry in home.iterdir()} <= {".gitignore"}:
        remove_tree(home)
