"""Generators of random numbers that a data set or its transforms keep for themselves."""

from __future__ import annotations

import functools
import gc
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import Dataset

from hotlap.data.holding import attributes
from hotlap.data.telling import is_opaque

DEEPEST = 6
LONGEST = 64  # entries of a list that are looked at
MOST = 2000  # things that are looked at


class Own:
    """Those that a data set and what it holds have; not those that everyone shares."""

    def __init__(self, dataset: Any) -> None:
        everyones = [id(one) for one in _everyones()]
        self._all = [one for one in _held(dataset, 0, set()) if id(one) not in everyones]
        self._back = [_back(one) for one in self._all]

    def state(self) -> list[Any]:
        """Where they are now; equal for as long as none of them is drawn from."""
        return [_comparable(_state(one)) for one in self._all]

    def put_back(self) -> None:
        """To where they were when they were found."""
        for put in self._back:
            put()


@contextmanager
def restored(dataset: Any) -> Iterator[Own]:
    """Whatever they draw inside, they go on as if they had not."""
    own = Own(dataset)
    try:
        yield own
    finally:
        own.put_back()


def _everyones() -> Iterator[Any]:
    yield torch.random.default_generator
    yield getattr(random, "_inst", None)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        yield getattr(getattr(numpy.random, "mtrand", None), "_rand", None)


def _held(value: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    if depth > DEEPEST or id(value) in seen or len(seen) >= MOST:
        return
    seen.add(id(value))
    if _is_generator(value):
        yield value
        return
    for one in _inside(value, depth):
        yield from _held(one, depth + 1, seen)


def _inside(value: Any, depth: int) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value) if len(value) <= LONGEST else []
    if isinstance(value, dict):
        return list(value.values()) if len(value) <= LONGEST else []
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, types.FunctionType):  # a closure
        return [one for cell in value.__closure__ or () for one in gc.get_referents(cell)]
    known = isinstance(value, Dataset) or callable(value) or not depth or not is_opaque(value)
    return list(attributes(value).values()) if known else []


def _is_generator(value: Any) -> bool:
    if isinstance(value, (torch.Generator, random.Random)):
        return not isinstance(value, random.SystemRandom)
    numpys = type(value).__module__.startswith("numpy.random") and not callable(value)
    return numpys and any(hasattr(value, name) for name in ("get_state", "bit_generator", "state"))


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "get_state"):  # torch's, and numpy's old ones
        return generator.get_state()
    return getattr(generator, "bit_generator", generator).state


def _comparable(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _comparable(one) for name, one in state.items()}
    if isinstance(state, tuple):
        return tuple(map(_comparable, state))
    if isinstance(state, torch.Tensor):
        return bytes(state.tolist())
    return state.tobytes() if hasattr(state, "tobytes") else state


def _back(generator: Any) -> Callable[[], Any]:
    """What puts it where it is now."""
    if isinstance(generator, random.Random):
        return functools.partial(generator.setstate, generator.getstate())
    if hasattr(generator, "get_state"):
        return functools.partial(generator.set_state, generator.get_state())
    bits = getattr(generator, "bit_generator", generator)
    return functools.partial(setattr, bits, "state", bits.state)
