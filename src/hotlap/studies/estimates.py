"""From runs to figures with intervals, and which of them differ beyond the noise.

Fresh processes differ by more than what is timed within one of them, so intervals come from the
spread between runs, pooled over all rows of a study, as a tuning's do (search/comparing.py). A
tuning runs its baseline again before it compares anything; a study may have one run of each row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hotlap import stats
from hotlap.search import comparing
from hotlap.search.comparing import Spread
from hotlap.tunings import Run, Speedup


@dataclass(frozen=True, kw_only=True)
class Estimate:
    value: float
    low: float
    high: float
    runs: int

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high


class Timing(NamedTuple):
    """What one run cost: seconds, or anything positive that is better when small."""

    value: float
    windows: tuple[float, ...] = ()  # of the run
    disturbed: bool = False  # by others: it counts where there is no quiet one, for less
    busy: bool = False  # so much that by itself it tells nothing of the noise


class Costs:
    """What each row costs, run by run.

    A row with a single run beside a busy machine has estimates of no width, and so have its gains:
    how far it is off is not known, and what another run would take can be anything.
    """

    def __init__(self, timings: Mapping[str, Sequence[Timing]]) -> None:
        known = {name: [one for one in own if one.value > 0] for name, own in timings.items()}
        self._alone = {name for name, own in known.items() if len(own) == 1 and own[0].busy}
        self._runs = {
            name: [
                Run(
                    folder="",
                    step_seconds=one.value,
                    windows=one.windows,
                    disturbed=one.disturbed,
                )
                for one in own
            ]
            for name, own in known.items()
        }

    def _spread(self, *rows: str) -> Spread:
        """Of runs; a larger one where one of these rows has only such that others disturbed.

        A row with a single run may have had it within a slow spell of the machine. That is believed
        as far as windows of any row tell of such spells and second runs do not tell of them yet.
        """
        arms = list(self._runs.values())
        one, other = (self._runs.get(name, []) for name in (rows[0], rows[-1]))
        found = comparing.spread_between(arms, one, other)
        if min(map(len, comparing.comparable(one, other))) > 1:
            return found
        known = sum(max(0, len(comparing.costs(runs)) - 1) for runs in arms)
        within = max(found.deviation, self._wander())
        squares = known * found.deviation**2 + comparing.PRIOR_DEGREES * within**2
        degrees = known + comparing.PRIOR_DEGREES
        return Spread(deviation=math.sqrt(squares / degrees), degrees=min(found.degrees, degrees))

    def _wander(self) -> float:
        """Of the machine, as the runs that count have seen it."""
        arms = self._runs.values()
        return comparing.wander(run for runs in arms for run in comparing.comparable(runs, runs)[0])

    @property
    def measured(self) -> list[str]:
        return [name for name, runs in self._runs.items() if runs]

    def estimate(self, name: str) -> Estimate | None:
        """The geometric mean of its runs."""
        logs = [math.log(value) for value in comparing.costs(self._runs.get(name, ()))]
        if not logs:
            return None
        middle, spread = stats.mean(logs), self._spread(name)
        half = stats.student(spread.degrees) * spread.deviation / math.sqrt(len(logs))
        half = 0.0 if name in self._alone else half
        return Estimate(
            value=math.exp(middle),
            low=math.exp(middle - half),
            high=math.exp(middle + half),
            runs=len(logs),
        )

    def rate(self, name: str, amount: float = 1.0) -> Estimate | None:
        """`amount` over the cost: samples a second from seconds a sample."""
        found = self.estimate(name)
        if found is None:
            return None
        return Estimate(
            value=amount / found.value,
            low=amount / found.high,
            high=amount / found.low,
            runs=found.runs,
        )

    def gain(self, name: str, *, over: str) -> Speedup | None:
        """How many times better it is than another row."""
        spread = self._spread(over, name)
        if self._alone & {over, name}:
            spread = Spread(deviation=0.0, degrees=spread.degrees)
        return comparing.speedup(self._runs.get(over, ()), self._runs.get(name, ()), spread)


class Means:
    """Plain means over seeds of each row. Few seeds tell little of their spread: it is pooled."""

    def __init__(self, values: Mapping[str, Sequence[float]]) -> None:
        self._values = values
        several = [own for own in self._values.values() if len(own) > 1]
        self.degrees = sum(len(own) - 1 for own in several)
        squares = sum((len(own) - 1) * stats.variance(own) for own in several)
        self.deviation = math.sqrt(squares / self.degrees) if self.degrees else None

    def estimate(self, name: str) -> Estimate | None:
        """With an interval of no width where no row has a second seed: nothing is known of it."""
        own = self._values.get(name)
        if not own:
            return None
        middle, half = stats.mean(own), 0.0
        if self.deviation is not None:
            half = stats.student(self.degrees) * self.deviation / math.sqrt(len(own))
        return Estimate(value=middle, low=middle - half, high=middle + half, runs=len(own))


def mean(values: Sequence[float]) -> Estimate | None:
    """The plain mean over seeds with its 95 % interval; one value knows nothing of its spread."""
    if not values:
        return None
    middle, half = stats.mean(values), 0.0
    if len(values) > 1:
        error = math.sqrt(stats.variance(values) / len(values))
        half = stats.student(len(values) - 1) * error
    return Estimate(value=middle, low=middle - half, high=middle + half, runs=len(values))
