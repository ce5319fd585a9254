"""Batches of any nesting: their tensors, and the same nest with other tensors."""

from __future__ import annotations

import copy
import dataclasses
from collections import UserDict
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
    if isinstance(value, (dict, UserDict)):
        return value.values()
    if isinstance(value, (list, tuple)):
        return value
    return _fields(value).values()


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _fields(value: Any) -> dict[str, Any]:
    """Of a dataclass; nothing for anything else."""
    if not _is_record(value):
        return {}
    names = [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _as_it_is(value: Any) -> Any:
    return value


def replaced(
    torch: Any,
    value: Any,
    change: Callable[[Any], Any],
    depth: int = 0,
    *,
    unknown: Callable[[Any], Any] = _as_it_is,
) -> Any:
    """The same nest with `change` applied to each tensor, and `unknown` to what is no nest."""

    def again(item: Any) -> Any:
        return replaced(torch, item, change, depth + 1, unknown=unknown)

    if isinstance(value, torch.Tensor):
        return change(value)
    if depth >= DEPTH:
        return value
    if type(value).__name__ == "PackedSequence":
        return unknown(value)  # some of its tensors belong on the CPU
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(again, value))
    if type(value) in (list, tuple):
        return type(value)(map(again, value))
    a_dict = isinstance(value, (dict, UserDict))
    if not a_dict and not _is_record(value):
        return unknown(value)
    before = value if a_dict else _fields(value)
    changed = {key: again(item) for key, item in before.items()}
    changed = {key: item for key, item in changed.items() if item is not before[key]}
    if not changed:
        return value
    other = copy.copy(value)  # a class of its own stays that class
    for key, item in changed.items():
        if a_dict:
            other[key] = item
        else:
            object.__setattr__(other, key, item)
    return other
