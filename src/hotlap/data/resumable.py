"""A loader that can stop in the middle of an epoch and go on there, in another process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import BatchSampler, IterableDataset

from hotlap.data.delegation import Around
from hotlap.data.order import Order, Progress


class Resumable(Around):
    """Counts the batches the training got, and skips those when a state is loaded.

    Goes around a DataLoader that draws from an `Order`, or around something that looks like one.
    Skipping is arithmetic on indices: no sample is made for it. Number of workers, batch size and
    number of ranks may be others than before.

    Each iteration is an epoch of its own: the one that was named by `set_epoch`, the rest of the
    one that was loaded, or else the next one, also where the last was broken off.
    """

    OWN = ("loader", "order", "samples")

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader: Any = loader
        self.order, self.samples = _drawn_from(loader)

    def __iter__(self) -> Iterator[Any]:
        order = self.order
        now = order.progress
        if now.taken or now.ended:
            order.progress = Progress(epoch=now.epoch + 1)
        else:  # nothing came of it: it is begun again
            order.progress = dataclasses.replace(now)
        return _Run(iter(self.loader), order, self.samples)

    @property
    def epoch(self) -> int:
        """Where a loop over epochs begins, or is."""
        return self.order.epoch

    def set_epoch(self, epoch: int) -> None:
        self.order.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the training is: the batch it got last counts as used."""
        return self.order.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order.load_state_dict(state)


class _Run:
    """One iteration. It keeps its own count, and knows when a state was loaded over it."""

    def __init__(self, source: Iterator[Any], order: Order, samples: int) -> None:
        self._source, self._order, self._samples = source, order, samples
        self._progress = order.progress
        self._loads = order.loads
        self._begun = False
        self._failed = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._loads != self._order.loads:
            raise RuntimeError(
                "a state was loaded after this iteration began; it would give the batches of "
                "before. Call iter() again, after load_state_dict()"
            )
        try:
            batch = next(self._source) if self._begun else self._first()
        except StopIteration:
            self._progress.ended = True
            raise
        except Exception:
            self._failed += 1  # counts when a later batch comes: till then it can be tried again
            raise
        self._progress.taken += self._samples * (1 + self._failed)
        self._failed = 0
        return batch

    def _first(self) -> Any:
        """Without workers torch draws the first index only now, when another run may have begun."""
        order = self._order
        newest, order.progress = order.progress, self._progress
        try:
            return next(self._source)
        finally:
            order.progress = newest
            self._begun = True


def _drawn_from(loader: Any) -> tuple[Order, int]:
    """The order a loader draws from, and the samples of a batch."""
    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        raise TypeError(
            f"{type(loader.dataset).__name__} is an IterableDataset: it has no index to resume at, "
            "and skipping would make every sample again. Resumable needs a dataset with "
            "__getitem__ and __len__"
        )
    if not getattr(loader, "in_order", True):
        raise ValueError(
            "with in_order=False nobody knows which samples were delivered; leave it out"
        )
    for name in ("batch_sampler", "sampler"):
        batches: Any = getattr(loader, name, None)
        if isinstance(batches, Order):
            return batches, 1
        if type(batches) is BatchSampler and isinstance(batches.sampler, Order):
            return batches.sampler, batches.batch_size
    raise TypeError(
        "the loader does not draw from an Order, so its epochs cannot be taken up again. Make it "
        "with DataLoader(dataset, sampler=Order(dataset), ...) and without shuffle=True"
    )
