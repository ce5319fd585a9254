"""A plain training script: a loader that takes its time, a stack of linear layers, AdamW.

`train` is what hotlap watches; it knows nothing of clocks. `train_by_hand` is the same loop timed
the careful way, for bench/phases.py to compare with: perf_counter at the borders of each phase on a
CPU; on CUDA an event at each border, read when training is over, and nothing waits inside a step.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

INPUT_SECONDS = 0.008
# features, width, layers, batch: each phase takes milliseconds; on CUDA the device is what is busy
SIZES = {"cpu": (256, 256, 40, 64), "cuda": (32768, 4096, 8, 1024)}


class SlowBatches(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """In pinned memory for CUDA: how fast other memory is copied differs from process to process,
    by where its pages happen to lie, and two processes could not be compared."""

    def __init__(self, batches: int, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        self._inputs, self._targets = inputs, targets
        self._batches = batches

    def __len__(self) -> int:
        return self._batches

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(INPUT_SECONDS)
        return self._inputs, self._targets


class Clock:
    """Marks where a phase begins; the stretch to the next mark is its time.

    A step's times are written, one line of JSON, when the next step has ended: its events are
    long past by then, and a run that is stopped has written what it measured.
    """

    def __init__(self, device: str, file: Path) -> None:
        self._on_device = device == "cuda"
        self._file = file.open("w")
        self._marks: list[tuple[str, Any]] = []
        self._started: list[float] = []

    def begins(self, phase: str) -> None:
        if self._on_device:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append((phase, event))
        else:
            self._marks.append((phase, time.perf_counter()))

    def step_begins(self) -> None:
        self._started.append(time.time())
        self.begins("input")

    def step_ended(self) -> None:
        if len(self._started) < 2:
            return
        end = [name for name, _ in self._marks].index("input", 1)
        phases: dict[str, float] = {}
        for (name, start), (_, stop) in zip(
            self._marks[:end], self._marks[1 : end + 1], strict=True
        ):
            took = start.elapsed_time(stop) * 1e-3 if self._on_device else stop - start
            phases[name] = phases.get(name, 0.0) + took
        self._marks = self._marks[end:]
        self._file.write(json.dumps({"started": self._started.pop(0), "phases": phases}) + "\n")
        self._file.flush()


def train(loader: Any, model: nn.Module, optimizer: Any, device: str) -> float:
    criterion = nn.MSELoss()
    total = 0.0
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


def train_by_hand(loader: Any, model: nn.Module, optimizer: Any, device: str, file: Path) -> float:
    criterion = nn.MSELoss()
    clock = Clock(device, file)
    total = 0.0
    batches = iter(loader)
    for _ in range(len(loader)):
        clock.step_begins()
        inputs, targets = next(batches)
        clock.begins("transfer" if device == "cuda" else "other")
        inputs, targets = inputs.to(device), targets.to(device)
        clock.begins("optimizer")
        optimizer.zero_grad()
        clock.begins("forward")
        loss = criterion(model(inputs), targets)
        clock.begins("backward")
        loss.backward()
        clock.begins("optimizer")
        optimizer.step()
        clock.begins("other")
        total += loss.item()
        clock.step_ended()
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=tuple(SIZES), default="cpu")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--by-hand", type=Path, help="time the phases and write them here")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.device == "cpu":
        torch.set_num_threads(1)
    features, width, layers, batch = SIZES[options.device]
    inputs, targets = torch.randn(batch, features), torch.randn(batch, width)
    if options.device == "cuda":
        inputs, targets = inputs.pin_memory(), targets.pin_memory()
    loader = DataLoader(SlowBatches(options.steps, inputs, targets), batch_size=None)
    sizes = [features, *[width] * layers]
    parts = [part for pair in itertools.pairwise(sizes) for part in (nn.Linear(*pair), nn.ReLU())]
    for layer in parts[::2]:
        # Without it gradients vanish on the way down, and AdamW's averages of their squares are
        # denormal at first: its steps would get faster while they are timed.
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    model = nn.Sequential(*parts).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if options.by_hand is None:
        train(loader, model, optimizer, options.device)
    else:
        train_by_hand(loader, model, optimizer, options.device, options.by_hand)


if __name__ == "__main__":
    main()
