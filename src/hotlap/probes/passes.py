"""The passes: each window opens what it needs, and puts everything back when it closes.

Reading a window's clock may wait for the device; that happens between two windows, in a step that
counts for neither.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hotlap.probes import writing
from hotlap.probes.events import Events
from hotlap.probes.kernels import KernelProbe
from hotlap.probes.memory import MemoryProbe
from hotlap.probes.patches import Doors
from hotlap.probes.sampling import Sampler
from hotlap.probes.schedule import BARE, KERNELS, MEMORY, ONE_OF, PHASES, WARMUP
from hotlap.probes.steps import EPOCH, EVALUATION, RESUMED, STEP
from hotlap.probes.timeline import BOUNDARY, UNSEEN, Mark, Timeline, one_of, split

if TYPE_CHECKING:
    from hotlap.probes.accelerators import Accelerator
    from hotlap.probes.recorder import Recorder

LONGEST_KEPT = 2000  # intervals of one window written out
FIRST_TURNS = 2  # ends of epochs whose last batch is met for the first time, or may be


class Passes:
    def __init__(self, torch: Any, recorder: Recorder) -> None:
        self._torch = torch
        self._recorder = recorder
        self._stage = self._stage_before = WARMUP
        self._accelerator: Accelerator | None = None
        self._doors = Doors(torch, recorder)
        self.timeline = Timeline(time.perf_counter_ns, None)
        self._chance = random.Random(0)  # the same steps on each rank
        self._ranges: list[Callable[[], None]] = []
        self._kernels: KernelProbe | None = None
        self._opened = time.time()
        self._rows: list[tuple[int | None, str, bool]] = []
        self._turns = 0
        self._marks: list[Mark] = []
        self._place: tuple[int, list[Mark]] = (0, [])
        self.events: Events | None = None
        self.sampler: Sampler | None = None
        self.memory_probe: MemoryProbe | None = None
        self.profiling = False  # our own profiler is being made
        self.windows: list[dict[str, Any]] = []
        self.memory: dict[str, Any] | None = None
        self.kernels: dict[str, Any] | None = None

    def begin(self, accelerator: Accelerator | None, thread: int) -> None:
        """The first step has been seen: now the device and the training thread are known."""
        self._accelerator = accelerator
        capturing = beside = None
        if accelerator is not None:
            self.events, capturing = accelerator.events(), accelerator.is_capturing()
            beside = self.events.beside if self.events is not None else None
        clock = time.perf_counter_ns
        self.timeline = Timeline(clock, self.events, thread, capturing, beside=beside)
        self.sampler = Sampler(thread, lambda: self.timeline.now)
        self._opened = time.time()
        self._mark(time.perf_counter_ns())

    def _enter(self, phase: str) -> None:
        if self._kernels is not None and self._recorder.mine() and not self._recorder.capturing():
            self._ranges.append(self._kernels.range(phase))
            self.timeline.enter(phase)

    def _leave(self, phase: str) -> None:
        if self._recorder.mine() and not self._recorder.capturing():
            self.timeline.leave(phase)
            if self._kernels is not None and self._ranges:
                self._ranges.pop()()

    def ended_step(self, samples: int | None, kind: str, disturbed: bool, now: int) -> bool:
        """Returns whether it was disturbed: to one of very many operations our start is nothing."""
        if self._kernels is not None and self._kernels.has_plenty():
            self._recorder.schedule.end_window()
            disturbed = False
        if kind != STEP and self._turns < FIRST_TURNS:
            self._leave_out_last()
        self._rows.append((samples, kind, disturbed))
        self._mark(now)
        return disturbed

    def _leave_out_last(self) -> None:
        """The last step of an early epoch: a batch of another size is measured or compiled for."""
        if not self._rows:
            return self._leave_out_end_of_window()
        samples, kind, disturbed = self._rows[-1]
        self._turns += kind == STEP
        if kind == STEP and not disturbed and self._stage in (BARE, PHASES):
            self._rows[-1] = (samples, kind, True)
            self._recorder.schedule.forget_last()

    def _leave_out_end_of_window(self) -> None:
        """It was so long that the window ended with it, or it happened to be the window's last."""
        rows = self.windows[-1]["intervals"] if self.windows else ()
        if self._stage_before in (BARE, PHASES) and rows:
            row = rows[-1]
            self._turns += row["kind"] == STEP
            row["disturbed"] |= row["kind"] == STEP

    def _mark(self, now: int) -> None:
        if self._recorder.timing:
            self.timeline.boundary()
            if self._kernels is not None:
                self._kernels.range("step")()
        else:
            self._marks.append((BOUNDARY, now, self.events() if self.events else None))

    def keep_place(self) -> bool:
        """Keeps where the step under way could be parted: a loader that trains is being started.

        Returns whether it could: where no times are kept there is nothing to part.
        """
        if self._stage not in (WARMUP, BARE, PHASES) or self._recorder.capturing():
            return False
        if self._recorder.timing and self.timeline.watching:  # it has just begun to wait for input
            marks = self.timeline.marks
            self._place = (len(marks) - 1, [(BOUNDARY, *marks[-1][1:])])
            return True
        now, event = time.perf_counter_ns(), self.events() if self.events else None
        self._place = (len(self.timeline.marks), [(BOUNDARY, now, event), (UNSEEN, now, event)])
        return True

    def part(self) -> int:
        """Parts the step in two where the place was kept; tells when that was."""
        at, marks = self._place
        if self._recorder.timing:
            self.timeline.marks[at:at] = marks
        else:  # the ends of all steps before this one are there by now
            self._marks.append(marks[0])
        return marks[0][1]

    def ended_lap(self, now: int, event: Any, samples: int | None, kind: str) -> None:
        """A step that was only kept; where phases are told apart, the timeline knows its end."""
        self._rows.append((samples, kind, False))
        if not self._recorder.timing:
            self._marks.append((BOUNDARY, now, event))

    def open(self, stage: str) -> None:
        recorder = self._recorder
        self._stage_before, self._stage = self._stage, stage
        self._opened = time.time()
        self._rows, self._marks = [], []
        if stage == PHASES:
            self._doors.open(recorder.ledger)
            recorder.loaders.open_window()
            if self.sampler is not None:
                self.sampler.start()
        elif stage == MEMORY:
            self.memory_probe = MemoryProbe(
                self._torch,
                self._accelerator,
                list(recorder.optimizers.stepping.values()),
                recorder.roots.modules,
                recorder.loaders.workers,
            )
        elif stage == KERNELS:
            self._look_at_kernels()
        recorder.timing = stage in (PHASES, KERNELS)
        if stage == PHASES:
            recorder.enter, recorder.leave = self.timeline.enter, self.timeline.leave
        elif stage == KERNELS:
            recorder.enter, recorder.leave = self._enter, self._leave
        if stage == BARE:
            if recorder.losses is not None:
                recorder.losses.close_if_felt(recorder.schedule.step_seconds)
            recorder.hooks.step_aside()
        if recorder.timing:
            spare = stage == PHASES and recorder.losses is None and recorder.schedule.spares_steps
            self.timeline.restart(one_of(ONE_OF, self._chance) if spare else None)
            if spare:
                recorder.hooks.watch_evaluation()
        self._mark(time.perf_counter_ns())

    def _look_at_kernels(self) -> None:
        if self._recorder.profiles_itself:
            self.kernels = {"steps": 0, "problem": "the script uses torch.profiler itself"}
            return
        self._doors.open(self._recorder.ledger.nowhere)
        wanted = self._recorder.settings.get("trace")
        trace = writing.trace(self._recorder.folder, self._recorder.pid) if wanted else None
        self.profiling = True
        try:
            self._kernels = KernelProbe(self._torch, self._accelerator, trace)
        finally:
            self.profiling = False

    def close(self) -> list[float]:
        """Returns the seconds of each step that counts, where a device tells them."""
        recorder, stage = self._recorder, self._stage
        recorder.catch_up()
        recorder.look_away()
        recorder.hooks.come_back()
        if stage == KERNELS and self._kernels is not None:
            self._close_ranges()
            counted = sum(not disturbed for _, _, disturbed in self._rows)
            self.kernels = self._kernels.finish(counted)
            self._kernels = None
            self._doors.close()
            activations = self.kernels.pop("activations_bytes", None)
            if self.memory is not None and self._accelerator is None:
                self.memory["activations_bytes"] = activations
        elif stage == PHASES:
            if self.sampler is not None:
                self.sampler.pause()
            self._doors.close()
            away = sum(last - first for first, last in self._evaluations(self.timeline.marks))
            recorder.loaders.close_window(evaluating=away * 1e-9)
        elif stage == MEMORY and self.memory_probe is not None:
            self.memory = self.memory_probe.finish()
            self.memory_probe = None
        timed = self.keep_window()
        if self.events is not None:
            self.events.release()
        return timed

    def keep_window(self) -> list[float]:
        """Reads the clock of the window that is over (or was cut off by the command's end)."""
        stage = self._stage
        if stage not in (WARMUP, BARE, PHASES) or not self._rows:
            return []
        marks = self.timeline.clear() if stage == PHASES else self._marks
        if stage == PHASES and self.sampler is not None:
            self.sampler.count(self._evaluations(marks))
        by_device = bool(marks) and marks[-1][2] is not None
        if by_device:
            marks[-1][2].synchronize()
        rows: list[dict[str, Any]] = []
        timed: list[float] = []
        for (samples, kind, disturbed), stretch in zip(self._parts(), split(marks), strict=False):
            row: dict[str, Any] = {
                "seconds": sum(stretch.values()),
                "samples": samples,
                "kind": kind,
                "disturbed": disturbed,
            }
            if stage == PHASES and UNSEEN not in stretch:
                row["phases"] = stretch
            if by_device and not disturbed and kind != EVALUATION:
                timed.append(row["seconds"])
            if kind == RESUMED:
                row = joined(rows.pop(), row)
            rows.append(row)
        self._recorder.ledger.steps += sum("phases" in row for row in rows)
        wall = [self._opened, time.time()]
        self.windows.append({"stage": stage, "wall": wall, "intervals": rows[:LONGEST_KEPT]})
        self._rows, self._marks = [], []
        return timed

    def _parts(self) -> list[tuple[int | None, str, bool]]:
        """The steps, those that were parted as two: the evaluation, and what came after it."""
        parts: list[tuple[int | None, str, bool]] = []
        for row in self._rows:
            if row[1] == RESUMED:
                parts.append((None, EVALUATION, row[2]))
            parts.append(row)
        return parts

    def _evaluations(self, marks: list[Mark]) -> list[tuple[int, int]]:
        """When steps evaluated, unless most do: their lines are not those of a training step."""
        bounds = [now for phase, now, _ in marks if phase == BOUNDARY]
        found = [
            span
            for (_, kind, _), span in zip(self._parts(), pairwise(bounds), strict=False)
            if kind == EVALUATION
        ]
        return found if 2 * len(found) < len(self._rows) else []

    def _close_ranges(self) -> None:
        while self._ranges:
            self._ranges.pop()()

    def read_gradients(self, handed_out: Any = ()) -> None:
        """They are there now; those `handed_out` are an answer, and no parameter keeps them."""
        if self.memory_probe is not None:
            try:
                self.memory_probe.gradients_are_there(handed_out)
            except Exception as problem:
                self._recorder.note("memory", problem)

    def shut(self) -> None:
        """Everything back as it was, whatever state it is in."""
        self._recorder.look_away()
        self._recorder.hooks.come_back()
        self.timeline.watching = True
        self._doors.close()
        self._close_ranges()
        if self._kernels is not None:
            self._kernels.abandon()
            self._kernels = None
        if self.sampler is not None:
            self.sampler.finish()


def joined(evaluation: dict[str, Any], training: dict[str, Any]) -> dict[str, Any]:
    """One step of both parts, with the later one apart: that is the start of an epoch."""
    parts = (evaluation, training)
    row = {**training, "kind": EVALUATION, "seconds": sum(one["seconds"] for one in parts)}
    row.pop("phases", None)
    if all("phases" in one for one in parts):
        names = dict.fromkeys(name for one in parts for name in one["phases"])
        row["phases"] = {name: sum(one["phases"].get(name, 0.0) for one in parts) for name in names}
    return {**row, "resumed": {**training, "kind": EPOCH}}
