"""Which of several loaders with a batch at hand a backward pass trains on.

Loaders that are zipped come along in step after step. A guest is there now and then, beside one
that mostly comes without it: somebody looked into another loader, or evaluated a model that is not
known. What it brought is not trained on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

RECENT = 16  # backward passes
FIRST = 3


class Company:
    def __init__(self) -> None:
        self._recent: deque[frozenset[int]] = deque(maxlen=RECENT)
        self._met = 0
        self._guests: set[int] = set()

    def meet(self, loaders: Sequence[int]) -> tuple[list[int], list[int]]:
        """Told who is there at a backward pass: those it trains on, and the guests."""
        there = frozenset(loaders)
        self._recent.append(there)
        self._met += 1
        if len(there) < 2:
            return list(loaders), []
        guests = self._find_guests(there)
        self._guests = (self._guests - there) | guests
        trained = [loader for loader in loaders if loader not in guests]
        return trained, [loader for loader in loaders if loader in guests]

    def mistaken(self) -> frozenset[int]:
        """Those that were there at the first backward pass only: looked into before training."""
        if self._met != FIRST or len(self._recent[0]) < 2:
            return frozenset()
        first, *later = self._recent
        return first.difference(*later)

    def _find_guests(self, there: frozenset[int]) -> set[int]:
        parts = [some for some in self._recent if some < there]
        known = self._guests & there
        if not parts:
            return known if known < there else set()
        host = max(parts, key=parts.count)
        without = parts.count(host)
        guests = set()
        for loader in there - host:
            together = sum(some >= host | {loader} for some in self._recent)
            seldom = together == 1 or 2 * together <= without
            if seldom and frozenset((loader,)) not in self._recent:
                guests.add(loader)
        return guests
