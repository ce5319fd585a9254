"""What reversible blocks cost and save, beside plain blocks, checkpointing and RevTorch.

Claimed: a step takes at most 1.33 times that of the same network keeping its activations (four
units of work instead of three), and what is kept does not grow with depth.

One stack of blocks (BatchNorm, ReLU, 3x3 convolution, twice, in each branch), several depths. For
each way: live bytes after the forward pass, peak bytes of a step, and time of a step; ways
alternate within one process, medians over the rounds. Then the drift at a depth of 100, in float32
and under bfloat16 autocast: how far the input that is computed back lies from the one that was
given, and the gradients of reversible blocks from those of plain ones.

    python bench/reversible.py --device cuda --json bench/results/reversible-h200.json
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from hotlap import machine
from hotlap.models.reversible import ReversibleBlock, ReversibleSequential
from hotlap.models.revnet import unit

LIMIT = 1.33


class Checkpointed(nn.Module):
    """Each block's activations are made again in the backward pass, by torch's own means."""

    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def ways(blocks: list[ReversibleBlock]) -> dict[str, nn.Module]:
    found: dict[str, nn.Module] = {
        "plain": nn.Sequential(*copy.deepcopy(blocks)),
        "reversible": ReversibleSequential(*copy.deepcopy(blocks)),
        "checkpointed": Checkpointed(copy.deepcopy(blocks)),
    }
    if importlib.util.find_spec("revtorch") is not None:
        import revtorch

        theirs = [revtorch.ReversibleBlock(one.f, one.g) for one in copy.deepcopy(blocks)]
        found["RevTorch"] = revtorch.ReversibleSequence(nn.ModuleList(theirs))
    return found


class Bytes:
    """Of tensors: the device's allocator, or on a CPU all storages that are alive."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"

    def now(self) -> int:
        if self._cuda:
            return torch.cuda.memory_allocated()
        seen = {}
        for one in gc.get_objects():
            if issubclass(type(one), torch.Tensor) and one.layout == torch.strided:
                seen[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
        return sum(seen.values())

    def reset(self) -> None:
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int | None:
        return torch.cuda.max_memory_allocated() if self._cuda else None


def step(model: nn.Module, x: torch.Tensor) -> None:
    model(x).square().mean().backward()
    for one in (x, *model.parameters()):
        one.grad = None


def seconds(work: Callable[[], None], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measure(
    depth: int, x: torch.Tensor, width: int, rounds: int, device: torch.device
) -> dict[str, dict[str, Any]]:
    torch.manual_seed(0)
    models = {
        name: model.to(device)
        for name, model in ways([unit("basic", width) for _ in range(depth)]).items()
    }
    memory = Bytes(device)
    taken: dict[str, list[float]] = {name: [] for name in models}
    found: dict[str, dict[str, Any]] = {}
    for name, model in models.items():
        for _ in range(2):
            step(model, x)
        gc.collect()
        before = memory.now()
        y = model(x)
        live = memory.now() - before
        del y
        gc.collect()
        memory.reset()
        before = memory.now()
        step(model, x)
        peak = memory.peak()
        found[name] = {"live_bytes": live, "peak_bytes": None if peak is None else peak - before}
    for number in range(rounds):
        order = list(models) if number % 2 else list(models)[::-1]
        for name in order:
            taken[name].append(seconds(lambda model=models[name]: step(model, x), device))
    for name, row in found.items():
        row["step_seconds"] = statistics.median(taken[name])
        pairs = [a / b for a, b in zip(taken[name], taken["plain"], strict=True)]
        row["ratio"] = statistics.median(pairs)
    return found


def drift(
    x: torch.Tensor, width: int, device: torch.device, act: type[nn.Module]
) -> dict[str, Any]:
    """At a depth of 100, by norms.

    reconstruction: of the input computed back, by that of the input. gradients: the largest of a
    parameter's, by the largest gradient's own. input_gradient: by that of the plain one.
    """
    torch.manual_seed(0)
    blocks = [unit("basic", width) for _ in range(100)]
    for block in blocks:
        for module in block.modules():
            for name, child in module.named_children():
                if isinstance(child, nn.ReLU):
                    setattr(module, name, act())
    models = ways(blocks)
    errors = {}
    for precision in ("float32", "bfloat16"):
        gradients, inputs = {}, {}
        for name in ("plain", "reversible"):
            model = copy.deepcopy(models[name]).to(device)
            given = x.detach().clone().requires_grad_()
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
                y = model(given)
            y.float().square().mean().backward()
            gradients[name] = [parameter.grad for parameter in model.parameters()]
            inputs[name] = given.grad
            if name == "reversible":
                back = reconstructed(model, y, precision == "bfloat16")
        parts = zip(gradients["reversible"], gradients["plain"], strict=True)
        scale = max(float(one.norm()) for one in gradients["plain"])
        errors[precision] = {
            "gradients": max(float((a - b).norm()) for a, b in parts) / scale,
            "reconstruction": float((back - x.detach()).norm() / x.detach().norm()),
            "input_gradient": float(
                (inputs["reversible"] - inputs["plain"]).norm() / inputs["plain"].norm()
            ),
        }
    return errors


def name_of(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    return f"{machine.describe()['processor']}, {machine.cores():g} cores"


def reconstructed(model: Any, y: torch.Tensor, lower: bool) -> torch.Tensor:
    """The input, walking back from the output block by block."""
    with torch.no_grad(), torch.autocast(y.device.type, torch.bfloat16, enabled=lower):
        for block in reversed(list(model)):
            y = block.inverse(y)
    return y


def main() -> None:
    parser = argparse.ArgumentParser(description="What reversible blocks cost and save.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depths", type=int, nargs="*", default=[4, 16, 100])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    batch = options.batch or (256 if device.type == "cuda" else 16)
    # RevTorch gives its parameters no gradient where the input needs none.
    x = torch.randn(batch, options.width, 32, 32, device=device, requires_grad=True)
    report: dict[str, Any] = {
        "device": name_of(device),
        "torch": str(torch.__version__),
        "batch": batch,
        "width": options.width,
        "rounds": options.rounds,
        "depths": {},
    }
    for depth in options.depths:
        found = measure(depth, x, options.width, options.rounds, device)
        report["depths"][depth] = found
        for name, row in found.items():
            peak = "" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:9.1f} MB peak"
            print(
                f"{depth:4} blocks  {name:12} {row['step_seconds'] * 1e3:9.1f} ms  "
                f"{row['ratio']:5.2f}x  {row['live_bytes'] / 1e6:9.1f} MB live {peak}",
                flush=True,
            )
        within = found["reversible"]["ratio"] <= LIMIT
        print(f"            at most {LIMIT}x: {'yes' if within else 'NO'}")
    small = x[: min(8, batch)]
    report["drift"] = {
        act.__name__: drift(small, options.width, device, act) for act in (nn.ReLU, nn.SiLU)
    }
    print(json.dumps(report["drift"]))
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
