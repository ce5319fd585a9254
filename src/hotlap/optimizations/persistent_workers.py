"""Loader workers live on from one epoch to the next.

## What it does
Makes the training loader with `persistent_workers=True`.

## Why it helps
Without it every epoch starts its workers anew: forked ones take a moment, spawned ones seconds
each, and whatever the dataset had cached is gone.

## When it does not help
Long epochs. The workers keep their memory between epochs.

## By hand
One argument of the DataLoader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "persistent-workers"
NUMERICS = "close"  # a worker's random state lives on as well
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.persistent_workers:
        return "the loader's workers already live on"
    if not loader.workers:
        return "the loader has no workers"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return record.epoch_start_share or 0.0


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return "DataLoader(dataset, ..., persistent_workers=True)"


def install(training: Training, settings: dict[str, Any]) -> None:
    def change(arguments: dict[str, Any]) -> None:
        if not arguments.get("num_workers", 0):
            training.refused(NAME, "the loader has no workers")
            return
        if arguments.get("persistent_workers"):
            training.applied(NAME, "persistent_workers=True")
        arguments["persistent_workers"] = True

    training.change_loaders(NAME, change)
