"""The watcher's centre: told what happens at torch's boundaries, it keeps the trial's record.

Every entry point is a boundary of the user's program, so none of them may raise: what fails inside
is switched off, noted under `problems`, and training goes on.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hotlap.probes import environment, modules, places, writing
from hotlap.probes.kernels import KernelProbe
from hotlap.probes.loaders import LoaderWatch, samples_in
from hotlap.probes.losses import Losses
from hotlap.probes.memory import MemoryProbe
from hotlap.probes.patches import Doors
from hotlap.probes.sampling import Sampler
from hotlap.probes.schedule import BARE, DONE, KERNELS, MEMORY, PHASES, WARMUP, Schedule
from hotlap.probes.steps import EVALUATION, Rounds, Tally
from hotlap.probes.timeline import BACKWARD, BOUNDARY, FORWARD, OPTIMIZER, Timeline, split

BACKWARDS_BEFORE_COUNTING_THEM = 4
LONGEST_KEPT = 2000  # intervals of one window written out


class Recorder:
    def __init__(self, torch: Any, folder: Path, settings: dict[str, Any]) -> None:
        self.torch = torch
        self.folder = folder
        self.settings = settings
        self.times: dict[str, float] = {}
        self.problems: list[str] = []
        self.optimizers: dict[int, dict[str, Any]] = {}
        self.diverted: list[str] = []
        self.restart()

    def restart(self) -> None:
        """A fresh record; also what a forked child begins with."""
        if hasattr(self, "_doors"):
            self._doors.close()
        for name in [name for name in self.times if name.startswith("first_")]:
            del self.times[name]
        self.timing = False
        self.device: Any = None
        self.loaders = LoaderWatch()
        self.losses = Losses()
        self.roots: list[Any] = []
        self.unit = "optimizer"
        self.steps = 0
        self.evaluations = 0
        self.windows: list[dict[str, Any]] = []
        self.memory: dict[str, Any] | None = None
        self.kernels: dict[str, Any] | None = None
        self.waits: dict[tuple[str, tuple[str, int, str] | None], list[float]] = {}
        self.waited_steps = 0
        self.copies: dict[tuple[str, int, str] | None, list[float]] = {}
        self._pid = os.getpid()
        self._thread: int | None = None
        self._schedule = Schedule(**self._limits())
        self._rounds = Rounds()
        self._tally = Tally()
        self._timeline: Timeline | None = None
        self._sampler: Sampler | None = None
        self._doors = Doors(self.torch, self)
        self._stepping: dict[int, Any] = {}
        self._called = False
        self._forward_depth = 0
        self._optimizer_depth = 0
        self._searches = 0
        self._backwards = 0
        self._memory_probe: MemoryProbe | None = None
        self._kernel_probe: KernelProbe | None = None
        self._kernel_ranges: list[Callable[[], None]] = []
        self._window_wall = 0.0
        self._rows: list[tuple[int | None, str, bool]] = []
        self._marks: list[tuple[str, int, Any]] = []
        self._last: int | None = None
        self._disturbed = True
        self._written = 0.0
        self._events: list[Any] = []
        self._used_events: list[Any] = []
        self._finished = False

    def _limits(self) -> dict[str, Any]:
        limits = self.settings["limits"]
        return {
            "steps": int(limits["steps"]),
            "seconds": float(limits["seconds"]),
            "tolerance": float(limits["tolerance"]),
            "window_seconds": float(limits["window_seconds"]),
        }

    # What the hooks call -------------------------------------------------------------------

    def mine(self) -> bool:
        """Whether this is the thread that trains."""
        return threading.get_ident() == self._thread

    def enter(self, phase: str) -> None:
        if self.timing and self.mine() and self._timeline is not None:
            if self._kernel_probe is not None:
                self._kernel_ranges.append(self._kernel_probe.range(phase))
            self._timeline.enter(phase)

    def leave(self, phase: str) -> None:
        if self.timing and self.mine() and self._timeline is not None:
            self._timeline.leave(phase)
            if self._kernel_probe is not None and self._kernel_ranges:
                self._kernel_ranges.pop()()

    def optimizer_made(self, optimizer: Any) -> None:
        self.optimizers[id(optimizer)] = _describe(optimizer)
        if self.unit == "backward":  # it was a warm-up by hand: start over with the real steps
            self.restart()

    def loader_started(self, loader: Any, iterator: Any, seconds: float) -> None:
        now = time.time()
        self.times.setdefault("first_iterator", now - seconds)
        try:
            iterator._hotlap_loader = id(loader)
            self.loaders.iterators.add(iterator)
            self.loaders.started(loader, seconds)
        except Exception as problem:
            self._note("loader", problem)
        self._tally.loader_started = True

    def fetched(self, iterator: Any, batch: Any) -> None:
        if "first_batch" not in self.times:
            self.times["first_batch"] = time.time()
        self._tally.fetched(samples_in(batch), getattr(iterator, "_hotlap_loader", 0))

    def forward(self, module: Any, inner: Any, args: Any, kwargs: Any) -> Any:
        if self._forward_depth or not self.mine():
            return inner(*args, **kwargs)
        self._called = True
        grad = self.torch.is_grad_enabled()
        if grad:
            samples = samples_in(args) or samples_in(kwargs)
            self._tally.forward(id(module), samples, replay=self._optimizer_depth > 0)
            if self._memory_probe is not None:
                self._memory_probe.forward_begins()
        elif not module.training:
            self._tally.evaluated = True
        self._forward_depth += 1
        self.enter(FORWARD)
        try:
            return inner(*args, **kwargs)
        finally:
            self._forward_depth -= 1
            self.leave(FORWARD)

    def backward(self, plain: Any, tensors: Any, args: Any, kwargs: Any) -> Any:
        if self._thread is None:
            self._thread = threading.get_ident()
        if not self.mine():
            return plain(tensors, *args, **kwargs)
        try:
            if "first_backward" not in self.times:
                self.times["first_backward"] = time.time()
            if not self._called and self._searches < 4:
                self._find_roots()
            loader = self._tally.backward()
            if loader is not None:
                self.loaders.trained_on(loader)
            if self._memory_probe is not None:
                self._memory_probe.backward_begins()
            if self._schedule.stage != DONE:
                self.losses.keep(tensors)
        except Exception as problem:
            self._note("backward", problem)
        self.enter(BACKWARD)
        try:
            return plain(tensors, *args, **kwargs)
        finally:
            self.leave(BACKWARD)
            self._count_backward()

    def _count_backward(self) -> None:
        if self.optimizers or self._optimizer_depth:
            return
        self._backwards += 1
        if self._backwards >= BACKWARDS_BEFORE_COUNTING_THEM:
            self.unit = "backward"
            self._ended_step()

    def optimizer_begins(self, optimizer: Any) -> None:
        if self._thread is None:
            self._thread = threading.get_ident()
        if not self.mine():
            return
        self._optimizer_depth += 1
        if self._memory_probe is not None:
            try:
                self._memory_probe.optimizer_begins()
            except Exception as problem:
                self._note("memory", problem)
        self.enter(OPTIMIZER)

    def optimizer_ends(self, optimizer: Any) -> None:
        if not self.mine():
            return
        self._optimizer_depth = 0
        self.leave(OPTIMIZER)
        if id(optimizer) not in self._stepping:
            self._stepping[id(optimizer)] = optimizer
            self.optimizers.setdefault(id(optimizer), _describe(optimizer))
        if self._rounds.stepped(id(optimizer)):
            self._ended_step()

    def host_waited(self, what: str, seconds: float, place: tuple[str, int, str] | None) -> None:
        row = self.waits.setdefault((what, place), [0.0, 0.0])
        row[0] += 1
        row[1] += seconds

    def copied(self, tensor: Any, *, pinned: bool, place: tuple[str, int, str] | None) -> None:
        row = self.copies.setdefault(place, [0.0, 0.0, 0.0])
        row[0] += 1
        row[1] += tensor.numel() * tensor.element_size()
        row[2] += pinned

    # Steps and windows ---------------------------------------------------------------------

    def _ended_step(self) -> None:
        if self._finished:
            return
        try:
            self._boundary()
        except Exception as problem:
            self._note(f"stage {self._schedule.stage}", problem)
            self._finish()

    def _boundary(self) -> None:
        now = time.perf_counter_ns()
        self.steps += 1
        samples, kind = self._tally.close()
        if self.steps == 1:
            self._first_step()
        elif self._last is not None:
            seconds = (now - self._last) * 1e-9
            counts = not self._disturbed and kind != EVALUATION
            self.evaluations += kind == EVALUATION
            self._rows.append((samples, kind, self._disturbed))
            self._mark_boundary(now)
            self._disturbed = False
            wall = time.time()
            if self._schedule.advance(seconds, now=wall, counts=counts):
                self._close_window()
                self._open_window()
                self._disturbed = True
            elif wall - self._written > 1.0:
                self._written = wall
                writing.progress(self.folder, self._pid, self._progress())
        self._last = time.perf_counter_ns() if self._disturbed else now
        if not self._called and 0 < self.steps < 4:
            self._descend()

    def _mark_boundary(self, now: int) -> None:
        if self.timing and self._timeline is not None:
            self._timeline.boundary()
            if self._kernel_probe is not None:
                self._kernel_probe.range("step")()
        else:
            self._marks.append((BOUNDARY, now, self._event() if self.device is not None else None))

    def _first_step(self) -> None:
        self.times["first_step"] = time.time()
        for optimizer in self._stepping.values():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.is_cuda:
                        self.device = parameter.device
                        break
        if self.device is None and self.torch.cuda.is_available():
            self.device = next(
                (p.device for root in self.roots for p in root.parameters() if p.is_cuda), None
            )
        event = self._event if self.device is not None else None
        self._timeline = Timeline(time.perf_counter_ns, event)
        timeline = self._timeline
        self._sampler = Sampler(self._thread or threading.get_ident(), lambda: timeline.now)
        self._window_wall = time.time()
        self._mark_boundary(time.perf_counter_ns())
        self._save()

    def _event(self) -> Any:
        event = self._events.pop() if self._events else self.torch.cuda.Event(enable_timing=True)
        self._used_events.append(event)
        event.record(self.torch.cuda.current_stream(self.device))
        return event

    def _open_window(self) -> None:
        stage = self._schedule.stage
        self._window_wall = time.time()
        self._rows = []
        self._marks = []
        self._tally.pending = self._tally.pending_loader = None
        if stage == PHASES:
            self._doors.open()
            self.loaders.open_window()
            if self._sampler is not None:
                self._sampler.start()
        elif stage == MEMORY:
            self._memory_probe = MemoryProbe(
                self.torch, self.device, list(self._stepping.values()), self.roots
            )
        elif stage == KERNELS:
            try:
                self._kernel_probe = KernelProbe(self.torch, self.device)
            except Exception as problem:  # the script profiles itself already
                self._note("kernels", problem)
                self._finish()
                return
        elif stage == DONE:
            self._finish()
            return
        self.timing = stage in (PHASES, KERNELS)
        if self.timing and self._timeline is not None:
            self._timeline.clear()
        self._mark_boundary(time.perf_counter_ns())

    def _close_window(self) -> None:
        """The pass that ran is over: read its clock, then put everything back as it was."""
        stage, self.timing = self._window_stage(), False
        if stage == KERNELS and self._kernel_probe is not None:
            self._close_ranges()
            self.kernels = self._kernel_probe.finish(sum(not disturbed for _, _, disturbed in self._rows))
            self._kernel_probe = None
        if stage == PHASES:
            if self._sampler is not None:
                self._sampler.pause()
            self._doors.close()
            self.loaders.close_window()
            self.waited_steps += len(self._rows)
        if stage == MEMORY and self._memory_probe is not None:
            self.memory = self._memory_probe.finish()
            self._memory_probe = None
        if stage in (WARMUP, BARE, PHASES):
            self._keep_window(stage)
        self._events.extend(self._used_events)
        self._used_events = []
        self._save()

    def _window_stage(self) -> str:
        """The stage the window that just ended belonged to (the schedule has moved on)."""
        if self._kernel_probe is not None:
            return KERNELS
        if self._memory_probe is not None:
            return MEMORY
        if self.timing:
            return PHASES
        return WARMUP if not self.windows else BARE

    def _close_ranges(self) -> None:
        while self._kernel_ranges:
            self._kernel_ranges.pop()()

    def _keep_window(self, stage: str) -> None:
        timeline = self._timeline
        marks = timeline.clear() if stage == PHASES and timeline is not None else self._marks
        if marks and marks[-1][2] is not None:
            marks[-1][2].synchronize()  # between two passes: the coming interval is not counted
        stretches = split(marks)
        rows = []
        for (samples, kind, disturbed), stretch in zip(self._rows, stretches, strict=False):
            row: dict[str, Any] = {
                "seconds": sum(stretch.values()),
                "samples": samples,
                "kind": kind,
                "disturbed": disturbed,
            }
            if stage == PHASES:
                row["phases"] = stretch
            rows.append(row)
        self.windows.append(
            {
                "stage": stage,
                "wall": [self._window_wall, time.time()],
                "intervals": rows[:LONGEST_KEPT],
            }
        )

    # The root modules ----------------------------------------------------------------------

    def _trained(self) -> set[int]:
        found = set()
        for optimizer in self._stepping.values():
            for group in optimizer.param_groups:
                found.update(id(parameter) for parameter in group["params"])
        if not found:
            for facts in self.optimizers.values():
                reference = facts.get("reference")
                optimizer = reference() if reference is not None else None
                for group in getattr(optimizer, "param_groups", ()):
                    found.update(id(parameter) for parameter in group["params"])
        return found

    def _find_roots(self) -> None:
        self._searches += 1
        found = modules.outermost(modules.holding(self.torch, self._trained()))
        self.roots = found[:64]
        for root in self.roots:
            modules.watch(self.torch, root, self)

    def _descend(self) -> None:
        """No root was called: the parts of a mere container are."""
        try:
            below = modules.children(self.roots, self._trained())[:256]
            for module in below:
                modules.watch(self.torch, module, self)
            self.roots = below or self.roots
        except Exception as problem:
            self._note("roots", problem)

    # The record ----------------------------------------------------------------------------

    def _note(self, where: str, problem: Exception) -> None:
        if len(self.problems) < 20:
            self.problems.append(f"{where}: {type(problem).__name__}: {problem}"[:500])

    def _finish(self) -> None:
        self._finished = True
        self.timing = False
        try:
            self._doors.close()
            self._close_ranges()
            if self._sampler is not None:
                self._sampler.finish()
        finally:
            self._save(final=True)

    def at_exit(self) -> None:
        """The command ended before the measurement did: keep what there is."""
        if self._pid != os.getpid() or not self.steps or self._finished:
            return
        try:
            if self._rows and self._schedule.stage in (WARMUP, BARE, PHASES):
                self._keep_window(self._schedule.stage)
        except Exception as problem:
            self._note("exit", problem)
        self._save(ended=True)

    def _progress(self) -> dict[str, Any]:
        return {
            "stage": self._schedule.stage,
            "steps": self.steps,
            "step_seconds": self._schedule._step_seconds,
        }

    def _save(self, *, final: bool = False, ended: bool = False) -> None:
        self._written = time.time()
        writing.progress(self.folder, self._pid, self._progress())
        record = {
            "schema": 1,
            "pid": self._pid,
            "rank": _number("RANK"),
            "local_rank": _number("LOCAL_RANK"),
            "world_size": _number("WORLD_SIZE"),
            "complete": final,
            "ended": ended,
            "settled": self._schedule.settled,
            "unit": self.unit,
            "steps": self.steps,
            "evaluations": self.evaluations,
            "stage": self._schedule.stage,
            "times": dict(self.times),
            "compile_seconds": environment.compile_seconds(),
            "windows": self.windows,
            "losses": self._safe(self.losses.values, []) if final or ended else [],
            "loaders": self.loaders.summary(),
            "loader_starts": self.loaders.starts,
            "loader_start_seconds": self.loaders.start_seconds,
            "input_cpu": self.loaders.split(),
            "lines": self._sampler.summary() if self._sampler is not None else {},
            "waits": self._waits(),
            "copies": self._copies(),
            "memory": self.memory,
            "kernels": self.kernels,
            "optimizers": [
                {key: value for key, value in facts.items() if key != "reference"}
                for facts in self.optimizers.values()
            ][:8],
            "models": [type(root).__name__ for root in self.roots][:8],
            "environment": self._safe(lambda: environment.describe(self.torch, self.device), {}),
            "diverted": self.diverted[:50],
            "problems": self.problems,
        }
        writing.record(self.folder, self._pid, record)

    def _safe(self, function: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return function()
        except Exception as problem:
            self._note("record", problem)
            return otherwise

    def _waits(self) -> list[dict[str, Any]]:
        steps = max(1, self.waited_steps)
        rows = [
            {
                "what": what,
                "file": place[0] if place else None,
                "line": place[1] if place else None,
                "per_step": count / steps,
                "seconds_per_step": seconds / steps,
            }
            for (what, place), (count, seconds) in self.waits.items()
        ]
        rows.sort(key=lambda row: -float(row["seconds_per_step"] or 0))
        return rows[:20]

    def _copies(self) -> list[dict[str, Any]]:
        steps = max(1, self.waited_steps)
        return [
            {
                "file": place[0] if place else None,
                "line": place[1] if place else None,
                "per_step": count / steps,
                "bytes_per_step": size / steps,
                "pinned": pinned >= count,
            }
            for place, (count, size, pinned) in self.copies.items()
        ][:20]


def _number(name: str) -> int | None:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None


def _describe(optimizer: Any) -> dict[str, Any]:
    import weakref

    place = None
    frame: Any = sys._getframe(1)
    found = places.users_frame(frame)
    if found is not None:
        place = (found.f_code.co_filename, found.f_lineno)
    group = optimizer.param_groups[0] if getattr(optimizer, "param_groups", None) else {}
    try:
        reference: Any = weakref.ref(optimizer)
    except TypeError:
        reference = None
    return {
        "name": type(optimizer).__name__,
        "torchs_own": type(optimizer).__module__.startswith("torch.optim"),
        "tensors": sum(len(g["params"]) for g in getattr(optimizer, "param_groups", ())),
        "fused": group.get("fused"),
        "foreach": group.get("foreach"),
        "can_fuse": "fused" in group,
        "file": os.path.abspath(place[0]) if place else None,
        "line": place[1] if place else None,
        "reference": reference,
    }
