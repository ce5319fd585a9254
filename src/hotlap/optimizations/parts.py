"""Whole batches handed out in parts, by a loader that keeps the batch size it was given."""

from __future__ import annotations

import copy
import functools
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

MOST_AHEAD = 4096  # parts that a loader is asked for before they are trained with


class Whole(int):
    """The batch size of a loader whose batches are handed out in parts."""

    parts: int

    def __new__(cls, size: int, parts: int) -> Whole:
        made = super().__new__(cls, size)
        made.parts = parts
        return made

    def __repr__(self) -> str:
        return f"{int(self)} in {self.parts} parts"

    __str__ = int.__repr__

    def __deepcopy__(self, memo: dict[int, Any]) -> Whole:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)  # a checkpoint is read without hotlap


class Parts:
    """The indices of each batch in parts, for as long as that is wanted."""

    def __init__(self, batches: Any, size: Whole, wanted: Callable[[], bool]) -> None:
        self._batches = batches
        self._size = size
        self._wanted = wanted
        self.share = 1.0  # of the part that was asked for last

    def __iter__(self) -> Epoch:
        return Epoch(self._each())

    def _each(self) -> Iterator[tuple[Any, float]]:
        parts = self._size.parts
        for batch in self._batches:
            for part in split(batch, parts) if self._wanted() else (batch,):
                self.share = len(part) / len(batch) * min(1.0, len(batch) / parts)
                yield part, self.share

    def __len__(self) -> int:
        whole = len(self._batches)
        return whole * self._size.parts - self._missing() if self._wanted() else whole

    def _missing(self) -> int:
        """A last batch of fewer samples than there are parts has fewer parts."""
        samples = getattr(self._batches, "sampler", None)
        if samples is None or getattr(self._batches, "drop_last", False):
            return 0
        last = len(samples) % self._size
        return max(0, self._size.parts - last) if last else 0


class Within:
    """What a sampler that leaves some of the batches inside of it out makes of their parts.

    A training that was resumed begins so: it has counted parts, and leaves as many out.
    """

    def __init__(self, outer: Any, parts: Parts | Within) -> None:
        self._parts = parts
        self._outer = copy.copy(outer)
        self._outer.batch_sampler = parts

    @property
    def share(self) -> float:
        return self._parts.share

    def __iter__(self) -> Epoch:
        return Epoch((part, self.share) for part in self._outer)

    def __len__(self) -> int:
        return len(self._outer)


class Epoch:
    """The parts of one epoch, and which share of its update each that is to come has."""

    def __init__(self, parts: Iterator[tuple[Any, float]]) -> None:
        self.shares: deque[float] = deque(maxlen=MOST_AHEAD)  # in the order they are handed out in
        self._parts = parts

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        part, share = next(self._parts)
        self.shares.append(share)
        return part


def in_parts(batches: Any, wanted: Callable[[], bool]) -> Parts | Within | None:
    """The same batches in parts; None where none of the samplers is of batches to be divided."""
    size = getattr(batches, "batch_size", None)
    if isinstance(size, Whole):
        return Parts(batches, size, wanted)
    inner = getattr(batches, "batch_sampler", None)
    parts = None if inner is None else in_parts(inner, wanted)
    return None if parts is None else Within(batches, parts)


def split(batch: list[Any], parts: int) -> Iterator[list[Any]]:
    number = min(parts, len(batch))
    ends = [len(batch) * part // number for part in range(number + 1)]
    for first, last in itertools.pairwise(ends):
        yield batch[first:last]


def hand_out(
    torch: Any,
    wanted: Callable[[], bool],
    asked: Callable[[], None],
    handed_out: Callable[[Epoch], None],
    elsewhere: Callable[[], None],
) -> None:
    """`asked` is called when the script asks for the length of a loader that hands out parts.

    `handed_out` gets the epoch that the script has just got a part of. `elsewhere` is called where
    a loader has been given batches of another sampler than the one it was made with.
    """
    loader = torch.utils.data.DataLoader
    plain, plain_length = loader._index_sampler, loader.__len__

    def indices(this: Any) -> Any:
        batches = plain.fget(this)
        parts = in_parts(batches, wanted)
        if parts is None and isinstance(this.batch_size, Whole):
            elsewhere()
        return batches if parts is None else parts

    def length(this: Any) -> int:
        size = this.batch_size
        found = int(plain_length(this))
        if not isinstance(this._index_sampler, (Parts, Within)) or not wanted():
            return found
        if not _is_hotlap(sys._getframe(1)):
            asked()
        if isinstance(this.dataset, torch.utils.data.IterableDataset) and size is not None:
            return -(-len(this.dataset) // (int(size) // int(size.parts)))
        return found

    base = torch.utils.data.dataloader._BaseDataLoaderIter
    plain_next = base.__next__

    @functools.wraps(plain_next)
    def following(this: Any) -> Any:
        batch = plain_next(this)
        if isinstance(this._sampler_iter, Epoch):
            handed_out(this._sampler_iter)
        return batch

    base.__next__ = following
    loader._index_sampler, loader.__len__ = property(indices), length


def _is_hotlap(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("hotlap.")
