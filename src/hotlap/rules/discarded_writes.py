"""The command wrote a lot that went with the trial.

## What it finds
More than 64 MiB written into the overlay: typically a data set or model download.

## Why it matters
It is thrown away with the trial, so every trial downloads or writes it again.

## When it is wrong
Checkpoints are meant to be thrown away here.

## What to do
If it is a download, run the command once by itself so that the files are there.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "discarded-writes"


def check(record: Record, verdict: Verdict) -> Finding | None:
    ending = record.ending
    if ending.written_bytes < 64 << 20 or not ending.written:
        return None
    largest = ending.written[0]
    return Finding(
        rule=NAME,
        summary=f"The command wrote {units.size(ending.written_bytes)} that went with the trial.",
        evidence=f"the largest: {largest.path} ({units.size(largest.bytes)})",
        advice="If this is a download, run the command once by itself; --keep keeps the files.",
    )
