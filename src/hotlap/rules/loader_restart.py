"""Loader workers are started anew every epoch, or even every step.

## What it finds
Steps in which a DataLoader with workers was started that cost more than 5 % of the training time.
Where every step starts it, that is the wait for its first batch, less what making batches took.
An evaluation between two epochs is not part of it.

## Why it matters
Every epoch starts all workers and waits for the first batch again; spawned workers import
everything anew.

## When it is wrong
When the epochs seen were cut short for a try.

## What to do
`persistent_workers=True`: the workers stay alive between epochs. Where each step calls
`next(iter(loader))`, call `iter()` once and `next()` on what it gave in each step, or do without
workers. Where an epoch is a single batch, `num_workers=0`: no worker can make it ahead.
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
    more = "in each step, which" if reading.starts_each_step(record) else "more for a step that"
    return Finding(
        rule=NAME,
        summary=f"Restarting loader workers takes {units.share(taken)} of the time.",
        evidence=(
            f"{units.seconds(record.epoch_start_seconds)} {more} starts the "
            f"{units.plural(loader.workers, 'worker')}"
        ),
        advice=f"{slow_input.keeping_workers(record, loader)}.",
        file=loader.file,
        line=loader.line,
    )
