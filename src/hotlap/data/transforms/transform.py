"""What a transform is: it draws numbers for every image, then changes the batch by them.

Drawing and changing are two steps, so that the numbers of a whole epoch can be drawn at once, on
any device, and a run can be resumed in its middle with the same ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

Shape = tuple[int, int, int]  # channels, height, width
Drawn = tuple[Any, ...]  # tensors with a row for every image; a Compose has one tuple for each part


class Transform:
    """Changes batches of images: count x channels x height x width, of uint8 or of floats.

    One of your own overrides `apply`, `draw` if it is random, and `shape` if images change size.
    """

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """The random numbers for `count` images, on the generator's device."""
        return ()

    def apply(self, batch: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        """The changed batch; `batch` itself stays as it is."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it changes a batch")

    def shape(self, shape: Shape) -> Shape:
        """What images of this shape become."""
        return shape

    def __call__(
        self, batch: torch.Tensor, *, generator: torch.Generator | None = None
    ) -> torch.Tensor:
        count, *shape = checked(batch).shape
        if generator is None:
            generator = own_generator(batch.device)
        drawn = self.draw(count, (shape[0], shape[1], shape[2]), generator)
        return self.apply(batch, for_each(drawn, lambda row: row.to(batch.device)))

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({options})"


class Compose(Transform):
    """Several transforms, one after the other."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms: tuple[Transform, ...] = ()
        for each in transforms:
            if isinstance(each, Compose):
                self.transforms += each.transforms
            elif isinstance(each, Transform):
                self.transforms += (each,)
            else:
                raise TypeError(
                    f"{each!r} is not a hotlap.data.transforms.Transform. Make it one (a class "
                    "with `apply`), or call it on the batches that come out."
                )

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> Drawn:
        drawn: Drawn = ()
        for each in self.transforms:
            drawn += (each.draw(count, shape, generator),)
            shape = each.shape(shape)
        return drawn

    def apply(self, batch: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        for each, part in zip(self.transforms, drawn, strict=True):
            batch = each.apply(batch, part)
        return batch

    def shape(self, shape: Shape) -> Shape:
        for each in self.transforms:
            shape = each.shape(shape)
        return shape


def for_each(drawn: Drawn, change: Callable[[torch.Tensor], torch.Tensor]) -> Drawn:
    return tuple(
        for_each(part, change) if isinstance(part, tuple) else change(part) for part in drawn
    )


def checked(batch: torch.Tensor) -> torch.Tensor:
    """The batch, if it is one."""
    if batch.dim() != 4 or not (batch.dtype == torch.uint8 or batch.is_floating_point()):
        raise ValueError(
            "transforms take uint8 or float batches of the shape count x channels x height x "
            f"width; this is {batch.dtype} of shape {tuple(batch.shape)}"
        )
    return batch


def own_generator(device: torch.device) -> torch.Generator:
    """The one that `torch.manual_seed` seeds. Where a device has none, the CPU's."""
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator


@functools.lru_cache(maxsize=64)
def column(values: tuple[float, ...], device: torch.device) -> torch.Tensor:
    """One value a channel, ready for a batch. Kept, because copying to a device waits for it."""
    return torch.tensor(values, dtype=torch.float32, device=device).view(1, -1, 1, 1)


def numbers(values: float | Sequence[float]) -> tuple[float, ...]:
    """As many as there are channels, or a single one for all of them."""
    if isinstance(values, (int, float)):
        return (float(values),)
    return tuple(float(value) for value in values)


def fitting(values: tuple[float, ...], channels: int, name: str) -> tuple[float, ...]:
    if len(values) not in (1, channels):
        raise ValueError(f"{name} has {len(values)} values, the images have {channels} channels")
    return values


def probability(p: Any) -> float:
    if isinstance(p, str) or not 0 <= p <= 1:
        raise ValueError(f"p is {p!r}; a probability lies between 0 and 1")
    return float(p)


def held_by(values: tuple[float, ...], batch: torch.Tensor, name: str) -> tuple[float, ...]:
    """The values, if the batch's type can hold them: in uint8, 300 would become 44."""
    if batch.dtype == torch.uint8 and not all(0 <= one <= 255 for one in values):
        raise ValueError(f"{name} is {values}; uint8 images hold 0 to 255")
    return values
