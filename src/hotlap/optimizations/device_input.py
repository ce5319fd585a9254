"""A small image set lives on the device, and batches are cut, mirrored and normalised there.

## What it does
The images of torchvision's CIFAR, MNIST, FashionMNIST, KMNIST or SVHN, or of
`hotlap.data.Labelled`, are copied to the device once, as bytes. The training loader's batches are
made from them in a few operations: the same samples in the same order as the loader's sampler says,
transformed with the same distribution, each sample with random numbers of its own. RandomCrop,
RandomHorizontalFlip, ToTensor and Normalize are known, in the old and the new form, and all of
`hotlap.data.transforms`; a few samples are compared with the data set's own first. Loaders with
anything that is not known, such as a `collate_fn`, are left alone, also where another loader of the
same data set is not; so is a data set from where the script sets something on it.

## Why it helps
Reading, decoding, augmenting and collating 128 small images one by one takes tens of milliseconds
of CPU, and a copy. Made as a batch they take a fraction of one.

## When it does not help
Large images, and sets that do not fit. A script that works on a batch on the CPU before it moves it
fails, and the row says so.

## By hand
`hotlap.data.DeviceDataset` instead of the data set and its loader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import loading, originals, reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "device-input"
NUMERICS = "close"  # augmentation draws other random numbers
CONFLICTS: tuple[str, ...] = (
    *("loader-workers", "persistent-workers", "loader-prefetch", "pinned-memory"),
    *("non-blocking-copy", "device-prefetch", "uint8-transfer"),
    *("concurrent-fetch", "sample-cache"),
)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
SETS = ("CIFAR10", "CIFAR100", "MNIST", "FashionMNIST", "KMNIST", "SVHN", "Labelled")
MAKE_BATCHES = ("batch_size", "sampler", "batch_sampler", "collate_fn")
MOST_OF_THE_DEVICE = 0.25  # of what is free


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.dataset not in SETS:
        return f"{loader.dataset} is none of the image sets in memory that hotlap knows"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.95 * reading.share(verdict, "input") + 0.7 * reading.share(verdict, "transfer")


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return (
        "loader = hotlap.data.DeviceDataset(images, labels, batch_size=..., device=device,\n"
        "    transform=[...])  # images as bytes; its transforms from hotlap.data.transforms"
    )


def install(training: Training, settings: dict[str, Any]) -> None:
    served = Served(training)
    training.change_loaders(NAME, served.consider)
    training.follow_optimizers()
    served.stand_in()


class Served:
    """The data sets that training loaders were made with, and what stands in for them."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._torch = training.torch
        self._considered: dict[int, tuple[Any, set[bool]]] = {}  # by id: a data set may not hash
        self._left_alone: str | None = None
        self._resident: dict[int, Any] = {}
        self._noted: dict[int, Any] = {}

    def consider(self, arguments: dict[str, Any]) -> None:
        if self._is_unusual(arguments):
            return
        dataset = arguments.get("dataset")
        _, orders = self._considered.setdefault(id(dataset), (dataset, set()))
        orders.add(loading.shuffling(self._torch, arguments))

    def _is_unusual(self, arguments: dict[str, Any]) -> bool:
        reason = loading.unusual_batches(self._torch, arguments)
        if reason is not None:
            self._left_alone = self._left_alone or reason
            self._training.refused(NAME, reason)
        return reason is not None

    def stand_in(self) -> None:
        torch, served = self._torch, self
        base: Any = torch.utils.data.dataloader._BaseDataLoaderIter
        kind = torch.utils.data.DataLoader
        plain = kind._get_iterator

        class Resident(base):  # type: ignore[misc]
            """Goes through the loader's own order; probes see an iterator like any other."""

            def __init__(self, loader: Any, resident: Any) -> None:
                super().__init__(loader)
                self._resident = resident
                self._batches = resident.batches(self._sampler_iter)

            def _reset(self, loader: Any, first_iter: bool = False) -> None:
                super()._reset(loader, first_iter)
                self._batches = self._resident.batches(self._sampler_iter)

            def _next_data(self) -> Any:
                return next(self._batches)

        def get_iterator(this: Any) -> Any:
            resident = served.resident(this) if torch.is_grad_enabled() else None
            return plain(this) if resident is None else Resident(this, resident)

        kind._get_iterator = get_iterator

    def resident(self, loader: Any) -> Any:
        """What hands out this loader's batches instead; None where it is left alone."""
        key = id(loader.dataset)
        if not self._trains(loader):
            return None
        if key not in self._resident:
            self._resident[key] = self._make(loader.dataset)
        what = None if self._resident[key] is None else self._noted[key].change(closely=True)
        if what is not None:  # what lies on the device is the data set as it was
            self._training.ended(NAME, originals.changed(what))
            self._resident[key] = None
        return self._resident[key]

    def _trains(self, loader: Any) -> bool:
        """Whether it is one of those considered; others of the same data set stay as they are."""
        dataset, orders = self._considered.get(id(loader.dataset), (None, set()))
        arguments = {name: getattr(loader, name) for name in MAKE_BATCHES}
        if dataset is not loader.dataset or loading.shuffling(self._torch, arguments) not in orders:
            return False
        return not self._is_unusual(arguments)

    def _make(self, dataset: Any) -> Any:
        from hotlap.data.noting import Noted
        from hotlap.data.recognised import recognise
        from hotlap.data.resident import DeviceDataset

        self._noted[id(dataset)] = Noted(dataset)
        device = self._training.device or self._torch.device("cpu")
        try:
            found = recognise(dataset)
        except Exception as problem:  # not recognised, or a data set with a will of its own
            self._training.refused(NAME, loading.in_short(problem))
            return None
        if not self._fits(found.images, device):
            self._training.refused(NAME, f"{type(dataset).__name__} does not fit on {device}")
            return None
        self._training.applied(NAME, f"{type(dataset).__name__} on {device}")
        if self._left_alone is not None:  # a loader made before this one began
            self._training.refused(NAME, self._left_alone)
        return DeviceDataset(
            found.images,
            found.labels,
            batch_size=1,  # the loader's sampler says what a batch is
            transform=found.transform,
            device=device,
            seed=0,  # or one would be drawn from the script's random numbers
        )

    def _fits(self, images: Any, device: Any) -> bool:
        if device.type != "cuda":
            return True
        free, _ = self._torch.cuda.mem_get_info(device)
        return bool(images.numel() <= MOST_OF_THE_DEVICE * free)
