"""Workers that a script did not have see its data set as it was when the epoch began.

Where the script changes it in the middle of one, as a curriculum that goes by steps does, its own
loading would have shown that in the very next batch. So the data set is looked at before each batch
is handed out. Once it was changed, the batches that workers made ahead are dropped, and the rest of
the epoch and all later ones are loaded without them.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from hotlap import origins
from hotlap.optimizations.device_prefetch import HELD
from hotlap.optimizations.originals import changed

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training

AROUND = {"Tiered": "_tiered_source", "Concurrent": "dataset"}  # where the script's own is
ALONE = {"num_workers": 0, "timeout": 0, "prefetch_factor": None, "persistent_workers": False}
EPOCH = "_hotlap_epoch"
SHARE = 0.01  # of the time, for comparing what takes long to compare


class Midway:
    """The loaders that got workers, and what becomes of their epochs."""

    def __init__(self, training: Training, name: str) -> None:
        self._training, self._name = training, name
        self._made: list[tuple[dict[str, Any], Any]] = []  # arguments, and the script's data set
        self._loaders: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._changed: list[tuple[Any, str]] = []
        self._begins: Epoch | None = None  # while its iterator is made
        self._wrap()

    def watch(self, arguments: dict[str, Any]) -> None:
        """`arguments` are those of a loader that is about to be made; others may change them."""
        self._made.append((arguments, scripts_own(arguments.get("dataset"))))

    def reason(self, dataset: Any) -> str | None:
        """Why a data set gets no workers again."""
        own = scripts_own(dataset)
        return next((why for one, why in self._changed if one is own), None)

    def ended(self, dataset: Any, why: str, loader: Any) -> None:
        self._changed.append((dataset, why))
        self._training.ended(self._name, why)
        if loader is None:
            return
        if loader.persistent_workers:
            self._training.ended("persistent-workers", why)
        vars(loader).update(ALONE, _iterator=None)  # the loader itself lets nobody set some of it

    def _wrap(self) -> None:
        torch = self._training.torch
        kinds = torch.utils.data.dataloader
        loader, base = torch.utils.data.DataLoader, kinds._BaseDataLoaderIter
        plain, plain_index = loader.__iter__, base._next_index

        @functools.wraps(plain)
        def begin(this: Any) -> Any:
            dataset = self._dataset(this)
            if dataset is None:
                return plain(this)
            epoch = Epoch(self, this, dataset)
            if this._iterator is not None:  # of workers that live on
                vars(this._iterator).pop(EPOCH, None)
            self._begins = epoch
            try:
                iterator = plain(this)
            finally:
                self._begins = None
            if isinstance(iterator, kinds._MultiProcessingDataLoaderIter):
                epoch.iterator = weakref.ref(iterator)
                vars(iterator)["_next_data"] = epoch.next
            return iterator

        @functools.wraps(plain_index)
        def next_index(this: Any) -> Any:
            index = plain_index(this)
            epoch = vars(this).get(EPOCH)
            if epoch is None and self._begins is not None:
                epoch = vars(this)[EPOCH] = self._begins
            if epoch is not None and epoch.midway is self:
                epoch.waiting.append(index)
            return index

        loader.__iter__, base._next_index = begin, next_index

    def _dataset(self, loader: Any) -> Any:
        """The script's own, where workers load it that the script does not have."""
        if not loader.num_workers or not getattr(loader, "in_order", True):
            return None
        for at, (arguments, own) in enumerate(self._made):
            if arguments.get("dataset") is loader.dataset:
                self._loaders[loader] = own
                del self._made[at]
                break
        return self._loaders.get(loader)


class Epoch:
    """One way through a loader: by workers, and from a change of the data set on without."""

    iterator: weakref.ref[Any]  # it must end its workers as soon as nobody holds it

    def __init__(self, midway: Midway, loader: Any, dataset: Any) -> None:
        from hotlap.data.noting import Noted

        collate = getattr(loader.collate_fn, "__self__", loader.collate_fn)
        self._noted = {"data set": Noted(dataset), "collate function": Noted(collate)}
        self.midway, self._dataset = midway, dataset
        self._alone = object.__new__(type(loader))  # a copy, without asking how it wants to be
        vars(self._alone).update(vars(loader), _iterator=None)
        self._loader = weakref.ref(loader)
        self.waiting: deque[Any] = deque()  # indices of batches that were not handed out yet
        self._handed_out = 0
        self._look_again = math.inf  # when what takes long to compare is
        self._rest: Any = None

    def next(self) -> Any:
        if self._rest is not None:
            return self._rest._next_data()
        iterator: Any = self.iterator()
        why = self._change() if self.waiting else None
        if why is not None:
            self._rest = self._go_on(iterator)
            self.midway.ended(self._dataset, why, self._loader())
            return self._rest._next_data()
        if self.waiting:
            self.waiting.popleft()
        self._handed_out += 1
        return type(iterator)._next_data(iterator)

    def _change(self) -> str | None:
        """What takes long to compare is looked at after the first batch, then now and then."""
        began = time.perf_counter()
        closely = self._handed_out == 1 or began > self._look_again
        found = {owner: noted.change(closely=closely) for owner, noted in self._noted.items()}
        if closely:
            now = time.perf_counter()
            self._look_again = now + (now - began) / SHARE
        return next((changed(what, of) for of, what in found.items() if what is not None), None)

    def _go_on(self, iterator: Any) -> Any:
        """The batches that are left, as the script loads them; no random number is drawn for it."""
        import torch

        vars(iterator).pop(HELD, None)
        left = itertools.chain([*self.waiting], iterator._sampler_iter)
        iterator._shutdown_workers()
        indices = "batch_sampler" if self._alone._auto_collation else "sampler"
        vars(self._alone).update(ALONE, generator=torch.Generator(), **{indices: left})
        return self._alone._get_iterator()


def scripts_own(dataset: Any) -> Any:
    while origins.library(type(dataset)) == "hotlap" and type(dataset).__name__ in AROUND:
        dataset = vars(dataset)[AROUND[type(dataset).__name__]]
    return dataset
