"""Reversible residual networks (Gomez et al., arXiv 1707.04585) for CIFAR: 38, 110 and 164 layers.

Three stages of reversible units; a unit's F and G are pre-activation residual functions on half of
the channels. The first unit of the second and the third stage halves the image and widens it: it
cannot be undone, so its activations are kept, as in the paper. Everything else keeps none, however
deep it is. `reversible=False` is the same network keeping all of them.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from hotlap.models.resnet import chosen, initialise, whole
from hotlap.models.reversible import ReversibleBlock, ReversibleSequential, halves

DEPTHS: dict[int, tuple[str, int, tuple[int, int, int, int]]] = {
    38: ("basic", 3, (32, 32, 64, 112)),
    110: ("basic", 9, (32, 32, 64, 128)),
    164: ("bottleneck", 9, (32, 128, 256, 512)),
}
NARROWER = 4  # a bottleneck's inner convolution


class RevNet(nn.Module):  # type: ignore[misc]
    """`RevNet(38)`; or `RevNet(units=18)` for another number of units in each stage."""

    def __init__(
        self,
        depth: int = 38,
        *,
        units: int | None = None,
        classes: int = 10,
        channels: int = 3,
        reversible: bool = True,
    ) -> None:
        super().__init__()
        kind, usual, widths = DEPTHS[chosen("depth", depth, DEPTHS)]
        wanted = usual if units is None else units
        count, classes, channels = whole(units=wanted, classes=classes, channels=channels)
        self.stem = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        stages: list[nn.Module] = []
        given = widths[0]
        for number, width in enumerate(widths[1:]):
            rest = count
            if number or given != width:
                stages.append(Change(kind, given, width, 2 if number else 1))
                rest -= 1
            blocks = [unit(kind, width) for _ in range(rest)]
            stages.append(ReversibleSequential(*blocks) if reversible else nn.Sequential(*blocks))
            given = width
        self.stages = nn.Sequential(*stages)
        self.head = nn.Sequential(
            nn.BatchNorm2d(given),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(given, classes),
        )
        initialise(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.stages(self.stem(x)))
        return y


class Change(nn.Module):  # type: ignore[misc]
    """A unit to another size: both halves are made smaller and wider, and activations are kept."""

    def __init__(self, kind: str, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.f = residual(kind, given // 2, made // 2, stride)
        self.g = residual(kind, made // 2, made // 2)
        self.shortcuts = nn.ModuleList(
            Padded(given // 2, made // 2, stride)
            if kind == "basic"
            else nn.Conv2d(given // 2, made // 2, 1, stride, bias=False)
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = halves(x)
        first = self.shortcuts[0](first) + self.f(second)
        second = self.shortcuts[1](second) + self.g(first)
        return torch.cat((first, second), 1)


class Padded(nn.Module):  # type: ignore[misc]
    """A shortcut without parameters: averages of neighbours, and channels of zeros."""

    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self._stride = stride
        self._zeros = (made - given) // 2, made - given - (made - given) // 2

    def forward(self, half: torch.Tensor) -> torch.Tensor:
        if self._stride > 1:
            odd = any(side % self._stride for side in half.shape[2:])  # torch.compile: not always
            half = functional.avg_pool2d(half, self._stride, ceil_mode=odd)
        return functional.pad(half, (0, 0, 0, 0, *self._zeros))


def unit(kind: str, width: int) -> ReversibleBlock:
    half = width // 2
    return ReversibleBlock(residual(kind, half, half), residual(kind, half, half))


def residual(kind: str, given: int, made: int, stride: int = 1) -> nn.Sequential:
    """BatchNorm, ReLU, convolution; twice, or three times with a narrow middle."""
    if kind == "basic":
        shapes = [(given, made, 3, stride), (made, made, 3, 1)]
    else:
        inner = made // NARROWER
        shapes = [(given, inner, 1, 1), (inner, inner, 3, stride), (inner, made, 1, 1)]
    layers: list[nn.Module] = []
    for source, target, size, step in shapes:
        layers += [
            nn.BatchNorm2d(source),
            nn.ReLU(inplace=True),
            nn.Conv2d(source, target, size, step, size // 2, bias=False),
        ]
    return nn.Sequential(*layers)
