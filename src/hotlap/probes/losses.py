"""The loss of every backward pass.

On a device it is cloned there and read only when the run is over: reading it would wait for the
device. Of a CPU's the number is kept: small tensors that stay between the activations of one step
and the next keep the allocator from using the room in between again.
"""

from __future__ import annotations

import math
from typing import Any

MOST = 4096
CLONE_IS_FELT_BELOW = 0.02  # seconds of a step


class Losses:
    def __init__(self) -> None:
        self._kept: list[Any] = []
        self.open = True

    def close_if_felt(self, step_seconds: float | None) -> None:
        """Called before timing begins: then only a step that does not notice it is followed on.

        Once closed it stays so: a curve with steps left out in its middle looks like another one.
        """
        self.open = self.open and step_seconds is not None and step_seconds >= CLONE_IS_FELT_BELOW

    def keep(self, tensors: Any) -> None:
        if not self.open or len(self._kept) >= MOST:
            return
        first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
        if getattr(first, "numel", lambda: 0)() == 1:
            loss = first.detach()
            self._kept.append(float(loss) if loss.is_cpu else loss.clone())

    def values(self) -> list[float | None]:
        """In the order of the backward passes; None for one that is not finite."""
        values: list[float | None] = []
        for kept in self._kept:
            value = float(kept)
            values.append(value if math.isfinite(value) else None)
        return values
