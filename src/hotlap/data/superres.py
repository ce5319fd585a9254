"""Pairs for super-resolution: a piece of an image, and the same piece with fewer pixels.

Which piece is taken follows from the seed, the index and the epoch alone: workers, their number and
the order of reading change nothing, and a run can be repeated.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import interpolate

from hotlap.data import draws
from hotlap.data.decoding import ImageError

SCALES = (2, 3, 4, 8)
WAYS = ("bicubic", "area")


class TooSmall(ImageError, ValueError):
    """An image that the piece does not fit into."""


class Pairs:
    """`(small, large)` of each image: (C, crop / scale, crop / scale) and (C, crop, crop).

    `images` is a uint8 tensor (N, C, H, W) or any data set of such images, with or without labels;
    their sizes may differ. Without `crop`, as for testing, all of the image is taken but for the
    rows and columns that `scale` does not divide. `dtype` is torch.uint8 or torch.float32, which
    is 0 to 1. Call `set_epoch` before each epoch, else each has the same pieces.
    """

    def __init__(
        self,
        images: Any,
        *,
        scale: int = 2,
        crop: int | None = None,
        seed: int = 0,
        downscale: str = "bicubic",
        dtype: Any = torch.float32,
    ) -> None:
        if scale not in SCALES:
            raise ValueError(f"scale is {scale!r}; it can be {', '.join(map(str, SCALES))}")
        if crop is not None and (crop < scale or crop % scale):
            raise ValueError(f"crop is {crop}; it must be a multiple of the scale, {scale}")
        if downscale not in WAYS:
            raise ValueError(f"downscale is {downscale!r}; it can be {' or '.join(WAYS)}")
        if dtype not in (torch.uint8, torch.float32):
            raise ValueError(f"dtype is {dtype}; it can be torch.uint8 or torch.float32")
        self.images = images
        self.scale, self.crop, self.seed = scale, crop, seed
        self.downscale, self.dtype = downscale, dtype
        # Shared, so that workers that live on from epoch to epoch see it change.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.images)

    def set_epoch(self, epoch: int) -> None:
        self._epoch[0] = epoch

    @property
    def epoch(self) -> int:
        return int(self._epoch[0])

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        held = self.images[at]
        image = held[0] if isinstance(held, (tuple, list)) else held
        if image.dtype != torch.uint8 or image.dim() != 3:
            raise TypeError(
                f"image {at} is {image.dtype} {tuple(image.shape)}; pairs need uint8 (C, H, W)"
            )
        large = self._piece(image, at)
        small = smaller(large, self.scale, how=self.downscale)
        if self.dtype == torch.uint8:
            return small, large.clone()
        return small.float() / 255, large.float() / 255

    def _piece(self, image: Any, index: int) -> Any:
        height, width = image.shape[-2:]
        if self.crop is None:
            return image[:, : height - height % self.scale, : width - width % self.scale]
        if min(height, width) < self.crop:
            raise TooSmall(
                f"image {index} is {height} x {width}: no piece of {self.crop} x {self.crop}"
                " fits into it. Take a smaller crop, or larger images."
            )
        drawn = draws.word(self.seed, self.epoch, index)
        top = draws.below(height - self.crop + 1, draws.word(drawn, 0))
        left = draws.below(width - self.crop + 1, draws.word(drawn, 1))
        return image[:, top : top + self.crop, left : left + self.crop]


def smaller(image: Any, scale: int, *, how: str = "bicubic") -> Any:
    """A uint8 image with `scale` times fewer rows and columns, rounded to uint8.

    Rounded also where floats are asked for: what is learned from must be what a file can hold.
    """
    size = (image.shape[-2] // scale, image.shape[-1] // scale)
    exact = image[None].float()
    if how == "area":
        less = interpolate(exact, size, mode="area")
    else:  # without antialias, bicubic looks at 4 x 4 pixels only, whatever the scale
        less = interpolate(exact, size, mode="bicubic", antialias=True, align_corners=False)
    return less[0].round().clamp(0, 255).to(torch.uint8)
