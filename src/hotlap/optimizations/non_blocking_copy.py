"""Copies of loader batches to the device do not make the host wait.

## What it does
`.to(device)` and `.cuda()` of a pinned tensor that came from a DataLoader copy with
`non_blocking=True`. Tensors the script pinned by itself are left alone: it may write to them again
while the copy is under way.

## Why it helps
The host goes on to issue the forward pass while the batch travels.

## When it does not help
Without pinned memory. When the step waits for the device anyway (`.item()`).

## By hand
One argument of each copy.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from hotlap.data import nests
from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "non-blocking-copy"
NUMERICS = "identical"
CONFLICTS: tuple[str, ...] = ("device-prefetch",)
NEEDS: tuple[str, ...] = ("pinned-memory",)
SETTINGS: dict[str, Any] = {}
REMEMBERED = 64  # tensors of the last batches


def refusal(record: Record) -> str | None:
    if (why := reading.only_cuda(record)) is not None:
        return why
    if reading.loader(record) is None:
        return "no DataLoader feeds the training"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.6 * reading.share(verdict, "transfer") + 0.02


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return "inputs = inputs.to(device, non_blocking=True)"


def install(training: Training, settings: dict[str, Any]) -> None:
    torch = training.torch
    recent: dict[int, Any] = {}  # addresses, with weak references to the tensors they were of
    base = torch.utils.data.dataloader._BaseDataLoaderIter
    plain_next = base.__next__

    @functools.wraps(plain_next)
    def following(this: Any) -> Any:
        batch = plain_next(this)
        if getattr(this, "_pin_memory", False):
            for tensor in nests.tensors(torch, batch):
                recent[tensor.data_ptr()] = weakref.ref(tensor)
            while len(recent) > REMEMBERED:
                del recent[next(iter(recent))]
        return batch

    base.__next__ = following
    for name in ("to", "cuda"):
        _replace(training, name, recent)


def _replace(training: Training, name: str, recent: dict[int, Any]) -> None:
    torch = training.torch
    plain = getattr(torch.Tensor, name)
    is_compiling = torch.compiler.is_compiling

    @functools.wraps(plain)
    def copy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            is_compiling()
            or not recent
            or "non_blocking" in kwargs
            or any(isinstance(argument, bool) for argument in args)  # given by place
            or not _from_loader(tensor, recent)
        ):
            return plain(tensor, *args, **kwargs)
        training.applied(NAME)
        return plain(tensor, *args, **{**kwargs, "non_blocking": True})

    setattr(torch.Tensor, name, copy)


def _from_loader(tensor: Any, recent: dict[int, Any]) -> bool:
    try:
        if tensor.is_cuda or tensor.data_ptr() not in recent:
            return False
    except RuntimeError:  # sparse, or inside of vmap: it has no address
        return False
    # Once the loader's tensor is gone its memory may be one the script has pinned.
    alive = recent[tensor.data_ptr()]() is not None
    return alive and bool(tensor.is_pinned())
