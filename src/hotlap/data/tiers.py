"""How many bytes each tier of a cache may take, out of what was asked for and what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from hotlap.data import arena, budgets, shelf
from hotlap.data.shelf import Shelf

Tell = Callable[[str], None]


class Tier(Protocol):
    """What device, memory and disk have in common."""

    def packed(self, index: int) -> bytes | None: ...

    def clear(self) -> None: ...


def packed_in(tiers: Iterable[Tier | None], index: int) -> bytes | None:
    """From the first that has it."""
    found = (tier.packed(index) for tier in tiers if tier is not None)
    return next((packed for packed in found if packed is not None), None)


def clear(tiers: Iterable[Tier | None]) -> None:
    for tier in tiers:
        if tier is not None:
            tier.clear()


@dataclass(frozen=True, kw_only=True)
class Wanted:
    device: Any
    ram: Any
    disk: Any
    path: Path | None
    on: torch.device

    def check(self, tell: Tell) -> None:
        """What makes no sense is said before a sample is made."""
        if self.path is None and self.disk:
            raise ValueError(f"disk={self.disk!r} needs a folder: path='/scratch/cache'")
        if self.path is not None and not self.disk:
            tell(f"path={str(self.path)!r} holds nothing without a budget: disk='200 GB'")
        if self.device and self.on.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device={self.device!r} needs a CUDA device, and there is none here")
        if "%" in str(self.device) and self.on.type != "cuda":
            raise ValueError(
                f"device={self.device!r} is a share of a GPU's memory, and the device is "
                f"{self.on}; say bytes or '2 GB'"
            )
        self._parsed(held=0)

    def sizes(self, key: str, samples: int, tell: Tell) -> dict[str, int]:
        """Bytes for each tier; a tier that its table would fill is none."""
        sizes = self._parsed(held=self._held(key))
        tables = {"ram": arena.table_bytes(samples), "disk": shelf.table_bytes(samples)}
        for name, table in tables.items():
            if 0 < sizes[name] <= table:
                tell(
                    f"{name}={sizes[name]} is no more than the table of {samples:,} samples takes "
                    f"({table:,} bytes); that tier is left out"
                )
                sizes[name] = 0
        return sizes

    def there(self, key: str, sizes: dict[str, int], opened: Shelf | None) -> dict[str, int]:
        """What can be counted on: of the disk what is free, and nothing where it took no cache."""
        if opened is None or self.path is None:
            return {**sizes, "disk": 0}
        return {**sizes, "disk": min(sizes["disk"], budgets.disk(self.path) + self._held(key))}

    def _held(self, key: str) -> int:
        """Bytes that the cache has on disk already."""
        return budgets.held(self.path / key) if self.path is not None else 0

    def _parsed(self, *, held: int) -> dict[str, int]:
        """`held` is what an earlier run left on disk: it is taken, but by this very cache."""
        on_cuda = self.on.type == "cuda" and self.device
        free_device = torch.cuda.mem_get_info(self.on)[0] if on_cuda else 0
        free_disk = budgets.disk(self.path) + held if self.path is not None else 0
        free = budgets.ram()
        return {
            "device": budgets.parse(self.device, free_device),
            "ram": min(budgets.parse(self.ram, free), free),
            "disk": budgets.parse(self.disk, free_disk),
        }


def shelf_in(
    path: Path | None,
    key: str,
    facts: dict[str, Any],
    samples: int,
    budget: int,
    *,
    tell: Tell,
) -> Shelf | None:
    """None where it is not asked for, or the folder cannot hold one."""
    if path is None or not budget:
        return None
    try:
        return Shelf(path / key, samples, budget, facts=facts, tell=tell)
    except OSError as problem:
        tell(f"{path} cannot hold a cache ({problem}); it is done without")
        return None
