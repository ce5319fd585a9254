"""Transforms that blot out a part of every image."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from hotlap.data.transforms.transform import (
    Drawn,
    Shape,
    Transform,
    checked,
    column,
    fitting,
    held_by,
    numbers,
    probability,
)

TRIES = 10  # torchvision's; an image for which none fits stays whole


class Cutout(Transform):
    """A square of `value`, its centre anywhere in the image, cut off at the border.

    As in the paper (DeVries and Taylor, 2017): every pixel is equally likely to be the centre, so
    near the border less than `size` x `size` is lost. The square begins `size // 2` before its
    centre. `value` is in the units of the batch: 0 is black before `Normalize`, and the mean after
    it, where the paper has it.
    """

    def __init__(self, size: int, *, value: float | Sequence[float] = 0) -> None:
        if isinstance(size, (bool, float)):
            raise TypeError(f"size is {size!r}; it is a whole number of pixels")
        if size < 1:
            raise ValueError(f"a square of {size} holds no pixel")
        self.size = size
        self.value = numbers(value)

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """The row and the column of every centre."""
        _, height, width = shape
        where = {"generator": generator, "device": generator.device}
        return (
            torch.randint(0, height, (count,), **where),
            torch.randint(0, width, (count,), **where),
        )

    def apply(self, batch: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        rows, columns = drawn
        size = torch.full_like(rows, self.size)
        before = self.size // 2
        return erased(batch, rows - before, columns - before, size, size, self.value)


class RandomErasing(Transform):
    """A rectangle of `value`, with probability `p`: torchvision's `RandomErasing`.

    Its area is `scale` of the image's, its height over its width is in `ratio` (evenly on a log
    scale), and it lies wholly inside.
    """

    def __init__(
        self,
        p: float = 0.5,
        *,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float | Sequence[float] = 0,
    ) -> None:
        if not 0 <= scale[0] <= scale[1] <= 1:
            raise ValueError(f"scale is {scale}; it goes from one share of the image to a larger")
        if not 0 < ratio[0] <= ratio[1]:
            raise ValueError(f"ratio is {ratio}; it goes from one positive number to a larger")
        self.p = probability(p)
        self.scale = scale
        self.ratio = ratio
        self.value = numbers(value)

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """Top, left, height and width of every rectangle; of no height where nothing is erased."""
        _, height, width = shape
        where = {"generator": generator, "device": generator.device}
        area = torch.rand(count, TRIES, **where) * (self.scale[1] - self.scale[0]) + self.scale[0]
        area = area * (height * width)
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = (torch.rand(count, TRIES, **where) * (high - low) + low).exp()
        tall, wide = (area * ratio).sqrt().round().long(), (area / ratio).sqrt().round().long()
        fits = (tall < height) & (wide < width)
        first = fits.long().argmax(1, keepdim=True)
        tall, wide = tall.gather(1, first)[:, 0], wide.gather(1, first)[:, 0]
        erases = fits.any(1) & (torch.rand(count, **where) < self.p)
        free = torch.rand(2, count, **where, dtype=torch.float64)
        top, left = (free[0] * (height - tall + 1)).long(), (free[1] * (width - wide + 1)).long()
        return top, left, tall * erases, wide * erases

    def apply(self, batch: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        top, left, tall, wide = drawn
        return erased(batch, top, left, tall, wide, self.value)


def erased(
    batch: torch.Tensor,
    top: torch.Tensor,
    left: torch.Tensor,
    tall: torch.Tensor,
    wide: torch.Tensor,
    value: tuple[float, ...],
) -> torch.Tensor:
    """A copy with a rectangle of `value` in every image; it may reach over the border."""
    _, channels, height, width = checked(batch).shape
    rows = torch.arange(height, device=batch.device)
    columns = torch.arange(width, device=batch.device)
    in_rows = (rows >= top[:, None]) & (rows < (top + tall)[:, None])
    in_columns = (columns >= left[:, None]) & (columns < (left + wide)[:, None])
    inside = in_rows.byte()[:, None, :, None] * in_columns.byte()[:, None, None, :]
    value = held_by(fitting(value, channels, "value"), batch, "value")
    paint = column(value, batch.device).to(batch.dtype)
    if batch.is_floating_point():
        return torch.where(inside.bool(), paint, batch)
    kept = batch * (1 - inside)  # on the CPU ten times as fast as choosing; exact for whole numbers
    return kept if value == (0.0,) else kept.add_(inside * paint)
