"""Batches of any nesting: their tensors, and the same nest with other tensors."""

from __future__ import annotations

import array
import copy
import dataclasses
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

NO_NESTS = (str, bytes, bytearray, memoryview, range, array.array)
Change = Callable[[Any], Any]


def tensors(torch: Any, value: Any, outer: tuple[int, ...] = ()) -> Iterator[Any]:
    """All of a nest; one that is in itself is gone through once."""
    if isinstance(value, torch.Tensor):
        yield value
    elif id(value) not in outer:
        for item in _items(value):
            yield from tensors(torch, item, (*outer, id(value)))


def _items(value: Any) -> Iterable[Any]:
    if not _is_nest(value):
        return _fields(value).values()
    return value.values() if isinstance(value, Mapping) else value


def _is_nest(value: Any) -> bool:
    """Whether it is a container, and not one that is moved as a whole."""
    if type(value) in (list, tuple) or isinstance(value, (dict, UserDict)):
        return True
    if isinstance(value, NO_NESTS) or _is_record(value):
        return False
    if not isinstance(value, (Mapping, Sequence)):
        return False
    return _is_named_tuple(value) or not callable(getattr(value, "to", None))


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


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
    change: Change,
    outer: tuple[int, ...] = (),
    *,
    unknown: Change = _as_it_is,
) -> Any:
    """The same nest with `change` applied to each tensor, and `unknown` to what is no nest."""

    def again(item: Any) -> Any:
        return replaced(torch, item, change, (*outer, id(value)), unknown=unknown)

    if isinstance(value, torch.Tensor):
        return change(value)
    if id(value) in outer:  # it is in itself
        return value
    if type(value).__name__ == "PackedSequence":
        return unknown(value)  # some of its tensors belong on the CPU
    if not _is_nest(value):
        return _record(value, again) if _is_record(value) else unknown(value)
    if isinstance(value, Mapping):
        return _mapping(value, again)
    return _sequence(value, again)


def _record(value: Any, again: Change) -> Any:
    changed = _changed(_fields(value).items(), again)
    if not changed:
        return value
    other = copy.copy(value)
    for name, item in changed.items():
        object.__setattr__(other, name, item)
    return other


def _changed(items: Iterable[tuple[Any, Any]], again: Change) -> dict[Any, Any]:
    found = {name: (item, again(item)) for name, item in items}
    return {name: new for name, (old, new) in found.items() if new is not old}


def _mapping(value: Any, again: Change) -> Any:
    changed = _changed(value.items(), again)
    if not changed:
        return value
    try:
        if not isinstance(value, MutableMapping):
            return type(value)({**value, **changed})
        other = copy.copy(value)  # a class of its own stays that class
        for name, item in changed.items():
            other[name] = item
    except TypeError:  # it is made in another way
        return {**value, **changed}
    return other


def _sequence(value: Any, again: Change) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(again, value))
    changed = _changed(enumerate(value), again)
    if not changed:
        return value
    items = [changed.get(at, item) for at, item in enumerate(value)]
    try:
        if _is_named_tuple(value):
            return type(value)(*items)
        if not hasattr(value, "__setitem__"):
            return type(value)(items)
        other = copy.copy(value)
        for at, item in changed.items():
            other[at] = item
    except TypeError:
        return tuple(items) if isinstance(value, tuple) else items
    return other
