"""The same effective batch in parts: less memory, several forward passes for each update.

## What it does
Divides the training loader's batch size by `parts`; every backward pass counts for its part, and
only every `parts`-th optimizer step (and gradient reset, and clipping, and step of a schedule that
is stepped with each batch) is carried out.

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
import weakref
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading, weights

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "gradient-accumulation"
NUMERICS = "changes"
CONFLICTS: tuple[str, ...] = ("batch-size", "precision-fp16", "zero-grad-none")
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"parts": int}
REQUIRED = ("parts",)


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.batch_size is None:
        return "the loader's batches are made by a batch sampler"
    if record.step.unit == "backward":
        return "no optimizer is seen to step, so it cannot be told when a batch is whole"
    if len(record.optimizers) > 1:
        return "several optimizers step in turns"
    if any(one.name == "LBFGS" for one in record.optimizers):
        return "LBFGS looks at a batch more than once for each step"
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

    smaller: dict[int, int] = {}  # datasets, with the batch size they were given

    def change(arguments: dict[str, Any]) -> None:
        dataset, size = id(arguments.get("dataset")), int(arguments.get("batch_size", 1) or 0)
        if smaller.get(dataset) == size:
            return  # made anew from one that was changed, as Lightning does
        if arguments.get("batch_sampler") is not None or not size or size % parts:
            training.refused(NAME, f"a batch of {size} cannot be divided by {parts}")
            return
        rounds.active = True
        arguments["batch_size"] = smaller[dataset] = size // parts

    training.change_loaders(NAME, change)
    training.when_optimizer_made(rounds.wrap_optimizer)
    rounds.wrap_backward()
    rounds.wrap_clipping()
    rounds.wrap_schedules()


class _Rounds:
    """Counts the script's steps: every `parts`-th is one, and a new round begins after it."""

    def __init__(self, training: Training, parts: int) -> None:
        self._torch = training.torch
        self._parts = parts
        self._steps = 0  # that the script has asked for
        self._stepping = False
        self._seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.active = False
        module = training.torch.nn.Module
        module.zero_grad = self._at_the_beginning(module.zero_grad)

    @property
    def _begins(self) -> bool:
        return not self.active or self._steps % self._parts == 0

    @property
    def _ends(self) -> bool:
        return not self.active or (self._steps + 1) % self._parts == 0

    def wrap_backward(self) -> None:
        torch = self._torch
        plain = torch.autograd.backward

        @functools.wraps(plain)
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            start = None
            if self.active:
                start = weights.weighted(torch, tensors, grad_tensors, 1.0 / self._parts)
            return plain(*(start or (tensors, grad_tensors)), *args, **kwargs)

        torch.autograd.backward = backward

    def wrap_optimizer(self, optimizer: Any) -> None:
        kind = type(optimizer)
        if not getattr(kind.step, "_hotlap_rounds", False):
            kind.step = self._at_the_end(kind.step)
        if not getattr(kind.zero_grad, "_hotlap_rounds", False):
            kind.zero_grad = self._at_the_beginning(kind.zero_grad)

    def _at_the_end(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def step(this: Any, closure: Any = None, **kwargs: Any) -> Any:
            if self._stepping:  # a class's own step, around that of the class below
                return plain(this, closure, **kwargs) if closure else plain(this, **kwargs)
            self._stepping = True
            try:
                if self._ends:
                    return plain(this, closure, **kwargs) if closure else plain(this, **kwargs)
                with self._torch.enable_grad():
                    return closure() if closure else None
            finally:
                self._stepping = False
                self._steps += 1

        step._hotlap_rounds = True  # type: ignore[attr-defined]
        return step

    def _at_the_beginning(self, plain: Any) -> Any:
        @functools.wraps(plain)
        def zero_grad(this: Any, *args: Any, **kwargs: Any) -> Any:
            return plain(this, *args, **kwargs) if self._begins else None

        zero_grad._hotlap_rounds = True  # type: ignore[attr-defined]
        return zero_grad

    def wrap_clipping(self) -> None:
        """Gradients are clipped when they are whole; before that only their norm is answered."""
        owners = (self._torch.nn.utils, self._torch.nn.utils.clip_grad)
        by_norm, by_value = owners[0].clip_grad_norm_, owners[0].clip_grad_value_

        @functools.wraps(by_norm)
        def clip_norm(parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> Any:
            most = max_norm if self._ends else float("inf")
            return by_norm(parameters, most, *args, **kwargs)

        @functools.wraps(by_value)
        def clip_value(*args: Any, **kwargs: Any) -> None:
            if self._ends:
                by_value(*args, **kwargs)

        for owner in owners:
            owner.clip_grad_norm_, owner.clip_grad_value_ = clip_norm, clip_value

    def wrap_schedules(self) -> None:
        kind = self._torch.optim.lr_scheduler.LRScheduler
        for found in {kind, *_subclasses(kind)}:
            if "step" in vars(found):
                found.step = self._per_update(found.step)

    def _per_update(self, plain: Any) -> Any:
        """A schedule that is stepped with every batch counts updates, as it did before."""

        @functools.wraps(plain)
        def step(this: Any, *args: Any, **kwargs: Any) -> Any:
            with_every_batch = self._steps - self._seen.get(this, 0) == 1
            self._seen[this] = self._steps
            being_made = not hasattr(this, "_last_lr")
            if with_every_batch and not being_made and not self._begins:
                return None
            return plain(this, *args, **kwargs)

        return step


def _subclasses(kind: Any) -> list[Any]:
    return [deeper for one in kind.__subclasses__() for deeper in (one, *_subclasses(one))]
