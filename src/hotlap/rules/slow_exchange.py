"""Ranks wait long for each other's gradients.

## What it finds
At least 10 % of the step in which a rank waits for what the ranks add up together, and nothing else
runs meanwhile, where no rank is clearly slower than the others.

## Why it matters
Each step sends as many bytes as the trained parameters take. Over a slow network that lasts longer
than the backward pass behind which it could hide, and more ranks do not make it shorter.

## When it is wrong
Processes that share cores wait for each other's turn, and that looks the same: see busy-machine.

## What to do
Exchange once a step: where several backward passes make one step, all but the last belong under
`model.no_sync()`. Send half the bytes, as `exchange-bf16` does. Exchange less often, with a larger
batch or accumulation. On GPUs use NCCL.
"""

from __future__ import annotations

from hotlap import units
from hotlap.optimizations import reading
from hotlap.records import Finding, Record, Verdict
from hotlap.rules.slow_rank import slowest

NAME = "slow-exchange"
LEAST_SHARE = 0.1
OFTEN = 1.5  # times a step: more than once in most of them
ONCE = "Run all but the last backward pass of a step under `with model.no_sync():`."
NCCL = 'Pass "nccl" to init_process_group: gloo sends what is on a GPU by way of the host.'
HALF = "Send them as bfloat16: `hotlap tune --only exchange-bf16` tries it."
LESS = "Exchange less often: a larger batch, or accumulation under model.no_sync()."


def check(record: Record, verdict: Verdict) -> Finding | None:
    share = verdict.shares.get("communication", 0.0)
    if share < LEAST_SHARE or len(record.ranks) < 2 or slowest(record) is not None:
        return None
    found = reading.exchange(record)
    waited = units.seconds(share * record.step.whole_seconds)
    return Finding(
        rule=NAME,
        summary=f"Ranks wait {units.share(share)} of the step for each other's gradients.",
        evidence=", ".join([f"{waited} a step", *_sent(found)]),
        advice=_advice(record, found),
    )


def _sent(found: dict[str, object]) -> list[str]:
    size, times = found.get("bytes"), found.get("per_step")
    if not isinstance(size, (int, float)):
        return []
    often = f" {times:.3g} times a step" if isinstance(times, float) and times >= OFTEN else ""
    return [f"{units.size(size)} of gradients sent{often} over {found.get('backend')}"]


def _advice(record: Record, found: dict[str, object]) -> str:
    times = found.get("per_step")
    if isinstance(times, float) and times >= OFTEN:
        return ONCE
    if reading.kind(record) == "cuda" and found.get("backend") == "gloo":
        return NCCL
    return HALF if found and not found.get("hook") else LESS
