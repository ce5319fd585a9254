"""The optimizer updates all parameters in a few kernels, each in one pass over memory.

## What it does
Makes torch's own optimizers with `fused=True`.

## Why it helps
The plain update launches several small kernels for every parameter tensor.

## When it does not help
Optimizers with a `step` of their own, and steps in which the update is a small part. Not used for
SGD together with a GradScaler: torch leaves its momentum uninitialised when the first step
overflows.

## By hand
One argument of the optimizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "fused-optimizer"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ("foreach-optimizer",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
KINDS = ("SGD", "Adam", "AdamW", "Adagrad")
SCALED_SGD = "fused SGD with a GradScaler goes wrong when the first step overflows"


def refusal(record: Record) -> str | None:
    able = [one for one in record.optimizers if one.torchs_own and one.can_fuse]
    if not able:
        names = ", ".join(sorted({one.name for one in record.optimizers})) or "none was made"
        return f"no optimizer of torch's own that can be fused ({names})"
    if all(one.fused for one in able):
        return "the optimizer already is fused"
    if reading.script(record).get("scaler") and any(one.name == "SGD" for one in able):
        return SCALED_SGD
    return None


def promise(record: Record, verdict: Verdict) -> float:
    phase = record.phases["optimizer"].share or 0.0
    return 0.5 * phase


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return "optimizer = torch.optim.AdamW(..., fused=True)  # or whichever it is"


def install(training: Training, settings: dict[str, Any]) -> None:
    def change(kind: type, arguments: dict[str, Any]) -> None:
        if kind.__name__ not in KINDS:
            training.refused(NAME, f"{kind.__name__} cannot be fused")
        elif kind.__name__ == "SGD" and training.scales:
            training.refused(NAME, SCALED_SGD)
        elif not arguments.get("fused") and not arguments.get("differentiable"):
            arguments["fused"] = True
            arguments.pop("foreach", None)

    def keep_right() -> None:
        """A scaler that came after: it unscales and skips by itself, as for an unfused SGD."""
        for optimizer in training.optimizers:
            if isinstance(optimizer, training.torch.optim.SGD):
                optimizer._step_supports_amp_scaling = False

    training.change_optimizers(NAME, change)
    training.when_scaler_made(keep_right)
