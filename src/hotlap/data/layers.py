"""Where in a data set the random part begins: what lies below it can be cached, what is above is
done again for every epoch.

A data set that keeps its transform in `transform` (or torchvision's `transforms`) is copied with
the leading part of it; the rest is applied to what comes from the cache. That the two together are
the data set is checked on samples, with the same random numbers. Where no such place is found,
nothing is cached, and the reason says why.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hotlap.data.failures import named
from hotlap.data.packing import CannotPack, pack, unpack
from hotlap.data.randomness import reseed, restored, steady

MUCH_SMALLER = 1.25  # as a byte image is against the float tensor made of it


class NotCacheable(ValueError):
    """The samples are not the same each time, and where that begins was not found."""


@dataclass(frozen=True, kw_only=True)
class Below:
    """What may be cached, and what is left to do with it."""

    dataset: Any
    rest: tuple[Callable[[Any], Any], ...] = ()
    told: str = "whole samples"
    sizes: tuple[int, ...] = ()  # of the samples that were asked for, packed
    digest: str = ""  # of the same

    def finish(self, sample: Any) -> Any:
        """The rest of the transform, on the part of a sample it belongs to."""
        if not self.rest:
            return sample
        if isinstance(sample, tuple) and sample:
            return (self._apply(sample[0]), *sample[1:])
        if isinstance(sample, list) and sample:
            return [self._apply(sample[0]), *sample[1:]]
        return self._apply(sample)

    def _apply(self, value: Any) -> Any:
        for one in self.rest:
            value = one(value)
        return value


def same(value: Any) -> Any:
    """A transform that does nothing: some data sets call theirs without looking."""
    return value


class Chain:
    """Some transforms one after another."""

    def __init__(self, parts: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(parts)

    def __call__(self, value: Any) -> Any:
        for one in self.transforms:
            value = one(value)
        return value


def below(dataset: Any, indices: Sequence[int]) -> Below:
    """The part of the data set that is the same each time; `indices` are the samples to ask for."""
    parts = transforms_of(dataset)
    where = "it has no `transform` to look into"
    if parts is not None:
        found = _split(dataset, parts, indices)
        if isinstance(found, Below):
            return found
        where = found
    kept: dict[int, bytes] = {}
    for at in indices:
        sample = steady(lambda at=at: dataset[at])  # type: ignore[misc]
        if sample is None:
            break
        kept[at] = sample
    else:
        return Below(dataset=dataset, sizes=tuple(map(len, kept.values())), digest=_digest(kept))
    raise NotCacheable(
        f"the samples of {type(dataset).__name__} are random, and {where}; put the cache around "
        "the part that reads and decodes, and transform what comes out of it"
    )


def refuse_epochs(dataset: Any) -> None:
    """Random numbers that follow from the epoch alone look fixed as long as it does not change."""
    inside = [getattr(dataset, "dataset", None), *_several(getattr(dataset, "datasets", None))]
    for one in inside:
        if one is not None and one is not dataset:
            refuse_epochs(one)
    if callable(getattr(dataset, "set_epoch", None)):
        name = type(dataset).__name__
        raise NotCacheable(
            f"{name} has `set_epoch`: its samples change with the epoch, and a cache would keep "
            f"those of the first. Put the cache around what {name} reads from, and {name} around "
            "the cache"
        )


def _several(datasets: Any) -> Sequence[Any]:
    return datasets if isinstance(datasets, (list, tuple)) else ()


def transforms_of(dataset: Any) -> list[Any] | None:
    transform = getattr(dataset, "transform", None)
    if not callable(transform):
        return None
    inside = getattr(transform, "transforms", None)
    if type(transform).__name__ == "Compose" and isinstance(inside, (list, tuple)):
        return list(inside)
    return [transform]


def _split(dataset: Any, parts: list[Any], indices: Sequence[int]) -> Below | str:
    """Under as many of the transforms as are fixed and leave the samples about their smallest.

    Or why not.
    """
    plain, all_parts = with_transforms(dataset, []), Below(dataset=None, rest=tuple(parts))
    kept: dict[int, bytes] = {}
    for at in indices:
        try:
            sample = steady(lambda at=at: plain[at])  # type: ignore[misc]
            if sample is None:
                return "not by its transform alone"
            if not _makes(dataset, all_parts, at, sample):
                return "its transform is not the last thing that is done to them"
        except Exception as problem:  # it cannot do without its transform, or it cannot be kept
            return f"what lies below its transform cannot be had by itself ({named(problem)})"
        kept[at] = sample
    places = [(tuple(map(len, kept.values())), _digest(kept))]
    for part in parts:
        one = Below(dataset=None, rest=(part,))
        try:
            after = {
                at: steady(lambda one=one, sample=sample: one.finish(unpack(sample)))  # type: ignore[misc]
                for at, sample in kept.items()
            }
        except CannotPack:
            break
        if None in after.values():
            break
        kept = {at: sample for at, sample in after.items() if sample is not None}
        places.append((tuple(map(len, kept.values())), _digest(kept)))
    totals = [sum(sizes) for sizes, _ in places]
    number = max(at for at, total in enumerate(totals) if total <= MUCH_SMALLER * min(totals))
    sizes, digest = places[number]
    if number == len(parts):
        return Below(dataset=dataset, sizes=sizes, digest=digest)
    return Below(
        dataset=with_transforms(dataset, parts[:number]),
        rest=tuple(parts[number:]),
        told=f"samples as they are before {_name(parts[number])}",
        sizes=sizes,
        digest=digest,
    )


def _name(transform: Any) -> str:
    kind = type(transform).__name__
    return getattr(transform, "__name__", kind) if kind == "function" else kind


def _digest(kept: dict[int, bytes]) -> str:
    whole = hashlib.sha256()
    for at, sample in kept.items():
        whole.update(b"%d %d " % (at, len(sample)) + sample)
    return whole.hexdigest()


def _makes(dataset: Any, rest: Below, at: int, sample: bytes) -> bool:
    """Whether the transforms make the data set's sample of this, with the same random numbers."""
    with restored():
        reseed(at)
        whole = pack(dataset[at])
        reseed(at)
        return pack(rest.finish(unpack(sample))) == whole


def with_transforms(dataset: Any, parts: list[Any]) -> Any:
    """A copy that shares everything but the transform."""
    short = copy.copy(dataset)
    transform = Chain(parts) if parts else same
    short.transform = transform
    joint = getattr(dataset, "transforms", None)
    if joint is not None and hasattr(joint, "transform"):  # torchvision keeps it there as well
        short.transforms = copy.copy(joint)
        short.transforms.transform = transform
    return short
