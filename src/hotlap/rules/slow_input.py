"""The training loop waits for its batches.

## What it finds
A DataLoader that the loop waits for more than 15 % of the step. The waiting is told apart:
burning CPU (decoding, augmenting), waiting on storage, or waiting for workers that are done to hand
their batches over.

## Why it matters
Whatever the device could do, the step is at least as long as it takes to get a batch.

## When it is wrong
With the model on a device, waiting counts only as far as the device ran dry, so it is not wrong
about overlap. On a machine busy with other work it is too high.

## What to do
More workers, up to the cores the process may use; for storage up to four times as many, as far as
memory and /dev/shm allow. It is the number `hotlap tune` tries first. When there is room for no
more, make a sample cheaper: cache decoded samples, transform whole batches, on the device.

Where less than a millisecond is waited for a batch, workers make it worse: a batch takes about as
long from one process to another. Fetch the samples of a batch at once (`__getitems__`, or slices of
tensors), or keep them on the device (`hotlap.data.DeviceDataset`). Where workers are there already
and spend less than half of their time making batches, use fewer of them, or none. Where most of the
time goes to starting workers for each epoch, keep them (`persistent_workers=True`); for each step,
see [loader-restart](loader-restart.md).
"""

from __future__ import annotations

from hotlap import units
from hotlap.optimizations import loader_workers, reading
from hotlap.records import Finding, Loader, Record, Verdict

NAME = "slow-input"
LEAST_SHARE = 0.15
MOSTLY = 0.5


def check(record: Record, verdict: Verdict) -> Finding | None:
    phase = record.phases["input"]
    if phase.share is None or phase.seconds is None or phase.share < LEAST_SHARE:
        return None
    loader = record.loaders[0] if record.loaders else None
    waits = f"Training waits {units.share(phase.share)} of the step for its input"
    return Finding(
        rule=NAME,
        summary=f"{waits}{_kind(record)}.",
        evidence=_evidence(record, phase.seconds, loader),
        advice=_advice(record, loader),
        file=loader.file if loader else None,
        line=loader.line if loader else None,
    )


def _kind(record: Record) -> str:
    if reading.hands_over(record):
        return ", for workers to hand it over"
    if record.input_cpu_share is None:
        return ""
    return ", on storage" if reading.waits_on_storage(record) else ", on CPU work"


def _evidence(record: Record, waited: float, loader: Loader | None) -> str:
    facts = [f"{units.seconds(waited)} of {units.seconds(record.step.whole_seconds)} a step"]
    if loader is not None:
        facts.append(f"{loader.dataset} with num_workers={loader.workers}")
    if record.input_making_share is not None:
        making = units.share(record.input_making_share)
        facts.append(f"the workers make batches {making} of the time")
    if record.input_cpu_share is not None and not reading.hands_over(record):
        who = (
            "the workers are" if loader is not None and loader.workers else "the waiting thread is"
        )
        facts.append(f"{who} on a core {units.share(record.input_cpu_share)} of that time")
    return "; ".join(facts)


def _advice(record: Record, loader: Loader | None) -> str:
    if loader is None:
        return "Fetch the next batch while the current one trains."
    if _waits_for_restarts(record):
        when = "in each step" if reading.starts_each_step(record) else "with each epoch"
        return (
            f"{keeping_workers(record, loader)}: most of the wait is for workers that start anew "
            f"{when}."
        )
    if not loader.workers and reading.waits_briefly(record):
        return f"Workers would take longer to hand a batch over than it takes: {_at_once(record)}."
    workers = loader_workers.needed(record)
    if reading.hands_over(record) and workers < loader.workers:
        return f"Pass num_workers={workers} to this DataLoader, then {_at_once(record)}."
    if workers <= loader.workers:
        return _cheaper(record, loader.workers)
    argument = f"num_workers={workers}, persistent_workers=True"
    if loader.iterable:
        return f"Pass {argument} to this DataLoader, once its IterableDataset shards by worker."
    return f"Pass {argument} to this DataLoader."


def _waits_for_restarts(record: Record) -> bool:
    """Whether most of the wait is for workers that are started anew."""
    taken = reading.restarts(record)
    return taken > 0 and taken >= MOSTLY * (record.phases["input"].share or 0.0)


def keeping_workers(record: Record, loader: Loader) -> str:
    """What to do so that workers are not started over and over."""
    if reading.leaves_iterators(record):
        return (
            "Call iter() on this DataLoader once, before the loop, and next() on that in each "
            "step; or pass num_workers=0"
        )
    if reading.starts_each_step(record) and loader.batches == 1:
        return "Pass num_workers=0 to this DataLoader, whose one batch no worker can make ahead"
    return "Pass persistent_workers=True to this DataLoader"


def takes_workers_away(record: Record, loader: Loader) -> bool:
    """Whether the advice is to do without workers: then none need to be kept."""
    share = record.phases["input"].share
    return (
        share is not None
        and share >= LEAST_SHARE
        and not _waits_for_restarts(record)
        and reading.hands_over(record)
        and loader_workers.needed(record) == 0 < loader.workers
    )


def _at_once(record: Record) -> str:
    if any(loader.iterable for loader in record.loaders[:1]):
        return "let the IterableDataset yield whole batches (batch_size=None)"
    resident = ", or keep them on the device (hotlap.data.DeviceDataset)"
    return (
        "fetch the samples of a batch at once (__getitems__, or slices of tensors)"
        f"{resident if reading.on_device(record) else ''}"
    )


def _cheaper(record: Record, workers: int) -> str:
    if reading.hands_over(record):
        return f"Hand over less: {_at_once(record)}, or as smaller numbers (uint8)."
    if reading.waits_on_storage(record):
        known = bool(record.loaders) and not record.loaders[0].iterable
        at_once = "fetch the samples of a batch at once (hotlap.data.Concurrent)"
        return (
            f"{units.plural(workers, 'worker')} wait on storage already: "
            f"{at_once if known else 'read ahead in the IterableDataset'}, or cache them."
        )
    cores = reading.cores(record)
    taken = f"All {cores} cores are taken by {workers} workers already"
    return (
        f"{taken if workers >= cores else 'There is no room for more workers'}: make a sample "
        "cheaper (cache what is decoded, transform whole batches, do it on the device)."
    )
