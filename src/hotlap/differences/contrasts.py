"""One figure before and after, and whether the difference is more than its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hotlap.comparisons import FASTER, HIGHER, LARGER, LOWER, SAME, SLOWER, SMALLER, Figure
from hotlap.search import comparing
from hotlap.tunings import Run, Speedup

# by unit: what more of it is, and what less of it is
WORDS = {"seconds": (SLOWER, FASTER), "rate": (FASTER, SLOWER), "bytes": (LARGER, SMALLER)}
OTHERS = (HIGHER, LOWER)

Ends = tuple[float, float]


def plain(
    name: str, group: str, unit: str, before: float | None, after: float | None
) -> list[Figure]:
    """Without a word on whether it differs: its noise is not known. None where neither has it."""
    if before is None and after is None:
        return []
    return [Figure(name=name, group=group, unit=unit, before=before, after=after)]


def timed(
    name: str,
    group: str,
    before: float,
    after: float,
    gain: Speedup | None,
) -> Figure:
    """Seconds, with how many times as fast it has become."""
    ratio = gain and Speedup(ratio=1 / gain.ratio, low=1 / gain.high, high=1 / gain.low)
    return Figure(
        name=name,
        group=group,
        unit="seconds",
        before=before,
        after=after,
        ratio=ratio,
        outcome=outcome("seconds", ratio),
    )


def between(
    name: str, group: str, unit: str, values: tuple[float, float], ends: tuple[Ends, Ends]
) -> Figure:
    """Two values of which each has its own 95 % interval."""
    ratio = _ratio(values, ends)
    word = outcome(unit, ratio) if ratio is not None else _apart(unit, values, ends)
    return Figure(
        name=name,
        group=group,
        unit=unit,
        before=values[0],
        after=values[1],
        ratio=ratio,
        outcome=word,
    )


def outcome(unit: str, ratio: Speedup | None) -> str:
    if ratio is None:
        return ""
    more, less = WORDS.get(unit, OTHERS)
    return more if ratio.low > 1.0 else less if ratio.high < 1.0 else SAME


def _ratio(values: tuple[float, float], ends: tuple[Ends, Ends]) -> Speedup | None:
    """Errors of both add up, as those of logarithms; None where something is not positive."""
    if min(*values, *ends[0], *ends[1]) <= 0:
        return None
    middle = math.log(values[1] / values[0])
    half = math.hypot(*(math.log(high / low) / 2 for low, high in ends))
    return Speedup(
        ratio=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half)
    )


def _apart(unit: str, values: tuple[float, float], ends: tuple[Ends, Ends]) -> str:
    half = math.hypot(*((high - low) / 2 for low, high in ends))
    more, less = WORDS.get(unit, OTHERS)
    difference = values[1] - values[0]
    return SAME if abs(difference) <= half else more if difference > 0 else less


def gain(
    before: Sequence[Run], after: Sequence[Run], arms: Sequence[Sequence[Run]]
) -> Speedup | None:
    """How many times as fast, from runs of both; the noise is that of all runs in `arms`."""
    noise = comparing.spread_between(list(arms), before, after)
    return comparing.speedup(before, after, noise)
