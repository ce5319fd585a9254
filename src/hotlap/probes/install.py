"""Puts the watcher at torch's boundaries. Called once per process, when torch has been imported."""

from __future__ import annotations

import atexit
import functools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hotlap.probes import (
    closures,
    diversions,
    loaders,
    modules,
    places,
    reach,
    uses,
    workers,
    writing,
)
from hotlap.probes.hooks import BACKWARD, ENGINE
from hotlap.probes.patches import outside_compiled
from hotlap.probes.recorder import Recorder
from hotlap.probes.timeline import OPTIMIZER


def install(torch: Any, folder: Path, import_started: float) -> Recorder:
    settings = json.loads((folder / "settings.json").read_text())
    reach.look(settings)
    recorder = Recorder(torch, folder, settings)
    recorder.times.update(
        process=float(settings["started"]), import_started=import_started, imported=time.time()
    )
    loaders.install(torch, recorder)
    workers.install(torch, recorder)
    _watch_optimizers(torch, recorder)
    _watch_backward(torch, recorder)
    _watch_gradients(torch, recorder)
    _watch_clipping(torch, recorder)
    _watch_profilers(torch, recorder)
    uses.install(torch, recorder)
    _watch_replicas(torch)
    diversions.install(torch, recorder, settings)
    os.register_at_fork(after_in_child=recorder.restart)
    atexit.register(recorder.at_exit)
    writing.seen(folder, writing.number(), {"torch": str(torch.__version__)})
    return recorder


def _watch_optimizers(torch: Any, recorder: Recorder) -> None:
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    is_compiling = torch.compiler.is_compiling

    def before(optimizer: Any, args: Any, kwargs: Any) -> closures.Arguments | None:
        if is_compiling() or recorder.hooks.aside or not recorder.passes.timeline.watching:
            return None
        recorder.optimizer_begins(optimizer)
        if recorder.timing and (kwargs or len(args) > 1) and recorder.mine():
            return closures.told_apart(recorder, args, kwargs)
        return None

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        laps = recorder.laps
        if laps is not None and laps.ended(optimizer):
            recorder.in_optimizer = False
        else:
            recorder.optimizer_ends(optimizer)

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)

    plain = torch.optim.Optimizer.__init__

    @functools.wraps(plain)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        recorder.optimizer_made(self, places.here(2))

    torch.optim.Optimizer.__init__ = init


def _watch_backward(torch: Any, recorder: Recorder) -> None:
    plain, is_compiling = torch.autograd.backward, torch.compiler.is_compiling

    @functools.wraps(plain)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or not recorder.passes.timeline.watching:
            return plain(tensors, *args, **kwargs)
        return recorder.backward(plain, tensors, args, kwargs)

    recorder.hooks.replace(torch.autograd, BACKWARD, backward)


def _watch_gradients(torch: Any, recorder: Recorder) -> None:
    """Below torch.autograd.grad: the compiler knows that one by its identity."""
    plain, is_compiling = getattr(torch.autograd, ENGINE, None), torch.compiler.is_compiling
    if plain is None:
        return

    @functools.wraps(plain)
    def run(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("accumulate_grad") is not False or is_compiling():
            return plain(tensors, *args, **kwargs)
        return recorder.gradient(plain, tensors, args, kwargs)

    recorder.hooks.replace(torch.autograd, ENGINE, run)


def _watch_clipping(torch: Any, recorder: Recorder) -> None:
    """Scripts import these by name, so they are wrapped from the start; clipping is optimizing."""
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        plain = getattr(torch.nn.utils, name, None)
        if plain is not None:
            setattr(
                torch.nn.utils, name, outside_compiled(torch, plain, _clipping(plain, recorder))
            )


def _clipping(plain: Any, recorder: Recorder) -> Any:
    def clip(*args: Any, **kwargs: Any) -> Any:
        if not recorder.timing:
            return plain(*args, **kwargs)
        recorder.enter(OPTIMIZER)
        try:
            return plain(*args, **kwargs)
        finally:
            recorder.leave(OPTIMIZER)

    return clip


def _watch_profilers(torch: Any, recorder: Recorder) -> None:
    """A script that profiles itself keeps torch.profiler to itself: there is only one."""
    for owner in (torch.profiler.profile, torch.autograd.profiler.profile):
        plain = owner.__init__

        def init(self: Any, *args: Any, _plain: Callable[..., None] = plain, **kwargs: Any) -> None:
            if not recorder.passes.profiling:
                recorder.profiles_itself = True
            _plain(self, *args, **kwargs)

        owner.__init__ = functools.wraps(plain)(init)


def _watch_replicas(torch: Any) -> None:
    """data_parallel copies a module by its attributes: a replica must not carry our door."""
    plain = torch.nn.Module._replicate_for_data_parallel

    @functools.wraps(plain)
    def replicate(self: Any) -> Any:
        replica = plain(self)
        modules.unwatch(replica)
        return replica

    torch.nn.Module._replicate_for_data_parallel = replicate
