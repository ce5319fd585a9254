"""Transforms that change what a pixel's value means: its type, its scale, its mean."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hotlap.data.transforms import windows
from hotlap.data.transforms.transform import (
    Drawn,
    Shape,
    Transform,
    checked,
    column,
    fitting,
    numbers,
)

LARGEST = 255  # a uint8
JUST_UNDER = 255.999  # so that every uint8 gets the same share of [0, 1], as torchvision scales


class Convert(Transform):
    """Another type: `ToTensor` for batches is `Convert(torch.float32)`.

    With `scale`, 0 to 255 of uint8 are 0 to 1 of floats, and back.
    """

    def __init__(self, dtype: torch.dtype = torch.float32, *, scale: bool = True) -> None:
        if scale and dtype != torch.uint8 and not dtype.is_floating_point:
            raise ValueError(f"only uint8 and floats have a scale here, not {dtype}; scale=False?")
        self.dtype = dtype
        self.scale = scale

    def apply(self, batch: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        from_floats, to_floats = batch.is_floating_point(), self.dtype.is_floating_point
        if not self.scale or from_floats == to_floats:
            return batch.to(self.dtype, copy=True)
        if to_floats:
            return batch.to(exact(self.dtype)).div_(LARGEST).to(self.dtype)
        return (batch * JUST_UNDER).to(self.dtype)


class Normalize(Transform):
    """(value - mean) / std for every channel, of values from 0 to 1: uint8 are scaled to that.

    Scaling and normalising are one multiplication and one addition. `mean` and `std` are those that
    scripts give to torchvision's `Normalize` after `ToTensor`.
    """

    def __init__(
        self,
        mean: float | Sequence[float],
        std: float | Sequence[float],
        *,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not dtype.is_floating_point:
            raise ValueError(f"normalised values are floats, not {dtype}")
        self.mean, self.std = numbers(mean), numbers(std)
        self.dtype = dtype
        if not all(value > 0 for value in self.std):
            raise ValueError(f"std is {std!r}; it must be positive")
        if len(self.mean) != len(self.std):
            raise ValueError(f"{len(self.mean)} means, but {len(self.std)} standard deviations")

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """Nothing, but who has the shape before the first batch hears of a wrong one now."""
        fitting(self.mean, shape[0], "mean")
        return super().draw(count, shape, generator)

    def apply(self, batch: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        fitting(self.mean, checked(batch).shape[1], "mean")
        largest = 1 if batch.is_floating_point() else LARGEST
        factor = column(tuple(1 / (largest * std) for std in self.std), batch.device)
        offset = column(
            tuple(-mean / std for mean, std in zip(self.mean, self.std, strict=True)), batch.device
        )
        if batch.device.type == "cpu":
            return _in_passes(batch, factor, offset).to(self.dtype)
        return torch.addcmul(offset, batch, factor).to(self.dtype)


def _in_passes(batch: torch.Tensor, factor: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """On the CPU three simple passes beat one that torch does not vectorise."""
    if windows.memory_format(batch) == torch.contiguous_format:
        return batch.to(torch.float32, copy=True).mul_(factor).add_(offset)
    rows, _, back = windows.in_memory_order(batch)
    pixels = rows.shape[1] * rows.shape[2]  # the inner loop runs over pixels, not three channels
    flat = rows.to(torch.float32, copy=True).view(len(rows), -1)
    for value, change in ((factor, flat.mul_), (offset, flat.add_)):
        change(value.flatten().expand(rows.shape[3]).repeat(pixels))
    return flat.view(rows.shape).permute(back)


def exact(dtype: torch.dtype) -> torch.dtype:
    """What to calculate in: half precision is for results."""
    return torch.float64 if dtype == torch.float64 else torch.float32
