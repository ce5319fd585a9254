"""Whether a data set called the transform it was given, and handed out what that made of a sample.

A data set may leave its transform out for some samples, call it twice, or go on working on what it
made. Only where it did none of that may the rest of a transform be applied to what was kept. The
few samples that are looked at first do not show it; so each is seen while it is made.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from hotlap.data.packing import CannotPack, Finished, pack
from hotlap.data.shortening import Chain

APART = object()  # neither the rest of the transform nor nothing is left to do: ask the data set
SHARED = (type(None), bool, int, float, str, bytes)
_here = threading.local()
_all: dict[int, Listening] = {}


@dataclass(frozen=True)
class Call:
    """What a transform made, and how it was then: the data set may still write to it."""

    made: tuple[Any, ...]
    mark: Any

    def was_handed_out(self, values: tuple[Any, ...]) -> bool:
        if len(values) != len(self.made) or _mark(self.made) != self.mark:
            return False
        return all(map(_is, values, self.made)) or _are_equal(values, self.made)


class Watched(Chain):
    """The leading transforms, in a copy of a data set; tells those who listen what it makes."""

    def __call__(self, *values: Any) -> Any:
        made = super().__call__(*values)
        here = getattr(_here, "listening", None)
        listening = tuple(_all.values()) if here is None else (here,)
        if listening:
            several = made if len(values) > 1 else (made,)
            call = Call(several, _mark(several))
            for one in listening:
                one.calls.append(call)
        return made


class Listening:
    """The calls in this thread; those in a thread where nobody listens are heard by all."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __enter__(self) -> Listening:
        self._outer = getattr(_here, "listening", None)
        _here.listening = _all[id(self)] = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _here.listening = self._outer
        del _all[id(self)]


def told(sample: Any, handed: tuple[Any, ...], calls: Sequence[Call]) -> Any:
    """A sample by what was heard while it was made, alone.

    As it is where the rest of the transform is to follow, Finished where the data set called none,
    else APART.
    """
    if not calls:
        return Finished(sample)
    return sample if len(calls) == 1 and calls[0].was_handed_out(handed) else APART


def told_together(
    samples: Sequence[Any], handed: Sequence[tuple[Any, ...]], calls: Sequence[Call]
) -> list[Any] | None:
    """The same of several that were made at once; None where it cannot be told whose is which."""
    by_value = {tuple(map(id, call.made)): call for call in calls}
    found = [by_value.pop(tuple(map(id, values)), None) for values in handed]
    matched = sum(call is not None for call in found)
    if matched != len(calls) or not _are_told_apart(handed):
        return None
    return [
        told(sample, values, [] if call is None else [call])
        for sample, values, call in zip(samples, handed, found, strict=True)
    ]


def _are_told_apart(handed: Sequence[tuple[Any, ...]]) -> bool:
    """Whether each is an object of its own, as numbers and words are not."""
    firsts = [values[0] for values in handed if values and type(values[0]) not in SHARED]
    return len(firsts) == len(handed) == len(set(map(id, firsts)))


def _mark(made: tuple[Any, ...]) -> Any:
    """What differs after it was written to; None where that cannot be told."""
    one: Any = made[0] if len(made) == 1 else None
    if type(one) is torch.Tensor and not one.is_inference():
        return one._version
    if hasattr(one, "tobytes"):  # images and arrays, with less ado
        return one.tobytes()
    try:
        return pack(made)
    except CannotPack:
        return None


def _is(first: Any, second: Any) -> bool:
    return first is second


def _are_equal(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    try:
        return pack(first) == pack(second)
    except CannotPack:
        return False
