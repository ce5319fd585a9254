"""The command changed files where they are.

## What it finds
Files that are new, changed or gone in the working directory after a run without an overlay
(refused by the system, `--in-place`, or training that another program starts, as `srun` does).

## Why it matters
A trial may have replaced a checkpoint or a log.

## When it is wrong
Other programs writing into the same folder are listed too. Files outside it are not seen.

## What to do
Look at the files named. Run where user namespaces or root mounts are allowed.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "written-in-place"


def check(record: Record, verdict: Verdict) -> Finding | None:
    ending = record.ending
    if not ending.written_in_place:
        return None
    names = ", ".join(ending.written_in_place[:8])
    more = len(ending.written_in_place) - 8
    return Finding(
        rule=NAME,
        summary=(
            f"The command changed {units.plural(len(ending.written_in_place), 'file')} in place."
        ),
        evidence=names + (f" and {more} more" if more > 0 else ""),
        advice="Check that nothing of yours was replaced."
        if ending.in_place
        else f"Check that nothing of yours was replaced; overlays: {ending.overlay_refused}.",
    )
