"""The networks whose memory is looked at, and the ways in which they can be trained."""

from __future__ import annotations

from typing import Any

WIDTHS = (32, 32, 64, 112)
KEPT, CHECKPOINTED, REVERSIBLE = "keeping all", "checkpointed", "reversible"
WAYS = (REVERSIBLE, CHECKPOINTED, KEPT)  # the last is timed beside the others, too


def build(kind: str, size: int, way: str) -> Any:
    from hotlap.models.resnet import ResNet
    from hotlap.models.revnet import RevNet

    if kind == "resnet":
        return ResNet(size, widths=WIDTHS)
    model = RevNet(units=size, reversible=way == REVERSIBLE)
    return checkpointed(model) if way == CHECKPOINTED else model


def checkpointed(model: Any) -> Any:
    """The same network; each unit keeps its input alone and runs again in the backward pass."""
    from functools import partial

    from torch.utils.checkpoint import checkpoint

    from hotlap.models.reversible import ReversibleBlock
    from hotlap.models.revnet import Change

    found = [one for one in model.modules() if isinstance(one, (ReversibleBlock, Change))]
    module: Any
    for module in found:
        module.forward = partial(checkpoint, module.forward, use_reentrant=False)
    return model
