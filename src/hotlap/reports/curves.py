"""Series of a run made fit to look at: smoothed, thinned, averaged. Gaps stay gaps."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap import stats
from hotlap.reports.wording import finite

Series = Sequence[float | None]
MOST_POINTS = 600
SMOOTHED_OVER = 30  # a window is this part of the curve


def smoothed(values: Series) -> list[float | None]:
    """A running mean, over fewer values at both ends, so that the curve keeps its length."""
    reach = max(0, len(values) // SMOOTHED_OVER // 2)
    known = [finite(value) for value in values]
    found: list[float | None] = []
    for at, value in enumerate(known):
        near = [one for one in known[max(0, at - reach) : at + reach + 1] if one is not None]
        found.append(stats.mean(near) if value is not None and near else None)
    return found


def mean(curves: Sequence[Series]) -> list[float | None]:
    """Step by step, as far as every curve reaches."""
    filled = [curve for curve in curves if curve]
    found: list[float | None] = []
    for column in zip(*filled, strict=False):
        known = [one for one in map(finite, column) if one is not None]
        found.append(stats.mean(known) if known else None)
    return found


def thinned(values: Series, most: int = MOST_POINTS) -> tuple[list[int], list[float | None]]:
    """(positions from 1, values): every so many, and always the last."""
    stride = max(1, -(-len(values) // most))
    kept = [*range(0, len(values), stride)]
    if values and kept[-1] != len(values) - 1:
        kept.append(len(values) - 1)
    return [at + 1 for at in kept], [finite(values[at]) for at in kept]


def extremes(values: Series, most: int = MOST_POINTS) -> tuple[list[int], list[float]]:
    """(positions from 1, values): least and greatest of each stretch, so that no spike is lost."""
    known = [(at, one) for at, one in enumerate(map(finite, values), 1) if one is not None]
    if len(known) <= most:
        return [at for at, _ in known], [value for _, value in known]
    size = -(-2 * len(known) // most)
    kept: list[tuple[int, float]] = []
    for begin in range(0, len(known), size):
        stretch = known[begin : begin + size]
        ends = {min(stretch, key=lambda one: one[1]), max(stretch, key=lambda one: one[1])}
        kept += sorted(ends)
    return [at for at, _ in kept], [value for _, value in kept]
