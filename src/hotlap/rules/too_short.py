"""The command ends by itself before there is anything to gain from tuning it.

## What it finds
A command that finished, with success, before hotlap had seen three windows of steps.

## Why it matters
Measuring, and far more so tuning, takes longer than the run would. Figures from a few steps also
carry the cold caches of the first ones.

## When it is wrong
When the command was cut down for a try (`--epochs 1`). Profile the real one.

## What to do
Run the full-length command, or leave it as it is.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "too-short"


def check(record: Record, verdict: Verdict) -> Finding | None:
    ending = record.ending
    if ending.stopped is not None or ending.code != 0 or record.step.settled:
        return None
    steps = units.plural(record.step.seen, "step")
    return Finding(
        rule=NAME,
        summary=f"The command ended by itself after {steps}: too short to be worth tuning.",
        evidence=f"{steps} in {units.seconds(ending.seconds)}, start-up included",
        advice="Profile the full-length command, or leave this one as it is.",
    )
