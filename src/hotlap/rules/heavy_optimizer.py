"""Updating the parameters takes a large part of the step.

## What it finds
An optimizer phase of more than 20 % of the step (zero_grad, clipping and GradScaler included).
Where one of torch's own optimizers was mostly running code of the script when sampled, as hooks
registered with it are, that line is named instead of the optimizer.

## Why it matters
The update reads and writes every parameter and its state once per step, whatever the batch. An
unfused one does so several times, in many small operations.

## When it is wrong
With LBFGS and in Lightning the closure's own work is counted apart; what remains is the method
itself. Only where the closure is neither a function nor a method is it all the optimizer's.

## What to do
`fused=True` where the optimizer offers it; otherwise `foreach=True`. A larger batch or gradient
accumulation updates less often. A hook can do its work every n steps.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Line, Record, Verdict
from hotlap.rules.verdict import busiest_in_update, running, whose

NAME = "heavy-optimizer"


def check(record: Record, verdict: Verdict) -> Finding | None:
    phase = record.phases["optimizer"]
    if phase.share is None or phase.share < 0.2 or not record.optimizers:
        return None
    named = busiest_in_update(record)
    if named is not None:
        return _in_a_hook(record, *named)
    optimizer = max(record.optimizers, key=lambda one: one.tensors)
    if optimizer.can_fuse and not optimizer.fused:
        advice = f"Pass fused=True to {optimizer.name}."
    elif not optimizer.fused and optimizer.foreach is False:
        advice = f"Pass foreach=True to {optimizer.name}."
    else:
        advice = "Update less often: a larger batch, or gradient accumulation."
    names = units.listed(list(dict.fromkeys(one.name for one in record.optimizers)))
    several = len(record.optimizers) > 1
    who = f"{len(record.optimizers)} optimizers ({names}) take" if several else f"{names} takes"
    tensors = sum(one.tensors for one in record.optimizers)
    return Finding(
        rule=NAME,
        summary=f"{who} {units.share(phase.share)} of the step.",
        evidence=(
            f"{units.seconds(phase.seconds)} a step for {units.plural(tensors, 'parameter tensor')}"
        ),
        advice=advice,
        file=optimizer.file,
        line=optimizer.line,
    )


def _in_a_hook(record: Record, line: Line, taken: int) -> Finding:
    phase = record.phases["optimizer"]
    share, code = units.share(phase.share), whose(line.package)
    return Finding(
        rule=NAME,
        summary=f"{share} of the step is updating parameters, mostly {code}.",
        evidence=f"{units.seconds(phase.seconds)} a step; {running(line, taken)}",
        advice="The optimizer calls this in each step: do it every n steps, or outside of it.",
        file=line.file,
        line=line.line,
    )
