"""The step is bound by issuing operations, not by doing them.

## What it finds
More than a quarter of the step lost to the framework's own cost of many small operations: with a
device, the device idles while the host issues kernels; on a CPU, the operations are shorter than
what it takes to call them.

## Why it matters
Faster arithmetic (mixed precision, channels-last) changes nothing here.

## When it is wrong
Python code inside the model that is not torch also keeps the device waiting. Up to 40
microseconds an operation it cannot be told from the framework's own cost; beyond that it counts
as the script's code.

## What to do
`torch.compile(mode="reduce-overhead")` replays the step as one CUDA graph; a larger batch does
more work for the same number of operations; fused and foreach optimizers issue fewer.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict
from hotlap.rules.verdict import operations

NAME = "many-small-operations"


def check(record: Record, verdict: Verdict) -> Finding | None:
    share = verdict.shares.get("launch", 0.0)
    kernels = record.kernels
    if share < 0.25 or kernels is None:
        return None
    if kernels.kernels:
        evidence = (
            f"{units.count(kernels.kernels)} kernels a step keep the device busy "
            f"{units.seconds(kernels.device_busy_seconds)} of "
            f"{units.seconds(record.step.whole_seconds)}"
        )
        advice = 'Try torch.compile(model, mode="reduce-overhead"), or use larger batches.'
    else:
        evidence = (
            f"{units.count(operations(record))} operations in forward and backward, "
            f"{units.seconds(record.step.whole_seconds)} a step"
        )
        advice = "Try torch.compile(model), or use larger batches."
    return Finding(
        rule=NAME,
        summary=f"{units.share(share)} of the step goes to issuing small operations.",
        evidence=evidence,
        advice=advice,
    )
