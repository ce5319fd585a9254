"""Autocast around a root module's call, from outside: shared by the two reduced precisions.

The loss is usually computed after the model, outside of it. There autocast would have kept it in
float32, so what the model answers is handed on as float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hotlap.data import nests

if TYPE_CHECKING:
    from hotlap.optimizations.training import Call


def around(torch: Any, dtype: Any) -> Callable[[Any, Call], Call]:
    def wrap(module: Any, call: Call) -> Call:
        first = next(module.parameters(), None)
        kind = first.device.type if first is not None else "cpu"

        def reduced(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(kind, dtype=dtype):
                result = call(*args, **kwargs)
            return widened(torch, result)

        return reduced

    return wrap


def widened(torch: Any, value: Any) -> Any:
    """The same nest of things, with tensors of reduced precision as float32."""
    reduced = (torch.bfloat16, torch.float16)
    return nests.replaced(torch, value, lambda one: one.float() if one.dtype in reduced else one)
