"""How much faster (or smaller) one recipe is than another, with an interval that does not lie.

A run's time is one number (the log of its seconds per sample). Two fresh processes of the same
command differ, and by more than the steps within one of them do, so the interval comes from the
spread between runs: pooled over every recipe that ran more than once, and never taken to be
smaller than what the windows within the runs show. Few runs know little about their spread, so a
prior stands in for the runs not made; it fades as runs come in, and where they differ by more than
it says, it is believed so much the less. A noisy machine widens every interval.

Runs that others disturbed are left out where both sides have quiet ones. Where one side has none,
all runs of both are compared, with a spread that counts the disturbed ones in.

Peaks of memory are compared in the same way. A device's allocator repeats itself nearly to the
byte; the resident memory of processes does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hotlap import stats
from hotlap.tunings import Noise, Run, Speedup

# What two processes of a quiet machine differ by, and how many runs' worth that is believed.
PRIOR_SPREAD = 0.02
PRIOR_SPREAD_DISTURBED = 0.2  # of runs during which others burn cores
PRIOR_SPREAD_OF_PROCESSES = 0.05  # of their resident memory at the peak
PRIOR_SPREAD_OF_DEVICES = 0.001  # of what their allocator hands out
PRIOR_DEGREES = 3.0
SHOWN = 0.975  # the upper end of a 95 % interval
ACCEPTED = 0.993
ACCEPTED_AGAIN = 0.9995  # of what gets more looks than others
COMPILES = 2.0  # times the fastest of the windows that follow, and more: not the machine's doing
SURPRISE = 0.03  # what a gain may well differ by from what was promised


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The standard deviation of a run's log time, and what is known about it."""

    deviation: float
    degrees: float


def cost(run: Run) -> float | None:
    """Seconds a sample takes; where samples cannot be counted, seconds a step takes."""
    return run.sample_seconds if run.sample_seconds is not None else run.step_seconds


def peak(run: Run) -> float | None:
    return run.peak_bytes


def within(run: Run) -> float:
    """The standard error of the run's own mean, from its windows, as a share of it."""
    windows = _warm(run.windows)
    if len(windows) < 3:
        return 0.0
    return math.sqrt(stats.variance(windows) / len(windows)) / stats.mean(windows)


def wander(runs: Iterable[Run]) -> float:
    """How much the windows within these runs differ, as a standard deviation of their logs.

    A machine whose speed comes and goes shows it there, and a run that is over within one such
    spell shows only that one: what it may be off by is seen in the others.
    """
    squares, degrees = 0.0, 0
    for run in runs:
        logs = [math.log(one) for one in _warm(run.windows) if one > 0]
        if len(logs) > 1:
            squares += stats.variance(logs) * (len(logs) - 1)
            degrees += len(logs) - 1
    return math.sqrt(squares / degrees) if degrees else 0.0


def _warm(windows: Sequence[float]) -> Sequence[float]:
    """Without the first ones if they are far longer than all that follow: something compiled."""
    while len(windows) > 1 and windows[0] > COMPILES * min(windows[1:]):
        windows = windows[1:]
    return windows


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What of a run is compared, and what is assumed of its spread before there are runs."""

    of: Callable[[Run], float | None]
    prior: float
    disturbed: float  # the same for runs that others disturbed
    within: Callable[[Run], float] = lambda run: 0.0  # its spread as one run by itself shows it
    timed: bool = False  # only runs with timed windows are like each other, or runs without


TIME = Figure(
    of=cost, prior=PRIOR_SPREAD, disturbed=PRIOR_SPREAD_DISTURBED, within=within, timed=True
)
PROCESS_MEMORY = Figure(
    of=peak, prior=PRIOR_SPREAD_OF_PROCESSES, disturbed=PRIOR_SPREAD_OF_PROCESSES
)
DEVICE_MEMORY = Figure(of=peak, prior=PRIOR_SPREAD_OF_DEVICES, disturbed=PRIOR_SPREAD_OF_DEVICES)


def costs(runs: Iterable[Run], figure: Figure = TIME) -> list[float]:
    """Of the quiet runs; of the disturbed ones where there are no others."""
    return _values(_quiet(_alike([_known(runs, figure)], figure))[0], figure)


def _values(runs: Iterable[Run], figure: Figure) -> list[float]:
    return [figure.of(run) or 0.0 for run in runs]


def _known(runs: Iterable[Run], figure: Figure) -> list[Run]:
    return [run for run in runs if figure.of(run) and not run.filling]


def after_filling(runs: Iterable[Run]) -> list[Run]:
    """Without those that did nothing but fill a cache: nothing can be told from them."""
    return [run for run in runs if run.status is not None or not run.filling]


def _alike(arms: Sequence[Sequence[Run]], figure: Figure) -> list[list[Run]]:
    """Those with timed windows; else those without: watched steps are not like timed ones."""
    windows = [[run for run in runs if run.windows or not figure.timed] for runs in arms]
    if all(windows):
        return windows
    return [[run for run in runs if not run.windows] for runs in arms]


def _quiet(arms: list[list[Run]]) -> list[list[Run]]:
    """Without the disturbed ones, unless an arm has no others: the load was on that one alone."""
    quiet = [[run for run in runs if not run.disturbed] for runs in arms]
    return quiet if all(quiet) else arms


def comparable(
    reference: Iterable[Run], candidate: Iterable[Run], figure: Figure = TIME
) -> tuple[list[Run], list[Run]]:
    """The runs of both that can be set against each other."""
    known = [_known(reference, figure), _known(candidate, figure)]
    slow, fast = _quiet(_alike(known, figure))
    return slow, fast


def spread_between(
    arms: Sequence[Sequence[Run]],
    reference: Sequence[Run],
    candidate: Sequence[Run],
    figure: Figure = TIME,
) -> Spread:
    """For comparing these two: never less than that of quiet runs, whoever disturbed them."""
    quiet = spread(arms, figure)
    slow, fast = comparable(reference, candidate, figure)
    if not any(run.disturbed for run in (*slow, *fast)):
        return quiet
    hit = [runs for runs in arms if any(run.disturbed for run in runs)]
    loud = spread(hit, figure, disturbed=True)
    return Spread(
        deviation=max(quiet.deviation, loud.deviation), degrees=min(quiet.degrees, loud.degrees)
    )


def spread(
    arms: Iterable[Sequence[Run]], figure: Figure = TIME, *, disturbed: bool = False
) -> Spread:
    """Pooled over all recipes: each adds what its runs differ by among themselves.

    With `disturbed` also what the disturbed ones differ by from the quiet ones.
    """
    squares, degrees = 0.0, 0.0
    assumed = figure.disturbed if disturbed else figure.prior
    inner: list[float] = []
    for runs in arms:
        known = _alike([_known(runs, figure)], figure)
        values = _values((known if disturbed else _quiet(known))[0], figure)
        logs = [math.log(value) for value in values]
        if len(logs) > 1:
            squares += stats.variance(logs) * (len(logs) - 1)
            degrees += len(logs) - 1
        inner += [figure.within(run) for run in runs]
    seen = squares / degrees if degrees else 0.0
    prior = PRIOR_DEGREES * min(1.0, assumed**2 / seen if seen else 1.0)
    squares, degrees = squares + prior * assumed**2, degrees + prior
    deviation = math.sqrt(squares / degrees)
    if inner:
        deviation = max(deviation, stats.median(inner))
    return Spread(deviation=deviation, degrees=degrees)


def speedup(
    reference: Sequence[Run],
    candidate: Sequence[Run],
    noise: Spread,
    *,
    q: float = SHOWN,
    figure: Figure = TIME,
) -> Speedup | None:
    """The reference's figure over the candidate's; None where one has no run that shows it."""
    slow, fast = (_values(runs, figure) for runs in comparable(reference, candidate, figure))
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


def proven(
    reference: Sequence[Run],
    candidate: Sequence[Run],
    noise: Spread,
    *,
    q: float = ACCEPTED,
    figure: Figure = TIME,
) -> bool:
    """Whether the candidate is better, asked more strictly than the interval that is shown.

    A candidate is looked at after every run and gets another one while it looks good: that is
    several chances to be lucky, and it is paid for here.
    """
    strict = speedup(reference, candidate, noise, q=q, figure=figure)
    return strict is not None and strict.low > 1.0


def may_be_proven(
    reference: Sequence[Run],
    candidate: Sequence[Run],
    noise: Spread,
    *,
    most: int,
    promise: float | None = None,
    q: float = ACCEPTED,
    hopefully: bool = True,
) -> bool:
    """Whether runs up to `most` of the candidate, each in turn with the reference, could prove it.

    Asked hopefully: it may be better than it looks by what chance may well have taken from it. But
    of one that promises to save little (a share of the step), much is more likely to be luck. And
    one that was chosen for how good it looks is hardly better than that.
    """
    now = speedup(reference, candidate, noise)
    if now is None:
        return False
    slow, fast = map(len, comparable(reference, candidate))
    more = max(0, most - fast)
    expected = math.log(now.ratio)
    error = noise.deviation * math.sqrt(1 / slow + 1 / fast)
    if promise is not None:
        seen, told = error**-2, max(SURPRISE, promise) ** -2
        expected = (seen * expected + told * promise) / (seen + told)
        error = math.sqrt(1 / (seen + told))
    later = noise.deviation * math.sqrt(1 / (slow + more) + 1 / (fast + more))
    half = stats.student(noise.degrees + 2 * more, q) * later
    return expected + (error if hopefully else 0.0) > half


def floor(runs: Sequence[Run], noise: Spread) -> Noise:
    """What two single runs of the same thing may differ by."""
    half = stats.student(noise.degrees) * noise.deviation * math.sqrt(2)
    return Noise(
        runs=len(costs(runs)), spread=noise.deviation, low=math.exp(-half), high=math.exp(half)
    )
