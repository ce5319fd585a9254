"""A step and its memory as stacked bars, before and after, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hotlap.records import PHASES, Memory, Profile, as_told
from hotlap.reports import wording
from hotlap.reports.wording import finite

MEMORY = ("parameters", "gradients", "optimizer", "activations", "rest")
# Of the widest bar: a narrower part has no room for its name, on a screen and on a telephone.
NAMED_FROM = 0.11
NAMED_ON_SMALL_FROM = 0.27


@dataclass(frozen=True)
class Part:
    name: str
    percent: float  # of the widest bar
    words: str
    room: str  # for its name: none, some, plenty


@dataclass(frozen=True)
class Bar:
    name: str
    total: str
    parts: tuple[Part, ...]
    words: str  # the bar for those who cannot see it


@dataclass(frozen=True)
class Line:
    """One part in the table below the bars: its value in each of them."""

    name: str
    values: tuple[tuple[str, str], ...]  # (value, share of its bar)


@dataclass(frozen=True)
class Stack:
    bars: tuple[Bar, ...]
    lines: tuple[Line, ...]


def phases(profiles: Sequence[tuple[str, Profile]]) -> Stack | None:
    found = [
        (name, profile.step.whole_seconds, {one: _phase(as_told(profile), one) for one in PHASES})
        for name, profile in profiles
    ]
    return _stack(found, PHASES, wording.seconds)


def _phase(profile: Profile, name: str) -> float | None:
    phase = profile.phases.get(name)
    return finite(phase.seconds) if phase is not None else None


def memory(profiles: Sequence[tuple[str, Memory]]) -> Stack | None:
    found = [
        (name, one.peak_bytes, {part: getattr(one, f"{part}_bytes") for part in MEMORY})
        for name, one in profiles
    ]
    return _stack(found, MEMORY, wording.size)


def _stack(
    found: Sequence[tuple[str, float | None, dict[str, float | None]]],
    names: Sequence[str],
    say: wording.Say,
) -> Stack | None:
    """None where no part of any bar was measured."""
    sums = [sum(value or 0.0 for value in parts.values()) for _, _, parts in found]
    widest = max(sums, default=0.0)
    if widest <= 0:
        return None
    bars, columns = [], []
    for (name, total, parts), whole in zip(found, sums, strict=True):
        shown = [(part, parts[part] or 0.0) for part in names if (parts[part] or 0.0) > 0]
        drawn = tuple(
            Part(part, 100 * value / widest, say(value), _room(value / widest))
            for part, value in shown
        )
        words = ", ".join(f"{part} {say(value)}" for part, value in shown)
        bars.append(Bar(name, say(total if finite(total) else whole), drawn, f"{name}: {words}"))
        columns.append([(say(parts[part]), _share(parts[part], whole)) for part in names])
    lines = [Line(part, tuple(column[at] for column in columns)) for at, part in enumerate(names)]
    return Stack(tuple(bars), tuple(lines))


def _room(part: float) -> str:
    return "plenty" if part >= NAMED_ON_SMALL_FROM else "some" if part >= NAMED_FROM else "none"


def _share(value: float | None, whole: float) -> str:
    return "" if value is None or not whole else wording.share(value / whole)
