"""Which row comes first, and whether that is proven: by the figures of a table and their intervals.

Rows are compared as they stand in the table, so that what is said holds for who reads it there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hotlap import units
from hotlap.answers import Row
from hotlap.studies.study import NAMED, quoted
from hotlap.tunings import Speedup


def apart(one: Row, other: Row, column: str) -> bool | None:
    """Whether they differ beyond their intervals; None where nothing is known of the spread."""
    a, b = one.number(column), other.number(column)
    mine, theirs = one.intervals.get(column), other.intervals.get(column)
    if a is None or b is None or mine is None or theirs is None:
        return None
    halves = (mine[1] - a, b - theirs[0]) if a < b else (a - mine[0], theirs[1] - b)
    return abs(a - b) > math.hypot(*halves)


def times(one: Row, other: Row, column: str) -> Speedup | None:
    """How many times what the other has it is, with the errors of both; None without intervals."""
    mine, theirs = one.intervals.get(column), other.intervals.get(column)
    a, b = one.number(column), other.number(column)
    if mine is None or theirs is None or not a or not b or min(*mine, *theirs) <= 0:
        return None
    ratio, half = a / b, math.hypot(*(math.log(high / low) / 2 for low, high in (mine, theirs)))
    return Speedup(ratio=ratio, low=ratio * math.exp(-half), high=ratio * math.exp(half))


class Standing(NamedTuple):
    """Which row is first by its figure, and who is not proven to be behind it."""

    first: Row
    others: list[Row]
    alike: list[Row]  # within the noise
    untold: list[Row]  # of one of the two nothing is known of the noise

    @property
    def proven(self) -> bool:
        return bool(self.others) and not self.alike and not self.untold

    @property
    def names(self) -> list[str]:
        return [self.first.name] if self.proven else []


def standing(rows: Sequence[Row], column: str, *, most: bool = False) -> Standing | None:
    """By the least of a column, or the most; None where no row has it."""
    known = [one for one in rows if one.good and one.number(column) is not None]
    if not known:
        return None
    order = sorted(known, key=lambda one: one.number(column) or 0.0, reverse=most)
    first, others = order[0], [one for one in known if one is not order[0]]
    told = {one.name: apart(first, one, column) for one in others}
    return Standing(
        first=first,
        others=others,
        alike=[one for one in others if told[one.name] is False],
        untold=[one for one in others if told[one.name] is None],
    )


def opening(found: Standing, told: str, *, name: str = "", word: str = "fastest") -> str:
    """How a reading begins: which row is best; which one is first, where none is proven to be."""
    said = f"{name or found.first.name}{told}"
    if found.proven:
        return f"Best: {said}"
    if not found.others:
        return f"Only one row was measured: {said}"
    return f"No row is proven {word}: first is {said}, but {doubts(found)}"


def doubts(found: Standing) -> str:
    """Why the first is not the best."""
    alike, untold = map(_named, (found.alike, found.untold))
    within = f"{alike} cannot be told from it within the noise" if alike else ""
    without = f"{untold} cannot be held against it without intervals" if untold else ""
    return units.listed([why for why in (within, without) if why])


def _named(rows: Sequence[Row]) -> str:
    few = len(rows) <= NAMED
    return units.listed([quoted(one) for one in rows]) if few else f"{len(rows)} other rows"
