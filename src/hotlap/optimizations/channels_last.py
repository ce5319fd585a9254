"""Images and convolution weights with their channels next to each other in memory.

## What it does
Converts the model to `torch.channels_last` at its first training forward, and the images that go
into it.

## Why it helps
Tensor cores and oneDNN compute convolutions in this layout; with it they need no conversions.

## When it does not help
Models without 2-d convolutions, and steps that are bound by launching kernels or by input. In
float32 it is sometimes slower.

## By hand
Two lines: one for the model, one for each batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Call, Training
    from hotlap.records import Record, Verdict

NAME = "channels-last"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}


def refusal(record: Record) -> str | None:
    if not any(name in ("Conv2d", "ConvTranspose2d") for name in reading.layers(record)):
        return "the model has no 2-d convolutions"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.2 * reading.share(verdict, "compute")


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{}]


def by_hand(settings: dict[str, Any]) -> str:
    return (
        "model = model.to(memory_format=torch.channels_last)\n"
        "images = images.to(memory_format=torch.channels_last)  # each batch"
    )


def install(training: Training, settings: dict[str, Any]) -> None:
    training.when_training_starts(NAME, lambda module: apply(training, module))
    training.around_forward(NAME, lambda module, call: _converting(training.torch, call))


def apply(training: Training, module: Any) -> None:
    torch = training.torch
    if not any(isinstance(part, torch.nn.modules.conv._ConvNd) for part in module.modules()):
        training.refused(NAME, f"{type(module).__name__} has no convolutions")
        return
    module.to(memory_format=torch.channels_last)
    training.applied(NAME, type(module).__name__)


def _converting(torch: Any, call: Call) -> Call:
    layout = torch.channels_last

    def converting(*args: Any, **kwargs: Any) -> Any:
        args = tuple(
            value.contiguous(memory_format=layout)
            if isinstance(value, torch.Tensor) and value.dim() == 4
            else value
            for value in args
        )
        return call(*args, **kwargs)

    return converting
