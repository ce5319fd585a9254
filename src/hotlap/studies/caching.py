"""Epochs over JPEG files with and without a cache: what a cell of `hotlap study cache` does.

The files are made from a seed, into a folder that is removed in the end.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from hotlap import stats
from hotlap.data import Folder, Pairs, Tiered
from hotlap.data.counting import Counts
from hotlap.studies import processes

DISTINCT = 16  # images that are made; the others are copies under other names
CROP, SCALE = 96, 2
PADDING = 4
QUALITY = 90
HIT, MISSED, KEPT = range(3)  # columns of the tally


# Files -----------------------------------------------------------------------------------------


def write(folder: Path, count: int, size: int) -> int:
    """JPEGs that are smooth with some noise, as photographs are; how many bytes they take."""
    place = folder / "all"  # one class
    place.mkdir(parents=True)
    made = [_jpeg(number, size) for number in range(min(count, DISTINCT))]
    for number in range(count):
        (place / f"{number:06d}.jpg").write_bytes(made[number % len(made)])
    return sum(len(made[number % len(made)]) for number in range(count))


def _jpeg(seed: int, size: int) -> bytes:
    import io

    from PIL import Image

    drawn = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, 8, 8, generator=drawn)
    fine = torch.nn.functional.interpolate(coarse, (size, size), mode="bicubic")[0] * 255
    fine = (fine + 8 * torch.randn(3, size, size, generator=drawn)).clamp(0, 255)
    pixels = fine.to(torch.uint8).permute(1, 2, 0).contiguous()
    file = io.BytesIO()
    Image.frombytes("RGB", (size, size), bytes(pixels.flatten().tolist())).save(
        file, "JPEG", quality=QUALITY
    )
    return file.getvalue()


# Caches ----------------------------------------------------------------------------------------


class Naive:
    """What one writes first: a dict. Each worker has its own, and nothing limits it."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._kept: dict[int, Any] = {}
        self._tally = Counts(3)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        self._tally.add(HIT if index in self._kept else MISSED)
        if index not in self._kept:
            self._kept[index] = self._dataset[index]
            self._tally.add(KEPT, self._kept[index][0].numel())
        return self._kept[index]

    @property
    def hit_rate(self) -> float | None:
        hits, missed = self._tally.table.sum(0)[:KEPT].tolist()
        return hits / (hits + missed) if hits + missed else None

    def forget_hits(self) -> None:
        self._tally.table[:, :KEPT] = 0

    @property
    def used(self) -> dict[str, int]:
        """Over all workers."""
        return {"ram": int(self._tally.table[:, KEPT].sum())}


def tiers(dataset: Any, way: dict[str, float], folder: Path, decoded: int) -> Any:
    """The data set as it is, in a dict, or in tiers of so many times its decoded size."""
    if not way:
        return dataset
    if "naive" in way:
        return Naive(dataset)
    budgets: dict[str, Any] = {"ram": 0} | {name: int(part * decoded) for name, part in way.items()}
    return Tiered(dataset, **budgets, path=folder if "disk" in way else None)


class Augmented:
    """Cropped, mirrored, made into floats: what is done anew each time, above the cache."""

    def __init__(self, images: Any) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image, label = self._images[index]
        padded = torch.nn.functional.pad(image, (PADDING,) * 4)
        top, left = torch.randint(0, 2 * PADDING + 1, (2,)).tolist()
        image = padded[:, top : top + image.shape[1], left : left + image.shape[2]]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return image.float() / 255, int(label)


def samples(data: str, images: Any) -> Any:
    return Pairs(images, scale=SCALE, crop=CROP) if data == "superres" else Augmented(images)


# Epochs ----------------------------------------------------------------------------------------


def measure(
    *,
    data: str,
    way: dict[str, float],
    count: int,
    size: int,
    batch: int,
    workers: int,
    warm: int,
    device: str,
) -> dict[str, Any]:
    """`way` has a budget for each tier, in times the decoded data; empty is no cache."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.zeros(1, device=device)  # a GPU takes a while to get ready, which is no epoch's doing
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="images-") as folder:
        files = write(Path(folder) / "files", count, size)
        cached = tiers(
            Folder(Path(folder) / "files"), way, Path(folder) / "cache", count * 3 * size * size
        )
        dataset = samples(data, cached)
        loader = DataLoader(
            dataset,
            batch_size=batch,
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
        )
        looks = [look(cached, 0.0)]
        taken: list[float] = []
        for number in range(1 + warm):
            if number == 1 and way:
                cached.forget_hits()
            taken.append(epoch(loader, dataset, number, device))
            looks.append(look(cached, sum(taken)))
        foreseen = cached.fit.ratio if isinstance(cached, Tiered) else None
        return {
            "cold_seconds": taken[0],
            "warm_seconds": stats.mean(taken[1:]),
            "windows": taken[1:],
            "file_bytes": files,
            "hit_rate": cached.hit_rate if way else None,
            "foreseen_ratio": foreseen,
            "ram_bytes": looks[-1]["ram_bytes"],
            "disk_bytes": looks[-1]["disk_bytes"],
            "device_bytes": looks[-1]["device_bytes"],
            "timeline": [
                {**one, "read_bytes": one["read_bytes"] - looks[0]["read_bytes"]} for one in looks
            ],
        }


def look(cached: Any, seconds: float) -> dict[str, float]:
    """Between two epochs, since looking takes time: what the cache and all processes take."""
    used = getattr(cached, "used", {})
    return {
        "seconds": seconds,
        "memory_bytes": processes.memory_bytes(),
        "read_bytes": processes.read_bytes(),
        **{f"{tier}_bytes": used.get(tier, 0) for tier in ("ram", "disk", "device")},
    }


def epoch(
    loader: Any,
    dataset: Any,
    number: int,
    device: str,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """All batches once, on the device in the end."""
    if isinstance(dataset, Pairs):
        dataset.set_epoch(number)
    began = clock()
    for batch in loader:
        for one in batch:
            one.to(device, non_blocking=True)
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - began
