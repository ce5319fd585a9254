"""Where a run has put tensors that need a gradient, beside what it returns."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from hotlap.models.attributes import MACHINERY, inside, like
from hotlap.models.sources import DEPTH, is_torchs


class Place:
    """Where a tensor is, by the names that lead there: each run may make its containers anew."""

    def __init__(self, root: dict[str, Any], owner: type, way: tuple[Any, ...]) -> None:
        self._root = root
        self._owner = owner
        self._way = way

    @property
    def name(self) -> str:
        return " ".join(map(str, self._way))

    def __getitem__(self, _: str) -> Any:
        found: Any = self._root
        for key in self._way:
            found = _entries(inside(found, self._owner)).get(key)
        return found

    def __setitem__(self, _: str, value: torch.Tensor) -> None:
        self._put(self._root, self._way, value)

    def _put(self, held: Any, way: tuple[Any, ...], value: torch.Tensor) -> Any:
        """What then is in the place of what was held: the same, but for a tuple."""
        if not way:
            return value
        place = inside(held, self._owner)
        then = self._put(_entries(place)[way[0]], way[1:], value)
        if isinstance(place, tuple):
            return like(place, [*place[: way[0]], then, *place[way[0] + 1 :]])
        place[way[0]] = then
        return held


def computed(module: nn.Module, known: set[int]) -> list[tuple[Place, str]]:
    """Tensors that F or G have now; not those with an id that is known, which were there before."""
    places = []
    for one in module.modules():
        owner = type(one)
        own = {name: value for name, value in vars(one).items() if name not in MACHINERY}
        depth = 0 if is_torchs(owner) else DEPTH
        for root, held in ((vars(one), own), (one._buffers, one._buffers)):
            ways = _computed(held, owner, depth, known, {id(root)})
            places += [Place(root, owner, way) for way in ways]
    return [(place, place.name) for place in places]


def _computed(
    held: Any, owner: type, depth: int, known: set[int], seen: set[int]
) -> Iterator[tuple[Any, ...]]:
    for key, value in _entries(held).items():
        if isinstance(value, torch.Tensor):
            if value.grad_fn is not None and id(value) not in known:
                yield (key,)
        elif depth and id(value) not in seen:
            seen.add(id(value))
            further = _computed(inside(value, owner), owner, depth - 1, known, seen)
            yield from ((key, *way) for way in further)


def _entries(place: Any) -> dict[Any, Any]:
    if isinstance(place, dict):
        return place
    return dict(enumerate(place)) if isinstance(place, (list, tuple, deque)) else {}
