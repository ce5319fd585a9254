"""Brightness, contrast, saturation and hue, each image with factors and an order of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hotlap.data.transforms import windows
from hotlap.data.transforms.transform import Drawn, Shape, Transform, checked, column
from hotlap.data.transforms.values import JUST_UNDER, LARGEST, exact

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
GREY = (0.2989, 0.587, 0.114)  # how bright red, green and blue are: torchvision's numbers


class ColorJitter(Transform):
    """torchvision's `ColorJitter` of tensors.

    Brightness, contrast and saturation are factors from [max(0, 1 - given), 1 + given], the hue
    moves by [-hue, hue] of the colour circle; a pair says the range itself. torchvision draws for
    each image the factors and one order of the four: so does this. uint8 images are cut down to
    whole numbers after each of the four, as there.
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
    ) -> None:
        self.brightness = around(1, brightness, "brightness", least=0)
        self.contrast = around(1, contrast, "contrast", least=0)
        self.saturation = around(1, saturation, "saturation", least=0)
        self.hue = around(0, hue, "hue", least=-0.5)
        if self.hue[0] < -0.5 or self.hue[1] > 0.5:
            raise ValueError(f"hue is {hue!r}; it moves by half the colour circle at most")

    def draw(self, count: int, shape: Shape, generator: torch.Generator) -> Drawn:
        """The four numbers of each image, and the order in which they are used."""
        where = {"generator": generator, "device": generator.device}
        ranges = (self.brightness, self.contrast, self.saturation, self.hue)
        drawn = [torch.rand(count, **where) * (high - low) + low for low, high in ranges]
        order = torch.rand(count, len(ranges), **where, dtype=torch.float64).argsort(1)
        return torch.stack(drawn, 1), order

    def apply(self, batch: torch.Tensor, drawn: Drawn) -> torch.Tensor:
        factors, order = drawn
        channels = checked(batch).shape[1]
        if channels not in (1, 3):
            raise ValueError(f"colours are those of 1 or 3 channels, not of {channels}")
        whole = not batch.is_floating_point()
        picture = batch.to(exact(batch.dtype))
        if channels == 1 or self.hue == (0, 0):
            for step in range(4):
                picture = blended(picture, factors, order[:, step], whole=whole)
            return picture.to(batch.dtype)
        # Images come to their hue at different steps. What precedes it is done for all of them,
        # then the hue of all at once, then what follows: hue is the expensive one.
        turn = order.argsort(1)[:, HUE]
        for step in range(3):
            now = torch.where(turn > step, order[:, step], HUE)
            picture = blended(picture, factors, now, whole=whole)
        picture = turned(picture, factors[:, HUE], whole=whole)
        for step in range(1, 4):
            now = torch.where(turn < step, order[:, step], HUE)
            picture = blended(picture, factors, now, whole=whole)
        return picture.to(batch.dtype)


def blended(
    picture: torch.Tensor, factors: torch.Tensor, what: torch.Tensor, *, whole: bool
) -> torch.Tensor:
    """Brightness, contrast or saturation, whichever it is for each image; none where it is hue.

    All three mix the image with something: with black, with its mean grey, with itself in grey.
    """
    factor = torch.where(what == HUE, 1, factors.gather(1, what[:, None])[:, 0])
    if picture.shape[1] == 1:  # no colours, nothing to saturate
        factor, grey = torch.where(what == SATURATION, 1, factor), picture
    else:
        grey = (picture * column(GREY, picture.device)).sum(1, keepdim=True)
        grey = grey.floor_() if whole else grey
    mean = grey.mean((2, 3), keepdim=True)
    what, factor = what.view(-1, 1, 1, 1), factor.view(-1, 1, 1, 1)
    other = torch.where(what == SATURATION, grey, mean * (what == CONTRAST))
    mixed = (factor * picture + (1 - factor) * other).clamp_(0, LARGEST if whole else 1)
    return mixed.floor_() if whole else mixed


def turned(picture: torch.Tensor, shift: torch.Tensor, *, whole: bool) -> torch.Tensor:
    """The hue moved by `shift` of the colour circle, by way of HSV."""
    picture = picture / LARGEST if whole else picture
    red, green, blue = picture.unbind(1)
    value, low = picture.amax(1), picture.amin(1)
    spread = value - low
    divisor = torch.where(spread == 0, 1, spread)
    sixths = torch.where(
        value == red,
        (green - blue) / divisor,
        torch.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    sixths = sixths + shift.view(-1, 1, 1) * 6
    parts = []
    for corner in (5, 3, 1):  # where on the circle red, green and blue are at their lowest
        way = torch.remainder(sixths + corner, 6)
        parts.append(value - spread * torch.minimum(way, 4 - way).clamp_(0, 1))
    picture = torch.stack(parts, 1).contiguous(memory_format=windows.memory_format(picture))
    return picture.mul_(JUST_UNDER).floor_() if whole else picture


def around(
    centre: float, given: float | Sequence[float], name: str, *, least: float
) -> tuple[float, float]:
    if isinstance(given, (int, float)):
        if given < 0:
            raise ValueError(f"{name} is {given}; it must not be negative")
        return max(least, centre - given), centre + given
    low, high = given
    if not least <= low <= high:
        raise ValueError(f"{name} is {given!r}; it goes from {least} or more to something larger")
    return low, high
