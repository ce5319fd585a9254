"""A copy of a data set that does without its transform, or with another one.

The transform is that of the data set itself, or of the one it wraps: Subset, ConcatDataset and
`Concurrent` hand out the samples of others. The copy shares everything else with the original, so
that a transform which is not kept in the copy itself would be taken from the original as well: such
a data set is not shortened.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils.data import Dataset

from hotlap import origins

TRANSFORMS = ("transform", "transforms")
LIBRARIES = ("torchvision", "hotlap")
MISSING = object()


class CannotShorten(ValueError):
    """The transform cannot be taken out of a copy alone; the message says why."""


class Chain:
    """Some transforms one after another, of an image or of an image and its target."""

    def __init__(self, parts: Sequence[Callable[..., Any]]) -> None:
        self.transforms = list(parts)

    def __call__(self, *values: Any) -> Any:
        for one in self.transforms:
            made = one(*values)
            values = tuple(made) if len(values) > 1 else (made,)
        return same(*values)


def same(*values: Any) -> Any:
    """A transform that does nothing: some data sets call theirs without looking."""
    return values[0] if len(values) == 1 else values


def transforms_of(dataset: Any) -> list[Any] | None:
    """The transforms in their order; None where there are none to be found."""
    transform = transform_of(dataset)
    return None if transform is None else parts_of(transform)


def parts_of(transform: Any) -> list[Any]:
    inside = getattr(transform, "transforms", None)
    if type(transform).__name__ == "Compose" and isinstance(inside, (list, tuple)):
        return list(inside)
    return [transform]


def is_plain_chain(transform: Any) -> bool:
    """Whether its parts one after another are known to be all of it."""
    return origins.library(type(transform)) in LIBRARIES


def transform_of(dataset: Any) -> Any:
    """What is called `transform` or `transforms`, here or in the data set inside."""
    name = _own(dataset)
    if name is not None:
        return getattr(dataset, name)
    found = [transform_of(one) for one in _inside(dataset)[1]]
    if any(one is not found[0] for one in found):
        raise CannotShorten(f"the parts of {type(dataset).__name__} have transforms of their own")
    return found[0] if found else None


def with_transforms(dataset: Any, parts: Sequence[Any]) -> Any:
    """A copy that shares everything but the transform."""
    return with_transform(dataset, Chain(parts) if parts else same)


def with_transform(dataset: Any, transform: Callable[..., Any]) -> Any:
    short = copy.copy(dataset)
    name = _own(dataset)
    if name is not None:
        _replace(dataset, short, name, transform)
        return short
    where, inside = _inside(dataset)
    if not inside:
        raise CannotShorten(f"{type(dataset).__name__} has no transform of its own")
    shorter = [with_transform(one, transform) for one in inside]
    vars(short)[where] = shorter if where == "datasets" else shorter[0]
    return short


def _own(dataset: Any) -> str | None:
    """The name of its transform; not of one that it only passes on."""
    for name in TRANSFORMS:
        known = name in _held(dataset) or hasattr(type(dataset), name)
        if known and callable(getattr(dataset, name, None)):
            return name
    return None


def _inside(dataset: Any) -> tuple[str, list[Any]]:
    """The data sets whose samples it hands out, and where it keeps them."""
    held = _held(dataset)
    if isinstance(held.get("dataset"), Dataset):
        return "dataset", [held["dataset"]]
    several = held.get("datasets")
    known = isinstance(several, (list, tuple)) and all(isinstance(one, Dataset) for one in several)
    return "datasets", list(several or ()) if known else []


def _held(value: Any) -> dict[str, Any]:
    return getattr(value, "__dict__", {})


def _replace(dataset: Any, short: Any, name: str, transform: Any) -> None:
    joint = getattr(dataset, "transforms", None) if name == "transform" else None
    _put(dataset, short, name, transform)
    if joint is not None and callable(getattr(joint, "transform", None)):
        both = copy.copy(joint)  # torchvision keeps it there as well
        _put(joint, both, "transform", transform)
        _put(dataset, short, "transforms", both)


def _put(original: Any, short: Any, name: str, value: Any) -> None:
    """Into the copy, and nowhere else: `__setattr__` may well set it on what both of them share."""
    before = getattr(original, name)
    if hasattr(inspect.getattr_static(type(short), name, None), "__set__"):
        _set(original, short, name, value)
    else:
        vars(short)[name] = value
    taken = getattr(original, name, MISSING) is not before
    if taken:
        setattr(short, name, before)
    if taken or getattr(short, name, MISSING) is not value:
        kind = type(original).__name__
        raise CannotShorten(f"the `{name}` of {kind} cannot be set on a copy alone")


def _set(original: Any, short: Any, name: str, value: Any) -> None:
    try:
        setattr(short, name, value)
    except AttributeError:
        kind = type(original).__name__
        raise CannotShorten(f"the `{name}` of {kind} cannot be set") from None
