"""What a compiler with a budget of memory keeps and costs, beside plain training and checkpointing.

Claimed: at a budget of 50 % or less a ResNet keeps clearly less than without compiling, at a step
that takes no longer; checkpointing pays with a second forward pass.

Two networks, ResNet-18 and a small GPT, in seven ways: plain, with `activation-checkpointing`,
with `compile`, and compiled at budgets of 50, 25, 10 and 1 %. Each way is a process of its own, in
turns, forward and backward; the recipes are applied as `Recipe.apply` does. `kept` is what is
allocated when the forward pass has ended and was not before it, `peak` the most that a step
allocates beside what stands between steps: on a GPU its allocator tells, on a CPU torch's profiler,
in a step that is not timed. A step's time is the median of a process; the lowest and the highest of
the processes stand beside their median.

    python bench/memory_budget.py --device cpu --json bench/results/memory-budget-cpu.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hotlap import Recipe, machine
from hotlap.models.resnet import ResNet
from hotlap.studies import footprint

COMPILED: dict[str, dict[str, Any]] = {"compile": {}}
WAYS: dict[str, dict[str, dict[str, Any]]] = {
    "plain": {},
    "checkpointed": {"activation-checkpointing": {}},
    "compiled": COMPILED,
    **{
        f"compiled, {percent} %": {"memory-budget": {"percent": percent}, **COMPILED}
        for percent in (50, 25, 10, 1)
    },
}
SIZES: dict[str, dict[str, dict[str, int]]] = {
    "cpu": {
        "resnet18": {"batch": 64},
        "gpt": {"batch": 8, "layers": 6, "width": 256, "length": 256},
    },
    "cuda": {
        "resnet18": {"batch": 1024},
        "gpt": {"batch": 16, "layers": 12, "width": 768, "length": 1024},
    },
}
WORDS = 1000


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked, self.told = nn.Linear(width, 3 * width), nn.Linear(width, width)
        wide = (nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.wide = nn.Sequential(*wide, nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.asked(self.before(x)).view(batch, length, 3, -1, 64).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.told(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.wide(self.after(x))


class Gpt(nn.Module):
    def __init__(self, layers: int, width: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width) for _ in range(layers)))
        self.head = nn.Linear(width, WORDS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        at = torch.arange(text.shape[1], device=text.device)
        made: torch.Tensor = self.head(self.layers(self.words(text) + self.places(at)))
        return made


class Training(footprint.Training):
    """A step of one of the two, as footprint.py measures it."""

    def __init__(self, network: str, size: dict[str, int], device: str) -> None:
        shape = dict(size)
        batch = shape.pop("batch")
        super().__init__(
            ResNet(18) if network == "resnet18" else Gpt(**shape), batch=batch, device=device
        )
        if network == "gpt":
            self._inputs = torch.randint(0, WORDS, (batch, shape["length"]), device=self.device)
            self._targets = self._inputs

    def step(self, between: Any = lambda: None) -> None:
        made = self.model(self._inputs)
        loss = nn.functional.cross_entropy(made.flatten(0, -2), self._targets.flatten())
        del made
        between()
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def apply(self, recipe: dict[str, dict[str, Any]]) -> None:
        Recipe.of(recipe).apply(self.model, self._optimizer)


def measured(network: str, way: str, device: str, seconds: float) -> dict[str, Any]:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # two beside another process that is busy take several times as long
    training = Training(network, SIZES[device][network], device)
    training.apply(WAYS[way])
    began = time.perf_counter()
    training.step()
    training.step()
    found: dict[str, Any] = {"start_seconds": time.perf_counter() - began}
    taken = footprint.taken(training)
    found["kept_bytes"] = taken["activation_bytes"]
    found["peak_bytes"] = taken["peak_bytes"] - training.standing_bytes
    windows = footprint.timed([training], seconds, window=seconds / 10)[0]
    return {**found, "step_seconds": statistics.median(windows)}


def in_a_process(network: str, way: str, device: str, seconds: float) -> dict[str, Any]:
    words = ["--device", device, "--seconds", str(seconds), "--one", network, way]
    done = subprocess.run(
        [sys.executable, __file__, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{network}, {way}:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--networks", nargs="+", default=["resnet18", "gpt"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("NETWORK", "WAY"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(*given.one, given.device, given.seconds)))
        return
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {
        network: {way: [] for way in WAYS} for network in given.networks
    }
    for number in range(given.rounds):
        for network, ways in runs.items():
            for way in list(WAYS)[:: -1 if number % 2 else 1]:
                ways[way].append(in_a_process(network, way, given.device, given.seconds))
    for network, ways in runs.items():
        print(f"\n{network}  {SIZES[given.device][network]}")
        for way, own in ways.items():
            steps = sorted(one["step_seconds"] for one in own)
            kept, peak = (
                statistics.median(one[name] for one in own) for name in ("kept_bytes", "peak_bytes")
            )
            print(
                f"{way:16} kept {kept / 1e6:8.1f} MB  peak {peak / 1e6:8.1f} MB  "
                f"step {statistics.median(steps) * 1e3:7.1f} ms"
                f" ({steps[0] * 1e3:.1f} to {steps[-1] * 1e3:.1f})"
            )
    if given.json:
        gpu = torch.cuda.get_device_name() if given.device == "cuda" else None
        about = {
            "processor": machine.processor(),
            "cores": machine.cores(),
            "gpu": gpu,
            "torch": torch.__version__,
            "sizes": SIZES[given.device],
            "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        given.json.write_text(json.dumps({**about, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
