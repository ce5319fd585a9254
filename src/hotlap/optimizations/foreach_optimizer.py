"""The optimizer updates lists of parameters at once instead of one after the other.

## What it does
Makes torch's own optimizers with `foreach=True`.

## Why it helps
One call for many tensors. On a GPU it is torch's default; on a CPU it is not.

## When it does not help
Where fused optimizers exist they are better; few large parameters.

## By hand
One argument of the optimizer.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "foreach-optimizer"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ("fused-optimizer",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
ALREADY = "the optimizer already works on lists"


def refusal(record: Record) -> str | None:
    able = [one for one in record.optimizers if one.torchs_own]
    if not able:
        return "no optimizer of torch's own was made"
    if all(one.foreach or one.fused for one in able):
        return ALREADY
    if reading.on_device(record) and all(one.foreach is None for one in able):
        return "it is torch's default on a GPU"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.2 * (record.phases["optimizer"].share or 0.0)


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return "optimizer = torch.optim.AdamW(..., foreach=True)  # or whichever it is"


def install(training: Training, settings: dict[str, Any]) -> None:
    def change(kind: type, arguments: dict[str, Any]) -> None:
        if "foreach" not in inspect.signature(kind).parameters:
            training.refused(NAME, f"{kind.__name__} does not work on lists")
        elif arguments.get("differentiable"):
            training.refused(NAME, "the script differentiates through the update")
        elif arguments.get("foreach") or arguments.get("fused"):
            training.refused(NAME, ALREADY)
        else:
            arguments["foreach"] = True

    training.change_optimizers(NAME, change)
