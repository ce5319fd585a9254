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


class Own:
    """Those that a data set and what it holds have; not those that everyone shares."""

    def __init__(self, dataset: Any) -> None:
        self._all = [one for _, one in held(dataset)]
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


def held(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Each of them with the way to it; not those that all share, which workers seed anew."""
    everyones = [id(one) for one in _everyones()]
    for where, value in reached(dataset):
        if _is_generator(value) and id(value) not in everyones:
            yield where, value


def _everyones() -> Iterator[Any]:
    yield torch.random.default_generator
    yield getattr(random, "_inst", None)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        yield getattr(getattr(numpy.random, "mtrand", None), "_rand", None)


def _is_generator(value: Any) -> bool:
    if isinstance(value, (torch.Generator, random.Random)):
        return not isinstance(value, random.SystemRandom)
    numpys = type(value).__module__.startswith("numpy.random") and not callable(value)
    drawn_from = ("get_state", "bit_generator", "random_raw")
    return numpys and any(hasattr(value, name) for name in drawn_from)


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
