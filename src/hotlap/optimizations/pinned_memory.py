"""Batches arrive in page-locked memory, from which the GPU can copy by itself.

## What it does
Makes the training loader with `pin_memory=True`.

## Why it helps
Copies to the device are faster, and can run beside the computation (see non-blocking-copy).

## When it does not help
Small batches: pinning them costs a thread and a copy more. Without a GPU torch pins nothing.

## By hand
One argument of the DataLoader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "pinned-memory"
NUMERICS = "identical"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}


def refusal(record: Record) -> str | None:
    if not reading.on_device(record):
        return reading.NO_DEVICE
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.pin_memory:
        return "the loader already pins"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.5 * reading.share(verdict, "transfer")


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return "DataLoader(dataset, ..., pin_memory=True)"


def install(training: Training, settings: dict[str, Any]) -> None:
    def change(arguments: dict[str, Any]) -> None:
        if not _has_device(training.torch):
            training.refused(NAME, "there is no GPU")
            return
        if arguments.get("pin_memory"):
            training.applied(NAME, "pin_memory=True")
        arguments["pin_memory"] = True

    training.change_loaders(NAME, change)


def _has_device(torch: Any) -> bool:
    """As a loader asks that pins: older torch knows no accelerators but CUDA."""
    return bool(getattr(torch, "accelerator", torch.cuda).is_available())
