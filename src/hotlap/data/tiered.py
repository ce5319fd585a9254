"""A data set whose samples are kept once they were made: on the device, in memory, on disk.

    cached = Tiered(ImageFolder("photos", transform), ram="80%", disk="200 GB", path="/scratch")
    loader = DataLoader(cached, batch_size=64, shuffle=True, num_workers=8)

Tiers are filled as samples come by, in this order, and nothing is evicted: with reshuffled epochs
a cache of half the data that keeps what it has hits in half of all cases, one that evicts hardly
ever. What does not fit comes from the next tier, or from the source as before. There is one copy of
the memory tier for all workers and all ranks of a node.

Random transforms stay random: the cache is put below them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from hotlap.data.asking import MISSING
from hotlap.data.cache import TIERS, Cache
from hotlap.data.failures import RAISE, Failures
from hotlap.data.fitting import Fit
from hotlap.data.layers import Below
from hotlap.data.rechecking import SHARE
from hotlap.data.tiers import Wanted

OWN = frozenset({"_tiered", "_tiered_source"})


class Tiered(Dataset):  # type: ignore[misc]
    """Attributes of the data set, private ones too, are read from it and set on it."""

    def __init__(
        self,
        dataset: Any,
        *,
        ram: int | float | str = "50%",
        disk: int | float | str = 0,
        path: str | os.PathLike[str] | None = None,
        device: int | float | str = 0,
        on: str | torch.device = "cuda",
        version: str = "1",
        on_error: str = RAISE,
        strict: bool = True,
        recheck: float = SHARE,
    ) -> None:
        folder = None if path is None else Path(path)
        wanted = Wanted(device=device, ram=ram, disk=disk, path=folder, on=torch.device(on))
        self._tiered_source = dataset
        self._tiered = Cache(
            dataset,
            wanted,
            version=version,
            failures=Failures(on_error),
            strict=strict,
            recheck=recheck,
        )

    def __len__(self) -> int:
        return len(self._tiered)

    def __getitem__(self, index: Any) -> Any:
        (sample,) = self._tiered.samples_of([index])
        if sample is MISSING:
            raise self.failures.nothing_left([index])
        return sample

    def __getitems__(self, indices: Any) -> list[Any]:
        """Of whatever a batch sampler yields: a list, a tensor, an iterator."""
        asked: Sequence[Any] = indices if hasattr(indices, "__len__") else list(indices)
        found = [sample for sample in self._tiered.samples_of(asked) if sample is not MISSING]
        if len(asked) and not found:
            raise self.failures.nothing_left(asked)
        return found

    def __getattr__(self, name: str) -> Any:
        """Whatever else the data set has: its classes, its targets."""
        if name.startswith("__") or "_tiered_source" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self._tiered_source, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OWN:
            super().__setattr__(name, value)
        else:
            self._tiered.set(name, value)

    def outdated(self) -> str | None:
        """What was changed on the data set itself; from then on it is asked, and nothing kept."""
        return self._tiered.outdated()

    @property
    def unseen(self) -> str | None:
        """What holds so many records that a change in one of them is not looked for."""
        return self._tiered.unseen

    def wrong(self) -> str | None:
        """A sample that is another one when it is made again: nothing is cached from then on."""
        return self._tiered.wrong()

    @property
    def failures(self) -> Failures:
        return self._tiered.failures

    @property
    def below(self) -> Below:
        """What is cached, and what is done to it afterwards."""
        return self._tiered.below

    @property
    def fit(self) -> Fit:
        return self._tiered.fit

    @property
    def probes(self) -> tuple[int, ...]:
        """The samples that were looked at first."""
        return self._tiered.probes

    def hits(self) -> dict[str, int]:
        """Samples by where they came from, over all workers, since the last `forget_hits`."""
        counted = self._tiered.counted()
        return {name: counted[name] for name in TIERS}

    @property
    def random_samples(self) -> int:
        """Handed out and not kept, because random numbers were drawn while they were made."""
        return self._tiered.counted()["random"]

    @property
    def passed_on(self) -> int:
        """Handed out and not kept, with `strict=False`: of kinds or numbers that no cache takes."""
        return self._tiered.counted()["passed on"]

    def forget_hits(self) -> None:
        self._tiered.forget_counted()

    @property
    def hit_rate(self) -> float | None:
        counted = self.hits()
        total = sum(counted.values())
        return 1 - counted["source"] / total if total else None

    @property
    def used(self) -> dict[str, int]:
        """Bytes in each tier."""
        return self._tiered.used

    def __repr__(self) -> str:
        return f"Tiered({self._tiered_source!r}: {self.below.told}. {self.fit.sentence})"


def share_memory(cached: Tiered, memories: dict[str, Any]) -> None:
    """It has the memory tier of one of the same data, if there is one, or leaves its own there.

    For a data set that is made anew for every epoch: what was kept would go with the old one.
    """
    cache = cached._tiered
    if cache.key is not None and cache.arena is not None:
        cache.arena = memories.setdefault(cache.key, cache.arena)
