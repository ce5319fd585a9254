"""Autocast around a root module's call, from outside: shared by the two reduced precisions.

The loss is usually computed after the model, outside of it. There autocast would have kept it in
float32, so what the model answers is handed on as float32. A script that has its own autocast
around the call, or parameters of reduced precision, is left to what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from hotlap.data import nests

if TYPE_CHECKING:
    from hotlap.optimizations.training import Call


REDUCED = {"bfloat16", "float16"}


def own_types(types: Iterable[str]) -> str | None:
    """Why a model with parameters of these types is left as it is."""
    found = sorted(types)
    if found and ("float32" not in found or REDUCED & set(found)):
        return f"the model's parameters are {', '.join(found)}"
    return None


def types(module: Any) -> set[str]:
    floating = (one.dtype for one in module.parameters() if one.is_floating_point())
    return {str(one).removeprefix("torch.") for one in floating}


def device(torch: Any, module: Any) -> Any:
    first = next(module.parameters(), None)
    return first.device if first is not None else torch.device("cpu")


def around(torch: Any, dtype: Any) -> Callable[[Any, Call], Call]:
    def wrap(module: Any, call: Call) -> Call:
        kind = device(torch, module).type

        def reduced(*args: Any, **kwargs: Any) -> Any:
            if torch.is_autocast_enabled(kind):
                return call(*args, **kwargs)
            with torch.autocast(kind, dtype=dtype):
                result = call(*args, **kwargs)
            return widened(torch, result)

        return reduced

    return wrap


def widened(torch: Any, value: Any) -> Any:
    """The same nest of things, with tensors of reduced precision as float32."""
    reduced = (torch.bfloat16, torch.float16)
    return nests.replaced(torch, value, lambda one: one.float() if one.dtype in reduced else one)
