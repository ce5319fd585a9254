"""cuDNN times its convolution algorithms once for each shape and keeps the fastest.

## What it does
Sets `torch.backends.cudnn.benchmark`.

## Why it helps
The heuristic choice is often not the fastest one for a given shape and GPU.

## When it does not help
Shapes that change from step to step: each new one is searched again. The first steps are slower,
and the search itself takes memory.

## By hand
One line at the start of the script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "cudnn-benchmark"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}


def refusal(record: Record) -> str | None:
    if (why := reading.only_cuda(record)) is not None:
        return why
    if reading.script(record).get("cudnn_benchmark"):
        return "the script already sets it"
    if not any(name.startswith("Conv") for name in reading.layers(record)):
        return "the model has no convolutions"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.15 * reading.share(verdict, "compute")


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return "torch.backends.cudnn.benchmark = True"


def install(training: Training, settings: dict[str, Any]) -> None:
    training.torch.backends.cudnn.benchmark = True
    training.applied(NAME)
