"""A recipe applied to objects at hand, for people who own their training loop."""

from __future__ import annotations

import inspect
from typing import Any

from hotlap.optimizations import known
from hotlap.optimizations.training import Training

_FLAGS = {"fused-optimizer": ("fused", "foreach"), "foreach-optimizer": ("foreach", "fused")}


def apply(
    changes: dict[str, dict[str, Any]], model: Any, optimizer: Any, loader: Any
) -> tuple[Any, Any, Any]:
    import torch

    training = _AtHand(torch)
    for one in known():
        if one.NAME in changes:
            one.install(training, changes[one.NAME])
    if model is not None:
        training.begin(model)
    if optimizer is not None:
        _change_optimizer(changes, optimizer)
        for told in training.told_of_optimizers:
            told(optimizer)
    if loader is not None:
        loader = _remade(training, loader)
    return model, optimizer, loader


class _AtHand(Training):
    """Registers like a training process does, without waiting for the script to make things."""

    def __init__(self, torch: Any) -> None:
        super().__init__(torch, None)

    @property
    def told_of_optimizers(self) -> list[Any]:
        return self._made

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
    for name, (on, off) in _FLAGS.items():
        if name in changes:
            for group in optimizer.param_groups:
                if on in group:
                    group[on], group[off] = True, False


def _remade(training: _AtHand, loader: Any) -> Any:
    """A loader of the same kind with changed arguments; the same one where nothing changes."""
    names = [
        name
        for name in inspect.signature(type(loader).__init__).parameters
        if name not in ("self", "shuffle") and hasattr(loader, name)
    ]
    before = {name: getattr(loader, name) for name in names}
    custom = type(loader.batch_sampler).__name__ != "BatchSampler" and loader.batch_size is None
    if custom:
        for name in ("batch_size", "sampler", "drop_last"):
            before.pop(name, None)
    else:
        before.pop("batch_sampler", None)
    if not before.get("num_workers"):
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
            before.pop(name, None)
    changed = dict(before)
    training.change_arguments(changed)
    same = changed.keys() == before.keys() and all(changed[k] is before[k] for k in changed)
    return loader if same else type(loader)(**changed)
