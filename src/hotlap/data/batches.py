"""The fetches of one batch: all at once, in order, and none goes on when the batch is over.

Each fetch is settled once, by its thread or by whoever waited too long for it. What a thread brings
after that is dropped, and the thread ends: another took its place.
"""

from __future__ import annotations

import functools
import operator
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from hotlap.data.attempts import TookTooLong
from hotlap.data.crews import Crew
from hotlap.data.failures import AS_IS, Failures, named

LINGER_SECONDS = 5.0  # how long a failed batch waits for the fetches that are under way

Call = Callable[[threading.Event], Any]  # the event says that nobody waits for it any more


class Problem:
    """Stands where a sample would; a dataset may well have errors as samples."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class StillRunning(RuntimeError):
    """A batch failed, and a fetch of it could not be ended; the message says both."""


class Batch:
    """Calls, the names of what they fetch, and how long each may take."""

    def __init__(
        self,
        calls: Sequence[Call],
        names: Sequence[Any],
        *,
        timeout: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls, self._names = calls, names
        self._timeout, self._clock = timeout, clock
        self._values: list[Any] = [None] * len(calls)
        self._problems: dict[int, BaseException] = {}
        self._settled = [threading.Lock() for _ in calls]
        self._begun: dict[int, tuple[float, threading.Thread]] = {}
        self._ended: SimpleQueue[int] = SimpleQueue()
        self._called_off = [threading.Event() for _ in calls]
        self._stopped = threading.Event()  # all of them
        self._to_the_end = True

    def run(self, crew: Crew, *, to_the_end: bool) -> list[Any]:
        """What came of each call; with a problem among it the rest counts only if `to_the_end`."""
        left = set(range(len(self._calls)))
        self._to_the_end = to_the_end
        try:
            crew.take([functools.partial(self._one, at) for at in sorted(left)])
            self._follow(left, crew)
        finally:  # an error, or Ctrl-C: nothing may go on behind the user's back
            if left:
                self._stop()
                self._linger(left, crew)
        for at, problem in sorted(self._problems.items()):
            if not isinstance(problem, Exception):
                raise problem
            self._values[at] = Problem(problem)
        return self._values

    def _one(self, at: int) -> bool:
        """In a thread of the crew."""
        value, problem = None, None
        if not self._stopped.is_set():
            self._begun[at] = self._clock(), threading.current_thread()
            try:
                value = self._calls[at](self._called_off[at])
            except BaseException as error:
                problem = error
        if not self._settled[at].acquire(blocking=False):
            return False
        self._values[at] = value
        if problem is not None:
            self._problems[at] = problem
            if not (self._to_the_end and isinstance(problem, Exception)):
                self._stop()
        self._ended.put(at)
        return True

    def _stop(self) -> None:
        self._stopped.set()
        for one in self._called_off:
            one.set()

    def _follow(self, left: set[int], crew: Crew) -> None:
        look = None if self._timeout is None else self._clock() + self._timeout
        while left:
            try:
                wait = None if look is None else max(0.0, look - self._clock())
                left.discard(self._ended.get(timeout=wait))
            except Empty:
                look = self._call_off_overdue(left, crew, self._timeout or 0.0)
            if self._stopped.is_set():
                return

    def _call_off_overdue(self, left: set[int], crew: Crew, timeout: float) -> float:
        """Answers when to look again: no fetch can be overdue before."""
        now = self._clock()
        for at in [at for at in left if at in self._begun]:
            since, thread = self._begun[at]
            if now - since >= timeout and self._abandon(at, thread, crew):
                self._problems[at] = TookTooLong(f"no answer within {timeout:g} s (timeout)")
                left.discard(at)
                if not self._to_the_end:
                    self._stop()
        return min((self._begun[at][0] for at in left if at in self._begun), default=now) + timeout

    def _linger(self, left: set[int], crew: Crew) -> None:
        """Lets what is under way end, for a while: a hung fetch must not hide the error."""
        until = self._clock() + LINGER_SECONDS
        # Ctrl-C may have swallowed what came from the queue; the locks know.
        while left := {at for at in left if not self._settled[at].locked()}:
            try:
                self._ended.get(timeout=max(0.0, until - self._clock()))
            except Empty:
                break
        begun = [at for at in sorted(left) if at in self._begun]
        hung = [at for at in begun if self._abandon(at, self._begun[at][1], crew)]
        at = min(self._problems, default=-1)  # the one that will be told
        problem = self._problems.get(at)
        if hung and isinstance(problem, Exception):
            names = [self._names[one] for one in hung]
            told = StillRunning(
                f"{named(problem)}; {LINGER_SECONDS:g} s later the fetches of {names} still ran"
            )
            told.__cause__ = problem
            self._problems[at] = told

    def _abandon(self, at: int, thread: threading.Thread, crew: Crew) -> bool:
        """A thread cannot be killed: it is left to itself, and ends when its call returns."""
        if not self._settled[at].acquire(blocking=False):
            return False
        self._called_off[at].set()  # it is not tried again
        crew.replace(thread)
        return True


def kept(failures: Failures, indices: Sequence[Any], got: Sequence[Any]) -> list[Any]:
    """The samples that came; each problem among them stops the epoch or is counted as skipped."""
    samples = []
    for index, one in zip(indices, got, strict=True):
        if isinstance(one, Problem):
            failures.met(_number(index), _told(one.error, failures))
        else:
            samples.append(one)
    if indices and not samples:
        raise failures.nothing_left(indices)
    return samples


def _told(error: Exception, failures: Failures) -> Exception:
    """What else still ran is nothing to whoever catches the data set's own exceptions."""
    within = error.__cause__ if isinstance(error, StillRunning) else None
    return within if failures.on_error == AS_IS and isinstance(within, Exception) else error


def _number(index: Any) -> Any:
    """A sampler may give numbers of any kind; only plain ones are counted by name."""
    try:
        return operator.index(index)
    except TypeError:
        return index
