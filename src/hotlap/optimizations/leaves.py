"""The leaves of a backward pass: the tensors whose gradients it adds to."""

from __future__ import annotations

from typing import Any

ENDS = "AccumulateGrad"


def reached(torch: Any, tensors: Any, inputs: Any = None) -> list[Any]:
    """What a backward pass from these tensors leads to, or those of it that are asked for.

    It takes a fraction of a microsecond for each node, and going back through one takes many.
    """
    if inputs is not None:
        return [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
    several = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    given = [one for one in several if isinstance(one, torch.Tensor)]
    found = [one for one in given if one.grad_fn is None and one.requires_grad]
    coming, seen = [one.grad_fn for one in given if one.grad_fn is not None], set()
    while coming:
        node = coming.pop()
        if node in seen:
            continue
        seen.add(node)
        following = node.next_functions
        if following:
            coming += [one for one, _ in following if one is not None]
        elif type(node).__name__ == ENDS:
            found.append(node.variable)
    return found


def held(optimizers: list[Any]) -> dict[int, Any]:
    """The parameters that optimizers train, by their ids."""
    return {
        id(parameter): parameter
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


def by_hand(torch: Any, leaves: list[Any], trained: dict[int, Any]) -> list[Any]:
    """Those whose gradients the script has asked for itself: no parameters, and not trained."""
    kind = torch.nn.Parameter
    return [one for one in leaves if not isinstance(one, kind) and id(one) not in trained]
