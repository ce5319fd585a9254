"""Blocks whose input can be computed from their output, so that no activations are kept.

    x1, x2 = halves of the input       y1 = x1 + F(x2)       y2 = x2 + G(y1)

`ReversibleSequential` keeps the output of its last block and nothing else. Its backward pass walks
back through the blocks: running F and G once more gives the block's input and, in the same go, what
their gradients need. That is four units of work where keeping activations takes three.

F and G are any modules that keep the shape of their half. What they did in the forward pass they do
again: dropout draws the same numbers, autocast is as it was, and BatchNorm does not count the batch
twice. What could not be done again is refused: modules that write into their input, and buffers
other than BatchNorm's that change in the forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from hotlap.models.repeating import Conditions, unchanged

HALVES = 2
CHANNELS = 1


class ReversibleBlock(nn.Module):  # type: ignore[misc]
    """One block. Called by itself it keeps its activations, like any module."""

    def __init__(self, f: nn.Module, g: nn.Module) -> None:
        super().__init__()
        self.f = f
        self.g = g

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = halves(x)
        first = first + fitting(self.f(second), first, "F")
        second = second + fitting(self.g(first), second, "G")
        return torch.cat((first, second), CHANNELS)

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        """The input that gave this output; without gradients, in the mode the modules are in."""
        with torch.no_grad():
            first, second = halves(y)
            second = second - self.g(first)
            first = first - self.f(second)
            return torch.cat((first, second), CHANNELS)


class ReversibleSequential(nn.Sequential):  # type: ignore[misc]
    """Blocks one after another; inside, no activations are kept for the backward pass."""

    def __init__(self, *blocks: ReversibleBlock) -> None:
        for block in blocks:
            if not isinstance(block, ReversibleBlock):
                raise TypeError(f"{type(block).__name__} is no ReversibleBlock")
        super().__init__(*blocks)

    # The blocks may be compiled; walking back through them is not.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        halves(x)  # what cannot be split says so here
        if not len(self):
            return x
        if torch.is_autocast_enabled(x.device.type) and x.dtype in (torch.bfloat16, torch.float16):
            x = x.float()  # the sums of many blocks; F and G compute in the lower precision
        parameters = [one for one in self.parameters() if one.requires_grad]
        if not torch.is_grad_enabled() or not (parameters or x.requires_grad):
            return _run(list(self), x, None)
        y: torch.Tensor = _Walk.apply(list(self), x, *parameters)
        return y


class _Walk(torch.autograd.Function):  # type: ignore[misc]
    """Parameters are arguments: so they get their gradients as those of any operation do."""

    @staticmethod
    def forward(
        ctx: Any, blocks: list[ReversibleBlock], x: torch.Tensor, *parameters: torch.Tensor
    ) -> torch.Tensor:
        ctx.blocks = blocks
        ctx.conditions = []
        ctx.parameters = parameters
        y = _run(blocks, x, ctx.conditions)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        (y,) = ctx.saved_tensors
        gradients = _Gradients(ctx.parameters)
        first, second = halves(y)
        of_first, of_second = halves(gradient)
        steps = list(zip(ctx.blocks, ctx.conditions, strict=True))
        for block, (of_f, of_g) in reversed(steps):
            second, more = _back(block.g, first, second, of_second, of_g, gradients)
            of_first = of_first + more
            first, more = _back(block.f, second, first, of_first, of_f, gradients)
            of_second = of_second + more
        whole = torch.cat((of_first, of_second), CHANNELS) if ctx.needs_input_grad[1] else None
        return (None, whole, *gradients.found())


def _run(
    blocks: Sequence[ReversibleBlock],
    x: torch.Tensor,
    kept: list[tuple[Conditions, Conditions]] | None,
) -> torch.Tensor:
    """The forward pass, keeping nothing but the conditions it ran under."""
    with torch.no_grad():
        first, second = halves(x)
        for block in blocks:
            with _once(block.f, second, "F") as of_f:
                first = first + fitting(block.f(second), first, "F")
            with _once(block.g, first, "G") as of_g:
                second = second + fitting(block.g(first), second, "G")
            if kept is not None:
                kept.append((of_f, of_g))
        return torch.cat((first, second), CHANNELS)


@contextmanager
def _once(module: nn.Module, given: torch.Tensor, name: str) -> Iterator[Conditions]:
    """Notes what the module needs to run again, and refuses what could not be repeated."""
    version = given._version
    with unchanged(module, name):
        conditions = Conditions(given.device)
        yield conditions
        conditions.close()
    if given._version != version:
        raise RuntimeError(
            f"{name} ({type(module).__name__}) writes into its input, which is needed again; make "
            "its first operation one that does not (ReLU(inplace=False))"
        )


def _back(
    module: nn.Module,
    given: torch.Tensor,
    result: torch.Tensor,
    gradient: torch.Tensor,
    conditions: Conditions,
    gradients: _Gradients,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the half was before the module's part was added, and the gradient of what it was given.

    result = before + module(given)
    """
    with torch.enable_grad(), conditions.again(), _statistics_stay(module):
        source = given.detach().requires_grad_()
        part = module(source)
    before = result - part.detach()
    if not part.requires_grad:  # it depends on nothing that is trained
        return before, torch.zeros_like(source)
    wanted = gradients.of(module)
    found = torch.autograd.grad(part, [source, *wanted], gradient.to(part.dtype), allow_unused=True)
    gradients.add(wanted, found[1:])
    more = found[0] if found[0] is not None else torch.zeros_like(source)
    return before, more


class _Gradients:
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


@contextmanager
def _statistics_stay(module: nn.Module) -> Iterator[None]:
    """BatchNorm has counted this batch: it normalises as before and does not count it again."""
    with ExitStack() as stack:
        for one in module.modules():
            if isinstance(one, _BatchNorm) and one.training and one.track_running_stats:
                one.track_running_stats = False
                stack.callback(setattr, one, "track_running_stats", True)
        yield


def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() <= CHANNELS or x.shape[CHANNELS] % HALVES:
        raise ValueError(
            f"an input of shape {tuple(x.shape)} has no two halves along its channels (dimension "
            f"{CHANNELS}); their number must be even"
        )
    first, second = x.chunk(HALVES, CHANNELS)
    return first, second


def fitting(part: torch.Tensor, half: torch.Tensor, name: str) -> torch.Tensor:
    if part.shape != half.shape:
        raise ValueError(
            f"{name} made {tuple(part.shape)} of a half of shape {tuple(half.shape)}; it must keep "
            "the shape"
        )
    return part
