"""The optimizers that were made: how, where, and which of them step."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from typing import Any

from hotlap.probes import places
from hotlap.probes.roles import Roles


class Optimizers:
    def __init__(self) -> None:
        self._facts: dict[int, dict[str, Any]] = {}
        self._made: dict[int, Any] = {}  # weak references
        # Never what keeps an optimizer (and with it a model) alive that the script has dropped.
        self.stepping: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.have_stepped = False
        self.nest = False  # some step within the step of another one
        self.roles = Roles()

    def __bool__(self) -> bool:
        return bool(self._facts)

    def made(self, optimizer: Any, place: tuple[str, int, str] | None) -> None:
        self._facts[id(optimizer)] = _describe(optimizer, place)
        self.roles.made(optimizer, place)
        try:
            self._made[id(optimizer)] = weakref.ref(optimizer)
        except TypeError:
            return

    def forget(self) -> None:
        self.stepping.clear()
        self.have_stepped = self.nest = False

    def stepped(self, optimizer: Any) -> bool:
        """Returns whether it is the first time for this one."""
        if id(optimizer) in self.stepping:
            return False
        self.stepping[id(optimizer)] = optimizer
        self.have_stepped = True
        if id(optimizer) not in self._facts:
            self.made(optimizer, places.here(3))
        return True

    def is_inner(self, optimizer: Any, *, early: bool) -> bool:
        """Whether another one's step runs this step, as that of SAM or Lookahead runs its base's.

        Looking costs, so it is done in early steps, of new optimizers, and where it was found.
        """
        if not (early or self.nest or id(optimizer) not in self.stepping):
            return False
        if _under_way() < 2:
            return False
        self.nest = True
        self.stepped(optimizer)
        return True

    def parameters(self) -> Iterable[Any]:
        """What is trained: of the optimizers that step, or of those made while none has."""
        known = list(self.stepping.values()) or [reference() for reference in self._made.values()]
        for optimizer in known:
            for group in getattr(optimizer, "param_groups", ()):
                yield from group["params"]

    def summary(self) -> list[dict[str, Any]]:
        return list(self._facts.values())[:8]


def _describe(optimizer: Any, place: tuple[str, int, str] | None) -> dict[str, Any]:
    groups = getattr(optimizer, "param_groups", None) or [{}]
    return {
        "name": type(optimizer).__name__,
        "torchs_own": type(optimizer).__module__.startswith("torch.optim"),
        "tensors": sum(len(group.get("params", ())) for group in groups),
        "fused": groups[0].get("fused"),
        "foreach": groups[0].get("foreach"),
        "can_fuse": "fused" in groups[0],
        "file": place[0] if place else None,
        "line": place[1] if place else None,
    }


def _under_way() -> int:
    """How many steps of optimizers run here, one within the other: each is a frame of torch's."""
    from torch.optim import Optimizer

    steps = Optimizer.profile_hook_step(_under_way).__code__
    found, frame = 0, sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        found += frame.f_code is steps
    return found


def trainable(tensors: Any) -> bool:
    """Whether one of them is what somebody may train: a leaf that gradients are kept for."""
    return any(
        getattr(one, "is_leaf", False) and getattr(one, "requires_grad", False) for one in tensors
    )
