"""The kernels pass: torch.profiler over a few steps, reduced at once to counts and sums.

It is never the clock: it triples a launch-bound step. What it gives is what stays true under it:
how long each kernel ran, how many operations a step issues, where the host waited for the device.
"""

from __future__ import annotations

import contextlib
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotlap.probes import spans
from hotlap.probes.timeline import name_gaps

if TYPE_CHECKING:
    from hotlap.probes.accelerators import Accelerator

PREFIX = "hotlap::"
BIG_SECONDS = 15e-6  # an operation shorter than this is mostly the framework's own cost
MEMORY = "[memory]"
MOST_EVENTS = 1_000_000  # read at once; torch.profiler itself takes about 2 kB for each
PLENTY_OF_NODES = 20_000  # of autograd, with 10 to 30 events each: no further step is looked at
_RUNTIMES = ("cuda", "hip")  # what the calls of their runtimes begin with
# And of all that give work to a device: the last two to XPUs.
_LAUNCHERS = ("cuda", "cuLaunch", "cuMem", "cuGraph", "hip", "urEnqueue", "zeCommand")
_WAITS = ("StreamSynchronize", "DeviceSynchronize", "EventSynchronize", "Memcpy")
_SYNCS = (
    *(runtime + wait for runtime in _RUNTIMES for wait in _WAITS),
    "hipMemcpyWithStream",  # its .item()
)
# What a compiled model runs as on a CPU: its kernels show up as no operation of their own.
_COMPILED = ("Torch-Compiled Region", "CompiledFunction")
MODEL = ("forward", "gap", "backward")
_COLLECTIVES = ("gloo:", "nccl:", "c10d::", "nccl")


class KernelProbe:
    def __init__(
        self, torch: Any, accelerator: Accelerator | None, trace: Path | None = None
    ) -> None:
        self._trace = trace
        self._unseen = accelerator.unseen() if accelerator is not None else None
        activities = [torch.profiler.ProfilerActivity.CPU]
        if accelerator is not None and (activity := accelerator.activity()) is not None:
            activities.append(activity)
        self._record = torch.profiler.record_function
        self._nodes: Callable[[], int] = getattr(torch.autograd, "_get_sequence_nr", lambda: 0)
        # On a CPU, allocations are the only way to see what the backward pass keeps alive.
        self._profiler = torch.profiler.profile(
            activities=activities, profile_memory=accelerator is None
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._profiler.start()
        self._first_node = self._nodes()

    def has_plenty(self) -> bool:
        """Whether so many operations were seen that another step may be more than can be read."""
        return self._nodes() - self._first_node >= PLENTY_OF_NODES

    def range(self, name: str) -> Callable[[], None]:
        """Opens a named range; the answer closes it."""
        scope = self._record(PREFIX + name)
        scope.__enter__()
        return lambda: scope.__exit__(None, None, None)

    def abandon(self) -> None:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._profiler.stop()

    def finish(self, steps: int) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._profiler.stop()
        found = summarize_what_fits(self._profiler.profiler.kineto_results.events(), steps)
        if self._trace is not None:
            self._save(self._trace)
        if self._unseen and found["steps"] and "device_busy_seconds" not in found:
            return {"steps": 0, "problem": self._unseen}  # what the host did alone would mislead
        return found

    def _save(self, trace: Path) -> None:
        """What was seen, for those who want to look for themselves; whole or not at all."""
        unfinished = trace.with_name(f".{trace.name}")
        try:
            trace.parent.mkdir(parents=True, exist_ok=True)
            self._profiler.export_chrome_trace(str(unfinished))
            unfinished.replace(trace)
        except Exception:  # a full disk: the sums are there all the same
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)


def summarize_what_fits(raw: list[Any], steps: int) -> dict[str, Any]:
    """The sums of the last steps, as many as are not too many events to read."""
    if len(raw) <= MOST_EVENTS:
        return summarize(map(_read, raw), steps)
    begin = _begin_of_few(map(_read, raw), MOST_EVENTS)
    if begin is None:
        return {"steps": 0, "problem": f"a step has more than {MOST_EVENTS:,} events"}
    return summarize((event for event in map(_read, raw) if event[2] >= begin), steps)


def _begin_of_few(events: Iterable[tuple[Any, ...]], most: int) -> int | None:
    """When the longest row of last steps begins that has no more events than that."""
    bounds: list[int] = []
    starts: list[int] = []
    for name, on_device, start, *_ in events:
        starts.append(start)
        if name == PREFIX + "step" and not on_device:
            bounds.append(start)
    starts.sort()
    whole = sorted(bounds)[:-1]
    return next((at for at in whole if len(starts) - bisect_left(starts, at) <= most), None)


def _read(event: Any) -> tuple[str, bool, int, int, int, int]:
    """(name, on the device, start, end, thread, correlation), times in nanoseconds.

    An allocation has its bytes for a correlation.
    """
    if hasattr(event, "start_ns"):
        start, duration = event.start_ns(), event.duration_ns()
    else:
        start, duration = event.start_us() * 1000, event.duration_us() * 1000
    on_device = "CPU" not in str(event.device_type())
    thread = 0 if on_device else event.start_thread_id()
    name = event.name()
    link = event.nbytes() if name == MEMORY else event.correlation_id()
    return name, on_device, start, start + duration, thread, link


def summarize(events: Any, steps: int) -> dict[str, Any]:
    """Per-step sums. Events outside the marked steps are left out."""
    host: list[tuple[str, float, float, int, int]] = []
    device: list[tuple[str, float, float, int]] = []
    ranges: list[tuple[float, float, str]] = []
    allocations: list[tuple[float, int]] = []
    zero: int | None = None
    for name, on_device, start_ns, end_ns, thread, correlation in events:
        if zero is None:
            zero = start_ns  # seconds since 1970 leave a float no room for nanoseconds
        start, end = (start_ns - zero) * 1e-9, (end_ns - zero) * 1e-9
        if name.startswith(PREFIX):
            if not on_device:
                ranges.append((start, end, name[len(PREFIX) :]))
        elif name == MEMORY:
            allocations.append((start, correlation))
        elif on_device:
            device.append((name, start, end, correlation))
        else:
            host.append((name, start, end, thread, correlation))
    bounds = sorted(start for start, _, name in ranges if name == "step")
    if len(bounds) < 2:
        return {"steps": 0, "problem": "no whole step was seen by torch.profiler"}
    bounds = bounds[-steps - 1 :]  # the first ones carry the profiler's own start
    phases = _Phases([r for r in ranges if r[2] != "step"], bounds[0], bounds[-1])
    steps = len(bounds) - 1
    result = _host_side(host, phases, bounds)
    if device:
        result.update(_device_side(host, device, phases))
    for key, value in result.items():
        if isinstance(value, dict):
            result[key] = {name: number / steps for name, number in value.items()}
        else:
            result[key] = value / steps
    result["steps"] = steps
    result["activations_bytes"] = _activations(allocations, phases)
    result["profiled_step_seconds"] = (bounds[-1] - bounds[0]) / steps
    return result


class _Phases:
    """Answers which phase a moment lies in; between forward and backward it is the gap."""

    def __init__(self, ranges: list[tuple[float, float, str]], first: float, last: float) -> None:
        changes: list[tuple[float, str]] = [(first, "other")]
        points = sorted(
            [(start, 1, name) for start, _, name in ranges]
            + [(end, 0, name) for _, end, name in ranges]
        )
        stack: list[str] = []
        for time, opens, name in points:
            if opens:
                stack.append(name)
            elif name in stack:
                stack.reverse()
                stack.remove(name)
                stack.reverse()
            now = stack[-1] if stack else "other"
            if name == "forward" and now == "other":
                now = "gap"
            changes.append((time, now))
        changes.append((last, ""))
        changes.sort(key=lambda change: change[0])
        self.first, self.last = first, last
        self._times = [time for time, _ in changes]
        self._names = name_gaps([name for _, name in changes])

    def at(self, time: float) -> str | None:
        if not self.first <= time < self.last:
            return None
        return self._names[bisect_right(self._times, time) - 1] or None

    def model_seconds(self, bounds: list[float]) -> list[float]:
        """Of each step, the time in forward and backward."""
        steps = [0.0 for _ in bounds[1:]]
        for name, (start, end) in zip(self._names, pairwise(self._times), strict=False):
            if name in ("forward", "backward") and self.first <= start < self.last:
                steps[bisect_right(bounds, start) - 1] += end - start
        return steps


def _activations(allocations: list[tuple[float, int]], phases: _Phases) -> int | None:
    """The most that forward passes had left allocated when a backward pass began."""
    live = most = 0
    for time, size in sorted(allocations):
        phase = phases.at(time)
        if phase in ("forward", "gap"):
            live += size
        elif phase == "backward":
            most, live = max(most, live), 0
    return most or None


def _host_side(
    host: list[tuple[str, float, float, int, int]], phases: _Phases, bounds: list[float]
) -> dict[str, Any]:
    operations: dict[str, float] = {}
    own_times = _OwnTimes(bounds)
    top: dict[str, float] = {}
    collectives: list[tuple[float, float]] = []
    busy: list[tuple[float, float]] = []
    blocked = 0.0
    by_thread: dict[int, list[tuple[float, float, str]]] = {}
    for name, start, end, thread, _ in host:
        phase = phases.at(start)
        if phase is None:
            continue
        if name.startswith(_COLLECTIVES):
            collectives.append((start, end))
        elif name.startswith(_RUNTIMES):
            if name in _SYNCS:
                blocked += end - start
        elif name.startswith(("aten::", *_COMPILED)):
            by_thread.setdefault(thread, []).append((start, end, name))
    for found in by_thread.values():
        found.sort(key=lambda event: (event[0], -event[1]))
        for name, start, end, own, outermost in _nest(found):
            phase = phases.at(start) or "other"
            if outermost:
                top[phase] = top.get(phase, 0.0) + (end - start)
                busy.append((start, end))
            operations[phase] = operations.get(phase, 0.0) + 1
            own_times.add(phase, name, start, own)
    exposed = spans.length(spans.union(collectives)) - spans.overlap(
        spans.union(collectives), spans.union(busy)
    )
    big, lost = own_times.sums()
    return {
        "profiled_model_seconds": own_times.of_all(phases.model_seconds(bounds)),
        "operations": operations,
        "big_seconds": big,
        "lost_seconds": lost,
        "operator_seconds": top,
        "blocked_seconds": blocked,
        "communication_seconds": max(0.0, exposed),
    }


class _OwnTimes:
    """What each operation takes by itself, in the step in which it takes neither least nor most.

    On a busy machine any operation may lose its core for milliseconds; hardly ever the same one in
    two steps of three.
    """

    def __init__(self, bounds: list[float]) -> None:
        self._bounds = bounds
        self._steps: dict[tuple[str, str], list[list[float]]] = {}

    def add(self, phase: str, name: str, start: float, own: float) -> None:
        steps = self._steps.setdefault((phase, name), [[] for _ in self._bounds[1:]])
        steps[bisect_right(self._bounds, start) - 1].append(own)

    def sums(self) -> tuple[dict[str, float], dict[str, float]]:
        """Seconds by phase, of all steps: of operations that compute, and what small ones lost."""
        big: dict[str, float] = {}
        lost: dict[str, float] = {}
        for (phase, name), steps in self._steps.items():
            compiled = name.startswith(_COMPILED)
            for times in self._alike(steps):
                usual = sorted(times)[(len(times) - 1) // 2]
                if compiled or usual >= BIG_SECONDS:
                    big[phase] = big.get(phase, 0.0) + len(times) * usual
                else:
                    waited = sum(own for own in times if own >= BIG_SECONDS)
                    lost[phase] = lost.get(phase, 0.0) + waited
        return big, lost

    def of_all(self, seconds: list[float]) -> float:
        """The sum of what each step took; where all do the same, as if each were the middle one."""
        steps = (steps for (phase, _), steps in self._steps.items() if phase in MODEL)
        if all(len({len(times) for times in one}) == 1 for one in steps):
            return len(seconds) * sorted(seconds)[(len(seconds) - 1) // 2]
        return sum(seconds)

    def _alike(self, steps: list[list[float]]) -> list[list[float]]:
        """The times of one operation in all steps; each by itself where the steps differ."""
        if len({len(times) for times in steps}) == 1:
            return [list(times) for times in zip(*steps, strict=True)]
        return [[own] for times in steps for own in times]


def _nest(
    events: list[tuple[float, float, str]],
) -> list[tuple[str, float, float, float, bool]]:
    """(name, start, end, time of its own, outermost) of one thread's events, sorted by start."""
    own = [end - start for start, end, _ in events]
    outermost = [False] * len(events)
    stack: list[int] = []
    for index, (start, end, _) in enumerate(events):
        while stack and events[stack[-1]][1] <= start:
            stack.pop()
        if stack:
            own[stack[-1]] -= end - start
        outermost[index] = not stack
        stack.append(index)
    return [
        (name, start, end, own[index], outermost[index])
        for index, (start, end, name) in enumerate(events)
    ]


def _device_side(
    host: list[tuple[str, float, float, int, int]],
    device: list[tuple[str, float, float, int]],
    phases: _Phases,
) -> dict[str, Any]:
    launched = {
        correlation: start for name, start, _, _, correlation in host if name.startswith(_LAUNCHERS)
    }
    busy_by_phase: dict[str, float] = {}
    kernels = copies = 0.0
    to_device = from_device = 0.0
    compute: list[tuple[float, float]] = []
    communication: list[tuple[float, float]] = []
    annotations = {
        name for name, _, _, _, _ in host
    }  # record_function's ranges, drawn on the device
    for name, start, end, correlation in device:
        phase = phases.at(launched.get(correlation, start))
        if phase is None or name in annotations:
            continue
        low = name.lower()
        if low.startswith("memcpy"):
            copies += 1
            if "htod" in low:
                to_device += end - start
            elif "dtoh" in low:
                from_device += end - start
        elif "nccl" in low:
            communication.append((start, end))
            continue
        elif not low.startswith("memset"):
            kernels += 1
        compute.append((start, end))
        busy_by_phase[phase] = busy_by_phase.get(phase, 0.0) + (end - start)
    exposed = spans.length(spans.union(communication)) - spans.overlap(
        spans.union(communication), spans.union(compute)
    )
    return {
        "device_busy_seconds": spans.length(spans.union(compute + communication)),
        "device_seconds": busy_by_phase,
        "kernels": kernels,
        "copies": copies,
        "to_device_seconds": to_device,
        "from_device_seconds": from_device,
        "communication_seconds": max(0.0, exposed),
    }
