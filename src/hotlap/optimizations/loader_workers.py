"""Processes that load and transform the next batches while the device computes.

## What it does
Makes the training loader with this many workers.

## Why it helps
Loading runs beside the training instead of in its way. The counts tried stay within the cores the
machine grants (cgroup quota, shared between the ranks), its memory and /dev/shm. Workers that only
wait for storage take no core: then up to four times as many are tried.

## When it does not help
Samples that are cheap to make: sending them between processes costs more than making them. So
workers promise little where less than a millisecond is waited for a batch, and where workers are
idle while training waits for them, fewer are tried first. More workers than cores, where they
compute. Datasets that stream (IterableDataset) would repeat their data and are left alone.

Where the script has no workers of its own, a data set that is not made for them is left alone: one
that draws from a random generator of its own, or whose transforms do, because each worker would
begin every epoch with a copy of it and repeat the same numbers; one that holds an open file,
archive, database or connection, because workers would move each other's place in it; and one that
changes with the samples it makes, as where it counts how often each was asked for or mixes each
with the one before, because workers would do so in copies of their own. Some samples are made in a
process apart to see that. A script that gives its loader a `worker_init_fn` sees to all of it
itself. A data set that the script changes in the middle of an epoch is loaded without workers from
there on, and it is said.

What cannot be seen is not: a global variable that the samples depend on and that the script changes
in the middle of an epoch, and a sampler that goes by what the last batch did. Workers ask for
indices and make samples some batches ahead. Do not use it there.

Where a loader has a generator of its own and the script leaves an epoch early, the next ones may be
shuffled in another order, because indices were drawn ahead; and so may those of a loader whose
workers lived on, where it gets none. With torch alone it is the same.

## By hand
One argument of the DataLoader.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import handles, loading, reading, threads
from hotlap.optimizations.midway import Midway, scripts_own

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "loader-workers"
NUMERICS = "close"  # augmentation draws its random numbers elsewhere
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"workers": int}
REQUIRED = ("workers",)
UP_TO = {"workers": 1024}
LEAST = {"workers": 0}  # other settings of optimizations start at 1
HEADROOM = 1.5
WAITING_ON_A_CORE = 4  # workers that share one, where they only wait for storage
LEAST_OF_THE_STEP = 0.25  # that other changes leave
LEAST_SHARED_BYTES = 256 << 20
WORKER_BYTES = 400 << 20  # what a forked worker that has imported torch comes to own


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.iterable:
        return "an IterableDataset would repeat its data with more workers"
    if not candidates(record):
        return f"{loader.workers} workers are all this machine has room for"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    loader = reading.loader(record)
    brief = loader is not None and not loader.workers and reading.waits_briefly(record)
    return (0.1 if brief else 0.9) * reading.share(verdict, "input")


def most(record: Record) -> int:
    """Workers this machine has room for: cores, memory and shared memory."""
    room = reading.cores(record)
    if reading.waits_on_storage(record):
        room *= WAITING_ON_A_CORE
    memory = record.environment.get("memory_bytes")
    if memory:
        room = min(room, int(0.5 * int(memory)) // WORKER_BYTES)
    shared = record.environment.get("shared_memory_bytes")
    if shared is not None and int(shared) < LEAST_SHARED_BYTES:
        room = min(room, 1)
    return max(0, room)


def needed(record: Record) -> int:
    """Workers that would make batches as fast as the rest of a step could use them, and half more.

    One process makes a batch in the time the step waits for it; each of several makes its share.
    With other changes the step may come down to what the device has to do.
    """
    loader, waiting = reading.loader(record), record.phases["input"].share or 0.0
    if loader and reading.hands_over(record):
        return _enough(loader.workers, record.input_making_share or 0.0, waiting)
    now = max(1, loader.workers) if loader else 1
    busy = max(0.02, 1 - waiting)
    rest = min(busy, max(LEAST_OF_THE_STEP, _device_share(record)))
    makes = now / rest if loader and loader.workers else waiting / rest
    return min(most(record), max(1, math.ceil(HEADROOM * makes)))


def _enough(workers: int, making: float, waiting: float) -> int:
    """Of workers that are idle while training waits: those that make the batches, and half more.

    None, where training would make them itself in less time than it waits.
    """
    if workers * making <= waiting:
        return 0
    return min(workers, max(1, math.ceil(HEADROOM * workers * making)))


def _device_share(record: Record) -> float:
    """Of the step: what the device computes. All of it where that is not known."""
    if not reading.on_device(record) or record.kernels is None:
        return 1.0
    computes, step = record.kernels.device_busy_seconds, record.step.median_seconds
    return 1.0 if computes is None or not step else computes / step


def candidates(record: Record) -> list[dict[str, Any]]:
    """The likely best first: as many as the wait for input calls for; then some around it."""
    loader = reading.loader(record)
    now = loader.workers if loader else 0
    cores, room = reading.cores(record), most(record)
    last = cores if reading.waits_on_storage(record) else cores - 1
    wanted = [needed(record), room, max(1, room // 2), max(1, last), 0]
    found = dict.fromkeys(min(number, room) for number in wanted)
    return [{"workers": number} for number in found if number != now]


def own(record: Record) -> dict[str, Any]:
    """What the script has by itself: trying it is trying nothing."""
    loader = reading.loader(record)
    return {"workers": loader.workers if loader else 0}


def by_hand(settings: dict[str, Any]) -> str:
    return f"DataLoader(dataset, ..., num_workers={settings.get('workers', 0)})"


def install(training: Training, settings: dict[str, Any]) -> None:
    workers = int(settings.get("workers", 0))
    midway = Midway(training, NAME)

    def change(arguments: dict[str, Any]) -> None:
        dataset = arguments.get("dataset")
        if isinstance(dataset, training.torch.utils.data.IterableDataset):
            training.refused(NAME, "an IterableDataset would repeat its data")
            return
        if arguments.get("num_workers", 0) == workers:
            training.applied(NAME, f"num_workers={workers}")
            return
        if not arguments.get("num_workers", 0):
            why = midway.reason(dataset) or _untrusted(arguments)
            if why is not None:
                training.refused(NAME, why)
                return
            midway.watch(arguments)
        arguments["num_workers"] = workers
        if workers == 0:
            for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
                arguments.pop(name, None)
            arguments.pop("timeout", None)

    training.change_loaders(NAME, change)


def _untrusted(arguments: dict[str, Any]) -> str | None:
    """Why a data set that has had no workers so far cannot be trusted to them."""
    own = arguments.get("worker_init_fn")
    if (own.own if isinstance(own, threads.InWorkers) else own) is not None:
        return None
    try:
        return _not_shared(scripts_own(arguments.get("dataset")))
    except Exception as problem:  # it does not let itself be looked at
        return f"whether workers may have copies of it cannot be told: {loading.in_short(problem)}"


def _not_shared(dataset: Any) -> str | None:
    from hotlap.data import generators, keeping

    beside: list[tuple[str, Any]] = []
    for where, generator in generators.held(dataset):
        name = where or type(generator).__name__
        if not generators.is_a_librarys(generator):
            return f"{name} is a random generator, and each worker would repeat it in every epoch"
        beside.append((name, generator))
    handle = handles.held(dataset, by_workers=True)
    if handle is not None:
        return f"{handle}, which workers cannot share"
    what = keeping.changed_by_samples(dataset, beside=beside)
    if what is not None:
        return f"making a sample changes `{what}`, and workers would change copies of their own"
    return None
