"""Whose gradients a walk back through reversible blocks gives, and whose it would lose."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


def refuse_others(module: nn.Module, part: torch.Tensor, known: list[torch.Tensor]) -> None:
    """A tensor of neither the half nor the module would get no gradient, and nobody would know."""
    own = {id(one) for one in known}
    ends = {one.grad_fn for one in known if one.grad_fn is not None}
    seen, todo = set(), [part.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen or node in ends:
            continue
        seen.add(node)
        leaf = node.variable if type(node).__name__ == "AccumulateGrad" else None
        if leaf is not None and id(leaf) not in own:
            raise RuntimeError(
                f"{type(module).__name__} uses a tensor of shape {tuple(leaf.shape)} that needs a "
                "gradient and is neither its input nor a parameter of its own; in a "
                "ReversibleSequential it would get none"
            )
        todo.extend(next_node for next_node, _ in node.next_functions)


class Gradients:
    """Sums by parameter: one that is used in several blocks gets all of them."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = parameters
        self._places = {id(one): at for at, one in enumerate(parameters)}
        self._sums: list[torch.Tensor | None] = [None] * len(parameters)

    def of(self, module: nn.Module) -> list[torch.Tensor]:
        return [one for one in module.parameters() if id(one) in self._places]

    def add(self, parameters: list[torch.Tensor], found: Sequence[torch.Tensor | None]) -> None:
        for parameter, gradient in zip(parameters, found, strict=True):
            if gradient is None:
                continue
            place = self._places[id(parameter)]
            known = self._sums[place]
            self._sums[place] = gradient if known is None else known + gradient

    def found(self) -> list[torch.Tensor | None]:
        return self._sums
