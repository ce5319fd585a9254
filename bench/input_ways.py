"""The ways of feeding small images that bench/input.py measures, hotlap's own and the peers'."""

from __future__ import annotations

import argparse
import functools
import os
import random
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
PEERS = (
    "torchvision",
    "torchdata",
    "kornia",
    "spdl",
    "litdata",
    "mosaicml-streaming",
    "nvidia-dali-cuda120",
)
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


def stateful(workers: int) -> Make:
    def make(given: Given) -> Callable[[], Batches]:
        from torchdata.stateful_dataloader import StatefulDataLoader

        return stock(workers, StatefulDataLoader)(given)

    return make


@functools.cache
def constants() -> tuple[Any, Any]:
    factor = torch.tensor([1 / (255 * std) for std in STD])
    offset = torch.tensor([-mean / std for mean, std in zip(MEAN, STD, strict=True)])
    return factor.view(3, 1, 1).numpy(), offset.view(3, 1, 1).numpy()


def augmented(image: Any) -> torch.Tensor:
    """One image, channels first, in numpy: for peers that hand out single samples."""
    import numpy

    padded = numpy.zeros((3, SIZE + 2 * PADDING, SIZE + 2 * PADDING), numpy.uint8)
    padded[:, PADDING:-PADDING, PADDING:-PADDING] = image
    top, left = random.randint(0, 2 * PADDING), random.randint(0, 2 * PADDING)
    window = padded[:, top : top + SIZE, left : left + SIZE]
    if random.random() < 0.5:
        window = window[:, :, ::-1]
    factor, offset = constants()
    result = window * factor
    result += offset
    return torch.from_numpy(result)


def litdata(workers: int) -> Make:
    def make(given: Given) -> Callable[[], Batches]:
        from litdata import StreamingDataLoader, StreamingDataset
        from litdata.streaming import Cache

        class Augmented(StreamingDataset):  # type: ignore[misc]
            def __getitem__(self, index: Any) -> Any:
                image, label = super().__getitem__(index)
                return augmented(image), label

        folder = given.folder_for(f"litdata-{workers}")
        cache = Cache(folder, chunk_bytes="8MB")
        for index, (image, label) in enumerate(
            zip(given.images.numpy(), given.labels.tolist(), strict=True)
        ):
            cache[index] = (image, label)
        cache.done()
        cache.merge()
        loader = StreamingDataLoader(
            Augmented(folder, shuffle=True),
            batch_size=given.batch,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        return lambda: iter(loader)

    return make


def streaming(workers: int) -> Make:
    def make(given: Given) -> Callable[[], Batches]:
        from streaming import MDSWriter, StreamingDataset

        class Augmented(StreamingDataset):  # type: ignore[misc]
            def __getitem__(self, index: Any) -> Any:
                sample = super().__getitem__(index)
                return augmented(sample["image"]), sample["label"]

        folder = given.folder_for(f"streaming-{workers}")
        columns = {"image": f"ndarray:uint8:3,{SIZE},{SIZE}", "label": "int"}
        with MDSWriter(out=folder, columns=columns) as writer:
            for image, label in zip(given.images.numpy(), given.labels.tolist(), strict=True):
                writer.write({"image": image, "label": label})
        loader = DataLoader(
            Augmented(local=folder, shuffle=True, batch_size=given.batch),
            batch_size=given.batch,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        return lambda: iter(loader)

    return make


# A batch at a time -------------------------------------------------------------------------------


def slices(given: Given) -> Iterator[torch.Tensor]:
    yield from torch.randperm(len(given.images), device=given.device).split(given.batch)


def kornia(given: Given) -> Callable[[], Batches]:
    from kornia import augmentation

    chain = augmentation.AugmentationSequential(
        augmentation.RandomCrop((SIZE, SIZE), padding=PADDING),
        augmentation.RandomHorizontalFlip(p=0.5),
        augmentation.Normalize(torch.tensor(MEAN), torch.tensor(STD)),
    ).to(given.device)
    images, labels = given.images.to(given.device), given.labels.to(given.device)

    def batches() -> Batches:
        for picks in slices(given):
            yield chain(images[picks].float().div_(255)), labels[picks]

    return batches


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


def spdl(threads: int) -> Make:
    def make(given: Given) -> Callable[[], Batches]:
        from spdl.pipeline import PipelineBuilder

        def batch(picks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return by_hand(given.images[picks]), given.labels[picks]

        def batches() -> Batches:
            pipeline = (
                PipelineBuilder()
                .add_source(slices(given))
                .pipe(batch, concurrency=threads)
                .add_sink(4)
                .build(num_threads=threads)
            )
            with pipeline.auto_stop():
                yield from pipeline.get_iterator(timeout=60)

        return batches

    return make


def dali(given: Given) -> Callable[[], Batches]:
    """On the CPU, from arrays that are padded already: the part it has a fused operator for."""
    from nvidia.dali import fn, pipeline_def, types

    padded = torch.nn.functional.pad(given.images, (PADDING,) * 4).permute(0, 2, 3, 1)
    data, labels = padded.contiguous().numpy(), given.labels.numpy()
    count = len(labels) // given.batch * given.batch

    def source() -> Iterator[Any]:
        for picks in torch.randperm(len(labels))[:count].split(given.batch):
            yield data[picks.numpy()], labels[picks.numpy()]

    @pipeline_def(  # type: ignore[untyped-decorator]
        batch_size=given.batch, num_threads=len(os.sched_getaffinity(0)), device_id=None
    )
    def pipeline() -> Any:
        images, targets = fn.external_source(
            source, num_outputs=2, batch=True, cycle="quiet", layout=["HWC", ""]
        )
        images = fn.crop_mirror_normalize(
            images,
            crop=(SIZE, SIZE),
            crop_pos_x=fn.random.uniform(range=(0.0, 1.0)),
            crop_pos_y=fn.random.uniform(range=(0.0, 1.0)),
            mirror=fn.random.coin_flip(),
            mean=[255 * value for value in MEAN],
            std=[255 * value for value in STD],
            dtype=types.FLOAT,
            output_layout="CHW",
        )
        return images, targets

    built = pipeline()
    built.build()

    def batches() -> Batches:
        for _ in range(count // given.batch):
            images, targets = built.run()
            yield (
                torch.from_numpy(images.as_array()),
                torch.from_numpy(targets.as_array()),
            )

    return batches


def whole_epoch(given: Given) -> Callable[[], Batches]:
    """The idea of airbench's loader: normalised and padded once, augmented an epoch at a time."""
    size, device = SIZE + 2 * PADDING, given.device
    zeros = torch.zeros(1, 3, size, size, dtype=torch.uint8, device=device)
    padded = zeros.repeat(len(given.images), 1, 1, 1)
    padded[:, :, PADDING:-PADDING, PADDING:-PADDING] = given.images.to(device)
    images = Normalize(MEAN, STD)(padded)
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


def one_thread(make: Make) -> Make:
    """Two threads of torch wait for each other; beside a busy neighbour that takes long."""

    def alone(given: Given) -> Callable[[], Batches]:
        torch.set_num_threads(1)
        return make(given)

    return alone


def variants(device: str) -> dict[str, Make]:
    last = {"memory_format": torch.channels_last}
    own: dict[str, Make] = {
        "DeviceDataset, uint8": resident(),
        "DeviceDataset, float32": resident(Normalize(MEAN, STD)),
        "DeviceDataset, uint8, 1 thread": one_thread(resident()),
        "DeviceDataset, float32, 1 thread": one_thread(resident(Normalize(MEAN, STD))),
        "DeviceDataset, uint8, channels last": resident(**last),
        "DeviceDataset, float32, channels last": resident(Normalize(MEAN, STD), **last),
    }
    if device == "cuda":
        own = {name: make for name, make in own.items() if "thread" not in name}
        half = Normalize(MEAN, STD, dtype=torch.bfloat16)
        return {
            "a whole epoch at once (airbench's idea)": whole_epoch,
            "kornia, batched": kornia,
            "batched torch by hand": batched,
            **own,
            "DeviceDataset, bfloat16, channels last": resident(half, **last),
        }
    return {
        f"{STOCK}, 0 workers": stock(0),
        f"{STOCK}, 2 workers": stock(2),
        "stock DataLoader, torchvision, 0 workers": stock(0, pictures=TorchvisionPictures),
        "stock DataLoader, torchvision, 2 workers": stock(2, pictures=TorchvisionPictures),
        "torchdata StatefulDataLoader, Pillow, 2 workers": stateful(2),
        "litdata, 0 workers": litdata(0),
        "litdata, 2 workers": litdata(2),
        "mosaicml-streaming, 2 workers": streaming(2),
        "a whole epoch at once (airbench's idea)": whole_epoch,
        "kornia, batched": kornia,
        "batched torch by hand": batched,
        "SPDL, batched torch by hand, 2 threads": spdl(2),
        "DALI on the CPU": dali,
        **own,
    }
