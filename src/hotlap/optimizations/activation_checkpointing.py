"""Activations inside the model's repeated blocks are computed again instead of kept.

## What it does
Finds the blocks a model is made of (the outermost classes of it that occur more than once, as the
layers of a transformer or the units of a ResNet; where there are none, its `nn.Sequential`s) and
runs each under torch's non-reentrant checkpointing: only its input is kept, and the backward pass
runs it once more. `every = 2` leaves every second block as it is. In its second run a block is as
it was in the first: random numbers, autocast, buffers, attributes. So BatchNorm counts each batch
once, which plain checkpointing does not see to. That a second run gives the same is looked at in
the first steps and ever more rarely after that.

## Why it helps
Of most models the activations take the larger part of the memory. What is left of them is one
tensor for each block, and what one block needs at a time. A larger batch may fit then.

## When it does not help
It is never faster by itself: the forward passes of the blocks are computed twice. It is tried with
`--goal memory`, or where it is named. Models without blocks that repeat, and peaks that come from
weights and optimizers, have little to gain. Not together with `compile`, which decides by itself
what to keep.

A block that does something else when it runs again (it draws from numpy, or counts outside of
itself) is left as it is, and so is one with hooks, which would be called twice. All of a model is
left as it is where the script takes gradients of gradients, where a part is scripted by torch.jit,
where it is sharded over processes or copied to several devices by DataParallel, and from where the
script captures a CUDA graph of it. A block that writes into its own input or changes a large buffer
ends the trial with that reason. What a block prints or counts elsewhere it does twice.

## By hand
One line for each block, if it has no BatchNorm.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from hotlap import origins
from hotlap.data import nests
from hotlap.optimizations import double_backward, functorch, reading
from hotlap.optimizations.roots import Way
from hotlap.probes.modules import DOOR

if TYPE_CHECKING:
    from hotlap.optimizations.training import Call, Training
    from hotlap.records import Record, Verdict

NAME = "activation-checkpointing"
NUMERICS = "identical"
CONFLICTS: tuple[str, ...] = ("compile",)
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"every": int}
LEAST_SHARE = 0.05  # of the memory at the peak: less than this is not worth a second forward pass
REPEATED = 2
TOLERANCE = 0.01  # of the norm: kernels that add in another order each time
COARSE = 0.05  # in half precision
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
WRAPPERS = ("FullyShardedDataParallel", "FSDPModule")
NO_BLOCKS = "{} is not made of blocks that repeat"
HOOKED = "its blocks have hooks, which would be called twice"
SECOND = "the script takes gradients of gradients{}"
WRITES = "{} writes into its own input, which it would need for its second run"
CAPTURED = "the script captures a CUDA graph, in which random numbers cannot be drawn again"
OTHERWISE = "{} does something else when it runs again with the same input"


def refusal(record: Record) -> str | None:
    if reading.compiles(record):
        return "the script compiles its model, and the compiler decides what is kept"
    if reading.by_hand(record):
        return reading.BY_HAND
    layers = reading.layers(record)
    if layers and max(layers.values()) < REPEATED:
        return "the model has no blocks that repeat"
    kept, peak = record.memory.activations_bytes, record.memory.peak_bytes
    if kept is not None and peak and kept < LEAST_SHARE * peak:
        return f"activations are {100 * kept / peak:.1f} % of the memory at the peak"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    return 0.0  # for memory, never for speed


def candidates(record: Record) -> list[dict[str, Any]]:
    return [{"every": 1}, {"every": 2}]


def by_hand(settings: dict[str, Any]) -> str:
    every = settings.get("every", 1)
    which = "each block" if every == 1 else f"one of {every} blocks"
    return (
        "from torch.utils.checkpoint import checkpoint\n"
        f"x = checkpoint(block, x, use_reentrant=False)  # {which}; BatchNorm in it counts twice"
    )


def install(training: Training, settings: dict[str, Any]) -> None:
    every = int(settings.get("every", 1))
    done: weakref.WeakSet[Any] = (
        weakref.WeakSet()
    )  # a part of a model may be called by itself first
    training.when_training_starts(NAME, lambda module: apply(training, module, every, done))


def apply(training: Training, module: Any, every: int, done: weakref.WeakSet[Any]) -> None:
    hindrance = _hindrance(training.torch, module)
    if hindrance is not None:
        training.refused(NAME, hindrance)
        return
    found = blocks(training.torch, module)
    free = [one for one in found if not _hooked(one)]
    if not free:
        name = type(module).__name__
        training.refused(NAME, HOOKED if found else NO_BLOCKS.format(name))
        return
    chosen = [one for one in free[::every] if one not in done]
    for one in chosen:
        done.add(one)
        plain = one.__dict__.get(DOOR) or one._call_impl
        one.__dict__[DOOR] = Way(Checkpointed(training, one, plain), plain)
    kinds = Counter(type(one).__name__ for one in free[::every])
    training.applied(NAME, ", ".join(f"{number} {kind}" for kind, number in kinds.items()))


def blocks(torch: Any, root: Any) -> list[Any]:
    """The outermost modules of it whose class occurs more than once; each once, in their order."""
    nn = torch.nn
    layers = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    inner = {id(one): one for one in root.modules() if one is not root}.values()
    trained = [
        one for one in inner if next(one.parameters(), None) is not None and [*one.children()]
    ]

    def own(one: Any) -> bool:
        return isinstance(one, layers) or not origins.module(type(one)).startswith("torch.")

    for fits in (own, lambda one: type(one) is nn.Sequential and len(one) >= REPEATED):
        fitting = [one for one in trained if fits(one)]
        counts = Counter(map(type, fitting))
        repeated = {id(one) for one in fitting if counts[type(one)] >= REPEATED}
        found = list(_outermost(root, repeated, set()))
        if len(found) >= REPEATED:
            return found
    return []


def _outermost(root: Any, wanted: set[int], seen: set[int]) -> Iterator[Any]:
    for one in root.children():
        if id(one) in seen:
            continue
        seen.add(id(one))
        if id(one) in wanted:
            yield one
        else:
            yield from _outermost(one, wanted, seen)


def _hindrance(torch: Any, module: Any) -> str | None:
    name = type(module).__name__
    if isinstance(module, torch.nn.DataParallel) and len(module.device_ids) > 1:
        return "DataParallel on several devices calls copies of the blocks"
    parts = {kind.__name__ for part in module.modules() for kind in type(part).__mro__}
    if not parts.isdisjoint(WRAPPERS):
        return f"{name} is sharded over processes"
    if any(isinstance(one, torch.jit.ScriptModule) for one in module.modules()):
        return f"{name} is or holds a module that torch.jit scripted or traced"
    place = double_backward.in_source()
    return None if place is None else SECOND.format(f" ({place})")


def _hooked(block: Any) -> bool:
    return any(getattr(one, hooks, None) for one in block.modules() for hooks in HOOKS)


class Checkpointed:
    """The call of one block."""

    def __init__(self, training: Training, module: Any, plain: Call) -> None:
        from hotlap.models.proving import Turns, captured

        self._training, self._torch = training, training.torch
        self._module, self._plain = module, plain
        self._transforming = functorch.inside(training.torch)
        self._captured = captured
        self._turns = Turns()
        self._generators: list[Any] = []
        self._off = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch = self._torch
        if self._off or torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return self._plain(*args, **kwargs)
        given = list(nests.tensors(torch, (args, kwargs)))
        if not given or self._transforming() or torch.jit.is_tracing() or _hooked(self._module):
            return self._plain(*args, **kwargs)
        if any(map(self._captured, given)):
            return self._leave(CAPTURED, args, kwargs)
        return self._run(given, args, kwargs)

    def _leave(self, why: str, args: Any, kwargs: Any) -> Any:
        """From here on activations are kept: what it does now is what is learned from."""
        self._off = True
        self._training.ended(NAME, why)
        return self._plain(*args, **kwargs)

    def _run(self, given: list[Any], args: Any, kwargs: Any) -> Any:
        from torch.utils.checkpoint import checkpoint

        from hotlap.models.sources import own_generators

        looks = self._turns.next()
        if looks:
            self._generators = list(own_generators(self._module.modules()))
        again = _Again(self._torch, self._module, given, self._generators)
        with again.noted() as asked:
            made = checkpoint(
                functools.partial(self._plain, **kwargs),  # whose names may be checkpoint's own
                *args,
                use_reentrant=False,
                preserve_rng_state=False,  # all of it is noted here, not only torch's
                context_fn=again.contexts,
            )
        proven = not looks or not again.provable
        if not asked.drew_from_numpy and (proven or self._same(again, made, args, kwargs)):
            return made
        with again.as_it_was():
            return self._leave(OTHERWISE.format(type(self._module).__name__), args, kwargs)

    def _same(self, again: _Again, made: Any, args: Any, kwargs: Any) -> bool:
        torch = self._torch
        with torch.no_grad(), again.as_it_was():
            second = self._plain(*args, **kwargs)
        pairs = [
            (one.detach(), other)
            for one, other in zip(
                nests.tensors(torch, made), nests.tensors(torch, second), strict=False
            )
            if one.is_floating_point() or one.is_complex()
        ]
        if [one.shape for one, _ in pairs] != [other.shape for _, other in pairs]:
            return False
        from hotlap.models.proving import difference

        if not pairs:
            return True
        off = torch.stack([difference(other, one).to(pairs[0][0].device) for one, other in pairs])
        half = any(one.dtype in (torch.bfloat16, torch.float16) for one, _ in pairs)
        allowed = COARSE if half or again.autocast else TOLERANCE
        return not bool((off > allowed).any())


class _Asked:
    drew_from_numpy = False


class _Again:
    """One forward pass of a block, and what its second run needs to be the same."""

    def __init__(self, torch: Any, module: Any, given: list[Any], generators: list[Any]) -> None:
        from hotlap.models import proving, repeating

        self._repeating = repeating
        self._name = type(module).__name__
        self._given = [(one, one._version) for one in given if not one.is_inference()]
        self.provable = proving.provable(given[0])
        with torch.no_grad():
            self._conditions = repeating.Conditions(module, NAME, given[0], lend=True)
        self._randomness = repeating.Randomness(given[0].device, generators)

    @property
    def autocast(self) -> bool:
        return self._conditions.autocast

    @contextmanager
    def noted(self) -> Iterator[_Asked]:
        """Around the first run."""
        asked = _Asked()
        before = self._repeating.of_numpy()
        yield asked
        asked.drew_from_numpy = before != self._repeating.of_numpy()
        if self._written():
            raise RuntimeError(WRITES.format(self._name))
        self._conditions.close(self._randomness)

    def contexts(self) -> tuple[Any, Any]:
        """For torch: around the first run, and around each further one."""
        return nullcontext(), _Second(self)

    def check(self) -> None:
        if self._written():
            raise RuntimeError(
                f"an input of {self._name} was modified by an inplace operation between the "
                "forward and the backward pass, which needs it as it was"
            )

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        with self._conditions.again(), self._conditions.computing():
            yield

    def _written(self) -> bool:
        return any(one._version != version for one, version in self._given)


class _Second:
    """Entered once for each backward pass through the block."""

    def __init__(self, again: _Again) -> None:
        self._again = again
        self._inside: list[Any] = []

    def __enter__(self) -> None:
        self._again.check()
        context = self._again.as_it_was()
        context.__enter__()
        self._inside.append(context)

    def __exit__(self, *raised: Any) -> Any:
        return self._inside.pop().__exit__(*raised)
