"""Looking at samples leaves the data set as it was.

A file that is opened with the first sample is opened so that every worker has its own. One that was
opened before the fork they would share, and read each other's data. And a data set that counts what
it was asked for, in an array, a list or a dict, counts what the training asks for and no more.
"""

from __future__ import annotations

import array
import collections
import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, chain
from typing import Any

import torch

from hotlap.data.holding import attributes
from hotlap.data.inside import Nests, Objects, Room, TooMany, groups_in
from hotlap.data.nesting import INNER, all_of
from hotlap.data.notes import LARGEST, content_sum, is_the_users, size_of

Before = list[tuple[Any, dict[str, Any]]]
COPIED = 1 << 27  # bytes of arrays and tensors, the smallest first: counters are small


@contextmanager
def left_as_it_was(dataset: Any) -> Iterator[Before]:
    """What looking at samples sets on it, or inside what it holds, is not there afterwards."""
    before = [(one, dict(vars(one))) for one in all_of(dataset)]
    put_back = _inside(chain.from_iterable(held.values() for _, held in before))
    try:
        yield before
    finally:
        for one, held in before:
            vars(one).clear()
            vars(one).update(held)
        for back in put_back:
            back()


def _inside(values: Iterable[Any]) -> list[Callable[[], None]]:
    """What puts back all that is held, as far as it can be remembered."""
    found: list[Callable[[], None]] = []
    memory: list[Any] = []
    with contextlib.suppress(TooMany):
        for group in groups_in(values, Room(aside=_has_a_place)):
            if isinstance(group, Nests):
                found.append(lambda group=group: _put_back_nests(group))  # type: ignore[misc]
            elif isinstance(group, Objects):
                found += [_Object(one).put_back for one in group.members]
            else:
                memory += group.members
    return [*found, *_memory(memory)]


def _has_a_place(one: Any) -> bool:
    """A library's object, or one with an open file: what it notes is where it is in it by now."""
    made_by: Any = type(one)
    return not is_the_users(made_by) or any(map(_is_handle, map(type, attributes(one).values())))


@functools.lru_cache(maxsize=1000)
def _is_handle(kind: type) -> bool:
    return any(hasattr(kind, name) for name in ("close", "fileno", "read"))


def _put_back_nests(group: Nests) -> None:
    if not group.is_changed():
        return
    middle = sum(group.lengths) if group.base is dict else 0  # where the values of dicts begin
    ends = accumulate(group.lengths)
    for one, length, end in zip(group.members, group.lengths, ends, strict=True):
        entries = group.entries[end - length : end]
        if group.base is dict:
            values = group.entries[middle + end - length : middle + end]
            if not (_are(dict.keys(one), entries) and _are(dict.values(one), values)):
                kind: Any = _with_order(one)
                kind.clear(one)
                kind.update(one, zip(entries, values, strict=True))
        elif not _are(group.base.__iter__(one), entries):
            group.base.clear(one)
            fill: Any = set.update if group.base is set else group.base.extend
            fill(one, entries)


def _with_order(one: Any) -> Any:
    return collections.OrderedDict if isinstance(one, collections.OrderedDict) else dict


def _are(now: Iterable[Any], before: Iterable[Any]) -> bool:
    now, before = list(now), list(before)
    return len(now) == len(before) and all(map(operator.is_, now, before))


class _Object:
    """Its attributes, put back without asking its code."""

    def __init__(self, one: Any) -> None:
        self._one, self._before = one, attributes(one)

    def put_back(self) -> None:
        now = attributes(self._one)
        with contextlib.suppress(AttributeError, TypeError):  # it lets nobody set it
            for name in now.keys() - self._before.keys():
                object.__delattr__(self._one, name)
            for name, value in self._before.items():
                if now.get(name, self) is not value:
                    object.__setattr__(self._one, name, value)


def _memory(found: list[Any]) -> Iterator[Callable[[], None]]:
    """Of arrays and tensors: those that can be copied. Files that are mapped are left alone."""
    left = COPIED
    for one in sorted(filter(_is_copied, found), key=_size):
        left -= _size(one)
        if left < 0:
            return
        yield _tensor(one) if isinstance(one, torch.Tensor) else _array(one)


def _is_copied(one: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.device.type == "cpu" and one.layout == torch.strided and not one.is_nested
    if isinstance(one, (bytearray, array.array)):
        return True
    return hasattr(one, "flags") and bool(one.flags.writeable) and not hasattr(one, "_mmap")


def _size(one: Any) -> int:
    return int(one.nbytes) if isinstance(one, torch.Tensor) else size_of(one)


def _tensor(one: Any) -> Callable[[], None]:
    version, copy = one._version, one.detach().clone()

    def put_back() -> None:
        if one._version != version:
            with torch.no_grad():
                one.copy_(copy)

    return put_back


def _array(one: Any) -> Callable[[], None]:
    every: Any = ... if hasattr(one, "flags") else slice(None)
    copy = one.copy() if every is ... else one[every]
    before = content_sum(one) if size_of(one) <= LARGEST else None  # of larger ones only some

    def put_back() -> None:
        if before is None or content_sum(one) != before:
            one[every] = copy

    return put_back


def put_back(copy: Any, before: Before, *, but: tuple[str, ...]) -> None:
    """The same for a copy that was made to differ: only what was nothing before is so again.

    `but` are attributes that the copy may have on top.
    """
    for (one, held), other in zip(before, all_of(copy), strict=False):
        if other is one or type(other) is not type(one):
            continue
        for name in set(vars(other)).difference(but, INNER):
            if name not in held:
                del vars(other)[name]
            elif held[name] is None:
                vars(other)[name] = None
