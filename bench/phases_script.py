"""A plain training script: a loader that takes its time, a stack of linear layers, AdamW.

`train` is what hotlap watches; it knows nothing of clocks. `train_by_hand` is the same loop timed
the careful way, for bench/phases.py to compare with: perf_counter at the borders of each phase on a
CPU; on CUDA an event at each border, read when training is over, and nothing waits inside a step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

INPUT_SECONDS = 0.008
# width, layers, batch: each phase takes several milliseconds; on CUDA the device is what is busy
SIZES = {"cpu": (768, 4, 96), "cuda": (4096, 16, 1024)}


class SlowBatches(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self, batches: int, batch: int, width: int) -> None:
        self._inputs, self._targets = torch.randn(batch, width), torch.randn(batch, width)
        self._batches = batches

    def __len__(self) -> int:
        return self._batches

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(INPUT_SECONDS)
        return self._inputs, self._targets


class Clock:
    """Marks where a phase begins; the stretch to the next mark is its time."""

    def __init__(self, device: str) -> None:
        self._on_device = device == "cuda"
        self._marks: list[tuple[str, Any]] = []

    def begins(self, phase: str) -> None:
        if self._on_device:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append((phase, event))
        else:
            self._marks.append((phase, time.perf_counter()))

    def steps(self) -> list[dict[str, float]]:
        """Seconds by phase, one dict for each step (a step begins where its input does)."""
        if self._on_device:
            torch.cuda.synchronize()
        steps: list[dict[str, float]] = []
        for (phase, start), (_, end) in zip(self._marks, self._marks[1:], strict=False):
            if phase == "input":
                steps.append({})
            took = start.elapsed_time(end) * 1e-3 if self._on_device else end - start
            steps[-1][phase] = steps[-1].get(phase, 0.0) + took
        return steps[:-1]  # the last one has no end


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


def train_by_hand(
    loader: Any, model: nn.Module, optimizer: Any, device: str
) -> list[dict[str, float]]:
    criterion = nn.MSELoss()
    clock = Clock(device)
    total = 0.0
    batches = iter(loader)
    for _ in range(len(loader)):
        clock.begins("input")
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
    return clock.steps()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=tuple(SIZES), default="cpu")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--warm-up", type=int, default=30, help="steps --by-hand leaves out")
    parser.add_argument("--by-hand", type=Path, help="time the phases and write them here")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.device == "cpu":
        torch.set_num_threads(1)
    width, layers, batch = SIZES[options.device]
    loader = DataLoader(SlowBatches(options.steps, batch, width), batch_size=None)
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*parts).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if options.by_hand is None:
        train(loader, model, optimizer, options.device)
        return
    steps = train_by_hand(loader, model, optimizer, options.device)[options.warm_up :]
    whole = [sum(step.values()) for step in steps]
    phases = {name: statistics.mean(step[name] for step in steps) for name in steps[0]}
    found = {
        "steps": len(steps),
        "median_seconds": statistics.median(whole),
        "mean_seconds": statistics.mean(whole),
        "phase_mean_seconds": phases,
        "torch": str(torch.__version__),
        "device_name": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
    }
    options.by_hand.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
