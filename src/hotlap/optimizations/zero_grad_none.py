"""Gradients are dropped between steps instead of being overwritten with zeros.

## What it does
Turns `zero_grad(set_to_none=False)` into torch's default, `True`. What torch does otherwise then is
made up for: a parameter that gets no gradient from the next backward pass has zeros after it, so
that momentum and weight decay go on for it, and a gradient that the script reads before that is
zeros. Gradients that are views, or that the script holds on to, be it through a view or `.data`,
are overwritten as before.

## Why it helps
No kernel has to fill the gradients, and the first one of a step is stored instead of added.

## When it does not help
Scripts that leave the default alone, and ones in which most parameters get no gradient in a step or
have it read between `zero_grad` and the backward pass.

## By hand
Leave the argument out.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading
from hotlap.optimizations.holders import Holders

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "zero-grad-none"
NUMERICS = "identical"
CONFLICTS: tuple[str, ...] = ("gradient-accumulation",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
HELD = "the script holds on to its gradients"
UNTOLD = "this torch does not tell who else holds a gradient's memory"
ALREADY = "gradients are dropped between steps already (torch's default)"


def refusal(record: Record) -> str | None:
    if not reading.script(record).get("keeps_gradients"):
        return ALREADY
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.1 * (record.phases["optimizer"].share or 0.0)


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return "optimizer.zero_grad()  # without set_to_none=False"


def install(training: Training, settings: dict[str, Any]) -> None:
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    torch = training.torch
    holders = Holders(torch)
    if not holders.known:
        training.refused(NAME, UNTOLD)
        return
    dropped = Dropped(torch, holders)
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        _change(training, owner, dropped)
    _make_up_after_backward(torch, dropped)
    register_optimizer_step_pre_hook(lambda *_: dropped.make_up())


def _change(training: Training, owner: Any, dropped: Dropped) -> None:
    plain = owner.zero_grad

    @functools.wraps(plain)
    def zero_grad(this: Any, set_to_none: bool = True) -> None:
        dropped.look_away()
        if set_to_none:
            dropped.forget(_parameters(this))
            plain(this, set_to_none=True)
            dropped.watch()
            if NAME not in training.done:
                training.refused(NAME, ALREADY)
            return
        went, held = dropped.drop(_parameters(this))
        plain(this, set_to_none=False)  # those that are held
        dropped.watch()
        if went:
            training.applied(NAME)
        elif held:
            training.refused(NAME, HELD)

    owner.zero_grad = zero_grad


def _parameters(owner: Any) -> Iterator[Any]:
    if hasattr(owner, "param_groups"):
        return (one for group in owner.param_groups for one in group["params"])
    return iter(owner.parameters())


def _make_up_after_backward(torch: Any, dropped: Dropped) -> None:
    plain = torch.autograd.backward

    @functools.wraps(plain)
    def backward(*args: Any, **kwargs: Any) -> Any:
        try:
            return plain(*args, **kwargs)
        finally:
            dropped.make_up()

    torch.autograd.backward = backward


class Dropped:
    """Parameters whose gradients would be zeros now, and are not there.

    While there are some, a script's reading of `grad` goes through a property that makes the zeros
    up. After the backward pass, where most of the reading is done, torch's own way is back.
    """

    def __init__(self, torch: Any, holders: Holders) -> None:
        self._torch = torch
        self._kind = torch.nn.Parameter
        self._waiting: dict[int, weakref.ref[Any]] = {}
        self._holders = holders
        self._kept = torch.Tensor.grad
        self._seen = property(self._read, self._write, self._delete)

    def drop(self, parameters: Iterator[Any]) -> tuple[int, int]:
        """How many gradients went, and how many have to stay."""
        went, held, holders = 0, 0, self._holders
        for one in parameters:
            if one.grad is None:
                continue
            if not self._ordinary(one) or holders.count(one.grad) != holders.alone:
                held += 1
                continue
            one.grad = None
            self._waiting[id(one)] = weakref.ref(one)
            went += 1
        return went, held

    def _ordinary(self, parameter: Any) -> bool:
        """Whether zeros like the parameter are what its gradient would have become."""
        gradient = parameter.grad
        return (
            issubclass(type(parameter), self._kind)
            and type(gradient) is self._torch.Tensor
            and gradient.layout is self._torch.strided
            and gradient.dtype is parameter.dtype
            and not gradient._is_view()
        )

    def forget(self, parameters: Iterator[Any]) -> None:
        """The script itself lets these gradients go."""
        for one in parameters if self._waiting else ():
            self._waiting.pop(id(one), None)

    def watch(self) -> None:
        if self._waiting:
            self._kind.grad = self._seen

    def look_away(self) -> None:
        if vars(self._kind).get("grad") is self._seen:
            del self._kind.grad

    def _read(self, parameter: Any) -> Any:
        gradient = self._kept.__get__(parameter)
        reference = self._waiting.pop(id(parameter), None) if gradient is None else None
        if reference is not None and reference() is parameter:
            gradient = self._torch.zeros_like(parameter)
            self._kept.__set__(parameter, gradient)
        return gradient

    def _write(self, parameter: Any, gradient: Any) -> None:
        self._waiting.pop(id(parameter), None)
        self._kept.__set__(parameter, gradient)

    def _delete(self, parameter: Any) -> None:
        self._waiting.pop(id(parameter), None)
        self._kept.__delete__(parameter)

    def make_up(self) -> None:
        """Zeros for those that have got no gradient."""
        self.look_away()
        waiting, self._waiting = self._waiting, {}
        for reference in waiting.values():
            one = reference()
            if one is not None and one.grad is None:
                one.grad = self._torch.zeros_like(one)
