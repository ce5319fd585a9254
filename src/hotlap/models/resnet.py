"""Residual networks (He et al., arXiv 1512.03385) of 10, 18, 34 and 50 layers.

The stem is the paper's for photographs, or a single convolution for images of 32x32. With
`norm="none"` there is no BatchNorm: convolutions have biases, and every residual branch ends in a
factor that starts at zero (De and Smith, arXiv 2002.10444), so that a new network is its shortcuts
alone, and deep ones still train.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import nn

DEPTHS: dict[int, tuple[str, tuple[int, int, int, int]]] = {
    10: ("basic", (1, 1, 1, 1)),
    18: ("basic", (2, 2, 2, 2)),
    34: ("basic", (3, 4, 6, 3)),
    50: ("bottleneck", (3, 4, 6, 3)),
}
WIDTHS = (64, 128, 256, 512)
EXPANSION = {"basic": 1, "bottleneck": 4}
NORMS = ("batch", "none")
STEMS = ("cifar", "imagenet")


class Factor(nn.Module):  # type: ignore[misc]
    """One number to multiply with, zero at first."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.value


class Block(nn.Module):  # type: ignore[misc]
    """A residual branch and a shortcut: two 3x3 convolutions, or 1x1, 3x3, 1x1."""

    def __init__(self, kind: str, given: int, width: int, stride: int, norm: str) -> None:
        super().__init__()
        made = width * EXPANSION[kind]
        if kind == "basic":
            layers = [
                *conv(given, width, 3, stride, norm=norm),
                nn.ReLU(inplace=True),
                *conv(width, made, 3, 1, norm=norm),
            ]
        else:
            layers = [
                *conv(given, width, 1, 1, norm=norm),
                nn.ReLU(inplace=True),
                *conv(width, width, 3, stride, norm=norm),
                nn.ReLU(inplace=True),
                *conv(width, made, 1, 1, norm=norm),
            ]
        if norm == "none":
            layers.append(Factor())
        self.branch = nn.Sequential(*layers)
        same = stride == 1 and given == made
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(*conv(given, made, 1, stride, norm=norm))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.branch(x) + self.shortcut(x))


class ResNet(nn.Module):  # type: ignore[misc]
    """`ResNet(18)` for CIFAR; `ResNet(50, stem="imagenet", classes=1000)` for photographs."""

    def __init__(
        self,
        depth: int = 18,
        *,
        classes: int = 10,
        stem: str = "cifar",
        widths: Sequence[int] = WIDTHS,
        norm: str = "batch",
        channels: int = 3,
    ) -> None:
        super().__init__()
        kind, counts = DEPTHS[chosen("depth", depth, DEPTHS)]
        if norm not in NORMS:
            raise ValueError(f"norm is {norm!r}; it can be {' or '.join(NORMS)}")
        if stem not in STEMS:
            raise ValueError(f"stem is {stem!r}; it can be {' or '.join(STEMS)}")
        classes, channels = whole(classes=classes, channels=channels)
        widths = _widths(widths)
        first = [*conv(channels, widths[0], *((3, 1) if stem == "cifar" else (7, 2)), norm=norm)]
        first.append(nn.ReLU(inplace=True))
        if stem == "imagenet":
            first.append(nn.MaxPool2d(3, 2, 1))
        self.stem = nn.Sequential(*first)
        stages, given = [], widths[0]
        for number, (width, count) in enumerate(zip(widths, counts, strict=True)):
            for block in range(count):
                stride = 2 if number and not block else 1
                stages.append(Block(kind, given, width, stride, norm))
                given = width * EXPANSION[kind]
        self.stages = nn.Sequential(*stages)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, classes))
        initialise(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.stages(self.stem(x)))
        return y


def chosen(name: str, value: Any, known: Collection[int]) -> int:
    """One of the numbers that are known."""
    number = _number(value)
    if number is None or number not in known:
        raise ValueError(f"{name} is {value!r}; it can be {', '.join(map(str, known))}")
    return number


def whole(**numbers: Any) -> list[int]:
    """What counts something counts one or more of it."""
    found = []
    for name, value in numbers.items():
        number = _number(value)
        if number is None or number < 1:
            raise ValueError(f"{name} is {value!r}; it must be a whole number from 1 on")
        found.append(number)
    return found


def _number(value: Any) -> int | None:
    """A whole number of any kind, numpy's among them; True and False count nothing."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _widths(widths: Any) -> tuple[int, ...]:
    try:
        each = tuple(widths)
    except TypeError:
        each = ()
    if len(each) != len(WIDTHS):
        raise ValueError(f"widths are {widths!r}; there are four stages, like {WIDTHS}")
    return tuple(number for width in each for number in whole(width=width))


def conv(given: int, made: int, size: int, stride: int, *, norm: str) -> list[nn.Module]:
    """A convolution that keeps the size but for its stride, and its normalisation."""
    layer = nn.Conv2d(given, made, size, stride, size // 2, bias=norm == "none")
    return [layer, nn.BatchNorm2d(made)] if norm == "batch" else [layer]


def initialise(model: nn.Module) -> None:
    """He initialisation (arXiv 1502.01852) for what stands before a ReLU."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
