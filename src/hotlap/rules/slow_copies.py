"""Copying batches to the device holds up the step.

## What it finds
Host-to-device copies that take more than 5 % of the step, from memory that is not pinned.

## Why it matters
A copy from ordinary memory goes through a staging buffer and blocks the host; from pinned memory
it runs at full speed and beside the computation.

## When it is wrong
Pinning by hand, batch by batch, can be slower than the copy it saves: pin in the loader.

## What to do
`pin_memory=True` in the DataLoader, `non_blocking=True` in the `.to()`; send uint8 and normalise
on the device where the batch is images.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "slow-copies"


def check(record: Record, verdict: Verdict) -> Finding | None:
    phase = record.phases["transfer"]
    if phase.share is None or phase.share < 0.05 or not record.copies:
        return None
    copy = max(record.copies, key=lambda one: one.bytes_per_step)
    if copy.pinned:
        return None
    pin = ""
    if record.loaders and not record.loaders[0].pin_memory:
        loader = record.loaders[0]
        where = f" ({loader.file.rpartition('/')[2]}:{loader.line})" if loader.file else ""
        pin = f"Pass pin_memory=True to the DataLoader{where} and "
    return Finding(
        rule=NAME,
        summary=f"Copying to the device takes {units.share(phase.share)} of the step.",
        evidence=(
            f"{units.seconds(phase.seconds)} a step for {units.size(copy.bytes_per_step)} "
            "from memory that is not pinned"
        ),
        advice=(pin + "copy with non_blocking=True here.")
        if pin
        else "Pin this memory once, outside the loop, and copy with non_blocking=True.",
        file=copy.file,
        line=copy.line,
    )
