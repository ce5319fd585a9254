"""Other people's loaders feeding small images; and the list of all that bench/input.py measures."""

from __future__ import annotations

import functools
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from input_ways import (
    MEAN,
    PADDING,
    SIZE,
    STD,
    STOCK,
    Batches,
    Given,
    Make,
    TorchvisionPictures,
    batched,
    by_hand,
    normalize,
    one_thread,
    resident,
    slices,
    stock,
    whole_epoch,
)

PEERS = (
    "torchvision",
    "torchdata",
    "kornia",
    "spdl",
    "litdata",
    "mosaicml-streaming",
    "nvidia-dali-cuda120",
    "ffcv",
)

# One image at a time -----------------------------------------------------------------------------


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


def ffcv(threads: int) -> Make:
    """From its own file in memory; it normalises by table, in the code it compiles."""

    def make(given: Given) -> Callable[[], Batches]:
        import numpy
        from ffcv import transforms
        from ffcv.fields import IntField, RGBImageField
        from ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder
        from ffcv.loader import Loader, OrderOption
        from ffcv.writer import DatasetWriter

        class Rows(Dataset[tuple[Any, int]]):
            pixels, labels = given.images.permute(0, 2, 3, 1).contiguous().numpy(), given.labels

            def __len__(self) -> int:
                return len(self.labels)

            def __getitem__(self, index: int) -> tuple[Any, int]:
                return self.pixels[index], int(self.labels[index])

        path = f"{given.folder_for(f'ffcv-{threads}')}/images.beton"
        fields = {"image": RGBImageField(write_mode="raw"), "label": IntField()}
        DatasetWriter(path, fields, num_workers=1).from_indexed_dataset(Rows())
        mean, std = (numpy.array(values) * 255 for values in (MEAN, STD))
        image = [
            SimpleRGBImageDecoder(),
            transforms.RandomHorizontalFlip(),
            transforms.RandomTranslate(padding=PADDING, fill=(0, 0, 0)),
            transforms.NormalizeImage(mean, std, numpy.float32),
            transforms.ToTensor(),
            transforms.ToTorchImage(),
        ]
        label = [IntDecoder(), transforms.ToTensor(), transforms.Squeeze()]
        loader = Loader(
            path,
            batch_size=given.batch,
            num_workers=threads,
            order=OrderOption.RANDOM,
            os_cache=True,
            drop_last=False,
            pipelines={"image": image, "label": label},
        )
        return lambda: iter(loader)

    return make


def airbench(given: Given) -> Callable[[], Batches]:
    """Its own loader: half precision, channels last; from a checkout on PYTHONPATH."""
    from airbench.utils import CifarLoader

    with tempfile.TemporaryDirectory() as folder:
        images = given.images.permute(0, 2, 3, 1).contiguous()
        content = {"images": images, "labels": given.labels, "classes": []}
        torch.save(content, os.path.join(folder, "train.pt"))
        loader = CifarLoader(
            folder,
            train=True,
            batch_size=given.batch,
            aug={"flip": True, "translate": PADDING},
            drop_last=False,
        )
    return lambda: iter(loader)


def variants(device: str) -> dict[str, Make]:
    last = {"memory_format": torch.channels_last}
    own: dict[str, Make] = {
        "DeviceDataset, uint8": resident(),
        "DeviceDataset, float32": resident(normalize()),
        "DeviceDataset, uint8, 1 thread": one_thread(resident()),
        "DeviceDataset, float32, 1 thread": one_thread(resident(normalize())),
        "DeviceDataset, uint8, channels last": resident(**last),
        "DeviceDataset, float32, channels last": resident(normalize(), **last),
    }
    if device == "cuda":
        own = {name: make for name, make in own.items() if "thread" not in name}
        halves = {"bfloat16": torch.bfloat16, "float16": torch.float16}
        return {
            "airbench's own loader, float16, channels last": airbench,
            "a whole epoch at once (airbench's idea)": whole_epoch,
            "kornia, batched": kornia,
            "batched torch by hand": batched,
            **own,
            **{
                f"DeviceDataset, {name}, channels last": resident(normalize(dtype=dtype), **last)
                for name, dtype in halves.items()
            },
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
        "FFCV, 1 thread": ffcv(1),
        "FFCV, 2 threads": ffcv(2),
        **own,
    }
