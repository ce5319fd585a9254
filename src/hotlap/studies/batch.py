"""Runs the cells of a study as jobs of a SLURM cluster, several at once where that is asked for.

The folder of runs lies on a file system that the nodes share; requests and answers go through it.
"""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hotlap import answers, records, units
from hotlap.answers import Done, Timed
from hotlap.errors import Interrupted, NothingMeasured, RecordError, UsageError
from hotlap.studies.job import ALIVE, ANSWER, REQUEST, Request, Response
from hotlap.studies.runner import slug
from hotlap.studies.study import AnyCell
from hotlap.studies.surroundings import Surroundings
from hotlap.trials.folder import TrialFolder
from hotlap.trials.runner import Progress, undisturbed
from hotlap.trials.slurm import GONE, RUNNING, Job, Slurm, Unanswered

BEAT_SECONDS = 5.0
LOOK_SECONDS = 0.5  # for an answer
ASK_SECONDS = 2.0  # the cluster, at first; later more rarely
MOST_ASK_SECONDS = 15.0
LATE_SECONDS = 20.0  # that an answer may take to show up once its job has ended
SILENT_SECONDS = 600.0  # without a word from the cluster
AGAIN_SECONDS = 20.0  # until a job is handed in again that was not taken
TRIES = 3  # where nodes fail, or others come first
LOST = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED")
SPARE_SECONDS = 300.0  # of a job: to start, to decode images, to tidy up
STATUSES = {"TIMEOUT": answers.TIMED_OUT, "OUT_OF_MEMORY": answers.OUT_OF_MEMORY}


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A job that is to be handed in."""

    folder: Path
    name: str
    seconds: float
    patient: bool = False  # whether it is worth trying again

    @property
    def words(self) -> tuple[str, ...]:
        return (sys.executable, "-m", "hotlap.studies.job", str(self.folder))


class SlurmRunner:
    """`with` it the file that tells the jobs that somebody waits for them is counted up."""

    def __init__(
        self,
        slurm: Slurm,
        home: Path,
        *,
        folder: Callable[[str], TrialFolder],
        before: int = 0,
        warn: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slurm = slurm
        self._alive = home / ALIVE
        self._folder = folder
        self._number = before
        self._warn = warn
        self._clock = clock
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._jobs: dict[str, Job] = {}  # those that run, and how they were when last asked about
        self._asked = -math.inf  # when, last
        self._answered = math.inf  # when it did, last
        self._pause = ASK_SECONDS  # until it is asked again
        self._said: set[str] = set()

    def __enter__(self) -> SlurmRunner:
        self._mark(0)
        self._beat = threading.Thread(target=self._count, name="hotlap-alive", daemon=True)
        self._beat.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with undisturbed():  # a second Ctrl-C leaves no job behind
            self.stop()
            self._beat.join()
            self._alive.unlink(missing_ok=True)

    def stop(self) -> None:
        """All jobs that run are taken back; `run` raises Interrupted."""
        self._stopped.set()
        with self._lock:
            left = [number for number, job in self._jobs.items() if not job.ended]
        for number in left:
            self._cancel(number)

    def _cancel(self, number: str) -> None:
        with contextlib.suppress(Unanswered):
            self._slurm.cancel(number)

    def _count(self) -> None:
        beats = 0
        while not self._stopped.wait(BEAT_SECONDS):
            beats += 1
            self._mark(beats)

    def _mark(self, beats: int) -> None:
        with contextlib.suppress(OSError):  # a full disk is for those to tell who need it
            self._alive.write_text(str(beats))

    def look(self, folder: Path, progress: Progress) -> Surroundings:
        """What a node is: the machine hotlap was started on may be quite another."""
        asked = _Asked(folder=folder, name="hotlap-look", seconds=SPARE_SECONDS)
        found = self._answer(Request(alive=str(self._alive)), asked, progress)
        if isinstance(found, Job) or found.around is None:
            why = found.problem if isinstance(found, Response) else _why(found, "", folder)
            raise NothingMeasured(f"The first job, which looks at a node, came to nothing: {why}")
        return found.around

    def run(self, cell: AnyCell, *, progress: Progress) -> Done:
        with self._lock:
            self._number += 1
            name = f"{self._number:03d}-{slug(cell.row)}"
        path = self._folder(name).path
        request = Request(cell=cell, alive=str(self._alive))
        asked = _Asked(
            folder=path,
            name=f"hotlap-{name}",
            seconds=SPARE_SECONDS
            + cell.limit_seconds
            + (cell.seconds if isinstance(cell, Timed) else 0.0),
            patient=True,
        )
        try:
            for _ in range(TRIES):
                found = self._answer(request, asked, progress)
                if not isinstance(found, Job) or found.state not in LOST:
                    break
        except (UsageError, Unanswered) as problem:
            reason = str(problem)
            return Done(cell=cell, status=answers.FAILED, reason=reason, folder=path.name)
        if isinstance(found, Job):
            status = STATUSES.get(found.state, answers.FAILED)
            reason = _why(found, "its job", path)
            return Done(cell=cell, status=status, reason=reason, folder=path.name)
        for text in found.warnings:
            self._say(text)
        if found.done is None:
            reason = found.problem or "its job answered nothing"
            return Done(cell=cell, status=answers.FAILED, reason=reason, folder=path.name)
        ran_on = {"host": found.host, "processor": found.processor, "gpu": found.gpu}
        figures = {**found.done.figures, "node": ran_on}
        return msgspec.structs.replace(found.done, figures=figures, folder=path.name)

    def _answer(self, request: Request, asked: _Asked, progress: Progress) -> Response | Job:
        """What the job answered; how it ended where it did not."""
        folder = asked.folder
        (folder / ANSWER).unlink(missing_ok=True)
        records.write(msgspec.json.encode(request), folder / REQUEST)
        with self._running(asked) as number:
            began = self._clock()
            ended: float | None = None
            while True:
                if self._stopped.wait(LOOK_SECONDS):
                    raise Interrupted("Interrupted.")
                if (folder / ANSWER).exists():
                    return _read(folder / ANSWER)
                now = self._clock()
                job = self._state(number, now)
                progress({"seconds": now - began, "where": self._where(), "steps": 0})
                ended = (ended or now) if job.ended else None
                if ended is not None and now - ended > LATE_SECONDS:
                    return job

    @contextlib.contextmanager
    def _running(self, asked: _Asked) -> Iterator[str]:
        """A job, which is taken back where nobody waits for it any more."""
        number, came = self._handed_in(asked)
        whole = False
        try:
            _heed(came)
            yield number
            whole = True
        finally:
            with undisturbed():
                with self._lock:
                    job = self._jobs.pop(number)
                if not whole and not job.ended:
                    self._cancel(number)

    def _handed_in(self, asked: _Asked) -> tuple[str, list[int]]:
        """Its number, and the signals that came meanwhile: nothing comes between job and number.

        Clusters take so many jobs of somebody at once: the patient try again.
        """
        began = self._clock()
        while True:
            with undisturbed() as came, self._lock:
                try:
                    number = self._slurm.submit(
                        asked.words, name=asked.name, folder=asked.folder, seconds=asked.seconds
                    )
                    self._jobs[number] = Job(state="PENDING")
                    return number, came
                except (UsageError, Unanswered):
                    if not asked.patient or self._clock() - began > SILENT_SECONDS:
                        raise
            _heed(came)
            if self._stopped.wait(AGAIN_SECONDS):
                raise Interrupted("Interrupted.")

    def _state(self, number: str, now: float) -> Job:
        """One question is for all jobs, and the longer they take, the more rarely it is asked."""
        with self._lock:
            if now - self._asked >= self._pause:
                self._asked = now
                self._ask(now)
            return self._jobs[number]

    def _ask(self, now: float) -> None:
        before = dict(self._jobs)
        try:
            self._jobs.update(self._slurm.jobs(self._jobs))
            self._answered = now
        except Unanswered as problem:
            self._answered = min(self._answered, now)  # it may never have done so
            if now - self._answered > SILENT_SECONDS:
                self._warn(f"SLURM has not answered for {SILENT_SECONDS:.0f} s: {problem}.")
                raise Interrupted("Interrupted.") from problem
        longer = min(MOST_ASK_SECONDS, 1.3 * self._pause)
        self._pause = longer if before == self._jobs else ASK_SECONDS

    def _where(self) -> str:
        """Of one job where it is; of several how many are."""
        with self._lock:
            jobs = list(self._jobs.values())
        if len(jobs) == 1:
            return _words(jobs[0])
        running = sum(job.state in RUNNING for job in jobs)
        return f"{units.plural(running, 'job')} running, {len(jobs) - running} in the queue"

    def _say(self, text: str) -> None:
        """What is true of every job is said with the first."""
        with self._lock:
            new = text not in self._said
            self._said.add(text)
        if new:
            self._warn(text)


def _heed(signals: list[int]) -> None:
    for number in signals:
        signal.raise_signal(number)


def _words(job: Job) -> str:
    if job.state in RUNNING:
        return f"running on {job.nodes}" if job.nodes else "running"
    return f"in the queue ({job.reason})" if job.reason not in ("", "None") else "in the queue"


def _read(file: Path) -> Response:
    content = records.read(file)
    try:
        return msgspec.json.decode(content, type=Response)
    except msgspec.DecodeError as problem:
        raise RecordError(f"{file} is not what a job answers: {problem}.") from problem


def _why(job: Job, opening: str, folder: Path) -> str:
    """Why there is no answer, in words: its state, and what it printed last."""
    said = _last_line(folder / "slurm.log")
    state = "is not known to SLURM any more" if job == GONE else f"ended as {job.state}"
    words = f"{opening or 'it'} {state}"
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
