"""Labelled images in memory, handed out one at a time through a transform.

What its samples are made of is known, so that the optimizations device-input and uint8-transfer
can make whole batches of them, or send them as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils.data import Dataset

from hotlap.data.transforms import Compose, Transform


class Labelled(Dataset):  # type: ignore[misc]
    """`images` (count x channels x height x width, uint8), `labels`, and what to do with an image.

    `transform` is one of `hotlap.data.transforms` or several; its random numbers come from the
    generator that `torch.manual_seed` seeds, or a loader worker's own.
    """

    def __init__(
        self,
        images: torch.Tensor,
        labels: torch.Tensor,
        transform: Transform | Sequence[Transform] = (),
    ) -> None:
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images, but {len(labels)} labels")
        self.images, self.labels = images, labels
        self.transform = Compose([transform] if isinstance(transform, Transform) else transform)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = self.images[index]
        return self.transform(image.unsqueeze(0))[0], int(self.labels[index])
