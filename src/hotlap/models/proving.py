"""Modules that do something else when they run again are found out before they are relied on.

In the first training steps, and ever more rarely after that, F and G run a second time right after
the first, as they will in the backward pass. What they make must be the same. What they keep for a
loss, beside what they return, was computed without gradients: whoever asks it for one is told.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from hotlap.models.repeating import Conditions

TOLERANCE = 0.01  # of the norm: kernels that add in another order each time, or are fused
COARSE = 0.05  # in half precision
HALF_PRECISION = (torch.bfloat16, torch.float16)


class Turns:
    """Counts training steps; with slots, so that no snapshot of attributes turns it back."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> bool:
        """Whether this one is the 1st, 2nd, 4th, 8th..."""
        self._count += 1
        return not self._count & (self._count - 1)


def provable(x: torch.Tensor) -> bool:
    """Whether there are numbers to look at."""
    return not (x.is_meta or type(x).__name__ == "FakeTensor")


def captured(x: torch.Tensor) -> bool:
    """Whether this goes into a CUDA graph: there no generator tells its state, nor takes one."""
    return bool(x.is_cuda and torch.cuda.is_current_stream_capturing())


class Proof:
    """Looks at all modules of a forward pass at once: a GPU is waited for once."""

    def __init__(self) -> None:
        self._modules: list[tuple[str, float]] = []
        self._off: list[torch.Tensor] = []

    def run(
        self, module: nn.Module, given: torch.Tensor, made: torch.Tensor, conditions: Conditions
    ) -> None:
        with conditions.again():
            with torch.enable_grad(), conditions.computing(), saved_tensors_hooks(_bare, _bare):
                again = module(given.detach().requires_grad_(_may_need(given)))
            computed = conditions.computed()
        for place, key in computed:
            _mark(place, key, conditions.name)
        half = made.dtype in HALF_PRECISION or conditions.autocast
        self._modules.append((conditions.name, COARSE if half else TOLERANCE))
        self._off.append(difference(again.detach(), made))

    def check(self) -> None:
        if not self._off:
            return
        found = torch.stack(self._off).tolist()
        for (name, allowed), off in zip(self._modules, found, strict=True):
            if off > allowed:
                raise RuntimeError(
                    f"{name} makes something else of the same input when it runs again, as it will "
                    f"in the backward pass: {off:.1%} of the norm; its gradients would be wrong. "
                    "It may count or draw outside of itself, or ask torch.is_grad_enabled(); keep "
                    "what it counts in attributes or buffers of its own, and its generators in "
                    "attributes, or keep it outside reversible blocks"
                )


def _bare(tensor: torch.Tensor) -> torch.Tensor:
    """Instead of hooks of the user's that would move to the CPU what nobody will ask for.

    Detached: an operation that keeps what it made, and that what it comes from, would never end.
    """
    return tensor.detach()


def _may_need(given: torch.Tensor) -> bool:
    return bool(given.is_floating_point() or given.is_complex())


def difference(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Relative, in float; NaN, which is above nothing, where there are no numbers to compare."""
    exact = torch.complex64 if one.is_complex() else torch.float32
    one, other = one.to(exact), other.to(exact)
    off = torch.linalg.vector_norm(one - other) / torch.linalg.vector_norm(other)
    return off.float()


def _mark(place: Any, key: Any, name: str) -> None:
    """Puts the same numbers there, from which no gradient can be asked."""
    try:
        kept = place[key]
    except LookupError:
        return
    if isinstance(kept, torch.Tensor) and _may_need(kept) and not kept.requires_grad:
        with torch.enable_grad():
            anchor = torch.zeros((), requires_grad=True, device=kept.device)
            place[key] = _Beside.apply(anchor, kept, f"{key} of {name}")


class _Beside(torch.autograd.Function):  # type: ignore[misc]
    """Stands behind what F or G keep beside what they return."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, kept: torch.Tensor, name: str) -> torch.Tensor:
        ctx.name = name
        return kept.detach().clone()

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(
            f"{ctx.name} is part of a loss, but in a ReversibleSequential only what F and G return "
            "has a gradient; compute it outside from what they return, or put its block into an "
            "nn.Sequential, which keeps activations"
        )
