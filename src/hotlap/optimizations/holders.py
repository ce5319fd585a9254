"""Who else holds a tensor's memory: a script that does sees what is written there."""

from __future__ import annotations

import sys
from typing import Any


class Holders:
    """Tells a tensor that nobody else holds from one that a script reads or writes elsewhere.

    A view shares the memory and not the object, an object handed to other libraries neither of
    them; what torch and Python hold themselves differs between their versions and is counted once.
    """

    def __init__(self, torch: Any) -> None:
        self._memory = getattr(torch._C, "_storage_Use_Count", None)
        self._object = getattr(torch.Tensor, "_use_count", None)
        parameter = torch.nn.Parameter(torch.zeros(1))
        parameter.grad = torch.zeros(1)
        self.alone = self.count(parameter.grad)

    @property
    def known(self) -> bool:
        """Whether this torch tells it."""
        return self._memory is not None

    def share_memory(self, parameter: Any) -> bool:
        """Whether another tensor lies there, too: a view, `.data`, an entry of a state_dict."""
        return self._memory is not None and self._in_memory(parameter) > self.alone[1]

    def _in_memory(self, tensor: Any) -> int:
        return int(self._memory(tensor.untyped_storage()._cdata)) if self._memory else 0

    def count(self, gradient: Any) -> tuple[int, ...]:
        """Like `alone` where nobody does; of `parameter.grad`, as a name for it is a holder."""
        objects = self._object(gradient) if self._object else 0
        return sys.getrefcount(gradient), self._in_memory(gradient), objects
