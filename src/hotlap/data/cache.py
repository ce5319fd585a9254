"""What a `Tiered` keeps of its data set, and where a sample comes from when it is asked for."""

from __future__ import annotations

import logging
import operator
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from hotlap.data import budgets, fitting, generators, identity, layers, meeting
from hotlap.data.asking import MISSING, asked, asked_below
from hotlap.data.calls import APART
from hotlap.data.counting import Counts
from hotlap.data.drawing import Drawing
from hotlap.data.epochs import refuse_epochs
from hotlap.data.failures import Failures
from hotlap.data.fitting import Fit
from hotlap.data.noting import Noted
from hotlap.data.ondevice import OnDevice
from hotlap.data.packing import CannotPack, pack, unpack
from hotlap.data.rechecking import Rechecking
from hotlap.data.telling import kind
from hotlap.data.tiers import Wanted, clear, packed_in, shelf_in
from hotlap.data.untouched import left_as_it_was, put_back

TIERS = ("device", "ram", "disk", "source")
BESIDE = ("random", "passed on")  # of those from the source: why they are not kept
COLUMNS = (*TIERS, *BESIDE)
LOOK_EVERY = 0.5  # seconds between looks at the machine's memory
LEAST_FREE = 0.05  # of the memory: below it, filling ends
TRANSFORMS = ("transform", "transforms")
NONE_SEEN = sys.maxsize
LAYOUT = 2  # of caches below a transform: samples that it is not for are marked
log = logging.getLogger("hotlap.data")


class Cache:
    """Of one data set; `Tiered` is what a loader sees of it."""

    def __init__(
        self,
        dataset: Any,
        wanted: Wanted,
        *,
        version: str,
        failures: Failures,
        strict: bool,
        recheck: float,
    ) -> None:
        self._source = dataset
        self._samples = _length(dataset)
        self._version = version
        self._wanted = wanted
        self._wanted.check(_warn)
        self._strict = strict
        self._has_passed_on = False
        self.failures = failures
        self._tally = Counts(len(COLUMNS))
        self._rechecking = Rechecking(recheck)
        self._looked = 0.0
        self._smallest = NONE_SEEN  # bytes of a packed sample
        self._some_random = False
        self.key: str | None = None
        self._outdated: str | None = None
        self.begin()

    def begin(self) -> None:
        """Looks at the data set as it is now; what is kept stays if it is of the same data."""
        self._samples = _length(self._source)
        noted, known = Noted(self._source), identity.attributes(self._source)
        with left_as_it_was(self._source) as before, generators.restored(self._source) as own:
            refuse_epochs(self._source)
            probes = fitting.probe(self._source, self._samples)
            self.probes = tuple(probes.indices)  # the samples that were looked at
            self.below = layers.below(self._source, self.probes)
            own.put_back()
            facts = self._facts(known)
            sizes = fitting.more_sizes(self.below.dataset, self._samples) or self.below.sizes
            noted.settle(closely=True)
            put_back(self.below.dataset, before, but=TRANSFORMS)
        self._drawing = Drawing(self.below.dataset)
        key = identity.key(facts)
        if key != self.key:
            self._sizes = self._wanted.sizes(key, self._samples, _warn)
            self._open(key, facts)
        there = self._wanted.there(key, self._sizes, self._shelf)
        self.fit: Fit = fitting.fit(sizes, probes, samples=self._samples, budgets=there)
        self._keeps_all = self.fit.most_bytes <= self.fit.disk_bytes
        self._noted, self._outdated, self.unseen = noted, None, noted.unseen
        log.info("caching %s. %s", self.below.told, self.fit.sentence)

    def _open(self, key: str, facts: dict[str, Any]) -> None:
        again, self.key = self.key is not None, key
        if again and get_worker_info() is not None:  # a cache in each worker would pass the budget
            _warn("what was set in this worker changes the samples: it does without the cache")
            self.arena = self._shelf = self._device = None
            self._sizes = dict.fromkeys(self._sizes, 0)
            return
        sizes, samples = self._sizes, self._samples
        self.arena = meeting.arena(key, samples, sizes["ram"]) if sizes["ram"] else None
        self._shelf = shelf_in(self._wanted.path, key, facts, samples, sizes["disk"], tell=_warn)
        self._device = OnDevice(self._wanted.on, sizes["device"]) if sizes["device"] else None

    def _facts(self, before: identity.Known) -> dict[str, Any]:
        """What makes a cache that of this data set and no other."""
        known = identity.unchanged(before, identity.attributes(self._source))
        return {
            "dataset": kind(type(self.below.dataset)),
            "samples": self._samples,
            "version": self._version,
            "known": {name: value for name, value in known.items() if not _is_transform(name)},
            "transforms": [
                identity.digest(getattr(self.below.dataset, name, None)) for name in TRANSFORMS
            ],
            "probes": self.below.digest,
            **({"layout": LAYOUT} if self.below.rest else {}),
        }

    def set(self, name: str, value: Any) -> None:
        """On the data set, as it would be without the cache; that may make it another one."""
        setattr(self._source, name, value)
        try:
            self.begin()
        except Exception as problem:
            self._outdated = name
            _warn(f"with `{name}` as it is now nothing is cached any more: {problem}")

    def __len__(self) -> int:
        return len(self._source) if self._is_outdated() else self._samples

    # Samples -----------------------------------------------------------------------------------

    def outdated(self) -> str | None:
        """What was changed on the data set itself; from then on it is asked, and nothing kept."""
        return self._outdated or self._noted.change(closely=True)

    def _is_outdated(self) -> bool:
        if self._outdated is None:
            self._outdated = self._noted.change()
            if self._outdated is not None:
                _warn(
                    f"`{self._outdated}` was changed on the data set, behind the cache: all "
                    "samples come from the data set from here on. Set it on the cache, or make "
                    "another one"
                )
        return self._outdated is not None

    def wrong(self) -> str | None:
        """What a sample that was made again showed, in whichever process."""
        return self._rechecking.wrong()

    def _is_wrong(self, found: list[Any], places: list[int]) -> bool:
        """Whether one of those found is another sample now: then none is believed any more."""
        index = self._rechecking.chosen(found, places)
        tiers = (self._device_here(), self.arena, self._shelf)
        kept = None if index is None else packed_in(tiers, index)
        if index is None or kept is None:
            return False
        wrong = self._rechecking.finds(self.below, index, kept)
        self._noted.settle()
        if wrong is not None:
            clear(tiers)
            _warn(
                f"{wrong}: all samples come from the data set from here on, and what was kept of "
                "them is forgotten. Those that came from the cache so far are to be doubted"
            )
        return wrong is not None

    def samples_of(self, indices: Sequence[Any]) -> list[Any]:
        if self._rechecking.has_found or self._is_outdated():
            return self._uncached(indices)
        places = self._places(indices)
        if places is None:
            return self._passed_on(indices)
        found = list(map(self._cached, places))
        missing = [at for at, sample in enumerate(found) if sample is MISSING]
        if len(missing) < len(found) and self._is_wrong(found, places):
            return self._uncached(indices)
        try:
            for at, sample in zip(missing, self._made([places[at] for at in missing]), strict=True):
                found[at] = sample
            return [
                sample if sample is MISSING else self._finished(place, sample)
                for place, sample in zip(places, found, strict=True)
            ]
        finally:  # also where a sample failed, which the script may well catch
            if missing or self.below.rest:
                self._noted.settle()

    def _uncached(self, indices: Sequence[Any]) -> list[Any]:
        samples = asked(self._source, indices, self.failures)
        return [
            sample if sample is MISSING else self._on_device(index, sample, keep=False)
            for index, sample in zip(indices, samples, strict=True)
        ]

    def _places(self, indices: Sequence[Any]) -> list[int] | None:
        """None where one is no sample's number, which the data set may know what to do with."""
        try:
            return list(map(self._place, indices))
        except (TypeError, IndexError):
            if self._strict:
                raise
            return None

    def _passed_on(self, indices: Sequence[Any]) -> list[Any]:
        many = getattr(self._source, "__getitems__", None) if len(indices) > 1 else None
        samples = [self._source[index] for index in indices] if many is None else many(indices)
        self._noted.settle()
        self._count("source", len(indices))
        odd = next(index for index in indices if self._places([index]) is None)
        self._say_passed_on(f"{odd!r} is none of the {self._samples:,} samples", len(indices))
        return [self._on_device(0, sample, keep=False) for sample in samples]

    def _say_passed_on(self, why: str, samples: int = 1) -> None:
        self._count("passed on", samples)
        if not self._has_passed_on:
            self._has_passed_on = True
            _warn(f"{why}; such samples are not cached, and come from the data set each time")

    def _place(self, index: Any) -> int:
        place = operator.index(index)
        if not -self._samples <= place < self._samples:
            raise IndexError(f"sample {place} of {self._samples}")
        return place % self._samples

    def _finished(self, index: int, sample: Any) -> Any:
        if sample is APART:
            (whole,) = self._uncached([index])
            self._count("source", int(whole is not MISSING))
            return whole
        try:
            return self.below.finish(sample)
        except Exception as problem:
            self.failures.met(index, problem)
            return MISSING

    def _cached(self, index: int) -> Any:
        tier = self._device_here()
        held = None if tier is None else tier.get(index)
        if held is not None:
            self._count("device")
            return held
        packed = self.arena.get(index) if self.arena is not None else None
        where = "ram"
        if packed is None and self._shelf is not None:
            kept, where = self._shelf.get(index), "disk"
            packed = memoryview(kept) if kept is not None else None
        if packed is None:
            return MISSING
        try:
            sample = unpack(packed)
        except ValueError:
            if where == "disk" and self._shelf is not None:
                self._shelf.forget(index)
            return MISSING
        self._count(where)
        moved = self._on_device(index, sample)
        if where == "disk" and not self._is_on_device(index):
            self._keep_in_memory(index, packed)
        return moved

    def _made(self, indices: list[int]) -> list[Any]:
        """From the source; all at once, until one of them is seen to be random."""
        if indices and self._device is None and self._is_full():  # random or not, none is kept
            samples = asked_below(self.below, indices, self.failures)
            self._count("source", sum(one is not MISSING and one is not APART for one in samples))
            return samples
        if not self._some_random:
            return self._watched(indices)
        return [sample for index in indices for sample in self._watched([index])]

    def _watched(self, indices: list[int]) -> list[Any]:
        """Kept, unless random numbers were drawn: such samples must stay as different as they are.

        The samples looked at first were not random, but others may be.
        """
        before = self._drawing.state() if indices else None
        began = time.monotonic()
        samples = asked_below(self.below, indices, self.failures)
        self._rechecking.took(time.monotonic() - began, max(1, len(indices)))
        moved = before is not None and self._drawing.since(before, indices)
        if moved:
            self._say_random(indices)
        return [
            sample if sample is MISSING else self._kept(index, sample, fixed=not moved)
            for index, sample in zip(indices, samples, strict=True)
        ]

    def _say_random(self, indices: list[int]) -> None:
        self._count("random", len(indices))
        if not self._some_random:
            self._some_random = True
            which = f"sample {indices[0]}" if len(indices) == 1 else f"one of {indices[:8]}"
            several = threading.active_count() > 1
            others = ", or another thread did meanwhile" if several else ""
            _warn(
                f"making {which} draws random numbers{others}, though the samples that were "
                "looked at first do not; what draws them is not kept, and made anew each time"
            )

    def _kept(self, index: int, sample: Any, *, fixed: bool) -> Any:
        if sample is APART:
            return sample
        self._count("source")
        if not fixed:
            return self._on_device(index, sample, keep=False)
        if self._is_full():
            return self._on_device(index, sample)
        try:
            packed = pack(sample)
        except CannotPack as problem:
            if self._strict:
                raise CannotPack(f"sample {index}: {problem}") from None
            self._say_passed_on(f"sample {index}: {problem}")
            return self._on_device(index, sample, keep=False)
        self._smallest = min(self._smallest, len(packed))
        moved = self._on_device(index, sample)
        held = self._is_on_device(index) or self._keep_in_memory(index, packed)
        if self._shelf is not None and (self._keeps_all or not held):
            self._shelf.put(index, packed)
        return moved

    def _is_full(self) -> bool:
        """Whether there is no room for even the smallest sample seen: packing one is felt."""
        arena = self.arena
        if arena is None or self._shelf is not None or self._smallest == NONE_SEEN:
            return False
        return not arena.has_room(self._smallest)

    def _keep_in_memory(self, index: int, packed: bytes | memoryview) -> bool:
        arena = self.arena
        if arena is None or not arena.has_room(len(packed)):
            return False
        now = time.monotonic()
        if now - self._looked > LOOK_EVERY:
            self._looked = now
            if budgets.free_share() < LEAST_FREE:
                if arena.close_filling():
                    warnings.warn("memory is short; the cache is not filled further", stacklevel=2)
                return False
        return arena.put(index, packed)

    def _on_device(self, index: int, sample: Any, *, keep: bool = True) -> Any:
        """Where there is a device tier, all samples come on the device: batches hold one kind."""
        tier = self._device_here()
        return sample if tier is None else tier.moved(index, sample, keep=keep)

    def _is_on_device(self, index: int) -> bool:
        """Whether it needs no room elsewhere: this process has it from there from now on."""
        tier = self._device_here()
        return tier is not None and tier.has(index)

    def _device_here(self) -> OnDevice | None:
        """Of the process that trains; workers have none, also where they are forked from it."""
        return self._device if get_worker_info() is None else None

    # Telling -----------------------------------------------------------------------------------

    def _count(self, column: str, samples: int = 1) -> None:
        self._tally.add(COLUMNS.index(column), samples)

    def counted(self) -> dict[str, int]:
        """Samples by where they came from, over all workers, and those that were not kept."""
        return dict(zip(COLUMNS, self._tally.table.sum(0).tolist(), strict=True))

    def forget_counted(self) -> None:
        self._tally.table.zero_()

    @property
    def used(self) -> dict[str, int]:
        """Bytes in each tier."""
        return {
            "device": self._device.used if self._device is not None else 0,
            "ram": self.arena.used if self.arena is not None else 0,
            "disk": self._shelf.used if self._shelf is not None else 0,
        }


def _length(dataset: Any) -> int:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise TypeError(
            f"{type(dataset).__name__} has no samples by index; a cache needs a map-style data set"
        )
    return len(dataset)


def _is_transform(name: str) -> bool:
    """Of the data set's own: those that come after the cache are no part of what is in it."""
    return name.partition(".")[0] in TRANSFORMS


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)
