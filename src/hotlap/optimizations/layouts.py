"""How tensors lie in memory, for what walks through it without asking: torch's fused updates.

Such a walk is right where a parameter, its gradient and its state lie alike and have no gaps. The
checks run for each parameter in each step, so the common case is a short question in a map.
"""

from __future__ import annotations

import functools
from typing import Any


def contiguous(tensors: list[Any]) -> list[bool]:
    from torch import Tensor

    return list(map(Tensor.is_contiguous, tensors))


def apart(parameters: list[Any], plain: list[bool], others: list[Any]) -> list[int]:
    """Where a walk through the memory of both would not meet the same elements.

    `plain` says which of the parameters are contiguous: it is asked once for several lists.
    """
    lying = contiguous(others)
    if all(plain) and all(lying):
        return []
    answers = enumerate(zip(plain, lying, strict=True))
    doubtful = [place for place, (own, its) in answers if not (own and its)]
    return [one for one in doubtful if not _alike(parameters[one], others[one])]


def _alike(parameter: Any, other: Any) -> bool:
    first, second = parameter.stride(), other.stride()
    if first == second or len(first) != len(second):  # the latter: a count of steps
        return True
    strides = zip(parameter.shape, first, second, strict=True)
    return all(own == its for size, own, its in strides if size > 1)


def whole(parameter: Any) -> bool:
    """Whether its elements fill its memory, each in a place of its own."""
    return parameter.is_contiguous() or _fills(tuple(parameter.shape), parameter.stride())


@functools.lru_cache(maxsize=4096)
def _fills(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for stride, size in sorted((b, a) for a, b in zip(shape, strides, strict=True) if a > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def laid_out_like(parameter: Any, other: Any) -> Any:
    from torch import empty_like

    return empty_like(parameter, dtype=other.dtype).copy_(other)
