"""What the entries of long lists and dicts hold: records, whose labels a script may set anew.

They are looked at level by level, all things of one kind at once and without the user's code: a
million records take less than a second, once in an epoch. What cannot change is passed by, such as
the names of files and their numbers, however many there are.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, filterfalse
from typing import Any

import torch

from hotlap import origins
from hotlap.data.holding import attributes_of_all, has_attributes, is_worked_out
from hotlap.data.notes import (
    EACH,
    MEMORY,
    NESTS,
    PLAIN,
    content_sum,
    counts,
    is_looked_into,
    is_other,
    size_of,
)

DEEPEST = 6
MOST = 20_000_000  # entries that are remembered: 8 bytes and some ten nanoseconds for each
MOST_BYTES = 1 << 28  # of all arrays together that are read; of more than that some of each
FIXED = (*PLAIN, complex, type(None), *(range, slice, types.FunctionType, types.ModuleType))


@dataclass
class Room:
    """What is left to be remembered, and what is already; `aside` says which objects are not."""

    entries: int = MOST
    aside: Callable[[Any], bool] | None = None
    seen: set[int] = field(default_factory=set)

    def take(self, entries: int) -> None:
        self.entries -= entries
        if self.entries < 0:
            raise TooMany


class TooMany(Exception):
    """There is more inside than can be compared between two epochs."""


@dataclass(frozen=True)
class Nests:
    """Lists, dicts and the like of one kind, and all that they held, one after another."""

    members: list[Any]
    base: Any
    lengths: list[int]
    entries: list[Any]

    def is_changed(self) -> bool:
        if list(map(self.base.__len__, self.members)) != self.lengths:
            return True
        return _differ(_entries(self.base, self.members), self.entries)


@dataclass(frozen=True)
class Objects:
    """Records of one class, and what their attributes were."""

    members: list[Any]
    part: Callable[[str], bool]  # whether an attribute counts
    lengths: list[int]
    entries: list[Any]

    def is_changed(self) -> bool:
        held = _held(self.members, self.part)
        return list(map(len, held)) != self.lengths or _differ(_joined(held), self.entries)


@dataclass(frozen=True)
class Arrays:
    members: list[Any]
    sums: list[int]
    sum: Callable[[Any], int]
    entries: list[Any]

    def is_changed(self) -> bool:
        return list(map(self.sum, self.members)) != self.sums


@dataclass(frozen=True)
class Tensors:
    members: list[Any]
    versions: list[int]
    entries: list[Any]

    def is_changed(self) -> bool:
        return [one._version for one in self.members] != self.versions


Group = Nests | Objects | Arrays | Tensors


@dataclass(frozen=True)
class Inside:
    """A note of what is inside the entries of `where`, and of what those hold in turn."""

    where: str
    groups: list[Group]

    def changes(self) -> Iterator[str]:
        if any(group.is_changed() for group in self.groups):
            yield f"{self.where}[...]"


def groups_in(values: Iterable[Any], room: Room) -> Iterator[Group]:
    level = list(values)
    for _ in range(DEEPEST):
        following: list[Any] = []
        for kind, members in _by_kind(level, room.seen).items():
            for group in _of(kind, members, room):
                following += group.entries
                if not isinstance(group, Nests) or group.base not in (tuple, frozenset):
                    yield group
        level = following


def _by_kind(values: list[Any], seen: set[int]) -> dict[type, list[Any]]:
    """Those that may change or hold what does, each once."""
    kinds = dict.fromkeys(map(type, values))
    if len(kinds) == 1 and next(iter(kinds)) is tuple and _are_fixed(values, tuple):
        return {}
    found: dict[type, list[Any]] = {one: [] for one in kinds if not issubclass(one, FIXED)}
    if len(kinds) == 1:
        found = dict.fromkeys(found, values)
    elif found:
        for one in values:
            if type(one) in found:
                found[type(one)].append(one)
    return {kind: _each_once(members, seen) for kind, members in found.items()}


def _each_once(values: list[Any], seen: set[int]) -> list[Any]:
    found = dict(zip(map(id, values), values, strict=True))
    new = found if seen.isdisjoint(found) else {at: found[at] for at in found.keys() - seen}
    seen.update(new)
    return list(new.values())


def _of(kind: Any, members: list[Any], room: Room) -> Iterator[Group]:
    if not members:
        return
    base: Any = next((one for one in NESTS if issubclass(kind, one)), None)
    if issubclass(kind, torch.Tensor):
        watched = [one for one in members if not one.is_inference()]
        yield Tensors(watched, [one._version for one in watched], [])
    elif issubclass(kind, MEMORY) or is_numpy_array(kind):
        yield _arrays(kind, members, room)
    elif base is not None:
        lengths = list(map(base.__len__, members))
        if base not in (tuple, frozenset) or not _are_fixed(members, base):
            room.take(sum(lengths) * (2 if base is dict else 1))
            yield Nests(members, base, lengths, _entries(base, members))
    if has_attributes(members[0]) and (base is not None or is_looked_into(members[0])):
        if room.aside is not None:
            members = list(filterfalse(room.aside, members))
        if not members:
            return
        part = functools.lru_cache(maxsize=None)(functools.partial(_is_part, members[0]))
        held = _held(members, part)
        room.take(sum(map(len, held)))
        yield Objects(members, part, list(map(len, held)), _joined(held))


def _arrays(kind: Any, members: list[Any], room: Room) -> Arrays:
    room.take(len(members))
    entries: list[Any] = []
    if is_numpy_array(kind):
        for one in members:
            if one.dtype.hasobject and one.dtype.names is None:
                room.take(one.size)
                entries += one.ravel().tolist()
    whole = sum(map(size_of, members)) <= MOST_BYTES
    take: Callable[[Any], int] = content_sum if whole else _some_of
    return Arrays(members, list(map(take, members)), take, entries)


def _some_of(array: Any) -> int:
    if not is_numpy_array(type(array)):
        return content_sum(memoryview(array).cast("B")[:: max(1, size_of(array) // EACH)].tobytes())
    return content_sum(array[tuple(slice(None, None, -(-one // EACH) or 1) for one in array.shape)])


def is_numpy_array(kind: Any) -> bool:
    """Not one of its numbers, which do not change."""
    return origins.module(kind) == "numpy" and hasattr(kind, "ctypes")


def _are_fixed(members: list[Any], base: Any) -> bool:
    inside = set(map(type, chain.from_iterable(map(base.__iter__, members))))
    return all(issubclass(one, FIXED) for one in inside)


def _entries(base: Any, members: list[Any]) -> list[Any]:
    """Of dicts: all keys, then all values."""
    ways = (dict.keys, dict.values) if base is dict else (base.__iter__,)
    return list(chain.from_iterable(chain.from_iterable(map(way, members)) for way in ways))


def _held(members: list[Any], part: Callable[[str], bool]) -> list[Any]:
    """The values of their attributes, one collection for each member."""
    found = attributes_of_all(members)
    if all(map(part, set(chain.from_iterable(found)))):
        return list(map(dict.values, found))
    return [[value for name, value in one.items() if part(name)] for one in found]


def _is_part(holder: Any, name: str) -> bool:
    return counts(holder, name) and not is_worked_out(holder, name)


def _joined(lists: list[Any]) -> list[Any]:
    return list(chain.from_iterable(lists))


def _differ(now: list[Any], before: list[Any]) -> bool:
    if len(now) != len(before):
        return True
    if all(map(operator.is_, now, before)):
        return False
    return any(map(is_other, now, before))
