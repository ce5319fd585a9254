"""The order of samples as a pure function of seed and epoch, so that it can be taken up again."""

from __future__ import annotations

import hashlib
import operator
import warnings
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeGuard

import torch
from torch.utils.data import IterableDataset, Sampler

CHUNK = 1 << 16  # indices made into Python numbers at a time


class Drawn(int):
    """An index that knows its epoch, also in a worker."""

    epoch: int


@dataclass
class Progress:
    """How far the training came in one epoch. `start` is where it began, over all ranks."""

    epoch: int = 0
    start: int = 0
    taken: int = 0  # samples of this rank that were delivered since
    loaded: bool = False
    ended: bool = False


class Order(Sampler[int]):  # type: ignore[misc]
    """A sampler for a DataLoader. The same seed and epoch give the same order, whatever was before.

    Shared between ranks as torch's DistributedSampler does it: every rank draws as many, the last
    ones once more if they do not come out even, or none of them with `drop_last`. Rank and
    world size are torch.distributed's unless they are given.

    By itself it does not know how far the training came, since workers ask for indices early:
    `Resumable` counts. Indices are a `Drawn` with `with_epoch=True`, for seeds (`seeded`).
    """

    def __init__(
        self,
        data: Sized | int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        with_epoch: bool = False,
    ) -> None:
        if isinstance(data, IterableDataset):
            raise TypeError(
                f"{type(data).__name__} is an IterableDataset: it has an order of its own, and no "
                "index to resume at. Order needs a dataset with __getitem__ and __len__"
            )
        if not hasattr(seed, "__index__"):
            raise TypeError(f"seed is {seed!r}; it is a whole number")
        self.length = data if isinstance(data, int) else len(data)
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        own_rank, size = _ranks()
        self.world_size = size if world_size is None else world_size
        self.rank = own_rank if rank is None else rank
        if self.length < 0 or not 0 <= self.rank < self.world_size:
            raise ValueError(
                f"{self.length} samples for rank {self.rank} of {self.world_size}: lengths are "
                "not negative, and ranks are counted from 0"
            )
        self.with_epoch = with_epoch
        self.progress = Progress()
        self.loads = 0  # whoever began before the last one is outdated

    def __len__(self) -> int:
        return self.share(0)

    def __iter__(self) -> Iterator[int]:
        now = self.progress
        begin = now.start + self.rank
        end = now.start + self.share(now.start) * self.world_size
        mine = torch.arange(begin, max(begin, end), self.world_size)
        mine %= max(1, self.length)
        if self.shuffle:
            mine = permutation(self.length, seed=self.seed, epoch=now.epoch)[mine]
        return _numbers(mine, now.epoch if self.with_epoch else None)

    def share(self, start: int) -> int:
        """Samples of one rank from there to the end of the epoch."""
        left = max(0, self.length - start)
        return left // self.world_size if self.drop_last else -(-left // self.world_size)

    @property
    def epoch(self) -> int:
        """The epoch that is under way, or the one that comes next."""
        return self.progress.epoch + self.progress.ended

    @property
    def consumed(self) -> int:
        """Samples of that epoch that were delivered to the training, over all ranks."""
        now = self.progress
        if now.ended:
            return 0
        return now.start + min(now.taken, self.share(now.start)) * self.world_size

    def set_epoch(self, epoch: int) -> None:
        """Goes to the start of an epoch; what was loaded is not lost by naming its epoch."""
        now = self.progress
        if now.loaded and not now.taken and not now.ended:
            if epoch == now.epoch:
                return
            loaded = f"set_epoch({epoch}) after a state of epoch {now.epoch} was loaded"
            if epoch < now.epoch:
                raise ValueError(
                    f"{loaded}: training would begin again. Begin the loop at "
                    f"epoch {now.epoch}, as range(loader.epoch, ...) does"
                )
            if self.share(now.start):
                left = self.length - now.start
                warnings.warn(f"{loaded}: its last {left} samples are skipped", stacklevel=2)
        self.progress = Progress(epoch=epoch)

    def state_dict(self) -> dict[str, Any]:
        """The same for all ranks."""
        return {
            "epoch": self.epoch,
            "consumed": self.consumed,
            "length": self.length,
            "seed": self.seed,
            "shuffle": self.shuffle,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not isinstance(state, Mapping):
            raise TypeError(
                f"the state is {state!r}; it is what state_dict() gave, saved with the checkpoint"
            )
        for name in ("length", "seed", "shuffle"):
            if name not in state:
                raise ValueError(f"this is no state of an Order: it has no {name!r}")
            if state[name] != getattr(self, name):
                raise ValueError(
                    f"the state was saved with {name}={state[name]!r}, and this order has "
                    f"{name}={getattr(self, name)!r}: the samples would not be the ones left over"
                )
        epoch, consumed = state.get("epoch"), state.get("consumed")
        if not (_is_count(epoch) and _is_count(consumed)):
            raise ValueError(
                f"this is no state of an Order: {epoch=} and {consumed=}, and they are whole "
                "numbers from 0 on"
            )
        self.progress = Progress(epoch=int(epoch), start=int(consumed), loaded=True)
        self.loads += 1


def _is_count(value: Any) -> TypeGuard[SupportsIndex]:
    """A checkpoint may give it back as a number of another library, or as a tensor."""
    try:
        return operator.index(value) >= 0
    except TypeError:
        return False


def permutation(length: int, *, seed: int, epoch: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(_mixed("order", seed, epoch))
    return torch.randperm(length, generator=generator)


def seeded(seed: int, epoch: int, index: int) -> torch.Generator:
    """Random numbers of one sample in one epoch: the same in any worker, and after a resume.

    For other libraries: `random.Random(seeded(seed, epoch, index).initial_seed())`.
    """
    return torch.Generator().manual_seed(_mixed("sample", seed, epoch, int(index)))


def _mixed(*names: str | int) -> int:
    """63 bits. Sums would do worse: seed 0 in epoch 1 would be seed 1 in epoch 0."""
    digest = hashlib.blake2b(repr(names).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _numbers(indices: torch.Tensor, epoch: int | None) -> Iterator[int]:
    for chunk in indices.split(CHUNK):
        for index in chunk.tolist():
            if epoch is not None:
                index = Drawn(index)
                index.epoch = epoch
            yield index


def _ranks() -> tuple[int, int]:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
