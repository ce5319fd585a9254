"""The script's own Python takes a large part of the step.

## What it finds
More than 15 % of the step outside input, copies, forward, backward and optimizer, or inside the
model without computing, with the line that was running most often when sampled.

## Why it matters
Logging, metrics and progress bars run on the host while the device waits. So does Python in a
model that is no operation of torch's.

## When it is wrong
A script that makes its batches without a DataLoader does its input here. One that updates its
parameters by hand does so here.

## What to do
Do it every n steps, or outside the loop. What a model does in Python: in tensor operations, or once
instead of in each forward pass.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict
from hotlap.rules.verdict import BETWEEN, INSIDE, own_code, sampled

NAME = "slow-user-code"
LEAST_SHARE = 0.15


def check(record: Record, verdict: Verdict) -> Finding | None:
    between = record.phases["other"].seconds or 0.0
    inside = own_code(record)[INSIDE]
    where, seconds = (INSIDE, inside) if inside > between else (BETWEEN, between)
    share = seconds / record.step.median_seconds
    if share < LEAST_SHARE:
        return None
    lines, taken = sampled(record, where)
    first = lines[0] if lines else None
    evidence = f"{units.seconds(seconds)} a step"
    if first is not None:
        what = "top-level code" if first.function == "<module>" else f"{first.function}()"
        evidence += f"; {what} was running in {first.samples} of {units.plural(taken, 'sample')}"
    return Finding(
        rule=NAME,
        summary=f"{units.share(share)} of the step is the script's own code {where}.",
        evidence=evidence,
        advice=_advice(record, where),
        file=first.file if first else None,
        line=first.line if first else None,
    )


def _advice(record: Record, where: str) -> str:
    if where == INSIDE:
        return "Do this in tensor operations, or once instead of in each forward pass."
    if record.step.unit == "backward":
        return "If this is the update, use a torch.optim optimizer; else do it every n steps."
    if record.phases["input"].seconds is None:
        return "Do this every n steps or outside the loop; if it makes batches, use a DataLoader."
    return "Do this every n steps instead of in each, or outside the loop."
