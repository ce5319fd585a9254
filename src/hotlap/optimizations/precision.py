"""Autocast around a root module's call, from outside: shared by the two reduced precisions.

The loss is usually computed after the model, outside of it. There autocast would have kept it in
float32, so what the model answers is handed on as float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(widened(torch, item) for item in value))
    if type(value) in (list, tuple):
        return type(value)(widened(torch, item) for item in value)
    if isinstance(value, dict):
        for key, item in list(value.items()):  # in place: it may be a class of the model's own
            wide = widened(torch, item)
            if wide is not item:
                value[key] = wide
    return value
