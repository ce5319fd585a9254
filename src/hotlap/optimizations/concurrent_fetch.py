"""All samples of a batch are asked for at once, by threads: for storage that answers late.

## What it does
The training loader's data set gives out whole batches, whose samples several threads of the same
process fetch together. Order and batches stay as they are. Before it does so, some samples are
fetched both ways and compared: a data set that is not made for threads is left alone, and so is one
whose samples cannot be compared. So is one that holds an open file, archive, database or connection
once samples were fetched: threads that share it move each other's place in it. A file opened for
each sample, or by each thread for itself (`threading.local`), is no such case. A data set that
changes with the samples it makes, as where it counts them, is left alone as well: threads would
change it in any order, and at the same time. So is one where making a sample sets an attribute of
it or of a transform, such as whether this image is flipped: its mask would be flipped as another
thread's image is. Random numbers go on as if nothing had been fetched before, also those of
generators that the data set keeps for itself. A sample that fails raises what it would raise
without threads.

## Why it helps
One after another, 64 samples that take 30 ms each take two seconds, nearly all of it waiting.

## When it does not help
Samples that burn CPU (decoding, augmenting): threads take turns there. Small local files, which are
in memory after the first epoch.

## By hand
`hotlap.data.Concurrent` around the data set.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import handles, loading, reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "concurrent-fetch"
NUMERICS = "close"  # augmentation draws its random numbers in another order
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"threads": int}
UP_TO = {"threads": 1024}
USUAL = 32
MOST = 64
LEAST_COMPARED, MOST_COMPARED = 12, 64  # samples
FETCHES = 10_000  # by threads, of those samples
EACH_SECONDS = 0.5  # for those alone, and for those by threads
SWITCHING = 1e-6  # seconds after which another thread may go on; 5 ms hide most mistakes


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
        from hotlap.data.failures import AS_IS

        fetched = Concurrent(arguments["dataset"], threads=threads, on_error=AS_IS)
        arguments["dataset"] = fetched

    training.change_loaders(NAME, change)


def _reason(training: Training, arguments: dict[str, Any], threads: int) -> str | None:
    dataset = arguments.get("dataset")
    if isinstance(dataset, training.torch.utils.data.IterableDataset):
        return "an IterableDataset hands out one sample after another"
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        return f"{type(dataset).__name__} is no data set of samples by number"
    if getattr(dataset, "__getitems__", None) is not None:
        return f"{type(dataset).__name__} hands out whole batches itself"
    return loading.single_samples(arguments) or _untrusted(dataset, threads)


def _untrusted(dataset: Any, threads: int) -> str | None:
    """Why threads cannot be trusted with it."""
    from hotlap.data import fitting, generators, keeping, layers
    from hotlap.data.randomness import restored
    from hotlap.data.untouched import left_as_it_was

    indices = fitting.spread_out(len(dataset), LEAST_COMPARED)
    try:
        with left_as_it_was(dataset), restored(), generators.restored(dataset):
            source = layers.below(dataset, indices[:: max(1, len(indices) // 3)]).dataset
            alone = _alone(source, indices)
            handle = handles.held(source) or handles.held(dataset)  # opened by now, if ever
            if handle is not None:
                return f"{handle}, which threads cannot share"
            what = keeping.found_here(dataset, indices)
            if what is not None:
                return f"making a sample changes `{what}`, which threads would do in any order"
            if _differs(source, alone, threads):
                return "its samples come out differently when threads fetch them"
            what = _set_by_samples(dataset, indices)
            if what is not None:
                return f"making a sample sets `{what}`, which threads would do at the same time"
    except Exception as problem:
        why = getattr(problem, "why", loading.in_short(problem))  # without advice for a cache
        return f"whether threads may fetch its samples cannot be told: {why}"
    return None


def _set_by_samples(dataset: Any, indices: list[int]) -> str | None:
    """What is set over and over; what comes once and then stays has come before."""
    from hotlap.data import assigned

    until, made = time.perf_counter() + EACH_SECONDS, []
    for index in indices:
        dataset[index]
        made.append(index)
        if time.perf_counter() > until:
            break
    with assigned.noted(dataset) as found:
        for index in made:
            dataset[index]
    return found[0] if found else None


def _alone(source: Any, indices: list[int]) -> dict[int, bytes]:
    """These samples, and more from all over the set as long as they come fast."""
    from hotlap.data import fitting
    from hotlap.data.packing import pack

    alone = {index: pack(source[index]) for index in indices}
    until = time.perf_counter() + EACH_SECONDS
    for index in fitting.spread_out(len(source), MOST_COMPARED):
        if time.perf_counter() < until:
            alone[index] = pack(source[index])
    return alone


def _differs(source: Any, alone: dict[int, bytes], threads: int) -> bool:
    """Whether samples come out otherwise, or not at all, when threads fetch them, often."""
    from hotlap.data.concurrent import Concurrent
    from hotlap.data.failures import SampleError
    from hotlap.data.packing import pack

    asked, expected = list(alone) * 2, list(alone.values()) * 2
    several, until = Concurrent(source, threads=threads), time.perf_counter() + EACH_SECONDS
    try:
        with _switching_often():
            for _ in range(-(-FETCHES // max(1, len(asked)))):
                if [pack(one) for one in several.__getitems__(asked)] != expected:
                    return True
                if time.perf_counter() > until:
                    break
    except SampleError:
        return True
    finally:
        several.close()  # a fork must not find threads at work
    return False


@contextmanager
def _switching_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCHING)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
