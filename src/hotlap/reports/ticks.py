"""Where the numbers of an axis stand: round ones, so few that they are readable on a telephone."""

from __future__ import annotations

import math
from collections.abc import Sequence

ENOUGH = 4
CLOSEST = 0.12  # of the axis: nearer to each other, two numbers of five digits touch
CLOSEST_ON_NARROW = 0.2  # the same where the page is that of a telephone
FACTORS = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5), (1, 1.5, 2, 3, 5, 7))  # from coarse to fine


def of_logarithmic(low: float, high: float) -> list[float]:
    """The powers of ten; where those are few, round numbers between them as well."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in FACTORS:
        every = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        found = [tick for tick in every if low * 0.999 <= tick <= high * 1.001]
        if len(found) >= ENOUGH:
            return apart(found)
    return apart(of_linear(low, high) if high > low else [low])


def of_linear(low: float, high: float) -> list[float]:
    """Round numbers from end to end, about six of them."""
    step = 10 ** math.floor(math.log10((high - low) / 5))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (step * factor) <= 6.5)
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def apart(values: Sequence[float], closest: float = CLOSEST) -> list[float]:
    """Those of a logarithmic axis that have room: each so far from the one before it."""
    if len(values) < 2:
        return list(values)
    least = closest * math.log(values[-1] / values[0])
    kept = [values[0]]
    for one in values[1:]:
        if math.log(one / kept[-1]) >= least:
            kept.append(one)
    return kept


def worded(value: float) -> str:
    return f"{float(f'{value:.6g}'):,g}" if abs(value) < 1e6 else f"{value / 1e6:,g} M"
