"""Ways of feeding small images: stock loaders, batches by hand, and hotlap's own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

SOURCE = Path(__file__).resolve().parents[1] / "src"
if str(SOURCE) not in sys.path:
    sys.path.insert(0, str(SOURCE))

from hotlap.data.resident import DeviceDataset  # noqa: E402
from hotlap.data.transforms import Crop, Flip, Normalize  # noqa: E402

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
SIZE, PADDING = 32, 4
STOCK = "stock DataLoader, Pillow"

Batches = Iterable[tuple[Any, Any]]
Make = Callable[["Given"], Callable[[], Batches]]


class Given:
    """What every variant gets: the images, the labels, the batch size, a folder of its own."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        generator = torch.Generator().manual_seed(options.seed)
        shape = (options.samples, 3, SIZE, SIZE)
        self.images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        self.labels = torch.randint(0, 10, (options.samples,), generator=generator)
        self.batch = options.batch
        self.device = options.device
        self.folder = folder

    def folder_for(self, name: str) -> str:
        path = self.folder / name
        path.mkdir()
        return str(path)


# One image at a time -----------------------------------------------------------------------------


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Pillow images through RandomCrop, RandomHorizontalFlip, ToTensor and Normalize."""

    def __init__(self, given: Given) -> None:
        import numpy  # noqa: F401  (a worker that imports it first would be measured for that)

        self._data = given.images.permute(0, 2, 3, 1).contiguous().numpy()
        self._labels = given.labels.tolist()

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        import numpy
        from PIL import Image, ImageOps

        image = ImageOps.expand(Image.fromarray(self._data[index]), border=PADDING, fill=0)
        width, height = image.size
        top = int(torch.randint(0, height - SIZE + 1, size=(1,)).item())
        left = int(torch.randint(0, width - SIZE + 1, size=(1,)).item())
        image = image.crop((left, top, left + SIZE, top + SIZE))
        if torch.rand(1) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        tensor = torch.from_numpy(numpy.array(image, copy=True)).permute(2, 0, 1).contiguous()
        tensor = tensor.to(torch.float32).div(255)
        mean = torch.as_tensor(MEAN).view(-1, 1, 1)
        std = torch.as_tensor(STD).view(-1, 1, 1)
        return tensor.clone().sub_(mean).div_(std), self._labels[index]


class TorchvisionPictures(Pictures):
    """The same with torchvision's own transforms."""

    def __init__(self, given: Given) -> None:
        from torchvision import transforms

        super().__init__(given)
        self._transform = transforms.Compose(
            [
                transforms.RandomCrop(SIZE, padding=PADDING),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        from PIL import Image

        return self._transform(Image.fromarray(self._data[index])), self._labels[index]


def stock(workers: int, kind: type[Any] = DataLoader, pictures: type[Pictures] = Pictures) -> Make:
    def make(given: Given) -> Callable[[], Batches]:
        loader = kind(
            pictures(given),
            batch_size=given.batch,
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        return lambda: iter(loader)

    return make


# A batch at a time -------------------------------------------------------------------------------


def slices(given: Given) -> Iterator[torch.Tensor]:
    yield from torch.randperm(len(given.images), device=given.device).split(given.batch)


def by_hand(batch: torch.Tensor) -> torch.Tensor:
    """What one writes without a library: pad, index with a grid for every image, normalise."""
    count, device = len(batch), batch.device
    padded = torch.nn.functional.pad(batch, (PADDING,) * 4)
    along = torch.arange(SIZE, device=device)
    tops, lefts = torch.randint(0, 2 * PADDING + 1, (2, count, 1), device=device)
    mirrored = torch.rand(count, 1, device=device) < 0.5
    columns = lefts + torch.where(mirrored, SIZE - 1 - along, along)
    window = padded[
        torch.arange(count, device=device).view(-1, 1, 1, 1),
        torch.arange(3, device=device).view(1, -1, 1, 1),
        (tops + along).view(count, 1, SIZE, 1),
        columns.view(count, 1, 1, SIZE),
    ]
    mean, std = (torch.tensor(values, device=device).view(1, 3, 1, 1) for values in (MEAN, STD))
    return window.float().div_(255).sub_(mean).div_(std)


def batched(given: Given) -> Callable[[], Batches]:
    images, labels = given.images.to(given.device), given.labels.to(given.device)

    def batches() -> Batches:
        for picks in slices(given):
            yield by_hand(images[picks]), labels[picks]

    return batches


def whole_epoch(given: Given) -> Callable[[], Batches]:
    """The idea of airbench's loader: normalised and padded once, augmented an epoch at a time."""
    size, device = SIZE + 2 * PADDING, given.device
    zeros = torch.zeros(1, 3, size, size, dtype=torch.uint8, device=device)
    padded = zeros.repeat(len(given.images), 1, 1, 1)
    padded[:, :, PADDING:-PADDING, PADDING:-PADDING] = given.images.to(device)
    images = normalize()(padded)
    labels = given.labels.to(device)
    places = 2 * PADDING + 1

    def batches() -> Batches:
        count = len(images)
        tops, lefts = torch.randint(0, places, (2, count), device=device)
        rows = torch.empty(count, 3, SIZE, size, device=device)
        cropped = torch.empty(count, 3, SIZE, SIZE, device=device)
        for place in range(places):
            chosen = tops == place
            rows[chosen] = images[chosen, :, place : place + SIZE]
        for place in range(places):
            chosen = lefts == place
            cropped[chosen] = rows[chosen, :, :, place : place + SIZE]
        mirrored = (torch.rand(count, device=device) < 0.5).view(-1, 1, 1, 1)
        cropped = torch.where(mirrored, cropped.flip(-1), cropped)
        for picks in slices(given):
            yield cropped[picks], labels[picks]

    return batches


def resident(*more: Any, **options: Any) -> Make:
    def make(given: Given) -> Callable[[], Batches]:
        data = DeviceDataset(
            given.images,
            given.labels,
            batch_size=given.batch,
            transform=[Crop(SIZE, padding=PADDING), Flip(), *more],
            device=given.device,
            seed=0,
            **options,
        )
        return lambda: iter(data)

    return make


def normalize(**options: Any) -> Normalize:
    return Normalize(MEAN, STD, **options)


def one_thread(make: Make) -> Make:
    """Two threads of torch wait for each other; beside a busy neighbour that takes long."""

    def alone(given: Given) -> Callable[[], Batches]:
        torch.set_num_threads(1)
        return make(given)

    return alone
