"""Generators of random numbers that a data set or its transforms keep for themselves."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import Dataset

DEEPEST = 6
LONGEST = 64  # entries of a list that are looked at


@contextmanager
def restored(dataset: Any) -> Iterator[None]:
    """Whatever they draw inside, they go on as if they had not."""
    back = [_back(one) for one in _held(dataset, 0, set())]
    try:
        yield
    finally:
        for put in back:
            put()


def _held(value: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    if depth > DEEPEST or id(value) in seen:
        return
    seen.add(id(value))
    if _is_generator(value):
        yield value
    elif isinstance(value, (list, tuple)) and len(value) <= LONGEST:
        for one in value:
            yield from _held(one, depth + 1, seen)
    elif hasattr(value, "__dict__") and (
        isinstance(value, Dataset) or callable(value) or not depth
    ):
        for one in vars(value).values():
            yield from _held(one, depth + 1, seen)


def _is_generator(value: Any) -> bool:
    if isinstance(value, (torch.Generator, random.Random)):
        return not isinstance(value, random.SystemRandom)
    numpys = type(value).__module__.startswith("numpy.random") and not callable(value)
    return numpys and any(hasattr(value, name) for name in ("get_state", "bit_generator", "state"))


def _back(generator: Any) -> Callable[[], Any]:
    """What puts it where it is now."""
    if isinstance(generator, random.Random):
        return functools.partial(generator.setstate, generator.getstate())
    if hasattr(generator, "get_state"):  # torch's, and numpy's old ones
        return functools.partial(generator.set_state, generator.get_state())
    bits = getattr(generator, "bit_generator", generator)
    return functools.partial(setattr, bits, "state", bits.state)
