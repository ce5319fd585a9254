"""Batches of any nesting: their tensors, and the same nest with other tensors."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

DEPTH = 6


def tensors(torch: Any, value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < DEPTH:
        for item in _items(value):
            yield from tensors(torch, item, depth + 1)


def _items(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return vars(value).values()
    return ()


def replaced(torch: Any, value: Any, change: Callable[[Any], Any], depth: int = 0) -> Any:
    """The same nest with `change` applied to each tensor; kinds it does not know stay as is."""

    def again(item: Any) -> Any:
        return replaced(torch, item, change, depth + 1)

    if isinstance(value, torch.Tensor):
        return change(value)
    if depth >= DEPTH:
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(again, value))
    if type(value) in (list, tuple):
        return type(value)(map(again, value))
    if isinstance(value, dict):
        other = copy.copy(value)  # a class of its own stays that class
        for key, item in value.items():
            other[key] = again(item)
        return other
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)
        for name, item in vars(value).items():
            object.__setattr__(made, name, again(item))
        return made
    return value
