"""The host waits for the device in every step.

## What it finds
Lines that read a value from the device (`.item()`, `.cpu()`, `float()`, `if tensor`) or
synchronise, in every step, and hold the host for more than 2 % of the step.

## Why it matters
The host can only keep the device busy by running ahead of it. Each such read drains the queue;
the device then idles until the host has issued new work.

## When it is wrong
If the device is busy all the time anyway the waiting costs little: the verdict says so.

## What to do
Keep the tensor (`total += loss.detach()`) and read it once every n steps.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "host-waits"


def check(record: Record, verdict: Verdict) -> Finding | None:
    step = record.step.whole_seconds
    waits = [wait for wait in record.waits if wait.per_step >= 0.5]
    held = sum(wait.seconds_per_step for wait in waits)
    if not waits or held < 0.02 * step:
        return None
    worst = waits[0]
    lines = ", ".join(
        f"{wait.what} at {wait.file.rpartition('/')[2] if wait.file else '?'}:{wait.line} "
        f"({units.seconds(wait.seconds_per_step)})"
        for wait in waits[:3]
    )
    share = units.share(held / step)
    count = units.count(sum(wait.per_step for wait in waits))
    return Finding(
        rule=NAME,
        summary=f"The host waits for the device {count} times a step, {share} of it.",
        evidence=lines,
        advice=f"Keep the tensor and call {worst.what} once every n steps instead of in each.",
        file=worst.file,
        line=worst.line,
    )
