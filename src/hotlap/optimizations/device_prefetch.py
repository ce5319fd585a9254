"""The next batch is copied to the device on a stream of its own while this one is trained on.

## What it does
Batches of the training loader come out with their tensors already on the device; the script's own
`.to(device)` then has nothing to do. The copy of the batch after is started as soon as it is ready
in pinned memory, on a side stream; the training waits for it on the device, not on the host.

## Why it helps
Copying hides behind computing even where the step ends with a wait for the device.

## When it does not help
Small batches. A script that works on a batch on the CPU before it moves it (`labels.numpy()`)
fails, and the row says so. Needs loader workers and pinned memory.

## By hand
A `DeviceLoader` around the loader; it works for any iterable of batches.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hotlap.data.copies import Copies, is_ready
from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "device-prefetch"
NUMERICS = "identical"
CONFLICTS: tuple[str, ...] = ("non-blocking-copy",)
NEEDS: tuple[str, ...] = ("pinned-memory",)
SETTINGS: dict[str, Any] = {}


def refusal(record: Record) -> str | None:
    if (why := reading.only_cuda(record)) is not None:
        return why
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if not loader.workers:
        return "the loader has no workers"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.7 * reading.share(verdict, "transfer")


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return "from hotlap.data.loader import DeviceLoader\n\nloader = DeviceLoader(loader, device)"


def install(training: Training, settings: dict[str, Any]) -> None:
    torch = training.torch
    module = torch.utils.data.dataloader
    kind = module._MultiProcessingDataLoaderIter
    ahead = Ahead(training)
    plain_next, plain_reset = kind._next_data, kind._reset

    @functools.wraps(plain_next)
    def next_data(this: Any) -> Any:
        if ahead.device is None or not torch.is_grad_enabled() or not this._pin_memory:
            return ahead.leftover(this, plain_next)
        return ahead.next(this, plain_next)

    @functools.wraps(plain_reset)
    def reset(this: Any, *args: Any, **kwargs: Any) -> Any:
        this.__dict__.pop(HELD, None)
        return plain_reset(this, *args, **kwargs)

    kind._next_data, kind._reset = next_data, reset
    training.when_training_starts(NAME, ahead.begin)


HELD = "_hotlap_ahead"


class Ahead:
    """Holds, for each iterator, the batch that was copied ahead (or how the data ended)."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._copies: Any = None

    @property
    def device(self) -> Any:
        return None if self._copies is None else self._copies.device

    def begin(self, module: Any) -> None:
        first = next((p for p in module.parameters() if p.is_cuda), None)
        if first is not None and self._copies is None:
            self._copies = Copies(self._training.torch, first.device)

    def leftover(self, iterator: Any, plain: Any) -> Any:
        held = iterator.__dict__.pop(HELD, None)
        return self._hand_over(held) if held is not None else plain(iterator)

    def next(self, iterator: Any, plain: Any) -> Any:
        held = iterator.__dict__.pop(HELD, None)
        if held is None:
            held = self._start(iterator, plain)
        batch = self._hand_over(held)
        if is_ready(iterator):  # waiting for it now would delay this one's step
            iterator.__dict__[HELD] = self._start(iterator, plain)
        self._training.applied(NAME)
        return batch

    def _start(self, iterator: Any, plain: Any) -> Any:
        try:
            return self._copies.start(plain(iterator))
        except Exception as problem:  # told when its turn comes
            return problem

    def _hand_over(self, held: Any) -> Any:
        if isinstance(held, Exception):
            raise held
        return self._copies.hand_over(held)
