"""Where in a data set the random part begins: what lies below it can be cached, what is above is
done again for every epoch.

A data set that keeps its transform in `transform` or `transforms`, or wraps one that does, is
copied with the leading part of it; the rest is applied to what comes from the cache. That the two
together are the data set is checked on samples, with the same random numbers. Where no such place
is found, nothing is cached, and the reason says why.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hotlap.data.calls import Watched
from hotlap.data.comparing import alike
from hotlap.data.epochs import NotCacheable
from hotlap.data.failures import named
from hotlap.data.generators import Own
from hotlap.data.generators import restored as own_restored
from hotlap.data.packing import CannotPack, Finished, pack, unpack
from hotlap.data.randomness import reseed, restored, steady
from hotlap.data.shortening import (
    CannotShorten,
    Chain,
    is_plain_chain,
    parts_of,
    same,
    transform_of,
    with_transform,
    with_transforms,
)

MUCH_SMALLER = 1.25  # as a byte image is against the float tensor made of it


@dataclass(frozen=True, kw_only=True)
class Below:
    """What may be cached, and what is left to do with it."""

    dataset: Any
    rest: tuple[Callable[..., Any], ...] = ()
    together: bool = False  # the rest is for an image and its target, not for the image alone
    told: str = "whole samples"
    sizes: tuple[int, ...] = ()  # of the samples that were asked for, packed
    digest: str = ""  # of the same

    def finish(self, sample: Any) -> Any:
        """The rest of the transform, on the part of a sample it belongs to."""
        if type(sample) is Finished:
            return sample.sample
        if not self.rest:
            return sample
        if self.together:
            return (*self._both(sample[0], sample[1]), *sample[2:])
        if isinstance(sample, tuple) and sample:
            return (self._apply(sample[0]), *sample[1:])
        if isinstance(sample, list) and sample:
            return [self._apply(sample[0]), *sample[1:]]
        return self._apply(sample)

    def handed(self, sample: Any) -> tuple[Any, ...]:
        """The part of a sample that the rest is for."""
        several = isinstance(sample, (list, tuple))
        if self.together:
            return tuple(sample[:2]) if several else ()
        return (sample[0],) if several and sample else (sample,)

    def _apply(self, value: Any) -> Any:
        for one in self.rest:
            value = one(value)
        return value

    def _both(self, value: Any, target: Any) -> tuple[Any, Any]:
        for one in self.rest:
            value, target = one(value, target)
        return value, target


def below(dataset: Any, indices: Sequence[int]) -> Below:
    """The part of the data set that is the same each time; `indices` are the samples to ask for."""
    with own_restored(dataset) as own:
        found = _below_the_transform(dataset, indices, own)
        if isinstance(found, Below):
            return found
        kept = _steadily(dataset, indices, own)
    if kept is not None:
        return Below(dataset=dataset, sizes=tuple(map(len, kept.values())), digest=_digest(kept))
    raise NotCacheable(
        f"the samples of {type(dataset).__name__} are random, and {found}",
        "put the cache around the part that reads and decodes, and transform what comes out of it",
    )


def _below_the_transform(dataset: Any, indices: Sequence[int], own: Own) -> Below | str:
    """Or why not."""
    try:
        transform = transform_of(dataset)
        if transform is None:
            return "it has no `transform` to look into"
        passed = Passed()
        kept = _steadily(with_transforms(dataset, [passed]), indices, own)
    except CannotShorten as problem:
        return str(problem)
    except Exception as problem:  # it cannot do without its transform, or it cannot be kept
        return _unfit(problem)
    if kept is None:
        return "not by its transform alone"
    if not passed.values:  # then it would not be seen either for which samples it is called
        return "its transform is not called by the process that asks for them"
    reasons = []
    for way in _ways(transform, together=passed.values > 1):
        reason = _unlike(dataset, way, kept, own)
        if reason is None:
            return _split(dataset, way, kept, own)
        reasons.append(reason)
    return reasons[0]


def _unfit(problem: Exception) -> str:
    return f"what lies below its transform cannot be had by itself ({named(problem)})"


def _steadily(dataset: Any, indices: Sequence[int], own: Own) -> dict[int, bytes] | None:
    """The samples as they are; None where they are not the same each time."""
    kept: dict[int, bytes] = {}
    for at in indices:
        sample = steady(lambda at=at: dataset[at], own)  # type: ignore[misc]
        if sample is None:
            return None
        kept[at] = sample
    return kept


class Passed:
    """A transform that does nothing, and sees whether it gets an image alone or with its target."""

    def __init__(self) -> None:
        self.values = 0

    def __call__(self, *values: Any) -> Any:
        self.values = max(self.values, len(values))
        return same(*values)


def _ways(transform: Any, *, together: bool) -> Iterator[Below]:
    """How it may be applied: in parts, or as a whole."""
    parts = parts_of(transform)
    for rest in (parts,) if parts and parts[0] is transform else (parts, [transform]):
        yield Below(dataset=None, rest=tuple(rest), together=together)


def _split(dataset: Any, way: Below, kept: dict[int, bytes], own: Own) -> Below:
    """Under as many of the transforms as are fixed and leave the samples about their smallest."""
    parts = way.rest
    places = [(tuple(map(len, kept.values())), _digest(kept))]
    for part in parts:
        one = Below(dataset=None, rest=(part,), together=way.together)
        try:
            after = {
                at: steady(lambda one=one, sample=sample: one.finish(unpack(sample)), own)  # type: ignore[misc]
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
        dataset=with_transform(dataset, Watched(parts[:number])),
        rest=tuple(parts[number:]),
        together=way.together,
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


def _unlike(dataset: Any, way: Below, kept: dict[int, bytes], own: Own) -> str | None:
    """Why the transforms do not make the data set's samples of these; None where they do."""
    try:
        for at, sample in kept.items():
            if not _makes(dataset, way, at, sample, own):
                return "its transform is not the last thing that is done to them"
    except Exception as problem:
        return _unfit(problem)
    return None


def _makes(dataset: Any, way: Below, at: int, sample: bytes, own: Own) -> bool:
    """Whether the transforms make the data set's sample of this, with the same random numbers."""

    def begin() -> None:
        reseed(at)
        own.put_back()

    with restored():
        begin()
        whole = dataset[at]
        begin()
        if alike(way.finish(unpack(sample)), whole):
            return True
        begin()
        if alike(dataset[at], whole):
            return False
        return _hands_on(dataset, way, at, sample)


def _hands_on(dataset: Any, way: Below, at: int, sample: bytes) -> bool:
    """Of transforms that draw from a generator that is not found, or from the system's.

    What they make cannot be compared; what they are given, and where their answer goes, can.
    """
    if len(way.rest) > 1 and not is_plain_chain(transform_of(dataset)):
        return False
    heard = Heard(way)
    whole = with_transforms(dataset, [heard])[at]
    again = Below(dataset=None, rest=(heard.again,), together=way.together)
    return heard.times == 1 and alike(again.finish(unpack(sample)), whole)


class Heard:
    """A transform that remembers what it was given, and what it made of that."""

    def __init__(self, way: Below) -> None:
        self._apply = Chain(way.rest)
        self._given, self._made = b"", None
        self.times = 0

    def __call__(self, *values: Any) -> Any:
        self.times += 1
        self._given = pack(values)
        made = self._apply(*values)
        self._made = copy.deepcopy(made)
        return made

    def again(self, *values: Any) -> Any:
        if pack(values) != self._given:
            raise ValueError("it is given something else than lies below it")
        return self._made
