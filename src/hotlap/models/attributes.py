"""What modules keep besides parameters and buffers, so that it can be as it was."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from operator import is_not
from typing import Any, NamedTuple

import torch
from torch import nn

from hotlap import origins
from hotlap.models.sources import DEPTH, is_torchs

SMALL = 16_384  # numbers: a tensor that may be a statistic, and is copied to be what it was
CONTAINERS = (dict, list, set, deque, bytearray)


class Contents(NamedTuple):
    """The attributes of an object, or a container, and what was in it."""

    place: Any
    then: Any


class Written(NamedTuple):
    """A tensor that is no buffer, as it was in the forward pass."""

    tensor: torch.Tensor
    name: str
    version: int
    copied: torch.Tensor | None  # what it was: of those that are small enough

    @property
    def changed(self) -> bool:
        return version(self.tensor) != self.version


class Attributes:
    """Numbers, tensors, containers and simple objects that modules hold, as they are now.

    Of torch's own modules the attributes themselves, as Dropout's p: none of them changes what it
    holds in its forward pass.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._contents: list[Contents] = []
        self._tensors: dict[int, Written] = {}
        self._seen: set[int] = set()
        for module in modules:
            own = vars(module)
            self._contents.append(Contents(own, dict(own)))
            if not is_torchs(type(module)):
                self._contents.append(Contents(module._buffers, dict(module._buffers)))
                held = ((name, one) for name, one in own.items() if name not in MACHINERY)
                self._note(held, type(module), DEPTH)

    def _note(self, named: Iterable[tuple[str, Any]], owner: type, depth: int) -> None:
        for name, value in named:
            if isinstance(value, torch.Tensor):
                self._tensors.setdefault(id(value), _written(value, name))
            elif depth and id(value) not in self._seen:
                place = inside(value, owner)
                if place is not None:
                    self._seen.add(id(value))
                    if not isinstance(place, tuple):
                        self._contents.append(Contents(place, _copied(place)))
                    self._note(((name, one) for one in _values(place)), owner, depth - 1)

    def lost(self) -> Iterator[str]:
        """The names of tensors that were written over and are too large to be copied."""
        for one in self._tensors.values():
            if one.copied is None and one.changed:
                yield one.name

    def put_back(self, stack: ExitStack) -> None:
        """Until the stack is left; what is changed meanwhile is not kept."""
        fresh = {
            at: one.copied.clone()
            for at, one in self._tensors.items()
            if one.copied is not None and one.changed
        }
        for place, then in self._contents:
            stack.callback(_fill, place, _copied(place))
            _fill(place, _replaced(then, fresh) if fresh else then)

    def known(self) -> set[int]:
        """The ids of what was there."""
        values = (value for one in self._contents for value in _values(one.then))
        return {*map(id, values), *self._tensors}


MACHINERY = frozenset(vars(nn.Module()))


def version(tensor: torch.Tensor) -> int:
    """Counts what is written into a tensor; tensors of inference mode have no such count."""
    return 0 if tensor.is_inference() else int(tensor._version)


def _written(tensor: torch.Tensor, name: str) -> Written:
    may_change = tensor.numel() <= SMALL and not tensor.requires_grad
    copied = tensor.detach().clone() if may_change else None
    return Written(tensor, name, version(tensor), copied)


def inside(value: Any, owner: type) -> Any:
    """What can be looked into: containers, small arrays, and simple objects of the user's."""
    if isinstance(value, (*CONTAINERS, tuple)):
        return value if len(value) <= SMALL else None
    if _is_array(value):
        return value if value.size <= SMALL else None
    if isinstance(value, (type, types.FunctionType, types.ModuleType, nn.Module)):
        return None
    return vars(value) if hasattr(value, "__dict__") and _is_simple(value, owner) else None


def _is_simple(value: Any, owner: type) -> bool:
    """Others may belong to threads or libraries, which go on while a module runs again."""
    if isinstance(value, types.SimpleNamespace) or dataclasses.is_dataclass(value):
        return True
    package = origins.library(owner)
    return package != "torch" and origins.library(type(value)) == package


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _values(place: Any) -> Iterable[Any]:
    if isinstance(place, bytearray) or _is_array(place):
        return ()
    return place.values() if isinstance(place, dict) else place


def _copied(place: Any) -> Any:
    if isinstance(place, dict):
        return dict(place)
    if isinstance(place, bytearray) or _is_array(place):
        return place.copy()
    return set(place) if isinstance(place, set) else list(place)


def _replaced(then: Any, fresh: dict[int, torch.Tensor]) -> Any:
    if isinstance(then, dict):
        return {key: _fresh(value, fresh) for key, value in then.items()}
    if isinstance(then, (list, set)):
        return type(then)(_fresh(value, fresh) for value in then)
    return then


def _fresh(value: Any, fresh: dict[int, torch.Tensor]) -> Any:
    """Tuples, which cannot be filled, are made anew where a tensor in them is."""
    if not isinstance(value, tuple):
        return fresh.get(id(value), value)
    values = [_fresh(one, fresh) for one in value]
    return like(value, values) if any(map(is_not, value, values)) else value


def like(one: tuple[Any, ...], values: list[Any]) -> tuple[Any, ...]:
    return one._make(values) if hasattr(one, "_make") else tuple(values)


def _fill(place: Any, contents: Any) -> None:
    """Leaves alone what is there already, which is the rule."""
    if isinstance(place, bytearray):
        place[:] = contents
    elif _is_array(place):
        place[...] = contents
    elif not _is_same(place, contents):
        place.clear()
        if isinstance(place, dict):
            for key, value in contents.items():  # a Counter's update would add
                place[key] = value
        else:
            (place.update if isinstance(place, set) else place.extend)(contents)


def _is_same(place: Any, contents: Any) -> bool:
    if len(place) != len(contents):
        return False
    if isinstance(place, dict):
        alike = not any(map(is_not, place, contents))
        return alike and not any(map(is_not, place.values(), contents.values()))
    if isinstance(place, set):
        return bool(place == contents)
    return not any(map(is_not, place, contents))
