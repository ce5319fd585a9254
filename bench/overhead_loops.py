"""The loops bench/overhead.py takes steps with."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEP_SECONDS = 0.010
GROUP = 3  # steps: the phases pass looks into one of so many, and its sampler wakes once in 20 ms
LEAD = 3  # steps before the clock starts: caches and branch predictors meet the variant
WIDTH = 256
WIDE, ROWS = 4096, 512  # of layers that keep a GPU busy, and of their batches
APART = 0.0015  # seconds
Took = tuple[float, float]  # by the clock, and of CPU time in all threads of this process


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Whole batches that exist already: fetching one costs next to nothing."""

    def __init__(self, batches: int, batch: int, width: int) -> None:
        self._inputs, self._targets = torch.randn(batch, width), torch.randn(batch, width)
        self._batches = batches

    def __len__(self) -> int:
        return self._batches

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if index >= self._batches:
            raise IndexError(index)
        return self._inputs, self._targets


class Loop:
    """One model, its optimizer and its loader; `run` takes steps as a user's script would."""

    def __init__(
        self,
        layers: list[nn.Module],
        device: str,
        *,
        steps: int,
        rows: Rows,
        group: int = GROUP,
        apart: float = 0.0,
    ) -> None:
        self.device = device
        self.apart = apart  # seconds between two steps
        self.steps = steps
        self.group = group
        self.model = nn.Sequential(*layers).to(device)
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.loader: DataLoader[Any] = DataLoader(rows, batch_size=None)

    def run(self, batches: Iterator[Any], steps: int) -> None:
        model, criterion, optimizer = self.model, self.criterion, self.optimizer
        for _ in range(steps):
            inputs, targets = next(batches)
            inputs, targets = inputs.to(self.device), targets.to(self.device)
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            loss.item()
            self.rest()

    def rest(self) -> None:
        if self.apart:
            until = time.perf_counter() + self.apart
            while time.perf_counter() < until:
                pass

    def run_in_traceml(self, batches: Iterator[Any], steps: int) -> None:
        """The same steps as TraceML's guide writes them for a loop of one's own."""
        import traceml_ai

        model, criterion, optimizer = self.model, self.criterion, self.optimizer
        for _ in range(steps):
            inputs, targets = next(batches)
            with traceml_ai.trace_step(model):
                inputs, targets = inputs.to(self.device), targets.to(self.device)
                optimizer.zero_grad()
                loss = criterion(model(inputs), targets)
                loss.backward()
                optimizer.step()
                loss.item()
            self.rest()

    def block(self, run: Callable[[Iterator[Any], int], None]) -> Took:
        """Seconds per step of one block, with a loader iterator of its own.

        It is the median of groups of steps: one in which the thread lost its core says nothing.
        """
        batches = iter(self.loader)
        run(batches, LEAD)
        self.wait()
        walls, cpus = [], []
        for _ in range(self.steps // self.group):
            burned, started = time.process_time(), time.perf_counter()
            run(batches, self.group)
            self.wait()
            walls.append((time.perf_counter() - started) / self.group)
            cpus.append((time.process_time() - burned) / self.group)
        return statistics.median(walls), statistics.median(cpus)

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def tiny_loop(device: str, steps: int) -> Loop:
    rows = Rows(steps + LEAD, 1, 1)
    apart = APART if device == "cuda" else 0.0
    one = [nn.Linear(1, 1, bias=False)]
    return Loop(one, device, steps=steps, rows=rows, group=steps, apart=apart)


def step_loop(device: str, steps: int) -> Loop:
    """Linear and ReLU layers, as many as make the step about 10 ms; on CUDA it is launch-bound."""

    def layers(depth: int) -> list[nn.Module]:
        return [part for _ in range(depth) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]

    if device == "cpu":
        return ten_milliseconds(layers, device, steps, batch=128, depth=8)
    return ten_milliseconds(layers, device, steps, batch=64, depth=100)


def arithmetic_loop(device: str, steps: int) -> Loop:
    """A step of about 10 ms in which the host is done long before the device."""

    def layers(depth: int) -> list[nn.Module]:
        wide = [part for _ in range(depth) for part in (nn.Linear(WIDE, WIDE), nn.ReLU())]
        return [nn.Linear(WIDTH, WIDE), nn.ReLU(), *wide, nn.Linear(WIDE, WIDTH)]

    return ten_milliseconds(layers, device, steps, batch=ROWS, depth=8)


def ten_milliseconds(
    layers: Callable[[int], list[nn.Module]], device: str, steps: int, *, batch: int, depth: int
) -> Loop:
    """The loop with the depth at which its step takes about that."""
    for _ in range(4):
        loop = Loop(layers(depth), device, steps=steps, rows=Rows(steps + LEAD, batch, WIDTH))
        loop.block(loop.run)
        measured = statistics.median(loop.block(loop.run)[0] for _ in range(3))
        better = max(1, round(depth * STEP_SECONDS / measured))
        if abs(measured / STEP_SECONDS - 1) < 0.05 or better == depth:
            break
        depth = better
    return loop
