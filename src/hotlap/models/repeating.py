"""Running a module a second time as it ran the first time."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parametrize

from hotlap import origins
from hotlap.generators import Generator, same
from hotlap.models.attributes import SMALL, Attributes, version
from hotlap.models.beside import Place, computed
from hotlap.models.sources import is_torchs


def generators(device: torch.device) -> list[Generator]:
    found = [
        Generator(torch.get_rng_state, torch.set_rng_state),
        Generator(random.getstate, random.setstate),
    ]
    if device.type == "cuda":
        found.append(
            Generator(
                lambda: torch.cuda.get_rng_state(device),
                lambda state: torch.cuda.set_rng_state(state, device),
            )
        )
    return found


class Randomness:
    """What is drawn from one place of a forward pass to the next."""

    def __init__(self, device: torch.device, own: Iterable[Generator] = ()) -> None:
        """`own` are those that modules hold, see `own_generators`: looking for them takes long."""
        self._generators = [*generators(device), *own]
        self._states = [one.state() for one in self._generators]

    def drawn(self) -> list[tuple[Generator, Any]]:
        """Where something was drawn since the last time: the state before it."""
        before, self._states = self._states, [one.state() for one in self._generators]
        moved = zip(self._generators, before, self._states, strict=True)
        return [(one, state) for one, state, now in moved if not same(state, now)]


@contextmanager
def nothing_from_numpy() -> Iterator[None]:
    """Refuses what draws from numpy's global generator, whose state takes long to read."""
    before = of_numpy()
    yield
    if before != of_numpy():
        raise RuntimeError(
            "F or G draw from numpy's global random numbers, which cannot be drawn again in the "
            "backward pass; draw from torch's or Python's"
        )


def of_numpy() -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    _, words, *rest = numpy.random.get_state()
    return words.tobytes(), *rest


class Held(NamedTuple):
    """A parameter or a buffer that a module holds, as it was in the forward pass."""

    place: dict[str, Any]
    name: str
    tensor: torch.Tensor
    version: int
    wanted: bool  # whether it needed a gradient
    kind: str
    copied: torch.Tensor | None  # what it was: of buffers that are small enough

    @property
    def written_to(self) -> bool:
        return version(self.tensor) != self.version

    @property
    def replaced(self) -> bool:
        return self.place.get(self.name) is not self.tensor


class Conditions:
    """All that a module's forward pass depends on besides its input."""

    def __init__(
        self, module: nn.Module, name: str, given: torch.Tensor, *, lend: bool = False
    ) -> None:
        """With `lend`, BatchNorm gets copies of its statistics instead of being told not to count:
        then it keeps the same tensors for its backward pass."""
        self._module = module
        self.name = f"{name} ({type(module).__name__})"
        modules = list(module.modules())
        self._refuse_scripts(modules)
        self.dtype = given.dtype
        self.strides = given.stride()
        kinds = sorted({"cpu", given.device.type} & {"cpu", "cuda"})
        self._autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in kinds
        ]
        self._cached = torch.is_autocast_cache_enabled()
        self._modes = [(one, one.training) for one in modules]
        self._read = lend or _may_be_read(modules)
        self._held = list(_held(modules, self._read))
        self._attributes = Attributes(modules)
        self._lent: dict[int, torch.Tensor] = {}  # copies of buffers, while it runs again
        self._random: list[tuple[Generator, Any]] = []

    def _refuse_scripts(self, modules: list[nn.Module]) -> None:
        if any(isinstance(one, torch.jit.ScriptModule) for one in modules):
            raise TypeError(
                f"{self.name} is or holds a module that torch.jit scripted or traced, which cannot "
                "be made what it was before it runs again; use the module that it was made from"
            )

    def close(self, randomness: Randomness) -> None:
        """After the forward pass: refuses what would start from something else a second time."""
        changed = [
            f"{held.kind} {held.name}"
            for held in self._held
            if held.copied is None and (held.written_to or held.replaced)
        ]
        for what in (*changed, *(f"tensor {name}" for name in self._attributes.lost())):
            raise RuntimeError(
                f"{self.name} changes its {what} in the forward pass, which runs a second time; "
                "keep such modules outside reversible blocks"
            )
        self._random = randomness.drawn()

    @property
    def autocast(self) -> bool:
        return any(enabled for _, enabled, _ in self._autocast)

    def computed(self) -> list[tuple[Place, str]]:
        """Where a run with gradients has left tensors that need one."""
        return computed(self._module, self._attributes.known() | {*map(id, self._lent.values())})

    @contextmanager
    def again(self) -> Iterator[None]:
        """The module is as it was; what it changes meanwhile is not kept."""
        with ExitStack() as stack:
            for name in self._attributes.lost():
                raise self._written_over(f"tensor {name}")
            self._attributes.put_back(stack)
            self._lent = {}  # a buffer that two modules share stays one
            stack.callback(self._lent.clear)
            for held in self._held:
                self._put_back(held, stack)
            for one, training in self._modes:  # BatchNorm has counted this batch
                if training and not self._read and _counts(one) and one.track_running_stats:
                    stack.callback(setattr, one, "track_running_stats", True)
                    one.track_running_stats = False
            yield

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Random numbers come as they came, in the precision of the forward pass."""
        with ExitStack() as stack:
            for generator, state in self._random:
                stack.callback(generator.set, generator.state())
                generator.set(state)
            for kind, enabled, dtype in self._autocast:
                stack.enter_context(
                    torch.autocast(kind, dtype, enabled=enabled, cache_enabled=self._cached)
                )
            stack.enter_context(without_cached_parametrizations())
            yield

    def _put_back(self, held: Held, stack: ExitStack) -> None:
        """What functional_call lends a module is gone by now; what was written over is lost."""
        tensor = held.tensor
        if held.copied is not None:
            tensor = self._lent.setdefault(id(held.tensor), held.copied.clone())
        elif held.written_to:
            raise self._written_over(f"{held.kind} {held.name}")
        if held.place.get(held.name) is not tensor:
            stack.callback(held.place.__setitem__, held.name, held.place.get(held.name))
            held.place[held.name] = tensor
        if tensor.requires_grad is not held.wanted:  # frozen or thawed since
            stack.callback(tensor.requires_grad_, tensor.requires_grad)
            tensor.requires_grad_(held.wanted)

    def _written_over(self, what: str) -> RuntimeError:
        return RuntimeError(
            f"the {what} of {self.name} was modified by an inplace operation between the forward "
            "and the backward pass, which needs it as it was"
        )


def _counts(module: nn.Module) -> bool:
    """A BatchNorm whose forward pass is torch's own: it can be told not to count."""
    return isinstance(module, _BatchNorm) and is_torchs(type(module).forward)


def _may_be_read(modules: list[nn.Module]) -> bool:
    """Whether code that is not torch's runs in here: it may use the statistics of a BatchNorm."""
    return any(
        not (is_torchs(type(one)) or origins.module(type(one)).startswith("torch._dynamo."))
        or one._forward_hooks
        or one._forward_pre_hooks
        or "forward" in vars(one)
        for one in modules
    )


def _held(modules: list[nn.Module], read: bool) -> Iterator[Held]:
    """Without the statistics of a training BatchNorm that nobody reads: it only writes them."""
    for one in modules:
        counts = _counts(one)
        alone = counts and not read
        buffers = {} if alone and one.training else one._buffers
        for kind, place in (("parameter", one._parameters), ("buffer", buffers)):
            for name, tensor in place.items():
                if tensor is not None:
                    small = counts or tensor.numel() <= SMALL
                    may_change = kind == "buffer" and not alone and small
                    copied = tensor.clone() if may_change else None  # under no_grad
                    wanted = tensor.requires_grad
                    yield Held(place, name, tensor, version(tensor), wanted, kind, copied)


@contextmanager
def without_cached_parametrizations() -> Iterator[None]:
    """A weight that was cached in the pass without gradients would have none in the other."""
    kept = getattr(parametrize, "_cache_enabled", 0)
    if not kept:
        yield
        return
    parametrize._cache_enabled = 0
    try:
        yield
    finally:
        parametrize._cache_enabled = kept


@contextmanager
def without_cached_casts() -> Iterator[None]:
    """Before 2.10, torch's autocast used a weight it had cast without gradients with them, too."""
    kept = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(kept)


@contextmanager
def without_hooks(parameters: list[torch.Tensor]) -> Iterator[None]:
    """Hooks on parameters run once, when their whole gradient is there."""
    set_aside: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
    for one in parameters:
        hooks = one._backward_hooks
        if hooks:
            set_aside.append((hooks, dict(hooks)))
            hooks.clear()
    try:
        yield
    finally:
        for hooks, own in set_aside:
            hooks.update(own)
