"""Samples out of a data set, several at once where it can; one that fails is named by its index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hotlap.data.calls import APART, Listening, told, told_together
from hotlap.data.failures import AS_IS, Failures
from hotlap.data.layers import Below

MISSING = object()  # it failed, and was skipped
Many = Callable[[Sequence[Any]], Any]


def asked(dataset: Any, indices: Sequence[Any], failures: Failures) -> list[Any]:
    many = _many(dataset, indices)
    samples = _at_once(many, indices, as_is=failures.on_error == AS_IS)
    if samples is not None:
        return samples
    return [_alone(dataset, index, failures) for index in indices]


def asked_below(below: Below, indices: Sequence[int], failures: Failures) -> list[Any]:
    """What is to be kept; APART where the rest of the transform does not make a sample of it."""
    if not below.rest:
        return asked(below.dataset, indices, failures)
    many = _many(below.dataset, indices)
    if many is not None:
        with Listening() as heard:
            samples = _at_once(many, indices)
        if samples is not None:
            known = told_together(samples, [*map(below.handed, samples)], heard.calls)
            if known is not None:
                return known
    return [_alone_below(below, index) for index in indices]


def made_again(below: Below, index: int) -> Any:
    """As it was for the cache; MISSING where it cannot be made any more."""
    try:
        return _alone_below(below, index) if below.rest else below.dataset[index]
    except Exception:
        return MISSING


def _many(dataset: Any, indices: Sequence[Any]) -> Many | None:
    return getattr(dataset, "__getitems__", None) if len(indices) > 1 else None


def _at_once(many: Many | None, indices: Sequence[Any], *, as_is: bool = False) -> list[Any] | None:
    try:
        samples = [] if many is None else list(many(indices))
    except Exception:
        if as_is:
            raise
        return None  # one by one tells which it is
    return samples if many is not None and len(samples) == len(indices) else None


def _alone(dataset: Any, index: Any, failures: Failures) -> Any:
    try:
        return dataset[index]
    except Exception as problem:
        failures.met(index, problem)
        return MISSING


def _alone_below(below: Below, index: int) -> Any:
    """Where it fails, the whole data set is asked: it may well do without its transform there."""
    with Listening() as heard:
        try:
            sample = below.dataset[index]
        except Exception:
            return APART
    return told(sample, below.handed(sample), heard.calls)
