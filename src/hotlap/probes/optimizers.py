"""The optimizers that were made: how, where, and which of them step."""

from __future__ import annotations

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
        self.have_stepped = False

    def stepped(self, optimizer: Any) -> bool:
        """Returns whether it is the first time for this one."""
        if id(optimizer) in self.stepping:
            return False
        self.stepping[id(optimizer)] = optimizer
        self.have_stepped = True
        if id(optimizer) not in self._facts:
            self.made(optimizer, places.here(3))
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


def trainable(tensors: Any) -> bool:
    """Whether one of them is what somebody may train: a leaf that gradients are kept for."""
    return any(
        getattr(one, "is_leaf", False) and getattr(one, "requires_grad", False) for one in tensors
    )
