"""Whole batches handed out in parts, by a loader that keeps the batch size it was given."""

from __future__ import annotations

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

    def __iter__(self) -> Epoch:
        return Epoch(self._batches, self._size.parts, self._wanted)

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


class Epoch:
    """The parts of one epoch, and which share of its update each that is to come has."""

    def __init__(self, batches: Any, parts: int, wanted: Callable[[], bool]) -> None:
        self.shares: deque[float] = deque(maxlen=MOST_AHEAD)  # in the order they are handed out in
        self._parts = self._each(batches, parts, wanted)

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        return next(self._parts)

    def _each(self, batches: Any, parts: int, wanted: Callable[[], bool]) -> Iterator[Any]:
        for batch in batches:
            for part in split(batch, parts) if wanted() else (batch,):
                self.shares.append(len(part) / len(batch) * min(1.0, len(batch) / parts))
                yield part


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
        size = getattr(batches, "batch_size", None)
        if isinstance(size, Whole):
            return Parts(batches, size, wanted)
        if isinstance(this.batch_size, Whole):
            elsewhere()
        return batches

    def length(this: Any) -> int:
        size = this.batch_size
        found = int(plain_length(this))
        if not isinstance(this._index_sampler, Parts) or not wanted():
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
