"""Threads that fetch: of one process, started when first needed, never carried over a fork.

They are daemons, so that a fetch that never returns cannot keep the interpreter from ending. Idle
ones are ended at exit, and when the crew's owner goes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")
Job = Callable[[], bool]  # answers whether its thread is still wanted
EXIT_SECONDS = 2.0  # what ending idle threads may take at exit; it takes next to nothing

_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


class PerProcess(Generic[Made]):
    """One of something for each process that asks: never pickled, never used beyond a fork."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._made: dict[int, Made] = {}

    def get(self) -> Made:
        made, process = self._made, os.getpid()
        if process not in made:
            # A dict of our own: the parent's entry, which a fork copied, is dropped.
            made = self._made = {process: self._make()}
        return made[process]

    def drop(self) -> Made | None:
        """What this process had; asking again makes another."""
        return self._made.pop(os.getpid(), None)

    def __reduce__(self) -> tuple[Any, ...]:
        return PerProcess, (self._make,)


class Crew:
    """At most so many threads, as many as the largest batch could use."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._process = os.getpid()
        self._ending = weakref.finalize(self, _end, self._jobs, self._threads, self._process)
        self._ending.atexit = False  # at exit they are also waited for
        _crews.add(self)
        atexit.unregister(_end_all)  # once is enough
        atexit.register(_end_all)

    def take(self, jobs: list[Job]) -> None:
        with self._starting:
            while len(self._threads) < min(self._most, len(jobs)):
                self._start()
        for job in jobs:
            self._jobs.put(job)

    def replace(self, stuck: threading.Thread) -> None:
        """Another thread for one that does not come back from its job."""
        with self._starting:
            _leave(self._threads, stuck)
            self._start()

    def end(self, wait_seconds: float) -> None:
        self._ending()
        until = time.monotonic() + wait_seconds
        for thread in list(self._threads):
            thread.join(max(0.0, until - time.monotonic()))

    def _start(self) -> None:
        thread = threading.Thread(
            target=_work, args=(self._jobs, self._threads), name="hotlap-fetch", daemon=True
        )
        thread.start()
        self._threads.append(thread)


def _work(jobs: SimpleQueue[Job | None], threads: list[threading.Thread]) -> None:
    """Holds no crew, or no crew could ever be collected while its threads wait."""
    while True:
        job = jobs.get()
        if job is None or not job():
            break
        job = None  # while waiting for the next one, nothing of the last is held
    _leave(threads, threading.current_thread())


def _leave(threads: list[threading.Thread], thread: threading.Thread) -> None:
    with contextlib.suppress(ValueError):  # it was replaced already
        threads.remove(thread)


def _end(jobs: SimpleQueue[Job | None], threads: list[threading.Thread], process: int) -> None:
    """Only asks: a collection may run this in any thread, also in one of the crew's own."""
    if process == os.getpid():
        for _ in list(threads):
            jobs.put(None)


def _end_all() -> None:
    for crew in list(_crews):
        if crew._process == os.getpid():
            crew.end(EXIT_SECONDS)
