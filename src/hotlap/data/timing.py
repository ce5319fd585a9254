"""Times a few batches of a dataset in this process, and advises on a loader for it."""

from __future__ import annotations

import pickle
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import IterableDataset, default_collate

from hotlap.data import nests
from hotlap.data.advice import Advice, advise, check


def measure(
    dataset: Any,
    batch_size: int,
    *,
    step_seconds: float,
    collate_fn: Callable[[list[Any]], Any] = default_collate,
    batches: int = 5,
    seconds: float = 10.0,
    cores: float | None = None,
    ram: int | None = None,
    shm: int | None = None,
    cuda: bool | None = None,
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] = time.process_time,
) -> Advice:
    """`advise`, with what samples of this dataset take.

    Makes one batch to warm up and then up to `batches`, of samples spread over the dataset, for
    `seconds` at most and one batch at least. The random numbers of torch and Python are as before
    afterwards; a dataset that draws from others goes on in them.
    """
    if isinstance(dataset, IterableDataset):
        raise TypeError(
            f"{type(dataset).__name__} is an IterableDataset: with several workers it repeats "
            "its data unless it shares them out itself, so none are advised"
        )
    check(step_seconds=step_seconds, batch_size=batch_size)
    if not len(dataset) or batches < 1:
        raise ValueError(f"nothing to time: {len(dataset)} samples, {batches} batches")
    walls, cpus = [], []
    kept = random.getstate()
    with torch.random.fork_rng(devices=[]):
        end = clock() + seconds
        for number in range(batches + 1):
            indices = _spread(len(dataset), batch_size, number, batches + 1)
            began, cpu_began = clock(), cpu_clock()
            batch = collate_fn(_samples(dataset, indices))
            walls.append((clock() - began) / len(indices))
            cpus.append((cpu_clock() - cpu_began) / len(indices))
            if number and clock() >= end:
                break
    random.setstate(kept)
    wall = statistics.median(walls[1:])
    size, pickled = _size(batch)
    return advise(
        step_seconds=step_seconds,
        sample_seconds=wall,
        batch_size=batch_size,
        sample_bytes=size // len(indices),
        cpu_seconds=statistics.median(cpus[1:]),
        cores=cores,
        ram=ram,
        shm=shm,
        pickled=pickled,
        cuda=cuda,
    )


def _spread(length: int, batch_size: int, number: int, of: int) -> list[int]:
    """Indices all over the dataset, others for each batch: neighbours may be cached together."""
    count = min(length, batch_size)
    return [
        (place * length // count + number * length // (count * of)) % length
        for place in range(count)
    ]


def _samples(dataset: Any, indices: list[int]) -> Any:
    """As torch's own fetcher does it."""
    if callable(getattr(dataset, "__getitems__", None)):
        return dataset.__getitems__(indices)
    return [dataset[index] for index in indices]


def _size(batch: Any) -> tuple[int, bool]:
    """Bytes of a batch, and whether they travel pickled."""
    shared = sum(t.numel() * t.element_size() for t in nests.tensors(torch, batch))
    if shared:
        return shared, False
    return len(pickle.dumps(batch, protocol=pickle.HIGHEST_PROTOCOL)), True
