"""What an object holds, without asking its code: a property may do anything, and take any time."""

from __future__ import annotations

import functools
import types
from typing import Any

DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)
Slots = tuple[tuple[str, Any], ...]


def attributes(value: Any) -> dict[str, Any]:
    """By name: what is in its `__dict__` and in its slots."""
    made_by: Any = type(value)
    own, slots = _readers(made_by)
    found: dict[str, Any] = {} if own is None else dict(own.__get__(value) or {})
    for name, slot in slots:
        try:
            found[name] = slot.__get__(value)
        except AttributeError:  # nothing was put there yet
            continue
    return found


def attributes_of_all(values: list[Any]) -> list[dict[str, Any]]:
    """The same for many of one class. Theirs where they have no slots, which is to be read only."""
    made_by: Any = type(values[0])
    own, slots = _readers(made_by)
    if own is None or slots:
        return list(map(attributes, values))
    return [found or {} for found in map(own.__get__, values)]


def has_attributes(value: Any) -> bool:
    made_by: Any = type(value)
    own, slots = _readers(made_by)
    return own is not None or bool(slots)


def is_worked_out(value: Any, name: str) -> bool:
    """Whether an attribute is one of those that come with the first look at them."""
    found = next((vars(one)[name] for one in type(value).__mro__ if name in vars(one)), None)
    return issubclass(type(found), functools.cached_property)


@functools.lru_cache(maxsize=1000)
def _readers(made_by: type) -> tuple[Any, Slots]:
    """What reads its `__dict__`, where it has one, and its slots by name."""
    own, slots = None, []
    for base in made_by.__mro__:
        for name, one in vars(base).items():
            if name == "__dict__" and own is None and type(one) in DESCRIPTORS:
                own = one
            elif type(one) is types.MemberDescriptorType and not name.startswith("__"):
                slots.append((name, one))
    return own, tuple(slots)
