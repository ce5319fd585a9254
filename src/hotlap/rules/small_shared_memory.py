"""/dev/shm is too small for loader workers.

## What it finds
Loader workers with less than 256 MiB of shared memory, the default of many containers (64 MB).

## Why it matters
Workers hand batches over through /dev/shm; a full one kills them with a bus error.

## When it is wrong
Small batches fit all the same.

## What to do
Start the container with more (`docker run --shm-size=8g`).
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "small-shared-memory"


def check(record: Record, verdict: Verdict) -> Finding | None:
    size = record.environment.get("shared_memory_bytes")
    loader = record.loaders[0] if record.loaders else None
    if loader is None or loader.workers == 0 or not size or size >= 256 << 20:
        return None
    return Finding(
        rule=NAME,
        summary=f"/dev/shm has only {units.size(size)}: loader workers may die of a bus error.",
        evidence=f"{units.plural(loader.workers, 'worker')} hand their batches over through it",
        advice="Give the container more shared memory, for example docker run --shm-size=8g.",
        file=loader.file,
        line=loader.line,
    )
