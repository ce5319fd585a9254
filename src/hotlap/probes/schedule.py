"""Which pass is running: bare and phases windows in turn until three bare windows agree, then
memory and kernels.

Bare and phases alternate so that a short run has both, and so that what the phases pass costs can
be read from neighbours in time. Windows start small and grow: a run of thirty steps still gets its
answer, and a long one is measured in windows long enough to average out the machine.
"""

from __future__ import annotations

from collections.abc import Sequence

WARMUP, BARE, PHASES, MEMORY, KERNELS, DONE = (
    "warmup",
    "bare",
    "phases",
    "memory",
    "kernels",
    "done",
)
SMALLEST_WINDOW = 5
SHORT_STEP = 0.02  # seconds: there looking into every step would be felt
ONE_OF = 3  # of so many short steps one is looked into
AGREEING_WINDOWS = 3
MOST_GUARDED = 192  # steps
FEWEST_GUARDED = 14  # with those of the windows that follow it is enough to tell
LONGEST_GUARDED = 16  # times what the guard is given, for steps that slow
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
        bare: bool = False,
        guard_steps: int = 0,
        guard_seconds: float = 0.0,
        guard_fill: float = 0.0,
    ) -> None:
        self.steps = steps
        self.seconds = seconds
        self.tolerance = tolerance
        self.window_seconds = window_seconds
        self.brief = brief  # a second run of a short command: only what the first could not reach
        self.bare = bare  # for comparisons: step times and peak memory alone
        self.guard_steps = guard_steps
        self.guard_seconds = guard_seconds
        self.guard_fill = guard_fill
        self.stage = WARMUP
        self.settled = False
        self.bare_means: list[float] = []
        self.counted_steps = 0
        self._began: float | None = None
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

        Returns whether the stage (or the window within it) ends here: `turn` is next then.
        """
        if self._began is None:
            self._began = now
        if self._deadline is None and (self.stage != WARMUP or not self.guard_steps):
            self._deadline = now + self.seconds
        self._refused = 0 if counts else self._refused + 1
        if counts or self._refused > PATIENCE:
            self._taken.append(seconds)
            self._counting = self.stage in (BARE, PHASES)
            self.counted_steps += self._counting
        taken = len(self._taken)
        if self._size is None:
            self._size = self._window_size()
        if taken < self._size and not (taken >= 2 and self._cut_short(now)):
            return False
        return self.stage != DONE

    def turn(self, now: float, seconds: Sequence[float] = ()) -> None:
        """From the window that ended to the next one; `seconds` of its steps, by a device's clock.

        The host may run far ahead of a device: a short window is over there when nearly nothing of
        it has been computed, and a longer one looks slower.
        """
        self._taken = list(seconds) or self._taken
        self._finish_window()
        self.stage = self._next_stage(now)
        self._taken, self._size = [], None

    def forget_last(self) -> None:
        """The step that was told last stands for no other one."""
        if self.stage in (BARE, PHASES) and self._taken:
            self._taken.pop()
            self.counted_steps -= 1

    def end_window(self) -> None:
        """The first step that counts, or else the next one, is the last of this window."""
        self._size = 1

    def is_over(self, now: float) -> bool:
        """Whether the time for measuring is up."""
        return self._deadline is not None and now >= self._deadline

    def plain_steps(self) -> tuple[int, float]:
        """How many steps that count cannot end this window, and until when that holds."""
        if self._size is None or self._deadline is None or self._refused:
            return 0, 0.0
        enough = min(self._size - len(self._taken), self.steps - self.counted_steps)
        return enough - 1, self._deadline

    def _cut_short(self, now: float) -> bool:
        if self.stage == WARMUP:
            return bool(self.guard_steps) and self._guarded(now)
        return self._counting and self._over_limits(now)

    def _guarded(self, now: float) -> bool:
        """Whether the guard has its steps, or has had its time; slow steps get more of that."""
        since, taken = now - (self._began or now), len(self._taken)
        if taken >= self.guard_steps and since >= self.guard_fill:
            return True
        patient = LONGEST_GUARDED if taken < FEWEST_GUARDED else 1
        return since >= self.guard_seconds * patient

    def _over_limits(self, now: float) -> bool:
        return self.counted_steps >= self.steps or now >= (self._deadline or now + 1)

    def _window_size(self) -> int:
        if self.stage == WARMUP and self.guard_steps:
            most = MOST_GUARDED if self.guard_fill else 2
            return max(most, self.guard_steps)
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
        if self.stage == BARE or self._is_spare(size):
            return size
        return max(SMALLEST_WINDOW, size // 2)

    @property
    def spares_steps(self) -> bool:
        """Whether this window looks into some of its steps only."""
        return self.stage == PHASES and self._is_spare(self._window_size())

    def _is_spare(self, size: int) -> bool:
        return size >= 4 * SMALLEST_WINDOW and (self.step_seconds or SHORT_STEP) < SHORT_STEP

    def _finish_window(self) -> None:
        mean = sum(self._taken) / len(self._taken)
        if self.stage in (WARMUP, BARE):
            self.step_seconds = self._warm() if self.stage == WARMUP else mean
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

    def _warm(self) -> float:
        """Without the first steps, which carry compiling and cold caches."""
        if len(self._taken) < 8:
            return min(self._taken)
        later = self._taken[len(self._taken) // 2 :]
        return sum(later) / len(later)

    def _next_stage(self, now: float) -> str:
        if self.stage == WARMUP:
            return MEMORY if self.brief else BARE
        if self.stage == MEMORY:
            return DONE if self.bare else KERNELS
        if self.stage == KERNELS:
            return DONE
        if (self._phases_windows or self.bare) and (self.settled or self._over_limits(now)):
            return MEMORY
        if self.bare:
            return BARE
        return PHASES if self.stage == BARE else BARE
