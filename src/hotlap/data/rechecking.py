"""A kept sample is made again now and then, and compared: what nobody could watch shows there.

A generator that is made for each sample and seeded by the clock leaves no trace but the sample. Nor
do files that are replaced while they are cached, or a global variable that the samples depend on.
So a small share of the time goes into doubt. A cache that was wrong once is not asked any more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from hotlap.data import generators, randomness
from hotlap.data.asking import MISSING, made_again
from hotlap.data.calls import APART
from hotlap.data.counting import Counts
from hotlap.data.layers import Below
from hotlap.data.packing import CannotPack, Finished, pack, unpack

SHARE = 0.01  # of the time
SOON = 0.1  # seconds from the first sample that comes from the cache to the first doubt
STRIDE = 7919  # so that it is not the same place of a batch each time
NEARLY = 1e-4  # of the largest value: how many threads add up may change the last digits
KIND, WHICH = 0, 1
RANDOM, OTHER = 1, 2


class Rechecking:
    """When it is time, which sample, and what comes of it, which all processes are told."""

    def __init__(self, share: float) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"recheck is {share!r}; it is a share of the time, from 0 to 1")
        self._share = share
        self._next: float | None = None
        self._making = 0.0  # seconds for one sample
        self._turn = 0
        self._found = Counts(2)  # of what kind, and which sample

    @property
    def has_found(self) -> bool:
        return self._found.shared(KIND) != 0

    def wrong(self) -> str | None:
        kind, index = self._found.shared(KIND), self._found.shared(WHICH)
        if kind == RANDOM:
            return f"sample {index} is not the same each time it is made"
        return f"sample {index} is made otherwise now than when it was kept" if kind else None

    def took(self, seconds: float, samples: int) -> None:
        """To make samples that were not in the cache."""
        self._making = seconds / samples

    def chosen(self, found: Sequence[Any], places: Sequence[int]) -> int | None:
        """The place of one that was found, if it is time for it; one of them was."""
        if not self._share:
            return None
        now = time.monotonic()
        if self._next is None:
            self._next = now + max(SOON, self._making / self._share)
        if now < self._next:
            return None
        self._turn += 1
        cached = [at for at, one in zip(places, found, strict=True) if one is not MISSING]
        return cached[self._turn * STRIDE % len(cached)]

    def finds(self, below: Below, index: int, kept: bytes) -> str | None:
        """What is wrong if the sample is not the one that was kept; None also if nobody knows."""
        began = time.monotonic()
        try:
            with randomness.restored(), generators.restored(below.dataset):
                again = _made(below, index)
                if again is None or _are_same(again, kept):
                    return None
                once_more = _made(below, index)
        finally:
            now = time.monotonic()
            self._next = now + (now - began) / self._share
        if once_more is None:
            return None
        self._found.share(WHICH, index)
        self._found.share(KIND, OTHER if _are_same(again, once_more) else RANDOM)
        return self.wrong()


def _made(below: Below, index: int) -> bytes | None:
    """None where it fails, which is told when it is needed: what is kept may outlive its files."""
    sample = made_again(below, index)
    if sample is MISSING or sample is APART:
        return None
    try:
        return pack(sample)
    except CannotPack:
        return None


def _are_same(first: bytes, second: bytes) -> bool:
    return first == second or _is_near(unpack(first), unpack(second))


def _is_near(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, Finished):
        return _is_near(first.sample, second.sample)
    if isinstance(first, dict):
        return list(first) == list(second) and _is_near([*first.values()], [*second.values()])
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(_is_near, first, second))
    if hasattr(first, "dtype") or isinstance(first, float):
        try:
            return _are_close(torch.as_tensor(first), torch.as_tensor(second))
        except TypeError:  # an array of words, or of dates
            pass
    return pack(first) == pack(second)


def _are_close(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if not first.is_floating_point() or not first.numel():
        return bool(torch.equal(first, second))
    first, second = first.double(), second.double()
    largest = float(first.nan_to_num(posinf=0.0, neginf=0.0).abs().max())
    most = NEARLY * largest
    return bool(torch.allclose(first, second, rtol=0.0, atol=most, equal_nan=True))
