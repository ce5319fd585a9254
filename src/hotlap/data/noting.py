"""Whether a data set is still the one it was: what a script sets on it makes other samples of it.

Noted is what the data set holds, and what its transforms and the data sets inside it hold: numbers
and words by their value, tensors with how often they were written to, other things by which they
are. What long lists and arrays hold is compared where it is asked for: that takes milliseconds.
"""

from __future__ import annotations

import operator
import types
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import Dataset

PLAIN = (bool, int, float, str, bytes)
CODE = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
DEEPEST = 6
LONGEST = 64  # entries of a list or dict that are looked at each time
LARGEST = 1 << 24  # bytes of an array that are read; of larger ones some of each dimension
EACH = 64
MISSING = object()


class Noted:
    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._own: set[str] = set()
        self._before: str | None = None
        self._contents: list[Note] = []
        self._take(self._contents)

    def change(self, *, closely: bool = False) -> str | None:
        """The name of something that is not what it was."""
        return self._before or next(self._changes(closely), None)

    def settle(self, *, closely: bool = False) -> None:
        """What has changed by now is the data set's own doing: counters, files that were opened.

        It is not looked at any more.
        """
        own = set(self._changes(closely))
        if own:
            self._own |= own
            self._take()

    def _changes(self, closely: bool) -> Iterator[str]:
        for note in [*self._notes, *self._contents] if closely else self._notes:
            for where in note.changes():
                if where not in self._own:
                    yield where

    def _take(self, contents: list[Note] | None = None) -> None:
        self._notes: list[Note] = []
        self._look(self._dataset, "", set(), contents)

    def _look(self, value: Any, where: str, seen: set[int], contents: list[Note] | None) -> None:
        if where in self._own or where.count(".") > DEEPEST or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            if not value.is_inference():
                self._notes.append(Written(where, value, value._version))
        elif isinstance(value, (list, tuple, dict)):
            if len(value) <= LONGEST:
                self._notes.append(Several(where, value, _entries(value)))
                for at, one in enumerate(_entries(value)):
                    self._look(one, f"{where}.{at}", seen, contents)
            elif contents is not None:
                contents.append(Several(where, value, _entries(value)))
        elif type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            if contents is not None:
                contents.append(Array(where, value, _sum(value)))
        elif hasattr(value, "__dict__") and (not where or _is_looked_into(value)):
            held = {name: one for name, one in vars(value).items() if _counts(value, name)}
            self._notes.append(Attributes(where, value, held, len(vars(value))))
            for name, one in held.items():
                self._look(one, _within(where, name), seen, contents)

    def __getstate__(self) -> dict[str, Any]:
        """Which object something is does not outlive a process: it is noted anew in the other."""
        return {"dataset": self._dataset, "own": self._own, "before": self.change()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._dataset, self._own, self._before = state["dataset"], state["own"], state["before"]
        self._contents = []
        self._take()


class Note(Protocol):
    def changes(self) -> Iterator[str]: ...


@dataclass(frozen=True)
class Written:
    where: str
    tensor: Any
    times: int

    def changes(self) -> Iterator[str]:
        if self.tensor._version != self.times:
            yield self.where


@dataclass(frozen=True)
class Several:
    where: str
    nest: Any
    entries: list[Any]

    def changes(self) -> Iterator[str]:
        now = _entries(self.nest)
        if len(now) == len(self.entries) and all(map(operator.is_, now, self.entries)):
            return
        if len(now) != len(self.entries) or any(map(_is_other, now, self.entries)):
            yield self.where


@dataclass(frozen=True)
class Array:
    where: str
    array: Any
    sum: int

    def changes(self) -> Iterator[str]:
        if _sum(self.array) != self.sum:
            yield self.where


@dataclass(frozen=True)
class Attributes:
    where: str
    holder: Any
    held: dict[str, Any]
    count: int

    def changes(self) -> Iterator[str]:
        now = vars(self.holder)
        for name, value in self.held.items():
            found = now.get(name, MISSING)
            if found is not value and _is_other(found, value):
                yield _within(self.where, name)
        if len(now) != self.count:
            for name in [*now]:
                if name not in self.held and _counts(self.holder, name):
                    yield _within(self.where, name)


def _is_other(now: Any, before: Any) -> bool:
    if now is before:
        return False
    return type(now) is not type(before) or type(now) not in PLAIN or bool(now != before)


def _sum(array: Any) -> int:
    if array.nbytes > LARGEST:
        steps = (slice(None, None, -(-length // EACH) or 1) for length in array.shape)
        array = array[tuple(steps)]
    return zlib.crc32(array.tobytes())


def _entries(nest: Any) -> list[Any]:
    return [*nest.keys(), *nest.values()] if isinstance(nest, dict) else list(nest)


def _is_looked_into(value: Any) -> bool:
    """Data sets and transforms."""
    return isinstance(value, Dataset) or (callable(value) and not isinstance(value, CODE))


def _counts(holder: Any, name: str) -> bool:
    """What torch keeps in a module, such as its hooks, is nothing to the samples."""
    return not (isinstance(holder, torch.nn.Module) and name.startswith("_"))


def _within(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
