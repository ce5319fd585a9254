"""Generators of random numbers that a data set or its transforms keep for themselves."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hotlap.data.reached import reached


@contextmanager
def restored(dataset: Any) -> Iterator[None]:
    """Whatever they draw inside, they go on as if they had not."""
    back = [_back(one) for _, one in held(dataset)]
    try:
        yield
    finally:
        for put in back:
            put()


def held(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Each of them with the way to it; not those that all share, which workers seed anew."""
    shared = _shared()
    for where, value in reached(dataset):
        if _is_generator(value) and not any(value is one for one in shared):
            yield where, value


def _shared() -> list[Any]:
    numpy = sys.modules.get("numpy")
    arrays = [] if numpy is None else [getattr(numpy.random.seed, "__self__", None)]
    return [getattr(random.random, "__self__", None), torch.default_generator, *arrays]


def _is_generator(value: Any) -> bool:
    if isinstance(value, (torch.Generator, random.Random)):
        return not isinstance(value, random.SystemRandom)
    numpys = type(value).__module__.startswith("numpy.random") and not callable(value)
    drawn_from = ("get_state", "bit_generator", "random_raw")
    return numpys and any(hasattr(value, name) for name in drawn_from)


def _back(generator: Any) -> Callable[[], Any]:
    """What puts it where it is now."""
    if isinstance(generator, random.Random):
        return functools.partial(generator.setstate, generator.getstate())
    if hasattr(generator, "get_state"):  # torch's, and numpy's old ones
        return functools.partial(generator.set_state, generator.get_state())
    bits = getattr(generator, "bit_generator", generator)
    return functools.partial(setattr, bits, "state", bits.state)
