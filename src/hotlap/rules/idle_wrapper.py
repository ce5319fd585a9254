"""DataParallel around a model that has one device.

## What it finds
`nn.DataParallel` with a single visible GPU.

## Why it matters
It scatters, replicates and gathers every batch for nothing.

## When it is wrong
Never on one device; on several, DistributedDataParallel is faster.

## What to do
Leave the wrapper out.
"""

from __future__ import annotations

from hotlap.records import Finding, Record, Verdict

NAME = "idle-wrapper"


def check(record: Record, verdict: Verdict) -> Finding | None:
    if "DataParallel" not in record.models or record.environment.get("devices") != 1:
        return None
    return Finding(
        rule=NAME,
        summary="DataParallel wraps a model that has a single device.",
        evidence="one visible GPU",
        advice="Leave DataParallel out; on several GPUs use DistributedDataParallel.",
    )
