"""The tools bench/overhead.py watches its loops with, put in and taken out again."""

from __future__ import annotations

import atexit
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from torch.utils.data import DataLoader

SOURCE = Path(__file__).resolve().parents[1] / "src"
if str(SOURCE) not in sys.path:
    sys.path.insert(0, str(SOURCE))

from hotlap.probes.install import install  # noqa: E402
from hotlap.probes.schedule import BARE, PHASES, Schedule  # noqa: E402
from hotlap.settings import Limits  # noqa: E402
from overhead_loops import LEAD, STEP_SECONDS, Loop, Took  # noqa: E402

PLAIN, AGAIN, HOOKS, PROFILER, TRACEML = (
    "plain",
    "plain again",
    "phases, no sampler",
    "torch.profiler",
    "traceml",
)


CLOCKS = ("wall", "cpu")
MET = 8  # steps in which a tool gets to know a loop


# Putting tools in and taking them out ----------------------------------------------------------

MISSING = object()
Change = tuple[Any, str, Any, Any]  # whose, which name, without the tool, with it


def places() -> list[Any]:
    """Everything in torch that a tool may have replaced on the way of a training step."""
    return [
        DataLoader,
        torch.utils.data.dataloader._BaseDataLoaderIter,
        torch.optim.Optimizer,
        torch.Tensor,
        nn.Module,
        torch.autograd,
        torch.nn.utils,
        _global_optimizer_pre_hooks,
        _global_optimizer_post_hooks,
    ]


def contents(owners: list[Any]) -> list[dict[Any, Any]]:
    return [dict(owner) if isinstance(owner, dict) else dict(vars(owner)) for owner in owners]


def changes(owners: list[Any], before: list[dict[Any, Any]]) -> list[Change]:
    found = []
    for owner, old, new in zip(owners, before, contents(owners), strict=True):
        for name in {**old, **new}:
            pair = old.get(name, MISSING), new.get(name, MISSING)
            if pair[0] is not pair[1] and not isinstance(pair[1], ModuleType):
                found.append((owner, name, *pair))
    return found


def write(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, dict):
        if value is MISSING:
            owner.pop(name, None)
        else:
            owner[name] = value
    elif value is MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def put_in(found: list[Change]) -> None:
    for owner, name, _, changed in found:
        write(owner, name, changed)


def take_out(found: list[Change]) -> None:
    for owner, name, plain, _ in found:
        write(owner, name, plain)


# The variants ----------------------------------------------------------------------------------


class Endless(Schedule):
    """The schedule at its usual work, but no window ever ends by itself."""

    def _window_size(self) -> int:
        super()._window_size()
        return 10**9


class Hotlap:
    """hotlap's watcher, installed in this process as it is in a watched one."""

    def __init__(self, folder: Path) -> None:
        limits = Limits(steps=10**9, seconds=1e9).as_dict()
        settings = {
            "limits": limits,
            "protected": [],
            "diverted": str(folder / "diverted"),
            "in_place": True,
            "started": time.time(),
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        before = contents(places())
        self.recorder = install(torch, folder, time.time())
        atexit.unregister(self.recorder.at_exit)
        self._limits = limits
        self._installed = changes(places(), before)
        self._door: list[Change] = []
        self._since_written = 0
        take_out(self._installed)

    def replace_hooks(self, make: Callable[[Any], Any]) -> None:
        """Another function in the place of each of the optimizer's hooks."""
        owners = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)
        self._installed = [
            (owner, name, plain, make(ours) if any(owner is one for one in owners) else ours)
            for owner, name, plain, ours in self._installed
        ]

    def meet(self, make: Callable[[], Loop]) -> Loop:
        """Makes a loop under watch and takes its first steps: the model gets its door."""
        loop = make()  # calibrating made optimizers of its own, which must not be counted
        put_in(self._installed)
        self.recorder.restart()
        self.recorder.schedule = Endless(**self._limits)
        self.recorder.optimizer_made(loop.optimizer, None)
        attributes = [loop.model.__dict__]
        before = contents(attributes)
        loop.run(iter(loop.loader), MET)
        self._door = changes(attributes, before)
        if not self._door or self.recorder.steps != MET or self.recorder.problems:
            raise RuntimeError(f"hotlap does not watch this loop: {self.recorder.problems}")
        self.recorder.passes.close()
        take_out(self._installed + self._door)
        return loop

    @contextlib.contextmanager
    def watching(self, stage: str, *, steps: int, sampler: bool = True) -> Iterator[None]:
        recorder = self.recorder
        schedule = Endless(**self._limits)
        schedule.stage, schedule.step_seconds = stage, STEP_SECONDS
        recorder.schedule = schedule
        # About one progress file a second.
        recorder._written = time.perf_counter_ns() - self._since_written
        put_in(self._installed + self._door)
        recorder.passes.open(stage)
        if not sampler and recorder.passes.sampler is not None:
            recorder.passes.sampler.pause()
        try:
            yield
        finally:
            recorder.passes.close()
            take_out(self._installed + self._door)
            self._since_written = time.perf_counter_ns() - recorder._written
        window = recorder.passes.windows.pop()
        if window["stage"] != stage or len(window["intervals"]) != steps or recorder.problems:
            raise RuntimeError(f"hotlap did not watch this block: {recorder.problems}")


class TraceML:
    """TraceML in its automatic mode, with its aggregator in a process of its own."""

    def __init__(self, folder: Path) -> None:
        import traceml_ai
        from traceml_ai.runtime import lifecycle

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        serve = "import sys; from traceml_ai.launcher.cli import main; sys.exit(main())"
        words = ["serve", "--logs-dir", str(folder), "--aggregator-port", str(port)]
        self._aggregator = subprocess.Popen(
            [sys.executable, "-c", serve, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        before = contents(places())
        try:
            traceml_ai.init(
                mode="auto",
                logs_dir=str(folder),
                aggregator_port=port,
                connect_timeout_sec=30,
                on_missing_aggregator="raise",
            )
        except BaseException:
            self._aggregator.kill()
            self._aggregator.wait()
            raise
        self._changes = changes(places(), before)
        take_out(self._changes)
        # Its sampler thread wakes every two seconds; that must not fall into the others' blocks.
        runtime: Any = lifecycle.get_active_runtime_handle().runtime
        self._tick = runtime._tick
        self._on = False
        self.ticks = 0

        def tick(*args: Any) -> None:
            if self._on:
                self.ticks += 1
                self._tick(*args)

        runtime._tick = tick

    def meet(self, loop: Loop) -> None:
        """The first step registers TraceML's optimizer hooks."""
        before = contents(places())
        put_in(self._changes)
        loop.run_in_traceml(iter(loop.loader), MET)
        self._changes = changes(places(), before)
        take_out(self._changes)

    @contextlib.contextmanager
    def watching(self, *, steps: int, ticking: bool) -> Iterator[None]:
        """Without `ticking`, its queue is emptied after the block: tiny steps would overflow it."""
        from traceml_ai.sdk.instrumentation import TraceState

        put_in(self._changes)
        first = TraceState.step
        self._on = ticking
        try:
            yield
        finally:
            self._on = False
            take_out(self._changes)
        if not ticking:
            self._tick()
        if TraceState.step != first + steps:
            raise RuntimeError("TraceML did not watch this block")

    def close(self) -> None:
        from traceml_ai.sdk import initial

        initial._stop_runtime_for_init()
        self._aggregator.terminate()
        try:
            self._aggregator.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._aggregator.kill()
            self._aggregator.wait()


@contextlib.contextmanager
def profiling(device: str) -> Iterator[None]:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    profiler = torch.profiler.profile(activities=activities)
    profiler.start()
    try:
        yield
    finally:
        profiler.stop()


Variant = Callable[[Loop], Took]


def variants(
    device: str, hotlap: Hotlap, traceml: TraceML | None, *, tiny: bool
) -> dict[str, Variant]:
    def plain(loop: Loop) -> Took:
        return loop.block(loop.run)

    def watched(stage: str, *, sampler: bool = True) -> Variant:
        def block(loop: Loop) -> Took:
            with hotlap.watching(stage, steps=LEAD + loop.steps, sampler=sampler):
                return loop.block(loop.run)

        return block

    def profiled(loop: Loop) -> Took:
        with profiling(device):
            return loop.block(loop.run)

    def traced(loop: Loop) -> Took:
        assert traceml is not None
        with traceml.watching(steps=LEAD + loop.steps, ticking=not tiny):
            return loop.block(loop.run_in_traceml)

    chosen = {PLAIN: plain, AGAIN: plain, BARE: watched(BARE), PHASES: watched(PHASES)}
    if tiny:
        chosen[HOOKS] = watched(PHASES, sampler=False)
    else:
        chosen[PROFILER] = profiled
    if traceml is not None:
        chosen[TRACEML] = traced
    return chosen
