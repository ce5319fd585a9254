"""Robust summaries of timings, in plain Python: start-up time matters more than speed here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist


def quantile(values: Sequence[float], q: float) -> float:
    """Linear interpolation between order statistics; `values` need not be sorted."""
    if not values:
        raise ValueError("quantile of no values")
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


def mean(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("mean of no values")
    return sum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """Of a sample; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)


def student(degrees: float, q: float = 0.975) -> float:
    """Quantile of Student's t, to about 1 %; between whole degrees below 3 interpolated."""
    if degrees < 1:
        raise ValueError("a t quantile needs at least one degree of freedom")
    if degrees < 3:
        whole = int(degrees)
        low, high = _few(whole, q), _few(whole + 1, q)
        place = (1 / whole - 1 / degrees) / (1 / whole - 1 / (whole + 1))
        return low + (high - low) * place
    return _expansion(degrees, q)


def _few(degrees: int, q: float) -> float:
    if degrees == 1:
        return math.tan(math.pi * (q - 0.5))
    if degrees == 2:
        return (2 * q - 1) * math.sqrt(2 / (4 * q * (1 - q)))
    return _expansion(degrees, q)


def _expansion(degrees: float, q: float) -> float:
    """Cornish and Fisher's, from the normal quantile."""
    z = NormalDist().inv_cdf(q)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + g1 / degrees + g2 / degrees**2 + g3 / degrees**3 + g4 / degrees**4
