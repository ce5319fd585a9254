"""Samples are kept in memory once they were made: from the second epoch on nothing is read twice.

## What it does
The training loader's data set keeps its samples in memory that all workers and all ranks of a node
share, up to a share of what is free, and never so much that the machine would swap. Nothing is
evicted; what does not fit comes from the source as before. A data set that is made anew for every
epoch finds what the one before it kept. Random transforms stay random: the cache
lies below the first of them, where it can be found; else the data set is left alone, and so is one
whose samples are made about as fast as they could be taken from a cache. A sample that draws random
numbers below that, from torch, random or numpy or from a generator that the data set holds or its
code names, is not kept and made anew each time. Nor is one of a kind that a cache does not take, or
that the sampler asks for by more than its number: the last line then says "in part". Where the
script sets something on its data set, on its class or on an object it holds, samples come from the
data set again from there on; what the records of a long list hold is compared before each epoch,
and a data set that holds too many of them for that is left alone. So is one that changes with the
samples it makes, as where it counts them: that would stand still. A hundredth of the time goes into
making samples again that were kept: where one has become another, what was kept is forgotten, and
the cache ends there. A sample that fails raises what it would raise without the cache.

## Why it helps
Reading, decoding and resizing the same image in every epoch.

## When it does not help
The first epoch, which fills the cache: the table shows the speed of the later ones. Training for a
single epoch. Data much larger than the memory. Samples whose cost is in their random transforms.

A data set whose samples depend on something outside it that the script changes while it trains, as
a global variable of its module with the number of the epoch, is found out only when one of its
samples is made again: until then it gets those of the first epoch. Do not use it there.

## By hand
`hotlap.data.Tiered` around the data set; it can keep samples on disk and on the device as well.
"""

from __future__ import annotations

import atexit
import functools
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import loading, reading
from hotlap.optimizations.originals import Originals, changed, unseen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "sample-cache"
NUMERICS = "identical"
CONFLICTS: tuple[str, ...] = ("device-input",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"percent": int}
UP_TO = {"percent": 100}
USUAL = 50
FILLS = True  # the first run of a tuning fills it, and is not compared
FOLDER_VARIABLE = "HOTLAP_SAMPLES"  # where trials of a tuning keep samples for those that follow
DISK = "30%"  # of what is free there
WORTH_IT = 2.0  # times as fast from the cache as from the source
PASSES = 3  # that must all find it so, unless the samples take long, of which chance makes little
DOUBT_SECONDS = 0.05


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.iterable:
        return "an IterableDataset has no samples by number"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.7 * reading.share(verdict, "input")


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{"percent": USUAL}]


def by_hand(settings: dict[str, Any]) -> str:
    return f'dataset = hotlap.data.Tiered(dataset, ram="{settings.get("percent", USUAL)}%")'


def install(training: Training, settings: dict[str, Any]) -> None:
    share = f"{int(settings.get('percent', USUAL))}%"
    trials = os.environ.get(FOLDER_VARIABLE)
    originals = Originals(training, NAME)
    memories: dict[str, Any] = {}  # by what they are of

    def change(arguments: dict[str, Any]) -> None:
        dataset = arguments.get("dataset")
        if isinstance(dataset, training.torch.utils.data.IterableDataset):
            training.refused(NAME, "an IterableDataset has no samples by number")
            return
        from hotlap.data.failures import AS_IS
        from hotlap.data.tiered import Tiered, share_memory

        try:
            # A trial ends long before the epoch does: what it kept must be there for the next one.
            where = {"ram": share} if trials is None else {"ram": 0, "disk": DISK, "path": trials}
            cached = Tiered(dataset, **where, strict=False, on_error=AS_IS)
            faster, what = _faster(cached), _changed_by_samples(cached)
        except Exception as problem:
            training.refused(NAME, loading.in_short(problem))
            return
        if cached.unseen is not None:
            training.refused(NAME, unseen(cached.unseen))
            return
        if faster < WORTH_IT:
            training.refused(NAME, "its samples are made about as fast as a cache could give them")
            return
        if what is not None:
            training.refused(NAME, f"making a sample changes `{what}`, and a kept one is not made")
            return
        share_memory(cached, memories)
        say = functools.partial(_say_what_is_not_kept, training, cached)
        originals.replaced(dataset, cached, lambda: say() or _outdated(cached))
        atexit.register(_say_at_the_end, training, cached, originals)
        arguments["dataset"] = cached

    training.change_loaders(NAME, change)


def _say_what_is_not_kept(training: Training, cached: Any) -> None:
    """Before each epoch and at the end: workers count it where this process can see it."""
    if cached.passed_on:
        training.refused(NAME, "some samples cannot be kept, and come from the data set each time")


def _say_at_the_end(training: Training, cached: Any, originals: Originals) -> None:
    _say_what_is_not_kept(training, cached)
    wrong = cached.wrong()
    if wrong is not None and originals.stands_in(cached):  # no epoch has begun since it was found
        training.ended(NAME, wrong)


def _outdated(cached: Any) -> str | None:
    what = cached.outdated()
    return cached.wrong() if what is None else changed(what)


def _changed_by_samples(cached: Any) -> str | None:
    """What would stand still if samples were not made any more, such as how many there were."""
    from hotlap.data import keeping

    with _looking(cached.below.dataset):
        return keeping.found_here(cached.below.dataset, cached.probes)


@contextmanager
def _looking(source: Any) -> Iterator[None]:
    """Samples that are made inside leave nothing behind."""
    from hotlap.data import generators
    from hotlap.data.randomness import restored
    from hotlap.data.untouched import left_as_it_was

    with left_as_it_was(source), restored(), generators.restored(source):
        yield


def _faster(cached: Any) -> float:
    """How much faster what can be kept comes from a cache than from where it comes from now."""
    source, found = cached.below.dataset, math.inf
    with _looking(source):
        until = time.perf_counter() + DOUBT_SECONDS
        for _ in range(PASSES):
            found = min(found, _once(source, cached.probes))
            if found < WORTH_IT or time.perf_counter() > until:
                break
    return found


def _once(source: Any, probes: Sequence[int]) -> float:
    """The slowest of either is left out: a busy machine stands still for longer than a sample."""
    from hotlap.data.packing import pack, unpack

    made: list[float] = []
    taken: list[float] = []
    for index in probes:
        times = [time.perf_counter()]
        sample = source[index]
        times.append(time.perf_counter())
        packed = pack(sample)
        unpack(packed)
        times.append(time.perf_counter())
        unpack(packed)
        times.append(time.perf_counter())
        made.append(times[1] - times[0])
        taken.append(times[3] - times[2])
    usual = [sum(sorted(seconds)[: max(1, len(seconds) - 1)]) for seconds in (made, taken)]
    return usual[0] / (usual[1] or math.inf)
