"""Images travel as bytes, and become normalised floats on the device.

## What it does
Where the training set is one of torchvision's and its transform ends with ToTensor and Normalize,
or it is a `hotlap.data.Labelled` whose transform ends with Normalize, the loader hands out the
images before that: a quarter of the bytes from worker to training process and from there to the
device. The rest is then done for the whole batch, on the device. That the samples are the same is
checked on a few of them, with the same random numbers. Where the script sets something on its data
set between epochs, the loader is left alone from there on.

## Why it helps
Converting and normalising on the CPU can cost more than cropping and flipping, and floats are four
times the bytes to hand over and to copy.

## When it does not help
Training on a CPU. Steps that do not wait for input. Data sets with a `__getitem__` of their own:
that may leave the transform out for some samples, or go on with what it made. A script that works
on a batch on the CPU before it moves it fails, and the row says so.

## By hand
Leave out ToTensor and Normalize, hand out uint8 tensors, and normalise after the copy.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hotlap import origins
from hotlap.optimizations import loading, reading
from hotlap.optimizations.originals import Originals, changed

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "uint8-transfer"
NUMERICS = "close"  # one multiplication and one addition round a little differently
CONFLICTS: tuple[str, ...] = ("device-prefetch", "device-input", "sample-cache")
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
COMPARED = 4  # samples
LIBRARIES = ("torch", "torchvision", "hotlap")


def refusal(record: Record) -> str | None:
    if not reading.on_device(record):
        return reading.NO_DEVICE
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.iterable:
        return "the transforms of an IterableDataset are not known"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    burning = record.input_cpu_share or 0.0
    waiting, copying = (reading.share(verdict, name) for name in ("input", "transfer"))
    return 0.3 * waiting * burning + 0.6 * copying


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return (
        "transforms.PILToTensor()  # instead of ToTensor() and Normalize(mean, std)\n"
        "inputs = hotlap.data.transforms.Normalize(mean, std)(inputs.to(device))  # each batch"
    )


def install(training: Training, settings: dict[str, Any]) -> None:
    bytes_out = Bytes(training)
    training.change_loaders(NAME, bytes_out.change)
    training.follow_optimizers()
    module = training.torch.utils.data.dataloader
    for name in ("_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"):
        bytes_out.finish_batches_of(getattr(module, name))


class Bytes:
    """Which data sets hand out bytes by now, and what is left to do with their batches."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._originals = Originals(training, NAME)
        # By the id of a data set that hands out bytes: it, its transform and the script's own.
        self._after: dict[int, tuple[Any, Any, Any]] = {}

    def change(self, arguments: dict[str, Any]) -> None:
        stand_in, _, own = self._after.get(id(arguments.get("dataset")), (None, None, None))
        if stand_in is not None:  # taken out of another loader
            arguments["dataset"] = own
        reason = loading.unusual_batches(self._training.torch, arguments)
        if reason is not None:
            self._training.refused(NAME, reason)
            return
        from hotlap.data.noting import Noted

        own = arguments.get("dataset")
        try:
            noted = Noted(own)
            dataset, after = without_floats(own)
            noted.settle(closely=True)
        except Exception as problem:  # not recognised, or a data set with a will of its own
            self._training.refused(NAME, loading.in_short(problem))
            return
        self._after[id(dataset)] = (dataset, after, own)
        put = getattr(dataset, "transform", None)

        def outdated() -> str | None:
            what = _set_anew(own, dataset, put) or noted.change(closely=True)
            return None if what is None else changed(what)

        self._originals.replaced(own, dataset, outdated)
        arguments["dataset"] = dataset

    def finish_batches_of(self, kind: Any) -> None:
        plain, bytes_out = kind._next_data, self

        @functools.wraps(plain)
        def next_data(this: Any) -> Any:
            batch = plain(this)
            dataset, after, _ = bytes_out._after.get(id(this._dataset), (None, None, None))
            return bytes_out.finished(batch, after) if dataset is this._dataset else batch

        kind._next_data = next_data

    def finished(self, batch: Any, after: Any) -> Any:
        """The first of the batch is the images; evaluation on the CPU gets them there."""
        if after is None:
            return batch
        images, *rest = batch
        device = self._training.device or images.device
        return [after(images.to(device, non_blocking=True)), *rest]


def _set_anew(own: Any, dataset: Any, put: Any) -> str | None:
    """A transform that a script sets on the data set in its loader is meant for its own."""
    now = getattr(dataset, "transform", None)
    if now is put:
        return None
    own.transform = now
    return "transform"


def without_floats(dataset: Any) -> tuple[Any, Any]:
    """A data set that hands out bytes, and what makes its own samples of a batch of them."""
    from hotlap.data import shortening
    from hotlap.data.fitting import spread_out
    from hotlap.data.recognised import NotRecognised

    parts = shortening.transforms_of(dataset)
    if not parts:
        raise NotRecognised(f"{type(dataset).__name__} has no `transform` to look into")
    shorter, after = _of_ours(dataset, parts) or _of_torchvision(dataset, parts)
    for index in spread_out(len(dataset), COMPARED):
        _compare(dataset, shorter, after, index)
    return shorter, after


def _of_ours(dataset: Any, parts: list[Any]) -> tuple[Any, Any] | None:
    """A `hotlap.data.Labelled`: its images are bytes until the transform that normalises them."""
    from hotlap.data import nesting, shortening
    from hotlap.data.labelled import Labelled
    from hotlap.data.recognised import NotRecognised
    from hotlap.data.transforms import Compose, Convert, Normalize

    if not any(type(one) is Labelled for one in nesting.all_of(dataset)):
        return None
    if type(dataset) is not Labelled:
        kind = type(dataset).__name__
        raise NotRecognised(f"its Labelled lies within a {kind}; take a Labelled of those images")
    if not isinstance(parts[-1], (Convert, Normalize)):
        raise NotRecognised(f"its transform ends with {type(parts[-1]).__name__}, not Normalize")
    return shortening.with_transforms(dataset, parts[:-1]), Compose(parts[-1:])


def _of_torchvision(dataset: Any, parts: list[Any]) -> tuple[Any, Any]:
    from hotlap.data import nesting, shortening
    from hotlap.data.recognised import NotRecognised, translated
    from hotlap.data.transforms import Compose

    names = [type(part).__name__ for part in parts]
    if "ToTensor" not in names:
        raise NotRecognised("its transform has no ToTensor")
    for one in nesting.all_of(dataset):
        if _asks_its_own_way(one):
            raise NotRecognised(f"{type(one).__name__} has a __getitem__ of its own")
    place = names.index("ToTensor")
    known = place + 1 if names[place + 1 : place + 2] == ["Normalize"] else place
    if names[known + 1 :]:
        raise NotRecognised(f"after {names[known]} comes {names[known + 1]}")
    after = Compose(translated(parts[place:]))
    return shortening.with_transforms(dataset, [*parts[:place], as_bytes]), after


def _asks_its_own_way(dataset: Any) -> bool:
    """Others hand out each sample as their transform made it; this one may not."""
    makers = (kind for kind in type(dataset).__mro__ if "__getitem__" in vars(kind))
    return origins.library(next(makers, object)) not in LIBRARIES


def _compare(dataset: Any, shorter: Any, after: Any, index: int) -> None:
    import torch

    from hotlap.data.packing import pack
    from hotlap.data.randomness import reseed, restored
    from hotlap.data.recognised import CLOSE, NotRecognised

    with restored():
        reseed(index)
        whole = dataset[index]
        reseed(index)
        image, *rest = shorter[index]
    if not isinstance(whole, tuple) or pack(list(whole[1:])) != pack(rest):
        raise NotRecognised("its samples are not an image and what belongs to it")
    made = after(image.unsqueeze(0))[0]
    if whole[0].shape != made.shape or not torch.allclose(whole[0], made, atol=CLOSE, rtol=CLOSE):
        raise NotRecognised(f"sample {index} is not what its transforms make")


def as_bytes(image: Any) -> Any:
    """A PIL image as a uint8 tensor, channels first."""
    import torch

    content = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    width, height = image.size
    if image.mode not in ("L", "RGB"):
        from hotlap.data.recognised import NotRecognised

        raise NotRecognised(f"its images are of mode {image.mode}")
    return content.view(height, width, -1).permute(2, 0, 1).contiguous()
