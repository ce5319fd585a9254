"""Rows of the table from runs: what a recipe's runs come to, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hotlap import stats
from hotlap.recipes import Recipe
from hotlap.tunings import FAILED, Guard, Run, Speedup, Trial


def _good(runs: Sequence[Run]) -> list[Run]:
    """Those that ran through, without the disturbed ones where there are others."""
    through = [run for run in runs if run.status is None and not run.filling]
    return [run for run in through if not run.disturbed] or through


def _middle(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return stats.median(known) if known else None


def _typical(values: list[float | None]) -> float | None:
    """The geometric mean: ratios of these are the speed-ups that are shown beside them."""
    known = [math.log(value) for value in values if value]
    return math.exp(stats.mean(known)) if known else None


def step(runs: Sequence[Run]) -> float | None:
    return mean_step(_good(runs))


def mean_step(runs: Sequence[Run]) -> float | None:
    return _typical([run.step_seconds for run in runs])


def rate(runs: Sequence[Run]) -> float | None:
    """Samples a second."""
    sample = _typical([run.sample_seconds for run in _good(runs)])
    return 1 / sample if sample else None


def peak(runs: Sequence[Run]) -> int | None:
    found = _middle([run.peak_bytes for run in _good(runs)])
    return int(found) if found is not None else None


def start(runs: Sequence[Run], cold: float | None = None) -> float | None:
    """Seconds until steps take their usual time; `cold` is what the compiler needed at first."""
    return cold if cold is not None else _middle([run.start_seconds for run in _good(runs)])


def more_start(
    runs: Sequence[Run], baseline: Sequence[Run], cold: float | None = None
) -> float | None:
    """0 where its runs started neither later nor sooner than the baseline's: then it is chance."""
    ours, theirs = start(runs, cold), start(baseline)
    if ours is None or theirs is None:
        return None
    return 0.0 if cold is None and _overlap(_starts(runs), _starts(baseline)) else ours - theirs


def _starts(runs: Sequence[Run]) -> list[float]:
    return [run.start_seconds for run in runs if run.status is None and run.start_seconds]


def _overlap(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whatever the very first run took: files are read from the disk then."""
    usual = theirs[1:] or theirs
    return bool(ours and usual) and max(ours) >= min(usual) and min(ours) <= max(usual)


def break_even(
    runs: Sequence[Run], baseline: Sequence[Run], cold: float | None = None
) -> int | None:
    """After how many steps a slower start has paid; None where it never does."""
    more = more_start(runs, baseline, cold)
    ours, theirs = step(runs), step(baseline)
    if more is None or ours is None or theirs is None or theirs <= ours:
        return None
    first, slow = first_epoch(runs)
    more += first * (slow - theirs)
    return first + math.ceil(more / (theirs - ours)) if more > 0 else first


def total_seconds(runs: Sequence[Run], steps: int, cold: float | None = None) -> float | None:
    begin, each = start(runs, cold), step(runs)
    if begin is None or each is None:
        return None
    first, slow = first_epoch(runs)
    first = min(first, steps)
    return begin + first * slow + (steps - first) * each


def first_epoch(runs: Sequence[Run]) -> tuple[int, float]:
    """Steps that fill a cache, and what one of them takes; (0, 0) where there is none to fill."""
    filling = [run for run in runs if run.filling and run.status is None]
    for run in filling:
        if run.step_seconds is not None and run.epoch_steps:
            return run.epoch_steps, run.step_seconds
    return 0, 0.0


def row(
    name: str, recipe: Recipe, status: str, reason: str, runs: Sequence[Run], *, against: str
) -> Trial:
    return Trial(
        name=name,
        recipe=dict(recipe.changes),
        status=status,
        reason=reason,
        against=against,
        runs=tuple(runs),
        log=f"{runs[-1].folder}/output.log" if runs else None,
    )


def failed(name: str, recipe: Recipe, run: Run, *, against: str) -> Trial:
    return row(name, recipe, run.status or FAILED, run.reason, [run], against=against)


def compared(
    name: str,
    recipe: Recipe,
    status: str,
    reason: str,
    runs: Sequence[Run],
    *,
    against: str,
    speedup: Speedup | None,
    overall: Speedup | None,
    guard: Guard | None,
    baseline: Sequence[Run],
    cold: float | None,
    kept: bool,
) -> Trial:
    return Trial(
        name=name,
        recipe=dict(recipe.changes),
        status=status,
        reason=reason,
        against=against,
        speedup=speedup,
        overall=overall,
        guard=guard,
        step_seconds=step(runs),
        samples_per_second=rate(runs),
        peak_bytes=peak(runs),
        start_seconds=more_start(runs, baseline, cold),
        start_is_cold=cold is not None or "compile" not in recipe.changes,
        break_even_steps=break_even(runs, baseline, cold),
        kept=kept,
        runs=tuple(runs),
        log=f"{runs[-1].folder}/output.log" if runs else None,
    )
