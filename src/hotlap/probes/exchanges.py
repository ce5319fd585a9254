"""What DistributedDataParallel sends between ranks: how much, and how many times a step.

It exchanges gradients in a backward pass that follows a call of the model, unless the script has
told it not to. Several calls may share one backward pass, so the fewer of both are what was
exchanged.
"""

from __future__ import annotations

import statistics
import weakref
from collections import Counter, deque
from typing import Any

ASKED = "require_backward_grad_sync"
MOST_STEPS = 16  # the last ones tell what the training does


class Exchanges:
    def __init__(self, torch: Any) -> None:
        self._torch = torch
        # By root, looked for at its first call; weak, because a dropped model must be free to go.
        self._wrappers: weakref.WeakKeyDictionary[Any, list[weakref.ref[Any]]] = (
            weakref.WeakKeyDictionary()
        )
        self._steps: deque[_Step] = deque(maxlen=MOST_STEPS)
        self._facts: dict[str, Any] | None = None

    def called(self, root: Any, step: int) -> None:
        """A training forward of a root module, as part of the step after so many."""
        found = self._wrappers.get(root)
        if found is None:
            wrapped = wrappers(self._torch, root)
            self._wrappers[root] = found = [weakref.ref(one) for one in wrapped]
            self._facts = _facts(self._torch, wrapped) if wrapped else self._facts
        for reference in found:
            if getattr(reference(), ASKED, False):
                self._of(step).calls[id(reference)] += 1

    def passed_back(self, step: int) -> None:
        if self._facts is not None:
            self._of(step).backwards += 1

    def _of(self, step: int) -> _Step:
        if not self._steps or self._steps[-1].number != step:
            self._steps.append(_Step(step))
        return self._steps[-1]

    def summary(self) -> dict[str, Any] | None:
        """None where no model is wrapped."""
        if self._facts is None:
            return None
        whole = list(self._steps)[:-1]  # the last one may not be over
        seen = [min(one.backwards, max(one.calls.values(), default=0)) for one in whole]
        return {**self._facts, "per_step": float(statistics.median(seen)) if seen else None}


class _Step:
    def __init__(self, number: int) -> None:
        self.number = number
        self.calls: Counter[int] = Counter()  # by wrapper; the one that exchanges most often counts
        self.backwards = 0


def wrappers(torch: Any, root: Any) -> list[Any]:
    """Every DistributedDataParallel in a module, itself included."""
    kind = torch.nn.parallel.DistributedDataParallel
    return [one for one in root.modules() if isinstance(one, kind)]


def _facts(torch: Any, found: list[Any]) -> dict[str, Any]:
    gradients = [
        parameter for one in found for parameter in one.parameters() if parameter.requires_grad
    ]
    return {
        "bytes": sum(one.numel() * one.element_size() for one in gradients),
        "backend": str(torch.distributed.get_backend(found[0].process_group)),
        "hook": any(getattr(one, "_comm_hooks", ()) for one in found),
        "views": all(getattr(one, "gradient_as_bucket_view", False) for one in found),
    }
