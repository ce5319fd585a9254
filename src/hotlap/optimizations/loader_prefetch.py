"""Workers keep more batches ready.

## What it does
Makes the training loader with a larger `prefetch_factor` (batches each worker prepares ahead).

## Why it helps
Samples that take very different times to load: a slow one no longer stalls the loop.

## When it does not help
Loaders that are too slow on average: a longer queue runs dry as well. It takes memory for every
batch in it.

## By hand
One argument of the DataLoader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "loader-prefetch"
NUMERICS = "identical"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"batches": int}
UP_TO = {"batches": 10_000}


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if not loader.workers:
        return "the loader has no workers"
    if not candidates(record):
        return f"the workers already keep {loader.prefetch_factor} batches ready"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.1 * reading.share(verdict, "input")


def candidates(record: Record) -> list[dict[str, Any]]:
    loader = reading.loader(record)
    now = (loader.prefetch_factor if loader else None) or 2
    return [{"batches": number} for number in (4, 8) if number > now][:1]


def by_hand(settings: dict[str, Any]) -> str:
    return f"DataLoader(dataset, ..., prefetch_factor={settings.get('batches', 4)})"


def install(training: Training, settings: dict[str, Any]) -> None:
    batches = int(settings.get("batches", 4))

    def change(arguments: dict[str, Any]) -> None:
        if not arguments.get("num_workers", 0):
            training.refused(NAME, "the loader has no workers")
            return
        if arguments.get("prefetch_factor") == batches:
            training.applied(NAME, f"prefetch_factor={batches}")
        arguments["prefetch_factor"] = batches

    training.change_loaders(NAME, change)
