"""One rank keeps the others waiting.

## What it finds
A rank whose own work takes at least 10 % of the step longer than the others', on average: also
where it comes every few steps. Own work is everything but the backward pass, where ranks wait for
each other, or but the collectives of the step, where they take longer than the backward pass and
the steps that were looked into for them were no longer than usual on any rank.

## Why it matters
A distributed step is as long as its slowest rank's.

## When it is wrong
Rank 0 often logs and saves for all: then that is the finding.

## What to do
Look at what that rank does differently: its input, its logging, its device.
"""

from __future__ import annotations

from hotlap import stats, units
from hotlap.records import Finding, Rank, Record, Verdict

NAME = "slow-rank"
LEAST_SHARE = 0.1


def check(record: Record, verdict: Verdict) -> Finding | None:
    rank = slowest(record)
    if rank is None or rank.own_seconds is None:
        return None
    others = _others(record, rank)
    waited = units.seconds(rank.own_seconds - others)
    return Finding(
        rule=NAME,
        summary=f"Rank {rank.rank} is the slowest: the others wait {waited} for it.",
        evidence=(
            f"without waiting for others rank {rank.rank} takes "
            f"{units.seconds(rank.own_seconds)} a step, the others {units.seconds(others)}"
        ),
        advice=f"The phases shown are those of rank {rank.rank}: look for what is different.",
    )


def slowest(record: Record) -> Rank | None:
    """The rank the others wait for, where one is behind by more than ranks always are."""
    known = [rank for rank in record.ranks if rank.own_seconds is not None]
    if len(known) < 2 or any(rank.rank is None for rank in known):
        return None
    last = max(known, key=lambda rank: rank.own_seconds or 0.0)
    behind = (last.own_seconds or 0.0) - _others(record, last)
    return last if behind >= LEAST_SHARE * record.step.whole_seconds else None


def _others(record: Record, rank: Rank) -> float:
    return stats.median([one.own_seconds or 0.0 for one in record.ranks if one is not rank])
