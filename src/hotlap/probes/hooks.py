"""What stands at torch's boundaries; all but the end of a step steps aside in the bare pass.

The bare pass is the truth for times, so nothing may run in it that a step's time does not need. An
evaluation is then known by what it does once: it puts the model into evaluation mode, or starts a
loader that no training has been seen from. torch's own optimizer hooks stay registered and do
nothing: compiled optimizers are guarded on them and would be compiled again.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hotlap.probes import modules

if TYPE_CHECKING:
    from hotlap.probes.recorder import Recorder

BACKWARD = "backward"
ENGINE = "_engine_run_backward"


class Hooks:
    def __init__(self, torch: Any, recorder: Recorder) -> None:
        self._torch = torch
        self._recorder = recorder
        self._replaced: list[tuple[Any, str, Any, Any]] = []  # owner, name, plain, watched
        self.aside = False
        self._train: Any = None
        self._watching_train: Any = None

    def replace(self, owner: Any, name: str, watched: Any) -> None:
        """Puts `watched` in the place of what is there, until it is asked to step aside."""
        self._replaced.append((owner, name, getattr(owner, name), watched))
        setattr(owner, name, watched)

    def step_aside(self) -> None:
        if self.aside:
            return
        self.aside = True
        for owner, name, plain, watched in self._replaced:
            if getattr(owner, name) is watched and not self._needed(name):
                setattr(owner, name, plain)
        for module in self._recorder.roots.modules:
            modules.unwatch(module)
        self.watch_evaluation()

    def _needed(self, name: str) -> bool:
        recorder = self._recorder
        if name == ENGINE:
            return recorder.steps_by_gradient
        return name == BACKWARD and (
            (recorder.losses is not None and recorder.losses.open)
            or recorder.steps_in_backward
            or not recorder.optimizers.have_stepped
        )

    def watch_evaluation(self) -> None:
        """Where nobody looks into steps, evaluating is known by the mode it needs."""
        recorder, module = self._recorder, self._torch.nn.Module
        plain = self._train = module.train

        @functools.wraps(plain)
        def train(self: Any, *args: Any, **kwargs: Any) -> Any:
            mode = args[0] if args else kwargs.get("mode", True)
            if mode is False and recorder.roots.concerns(self):
                recorder.evaluation_begins()
            return plain(self, *args, **kwargs)

        module.train = self._watching_train = train

    def come_back(self) -> None:
        if self._watching_train is not None:
            if self._torch.nn.Module.train is self._watching_train:
                self._torch.nn.Module.train = self._train
            self._watching_train = None
        if not self.aside:
            return
        self.aside = False
        for owner, name, plain, watched in self._replaced:
            if getattr(owner, name) is plain:
                setattr(owner, name, watched)
        for module in self._recorder.roots.modules:
            modules.watch(self._torch, module, self._recorder)
