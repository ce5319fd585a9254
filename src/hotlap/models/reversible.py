"""Blocks whose input can be computed from their output, so that no activations are kept.

    x1, x2 = halves of the input       y1 = x1 + F(x2)       y2 = x2 + G(y1)

`ReversibleSequential` keeps the output of its last block and nothing else. Its backward pass walks
back through the blocks: running F and G once more gives the block's input and, in the same go, what
their gradients need. That is four units of work where keeping activations takes three.

F and G are any modules that keep the shape of their half. What they did in the forward pass they do
again: dropout draws the same numbers (torch's, Python's and those of generators that a module holds
or its code reaches), autocast, training or evaluation, parameters, small buffers and attributes are
as they were, and statistics such as BatchNorm's do not count the batch twice. What could not be
done again is refused: modules that write into their input or draw from numpy's global random
numbers, large buffers and tensors that change in the forward pass, parameters that change before
the backward pass, tensors from elsewhere that need a gradient, losses of tensors that F or G keep,
and gradients of gradients. Whatever else makes a second run another one is found by running F and G
twice in some forward passes, the first among them.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from hotlap.models.gradients import Gradients, refuse_others
from hotlap.models.hooking import Written
from hotlap.models.proving import HALF_PRECISION, Proof, Turns, captured, provable
from hotlap.models.repeating import (
    Conditions,
    Randomness,
    nothing_from_numpy,
    without_cached_casts,
    without_cached_parametrizations,
    without_hooks,
)
from hotlap.models.sources import own_generators

HALVES = 2
CHANNELS = 1
INPUT = 3  # among what _Walk is given
KEEPING = (
    "a ReversibleSequential; put its blocks into an nn.Sequential, which keeps their activations"
)
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class ReversibleBlock(nn.Module):  # type: ignore[misc]
    """One block. Called by itself it keeps its activations, like any module."""

    def __init__(self, f: nn.Module, g: nn.Module) -> None:
        super().__init__()
        for name, module in (("f", f), ("g", g)):
            if not isinstance(module, nn.Module):
                raise TypeError(f"{name} is a {type(module).__name__}; it must be an nn.Module")
        self.f = f
        self.g = g

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = halves(stream(x))
        first = first + fitting(branch(self.f, second, "F"), first, "F")
        second = second + fitting(branch(self.g, first, "G"), second, "G")
        return torch.cat((first, second), CHANNELS)

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        """The input that gave this output; without gradients, in the mode the modules are in."""
        with torch.no_grad():
            first, second = halves(y)
            first = first.clone()  # what G writes into it is refused; the caller's is not touched
            second = second - fitting(branch(self.g, first, "G"), second, "G")
            first = first - fitting(branch(self.f, second, "F"), first, "F")
            return torch.cat((first, second), CHANNELS)


class ReversibleSequential(nn.Sequential):  # type: ignore[misc]
    """Blocks one after another; inside, no activations are kept for the backward pass."""

    def __init__(self, *blocks: ReversibleBlock | OrderedDict[str, ReversibleBlock]) -> None:
        super().__init__(*blocks)
        self._turns = Turns()  # from the start: a branch that holds this is put back
        self._check()

    def __add__(self, other: Iterable[Any]) -> ReversibleSequential:
        return ReversibleSequential(*self, *other)

    def __mul__(self, times: int) -> ReversibleSequential:
        return ReversibleSequential(*(list(self) * times))

    def __rmul__(self, times: int) -> ReversibleSequential:
        return self * times

    # The blocks may be compiled; walking back through them is not.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._check()
        halves(x)  # what cannot be split says so here
        if not len(self):
            return x
        x = stream(x)
        parameters = [one for one in self.parameters() if one.requires_grad]
        if not torch.is_grad_enabled() or _is_recorded():
            return _run(list(self), x)
        if getattr(self, "_is_replica", False):
            raise RuntimeError(
                "nn.DataParallel's copies of a ReversibleSequential have no parameters that could "
                "get gradients; use DistributedDataParallel"
            )
        if not (parameters or x.requires_grad):
            return _untrained(_run(list(self), x))
        if any(map(nn.parameter.is_lazy, parameters)):
            raise RuntimeError(
                "a lazy module in here does not know its shape yet; run this once under "
                "torch.no_grad() before it is trained"
            )
        if not (x.is_floating_point() or x.is_complex()):
            raise TypeError(
                f"an input of {x.dtype} cannot be computed from the output; turn it into numbers "
                "with a fraction before the blocks"
            )
        if torch._C._are_functorch_transforms_active():
            raise RuntimeError(f"torch.func's transforms cannot go through {KEEPING}")
        if captured(x):
            raise RuntimeError(f"a CUDA graph cannot be captured of the training of {KEEPING}")
        proof = Proof() if self._turns.next() and provable(x) else None
        y: torch.Tensor = _Walk.apply(list(self), proof, x.narrow(0, 0, 0).sum(), x, *parameters)
        return y

    def _check(self) -> None:
        for name, block in self.named_children():
            if not isinstance(block, ReversibleBlock):
                raise TypeError(f"{type(block).__name__} is no ReversibleBlock")
            if type(block).forward is not ReversibleBlock.forward:
                raise TypeError(
                    f"{type(block).__name__} has a forward of its own, which would not be called: "
                    "only F and G are; put it into them"
                )
            if any(getattr(block, kind, None) for kind in HOOKS):
                warnings.warn(
                    f"hooks of block {name} are not called in a ReversibleSequential; put them on "
                    "its f or g",
                    stacklevel=3,
                )


class _Walk(torch.autograd.Function):  # type: ignore[misc]
    """Parameters are arguments: so they get their gradients as those of any operation do."""

    @staticmethod
    def forward(
        ctx: Any,
        blocks: list[ReversibleBlock],
        proof: Proof | None,
        anchor: torch.Tensor,
        x: torch.Tensor,
        *parameters: torch.Tensor,
    ) -> torch.Tensor:
        ctx.blocks = blocks
        ctx.anchor = anchor  # leads to the input without keeping it
        ctx.parameters = parameters
        ctx.asked = _asked(blocks, ctx.needs_input_grad[INPUT])
        y, ctx.conditions = _run_once(blocks, x, proof)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        with torch.no_grad():
            found = _walk_back(ctx, gradient)
        if torch.is_grad_enabled():  # create_graph=True
            found = _Once.given(found, [ctx.anchor, *ctx.parameters])
        return (None, None, None, *found)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(f"gradients in forward mode cannot go through {KEEPING}")


class _Once(torch.autograd.Function):  # type: ignore[misc]
    """Stands behind gradients that cannot be differentiated again, for whoever tries to.

    It hangs on what they are gradients of: torch asks nobody who does not lead there.
    """

    @staticmethod
    def forward(ctx: Any, sources: int, *tensors: torch.Tensor) -> Any:
        return tensors[sources:]

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(f"gradients of gradients cannot go through {KEEPING}")

    @classmethod
    def given(
        cls, gradients: list[torch.Tensor | None], sources: list[torch.Tensor]
    ) -> list[torch.Tensor | None]:
        there = [one for one in gradients if one is not None]
        if not there:
            return gradients
        marked = iter(cls.apply(len(sources), *sources, *there))
        return [None if one is None else next(marked) for one in gradients]


def _walk_back(ctx: Any, gradient: torch.Tensor) -> list[torch.Tensor | None]:
    """The gradients of the input and of the parameters."""
    (y,) = ctx.saved_tensors
    gradients = Gradients(ctx.parameters)
    first, second = halves(y)
    of_first, of_second = halves(gradient)
    wanted = ctx.needs_input_grad[INPUT]
    steps = list(zip(ctx.blocks, ctx.conditions, ctx.asked, strict=True))
    for block, (of_f, of_g), (at_f, at_g) in reversed(steps):
        second, more = _back(block.g, first, second, of_second, of_g, gradients, asked=at_g)
        of_first = of_first + more if at_g else of_first
        first, more = _back(block.f, second, first, of_first, of_f, gradients, asked=at_f)
        of_second = of_second + more if at_f else of_second
    whole = torch.cat((of_first, of_second), CHANNELS) if wanted else None
    return [whole, *gradients.found()]


def _asked(blocks: Sequence[ReversibleBlock], wanted: bool) -> list[tuple[bool, bool]]:
    """Whether anything before F, and before G, of each block asks for a gradient."""
    asked = []
    for block in blocks:
        before_f = wanted
        wanted = wanted or _trains(block.f)
        asked.append((before_f, wanted))
        wanted = wanted or _trains(block.g)
    return asked


def _trains(module: nn.Module) -> bool:
    return any(one.requires_grad for one in module.parameters())


def _is_recorded() -> bool:
    """By torch.jit.trace or torch.export: both would record the walk as one without gradients."""
    return bool(torch.jit.is_tracing() or torch.compiler.is_compiling())


def _run(blocks: Sequence[ReversibleBlock], x: torch.Tensor) -> torch.Tensor:
    """The forward pass where nothing is repeated."""
    first, second = _own_halves(x)
    for block in blocks:
        first = first + fitting(branch(block.f, second, "F"), first, "F")
        second = second + fitting(branch(block.g, first, "G"), second, "G")
    return torch.cat((first, second), CHANNELS)


def _untrained(y: torch.Tensor) -> torch.Tensor:
    """Of blocks that are frozen, with an input that needs no gradient."""
    if y.requires_grad:
        raise RuntimeError(
            "F or G use a tensor that needs a gradient and is neither their input nor a parameter "
            "of their own; in a ReversibleSequential it would get none"
        )
    return y


def _run_once(
    blocks: Sequence[ReversibleBlock], x: torch.Tensor, proof: Proof | None
) -> tuple[torch.Tensor, list[tuple[Conditions, Conditions]]]:
    """The forward pass, keeping nothing but the conditions it ran under."""
    kept = []
    with (
        torch.no_grad(),
        nothing_from_numpy(),
        without_cached_casts(),
        without_cached_parametrizations(),
    ):
        first, second = _own_halves(x)
        modules = (one for block in blocks for one in block.modules())
        randomness = Randomness(x.device, own_generators(modules))
        for block in blocks:
            part, of_f = _once(block.f, second, "F", randomness, proof)
            first = first + part
            part, of_g = _once(block.g, first, "G", randomness, proof)
            second = second + part
            kept.append((of_f, of_g))
        y = torch.cat((first, second), CHANNELS)
    if proof is not None:
        proof.check()
    return y, kept


def _own_halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What F writes into its input is refused; the caller's is not touched by then."""
    first, second = halves(x)
    return first, second.clone()


def _once(
    module: nn.Module,
    given: torch.Tensor,
    name: str,
    randomness: Randomness,
    proof: Proof | None,
) -> tuple[torch.Tensor, Conditions]:
    """Runs the module and notes what it needs to run again."""
    conditions = Conditions(module, name, given)
    part = fitting(branch(module, given, name), given, name)
    conditions.close(randomness)
    if proof is not None:
        proof.run(module, given, part, conditions)
    return part, conditions


def branch(module: nn.Module, given: torch.Tensor, name: str) -> torch.Tensor:
    """What the module makes of a half; that half is needed again, so it may not be written to."""
    if torch.compiler.is_compiling() or given.is_inference():  # no version to look at
        made: torch.Tensor = module(given.clone())
        return made
    version = given._version
    made = module(given)
    if given._version != version:
        raise RuntimeError(
            f"{name} ({type(module).__name__}) writes into its input, which is needed again; make "
            "its first operation one that does not (ReLU(inplace=False))"
        )
    return made


def _back(
    module: nn.Module,
    given: torch.Tensor,
    result: torch.Tensor,
    gradient: torch.Tensor,
    conditions: Conditions,
    gradients: Gradients,
    *,
    asked: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the half was before the module's part was added, and the gradient of what it was given.

    result = before + module(given)
    """
    with conditions.again():
        with torch.enable_grad(), conditions.computing():
            source = _as_given(given, conditions).requires_grad_(asked)
            part = module(source.view_as(source))  # no leaf: torch's counter of FLOPs takes none
        wanted = gradients.of(module)
        before = result - part.detach()
        if not part.requires_grad:  # it depends on nothing that is trained
            return before, torch.zeros_like(source)
        sources = [source, *wanted] if asked else wanted
        refuse_others(module, part, sources)
        written = Written(module)
        with without_hooks(wanted):
            found = torch.autograd.grad(part, sources, gradient.to(part.dtype), allow_unused=True)
        written.look()
    written.keep()
    gradients.add(wanted, found[len(sources) - len(wanted) :])
    more = found[0] if asked and found[0] is not None else torch.zeros_like(source)
    return before, more


def _as_given(given: torch.Tensor, conditions: Conditions) -> torch.Tensor:
    """The half in the layout it had: what is drawn for it (dropout) is drawn in memory's order."""
    source = given.detach().to(conditions.dtype)
    if source.stride() == conditions.strides:
        return source
    laid_out = torch.empty_strided(
        source.shape, conditions.strides, dtype=source.dtype, device=source.device
    )
    return laid_out.copy_(source)


def stream(x: torch.Tensor) -> torch.Tensor:
    """Under autocast F and G compute in the lower precision; the sums of many blocks do not."""
    if x.is_meta or not torch.is_autocast_enabled(x.device.type):
        return x
    return x.float() if x.dtype in HALF_PRECISION else x


def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() <= CHANNELS or x.shape[CHANNELS] % HALVES:
        raise ValueError(
            f"an input of shape {tuple(x.shape)} has no two halves along its channels (dimension "
            f"{CHANNELS}); their number must be even"
        )
    first, second = x.chunk(HALVES, CHANNELS)
    return first, second


def fitting(part: torch.Tensor, half: torch.Tensor, name: str) -> torch.Tensor:
    if not isinstance(part, torch.Tensor):
        raise TypeError(f"{name} made a {type(part).__name__} of its half; it must make a tensor")
    if part.shape != half.shape:
        raise ValueError(
            f"{name} made {tuple(part.shape)} of a half of shape {tuple(half.shape)}; it must keep "
            "the shape"
        )
    return part
