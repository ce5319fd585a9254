"""What looking for the trained modules costs a call of a module that trains nothing.

Image transforms are modules: a loader worker calls a few of them for every sample. Timed in turns:
torch alone, and with the search on, in a process that knows as many module classes as torchvision
and the compiler bring along.

    python bench/module_calls.py
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from torch import nn

from hotlap.optimizations.install import install

CLASSES = 1500
CALLS = 2000
ROUNDS = 11


def microseconds(module: nn.Module, sample: torch.Tensor) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        module(sample)
    return (time.perf_counter() - began) / CALLS * 1e6


def main() -> None:
    known = [type(f"Known{number}", (nn.Module,), {}) for number in range(CLASSES)]
    module, sample, plain = nn.Identity(), torch.ones(2), nn.Module.__call__
    with TemporaryDirectory() as folder:
        install(torch, Path(folder), {"recipe": {"precision-bf16": {}}, "seed": 0})
        torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)  # never called: the search goes on
        searching = nn.Module.__call__
        assert searching is not plain
        times: dict[str, list[float]] = {"torch alone": [], "searching": []}
        for _ in range(ROUNDS):
            for name, call in (("torch alone", plain), ("searching", searching)):
                nn.Module.__call__ = call  # type: ignore[method-assign]
                times[name].append(microseconds(module, sample))
    for name, taken in times.items():
        print(f"{name:12} {median(taken):8.2f} µs a call  (n={ROUNDS}, {len(known)} classes)")


if __name__ == "__main__":
    main()
