"""Input that never starves the device: caches, fetching at once, copies ahead, batched transforms.

    from hotlap.data import Tiered
    loader = DataLoader(Tiered(dataset, ram="50%"), batch_size=64, shuffle=True, num_workers=8)

Each part works by itself with any torch DataLoader; hotlap's optimizations are built from them.
Batched transforms are in `hotlap.data.transforms`. Names load on first use: importing this imports
no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.data.advice import Advice, advise
    from hotlap.data.cifar import Cifar10
    from hotlap.data.concurrent import Concurrent
    from hotlap.data.decoding import ImageError
    from hotlap.data.download import DownloadError
    from hotlap.data.epochs import NotCacheable
    from hotlap.data.failures import SampleError
    from hotlap.data.images import Folder
    from hotlap.data.labelled import Labelled
    from hotlap.data.loader import DeviceLoader
    from hotlap.data.order import Order, seeded
    from hotlap.data.packing import CannotPack
    from hotlap.data.remote import Objects
    from hotlap.data.resident import DeviceDataset
    from hotlap.data.resumable import Resumable
    from hotlap.data.stored import StoredError
    from hotlap.data.superres import Pairs
    from hotlap.data.synthetic import SyntheticImages
    from hotlap.data.tiered import Tiered
    from hotlap.data.timing import measure

_HOMES = {
    "Advice": "advice",
    "CannotPack": "packing",
    "Cifar10": "cifar",
    "Concurrent": "concurrent",
    "DeviceDataset": "resident",
    "DeviceLoader": "loader",
    "DownloadError": "download",
    "Folder": "images",
    "ImageError": "decoding",
    "Labelled": "labelled",
    "NotCacheable": "epochs",
    "Objects": "remote",
    "Order": "order",
    "Pairs": "superres",
    "Resumable": "resumable",
    "SampleError": "failures",
    "StoredError": "stored",
    "SyntheticImages": "synthetic",
    "Tiered": "tiered",
    "advise": "advice",
    "measure": "timing",
    "seeded": "order",
}

__all__ = [
    "Advice",
    "CannotPack",
    "Cifar10",
    "Concurrent",
    "DeviceDataset",
    "DeviceLoader",
    "DownloadError",
    "Folder",
    "ImageError",
    "Labelled",
    "NotCacheable",
    "Objects",
    "Order",
    "Pairs",
    "Resumable",
    "SampleError",
    "StoredError",
    "SyntheticImages",
    "Tiered",
    "advise",
    "measure",
    "seeded",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hotlap.data' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"hotlap.data.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
