"""Whether random numbers were drawn while samples were made: then they must not be kept.

Looked at are the generators that everyone shares, and those that the data set and its transforms
hold, around each batch of samples that is made for a cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hotlap.data import randomness
from hotlap.data.generators import Own
from hotlap.data.noting import Noted

State = tuple[tuple[Any, ...], list[Any]]


class Drawing:
    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._own = Own(dataset)
        # A generator may be made with the first sample that needs it.
        self._noted = Noted(dataset, quickly=True)
        self._some_random = False

    def state(self) -> State:
        return randomness.state(), self._own.state()

    def since(self, before: State, indices: Iterable[int]) -> bool:
        """Whether the making of these samples drew; `before` is the state it began with."""
        shared, own = before
        if randomness.state() != shared:
            return True
        if self._own.state() == own and not self._has_new():
            return False
        self._some_random = self._some_random or not self._begins_anew(indices)
        return self._some_random

    def _has_new(self) -> bool:
        if not self._noted.settle():
            return False
        known, self._own = self._own, Own(self._dataset)
        return not known.has_all_of(self._own)

    def _begins_anew(self, indices: Iterable[int]) -> bool:
        """Whether each sets its generator by its number: then it is the same each time."""
        own = Own(self._dataset)
        try:
            return all(
                randomness.steady(lambda at=at: self._dataset[at], own) is not None  # type: ignore[misc]
                for at in indices
            )
        except Exception:  # it is told when it is asked for
            return False
        finally:
            own.put_back()
