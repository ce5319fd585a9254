"""What the script does outside the phases takes a large part of the step.

## What it finds
More than 15 % of the step outside input, copies, forward, backward and optimizer, with the line
that was running most often when sampled, where one stands out. It tells two things apart, and
names the larger: the script's own Python, which the verdict counts as `other`, and tensor
operations, which it counts as `compute`. What the model itself does in Python is
[slow-model-code](slow-model-code.md). Where an installed library runs the training loop, as
Lightning does, and was running by itself, the library is named, with the line that calls it.

## Why it matters
Logging, metrics and progress bars run on the host while the device waits. Batches that are
normalised in the loop are made while nothing trains.

## When it is wrong
A script that makes its batches without a DataLoader does its input here, and one whose DataLoader
is read by another thread waits for it here. One that updates its parameters by hand does so here.
Tensor operations are not told of where no forward or backward pass is seen: they are the training.

## What to do
Do it every n steps, or outside the loop. Let the workers of a DataLoader prepare the batches. Give
a library that runs the loop less to do in each step: fewer callbacks, less to log, no progress bar.
"""

from __future__ import annotations

from hotlap.records import Finding, Record, Verdict
from hotlap.rules.verdict import (
    BETWEEN,
    OPERATORS,
    operators_between,
    own_code,
    own_code_found,
)

NAME = "slow-user-code"
LEAST_SHARE = 0.15


def check(record: Record, verdict: Verdict) -> Finding | None:
    own = own_code(record)[BETWEEN]
    operators = operators_between(record) if _model_is_seen(record) else 0.0
    if max(own, operators) < LEAST_SHARE * record.step.whole_seconds:
        return None
    if own >= operators:
        return own_code_found(NAME, record, BETWEEN, own, advice=_advice(record))
    advice = _advice_on_operators(record)
    return own_code_found(NAME, record, BETWEEN, operators, advice=advice, what=OPERATORS)


def _model_is_seen(record: Record) -> bool:
    """Else the operators may be the training itself, in one compiled call."""
    return all(record.phases[name].seconds for name in ("forward", "backward"))


def _advice_on_operators(record: Record) -> str:
    if record.step.unit == "backward" or record.phases["input"].seconds is None:
        return _advice(record)
    return (
        "If this prepares batches, do it in the DataLoader's workers or once before training; "
        "else do it every n steps."
    )


def _advice(record: Record) -> str:
    if record.step.unit == "backward":
        return "If this is the update, use a torch.optim optimizer; else do it every n steps."
    if record.phases["input"].seconds is None and record.loaders:
        return (
            "Another thread fetches the batches: if the loop waits for them here, let the "
            "DataLoader make them faster (num_workers=); else do this every n steps."
        )
    if record.phases["input"].seconds is None:
        return "Do this every n steps or outside the loop; if it makes batches, use a DataLoader."
    return "Do this every n steps instead of in each, or outside the loop."
