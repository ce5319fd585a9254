"""The model computes in bfloat16 where that is safe; parameters and their updates stay float32.

## What it does
Runs each root module under `torch.autocast(dtype=torch.bfloat16)` and hands its outputs on as
float32.

## Why it helps
Half the memory traffic, and tensor cores (AMX on a CPU) that are many times faster than float32.
The range is float32's, so no loss scaling is needed.

## When it does not help
Steps bound by launching kernels or by input; small models, where the casts cost more than they
save. A model that needs more than 8 bits of mantissa somewhere learns worse: the guard looks at
that.

## By hand
The forward pass inside `with torch.autocast(...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import precision, reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "precision-bf16"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ("precision-fp16",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}


def refusal(record: Record) -> str | None:
    if reading.by_hand(record):
        return reading.BY_HAND
    if reading.on_device(record):
        if reading.capability(record) < (8, 0):
            return "this GPU has no bfloat16 arithmetic (it came with Ampere)"
    elif not reading.BF16_FLAGS & reading.processor_flags():
        return "this processor has no bfloat16 arithmetic (AMX or AVX512-BF16)"
    return already_reduced(record)


def already_reduced(record: Record) -> str | None:
    found = reading.script(record)
    if found.get("autocast"):
        return f"the script already computes in {found['autocast']}"
    types = found.get("types") or {}
    if types and "float32" not in types:
        return f"the model's parameters are {', '.join(types)}"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.4 * reading.share(verdict, "compute")


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return (
        "with torch.autocast(device.type, dtype=torch.bfloat16):\n"
        "    outputs = model(inputs)\n"
        "    loss = criterion(outputs, targets)"
    )


def install(training: Training, settings: dict[str, Any]) -> None:
    training.when_training_starts(
        NAME, lambda module: training.applied(NAME, type(module).__name__)
    )
    training.around_forward(NAME, precision.around(training.torch, training.torch.bfloat16))
