"""Generators of random numbers that a data set or its transforms keep for themselves."""

from __future__ import annotations

import random
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hotlap.data.reached import is_the_users, reached
from hotlap.generators import comparable, generator, is_generator


class Own:
    """Those that a data set and what it holds have; not those that everyone shares."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._held = [one for _, one in held(dataset)]
        self._all = [generator(one) for one in self._held]
        self._found = [one.state() for one in self._all]

    def has_all_of(self, other: Own) -> bool:
        """Whether it knows each of those that another look has found."""
        return {id(one) for one in self._held} >= {id(one) for one in other._held}

    def state(self) -> list[Any]:
        """Where they are now; equal for as long as none of them is drawn from."""
        return [comparable(one.state()) for one in self._all]

    def put_back(self) -> None:
        """To where they were when they were found."""
        for one, state in zip(self._all, self._found, strict=True):
            one.set(state)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process finds those of its copy."""
        return Own, (self._dataset,)


@contextmanager
def restored(dataset: Any) -> Iterator[Own]:
    """Whatever they draw inside, they go on as if they had not."""
    own = Own(dataset)
    try:
        yield own
    finally:
        own.put_back()


def held(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Each of them with the way to it; not those that all share, which workers seed anew."""
    everyones = [id(one) for one in _everyones()]
    for where, value in reached(dataset):
        if is_generator(value) and id(value) not in everyones:
            yield where, value


def is_a_librarys(value: Any) -> bool:
    """Whether it is in a module of an installed library: other code of it may be what draws."""
    owners = (one for one in list(sys.modules.values()) if isinstance(one, types.ModuleType))
    return any(
        value is one
        for owner in owners
        if not is_the_users(owner)
        for one in list(vars(owner).values())
    )


def _everyones() -> Iterator[Any]:
    yield torch.random.default_generator
    yield getattr(random, "_inst", None)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        yield getattr(getattr(numpy.random, "mtrand", None), "_rand", None)
