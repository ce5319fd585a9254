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
from hotlap.records import Finding, Record, Verdict

NAME = "loader-restart"


def check(record: Record, verdict: Verdict) -> Finding | None:
    loader = record.loaders[0] if record.loaders else None
    if loader is None or loader.workers == 0 or loader.persistent_workers:
        return None
    if record.epoch_start_seconds is None or (record.epoch_start_share or 0) < 0.05:
        return None
    share = units.share(record.epoch_start_share)
    return Finding(
        rule=NAME,
        summary=f"Restarting loader workers takes {share} of the time.",
        evidence=(
            f"{units.seconds(record.epoch_start_seconds)} more for a step that starts the "
            f"{units.plural(loader.workers, 'worker')}"
        ),
        advice="Pass persistent_workers=True to this DataLoader.",
        file=loader.file,
        line=loader.line,
    )
