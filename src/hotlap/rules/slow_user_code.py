"""The script's own Python takes a large part of the step.

## What it finds
More than 15 % of the step outside input, copies, forward, backward and optimizer, with the line
that was running most often when sampled. What the model itself does in Python is
[slow-model-code](slow-model-code.md).

## Why it matters
Logging, metrics and progress bars run on the host while the device waits.

## When it is wrong
A script that makes its batches without a DataLoader does its input here, and one whose DataLoader
is read by another thread waits for it here. One that updates its parameters by hand does so here.

## What to do
Do it every n steps, or outside the loop.
"""

from __future__ import annotations

from hotlap.records import Finding, Record, Verdict
from hotlap.rules.verdict import BETWEEN, own_code_found

NAME = "slow-user-code"
LEAST_SHARE = 0.15


def check(record: Record, verdict: Verdict) -> Finding | None:
    seconds = record.phases["other"].seconds or 0.0
    if seconds < LEAST_SHARE * record.step.whole_seconds:
        return None
    return own_code_found(NAME, record, BETWEEN, seconds, advice=_advice(record))


def _advice(record: Record) -> str:
    if record.step.unit == "backward":
        return "If this is the update, use a torch.optim optimizer; else do it every n steps."
    if record.phases["input"].seconds is None and record.loaders:
        return (
            "Another thread fetches the batches: if the loop waits for them here, let the "
            "DataLoader make them faster (num_workers=); else do this every n steps."
        )
    if record.phases["input"].seconds is None:
        return "Do this every n steps or outside the loop; if it makes batches, use a DataLoader."
    return "Do this every n steps instead of in each, or outside the loop."
