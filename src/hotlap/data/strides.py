"""In which order the entries of a tensor or an array lie in memory, where it is not the usual one.

A kept sample comes back in the order it had: another one is summed up in another order, and cannot
be viewed as the script views it. Gaps between the entries are not kept.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

Strides = tuple[int, ...]  # entries from one to the next, for each dimension


@functools.lru_cache(maxsize=1000)
def unusual(shape: tuple[int, ...], strides: Strides) -> Strides | None:
    """Those of a copy without gaps; None where it lies in the usual order, or in none at all."""
    if 0 in shape or any(
        stride <= 0 for stride, size in zip(strides, shape, strict=True) if size > 1
    ):
        return None
    found = _without_gaps(shape, outermost_first(strides))
    pairs = zip(strides, found, shape, strict=True)
    if all(size == 1 or one == other for one, other, size in pairs):
        found = strides  # a dimension of one entry may have any
    return None if found == _without_gaps(shape, range(len(shape))) else found


def outermost_first(strides: Sequence[int]) -> list[int]:
    """The dimensions in the order in which they lie in memory."""
    return sorted(range(len(strides)), key=lambda at: -strides[at])


def _without_gaps(shape: Sequence[int], order: Iterable[int]) -> Strides:
    found, entries = [0] * len(shape), 1
    for at in reversed(list(order)):
        found[at] = entries
        entries *= max(1, shape[at])
    return tuple(found)
