"""Loader workers are started anew every epoch.

## What it finds
Steps in which a DataLoader with workers was started that cost more than 5 % of the training time.

## Why it matters
Every epoch starts all workers and waits for the first batch again; spawned workers import
everything anew.

## When it is wrong
When the epochs seen were cut short for a try.

## What to do
`persistent_workers=True`: the workers stay alive between epochs.
"""

from __future__ import annotations

from hotlap import units
from hotlap.optimizations import reading
from hotlap.records import Finding, Record, Verdict
from hotlap.rules import slow_input

NAME = "loader-restart"
LEAST_SHARE = 0.05


def check(record: Record, verdict: Verdict) -> Finding | None:
    loader = record.loaders[0] if record.loaders else None
    taken = reading.restarts(record)
    if loader is None or taken < LEAST_SHARE or slow_input.takes_workers_away(record, loader):
        return None
    return Finding(
        rule=NAME,
        summary=f"Restarting loader workers takes {units.share(taken)} of the time.",
        evidence=(
            f"{units.seconds(record.epoch_start_seconds)} more for a step that starts the "
            f"{units.plural(loader.workers, 'worker')}"
        ),
        advice="Pass persistent_workers=True to this DataLoader.",
        file=loader.file,
        line=loader.line,
    )
