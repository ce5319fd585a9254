"""Gradients are dropped between steps instead of being overwritten with zeros.

## What it does
Turns `zero_grad(set_to_none=False)` into torch's default, `True`.

## Why it helps
No kernel has to fill the gradients, and the first one of a step is stored instead of added.

## When it does not help
Scripts that leave the default alone; ones that read gradients after `zero_grad` fail, and the row
says so.

## By hand
Leave the argument out.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "zero-grad-none"
NUMERICS = "identical"
CONFLICTS: tuple[str, ...] = ("gradient-accumulation",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
ALREADY = "the script already lets gradients go (torch's default)"


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
    torch = training.torch
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        _change(training, owner)


def _change(training: Training, owner: Any) -> None:
    plain = owner.zero_grad

    @functools.wraps(plain)
    def zero_grad(this: Any, set_to_none: bool = True) -> None:
        plain(this, set_to_none=True)
        if not set_to_none:
            training.applied(NAME)
        elif NAME not in training.done:
            training.refused(NAME, ALREADY)

    owner.zero_grad = zero_grad
