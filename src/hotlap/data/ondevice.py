"""The device tier: samples of tensors, kept on a device by the process that trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hotlap.data.packing import CannotPack, Finished, leaves, pack


class OnDevice:
    """Holds samples up to a budget. A process it is pickled into holds none."""

    def __init__(self, device: torch.device, budget: int) -> None:
        self.device, self.budget = device, budget
        self._held: dict[int, Any] = {}
        self._left = budget

    def get(self, index: int) -> Any:
        """A copy, so that changing it changes nothing here; None if it is not there."""
        held = self._held.get(index)
        return None if held is None else _mapped(held, torch.Tensor.clone)

    def packed(self, index: int) -> bytes | None:
        """As another tier would hold it; None also where none could."""
        held = self._held.get(index)
        try:
            return None if held is None else pack(_mapped(held, torch.Tensor.cpu))
        except CannotPack:
            return None

    def clear(self) -> None:
        self._held, self._left = {}, 0

    def has(self, index: int) -> bool:
        return index in self._held

    def moved(self, index: int, sample: Any, *, keep: bool = True) -> Any:
        """The sample on the device, and kept there if it may be and fits."""
        moved = _mapped(sample, lambda tensor: tensor.to(self.device))
        size = _size(moved) if keep else None
        if size is not None and size <= self._left and index not in self._held:
            self._left -= size
            self._held[index] = _mapped(moved, torch.Tensor.clone)
        return moved

    @property
    def used(self) -> int:
        return self.budget - self._left

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": {}, "_left": 0}


def _size(sample: Any) -> int | None:
    """Bytes on the device; None where a part belongs in memory: arrays, images, bytes."""
    found = list(leaves(sample.sample if isinstance(sample, Finished) else sample))
    tensors = [one for one in found if isinstance(one, torch.Tensor)]
    small = (torch.Tensor, bool, int, float, str, type(None))
    if any(one.requires_grad for one in tensors):  # a gradient is not for a copy
        return None
    if not tensors or not all(isinstance(one, small) for one in found):
        return None
    texts = sum(len(one) for one in found if isinstance(one, str))
    return texts + sum(int(one.nbytes) for one in tensors)


def _mapped(sample: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(sample, torch.Tensor):
        return change(sample)
    if isinstance(sample, dict):
        return {key: _mapped(value, change) for key, value in sample.items()}
    if isinstance(sample, (list, tuple)):
        return type(sample)([_mapped(value, change) for value in sample])
    if isinstance(sample, Finished):
        return Finished(_mapped(sample.sample, change))
    return sample
