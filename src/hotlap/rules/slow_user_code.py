"""The script's own code between the phases takes a large part of the step.

## What it finds
More than 15 % of the step outside input, copies, forward, backward and optimizer, with the line
that was running most often when sampled.

## Why it matters
Logging, metrics and progress bars run on the host while the device waits.

## When it is wrong
A script that makes its batches without a DataLoader does its input here.

## What to do
Do it every n steps, or outside the loop.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "slow-user-code"


def check(record: Record, verdict: Verdict) -> Finding | None:
    share = record.phases["other"].share
    lines = [*record.lines.get("other", ()), *record.lines.get("gap", ())]
    lines.sort(key=lambda line: -line.samples)
    if share is None or share < 0.15:
        return None
    first = lines[0] if lines else None
    evidence = f"{units.seconds(record.phases['other'].seconds)} a step"
    if first is not None:
        where = "top-level code" if first.function == "<module>" else f"{first.function}()"
        evidence += f"; {where} was running in {units.share(first.share)} of the samples"
    return Finding(
        rule=NAME,
        summary=f"{units.share(share)} of the step is the script's own code between the phases.",
        evidence=evidence,
        advice="Do this every n steps or outside the loop; if it makes batches, use a DataLoader."
        if record.phases["input"].seconds is None
        else "Do this every n steps instead of in each, or outside the loop.",
        file=first.file if first else None,
        line=first.line if first else None,
    )
