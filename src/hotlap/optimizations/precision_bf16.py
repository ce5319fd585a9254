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
that. Left out for models with parameters of bfloat16 or float16, and where there is no bfloat16
arithmetic: GPUs before Ampere, processors without AMX or AVX512-BF16.

## By hand
The forward pass inside `with torch.autocast(...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import precision, reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Call, Training
    from hotlap.records import Record, Verdict

NAME = "precision-bf16"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ("precision-fp16",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
OLD_GPU = "this GPU has no bfloat16 arithmetic (it came with Ampere)"
OLD_PROCESSOR = "this processor has no bfloat16 arithmetic (AMX or AVX512-BF16)"


def refusal(record: Record) -> str | None:
    if reading.by_hand(record):
        return reading.BY_HAND
    if reading.on_device(record):
        if reading.is_older(record, (8, 0)):
            return OLD_GPU
    elif not reading.BF16_FLAGS & reading.processor_flags():
        return OLD_PROCESSOR
    return already_reduced(record)


def already_reduced(record: Record) -> str | None:
    found = reading.script(record)
    if found.get("autocast"):
        return f"the script already computes in {found['autocast']}"
    return precision.own_types(found.get("types") or ())


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
    torch = training.torch
    reduced = precision.around(torch, torch.bfloat16)

    def begin(module: Any) -> None:
        why = _hindrance(torch, module)
        if why is not None:
            training.refused(NAME, why)
        else:
            training.applied(NAME, type(module).__name__)

    def wrap(module: Any, call: Call) -> Call:
        return call if _hindrance(torch, module) else reduced(module, call)

    training.when_training_starts(NAME, begin)
    training.around_forward(NAME, wrap)


def _hindrance(torch: Any, module: Any) -> str | None:
    """What a record would have told, asked of the model and where it is."""
    device = precision.device(torch, module)
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
        return OLD_GPU
    if device.type == "cpu" and not reading.BF16_FLAGS & reading.processor_flags():
        return OLD_PROCESSOR
    if not torch.amp.is_autocast_available(device.type):
        return f"torch has no autocast for {device.type}"
    return precision.own_types(precision.types(module))
