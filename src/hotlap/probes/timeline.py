"""Phases as marks on one line of time: each mark says which phase begins there.

Marks carry the host clock and, with CUDA, an event on the stream. The stretch between two marks is
the phase's time as the device lived it: waiting for input counts only as far as the device ran dry.
Nothing is synchronised here; events are read when a window is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import get_ident
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

INPUT, TRANSFER, FORWARD, BACKWARD, OPTIMIZER, OTHER, GAP = (
    "input",
    "transfer",
    "forward",
    "backward",
    "optimizer",
    "other",
    "gap",
)
BOUNDARY = "boundary"
AHEAD = (INPUT, TRANSFER)  # of the next batch, perhaps, on a stream beside the one that trains
UNSEEN = "unseen"  # a whole step that nobody looked into
MOMENT = 10_000  # nanoseconds: too short for the host to give the device something to do
# What follows these is the loss, or what a script does to a batch on the device: a few microseconds
# of the host may be milliseconds there.
LEADS_TO_WORK = (FORWARD, TRANSFER)

Mark = tuple[str, int, Any]


class Timeline:
    """Told by one thread; what other threads tell, and what a CUDA graph records, is not its own.

    `enter` and `leave` stand on every boundary of a step: they are one call each, not several.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        event: Callable[[], Any] | None,
        thread: int | None = None,
        is_capturing: Callable[[], bool] | None = None,
        *,
        beside: Callable[[], Any] | None = None,
    ) -> None:
        """`event` is recorded where the caller's work goes, `beside` where training's does."""
        self._clock = clock
        self._event = event
        self._beside = beside or event
        self._thread = get_ident() if thread is None else thread
        self._is_capturing = is_capturing
        self._stack: list[str] = []
        self._left = False  # the last mark is the end of a phase
        self._at_once = False  # and one that begins a moment later begins there
        self._choice: Iterator[bool] | None = None
        self.watching = True  # this step is looked into
        self.marks: list[Mark] = []
        self.now = OTHER  # what the sampler reads

    def enter(self, phase: str) -> None:
        if not self.watching or get_ident() != self._thread:
            return
        if self._is_capturing and self._is_capturing():
            return
        self._stack.append(phase)
        now = self._clock()
        if self._event is None:
            self.marks.append((phase, now, None))
        elif self._at_once and self._left and self.marks and now - self.marks[-1][1] < MOMENT:
            self.marks[-1] = (phase, *self.marks[-1][1:])
        else:
            self.marks.append((phase, now, self._of(phase)))
        self.now = phase
        self._left = False

    def leave(self, phase: str) -> None:
        stack = self._stack
        if phase not in stack or get_ident() != self._thread:
            return  # its beginning was not ours, so its end is not
        # A step that raised leaves its phase on the stack: unwind down to the one that ends.
        while stack.pop() != phase:
            pass
        self._left, self._at_once = True, phase not in LEADS_TO_WORK
        following = stack[-1] if stack else OTHER
        if phase == FORWARD and following == OTHER:
            following = GAP
        self.marks.append((following, self._clock(), self._of(phase)))
        self.now = following

    def _of(self, phase: str) -> Any:
        event = self._beside if phase in AHEAD else self._event
        return event() if event else None

    def _just_left(self) -> bool:
        """Whether a phase ended a moment ago: then its end is this one's beginning.

        An event costs more than the moment is worth.
        """
        return self._left and bool(self.marks) and self._clock() - self.marks[-1][1] < MOMENT

    def boundary(self) -> None:
        if self._event is not None and self._just_left():
            _, now, event = self.marks[-1]
        else:
            now, event = self._clock(), self._event() if self._event else None
        self._end(now, event, watching=True)
        if len(self._stack) > 32:
            self._stack.clear()

    def finish(self, phase: str) -> None:
        """A step like the one before is over with this phase: one event for both ends.

        The next may go unseen, unless something has begun that reaches into it.
        """
        while self._stack and self._stack.pop() != phase:
            pass
        watching = self._choice is None or bool(self._stack) or next(self._choice)
        self._end(self._clock(), self._event() if self._event else None, watching=watching)

    def _end(self, now: int, event: Any, *, watching: bool) -> None:
        self._left = self._at_once = True
        self.watching = watching
        self.now = self._stack[-1] if self._stack else OTHER if watching else UNSEEN
        self.marks += ((BOUNDARY, now, event), (self.now, now, event))

    def clear(self) -> list[Mark]:
        marks, self.marks, self.watching = self.marks, [], True
        return marks

    def restart(self, choice: Iterator[bool] | None = None) -> None:
        """A new window: what was entered before it will be left without our seeing it.

        `choice` says of one such step after another whether to look into it; without it, into all.
        """
        self.marks, self._stack, self.now, self._left = [], [], OTHER, False
        self._choice, self.watching = choice, True


def one_of(many: int, chance: Random) -> Iterator[bool]:
    """Drawn for each so many: what a script does every few steps is seen as often as it is done."""
    while True:
        chosen = chance.randrange(many)
        for number in range(many):
            yield number == chosen


def seconds_of(marks: list[Mark]) -> list[float]:
    """Each mark's time in seconds from the first; the last event must have completed."""
    if not marks:
        return []
    first = marks[0]
    if first[2] is None:
        return [(mark[1] - first[1]) * 1e-9 for mark in marks]
    try:
        return [first[2].elapsed_time(mark[2]) * 1e-3 for mark in marks]
    except RuntimeError:  # others are on another stream, which the last one's does not wait for
        for _, _, event in marks:
            event.synchronize()
        return [first[2].elapsed_time(mark[2]) * 1e-3 for mark in marks]


def split(marks: list[Mark]) -> list[dict[str, float]]:
    """One dict of phase -> seconds for each stretch between two boundaries.

    `gap` is what ran between the model and the backward pass: the loss, and whatever the user does
    there. A stretch without a known model counts everything before the backward pass as gap.
    """
    times = seconds_of(marks)
    stretches: list[dict[str, float]] = []
    current: list[tuple[str, float]] | None = None
    for index, (phase, _, _) in enumerate(marks):
        if phase == BOUNDARY:
            if current is not None:
                stretches.append(_total(current))
            current = []
        if current is not None and index + 1 < len(marks):
            name = OTHER if phase == BOUNDARY else phase
            current.append((name, times[index + 1] - times[index]))
    return stretches


def name_gaps(names: list[str]) -> list[str]:
    """Decides, looking back from each backward pass, what stood between the model and it.

    Targets may be copied there, and gradients zeroed, before the loss is computed.
    """
    has_model = FORWARD in names
    before_backward = straight = False  # straight: with no call of the model in between
    settled: list[str] = []
    for name, after_model in zip(reversed(names), reversed(_after_model(names)), strict=True):
        if name == BACKWARD:
            before_backward = straight = True
        elif name == FORWARD:
            straight = False
        elif name == INPUT or (name == TRANSFER and not has_model):
            before_backward = False  # a batch may not stand in between
        elif name == GAP and not before_backward:
            name = OTHER
        elif name == OTHER and before_backward and (not has_model or (straight and after_model)):
            name = GAP
        settled.append(name)
    settled.reverse()
    return settled


def _after_model(names: list[str]) -> list[bool]:
    """Whether what was computed last before each is the model, on the batch of that moment."""
    found, after = [], False
    for name in names:
        after = name == FORWARD or (after and name not in (BACKWARD, INPUT))
        found.append(after)
    return found


def _total(segments: list[tuple[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    names = name_gaps([name for name, _ in segments])
    for name, (_, seconds) in zip(names, segments, strict=True):
        total[name] = total.get(name, 0.0) + seconds
    return total
