"""Matrix products of float32 tensors on the tensor cores, with 10 bits of mantissa.

## What it does
Allows TF32 in matrix products (convolutions have it from torch's own default).

## Why it helps
Ampere and later GPUs multiply TF32 several times faster than float32; inputs and outputs stay
float32.

## When it does not help
Convolutional networks (already on), scripts under autocast, GPUs before Ampere.

## By hand
One line at the start of the script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "tf32"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}


def refusal(record: Record) -> str | None:
    if (why := reading.only_cuda(record)) is not None:
        return why
    if reading.capability(record) < (8, 0):
        return "this GPU has no TF32 (it came with Ampere)"
    if reading.script(record).get("matmul_precision") in ("high", "medium"):
        return "the script already allows it"
    if reading.script(record).get("autocast"):
        return "the script computes in " + str(reading.script(record)["autocast"])
    return None


def promise(record: Record, verdict: Verdict) -> float:
    known = reading.layers(record)
    dense = sum(number for name, number in known.items() if name == "Linear" or "Attention" in name)
    return reading.share(verdict, "compute") * (0.3 if dense else 0.05)


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return 'torch.set_float32_matmul_precision("high")'


def install(training: Training, settings: dict[str, Any]) -> None:
    training.torch.set_float32_matmul_precision("high")
    training.torch.backends.cudnn.allow_tf32 = True
    training.applied(NAME)
