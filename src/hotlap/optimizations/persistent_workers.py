"""Loader workers live on from one epoch to the next.

## What it does
Makes the training loader with `persistent_workers=True`.

## Why it helps
Without it every epoch starts its workers anew: forked ones take a moment, spawned ones seconds
each, and whatever the dataset had cached is gone.

## When it does not help
Long epochs. The workers keep their memory between epochs. They also keep the data set as it was
when they began: where a script changes it between epochs, they are started anew, and it is said.
That is seen in the records of a long list as well, before each epoch. Where a data set holds more
than can be compared (some twenty million numbers and words in records that may change), workers are
started anew for every epoch. Names of files and other things that do not change are no such case.
A data set that changes with the samples it makes, as where it counts them, is left alone: workers
that are started anew begin with the script's own each time. Some samples are made in a process
apart to see that.

A global variable that the samples depend on and that the script changes between epochs, as the
number of the epoch, cannot be seen: workers that live on keep its first value. Do not use it there.

## By hand
One argument of the DataLoader.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hotlap.optimizations import reading
from hotlap.optimizations.midway import scripts_own
from hotlap.optimizations.originals import changed, unseen

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "persistent-workers"
NUMERICS = "close"  # a worker's random state lives on as well
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}


def refusal(record: Record) -> str | None:
    loader = reading.loader(record)
    if loader is None:
        return "no DataLoader feeds the training"
    if loader.persistent_workers:
        return "the loader's workers already live on"
    if not loader.workers:
        return "the loader has no workers"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return record.epoch_start_share or 0.0


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return "DataLoader(dataset, ..., persistent_workers=True)"


def install(training: Training, settings: dict[str, Any]) -> None:
    kept = Kept(training)

    def change(arguments: dict[str, Any]) -> None:
        if not arguments.get("num_workers", 0):
            training.refused(NAME, "the loader has no workers")
            return
        if arguments.get("persistent_workers"):
            training.applied(NAME, "persistent_workers=True")
            kept.as_it_was(arguments.get("dataset"))
        else:
            what = _changed_by_samples(arguments.get("dataset"))
            if what is not None:
                training.refused(NAME, f"making a sample changes `{what}`, which would live on")
                return
        arguments["persistent_workers"] = True

    training.change_loaders(NAME, change)


def _changed_by_samples(dataset: Any) -> str | None:
    """What each epoch begins with again; a stream's samples are nobody's to take."""
    from hotlap.data import keeping

    own = scripts_own(dataset)
    if not hasattr(own, "__getitem__") or not hasattr(own, "__len__"):
        return None
    return keeping.changed_by_samples(own)


class Kept:
    """Workers that persist have the data set as it was when they began.

    Where the script changes it between epochs, new ones would have seen that: so there are new ones
    again, from then on for every epoch.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self._scripts: dict[int, Any] = {}  # whose workers persist without us
        self._noted: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        loader = training.torch.utils.data.DataLoader
        plain = loader.__iter__

        @functools.wraps(plain)
        def begin(this: Any) -> Any:
            if this.persistent_workers and id(this.dataset) not in self._scripts:
                self._look(this)
            return plain(this)

        loader.__iter__ = begin

    def as_it_was(self, dataset: Any) -> None:
        self._scripts[id(dataset)] = dataset

    def _look(self, loader: Any) -> None:
        from hotlap.data.noting import Noted

        if loader._iterator is None:
            begun = self._noted[loader] = Noted(loader.dataset)
            if begun.unseen is not None:
                self._end(loader, unseen(begun.unseen))
            return
        noted = self._noted.get(loader)
        what = noted.change(closely=True) if noted is not None else None
        if what is not None:
            loader._iterator._shutdown_workers()
            loader._iterator = None
            self._end(loader, changed(what))

    def _end(self, loader: Any, why: str) -> None:
        vars(loader)["persistent_workers"] = False  # the loader itself lets nobody set it
        self._training.ended(NAME, why)
