"""Generators of random numbers: torch's, Python's and numpy's, each asked in its own way."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from hotlap import origins


class Generator(NamedTuple):
    """A source of random numbers."""

    state: Callable[[], Any]
    set: Callable[[Any], Any]


def is_generator(value: Any) -> bool:
    if isinstance(value, (torch.Generator, random.Random)):
        return not isinstance(value, random.SystemRandom)
    numpys = origins.module(type(value)).startswith("numpy.random") and not callable(value)
    drawn_from = ("get_state", "bit_generator", "random_raw")
    return numpys and any(hasattr(value, name) for name in drawn_from)


def generator(value: Any) -> Generator:
    if isinstance(value, random.Random):
        return Generator(value.getstate, value.setstate)
    if hasattr(value, "get_state"):  # torch's, and numpy's old ones
        return Generator(value.get_state, value.set_state)
    bits = getattr(value, "bit_generator", value)
    return Generator(lambda: bits.state, lambda state: setattr(bits, "state", state))


def comparable(state: Any) -> Any:
    """A state of one of them as something that can be compared with `==`."""
    if isinstance(state, dict):
        return {name: comparable(one) for name, one in state.items()}
    if isinstance(state, tuple) and set(map(type, state)) == {int}:
        return state  # Python's: 625 numbers
    if isinstance(state, tuple):
        return tuple(map(comparable, state))
    if isinstance(state, torch.Tensor):
        return ctypes.string_at(state.data_ptr(), state.numel())
    return state.tobytes() if hasattr(state, "tobytes") else state


def same(one: Any, other: Any) -> bool:
    """Whether two states of one generator are the same: nothing was drawn in between."""
    return bool(comparable(one) == comparable(other))
