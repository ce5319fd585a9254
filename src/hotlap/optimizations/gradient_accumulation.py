"""The same effective batch in parts: less memory, several forward passes for each update.

## What it does
Divides the training loader's batch size by `parts`; every backward pass counts for its part, and
only every `parts`-th optimizer step (and gradient reset, and step of a learning-rate schedule) is
carried out.

## Why it helps
Activations of a part of the batch need a part of the memory.

## When it does not help
It is slower. Batch norm sees the smaller batches, so the result can differ: never used unless
allowed with `--allow gradient-accumulation`.

## By hand
An inner loop over parts of the batch.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "gradient-accumulation"
NUMERICS = "changes"
CONFLICTS: tuple[str, ...] = ("batch-size", "precision-fp16", "zero-grad-none")
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"parts": int}


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.batch_size is None:
        return "the loader's batches are made by a batch sampler"
    if len(record.optimizers) > 1:
        return "several optimizers step in turns"
    if reading.script(record).get("scaler"):
        return "the script scales its loss by itself"
    if not candidates(record):
        return f"a batch of {loader.batch_size} cannot be divided"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.0  # for memory, never for speed


def candidates(record: Record) -> list[dict[str, Any]]:
    loader = reading.loader(record)
    size = (loader.batch_size if loader else None) or 1
    return [{"parts": parts} for parts in (2, 4) if size % parts == 0]


def by_hand(settings: dict[str, Any]) -> str:
    parts = settings.get("parts", 2)
    return (
        f"for inputs, targets in zip(batch.chunk({parts}), labels.chunk({parts})):\n"
        f"    (criterion(model(inputs), targets) / {parts}).backward()\n"
        "optimizer.step()"
    )


def install(training: Training, settings: dict[str, Any]) -> None:
    parts = int(settings.get("parts", 2))
    rounds = _Rounds(training, parts)

    def change(arguments: dict[str, Any]) -> None:
        size = int(arguments.get("batch_size", 1) or 0)
        if arguments.get("batch_sampler") is not None or not size or size % parts:
            training.refused(NAME, f"a batch of {size} cannot be divided by {parts}")
            return
        rounds.active = True
        arguments["batch_size"] = size // parts

    training.change_loaders(NAME, change)
    training.when_optimizer_made(rounds.wrap_optimizer)
    rounds.wrap_backward()
    rounds.wrap_schedules()


class _Rounds:
    """Counts backward passes: the optimizer steps, and gradients go, at every `parts`-th."""

    def __init__(self, training: Training, parts: int) -> None:
        self._torch = training.torch
        self._parts = parts
        self._passes = 0
        self.active = False

    @property
    def complete(self) -> bool:
        return not self.active or self._passes % self._parts == 0

    def wrap_backward(self) -> None:
        torch = self._torch
        plain = torch.autograd.backward

        @functools.wraps(plain)
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            if self.active and grad_tensors is None and isinstance(tensors, torch.Tensor):
                grad_tensors = torch.full_like(tensors, 1.0 / self._parts)
            self._passes += 1
            return plain(tensors, grad_tensors, *args, **kwargs)

        torch.autograd.backward = backward

    def wrap_optimizer(self, optimizer: Any) -> None:
        kind = type(optimizer)
        for name in ("step", "zero_grad"):
            plain = getattr(kind, name)
            if not getattr(plain, "_hotlap_rounds", False):
                setattr(kind, name, self._only_complete(plain))

    def wrap_schedules(self) -> None:
        """A schedule that is stepped with every batch counts updates, as it did before."""
        kind = self._torch.optim.lr_scheduler.LRScheduler
        for found in {kind, *_subclasses(kind)}:
            if "step" in vars(found):
                found.step = self._only_complete(found.step)

    def _only_complete(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def only(this: Any, *args: Any, **kwargs: Any) -> Any:
            return plain(this, *args, **kwargs) if self.complete else None

        only._hotlap_rounds = True  # type: ignore[attr-defined]
        return only


def _subclasses(kind: Any) -> list[Any]:
    return [deeper for one in kind.__subclasses__() for deeper in (one, *_subclasses(one))]
