"""Something is on that is meant for debugging and slows every step.

## What it finds
torch's anomaly detection in the last backward pass that was looked at, `CUDA_LAUNCH_BLOCKING=1` or
`PYTORCH_NO_CUDA_MEMORY_CACHING=1` with a GPU, `TORCH_DISTRIBUTED_DEBUG=DETAIL` with several ranks.

## Why it matters
Anomaly detection notes the Python stack of every operation and searches every gradient for NaN:
models of many small layers take several times as long with it. Blocking launches leave the GPU idle
while the host prepares the next operation; without its cache each tensor's memory is asked for
anew; the detailed checks compare all collectives of all ranks.

## When it is wrong
While you debug.

## What to do
Leave it out of the real training.
"""

from __future__ import annotations

from typing import Any

from hotlap import units
from hotlap.optimizations import reading
from hotlap.records import Finding, Record, Verdict

NAME = "debugging-left-on"
ANOMALIES = "detect_anomaly"
OF_DEVICES = ("CUDA_LAUNCH_BLOCKING", "PYTORCH_NO_CUDA_MEMORY_CACHING")
ONE, SEVERAL = "is on, which slows every step.", "are on, which slows every step."
OF_RANKS = "TORCH_DISTRIBUTED_DEBUG"


def check(record: Record, verdict: Verdict) -> Finding | None:
    known = reading.script(record).get("debugging")
    found: dict[str, Any] = known if isinstance(known, dict) else {}
    names = [name for name in found if _concerns(name, record)]
    if not names:
        return None
    variables = [name for name in names if name != ANOMALIES]
    place = found.get(ANOMALIES) or (None, None)
    said = ["anomaly detection"] if ANOMALIES in names else []
    what = units.listed([*said, *variables])
    advice = [f"unset {units.listed(variables)}"] if variables else []
    if ANOMALIES in names:
        advice.insert(0, "switch anomaly detection on only to look for a NaN")
    return Finding(
        rule=NAME,
        summary=_sentence(f"{what} {ONE if len(names) == 1 else SEVERAL}"),
        evidence="torch.is_anomaly_enabled() in the backward pass"
        if ANOMALIES in names
        else "set in the environment of the training process",
        advice=_sentence(f"{'; '.join(advice)}."),
        file=place[0],
        line=place[1],
    )


def _concerns(name: str, record: Record) -> bool:
    if name in OF_DEVICES:
        return reading.kind(record) == "cuda"
    return name != OF_RANKS or len(record.ranks) > 1


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
