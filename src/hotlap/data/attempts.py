"""How often a fetch is tried, how long between, and how long a sample may take in all."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from hotlap.data.failures import named

LONGEST_PAUSE_SECONDS = 30.0
# The last two are one from Python 3.11 on.
RETRY: tuple[type[Exception], ...] = (OSError, TimeoutError, asyncio.TimeoutError)
# Answers, not hiccups: asking again gives the same. Naming one of them in `retry` tries it again.
FINAL = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)

# What servers answer that may be over soon; and errors of clients, by name: the connection broke.
AGAIN = (408, 425, 429, 500, 502, 503, 504)
BROKEN = frozenset({"ClientConnectionError", "ClientPayloadError", "IncompleteRead"})

Sleep = Callable[[threading.Event, float], object]


class GaveUp(RuntimeError):
    """A fetch failed as often as it may; the message says how often and the last reason."""


class TookTooLong(TimeoutError):
    """A fetch did not end within its time."""


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """The pause doubles from `backoff` seconds on. `sleep` gets the event that ends it early."""

    retries: int = 0
    retry: tuple[type[Exception], ...] = RETRY
    backoff: float = 0.1
    timeout: float | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Sleep = threading.Event.wait

    def __post_init__(self) -> None:
        if not isinstance(self.retries, int) or self.retries < 0:
            raise ValueError(f"retries is {self.retries!r}; it is a number of times, 0 or more")
        if not _is_number(self.backoff) or self.backoff < 0:
            raise ValueError(f"backoff is {self.backoff!r}; it is seconds, 0 or more")
        if self.timeout is not None and not (_is_number(self.timeout) and self.timeout > 0):
            raise ValueError(f"timeout is {self.timeout!r}; it is seconds above 0, or None")
        if not isinstance(self.retry, tuple) or not all(map(_is_error, self.retry)):
            raise TypeError(f"retry is {self.retry!r}; it is a tuple of exception types")

    def run(self, call: Callable[[], Any], stopped: threading.Event) -> Any:
        """What the call answers, tried again where that can help and nobody has stopped it."""
        tried = 0
        while True:
            tried += 1
            try:
                return call()
            except Exception as problem:
                pause = self.pause(problem, tried)
                if pause is not None and not stopped.is_set():
                    self.sleep(stopped, pause)
                if pause is None or stopped.is_set():
                    raise

    def pause(self, problem: Exception, tried: int) -> float | None:
        """Seconds to wait before the next attempt; None: there is none; raises after the last."""
        by_default = self.retry == RETRY and _may_pass(problem)
        if not by_default and not isinstance(problem, self.retry):
            return None
        meant = tuple(kind for kind in self.retry if issubclass(kind, FINAL))
        if isinstance(problem, FINAL) and not isinstance(problem, meant):
            return None
        if tried > self.retries:
            if self.retries == 0:
                return None
            told = f"{named(problem)}; tried {tried} times (retries={self.retries})"
            raise GaveUp(told) from problem
        return float(min(LONGEST_PAUSE_SECONDS, self.backoff * 2.0 ** min(tried - 1, 60)))


def _may_pass(problem: Exception) -> bool:
    """What a client that is not imported here says in its own terms."""
    for name in ("status", "status_code", "code"):
        said = getattr(problem, name, None)
        if isinstance(said, int):
            return said in AGAIN  # asking further may warn: some names are out of use
    return any(kind.__name__ in BROKEN for kind in type(problem).__mro__)


def _is_number(value: Any) -> bool:
    """Of any library's kind."""
    return isinstance(value, Real)


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)
