"""Runs the cells of a study as jobs of a SLURM cluster.

The folder of runs lies on a file system that the nodes share; requests and answers go through it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from hotlap import answers, records
from hotlap.answers import Done, Timed
from hotlap.errors import NothingMeasured, RecordError, UsageError
from hotlap.studies.job import ANSWER, REQUEST, Request, Response
from hotlap.studies.runner import absolute, slug
from hotlap.studies.study import AnyCell
from hotlap.studies.surroundings import Surroundings
from hotlap.trials.folder import TrialFolder
from hotlap.trials.jobs import AGAIN_SECONDS, SILENT_SECONDS, UNHEARD, Asked, Jobs
from hotlap.trials.runner import Progress
from hotlap.trials.slurm import GONE, Job

TRIES = 3  # where nodes fail, or others come first
LOST = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED")
SPARE_SECONDS = 300.0  # of a job: to start, to decode images, to tidy up
STATUSES = {"TIMEOUT": answers.TIMED_OUT, "OUT_OF_MEMORY": answers.OUT_OF_MEMORY}


class SlurmRunner:
    def __init__(
        self,
        jobs: Jobs,
        folder: Callable[[str], TrialFolder],
        *,
        before: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs = jobs
        self._folder = folder
        self._number = before
        self._clock = clock
        self._lock = threading.Lock()

    def look(self, folder: Path, progress: Progress) -> Surroundings:
        """What a node is: the machine hotlap was started on may be quite another."""
        asked = Asked(words=_words(folder), folder=folder, name="look", seconds=SPARE_SECONDS)
        found = self._answer(None, asked, progress)
        if isinstance(found, Response) and found.around is not None:
            return found.around
        why = found.problem if isinstance(found, Response) else _why(found, "it", folder)
        raise NothingMeasured(f"The first job, which looks at a node, came to nothing: {why}")

    def run(self, cell: AnyCell, *, progress: Progress) -> Done:
        began, lost = self._clock(), 0
        while True:
            asked = self._fresh(cell)
            try:
                found = self._answer(cell, asked, progress)
            except (UsageError, OSError) as problem:
                return _failed(cell, asked, str(problem))
            if found == UNHEARD:
                if self._clock() - began > SILENT_SECONDS:
                    self._jobs.gone("no job was taken")
                self._jobs.wait(AGAIN_SECONDS)
                continue
            lost += 1
            if isinstance(found, Response):
                return self._done(cell, asked, found)
            if found.state not in LOST or lost == TRIES:
                status = STATUSES.get(found.state, answers.FAILED)
                return _failed(cell, asked, _why(found, "its job", asked.folder), status)

    def _fresh(self, cell: AnyCell) -> Asked:
        """In a folder of its own: what a lost job has left, or still writes, is none of its."""
        with self._lock:
            self._number += 1
            name = f"{self._number:03d}-{slug(cell.row)}"
        folder = self._folder(name).path
        seconds = SPARE_SECONDS + cell.limit_seconds
        seconds += cell.seconds if isinstance(cell, Timed) else 0.0
        words = _words(folder)
        return Asked(words=words, folder=folder, name=name, seconds=seconds, patient=True)

    def _answer(self, cell: AnyCell | None, asked: Asked, progress: Progress) -> Response | Job:
        """What the job answered; how it ended where it did not."""
        request = Request(cell=cell, alive=str(self._jobs.alive))
        (asked.folder / ANSWER).unlink(missing_ok=True)
        records.write(msgspec.json.encode(request), asked.folder / REQUEST)
        job = self._jobs.follow(asked, asked.folder / ANSWER, progress)
        return _read(asked.folder / ANSWER) if job is None else job

    def _done(self, cell: AnyCell, asked: Asked, found: Response) -> Done:
        for text in found.warnings:
            self._jobs.say(text)
        if found.done is None:
            return _failed(cell, asked, found.problem or "its job answered nothing")
        ran_on = {"host": found.host, "processor": found.processor, "gpu": found.gpu}
        figures = {**found.done.figures, "node": ran_on}
        return msgspec.structs.replace(found.done, figures=figures, folder=asked.folder.name)


def _words(folder: Path) -> tuple[str, ...]:
    """What a job runs, in its folder: a relative PYTHONPATH would mean another one there."""
    paths = os.environ.get("PYTHONPATH")
    given = ("env", f"PYTHONPATH={absolute(paths)}") if paths else ()
    return (*given, sys.executable, "-m", "hotlap.studies.job", str(folder))


def _failed(cell: AnyCell, asked: Asked, reason: str, status: str = answers.FAILED) -> Done:
    return Done(cell=cell, status=status, reason=reason, folder=asked.folder.name)


def _read(file: Path) -> Response:
    content = records.read(file)
    try:
        return msgspec.json.decode(content, type=Response)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        raise RecordError(f"{file} is not what a job answers: {problem}.") from problem


def _why(job: Job, opening: str, folder: Path) -> str:
    """Why there is no answer, in words: its state, and what it printed last."""
    if job == UNHEARD:
        return "SLURM did not answer; try again when it does."
    said = _last_line(folder / "slurm.log")
    if job.state == "CANCELLED":  # its reason is what it waited for last
        return f"{opening} was cancelled" if said else f"{opening} was cancelled before it began"
    state = "is not known to SLURM any more" if job == GONE else f"ended as {job.state}"
    words = f"{opening} {state}"
    if job.reason not in ("", "None", "NonZeroExitCode"):
        words += f" ({job.reason})"
    if said:
        return f"{words}: {said}"
    return f"{words} and left no word. Do the nodes share the file system of {folder}?"


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:200]
