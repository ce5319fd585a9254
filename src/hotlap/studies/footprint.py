"""What one training step takes: bytes of activations, bytes at its peak, and seconds.

On a GPU its allocator tells. On a CPU torch's profiler notes each allocation and its end, so both
count the same: what a step adds to parameters, buffers, the optimizer's state and the batch.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

LEAST_WINDOWS = 3
MARK = "hotlap: the forward pass has ended"


class Training:
    """A network with its optimizer and one batch, and a step that says when half of it is done."""

    def __init__(self, model: nn.Module, *, batch: int, device: str) -> None:
        self.device = torch.device(device)
        self.model = model.to(self.device).train()
        self._inputs = torch.randn(batch, 3, 32, 32, device=self.device)
        self._targets = torch.randint(0, 10, (batch,), device=self.device)
        self._optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9)

    def step(self, between: Callable[[], None] = lambda: None) -> None:
        loss = nn.functional.cross_entropy(self.model(self._inputs), self._targets)
        between()
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    @property
    def standing_bytes(self) -> int:
        """What is there between two steps."""
        state = [
            one
            for kept in self._optimizer.state.values()
            for one in kept.values()
            if isinstance(one, torch.Tensor)
        ]
        held = [*self.model.parameters(), *self.model.buffers(), *state]
        return sum(map(_bytes, [*held, self._inputs, self._targets]))


def parameters(model: nn.Module) -> int:
    return sum(one.numel() for one in model.parameters())


def taken(training: Training) -> dict[str, int]:
    """`activation_bytes` after the forward pass, and `peak_bytes` with all that stands."""
    training.step()  # the optimizer's state is there from now on
    measure = _by_allocator if training.device.type == "cuda" else _by_profiler
    live, most = measure(training)
    return {"activation_bytes": live, "peak_bytes": training.standing_bytes + most}


def _by_allocator(training: Training) -> tuple[int, int]:
    """Differences: the libraries' own work space on the GPU is none of the network's."""
    live = []
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    training.step(lambda: live.append(torch.cuda.memory_allocated() - before))
    return live[0], torch.cuda.max_memory_allocated() - before


def _by_profiler(training: Training) -> tuple[int, int]:
    def mark() -> None:
        with torch.profiler.record_function(MARK):
            pass

    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        training.step(mark)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        return live_and_most(json.loads(file.read_text())["traceEvents"])


def live_and_most(events: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """Bytes at the mark, and the most there were, from a trace's allocations and their ends."""
    wanted = [one for one in events if one.get("name") in ("[memory]", MARK)]
    live = total = most = 0
    for event in sorted(wanted, key=lambda one: float(one["ts"])):
        if event["name"] == MARK:
            live = total
        else:
            total += int(event["args"]["Bytes"])
            most = max(most, total)
    return live, most


def timed(
    trainings: Sequence[Training],
    seconds: float,
    *,
    window: float,
    clock: Callable[[], float] = time.perf_counter,
) -> list[list[float]]:
    """Seconds a step of each, window by window in turns, for about so long each.

    Windows of the same number were taken one after the other: what slowed the machine down slowed
    both, so their ratio is worth more than that of two averages.
    """
    for one in trainings:
        one.step()
    windows: list[list[float]] = [[] for _ in trainings]
    order = list(zip(trainings, windows, strict=True))
    began = clock()
    while len(windows[0]) < LEAST_WINDOWS or clock() - began < seconds * len(trainings):
        for one, own in order:
            own.append(_window(one, window, clock))
        order.reverse()
    return windows


def _window(training: Training, least: float, clock: Callable[[], float]) -> float:
    """The device is waited for at both ends; between them steps follow each other freely."""
    began, steps = _now(training, clock), 0
    while not steps or clock() - began < least:
        training.step()
        steps += 1
    return (_now(training, clock) - began) / steps


def _now(training: Training, clock: Callable[[], float]) -> float:
    if training.device.type == "cuda":
        torch.cuda.synchronize()
    return clock()


def _bytes(one: torch.Tensor) -> int:
    return int(one.numel() * one.element_size())
