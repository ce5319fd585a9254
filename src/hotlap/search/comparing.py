"""How much faster one recipe is than another, with an interval that does not lie.

A run's time is one number (the log of its seconds per sample). Two fresh processes of the same
command differ, and by more than the steps within one of them do, so the interval comes from the
spread between runs: pooled over every recipe that ran more than once, and never taken to be
smaller than what the windows within the runs show. Few runs know little about their spread, so a
prior stands in for the runs not made; it fades as runs come in, and where they differ by more than
it says, it is believed so much the less. A noisy machine widens every interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hotlap import stats
from hotlap.tunings import Noise, Run, Speedup

# What two processes of a quiet machine differ by, and how many runs' worth that is believed.
PRIOR_SPREAD = 0.02
PRIOR_DEGREES = 3.0
SHOWN = 0.975  # the upper end of a 95 % interval
ACCEPTED = 0.993


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The standard deviation of a run's log time, and what is known about it."""

    deviation: float
    degrees: float


def cost(run: Run) -> float | None:
    """Seconds a sample takes; where samples cannot be counted, seconds a step takes."""
    return run.sample_seconds if run.sample_seconds is not None else run.step_seconds


def costs(runs: Iterable[Run]) -> list[float]:
    """Of the quiet runs; of the disturbed ones where there are no others."""
    timed = [run for run in runs if cost(run) and not run.filling]
    quiet = [run for run in timed if not run.disturbed]
    return [cost(run) or 0.0 for run in quiet or timed]


def spread(arms: Iterable[Sequence[Run]]) -> Spread:
    """Pooled over all recipes: each adds what its runs differ by among themselves."""
    squares, degrees = 0.0, 0.0
    within: list[float] = []
    for runs in arms:
        logs = [math.log(value) for value in costs(runs)]
        if len(logs) > 1:
            squares += stats.variance(logs) * (len(logs) - 1)
            degrees += len(logs) - 1
        within += [_within(run) for run in runs]
    seen = squares / degrees if degrees else 0.0
    prior = PRIOR_DEGREES * min(1.0, PRIOR_SPREAD**2 / seen if seen else 1.0)
    squares, degrees = squares + prior * PRIOR_SPREAD**2, degrees + prior
    deviation = math.sqrt(squares / degrees)
    if within:
        deviation = max(deviation, stats.median(within))
    return Spread(deviation=deviation, degrees=degrees)


def _within(run: Run) -> float:
    """The standard error of the run's own mean, from its windows, as a share of it."""
    if len(run.windows) < 3:
        return 0.0
    return math.sqrt(stats.variance(run.windows) / len(run.windows)) / stats.mean(run.windows)


def speedup(
    reference: Sequence[Run], candidate: Sequence[Run], noise: Spread, *, q: float = SHOWN
) -> Speedup | None:
    """The reference's time over the candidate's; None where one has no timed run."""
    slow, fast = costs(reference), costs(candidate)
    if not slow or not fast:
        return None
    middle = stats.mean([math.log(value) for value in slow]) - stats.mean(
        [math.log(value) for value in fast]
    )
    error = noise.deviation * math.sqrt(1 / len(slow) + 1 / len(fast))
    half = stats.student(noise.degrees, q) * error
    return Speedup(
        ratio=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half)
    )


def proven(reference: Sequence[Run], candidate: Sequence[Run], noise: Spread) -> bool:
    """Whether the candidate is faster, asked more strictly than the interval that is shown.

    A candidate is looked at after every run and gets another one while it looks good: that is
    several chances to be lucky, and it is paid for here.
    """
    strict = speedup(reference, candidate, noise, q=ACCEPTED)
    return strict is not None and strict.low > 1.0


def floor(runs: Sequence[Run], noise: Spread) -> Noise:
    """What two single runs of the same thing may differ by."""
    half = stats.student(noise.degrees) * noise.deviation * math.sqrt(2)
    return Noise(
        runs=len(costs(runs)), spread=noise.deviation, low=math.exp(-half), high=math.exp(half)
    )
