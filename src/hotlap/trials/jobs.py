"""Jobs of a cluster that one hotlap waits for: handed in, followed, and taken back at its end.

While it lives it counts up a file that the jobs look at: those of a hotlap that was killed end by
themselves. The file is its own, so that one that goes on in the same folder keeps no strangers.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hotlap import units
from hotlap.errors import Interrupted, UsageError
from hotlap.trials.runner import Progress, undisturbed
from hotlap.trials.slurm import RUNNING, Full, Job, Slurm, Unanswered

BEAT_SECONDS = 5.0
LOOK_SECONDS = 0.5  # for an answer
ASK_SECONDS = 2.0  # the cluster, at first; later more rarely
MOST_ASK_SECONDS = 15.0
LATE_SECONDS = 30.0  # that an answer may take to show up once its job has ended
SILENT_SECONDS = 600.0  # without a word from the cluster, or a place in its queue
AGAIN_SECONDS = 20.0  # until a job is handed in again that was not taken
UNHEARD = Job(state="UNANSWERED")  # handed in, and nobody knows whether it was taken


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A job that is to be handed in."""

    words: tuple[str, ...]
    folder: Path  # one that no other job has: it may be lost, and run nevertheless
    name: str
    seconds: float
    patient: bool = False  # whether it waits for a place where the cluster takes no more for now


class Jobs:
    def __init__(
        self,
        slurm: Slurm,
        home: Path,
        *,
        warn: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        token = secrets.token_hex(4)
        self.alive = home / f"alive-{token}"
        self._prefix = f"hotlap-{token}"
        self._slurm = slurm
        self._warn = warn
        self._clock = clock
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._known: dict[str, Job] = {}  # those that are waited for, as they were when last asked
        self._asked = -math.inf  # when, last
        self._answered = math.inf  # when it did, last
        self._pause = ASK_SECONDS  # until it is asked again
        self._said: set[str] = set()

    def __enter__(self) -> Jobs:
        self._mark(0)
        self._beat = threading.Thread(target=self._count, name="hotlap-alive", daemon=True)
        self._beat.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with undisturbed():  # a second Ctrl-C leaves no job behind
            self.stop()
            self._beat.join()
            self.alive.unlink(missing_ok=True)

    def stop(self) -> None:
        """All that run are taken back and none is handed in any more: it raises Interrupted."""
        self._stopped.set()
        with self._lock:
            left = list(self._known)
        self._cancel(left)

    def _cancel(self, numbers: list[str]) -> None:
        with contextlib.suppress(Unanswered):
            self._slurm.cancel(numbers)

    def wait(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise Interrupted("Interrupted.")

    def say(self, text: str) -> None:
        """What is true of every job is said with the first."""
        with self._lock:
            new = text not in self._said
            self._said.add(text)
        if new:
            self._warn(text)

    def _count(self) -> None:
        beats = 0
        while not self._stopped.wait(BEAT_SECONDS):
            beats += 1
            self._mark(beats)

    def _mark(self, beats: int) -> None:
        with contextlib.suppress(OSError):  # a full disk is for those to tell who need it
            self.alive.write_text(str(beats))

    def follow(self, asked: Asked, answer: Path, progress: Progress) -> Job | None:
        """None once the answer is there; how the job ended where none came."""
        try:
            with self._running(asked, progress) as number:
                job = self._until(number, answer, progress)
                if job is not None:  # also one that only seems to have ended
                    self._cancel([number])
                return job
        except Unanswered as problem:
            self.say(f"SLURM does not answer: {problem}. hotlap goes on asking.")
            with contextlib.suppress(Unanswered):
                self._slurm.cancel_named(self._named(asked))
            return UNHEARD

    def _until(self, number: str, answer: Path, progress: Progress) -> Job | None:
        began, ended = self._clock(), None
        while True:
            self.wait(LOOK_SECONDS)
            if _is_there(answer):
                return None
            now = self._clock()
            job = self._state(number, now)
            progress({"seconds": now - began, "where": self._where(), "steps": 0})
            ended = (ended or now) if job.ended else None
            if ended is not None and now - ended > LATE_SECONDS:
                return job

    @contextlib.contextmanager
    def _running(self, asked: Asked, progress: Progress) -> Iterator[str]:
        """Its number. It is taken back where nobody waits for it any more."""
        number, came = self._handed_in(asked, progress)
        whole = False
        try:
            _heed(came)
            yield number
            whole = True
        finally:
            with undisturbed():
                with self._lock:
                    del self._known[number]
                if not whole:
                    self._cancel([number])

    def _handed_in(self, asked: Asked, progress: Progress) -> tuple[str, list[int]]:
        """Its number, and the signals that came meanwhile: nothing comes between job and number."""
        began = self._clock()
        while True:
            with undisturbed() as came:
                number = self._taken(asked, patient=self._clock() - began < SILENT_SECONDS)
            if number is not None:
                return number, came
            _heed(came)
            waited = self._clock() - began
            progress({"seconds": waited, "where": "waiting for a place in the queue", "steps": 0})
            self.wait(AGAIN_SECONDS)

    def _taken(self, asked: Asked, *, patient: bool) -> str | None:
        """None where the cluster takes no more for now, and the job can wait."""
        with self._lock:
            if self._stopped.is_set():
                raise Interrupted("Interrupted.")
            try:
                number = self._slurm.submit(
                    asked.words,
                    name=self._named(asked),
                    folder=asked.folder,
                    seconds=asked.seconds,
                )
            except Full:
                if not (asked.patient and patient):
                    raise
                return None
            except OSError as problem:
                raise UsageError(
                    f"{asked.folder} cannot be written to: {problem.strerror}."
                ) from problem
            self._known[number] = Job(state="PENDING")
            return number

    def _named(self, asked: Asked) -> str:
        return f"{self._prefix}-{asked.name}"

    def _state(self, number: str, now: float) -> Job:
        """One question is for all jobs, and the longer they take, the more rarely it is asked."""
        with self._lock:
            if now - self._asked >= self._pause:
                self._asked = now
                self._ask(now)
            return self._known[number]

    def _ask(self, now: float) -> None:
        before = dict(self._known)
        try:
            self._known.update(self._slurm.jobs(self._known))
            self._answered = now
        except Unanswered as problem:
            self._answered = min(self._answered, now)  # it may never have done so
            if now - self._answered > SILENT_SECONDS:
                self.gone(problem)
        longer = min(MOST_ASK_SECONDS, 1.3 * self._pause)
        self._pause = longer if before == self._known else ASK_SECONDS

    def gone(self, problem: Exception | str) -> None:
        """The cluster has been silent for too long: what there is, is kept."""
        self._warn(f"SLURM has not answered for {SILENT_SECONDS:.0f} s: {problem}.")
        raise Interrupted("Interrupted.")

    def _where(self) -> str:
        """Of one job where it is; of several how many are."""
        with self._lock:
            jobs = list(self._known.values())
        if len(jobs) == 1:
            return _words(jobs[0])
        running = sum(job.state in RUNNING for job in jobs)
        return f"{units.plural(running, 'job')} running, {len(jobs) - running} in the queue"


def _heed(signals: list[int]) -> None:
    for number in signals:
        signal.raise_signal(number)


def _is_there(file: Path) -> bool:
    """Listed, not asked for: network file systems remember for long what was not there."""
    try:
        return file.name in os.listdir(file.parent)
    except OSError:
        return False


def _words(job: Job) -> str:
    if job.state in RUNNING:
        return f"running on {job.nodes}" if job.nodes else "running"
    if job.state != "PENDING":
        return job.state.lower().replace("_", " ")
    return f"in the queue ({job.reason})" if job.reason not in ("", "None") else "in the queue"
