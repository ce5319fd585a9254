"""The verbs as Python functions: what the command line calls, and what scripts may."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap import __version__, records
from hotlap.errors import CommandFailed, Interrupted, NothingMeasured, UsageError
from hotlap.records import SCHEMA, Ending, Profile, Record
from hotlap.rules import find
from hotlap.rules.verdict import judge
from hotlap.settings import Limits
from hotlap.trials import merging, raw, runner, writes
from hotlap.trials.folder import RunFolder, TrialFolder

STEPS_FOR_A_SECOND_LOOK = 8
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}


def profile(
    command: str | Sequence[str],
    *,
    steps: int | None = None,
    seconds: float | None = None,
    timeout: float | None = None,
    out: str | os.PathLike[str] | None = None,
    in_place: bool = False,
    keep: bool = False,
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
    warn, progress: called with a sentence, and with the state of the run ten times a second.

    Raises `UsageError`, `CommandFailed`, `NothingMeasured` or `Interrupted`.
    """
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    limits = _limits(steps=steps, seconds=seconds, timeout=timeout)
    try:
        working = Path.cwd()
    except FileNotFoundError:
        raise UsageError(
            "The working directory is not there any more. Go to one that is."
        ) from None
    run = RunFolder.new("profile", out=Path(out) if out is not None else None)
    trial = run.trial("baseline")
    before = writes.snapshot(working, without=run.path.parent)
    try:
        outcome = runner.run(
            words,
            trial,
            limits=limits,
            working=working,
            in_place=in_place,
            warn=warn,
            progress=progress,
        )
    except UsageError:
        _forget(run, trial)
        raise
    except BaseException:
        trial.forget_writes(keep=keep)
        raise
    ending = _ending(outcome, trial, before=before, working=working, in_place=in_place)
    record = merging.merge(raw.read(trial.records), ending=ending, telemetry=outcome.telemetry)
    trial.forget_writes(keep=keep, elsewhere=outcome.upper)
    if record is None:
        raise _why_nothing(words, outcome, trial, limits)
    interrupted = outcome.stopped == "interrupted"
    if _ended_early(record, outcome) and not in_place:
        again = run.trial("again")
        brief = replace(limits, brief=True)
        second = runner.run(
            words, again, limits=brief, working=working, in_place=in_place, progress=progress
        )
        again.forget_writes(keep=False, elsewhere=second.upper)
        interrupted = second.stopped == "interrupted"
        record = merging.complete(record, raw.read(again.records))
    result = _conclude(record, words, run)
    records.save(result, run.result)
    if interrupted:
        raise Interrupted(
            f"Interrupted after {record.step.seen} steps. What was measured is in {run.result}",
            profile=result,
        )
    if outcome.stopped is None and _failed(outcome):
        raise CommandFailed(
            f"{_how_it_failed(words, outcome)} after {record.step.seen} steps. "
            f"What was measured until then is in {run.result}",
            output=tail(trial.output),
            profile=result,
        )
    return result


def _ended_early(record: Record, outcome: runner.Outcome) -> bool:
    """The command ended by itself before memory and kernels were seen, but has steps enough."""
    return (
        outcome.stopped is None
        and not _failed(outcome)
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
        if not value >= least or (least == 0 and value == 0):
            raise UsageError(f"--{name} is {value}; it must be positive.")
    return chosen


def _conclude(record: Record, words: list[str], run: RunFolder) -> Profile:
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


def _ending(
    outcome: runner.Outcome,
    trial: TrialFolder,
    *,
    before: writes.Snapshot,
    working: Path,
    in_place: bool,
) -> Ending:
    raws = raw.read(trial.records)
    written, total = writes.in_overlay(outcome.upper or trial.path)
    touched: tuple[str, ...] = ()
    if outcome.overlay_refused is not None or in_place:
        touched = writes.changed(before, working, without=trial.path.parents[1])
    return Ending(
        code=outcome.code,
        signal=outcome.signal,
        stopped=outcome.stopped,
        seconds=outcome.seconds,
        protected=tuple(outcome.protected),
        overlay_refused=outcome.overlay_refused,
        in_place=in_place,
        written=written,
        written_bytes=total,
        written_in_place=touched,
        diverted=tuple(sorted({path for one in raws for path in one["diverted"]})),
        left_running=tuple(outcome.left_running),
    )


def _failed(outcome: runner.Outcome) -> bool:
    return outcome.signal is not None or outcome.code not in (0, None)


def _how_it_failed(words: list[str], outcome: runner.Outcome) -> str:
    name = " ".join(words[:4]) + (" …" if len(words) > 4 else "")
    if outcome.signal is not None:
        number = outcome.signal
        return f"The command ({name}) was killed by signal {number} ({_SIGNALS.get(number, '?')})"
    return f"The command ({name}) failed with exit code {outcome.code}"


def _why_nothing(
    words: list[str], outcome: runner.Outcome, trial: TrialFolder, limits: Limits
) -> Exception:
    output = tail(trial.output)
    where = f"Its output is in {trial.output}"
    if outcome.stopped == "interrupted":
        return Interrupted("Interrupted before a training step was measured.")
    if outcome.stopped is None and _failed(outcome):
        text = f"{_how_it_failed(words, outcome)} before a training step was measured."
        return CommandFailed(text, output=output)
    saw_torch = any(trial.seen.glob("*.json"))
    notes = sorted(trial.path.glob("bootstrap-*.txt"))
    if outcome.stopped == "timeout":
        text = f"No training step was seen in {limits.timeout:g} s, so the command was stopped. "
        text += "If it needs longer to start, allow it with --timeout. " + where
    elif notes:
        last = notes[0].read_text().strip().splitlines()[-1:]
        text = (
            f"hotlap could not watch this torch: {' '.join(last)}. Please report it with {notes[0]}"
        )
    elif not saw_torch:
        text = (
            "The command ended without importing torch, so there is nothing to measure. If it "
            "does train with torch, its Python may have been started with -I or -E, which hides "
            f"hotlap from it. {where}"
        )
    elif any(trial.records.glob("*.json")):
        text = f"The command ended after a single training step: too few to measure. {where}"
    else:
        text = (
            "The command ran and imported torch, but no optimizer stepped and no backward pass "
            f"was counted. Is this the command that trains? {where}"
        )
    return NothingMeasured(text, output=output)


def tail(log: Path, lines: int = 30) -> str:
    """The last lines of the command's output, without terminal control characters."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 64_000))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    import re

    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n").replace("\b", "")
    kept = [line.rpartition("\r")[2] for line in text.splitlines() if line.strip()]
    return "\n".join(kept[-lines:])


def _forget(run: RunFolder, trial: TrialFolder) -> None:
    """A request that was wrong leaves no folder behind."""
    from hotlap.trials.folder import remove_tree

    trial.forget_writes(keep=False)
    remove_tree(run.path)
    home = run.path.parent
    if home.name == ".hotlap" and {entry.name for entry in home.iterdir()} <= {".gitignore"}:
        remove_tree(home)
