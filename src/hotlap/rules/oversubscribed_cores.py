"""More processes than cores.

## What it finds
More loader workers, over all ranks, than the cores this process may use (affinity and cgroup
quota), while they are busy.

## Why it matters
Workers that share a core take turns; they also take turns with the training thread, which slows
every step. CPU counts inside containers often ignore the quota.

## When it is wrong
Workers that wait for storage do not need a core each: then the rule keeps silent.

## What to do
`num_workers` no larger than the cores there are.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "oversubscribed-cores"


def check(record: Record, verdict: Verdict) -> Finding | None:
    loader = record.loaders[0] if record.loaders else None
    cores = float(record.environment.get("cores") or 0)
    making = 1.0 if record.input_making_share is None else record.input_making_share
    if loader is None or not cores or (record.input_cpu_share or 0) * making < 0.3:
        return None
    ranks = max(1, len(record.ranks))
    workers = loader.workers * ranks
    if workers <= cores or workers <= 1:
        return None
    return Finding(
        rule=NAME,
        summary=f"{units.plural(workers, 'busy loader worker')} share {cores:g} cores.",
        evidence=f"num_workers={loader.workers} on {units.plural(ranks, 'rank')}",
        advice=f"Pass num_workers={max(1, int(cores / ranks))} to this DataLoader.",
        file=loader.file,
        line=loader.line,
    )
