"""Whether a data set is still the one it was: what a script sets on it makes other samples of it.

Noted is what the data set holds, and what its transforms and the data sets inside it hold: numbers
and words by their value, tensors with how often they were written to, other things by which they
are. What an array or a long list holds is not looked at.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import Dataset

PLAIN = (bool, int, float, str, bytes)
CODE = (type, types.FunctionType, types.MethodType, types.BuiltinFunctionType)
DEEPEST = 6
LONGEST = 64  # entries of a list or dict that are looked at
MISSING = object()


class Noted:
    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._own: set[str] = set()
        self._before: str | None = None
        self._take()

    def change(self) -> str | None:
        """The name of something that is not what it was."""
        return self._before or next(self._changes(), None)

    def settle(self) -> None:
        """What has changed by now is the data set's own doing: counters, files that were opened.

        It is not looked at any more.
        """
        own = set(self._changes())
        if own:
            self._own |= own
            self._take()

    def _changes(self) -> Iterator[str]:
        for note in self._notes:
            for where in note.changes():
                if where not in self._own:
                    yield where

    def _take(self) -> None:
        self._notes: list[Note] = []
        self._look(self._dataset, "", set())

    def _look(self, value: Any, where: str, seen: set[int]) -> None:
        if where in self._own or where.count(".") > DEEPEST or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            if not value.is_inference():
                self._notes.append(Written(where, value, value._version))
        elif isinstance(value, (list, tuple, dict)):
            if len(value) <= LONGEST:
                entries = _entries(value)
                self._notes.append(Several(where, value, entries))
                for at, one in enumerate(entries):
                    self._look(one, f"{where}.{at}", seen)
        elif hasattr(value, "__dict__") and (not where or _is_looked_into(value)):
            held = {name: one for name, one in vars(value).items() if _counts(value, name)}
            self._notes.append(Attributes(where, value, held, len(vars(value))))
            for name, one in held.items():
                self._look(one, _within(where, name), seen)

    def __getstate__(self) -> dict[str, Any]:
        """Which object something is does not outlive a process: it is noted anew in the other."""
        return {"dataset": self._dataset, "own": self._own, "before": self.change()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._dataset, self._own, self._before = state["dataset"], state["own"], state["before"]
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
        if len(now) != len(self.entries) or any(map(_is_other, now, self.entries)):
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
