"""In-memory image sets whose samples are known to the pixel, and the transforms they go through.

torchvision's CIFAR, MNIST and SVHN hold all their images as bytes; what their `__getitem__` does is
known, and so is what the usual transforms do. Together they can be served as whole batches from a
device, with the same distribution. Everything has to be known: one transform that is not, and the
set is not recognised. What can be compared is compared: images, labels, and whatever is not random.
`hotlap.data.Labelled` is known as well; its samples are compared with all that is random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hotlap import origins
from hotlap.data import shortening
from hotlap.data.fitting import spread_out
from hotlap.data.labelled import Labelled
from hotlap.data.randomness import reseed, restored
from hotlap.data.transforms import Compose, Convert, Crop, Flip, Normalize, Transform

LIBRARY = "torchvision"
CLOSE = 1e-5  # normalising in one multiplication and one addition rounds a little differently
PADDINGS = ("constant", "reflect")


class NotRecognised(ValueError):
    """Something about the data set or its transforms is not known; the message says what."""


@dataclass(frozen=True, kw_only=True)
class Recognised:
    images: torch.Tensor  # uint8: count x channels x height x width
    labels: torch.Tensor
    transform: Compose


def recognise(dataset: Any) -> Recognised:
    if type(dataset) is Labelled:
        return _labelled(dataset)
    images, labels = _content(dataset)
    if getattr(dataset, "target_transform", None) is not None:
        raise NotRecognised("its labels are transformed")
    parts = shortening.transforms_of(dataset) or []
    found = Recognised(images=images, labels=labels, transform=Compose(translated(parts)))
    _compare(dataset, found, parts)
    return found


# Images ----------------------------------------------------------------------------------------


def _last(dataset: Any) -> torch.Tensor:
    """CIFAR: a numpy array, channels last."""
    return torch.as_tensor(dataset.data).permute(0, 3, 1, 2)


def _grey(dataset: Any) -> torch.Tensor:
    return torch.as_tensor(dataset.data).unsqueeze(1)


def _first(dataset: Any) -> torch.Tensor:
    return torch.as_tensor(dataset.data)


SETS: dict[str, tuple[Callable[[Any], torch.Tensor], str]] = {
    "CIFAR10": (_last, "targets"),
    "CIFAR100": (_last, "targets"),
    "MNIST": (_grey, "targets"),
    "FashionMNIST": (_grey, "targets"),
    "KMNIST": (_grey, "targets"),
    "SVHN": (_first, "labels"),
}


def _content(dataset: Any) -> tuple[torch.Tensor, torch.Tensor]:
    kind = type(dataset)
    if origins.library(kind) != LIBRARY or kind.__name__ not in SETS:
        raise NotRecognised(
            f"{kind.__name__} is none of the image sets in memory that hotlap knows"
        )
    read, name = SETS[kind.__name__]
    return _checked(dataset, read(dataset), torch.as_tensor(getattr(dataset, name)))


def _checked(
    dataset: Any, images: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    if images.dtype != torch.uint8 or images.dim() != 4:
        raise NotRecognised(f"its images are {images.dtype} of shape {tuple(images.shape)}")
    if len(images) != len(dataset) or len(labels) != len(dataset):
        raise NotRecognised(f"it has {len(images)} images and {len(labels)} labels")
    return images.contiguous(), labels.to(torch.int64)


# Transforms ------------------------------------------------------------------------------------


def translated(parts: Sequence[Any]) -> list[Transform]:
    """What torchvision does to one image, for batches; uint8 until they are normalised."""
    found: list[Transform] = []
    floats = False  # the images are floats by now
    for part in parts:
        kind = type(part)
        if origins.library(kind) != LIBRARY or kind.__name__ not in KNOWN:
            raise NotRecognised(f"its transform {kind.__name__} is not known")
        made = KNOWN[kind.__name__](part)
        if isinstance(made, Convert):
            floats = True  # scaled when it is normalised, or at the end
        elif isinstance(made, Normalize) and not floats:
            raise NotRecognised("it normalises images that are no tensors yet")
        elif isinstance(made, Crop) and any(made.fill) and floats:
            raise NotRecognised("it pads with a value of its own after ToTensor")
        if made is not None and not isinstance(made, Convert):
            found.append(made)
    if not floats:
        raise NotRecognised("its samples are images, not tensors")
    if not any(isinstance(made, Normalize) for made in found):
        found.append(Convert(torch.float32))
    return found


def _crop(part: Any) -> Transform:
    if getattr(part, "pad_if_needed", False) or part.padding_mode not in PADDINGS:
        raise NotRecognised(f"its RandomCrop pads by {part.padding_mode!r} or if needed")
    return Crop(
        _pair(part.size), padding=_sides(part.padding), fill=part.fill, mode=part.padding_mode
    )


def _pair(size: Any) -> tuple[int, int]:
    return (int(size), int(size)) if isinstance(size, int) else (int(size[0]), int(size[1]))


def _sides(padding: Any) -> int | tuple[int, ...]:
    if padding is None:
        return 0
    return padding if isinstance(padding, int) else tuple(padding)


def _normalize(part: Any) -> Transform:
    return Normalize(_floats(part.mean), _floats(part.std))


def _floats(values: Any) -> list[float]:
    return [float(value) for value in values]


def _nothing(part: Any) -> None:
    return None


def _to_dtype(part: Any) -> Transform:
    if part.dtype != torch.float32 or not part.scale:
        raise NotRecognised(f"its ToDtype makes {part.dtype}, scaled: {part.scale}")
    return Convert(torch.float32)


KNOWN: dict[str, Callable[[Any], Transform | None]] = {
    "RandomCrop": _crop,
    "RandomHorizontalFlip": lambda part: Flip(float(part.p)),
    "ToTensor": lambda part: Convert(torch.float32),
    "ToImage": _nothing,
    "PILToTensor": _nothing,
    "ToDtype": _to_dtype,
    "Normalize": _normalize,
}
FIXED = ("ToTensor", "ToImage", "PILToTensor", "ToDtype", "Normalize")


# Comparing -------------------------------------------------------------------------------------


def _compare(dataset: Any, found: Recognised, parts: list[Any]) -> None:
    """Some samples, without what is random, both ways."""
    fixed = [part for part in parts if type(part).__name__ in FIXED]
    plain = shortening.with_transforms(dataset, fixed)
    mine = Compose(translated(fixed))
    for at in spread_out(len(dataset)):
        with restored():
            image, label = plain[at]
        if int(label) != int(found.labels[at]):
            raise NotRecognised(f"the label of sample {at} is {label}, not what its labels say")
        made = mine(found.images[at : at + 1])[0]
        if image.shape != made.shape or not torch.allclose(image, made, atol=CLOSE, rtol=CLOSE):
            raise NotRecognised(f"sample {at} is not what its images and transforms make")


def _labelled(dataset: Labelled) -> Recognised:
    """Its transforms are ours and made for batches: with the same numbers, the same samples."""
    images, labels = _checked(dataset, dataset.images, torch.as_tensor(dataset.labels))
    transform = Compose([dataset.transform])
    for at in spread_out(len(dataset)):
        with restored():
            reseed(at)
            image, label = dataset[at]
            reseed(at)
            made = transform(images[at : at + 1])[0]
        if label != int(labels[at]) or not torch.equal(image, made):
            raise NotRecognised(f"sample {at} is not what its images and transforms make")
    return Recognised(images=images, labels=labels, transform=transform)
