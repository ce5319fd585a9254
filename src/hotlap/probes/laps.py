"""Steps of a window that are like the one before: kept now, told to the schedule later.

The bare pass is the truth for times, so the end of a step does as little as can be: it reads the
clock, records an event where there is a device, and keeps the two. What a step means for the
schedule is worked out when a step comes that may end the window, or that is not like the others.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

from hotlap.probes.steps import ENDED, STEP, Tally
from hotlap.probes.timeline import OPTIMIZER, Timeline

Lap = tuple[int, Any, tuple[int | None, str]]


class Laps:
    def __init__(
        self,
        optimizer: Any,
        thread: int,
        tally: Tally,
        timeline: Timeline | None,
        event: Callable[[], Any] | None,
        is_capturing: Callable[[], bool] | None,
    ) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._thread = thread
        self._tally = tally
        self._timeline = timeline  # where phases are told apart
        self._event = event
        self._is_capturing = is_capturing
        self._left = 0
        self._until = 0
        self._kept: list[tuple[int, Any]] = []

    def go_on(self, steps: int, until: int) -> None:
        """So many steps cannot end anything, up to this reading of the clock."""
        self._left, self._until = steps, until

    def ended(self, optimizer: Any) -> bool:
        """Keeps the step that ends here, unless there is more to it than its time."""
        tally = self._tally
        if (
            self._left < 1
            or tally.evaluated
            or tally.loader_started
            or self._optimizer() is not optimizer
            or get_ident() != self._thread
        ):
            return False
        now = time.perf_counter_ns()
        if now > self._until:
            return False
        if self._is_capturing is not None and self._is_capturing():
            return False
        self._left -= 1
        if self._timeline is not None:
            self._timeline.finish(OPTIMIZER)
            tally.tell((ENDED, None, None, False))
            self._kept.append((now, None))
        else:
            self._kept.append((now, self._event() if self._event else None))
        return True

    def take(self) -> list[Lap]:
        """When each step ended, its event, and what it trained on."""
        kept, self._kept = self._kept, []
        if self._timeline is None:
            return [(now, event, (None, STEP)) for now, event in kept]
        known = self._tally.closed()
        return [(now, event, what) for (now, event), what in zip(kept, known, strict=True)]
