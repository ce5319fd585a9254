"""What `Tiered` gives on a folder of JPEGs: warm epochs, partial caches, memory of workers.

Claimed: a warm epoch is much faster than one that decodes; a cache of a part of the data hits in
that part of all cases, where one that evicts the oldest hits far less; eight workers take no more
memory for the cache than one; making samples again, to doubt what was kept, costs 1 to 2 %.

All in one run, in turns, medians of several rounds; beside it torchdata's StatefulDataLoader, where
that is installed. Each epoch is reshuffled.

    python bench/cache.py --json bench/results/cache-cpu.json
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import tempfile
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from hotlap.data import Folder, Tiered

BATCH = 64
EPOCHS = 60  # warm ones, in a block
SIZE = 96  # of the samples, made from larger pictures


def make_folder(folder: Path, count: int) -> None:
    """Smooth pictures with some noise, of about 25 kB each, as photographs are."""
    from PIL import Image

    generator = torch.Generator().manual_seed(0)
    for index in range(count):
        coarse = torch.rand(1, 3, 8, 8, generator=generator)
        fine = torch.nn.functional.interpolate(coarse, (288, 288), mode="bicubic")[0]
        fine = (fine * 255 + 12 * torch.randn(3, 288, 288, generator=generator)).clamp(0, 255)
        pixels = fine.to(torch.uint8).permute(1, 2, 0).contiguous()
        image = Image.frombytes("RGB", (288, 288), bytes(pixels.flatten().tolist()))
        place = folder / str(index % 10)
        place.mkdir(exist_ok=True)
        image.save(place / f"{index:05d}.jpg", quality=85)


class Decoded(Dataset[Any]):
    """Reads, decodes and shrinks: what an epoch does again and again."""

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)

    def __len__(self) -> int:
        return len(self._folder)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image, label = self._folder[index]
        small = torch.nn.functional.interpolate(
            image[None].float(), (SIZE, SIZE), mode="bilinear", antialias=True
        )
        return small[0].round_().to(torch.uint8), int(label)


class Oldest(Dataset[Any]):
    """A cache of the same size that makes room by dropping what was not used for longest."""

    def __init__(self, dataset: Dataset[Any], samples: int) -> None:
        self._dataset, self._most = dataset, samples
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self.hits = self.asked = 0

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        self.asked += 1
        if index in self._kept:
            self.hits += 1
            self._kept.move_to_end(index)
            return self._kept[index]
        sample = self._kept[index] = self._dataset[index]
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return sample


def epoch(dataset: Any, workers: int, kind: Callable[..., Any] = DataLoader) -> float:
    loader = kind(dataset, batch_size=BATCH, shuffle=True, num_workers=workers)
    began = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - began


def shared_bytes(root: Path, workers: int) -> int:
    """What the cache takes of memory over all processes, each page counted once."""
    cached = Tiered(Decoded(root), ram="50%")
    loader = DataLoader(cached, BATCH, num_workers=workers, persistent_workers=True)
    for _ in range(2):
        for _ in loader:
            pass
    total = 0
    for pid in [os.getpid(), *(one.pid for one in loader._iterator._workers)]:  # type: ignore
        inside = False
        for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
            if "-" in line.split(maxsplit=1)[0]:
                inside = "hotlap-cache" in line
            elif inside and line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def speeds(root: Path, rounds: int, workers: tuple[int, ...], folder: Path) -> dict[str, float]:
    """Samples a second, the median over the rounds."""
    count = len(Decoded(root))
    taken: dict[str, list[float]] = {}
    stateful = importlib.util.find_spec("torchdata") is not None
    for number in range(rounds):
        for many in workers:
            disk = folder / f"{number}-{many}"
            memory, on_disk = Tiered(Decoded(root), ram="50%"), None
            ways: dict[str, Callable[[], float]] = {
                "stock": lambda many=many: epoch(Decoded(root), many),
                "ram, cold": lambda many=many, it=memory: epoch(it, many),
                "ram, warm": lambda many=many, it=memory: epoch(it, many),
            }
            if stateful:
                from torchdata.stateful_dataloader import StatefulDataLoader

                ways["StatefulDataLoader"] = lambda many=many: epoch(
                    Decoded(root), many, StatefulDataLoader
                )
            for name, run in ways.items():
                taken.setdefault(f"{name}, {many} workers", []).append(run())
            on_disk = Tiered(Decoded(root), ram=0, disk="20%", path=disk)
            taken.setdefault(f"disk, cold, {many} workers", []).append(epoch(on_disk, many))
            again = Tiered(Decoded(root), ram=0, disk="20%", path=disk)  # as after a restart
            taken.setdefault(f"disk, warm, {many} workers", []).append(epoch(again, many))
    return {name: count / statistics.median(seconds) for name, seconds in taken.items()}


def doubts(root: Path, rounds: int) -> dict[str, float]:
    """Seconds of warm epochs that are doubted and of those that are not, in turns."""
    caches = {share: Tiered(Decoded(root), ram="50%", recheck=share) for share in (0.0, 0.01)}
    for cached in caches.values():
        epoch(cached, 0)
    taken: dict[float, list[float]] = {share: [] for share in caches}
    for number in range(rounds):
        for share in sorted(caches, reverse=bool(number % 2)):
            taken[share].append(sum(epoch(caches[share], 0) for _ in range(EPOCHS)))
    never, always = (statistics.median(taken[share]) for share in caches)
    ratios = sorted(one / two for one, two in zip(taken[0.01], taken[0.0], strict=True))
    return {
        "never_seconds": never,
        "doubted_seconds": always,
        "ratio": statistics.median(ratios),
        "low": ratios[len(ratios) // 10],
        "high": ratios[-1 - len(ratios) // 10],
    }


def rates(root: Path) -> list[dict[str, float]]:
    """Hit rates after the first epoch, with a part of the data cached."""
    rows = []
    whole = Tiered(Decoded(root), ram="50%").fit.total_bytes
    count = len(Decoded(root))
    for share in (0.25, 0.5, 0.75, 0.9):
        kept = Tiered(Decoded(root), ram=int(whole * share))
        oldest = Oldest(Decoded(root), int(count * share))
        for dataset in (kept, oldest):
            epoch(dataset, 0)
        kept.forget_hits()
        oldest.hits = oldest.asked = 0
        for dataset in (kept, oldest):
            epoch(dataset, 0)
        rows.append(
            {
                "share": share,
                "never_evict": kept.hit_rate or 0.0,
                "oldest_first": oldest.hits / oldest.asked,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "This DataLoader will create")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "images"
        root.mkdir()
        make_folder(root, options.samples)
        found = speeds(root, options.rounds, (0, 2), Path(folder))
        stock = found["stock, 2 workers"]
        for name, rate in found.items():
            print(f"{name:32} {rate:10,.0f} samples/s  {rate / stock:6.2f}x stock with 2 workers")
        doubted = doubts(root, 6 * options.rounds)
        print(
            f"warm and doubted: {doubted['ratio']:.3f} times as long as never doubted "
            f"(eight blocks in ten {doubted['low']:.3f} to {doubted['high']:.3f})"
        )
        hits = rates(root)
        for row in hits:
            print(
                f"{row['share']:.0%} cached: {row['never_evict']:.0%} hits, "
                f"{row['oldest_first']:.0%} where the oldest goes"
            )
        memory = {workers: shared_bytes(root, workers) for workers in (1, 8)}
        print(f"memory of the cache: {memory[1]:,} with 1 worker, {memory[8]:,} with 8")
        fit = Tiered(Decoded(root), ram="50%").fit
        print(fit.sentence)
    if options.json is not None:
        result = {
            "machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0]},
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "samples": options.samples,
            "rounds": options.rounds,
            "samples_per_second": found,
            "doubted": doubted,
            "hit_rates": hits,
            "memory_bytes": memory,
            "ratio": fit.ratio,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
