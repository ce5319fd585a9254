"""How one thing that a data set holds was when it was noted, and whether it still is so.

None of the user's code is asked: what compares or lists its objects in a way of its own may do
anything, and the notes are compared for each batch.
"""

from __future__ import annotations

import array
import collections
import ctypes
import functools
import operator
import sys
import types
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import Dataset

from hotlap import origins
from hotlap.data.holding import attributes, has_attributes, is_worked_out
from hotlap.data.telling import is_opaque

PLAIN = (bool, int, float, str, bytes)
CODE = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
CTYPES: Any = ctypes.Structure.__mro__[1]  # what all of them are
MEMORY = (bytearray, array.array, CTYPES)
SHARED = "multiprocessing.sharedctypes"  # a number or an array with its lock
LONGEST = 64  # entries of a list or dict that are looked at each time
SMALL = 4096  # bytes of an array that are looked at each time
LARGEST = 1 << 24  # bytes of an array that are read; of larger ones some of each dimension
EACH = 64
MISSING = object()
LIBRARIES = frozenset((*sys.stdlib_module_names, "torch", "torchvision", "numpy", "hotlap"))
Found = tuple[str, Any]
NESTS: dict[type, Callable[[Any], list[Any]]] = {
    dict: lambda nest: [*dict.keys(nest), *dict.values(nest)],
    **{
        one: lambda nest, one=one: [*one.__iter__(nest)]  # type: ignore[misc]
        for one in (list, tuple, set, frozenset, collections.deque)
    },
}


class Note(Protocol):
    def changes(self) -> Iterator[str]: ...

    def is_quick(self) -> bool:
        """Whether it may be compared for each batch."""

    def inside(self) -> Iterator[Found]:
        """What else to note: things that this one holds."""


def notes(value: Any, where: str) -> Iterator[Note]:
    """Those of one thing; none of what cannot change, or cannot be seen to."""
    made_by: Any = type(value)
    nest = next((one for one in NESTS if issubclass(made_by, one)), None)
    if issubclass(made_by, torch.Tensor):
        if not value.is_inference():
            yield Written(where, value, value._version)
    elif issubclass(made_by, MEMORY) or _is_array(value):
        yield Memory(where, value, content_sum(value))
    elif issubclass(made_by, type):
        if is_the_users(value):
            yield OfClass(where, value, dict(vars(value)))
    elif made_by is functools.partial:
        given = value.func, value.args, value.keywords
        yield Several(where, given, [*given], tuple)
    else:
        if nest is not None:
            yield Several(where, value, NESTS[nest](value), nest)
        if has_attributes(value) and (not where or nest or is_looked_into(value)):
            held = {name: one for name, one in attributes(value).items() if counts(value, name)}
            yield Attributes(where, value, made_by, held)


@dataclass(frozen=True)
class Written:
    where: str
    tensor: Any
    times: int

    def changes(self) -> Iterator[str]:
        if self.tensor._version != self.times:
            yield self.where

    def is_quick(self) -> bool:
        return True

    def inside(self) -> Iterator[Found]:
        yield from ()


@dataclass(frozen=True)
class Several:
    where: str
    nest: Any
    entries: list[Any]
    kind: type

    def changes(self) -> Iterator[str]:
        now = NESTS[self.kind](self.nest)
        if len(now) == len(self.entries) and all(map(operator.is_, now, self.entries)):
            return
        if len(now) != len(self.entries) or any(map(is_other, now, self.entries)):
            yield self.where

    def is_quick(self) -> bool:
        return len(self.entries) <= LONGEST * (2 if self.kind is dict else 1)

    def inside(self) -> Iterator[Found]:
        for at, one in enumerate(self.entries):
            yield f"{self.where}.{at}", one


@dataclass(frozen=True)
class Memory:
    where: str
    memory: Any
    sum: int

    def changes(self) -> Iterator[str]:
        if content_sum(self.memory) != self.sum:
            yield self.where

    def is_quick(self) -> bool:
        return size_of(self.memory) <= SMALL and not holds_objects(self.memory)

    def inside(self) -> Iterator[Found]:
        yield from ()


@dataclass(frozen=True)
class Attributes:
    where: str
    holder: Any
    made_by: type
    held: dict[str, Any]

    def changes(self) -> Iterator[str]:
        if type(self.holder) is not self.made_by:
            yield within(self.where, "__class__")
        now = attributes(self.holder)
        for name, value in self.held.items():
            found = now.pop(name, MISSING)
            if found is not value and is_other(found, value):
                yield within(self.where, name)
        for name in now:
            if counts(self.holder, name) and not is_worked_out(self.holder, name):
                yield within(self.where, name)

    def is_quick(self) -> bool:
        return True

    def inside(self) -> Iterator[Found]:
        for name, one in self.held.items():
            yield within(self.where, name), one
        yield self.where, self.made_by


@dataclass(frozen=True)
class OfClass:
    """What all objects of a class of the user's share: numbers, options, methods."""

    where: str
    made_by: type
    held: dict[str, Any]

    def changes(self) -> Iterator[str]:
        now = vars(self.made_by)
        if len(now) == len(self.held) and all(map(operator.is_, now.values(), self.held.values())):
            return
        for name in {**self.held, **now}:
            found, before = now.get(name, MISSING), self.held.get(name, MISSING)
            if is_other(found, before) and not _is_pythons(name, found):
                yield within(self.where, name)

    def is_quick(self) -> bool:
        return True

    def inside(self) -> Iterator[Found]:
        for name, one in self.held.items():
            if not name.startswith("__"):
                yield within(self.where, name), one
        for base in self.made_by.__bases__:
            yield self.where, base


def _is_pythons(name: str, value: Any) -> bool:
    """What Python puts into a class by itself, as when an object of it is first pickled."""
    return name.startswith("__") and not isinstance(value, types.FunctionType)


def within(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def is_other(now: Any, before: Any) -> bool:
    if now is before:
        return False
    return type(now) is not type(before) or type(now) not in PLAIN or bool(now != before)


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "tobytes")


def content_sum(memory: Any) -> int:
    if not _is_array(memory):
        return zlib.crc32(memory)
    if memory.nbytes > LARGEST:
        steps = (slice(None, None, -(-length // EACH) or 1) for length in memory.shape)
        memory = memory[tuple(steps)]
    return zlib.crc32(memory.tobytes())


def holds_objects(memory: Any) -> bool:
    """An array of them: what they hold is to be looked at, too."""
    return bool(getattr(getattr(memory, "dtype", None), "hasobject", False))


def size_of(memory: Any) -> int:
    if _is_array(memory):
        return int(memory.nbytes)
    if issubclass(type(memory), CTYPES):
        return ctypes.sizeof(memory)
    return len(memory) * getattr(memory, "itemsize", 1)


@functools.lru_cache(maxsize=1000)
def is_the_users(made_by: type) -> bool:
    """Not one of a library, which may keep there what is nothing to the samples."""
    file = getattr(sys.modules.get(origins.module(made_by)), "__file__", None) or ""
    if any(folder in file for folder in ("site-packages", "dist-packages")):
        return False
    return origins.library(made_by) not in LIBRARIES


def is_looked_into(value: Any) -> bool:
    """Data sets, transforms, and options: not files, locks, loggers, and what libraries keep."""
    return (
        _makes_samples(value)
        or not is_opaque(value)
        or origins.module(type(value)).startswith(SHARED)
    )


def _makes_samples(value: Any) -> bool:
    """Data sets and transforms."""
    made_by: Any = type(value)
    return issubclass(made_by, Dataset) or (callable(value) and not issubclass(made_by, CODE))


def counts(holder: Any, name: str) -> bool:
    """What torch keeps in a module, such as its hooks, is nothing to the samples.

    Nor is whether a model that learns is being evaluated just now, or what an object keeps so that
    it need not be worked out again: reading may put it there.
    """
    if issubclass(type(holder), torch.nn.Module):
        return not name.startswith("_") and not (name == "training" and _learns(holder))
    if not name.startswith("_"):
        return True
    return _makes_samples(holder) or "cache" not in name


def _learns(module: Any) -> bool:
    """Whether it has parameters that gradients are taken of."""
    found, seen = [module], set()
    for one in found:  # grows
        if id(one) in seen or one is None:
            continue
        seen.add(id(one))
        held = vars(one)
        if any(weight is not None and weight.requires_grad for weight in _of(held, "_parameters")):
            return True
        found.extend(_of(held, "_modules"))
    return False


def _of(held: dict[str, Any], name: str) -> list[Any]:
    return list(held.get(name, {}).values())
