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

from hotlap.generators import Generator, generator, is_generator, same


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


def own_generators(modules: Iterable[nn.Module]) -> list[Generator]:
    """Those that modules hold themselves; torch's own modules hold none."""
    found: dict[int, Any] = {}
    for module in modules:
        if not type(module).__module__.startswith("torch.nn."):
            found |= {id(one): one for one in vars(module).values() if is_generator(one)}
    return [generator(one) for one in found.values()]


class Randomness:
    """What is drawn from one place of a forward pass to the next."""

    def __init__(self, device: torch.device, modules: Iterable[nn.Module] = ()) -> None:
        self._generators = [*generators(device), *own_generators(modules)]
        self._states = [one.state() for one in self._generators]

    def drawn(self) -> list[tuple[Generator, Any]]:
        """Where something was drawn since the last time: the state before it."""
        before, self._states = self._states, [one.state() for one in self._generators]
        moved = zip(self._generators, before, self._states, strict=True)
        return [(one, state) for one, state, now in moved if not same(state, now)]


@contextmanager
def nothing_from_numpy() -> Iterator[None]:
    """Refuses what draws from numpy's global generator, whose state takes long to read."""
    before = _of_numpy()
    yield
    if before != _of_numpy():
        raise RuntimeError(
            "F or G draw from numpy's global random numbers, which cannot be drawn again in the "
            "backward pass; draw from torch's or Python's"
        )


def _of_numpy() -> Any:
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
    kind: str

    @property
    def written_to(self) -> bool:
        return bool(self.tensor._version != self.version)

    @property
    def replaced(self) -> bool:
        return self.place.get(self.name) is not self.tensor


class Conditions:
    """All that a module's forward pass depends on besides its input."""

    def __init__(self, module: nn.Module, name: str, device: torch.device) -> None:
        self._module = module
        self._name = f"{name} ({type(module).__name__})"
        kinds = sorted({"cpu", device.type} & {"cpu", "cuda"})
        self._autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in kinds
        ]
        self._cached = torch.is_autocast_cache_enabled()
        self._modes = [(one, one.training) for one in module.modules()]
        self._held = list(_held(module))
        self._random: list[tuple[Generator, Any]] = []

    def close(self, randomness: Randomness) -> None:
        """After the forward pass: refuses what would start from something else a second time."""
        for held in self._held:
            if held.written_to or held.replaced:
                raise RuntimeError(
                    f"{self._name} changes its {held.kind} {held.name} in the forward pass, which "
                    "runs a second time; keep such modules outside reversible blocks"
                )
        self._random = randomness.drawn()

    @contextmanager
    def again(self) -> Iterator[None]:
        with ExitStack() as stack:
            for one, training in self._modes:
                if one.training is not training:
                    stack.callback(setattr, one, "training", one.training)
                    one.training = training
            for held in self._held:
                self._put_back(held, stack)
            for one, training in self._modes:  # BatchNorm has counted this batch
                if training and isinstance(one, _BatchNorm) and one.track_running_stats:
                    stack.callback(setattr, one, "track_running_stats", True)
                    one.track_running_stats = False
            for generator, state in self._random:
                stack.callback(generator.set, generator.state())
                generator.set(state)
            for kind, enabled, dtype in self._autocast:
                stack.enter_context(
                    torch.autocast(kind, dtype, enabled=enabled, cache_enabled=self._cached)
                )
            yield

    def _put_back(self, held: Held, stack: ExitStack) -> None:
        """What functional_call lends a module is gone by now; what was written over is lost."""
        if held.written_to:
            raise RuntimeError(
                f"the {held.kind} {held.name} of {self._name} was modified by an inplace "
                "operation between the forward and the backward pass, which needs it as it was"
            )
        if held.replaced:
            stack.callback(held.place.__setitem__, held.name, held.place.get(held.name))
            held.place[held.name] = held.tensor


def _held(module: nn.Module) -> Iterator[Held]:
    """Without the statistics of a BatchNorm that is training: it writes them, and reads none."""
    for one in module.modules():
        counting = one.training and isinstance(one, _BatchNorm)
        places = {"parameter": one._parameters, "buffer": {} if counting else one._buffers}
        for kind, place in places.items():
            for name, tensor in place.items():
                if tensor is not None:
                    yield Held(place, name, tensor, tensor._version, kind)


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
