"""The command left processes behind when it ended.

## What it finds
Processes started by the command that were still running after it had ended; hotlap ended them.

## Why it matters
They hold memory, often on the GPU, and slow down whatever runs next.

## When it is wrong
A server the command meant to start would be one.

## What to do
Wait for or end child processes before the script ends.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "left-running"


def check(record: Record, verdict: Verdict) -> Finding | None:
    left = record.ending.left_running
    if not left:
        return None
    processes = units.plural(len(left), "process", "processes")
    return Finding(
        rule=NAME,
        summary=f"The command left {processes} running; hotlap ended them.",
        evidence="; ".join(left[:3]),
        advice="End or join child processes before the script ends.",
    )
