"""Which pass is running: bare and phases windows in turn until three bare windows agree, then
memory and kernels.

Bare and phases alternate so that a short run has both, and so that what the phases pass costs can
be read from neighbours in time. Windows start small and grow: a run of thirty steps still gets its
answer, and a long one is measured in windows long enough to average out the machine.
"""

from __future__ import annotations

WARMUP, BARE, PHASES, MEMORY, KERNELS, DONE = (
    "warmup",
    "bare",
    "phases",
    "memory",
    "kernels",
    "done",
)
SMALLEST_WINDOW = 5
AGREEING_WINDOWS = 3
PATIENCE = 10  # steps in a row that do not count; beyond that, all of them are like this


class Schedule:
    """Fed one step at a time; `stage` says which pass the coming step belongs to."""

    def __init__(
        self,
        *,
        steps: int,
        seconds: float,
        tolerance: float,
        window_seconds: float,
        brief: bool = False,
    ) -> None:
        self.steps = steps
        self.seconds = seconds
        self.tolerance = tolerance
        self.window_seconds = window_seconds
        self.brief = brief  # a second run of a short command: only what the first could not reach
        self.stage = WARMUP
        self.settled = False
        self.bare_means: list[float] = []
        self.counted_steps = 0
        self._deadline: float | None = None
        self._counting = False
        self.step_seconds: float | None = None
        self._taken: list[float] = []
        self._bare_windows = 0
        self._phases_windows = 0
        self._last_size = 0
        self._refused = 0
        self._size: int | None = None  # of the window under way

    def advance(self, seconds: float, *, now: float, counts: bool) -> bool:
        """A step ended; `counts` is false for one that evaluation or hotlap itself disturbed.

        Returns whether the stage (or the window within it) ends here.
        """
        if self._deadline is None:
            self._deadline = now + self.seconds
        self._refused = 0 if counts else self._refused + 1
        if counts or self._refused > PATIENCE:
            self._taken.append(seconds)
            self._counting = self.stage in (BARE, PHASES)
            self.counted_steps += self._counting
        taken = len(self._taken)
        if self._size is None:
            self._size = self._window_size()
        if taken < self._size and not (self._counting and taken >= 2 and self._over_limits(now)):
            return False
        if self.stage == DONE:
            return False
        self._finish_window()
        self.stage = self._next_stage(now)
        self._taken, self._size = [], None
        return True

    def _over_limits(self, now: float) -> bool:
        return self.counted_steps >= self.steps or now >= (self._deadline or now + 1)

    def _window_size(self) -> int:
        if self.stage in (WARMUP, MEMORY):
            return 1 if self.brief else 2
        if self.stage == KERNELS:
            return 1 if self.brief or (self.step_seconds or 0) > 2 else 3
        step = self.step_seconds or 0.01
        if step > self.window_seconds:
            return 3 if step < 2 else 2
        target = max(SMALLEST_WINDOW, round(self.window_seconds / step))
        grown: int = SMALLEST_WINDOW << min(self._bare_windows, 16)
        size = min(target, grown)
        return size if self.stage == BARE else max(SMALLEST_WINDOW, size // 2)

    def _finish_window(self) -> None:
        mean = sum(self._taken) / len(self._taken)
        if self.stage in (WARMUP, BARE):
            # The fastest warm-up step: the first ones carry compiling and cold caches.
            self.step_seconds = min(self._taken) if self.stage == WARMUP else mean
        if self.stage == BARE:
            self._bare_windows += 1
            cut_short = len(self._taken) < self._last_size / 2
            self._last_size = len(self._taken)
            if len(self._taken) < 10 and mean < self.window_seconds / 10:
                return  # too small a sample to settle anything, though it is kept
            if not cut_short:
                self.bare_means.append(mean)
            last = self.bare_means[-AGREEING_WINDOWS:]
            self.settled = len(last) == AGREEING_WINDOWS and max(last) <= min(last) * (
                1 + self.tolerance
            )
        elif self.stage == PHASES:
            self._phases_windows += 1

    def _next_stage(self, now: float) -> str:
        if self.stage == WARMUP:
            return MEMORY if self.brief else BARE
        if self.stage == MEMORY:
            return KERNELS
        if self.stage == KERNELS:
            return DONE
        if self._phases_windows and (self.settled or self._over_limits(now)):
            return MEMORY
        return PHASES if self.stage == BARE else BARE
