"""Transforms that move pixels: crop, flip, resize."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from hotlap.data.transforms import windows
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

CONSTANT, REFLECT = "constant", "reflect"


class Crop(Transform):
    """Pads, then cuts a window of `size` out of every image, at a place of its own.

    The same as torchvision's `RandomCrop(size, padding=...)`: every place is equally likely.
    `padding` is one number, (sides, top and bottom) or (left, top, right, bottom). `fill` is what
    constant padding consists of, in the units of the batch: one number, or one a channel.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        *,
        padding: int | Sequence[int] = 0,
        fill: float | Sequence[float] = 0,
        mode: str = CONSTANT,
    ) -> None:
        if mode not in (CONSTANT, REFLECT):
            raise ValueError(f"mode is {mode!r}; it can be {CONSTANT!r} or {REFLECT!r}")
        self.size = pair(size)
        self.padding = sides(padding)
        self.fill = numbers(fill)
        self.mode = mode

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """The top and the left edge of every window, in the padded image."""
        _, height, width = shape
        left, top, right, bottom = self.padding
        down = height + top + bottom - self.size[0]
        across = width + left + right - self.size[1]
        if down < 0 or across < 0:
            raise ValueError(
                f"a crop of {self.size} does not fit into images of {(height, width)} with a "
                f"padding of {self.padding}"
            )
        where = {"generator": generator, "device": generator.device}
        return (
            torch.randint(0, down + 1, (count,), **where),
            torch.randint(0, across + 1, (count,), **where),
        )

    def apply(self, batch: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        every = torch.arange(len(batch), device=batch.device)
        return windows.cut(self.pad(batch), every, *drawn, size=self.size)

    def pad(self, batch: torch.Tensor) -> torch.Tensor:
        """The batch with its padding around it; without any, the batch itself."""
        if not any(self.padding):
            return batch
        if self.mode == REFLECT:
            return reflected(batch, self.padding)
        fill = held_by(self.fill, batch, "fill")
        left, top, right, bottom = self.padding
        count, channels, height, width = checked(batch).shape
        padded = torch.empty(
            (count, channels, height + top + bottom, width + left + right),
            dtype=batch.dtype,
            device=batch.device,
            memory_format=windows.memory_format(batch),
        )
        padded.copy_(column(fitting(fill, channels, "fill"), batch.device))
        padded[:, :, top : top + height, left : left + width] = batch
        return padded

    def shape(self, shape: Shape) -> Shape:
        return shape[0], *self.size


class Flip(Transform):
    """Mirrors every image, left to right, with probability `p`: `RandomHorizontalFlip(p)`."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = probability(p)

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """Whether each image is mirrored."""
        return (torch.rand(count, generator=generator, device=generator.device) < self.p,)

    def apply(self, batch: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        (mirrored,) = drawn
        if batch.device.type != "cpu":
            return torch.where(mirrored.view(-1, 1, 1, 1), batch.flip(-1), batch)
        # On the CPU copying whole images is ten times as fast as choosing pixel by pixel.
        rows, axis, back = windows.in_memory_order(batch)
        both = torch.cat([rows, rows.flip(axis)])
        which = torch.arange(len(batch)) + mirrored * len(batch)
        return both.index_select(0, which).permute(back)


class Resize(Transform):
    """Bilinear, with antialiasing, as torchvision's `Resize` of tensors.

    One number is the length of the shorter edge, and the aspect ratio stays; a pair is the height
    and the width. uint8 images are resized as floats and rounded, half precision as float32.
    """

    def __init__(self, size: int | Sequence[int], *, antialias: bool = True) -> None:
        self.size = pair(size)[0] if isinstance(size, int) else pair(size)
        self.antialias = antialias

    def apply(self, batch: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        _, height, width = self.shape((batch.shape[1], batch.shape[2], batch.shape[3]))
        exact = batch.to(torch.promote_types(batch.dtype, torch.float32))
        resized = functional.interpolate(
            exact, (height, width), mode="bilinear", align_corners=False, antialias=self.antialias
        )
        return (resized if batch.is_floating_point() else resized.round_()).to(batch.dtype)

    def shape(self, shape: Shape) -> Shape:
        channels, height, width = shape
        if not isinstance(self.size, int):
            return channels, *self.size
        if height <= width:
            return channels, self.size, int(self.size * width / height)
        return channels, int(self.size * height / width), self.size


def reflected(batch: torch.Tensor, padding: tuple[int, int, int, int]) -> torch.Tensor:
    """Padded with its own mirror image, the edge itself not repeated. Also for uint8."""
    left, top, right, bottom = padding
    layout = windows.memory_format(batch)
    for axis, (before, after) in ((2, (top, bottom)), (3, (left, right))):
        length = batch.shape[axis]
        if max(before, after) >= length:
            raise ValueError(f"{length} pixels cannot be reflected over {max(before, after)}")
        places = torch.arange(-before, length + after, device=batch.device).abs()
        places = length - 1 - (length - 1 - places).abs()
        batch = batch.index_select(axis, places)
    return batch.contiguous(memory_format=layout)


def pair(size: int | Sequence[int]) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, (int, float)) else size
    if any(isinstance(one, (bool, float)) for one in (height, width)):
        raise TypeError(f"size is {size!r}; it is a whole number of pixels, or two")
    if height < 1 or width < 1:
        raise ValueError(f"a size of {size} holds no pixel")
    return height, width


def sides(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Left, top, right, bottom."""
    each = [padding] * 4 if isinstance(padding, int) else list(padding)
    if len(each) == 2:
        each = each * 2
    if len(each) != 4 or min(each) < 0:
        raise ValueError(
            f"padding is {padding!r}; say one number, (sides, top and bottom) or "
            "(left, top, right, bottom), none of them negative"
        )
    return each[0], each[1], each[2], each[3]
