"""A recipe applied to objects at hand, for people who own their training loop."""

from __future__ import annotations

import functools
import gc
import inspect
import json
import weakref
from typing import Any

from hotlap.errors import UsageError
from hotlap.optimizations import known
from hotlap.optimizations.training import Training, own_step

_FLAGS = {"fused-optimizer": ("fused", "foreach"), "foreach-optimizer": ("foreach", "fused")}
_IN_THIS_PROCESS: dict[str, _AtHand] = {}  # what has been installed, by recipe


def apply(
    changes: dict[str, dict[str, Any]], model: Any, optimizer: Any, loader: Any
) -> tuple[Any, Any, Any]:
    _check(model, optimizer, loader)
    training = _installed(changes)
    if optimizer is not None and training.is_new(optimizer):
        _change_optimizer(changes, optimizer)
        training.made(optimizer)
        _pass_on(optimizer)
    if model is not None and training.is_new(model):
        training.begin(model)
    if loader is not None and training.is_new(loader):
        loader = _remade(training, loader)
        training.is_new(loader)
    return model, optimizer, loader


def _check(model: Any, optimizer: Any, loader: Any) -> None:
    """Before anything is changed: some of it is global, and stays when the rest fails."""
    from torch import nn, optim, utils

    wanted = {
        "model": (model, nn.Module, "torch.nn.Module"),
        "optimizer": (optimizer, optim.Optimizer, "torch.optim.Optimizer"),
        "loader": (loader, utils.data.DataLoader, "torch.utils.data.DataLoader"),
    }
    for name, (given, kind, called) in wanted.items():
        if given is None or isinstance(given, kind):
            continue
        fits = next((other for other, row in wanted.items() if isinstance(given, row[1])), None)
        move = f"Give it as {fits}=..." if fits else _instead(name, given)
        raise UsageError(
            f"The {name} given to apply is of type {type(given).__name__}; "
            f"it must be a {called}. {move}"
        )


def _instead(name: str, given: Any) -> str:
    if name == "loader":
        return "Leave it out: no recipe changes other loaders."
    if isinstance(given, (list, tuple, dict, set)):
        return f"Where there are several, call apply for each {name}."
    return f"Leave the {name} out, or give the one that is inside of it."


def _installed(changes: dict[str, dict[str, Any]]) -> _AtHand:
    """Much of a recipe is global: a second call hands more objects to what is there."""
    key = json.dumps(changes, sort_keys=True)
    if key not in _IN_THIS_PROCESS:
        import torch

        training = _AtHand(torch)
        for one in known():
            if one.NAME in changes:
                one.install(training, changes[one.NAME])
        if _scales(torch.amp.GradScaler):
            training.scaler_made()
        _IN_THIS_PROCESS[key] = training
    return _IN_THIS_PROCESS[key]


def _scales(kind: Any) -> bool:
    made = (one for one in gc.get_objects() if issubclass(type(one), kind))
    return any(one.is_enabled() for one in made)


class _AtHand(Training):
    """Registers like a training process does, without waiting for the script to make things."""

    def __init__(self, torch: Any) -> None:
        super().__init__(torch, None)
        self._given: weakref.WeakSet[Any] = weakref.WeakSet()

    def is_new(self, thing: Any) -> bool:
        known = thing in self._given
        self._given.add(thing)
        return not known

    def change_arguments(self, arguments: dict[str, Any]) -> None:
        for _, change in self._loader_changes:
            change(arguments)

    def change_loaders(self, name: str, change: Any) -> None:
        self._loader_changes.append((name, change))

    def change_optimizers(self, name: str, change: Any) -> None:
        pass  # those at hand are changed through their groups

    def when_optimizer_made(self, told: Any) -> None:
        self._made.append(told)

    def _look(self) -> None:
        pass


def _change_optimizer(changes: dict[str, dict[str, Any]], optimizer: Any) -> None:
    theirs = (kind for kind in type(optimizer).__mro__ if kind.__module__.startswith("torch."))
    if own_step(optimizer, next(theirs, type(optimizer))):
        return
    for name, (on, off) in _FLAGS.items():
        if name in changes:
            for group in optimizer.param_groups:
                if on in group and not group.get("differentiable"):
                    group[on], group[off] = True, False


def _pass_on(optimizer: Any) -> None:
    """A schedule made before has put its own step on the optimizer, around the class's old one."""
    if "step" not in vars(optimizer):
        return

    @functools.wraps(optimizer.step)
    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer._opt_called = True  # what the schedule looks at
        return type(optimizer).step(optimizer, *args, **kwargs)

    optimizer.step = step


def _remade(training: _AtHand, loader: Any) -> Any:
    """A loader of the same kind with changed arguments; the same one where nothing changes."""
    before = _arguments(training.torch, loader)
    changed = dict(before)
    training.change_arguments(changed)
    if changed.keys() == before.keys() and all(changed[k] is before[k] for k in changed):
        return loader
    kind = type(loader)
    try:
        inspect.signature(kind).bind(**changed)
    except TypeError as problem:
        wanted = [f"{k}={v!r}" for k, v in changed.items() if k not in before or before[k] is not v]
        raise UsageError(
            f"A {kind.__name__} cannot be made anew from its attributes: {problem}. "
            f"Make it with {', '.join(wanted)} yourself, and leave the loader out."
        ) from problem
    return kind(**changed)


def _arguments(torch: Any, loader: Any) -> dict[str, Any]:
    """What a loader like this one is made with, read from its attributes."""
    own = inspect.signature(type(loader)).parameters
    names = set(own)
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own.values()):
        names |= inspect.signature(torch.utils.data.DataLoader).parameters.keys()
    found = {name: getattr(loader, name) for name in names if hasattr(loader, name)}
    if loader.batch_sampler is not None and loader.batch_size is None:
        left_out = {"batch_size", "sampler", "drop_last"}
    else:
        left_out = {"batch_sampler"}
    if isinstance(loader.dataset, torch.utils.data.IterableDataset):
        left_out.add("sampler")
    if "sampler" in found:
        left_out.add("shuffle")
    if not loader.num_workers:
        left_out |= {"prefetch_factor", "persistent_workers", "multiprocessing_context"}
    return {name: value for name, value in found.items() if name not in left_out}
