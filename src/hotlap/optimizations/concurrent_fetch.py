"""All samples of a batch are asked for at once, by threads: for storage that answers late.

## What it does
The training loader's data set gives out whole batches, whose samples several threads of the same
process fetch together. Order and batches stay as they are. Before it does so, a few samples are
fetched both ways and compared: a data set that is not made for threads is left alone, and so is one
whose samples cannot be compared.

## Why it helps
One after another, 64 samples that take 30 ms each take two seconds, nearly all of it waiting.

## When it does not help
Samples that burn CPU (decoding, augmenting): threads take turns there. Small local files, which are
in memory after the first epoch.

## By hand
`hotlap.data.Concurrent` around the data set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import loading, reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "concurrent-fetch"
NUMERICS = "close"  # augmentation draws its random numbers in another order
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"threads": int}
USUAL = 32
MOST = 64
COMPARED = 12  # samples


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.iterable:
        return "an IterableDataset hands out one sample after another"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    """What is spent waiting, not computing, can be waited for together."""
    waiting = 1 - record.input_cpu_share if record.input_cpu_share is not None else 0.0
    return 0.9 * reading.share(verdict, "input") * waiting


def candidates(record: Record) -> list[dict[str, Any]]:
    loader = reading.loader(record)
    size = loader.batch_size if loader is not None and loader.batch_size else USUAL
    return [{"threads": max(2, min(MOST, size))}]


def by_hand(settings: dict[str, Any]) -> str:
    return f"dataset = hotlap.data.Concurrent(dataset, threads={settings.get('threads', USUAL)})"


def install(training: Training, settings: dict[str, Any]) -> None:
    threads = int(settings.get("threads", USUAL))

    def change(arguments: dict[str, Any]) -> None:
        reason = _reason(training, arguments, threads)
        if reason is not None:
            training.refused(NAME, reason)
            return
        from hotlap.data.concurrent import Concurrent

        arguments["dataset"] = Concurrent(arguments["dataset"], threads=threads)

    training.change_loaders(NAME, change)


def _reason(training: Training, arguments: dict[str, Any], threads: int) -> str | None:
    dataset = arguments.get("dataset")
    if isinstance(dataset, training.torch.utils.data.IterableDataset):
        return "an IterableDataset hands out one sample after another"
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        return f"{type(dataset).__name__} is no data set of samples by number"
    if getattr(dataset, "__getitems__", None) is not None:
        return f"{type(dataset).__name__} hands out whole batches itself"
    return loading.single_samples(arguments) or _differs(dataset, threads)


def _differs(dataset: Any, threads: int) -> str | None:
    """Why threads cannot be trusted with it: samples differ, or cannot be compared."""
    from hotlap.data import fitting, layers
    from hotlap.data.concurrent import Concurrent
    from hotlap.data.packing import pack
    from hotlap.data.randomness import restored

    try:
        with restored():
            indices = fitting.spread_out(len(dataset), COMPARED)
            below = layers.below(dataset, indices[:: max(1, len(indices) // 3)])
            alone = [pack(below.dataset[index]) for index in indices]
            several = Concurrent(below.dataset, threads=threads)
            together = several.__getitems__(indices * 2)
            several.close()  # a fork must not find threads at work
    except Exception as problem:
        return f"whether threads may fetch its samples cannot be told: {loading.in_short(problem)}"
    if [pack(sample) for sample in together] != alone * 2:
        return "its samples come out differently when threads fetch them"
    return None
