"""SI values to words: the only place that turns 0.0123 into "12.3 ms"."""

from __future__ import annotations

from collections.abc import Sequence

_TIME_STEPS = ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "µs"))
_BYTE_STEPS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def seconds(value: float | None) -> str:
    """12.3 ms, 1.25 s, 2 min 5 s; an en dash where nothing was measured."""
    if value is None:
        return "–"
    if value >= 120:
        minutes, rest = divmod(round(value), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
    for least, factor, unit in _TIME_STEPS:
        if value >= least * 0.9995:
            return f"{_three_digits(value * factor)} {unit}"
    return "0 ms" if value == 0 else f"{value * 1e6:.2f} µs"


def size(value: float | None) -> str:
    """512 MiB, 3.71 GiB; an en dash where nothing was measured."""
    if value is None:
        return "–"
    for step, unit in _BYTE_STEPS:
        if abs(value) >= step:
            return f"{_three_digits(value / step)} {unit}"
    return f"{value:.0f} B"


def share(value: float | None) -> str:
    """43 %, and one digit more where a whole per cent would hide it."""
    if value is None:
        return "–"
    percent = value * 100
    return f"{percent:.1f} %" if 0 < percent < 9.95 else f"{percent:.0f} %"


def accuracy(value: float | None) -> str:
    """78.1 %: a tenth of a point is seen."""
    return "–" if value is None else f"{value * 100:.1f} %"


def decimal(value: float | None) -> str:
    """1.23, 0.001: three digits of what has no unit, such as a loss or a learning rate."""
    if value is None:
        return "–"
    return _three_digits(value) if value >= 0.1 else f"{value:.3g}"


def rate(value: float | None, unit: str = "samples/s") -> str:
    if value is None:
        return "–"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{_three_digits(value)} {unit}"


def count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def plural(number: float, noun: str, nouns: str | None = None) -> str:
    """1 step, 3 steps, 2 processes."""
    return f"{count(number)} {noun if number == 1 else nouns or noun + 's'}"


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
