"""Runs one cell in a fresh process on this machine, and reads what it measured.

Whatever runs cells elsewhere (a batch system) has the same method and answers the same `Done`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hotlap import answers, optimizations
from hotlap.answers import Called, Done, Timed, Trained
from hotlap.errors import Interrupted
from hotlap.recipes import Recipe
from hotlap.settings import Limits
from hotlap.studies.study import AnyCell
from hotlap.trials import measuring, runner
from hotlap.trials.folder import TrialFolder
from hotlap.trials.measuring import Where
from hotlap.trials.runner import Changes, Outcome, Progress

LEAST_FILE_BYTES = 1  # an empty file is none
MOST_FILE_BYTES = 64 << 20  # of figures; a cell that writes more has gone wrong


class Runner(Protocol):
    def run(self, cell: AnyCell, *, progress: Progress) -> Done:
        """Runs it to its end; raises Interrupted where the user stopped it."""


class LocalRunner:
    def __init__(
        self,
        folder: Callable[[str], TrialFolder],
        *,
        before: int = 0,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._folder = folder
        self._number = before  # cells that are there from before an interruption
        self._warn = warn

    def run(self, cell: AnyCell, *, progress: Progress) -> Done:
        self._number += 1
        folder = self._folder(f"{self._number:03d}-{slug(cell.row)}")
        if isinstance(cell, Timed):
            return self._timed(cell, folder, progress)
        if isinstance(cell, Trained):
            words = [*cell.words, "--log", str(folder.epochs)]
            return self._to_its_end(cell, words, Recipe(cell.recipe), folder, progress)
        arguments = json.dumps(cell.arguments)
        words = ["python", "-m", "hotlap.studies.cells", cell.function, arguments]
        return self._to_its_end(cell, [*words, str(folder.figures)], Recipe(), folder, progress)

    def _timed(self, cell: Timed, folder: TrialFolder, progress: Progress) -> Done:
        where = Where(
            words=started(cell.words),
            working=folder.path,
            in_place=True,  # our own workloads write only where they are told to
            variables=variables(cell),
            warn=self._warn,
            progress=progress,
        )
        limits = Limits(
            bare=not cell.phases,
            seconds=cell.seconds,
            window_seconds=cell.window_seconds,
            timeout=cell.limit_seconds,
        )
        recipe = Recipe(cell.recipe)
        measured = measuring.measure(where, folder, limits, recipe=recipe, seed=cell.run)
        stop_if_interrupted(measured.outcome)
        run = measuring.as_run(measured, folder, cold=False, seed=cell.run)
        status, reason = run.status or answers.MEASURED, run.reason
        if run.status is None and run.refused:
            status, reason = answers.FAILED, not_applied(run.refused)
        figures = timed_figures(measured, run) if run.status is None else {}
        return self._done(cell, folder, measured.outcome, status, reason, figures)

    def _to_its_end(
        self,
        cell: Trained | Called,
        words: list[str],
        recipe: Recipe,
        folder: TrialFolder,
        progress: Progress,
    ) -> Done:
        changes = Changes(
            recipe=dict(recipe.changes),
            variables={
                **variables(cell),
                **optimizations.environment(dict(recipe.changes), dict(os.environ)),
            },
        )
        outcome = runner.run(
            started(words),
            folder,
            limits=Limits(timeout=cell.limit_seconds),
            working=folder.path,
            in_place=True,
            watch=False,
            changes=changes,
            warn=self._warn,
            progress=lambda state: progress({**state, "stage": "running"}),
        )
        stop_if_interrupted(outcome)
        if outcome.stopped == "timeout":
            reason = f"not finished after {cell.limit_seconds:.0f} s"
            return self._done(cell, folder, outcome, answers.TIMED_OUT, reason, {})
        status, reason = measuring.failure(outcome, folder)
        figures: dict[str, Any] = {}
        if status is None:
            status, reason, figures = own_figures(cell, folder)
            figures["telemetry"] = telemetry(outcome)
            refused = left_out(recipe, folder)
            if refused:
                status, reason = answers.FAILED, not_applied(refused)
        return self._done(cell, folder, outcome, status, reason, figures)

    def _done(
        self,
        cell: AnyCell,
        folder: TrialFolder,
        outcome: Outcome,
        status: str,
        reason: str,
        figures: dict[str, Any],
    ) -> Done:
        return Done(
            cell=cell,
            status=status,
            reason=reason,
            seconds=outcome.seconds,
            folder=folder.path.name,
            figures=figures,
        )


def started(words: tuple[str, ...] | list[str]) -> list[str]:
    """`python` is the interpreter that runs the study: it is known to have hotlap."""
    return [sys.executable if words[0] == "python" else words[0], *words[1:]]


def variables(cell: AnyCell) -> dict[str, str]:
    """Those of the cell; a relative PYTHONPATH is made absolute, as cells run in their folder."""
    paths = os.environ.get("PYTHONPATH")
    if not paths:
        return dict(cell.variables)
    return {"PYTHONPATH": absolute(paths), **cell.variables}


def absolute(paths: str) -> str:
    return os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))


def stop_if_interrupted(outcome: Outcome) -> None:
    if outcome.stopped == "interrupted":
        raise Interrupted("Interrupted.")


def timed_figures(measured: measuring.Measured, run: Any) -> dict[str, Any]:
    """What a comparison needs of a watched run, and its phases, memory and the machine."""
    record = measured.record
    assert record is not None
    rate = 1 / run.sample_seconds if run.sample_seconds else None
    return {
        "step_seconds": run.step_seconds,
        "sample_seconds": run.sample_seconds,
        "samples_per_second": rate,
        "samples": record.step.samples,
        "windows": list(run.windows),
        "peak_bytes": run.peak_bytes,
        "memory": msgspec.to_builtins(record.memory),
        "phases": {name: one.share for name, one in record.phases.items()},
        "phase_seconds": {name: one.seconds for name, one in record.phases.items()},
        "start_seconds": run.start_seconds,
        "compile_seconds": run.compile_seconds,
        "steps": run.steps,
        "usage": msgspec.to_builtins(record.usage),
        "environment": record.environment,
    }


def own_figures(cell: Trained | Called, folder: TrialFolder) -> tuple[str, str, dict[str, Any]]:
    """(status, reason, figures) of a command that ended well: what it wrote is looked at twice."""
    if isinstance(cell, Trained):
        epochs = [one for one in map(_as_dict, _text(folder.epochs).splitlines()) if one]
        if not epochs:
            return answers.FAILED, "it ended without a line in its log", {}
        return answers.MEASURED, "", {"epochs": epochs}
    found = _as_dict(_text(folder.figures))
    if found is None:
        return answers.FAILED, "it ended without figures", {}
    return answers.MEASURED, "", found


def left_out(recipe: Recipe, folder: TrialFolder) -> dict[str, str]:
    """Optimizations that a row claims and that were not applied, with why."""
    applied, refused = measuring.read_applied(folder.path)
    never = "the script never came to where it applies"
    return {name: refused.get(name, never) for name in recipe.changes if name not in applied}


def not_applied(refused: Mapping[str, str]) -> str:
    return "; ".join(f"{name} was not applied: {why}" for name, why in refused.items())


TOLD = (
    *("cores", "other_cores", "stolen_cores"),
    *("memory_bytes", "machine_memory_bytes", "read_bytes_per_second"),
)


def telemetry(outcome: Outcome) -> list[dict[str, float]]:
    """The machine twice a second, from the start of the command: cores, memory, disk, GPU."""
    kept = []
    for sample in outcome.telemetry:
        one = {"seconds": sample["time"] - outcome.started}
        one.update({name: sample[name] for name in TOLD if sample.get(name) is not None})
        gpus = sample.get("gpus") or [{}]
        for name in ("busy", "memory_bytes"):
            if gpus[0].get(name) is not None:
                one[f"gpu_{name}"] = gpus[0][name]
        kept.append(one)
    return kept


def _text(path: Path) -> str:
    try:
        size = path.stat().st_size
        return path.read_text() if LEAST_FILE_BYTES <= size <= MOST_FILE_BYTES else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _as_dict(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "cell"
