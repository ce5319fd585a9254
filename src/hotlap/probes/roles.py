"""Which optimizers are one and the same to a training loop, though they are many objects.

Some scripts make a new optimizer for each step. Others copy the model for each task, fold or client
and make an optimizer for the copy: that one takes over the role of the one before it.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

Place = tuple[str, int, str]
MOST_WAITING = 64  # made on one line and not yet followed by another one
MOST_KNOWN = 4096  # those that are gone are forgotten from there on


class _Trained:
    """What one optimizer trains, known by its first parameter."""

    def __init__(self, thing: Any) -> None:
        self._thing = _reference(thing)
        self.role: int | None = None  # none until its optimizer steps
        self.before: _Trained | None = None  # the one whose role it may take over

    def is_of(self, thing: Any) -> bool:
        return self._thing() is thing

    @property
    def gone(self) -> bool:
        return self._thing() is None


class Roles:
    def __init__(self) -> None:
        self._numbers = count()
        self._known: dict[int, _Trained] = {}
        self._made_at: dict[Place, deque[_Trained]] = {}
        self._player: dict[int, _Trained] = {}  # who has each role now

    def made(self, optimizer: Any, place: Place | None) -> None:
        """One made where another was that has stepped by now may be its successor."""
        thing = _first_parameter(optimizer)
        known = self._known.get(id(thing))
        if place is None or (known is not None and known.is_of(thing)):
            return
        trained = self._trained(thing)
        waiting = self._made_at.setdefault(place, deque(maxlen=MOST_WAITING))
        trained.before = next((one for one in waiting if one.role is not None), None)
        if trained.before is not None:
            waiting.remove(trained.before)
        waiting.append(trained)

    def of(self, optimizer: Any) -> int:
        """The role of an optimizer that steps."""
        trained = self._trained(_first_parameter(optimizer))
        if trained.role is None:
            before, trained.before = trained.before, None
            role = before.role if before is not None else None
            trained.role = next(self._numbers) if role is None else role
            self._player[trained.role] = trained
        elif (other := self._player[trained.role]) is not trained:  # no successor: they take turns
            other.role = next(self._numbers)
            self._player[other.role] = other
            self._player[trained.role] = trained
        return trained.role

    def _trained(self, thing: Any) -> _Trained:
        known = self._known.get(id(thing))
        if known is None or not known.is_of(thing):  # a number may be used again
            if len(self._known) >= MOST_KNOWN:
                self._known = {key: one for key, one in self._known.items() if not one.gone}
            known = self._known[id(thing)] = _Trained(thing)
        return known


def _first_parameter(optimizer: Any) -> Any:
    try:
        return optimizer.param_groups[0]["params"][0]
    except (AttributeError, IndexError, KeyError, TypeError):
        return optimizer


def _reference(thing: Any) -> Callable[[], Any]:
    """Never what keeps a model alive that the script has dropped."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing
