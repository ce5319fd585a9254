"""One rank keeps the others waiting.

## What it finds
A rank whose own work (everything but the backward pass, where ranks wait for each other) takes at
least 10 % of the step longer than the others'.

## Why it matters
A distributed step is as long as its slowest rank's.

## When it is wrong
Rank 0 often logs and saves for all: then that is the finding.

## What to do
Look at what that rank does differently: its input, its logging, its device.
"""

from __future__ import annotations

from hotlap import stats, units
from hotlap.records import Finding, Record, Verdict

NAME = "slow-rank"


def check(record: Record, verdict: Verdict) -> Finding | None:
    known = [rank for rank in record.ranks if rank.own_seconds is not None]
    if len(known) < 2 or any(rank.rank is None for rank in known):
        return None
    slowest = max(known, key=lambda rank: rank.own_seconds or 0.0)
    others = stats.median([rank.own_seconds or 0.0 for rank in known if rank is not slowest])
    behind = (slowest.own_seconds or 0.0) - others
    if behind < 0.1 * record.step.median_seconds:
        return None
    waited = units.seconds(behind)
    return Finding(
        rule=NAME,
        summary=f"Rank {slowest.rank} is the slowest: the others wait {waited} for it.",
        evidence=(
            f"outside the backward pass rank {slowest.rank} takes "
            f"{units.seconds(slowest.own_seconds)}, the others {units.seconds(others)}"
        ),
        advice=f"The phases shown are those of rank {slowest.rank}: look for what is different.",
    )
