"""Counts by the user's line: where the host waited for the device, and what was copied to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Place = tuple[str, int, str] | None
MOST = 20
ASKED = 8


class Ledger:
    def __init__(self) -> None:
        self.steps = 0  # the steps the counts come from
        self._waits: dict[tuple[str, Place], list[float]] = {}
        self._copies: dict[Place, list[float]] = {}

    @property
    def nowhere(self) -> Ledger:
        """A ledger to be thrown away, for passes whose times are not to be trusted."""
        return Ledger()

    def waited(self, what: str, seconds: float, place: Place) -> None:
        row = self._waits.setdefault((what, place), [0.0, 0.0])
        row[0] += 1
        row[1] += seconds

    def copied(self, size: int, place: Place, *, pinned: Callable[[], bool]) -> None:
        """Whether the memory is pinned is asked of a line's first copies only: asking is slow."""
        row = self._copies.setdefault(place, [0.0, 0.0, 1.0])
        if row[0] < ASKED:
            row[2] *= pinned()
        row[0] += 1
        row[1] += size

    def waits(self) -> list[dict[str, Any]]:
        steps = max(1, self.steps)
        rows = sorted(self._waits.items(), key=lambda item: -item[1][1])
        return [
            {
                "what": what,
                **_where(place),
                "per_step": count / steps,
                "seconds_per_step": seconds / steps,
            }
            for (what, place), (count, seconds) in rows[:MOST]
        ]

    def copies(self) -> list[dict[str, Any]]:
        steps = max(1, self.steps)
        rows = sorted(self._copies.items(), key=lambda item: -item[1][1])
        return [
            {
                **_where(place),
                "per_step": count / steps,
                "bytes_per_step": size / steps,
                "pinned": bool(pinned),
            }
            for place, (count, size, pinned) in rows[:MOST]
        ]


def _where(place: Place) -> dict[str, Any]:
    return {"file": place[0] if place else None, "line": place[1] if place else None}
