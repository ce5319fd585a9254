"""SRResNet (Ledig et al., arXiv 1609.04802): an image at twice or four times its size."""

from __future__ import annotations

import torch
from torch import nn

from hotlap.models.resnet import chosen, whole

SCALES = {2: 1, 4: 2}  # how often the image is doubled


class SRResNet(nn.Module):  # type: ignore[misc]
    def __init__(
        self, scale: int = 4, *, blocks: int = 16, width: int = 64, channels: int = 3
    ) -> None:
        super().__init__()
        doublings = SCALES[chosen("scale", scale, SCALES)]
        blocks, width, channels = whole(blocks=blocks, width=width, channels=channels)
        self.first = nn.Sequential(nn.Conv2d(channels, width, 9, padding=4), nn.PReLU())
        self.blocks = nn.Sequential(
            *(Residual(width) for _ in range(blocks)),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.larger = nn.Sequential(*(part for _ in range(doublings) for part in doubling(width)))
        self.last = nn.Conv2d(width, channels, 9, padding=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.first(x)
        y: torch.Tensor = self.last(self.larger(features + self.blocks(features)))
        return y


class Residual(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.PReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x + self.branch(x)
        return y


def doubling(width: int) -> list[nn.Module]:
    """Four times the channels, then as many pixels of them."""
    return [nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU()]
