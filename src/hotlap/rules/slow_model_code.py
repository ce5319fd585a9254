"""Python inside the model takes a large part of the step.

## What it finds
More than 15 % of the step in forward and backward that is neither computing nor issuing operations,
with the line of the model that was running most often when sampled, where one stands out. A line
counts while it runs by itself: not while torch runs a layer or the backward pass that it calls.
Where an installed library runs the training loop and the model is a library's too, that library is
named.

## Why it matters
Python in a model that is no operation of torch's runs on the host while the device waits.

## When it is wrong
Operators of one's own that torch's profiler does not see look like Python.

## What to do
Do it in tensor operations, or once instead of in each forward pass.
"""

from __future__ import annotations

from hotlap.records import Finding, Record, Verdict
from hotlap.rules.verdict import INSIDE, own_code, own_code_found

NAME = "slow-model-code"
LEAST_SHARE = 0.15
ADVICE = "Do this in tensor operations, or once instead of in each forward pass."


def check(record: Record, verdict: Verdict) -> Finding | None:
    seconds = own_code(record)[INSIDE]
    if seconds < LEAST_SHARE * record.step.whole_seconds:
        return None
    return own_code_found(NAME, record, INSIDE, seconds, advice=ADVICE)
