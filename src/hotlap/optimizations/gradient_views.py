"""Gradients lie in the buffers in which DistributedDataParallel sends them.

## What it does
Makes each `DistributedDataParallel` with `gradient_as_bucket_view=True`: a parameter's gradient is
a view of the buffer it is sent in.

## Why it helps
Otherwise every gradient is there twice, and is copied into the buffer before it is sent and back
afterwards. It saves as much memory as the trained parameters take, and both copies.

## When it does not help
Where the network bounds the step, its copies do not: over 1 Gbit/s between two ranks it made no
difference to the time (1.00 times, 0.97 to 1.03; bench/exchange.py). Where activations take most of
the memory, its share is small. Gradients that are views cannot be detached with `detach_()`: torch
ends a script that does it with an error, in a trial with that reason.

## By hand
One argument.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "gradient-views"
NUMERICS = "identical"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
ARGUMENT = "gradient_as_bucket_view"
ALREADY = "the script's gradients are such views already"
COPIED = 0.05  # of the time that ranks exchange gradients: what the copies may take at most


def refusal(record: Record) -> str | None:
    found = reading.exchange(record)
    if not found:
        return reading.NO_EXCHANGE
    return ALREADY if found.get("views") else None


def promise(record: Record, verdict: Verdict) -> float:
    return COPIED * reading.share(verdict, "communication")


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return f"DistributedDataParallel(model, ..., {ARGUMENT}=True)"


def install(training: Training, settings: dict[str, Any]) -> None:
    kind = training.torch.nn.parallel.DistributedDataParallel
    plain = kind.__init__
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def init(this: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(this, *args, **kwargs)
        except TypeError:  # torch says it better
            plain(this, *args, **kwargs)
            return
        already = bound.arguments.get(ARGUMENT)
        bound.arguments[ARGUMENT] = True
        plain(*bound.args, **bound.kwargs)
        if already:
            training.refused(NAME, ALREADY)
        else:
            training.applied(NAME)

    kind.__init__ = init
