"""Images and convolution weights with their channels next to each other in memory.

## What it does
Converts the model to `torch.channels_last` at its first training forward, and the images that go
into it.

## Why it helps
Tensor cores and oneDNN compute convolutions in this layout; with it they need no conversions.

## When it does not help
Models without 2-d convolutions, and steps that are bound by launching kernels or by input. In
float32 it is sometimes slower. A script that calls `.view(n, -1)` on activations fails, one that
calls `.flatten(1)` does not. LBFGS would fail in the same way, and so would a script that calls
`.view` on weights or gradients: with them the model is left as it is, the latter where it can be
read in the script's own source. So it is where views of the weights are held when training starts,
such as a flat buffer or `.data`, or where processes share them (`share_memory`, Hogwild): they
would be parted. A library that calls `.view` on weights fails, and so does
`torch.nn.init.orthogonal_` on weights that already train. torch's pruning and
`torch.nn.utils.parameters_to_vector` work; with `recipe.apply` the latter has to be called by that
name, as one imported before is torch's own. After `vector_to_parameters` weights lie as torch makes
them. Images that come in inside of `torch.func`'s transforms stay as they are.

## By hand
Two lines: one for the model, one for each batch.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import flattening, functorch, layouts, reading
from hotlap.optimizations.holders import Holders

if TYPE_CHECKING:
    from hotlap.optimizations.training import Call, Training
    from hotlap.records import Record, Verdict

NAME = "channels-last"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {}
SHARED = "other processes share its weights, and a new layout would part them"
HELD = "the script holds weights by views of them, which a new layout would part from them"
LBFGS = "LBFGS needs gradients that lie in memory as torch makes them"


def refusal(record: Record) -> str | None:
    if any(one.name == "LBFGS" for one in record.optimizers):
        return LBFGS
    if reading.by_hand(record):
        return reading.BY_HAND
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
    torch = training.torch

    def wrap(module: Any, call: Call) -> Call:
        return call if _hindrance(training, module) else _converting(torch, call)

    _make_flattening_work(torch)
    training.when_training_starts(NAME, lambda module: apply(training, module))
    training.around_forward(NAME, wrap)


def apply(training: Training, module: Any) -> None:
    torch = training.torch
    hindrance = _hindrance(training, module)
    if hindrance is not None:
        training.refused(NAME, hindrance)
        return
    module.to(memory_format=torch.channels_last)
    for optimizer in training.optimizers:
        _follow(torch, module, optimizer)
    training.applied(NAME, type(module).__name__)


def _hindrance(training: Training, module: Any) -> str | None:
    nn, optim = training.torch.nn, training.torch.optim
    if not any(isinstance(part, (nn.Conv2d, nn.ConvTranspose2d)) for part in module.modules()):
        return f"{type(module).__name__} has no 2-d convolutions"
    if any(isinstance(one, optim.LBFGS) for one in training.optimizers):
        return LBFGS
    place = flattening.in_source()
    if place is not None:
        return flattening.WHY.format(place)
    if any(one.is_shared() for one in module.parameters() if not one.is_cuda):
        return SHARED
    return HELD if _is_held(training.torch, module) else None


def _is_held(torch: Any, module: Any) -> bool:
    """A flat buffer of all weights, or `.data` kept to clip them: they would be parted from it."""
    holders = Holders(torch)
    return any(
        holders.share_memory(one)
        for one in module.parameters()
        if one.dim() == 4 and not one.is_contiguous(memory_format=torch.channels_last)
    )


def _make_flattening_work(torch: Any) -> None:
    """What torch itself does with `view` on weights, and only reads there."""
    from torch.nn.utils import convert_parameters, prune

    def parameters_to_vector(parameters: Any) -> Any:
        return to_vector([one.contiguous() for one in parameters])

    to_vector = convert_parameters.parameters_to_vector
    changed = functools.wraps(to_vector)(parameters_to_vector)
    convert_parameters.parameters_to_vector = torch.nn.utils.parameters_to_vector = changed
    for kind in (prune.L1Unstructured, prune.RandomUnstructured):
        kind.compute_mask = _contiguously(kind.compute_mask)


def _contiguously(plain: Call) -> Call:
    @functools.wraps(plain)
    def compute_mask(this: Any, t: Any, default_mask: Any) -> Any:
        return plain(this, t.contiguous(), default_mask.contiguous())

    return compute_mask


def _follow(torch: Any, module: Any, optimizer: Any) -> None:
    """Momentum out of a checkpoint: fused updates go wrong where it is laid out differently."""
    for parameter in module.parameters():
        state = optimizer.state.get(parameter, {})
        for key, value in state.items():
            if isinstance(value, torch.Tensor) and value.shape == parameter.shape:
                state[key] = layouts.laid_out_like(parameter, value)


def _converting(torch: Any, call: Call) -> Call:
    layout, transforming = torch.channels_last, functorch.inside(torch)

    def converted(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dim() == 4:
            return value.contiguous(memory_format=layout)
        return value

    def converting(*args: Any, **kwargs: Any) -> Any:
        if transforming():
            return call(*args, **kwargs)
        named = {key: converted(value) for key, value in kwargs.items()}
        return call(*map(converted, args), **named)

    return converting
