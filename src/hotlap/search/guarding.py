"""The guard: is the loss curve under a recipe the baseline's, within the baseline's own noise?

Trials start from the same seed, so their first steps see the same batches where the script allows
it, and curves can be compared step by step. What is compared is the mean loss over the later half
of the steps that all runs have: a change in learning accumulates there. It may differ by as much as
runs of one recipe do, baseline runs with other random numbers among them, by what the scatter of
the steps explains, or by a tenth of what was learned; and if much of what was learned could be
undone within that, the steps were too few to tell, and the guard says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from hotlap import stats
from hotlap.tunings import Guard

PASSED, CHANGED, UNCLEAR = "passed", "changed", "unclear"
LEAST_STEPS = 16
ERRORS = 3.0  # standard errors of the mean difference
PAIRS = 2.0  # times what runs of one recipe differ by
BLATANT = 5.0  # times the tolerance: no second run is needed
OF_PROGRESS = 0.1  # of what was learned: as fast within a tenth
OF_LOSS = 0.002

Losses = Sequence[float | None]


def check(
    baselines: Sequence[Losses], candidates: Sequence[Losses], others: Sequence[Losses] = ()
) -> Guard:
    """Compares the candidate's runs with the baseline's of the same seed; `others` had others."""
    plain = [losses for losses in baselines if losses]
    changed = [losses for losses in candidates if losses]
    if not plain or not changed:
        return Guard(status=UNCLEAR, reason="no loss was seen")
    steps = min(len(losses) for losses in (*plain, *changed))
    for losses in changed:
        broken = next((at for at, loss in enumerate(losses) if loss is None), None)
        if broken is not None and all(None not in other[: broken + 1] for other in plain):
            return Guard(
                status=CHANGED,
                reason=f"the loss is not a number from step {broken + 1} on",
                steps=steps,
            )
    if steps < LEAST_STEPS:
        return Guard(
            status=UNCLEAR,
            reason=f"{steps} steps are too few to tell (it takes {LEAST_STEPS})",
            steps=steps,
        )
    if any(None in losses[:steps] for losses in (*plain, *changed)):
        return Guard(status=UNCLEAR, reason="the baseline's own loss is not a number", steps=steps)
    chance = [_whole(one, steps) for one in others if len(one) >= steps and None not in one]
    return _compare(
        [_whole(one, steps) for one in plain], [_whole(one, steps) for one in changed], chance
    )


def _whole(losses: Losses, steps: int) -> list[float]:
    return [loss for loss in losses[:steps] if loss is not None]


def _compare(
    plain: list[list[float]], changed: list[list[float]], others: list[list[float]]
) -> Guard:
    steps = len(plain[0])
    later = slice(steps // 2, steps)
    usual = stats.mean([stats.mean(run[later]) for run in plain])
    difference = stats.mean([stats.mean(run[later]) for run in changed]) - usual
    mean_plain = [stats.mean(column) for column in zip(*plain, strict=True)]
    mean_changed = [stats.mean(column) for column in zip(*changed, strict=True)]
    paired = [b - a for a, b in zip(mean_plain, mean_changed, strict=True)]
    scatter = _error(paired[later])
    pairs = max(_range([*plain, *others], later), _range(changed, later))
    start = stats.mean(mean_plain[: max(1, steps // 8)])
    progress = abs(start - usual)
    allowed = max(ERRORS * scatter, PAIRS * pairs, OF_PROGRESS * progress, OF_LOSS * abs(usual))
    found: dict[str, Any] = {"steps": steps, "difference": difference, "tolerance": allowed}
    if abs(difference) > allowed:
        worse = "higher" if difference > 0 else "lower"
        return Guard(
            status=CHANGED,
            reason=f"the loss ends {abs(difference):.3g} {worse} than the baseline's {usual:.3g} "
            f"(tolerance {allowed:.2g}, {steps} steps)",
            **found,
        )
    if allowed > max(0.5 * progress, 0.1 * abs(usual)):
        return Guard(
            status=UNCLEAR,
            reason=f"{steps} steps are too few to tell: the loss scatters by {allowed:.2g}, and "
            f"all that was learned is {progress:.2g}",
            **found,
        )
    return Guard(status=PASSED, reason=f"same loss curve over {steps} steps", **found)


def _error(differences: list[float]) -> float:
    """The standard error of their mean, from how neighbours differ: a trend is no scatter."""
    jumps = [after - before for before, after in pairwise(differences)]
    if not jumps:
        return math.inf
    return math.sqrt(stats.mean([jump * jump for jump in jumps]) / 2 / len(differences))


def _range(runs: list[list[float]], later: slice) -> float:
    """The most two runs of one recipe differ by."""
    means = [stats.mean(run[later]) for run in runs]
    return max(means) - min(means)


def unclear(guard: Guard) -> Guard:
    """A change that was seen once, by one run that nobody repeats."""
    return msgspec.structs.replace(guard, status=UNCLEAR, reason=f"in a single run {guard.reason}")


def is_blatant(guard: Guard) -> bool:
    """A change that no second run would talk away. Others may be an accident: two or three runs
    of a baseline do not know well by how much its runs differ."""
    if guard.difference is None or guard.tolerance is None:
        return True
    return abs(guard.difference) > BLATANT * guard.tolerance
