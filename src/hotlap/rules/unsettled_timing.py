"""The step time did not settle.

## What it finds
The measuring limit was reached before three windows of steps agreed within 5 %.

## Why it matters
The median still stands, but a speed-up smaller than the spread cannot be read from it.

## When it is wrong
Steps that differ by design (sequences of every length) never agree.

## What to do
Allow more with `--seconds`, or look for what varies: a noisy machine, batches of different sizes.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "unsettled-timing"


def check(record: Record, verdict: Verdict) -> Finding | None:
    step = record.step
    if step.settled or record.ending.stopped != "enough":
        return None
    return Finding(
        rule=NAME,
        summary="The step time had not settled when the time to measure was up.",
        evidence=(
            f"median {units.seconds(step.median_seconds)}, eight steps in ten between "
            f"{units.seconds(step.low_seconds)} and {units.seconds(step.high_seconds)} "
            f"({units.plural(step.count, 'step')})"
        ),
        advice="Measure for longer, or find what varies from step to step.",
    )
