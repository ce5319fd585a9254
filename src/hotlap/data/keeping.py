"""Whether a data set keeps something of the samples it makes, such as how often each was asked for.

Workers would keep it in copies of their own, which end with the epoch. Samples are made in a
process like theirs, so that nothing here is counted, opened or drawn. What comes with the first
sample and then stays, as an open file or a decoded image does, is no such case, nor is what is the
same whenever the same sample was made, as its path: unless the next sample is made with it, which
comes out otherwise then after another one.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from hotlap import origins
from hotlap.data import identity, randomness
from hotlap.data.fitting import spread_out
from hotlap.data.holding import attributes
from hotlap.data.inside import Group, Room, TooMany, groups_in
from hotlap.data.nesting import INNER, all_of
from hotlap.data.notes import is_other, is_the_users
from hotlap.data.packing import CannotPack, pack
from hotlap.data.shortening import TRANSFORMS
from hotlap.generators import generator, same

SAMPLES = 2
MOST_IN_ORDER, IN_ORDER_SECONDS = 16, 1.0  # samples that are made in one order and in another
SECONDS = 5.0  # it is left to itself after them: nothing is known then
ASIDE = "cache"  # in the name of what may differ in each process
LONGEST = 1000  # bytes of an answer
_KEPT: list[Any] = []  # streams of the process: they write out what is in them when let go of


def changed_by_samples(
    dataset: Any, *, seconds: float = SECONDS, beside: Sequence[tuple[str, Any]] = ()
) -> str | None:
    """The name of something that is another each time samples are made; None if nobody knows.

    `beside` are generators of random numbers by name, which making samples may draw from.
    A data set with memory that processes share is made for workers, and would be changed by this.
    """
    if any(map(_is_shared, (value for one in all_of(dataset) for value in vars(one).values()))):
        return None
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are threads
        child = os.fork()
    if child == 0:
        try:
            _silence()
            os.write(write, _found(dataset, beside).encode()[:LONGEST])
        finally:
            os._exit(0)
    os.close(write)
    try:
        there, _, _ = select.select([read], [], [], seconds)
        return os.read(read, LONGEST).decode(errors="replace") or None if there else None
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _is_shared(value: Any) -> bool:
    if issubclass(type(value), torch.Tensor):
        return bool(value.is_shared()) and value.device.type == "cpu"
    return origins.library(type(value)) == "multiprocessing"


def _silence() -> None:
    """What the data set prints would stand there twice."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    _KEPT.extend((sys.stdout, sys.stderr))
    sys.stdout = sys.stderr = os.fdopen(nowhere, "w")


def _found(dataset: Any, beside: Sequence[tuple[str, Any]]) -> str:
    torch.set_num_threads(1)  # those of the process it was forked from are not here
    before = [generator(one).state() for _, one in beside]
    what = found_here(dataset)
    for (name, one), state in zip(beside, before, strict=True):
        if not same(generator(one).state(), state):
            return name
    return what or ""


def found_here(dataset: Any, indices: Sequence[int] | None = None) -> str | None:
    """The same in this process, also of memory that processes share.

    Whoever asks puts the data set and the random numbers back; `indices` can be made.
    """
    chosen = spread_out(len(dataset), SAMPLES) if indices is None else indices
    return next(differing(dataset, chosen[0], chosen[-1]), None) if chosen else None


def differing(dataset: Any, first: int, last: int) -> Iterator[str]:
    """What is another after the same sample; or, after other samples, makes another of it."""
    began = time.monotonic()
    _make(dataset, first, last)  # opens and keeps what is opened and kept once
    each = (time.monotonic() - began) / 2
    noted = [_Attribute(one, name) for one in all_of(dataset) for name in attributes(one)]
    _make(dataset, first)
    suspects = [one for one in noted if one.is_changed()]
    if not suspects:
        return
    before = [one.digest() for one in suspects]
    for several in ((last, first), (last, last, first)):  # an even number, and an odd one
        _make(dataset, *several)
        for one, known in zip(suspects, before, strict=True):
            if one.digest() != known:
                yield one.name
    if _hangs_on_others(dataset, each):
        yield suspects[0].name


def _make(dataset: Any, *indices: int) -> list[bytes]:
    """With the same random numbers for the same sample."""
    made = []
    for index in indices:
        randomness.reseed(index)
        made.append(_content(dataset[index]))
    return made


def _content(sample: Any) -> bytes:
    """As it is now: what it is made in may be written to for the next one."""
    try:
        return pack(sample)
    except CannotPack:
        return _pickled(sample)


def _pickled(sample: Any) -> bytes:
    try:
        return pickle.dumps(sample)
    except Exception:  # there is no end to what a sample may be
        return b""


def _hangs_on_others(dataset: Any, each: float) -> bool:
    """Whether a sample that is the same after the same samples is another after others.

    `each` takes so many seconds.
    """
    number = max(SAMPLES, min(MOST_IN_ORDER, int(IN_ORDER_SECONDS / (4 * max(each, 1e-9)))))
    indices = spread_out(len(dataset), number)
    _make(dataset, *indices)
    once, again = _make(dataset, *indices), _make(dataset, *indices)
    return once == again and _make(dataset, *reversed(indices)) != once[::-1]


class _Attribute:
    """One of a data set's, with what is inside it; not inside the objects of libraries."""

    def __init__(self, holder: Any, name: str) -> None:
        self._holder, self.name = holder, name
        self._value = attributes(holder)[name]
        self._groups: list[Group] = []
        if name not in INNER and ASIDE not in name:
            with contextlib.suppress(TooMany):
                self._groups.extend(groups_in([self._value], Room(aside=_is_a_librarys)))

    def is_changed(self) -> bool:
        if self.name in INNER or ASIDE in self.name:
            return False
        other = is_other(attributes(self._holder).get(self.name), self._value)
        return other or any(group.is_changed() for group in self._groups)

    def digest(self) -> str | None:
        return identity.digest(attributes(self._holder).get(self.name))


def _is_a_librarys(one: Any) -> bool:
    """Not one that holds transforms, which may be the user's."""
    made_by: Any = type(one)
    return not is_the_users(made_by) and attributes(one).keys().isdisjoint(TRANSFORMS)
