"""Whether a run that ended by itself went as far as the command as it is does.

A script may catch its own error and end with exit code 0. Its steps until then say nothing about
training with that recipe.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hotlap.tunings import FAILED, UNPROVEN, Run

AS_FAR = 0.9  # of the steps of a command that ends by itself, or of its samples


def checked(run: Run, baselines: Sequence[Run]) -> Run:
    """The run; without its figures where it ended early, or where nobody knows whether it did."""
    known = [one for one in baselines if one.status is None and one.steps]
    if not run.ended or run.status is not None or not known:
        return run
    status, reason = _trouble(run, known)
    if status is None:
        return run
    return msgspec.structs.replace(
        run,
        status=status,
        reason=f"ended by itself after {run.steps:,} steps; the command as it is {reason}",
        step_seconds=None,
        sample_seconds=None,
        windows=(),
        peak_bytes=None,
    )


def _trouble(run: Run, known: Sequence[Run]) -> tuple[str | None, str]:
    to_the_end = [one for one in known if one.ended]
    if any(_is_as_far(run, one, AS_FAR) for one in to_the_end):
        return None, ""
    if to_the_end:
        return FAILED, f"makes {min(one.steps for one in to_the_end):,}"
    if all(_is_as_far(run, one, 1.0) for one in known):
        seen = max(one.steps for one in known)
        return UNPROVEN, f"was watched for {seen:,}, so it may end there too or not"
    return FAILED, "was still training"


def _is_as_far(run: Run, other: Run, share: float) -> bool:
    """By steps or by samples: a larger batch makes fewer steps of the same samples."""
    return any(
        ours is not None and theirs is not None and ours >= share * theirs
        for ours, theirs in ((run.steps, other.steps), (_samples(run), _samples(other)))
    )


def _samples(run: Run) -> float | None:
    if not run.step_seconds or not run.sample_seconds:
        return None
    return run.steps * run.step_seconds / run.sample_seconds
