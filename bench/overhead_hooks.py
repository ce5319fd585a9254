"""How long hotlap's own code runs in a step of 10 ms, by a clock around every call it stands on.

Differences between whole steps drown in the noise of a rented machine; the time between entering a
hook and leaving it does not. Each call of the loop is timed from outside, and what hotlap calls in
the end is timed from inside: the rest is hotlap's, and the same rest without hotlap (the clocks'
own cost) is taken off. This is the real loop of 10 ms, so caches are as cold as they are there. A
block's number is the median of its groups of three steps (the phases pass looks into one of each
three): a group in which the thread lost its core says nothing.

Seen is everything the training thread does for hotlap, events included. Not seen is what it does to
others: the sampler's turns at the interpreter, and the caches it takes; bench/overhead.py shows
those as differences, and calls this.

    python bench/overhead_hooks.py --device cpu
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import torch
from torch import nn
from torch.utils.data.dataloader import _BaseDataLoaderIter

from overhead_loops import GROUP, LEAD, Loop, step_loop
from overhead_variants import BARE, PHASES, PLAIN, Hotlap


class Clocks:
    """Nanoseconds of the step under way: of what was called in the end, and of hooks."""

    def __init__(self) -> None:
        self.inner = 0
        self.hooks = 0

    def wrap(self, owner: Any, name: str) -> None:
        """From inside: put in place before hotlap, so that hotlap takes it for torch's own."""
        plain = getattr(owner, name)

        @functools.wraps(plain)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter_ns()
            try:
                return plain(*args, **kwargs)
            finally:
                self.inner += perf_counter_ns() - began

        setattr(owner, name, timed)

    def hook(self, plain: Callable[..., None]) -> Callable[..., None]:
        def timed(*args: Any) -> None:
            began = perf_counter_ns()
            plain(*args)
            self.hooks += perf_counter_ns() - began

        return timed


def run(loop: Loop, clocks: Clocks, batches: Iterator[Any], steps: int) -> list[float]:
    """The loop's own steps, with a clock at every call but the optimizer's, whose hooks have one.

    Returns each step's microseconds that were not the called function's own.
    """
    rests = []
    for _ in range(steps):
        clocks.inner = clocks.hooks = 0
        t0 = perf_counter_ns()
        inputs, targets = next(batches)
        inputs, targets = inputs.to(loop.device), targets.to(loop.device)
        loop.optimizer.zero_grad()
        output = loop.model(inputs)
        t4 = perf_counter_ns()
        loss = loop.criterion(output, targets)
        t5 = perf_counter_ns()
        loss.backward()
        t6 = perf_counter_ns()
        loop.optimizer.step()
        t7 = perf_counter_ns()
        loss.item()
        outer = t4 - t0 + t6 - t5 + perf_counter_ns() - t7
        rests.append((outer - clocks.inner + clocks.hooks) * 1e-3)
    return rests


def watched_loop(device: str, steps: int, folder: Path, clocks: Clocks) -> tuple[Hotlap, Loop]:
    clocks.wrap(_BaseDataLoaderIter, "__next__")
    clocks.wrap(torch.autograd, "backward")
    clocks.wrap(torch.Tensor, "to")
    clocks.wrap(torch.Tensor, "item")
    clocks.wrap(torch.optim.Optimizer, "zero_grad")
    clocks.wrap(nn.Sequential, "_call_impl")
    hotlap = Hotlap(folder)
    hotlap.replace_hooks(clocks.hook)
    return hotlap, hotlap.meet(lambda: step_loop(device, steps))


def measure(device: str, steps: int, rounds: int, seed: int) -> dict[str, Any]:
    """Microseconds of hotlap's own a step, one number a block, and the step it stands in."""
    chance, clocks = random.Random(seed), Clocks()
    rests: dict[str, list[float]] = {PLAIN: [], BARE: [], PHASES: []}
    took: list[float] = []
    with tempfile.TemporaryDirectory(prefix="hotlap-bench-") as folder:
        hotlap, loop = watched_loop(device, steps, Path(folder), clocks)
        for _ in range(rounds):
            for name in chance.sample(list(rests), len(rests)):
                watching: Any = nullcontext()
                if name != PLAIN:
                    watching = hotlap.watching(name, steps=LEAD + steps)
                with watching:
                    batches = iter(loop.loader)
                    run(loop, clocks, batches, LEAD)
                    began = perf_counter_ns()
                    each = run(loop, clocks, batches, steps)
                    groups = (each[first : first + GROUP] for first in range(0, steps, GROUP))
                    rests[name].append(statistics.median(map(statistics.mean, groups)))
                    if name == PLAIN:
                        took.append((perf_counter_ns() - began) / steps * 1e-3)
    return {
        "step_us": statistics.median(took),
        "rounds": rounds,
        "steps": steps,
        "own_us": {
            name: [more - less for more, less in zip(rests[name], rests[PLAIN], strict=True)]
            for name in (BARE, PHASES)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="How long hotlap's own code runs in a step.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--steps", type=int, default=21)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    print(json.dumps(measure(options.device, options.steps, options.rounds, options.seed)))


if __name__ == "__main__":
    main()
