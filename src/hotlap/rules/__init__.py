"""What follows from a record: the verdict, and findings by rules of one file each."""

from __future__ import annotations

from hotlap.records import Finding, Record, Verdict


def find(record: Record, verdict: Verdict) -> tuple[Finding, ...]:
    return ()
