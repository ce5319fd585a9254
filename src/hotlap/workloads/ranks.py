"""Training in several processes, as `torchrun` starts them; one process needs nothing of it."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import distributed, nn

from hotlap.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Which process of how many this is, and the device it has."""

    device: torch.device
    rank: int = 0
    world: int = 1
    together: bool = False  # there is a process group, be it of one
    # Up to torch 2.4 at least gloo's thread may be the last to let go of what it has summed, needs
    # Python's lock for that, and is waited for by whoever ends the group, holding that lock.
    _held: deque[torch.Tensor] = field(
        default_factory=lambda: deque(maxlen=8), repr=False, compare=False
    )

    @property
    def first(self) -> bool:
        return self.rank == 0

    def wrapped(self, model: nn.Module) -> nn.Module:
        """Gradients are averaged over all processes; they begin with the first one's parameters."""
        if not self.together:
            return model
        return nn.parallel.DistributedDataParallel(model)

    def part(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """This process's share: as many for each, or one would wait for a batch nobody has.

        Dealt out at random, the same way by all: where labels come in turn, every second image
        would be of half of the classes.
        """
        if self.world == 1:
            return tensors
        dealt = torch.randperm(len(tensors[0]), generator=torch.Generator().manual_seed(0))
        each = len(dealt) // self.world
        own = dealt[self.rank * each :][:each]
        return tuple(one[own] for one in tensors)

    def summed(self, numbers: torch.Tensor) -> torch.Tensor:
        if self.together:
            distributed.all_reduce(numbers)
            self._held.append(numbers)
        return numbers


def join(device: str) -> Ranks:
    """The group that WORLD_SIZE tells of: over NCCL with a GPU each, over gloo on a CPU."""
    if "WORLD_SIZE" not in os.environ:
        return Ranks(device=torch.device(device))
    own = torch.device(device)
    if own.type == "cuda":
        own = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        _check_gpu(own)
        torch.cuda.set_device(own)
    try:
        distributed.init_process_group("nccl" if own.type == "cuda" else "gloo")
    except ValueError as problem:  # torchrun sets all of them
        reason = f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but: {problem}."
        raise UsageError(f"{reason} Start it with torchrun, or unset WORLD_SIZE.") from problem
    return Ranks(
        device=own,
        rank=distributed.get_rank(),
        world=distributed.get_world_size(),
        together=True,
    )


def _check_gpu(own: torch.device) -> None:
    there = torch.cuda.device_count()
    if own.index >= there:
        raise UsageError(
            f"Process {own.index} has no GPU: this machine has {there}. Start as many processes as"
            f" there are GPUs: torchrun --nproc-per-node {there}"
        )


def leave(ranks: Ranks) -> None:
    if ranks.together:
        distributed.destroy_process_group()


def sampler(ranks: Ranks, dataset: Any, seed: int) -> Any:
    """None for one process: the loader then shuffles by itself."""
    if not ranks.together:
        return None
    return torch.utils.data.DistributedSampler(
        dataset, ranks.world, ranks.rank, seed=seed, drop_last=True
    )


def reorder(loader: Any, epoch: int) -> None:
    """A distributed sampler has to be told that an epoch begins, or all have the same order."""
    sampler = getattr(loader, "sampler", None)
    if isinstance(sampler, torch.utils.data.DistributedSampler):
        sampler.set_epoch(epoch)
