"""The command stopped making steps.

## What it finds
No step for as long as `--timeout` allows (600 s), after steps had been seen.

## Why it matters
A hang looks like a slow run from outside: a deadlocked worker, a rank that waits for one that
died, a prompt nobody answers.

## When it is wrong
A long evaluation or a checkpoint to slow storage can look the same.

## What to do
Read the end of the command's output; `py-spy dump --pid` on the real run shows where it waits.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "stalled"


def check(record: Record, verdict: Verdict) -> Finding | None:
    if record.ending.stopped != "stalled":
        return None
    return Finding(
        rule=NAME,
        summary=(
            "The command stopped making steps after "
            f"{units.plural(record.step.seen, 'step')} or a few more."
        ),
        evidence=f"stopped after {units.seconds(record.ending.seconds)} in all",
        advice="Read the end of its output for what it waits for; --timeout allows longer pauses.",
    )
