"""Is a sample the same every time it is asked for? Only then may it be cached.

The same index is asked for several times, with the random numbers of torch, random and numpy
watched: whoever draws from them is random, even if it came out the same by chance. So are
generators that the data set or its transforms hold, and what Python draws from the system, as
numpy's generators do that are made without a seed. Those who draw from one that is not found, such
as one seeded by the clock, give themselves away by answering differently.
"""

from __future__ import annotations

import ctypes
import functools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hotlap.data.generators import Own
from hotlap.data.packing import pack

TIMES = 3  # a coin that is tossed for eight samples hides with a chance of 1 in 65,000


def steady(ask: Callable[[], Any], own: Own | None = None) -> bytes | None:
    """What is asked for, packed; None if it draws random numbers or is not the same each time.

    A generator of its own (`own`) may be set anew for each sample: drawn from, it is where it was
    after the sample before. The others are not.
    """
    first: tuple[bytes, Any] | None = None
    with restored():
        for seed in range(TIMES):
            reseed(seed)
            before = state()
            answer = pack(ask()), None if own is None else own.state()
            if (first is not None and answer != first) or state() != before:
                return None
            first = answer
    return None if first is None else first[0]


def reseed(seed: int) -> None:
    torch.random.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


@contextmanager
def restored() -> Iterator[None]:
    """Whatever is drawn inside, the user's random numbers go on as if it had not been."""
    own, plain = torch.random.default_generator.get_state(), random.getstate()
    numpy = sys.modules.get("numpy")
    arrays = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        torch.random.default_generator.set_state(own)
        random.setstate(plain)
        if numpy is not None and arrays is not None:
            numpy.random.set_state(arrays)


def state() -> tuple[Any, ...]:
    """Where the random numbers are that everyone shares; asked for around each sample made."""
    own = torch.random.default_generator.get_state()
    shared = ctypes.string_at(own.data_ptr(), own.numel()), random.getstate(), _arrays.state()
    return *shared, _system.draws()


class _Arrays:
    """Where numpy's random numbers are, without asking it each time: that takes 30 microseconds.

    All of it is in the memory of its generator, but for a normal number that it has left over. It
    has one only after drawing: while that memory stays as it was without one, there is none.
    """

    MERSENNE_TWISTER, BYTES = "MT19937", 625 * 4  # its words, and how many of them are used up

    def __init__(self) -> None:
        self._without_left_over: bytes | None = None

    def state(self) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is None:
            return None
        seen = self._memory(numpy)
        if seen is not None and seen == self._without_left_over:
            return seen
        known = numpy.random.get_state(legacy=False)
        if seen is None or known["has_gauss"]:
            return pack(known)
        self._without_left_over = seen
        return seen

    def _memory(self, numpy: Any) -> bytes | None:
        """None where it is another generator, or a numpy that does not show it."""
        generator: Any = getattr(numpy.random, "get_bit_generator", lambda: None)()
        if type(generator).__name__ != self.MERSENNE_TWISTER:
            return None
        return ctypes.string_at(generator.ctypes.state_address, self.BYTES)


class _System:
    """How often Python has drawn from the system's random numbers, which have no state to look at.

    SystemRandom, secrets, and generators of numpy that are made without a seed. Its RandomState
    draws even where it is given one, and forgets that at once: such draws are taken back.
    """

    WAY = "_urandom"  # how the module random gets at them
    SEEDS, BITS = "numpy.random.bit_generator", "randbits"  # how numpy does, by way of it

    def __init__(self) -> None:
        self._count = 0
        self._watched = self._seeds_watched = False

    def draws(self) -> int:
        if not self._watched:
            self._watch()
        if not self._seeds_watched:
            self._watch_seeds()
        return self._count

    def _watch(self) -> None:
        self._watched = True
        plain: Any = getattr(random, self.WAY, None)
        if plain is None:
            return

        @functools.wraps(plain)
        def drawn(size: int) -> Any:
            self._count += 1
            return plain(size)

        setattr(random, self.WAY, drawn)

    def _watch_seeds(self) -> None:
        """As soon as numpy is there."""
        seeds = sys.modules.get(self.SEEDS)
        plain: Any = getattr(seeds, self.BITS, None)
        self._seeds_watched = seeds is not None
        if plain is None:
            return

        @functools.wraps(plain)
        def drawn(bits: int) -> int:
            before = self._count
            entropy = _Entropy(plain(bits))
            entropy.drawn_at = _place(sys._getframe(1))
            entropy.forgotten = self._take_back if self._count == before + 1 else None
            return entropy

        setattr(seeds, self.BITS, drawn)

    def _take_back(self) -> None:
        self._count -= 1


class _Entropy(int):
    """What numpy seeds a generator with. It lives as long as that seed, and knows where it began.

    Let go of within the very call it was drawn in, it was replaced by the seed that was given:
    nothing can have been drawn from it.
    """

    drawn_at: Any = None
    forgotten: Callable[[], None] | None = None

    def __del__(self) -> None:
        try:
            here = _place(sys._getframe(1))
        except (AttributeError, TypeError, ValueError):  # Python is about to end
            return
        if self.forgotten is not None and here == self.drawn_at:
            self.forgotten()

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


def _place(frame: Any) -> tuple[int, Any, int]:
    return id(frame), frame.f_code, frame.f_lasti


_arrays = _Arrays()
_system = _System()
