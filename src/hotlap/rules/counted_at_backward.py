"""No optimizer was seen to step: steps were counted at the backward pass.

## What it finds
A script that updates its parameters by hand, or whose optimizer steps inside a compiled function.

## Why it matters
What counts as a step changes: with gradients accumulated over k batches by hand, each of the k
counts as one. The update itself is shown under `other`; where no module is trained, all that stands
before the backward pass is shown under `forward`, the update of the step before among it.

## When it is wrong
Never; it says how the figures were taken.

## What to do
Nothing; or, where parameters are updated by hand, use a torch.optim optimizer.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "counted-at-backward"


def check(record: Record, verdict: Verdict) -> Finding | None:
    if record.step.unit != "backward":
        return None
    return Finding(
        rule=NAME,
        summary="No optimizer stepped: each backward pass counts as one step.",
        evidence=units.plural(record.step.seen, "backward pass", "backward passes"),
        advice=f"Read the update under `{_where(record)}`: it cannot be told apart here.",
    )


def _where(record: Record) -> str:
    """Without a known model, what stands before the backward pass counts as its forward pass."""
    return "other" if record.models else "forward"
