"""The watcher's centre: told what happens at torch's boundaries, it keeps the trial's record.

Every entry point is a boundary of the user's program, so none of them may raise: what fails inside
is switched off, noted under `problems`, and training goes on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import Any

from hotlap.probes import accelerators, environment, summary, writing
from hotlap.probes.accelerators import Accelerator
from hotlap.probes.batches import samples_passed
from hotlap.probes.hooks import Hooks
from hotlap.probes.laps import Laps
from hotlap.probes.ledger import Ledger
from hotlap.probes.loaders import LoaderWatch, samples_of
from hotlap.probes.losses import Losses
from hotlap.probes.modules import Roots
from hotlap.probes.optimizers import Optimizers, trainable
from hotlap.probes.passes import Passes
from hotlap.probes.schedule import BARE, DONE, PHASES, Schedule
from hotlap.probes.steps import CALLED, EVALUATION, FETCHED, LOOKED, RESUMED, TRAINED, Rounds, Tally
from hotlap.probes.timeline import BACKWARD, FORWARD, OPTIMIZER
from hotlap.probes.uses import Uses
from hotlap.probes.workers import Notes

BACKWARDS_WITHOUT_ONE = 4
BACKWARDS_WITH_AN_OPTIMIZER = 64  # more than anyone accumulates
SECOND = 1_000_000_000  # nanoseconds
MOST_TOLD = 10_000
PLAIN_FROM = 6  # steps: from there on most are like the one before


def ignore(phase: str) -> None:
    """What stands for `enter` and `leave` where phases are not told apart."""


class Recorder:
    def __init__(self, torch: Any, folder: Path, settings: dict[str, Any]) -> None:
        self.torch = torch
        self._is_grad_enabled: Callable[[], bool] = torch.is_grad_enabled
        self.folder = folder
        self.settings = settings
        self.times: dict[str, float] = {}
        self.problems: list[str] = []
        self.diverted: list[str] = []
        self.profiles_itself = False  # the script uses torch.profiler
        self.optimizers = Optimizers()
        self.uses = Uses()
        self.loaders = LoaderWatch(Notes(folder))
        self.hooks = Hooks(torch, self)
        self.roots = Roots(torch, self)
        self.passes = Passes(torch, self)
        self._calls_backward = False
        self.restart()

    def restart(self) -> None:
        """A fresh record; also what a forked child begins with."""
        self.look_away()
        self.passes.shut()
        for name in [name for name in self.times if name.startswith("first_")]:
            del self.times[name]
        self.laps: Laps | None = None
        self.accelerator: Accelerator | None = None
        self._is_capturing: Callable[[], bool] | None = None
        self.unit = "optimizer"
        self.steps = 0
        self.loaders = self.loaders.afresh()
        # A clone a step is felt in the bare pass, so only those who compare losses ask for it.
        self.losses = Losses() if self.settings.get("losses") else None
        self.ledger = Ledger()
        self.roots = Roots(self.torch, self)
        self.passes = Passes(self.torch, self)
        self.optimizers.forget()
        self.schedule = Schedule(**self.settings["limits"])
        self.evaluations = 0
        self.pid = writing.number()
        self.world = environment.World()
        self._thread: int | None = None
        self.rounds = Rounds()
        self._tally = Tally(self.loaders.trained_on, self.loaders.not_trained_on)
        self._in_forward = self.in_optimizer = self._in_backward = False
        self._owed = False
        self.steps_in_backward = False
        self.steps_by_gradient = False  # torch.autograd.grad is what trains
        self._backwards = 0
        self._last = 0
        self._disturbed = True
        self._written = 0  # when the files were last brought up to date
        self.finished = False

    # What the hooks call -------------------------------------------------------------------

    def mine(self) -> bool:
        """Whether this is the thread that trains."""
        return get_ident() == self._thread

    def capturing(self) -> bool:
        """Whether a CUDA graph is being recorded: our events must not become part of it."""
        return self._is_capturing is not None and self._is_capturing()

    def look_away(self) -> None:
        """Phases are not told apart; `enter` and `leave` belong to the window that is open."""
        self.timing = False
        self.enter: Callable[[str], None] = ignore
        self.leave: Callable[[str], None] = ignore

    def optimizer_made(self, optimizer: Any, place: tuple[str, int, str] | None) -> None:
        self.optimizers.made(optimizer, place)
        if self.unit == "backward":  # it was a warm-up by hand: start over with the real steps
            self.restart()

    def loader_starts(self, loader: Any) -> None:
        """Where an evaluation came before it in this step, from here on it is training again."""
        if self._tally.resumed or not (self._tally.evaluated or self._looks_into_batches()):
            return
        trains = self.mine() and self._is_grad_enabled() and self.loaders.trains(loader, True)
        if trains and self.roots.in_training() and self.passes.keep_place():
            self._tally.resume()

    def _looks_into_batches(self) -> bool:
        """Whether an evaluation may be known by what becomes of its batches, and only later."""
        return self.schedule.stage != BARE and self.passes.timeline.watching

    def loader_started(self, loader: Any, iterator: Any, seconds: float) -> None:
        self.times.setdefault("first_iterator", time.time() - seconds)
        self._tally.loader_started = True
        try:
            trains = self.loaders.trains(loader, self._is_grad_enabled())
            if not trains and not self._looks_into_batches():
                self.evaluation_begins()
            iterator._hotlap_loader = id(loader)
            iterator._hotlap_batch_size = getattr(loader, "batch_size", None)
            self.loaders.started(loader, iterator, seconds)
        except Exception as problem:
            self.note("loader", problem)

    def evaluation_begins(self) -> None:
        self._tally.evaluate()

    def fetched(self, iterator: Any, batch: Any) -> None:
        samples = None
        self.times.setdefault("first_batch", time.time())
        try:
            samples = samples_of(iterator, batch)
        except Exception as problem:  # a batch type with a will of its own
            self.note("batch", problem)
        loader = getattr(iterator, "_hotlap_loader", 0)
        self.loaders.fetched(loader, self._thread)
        self._tally.tell((FETCHED, samples, loader, not self._is_grad_enabled()))
        if len(self._tally.told) > MOST_TOLD:  # batches and no steps: it is not training
            self.catch_up()
            self._tally.closed()

    def forward(self, module: Any, inner: Any, args: Any, kwargs: Any) -> Any:
        if self._in_forward or get_ident() != self._thread:
            return inner(*args, **kwargs)
        if not self._is_grad_enabled():
            self._tally.tell((LOOKED, None, None, False))
            if not module.training:
                self._tally.evaluate()
        elif self.laps is None or not self._tally.uses_loader:
            self._training_forward(module, args, kwargs)
        self._in_forward = True
        self.enter(FORWARD)
        try:
            return inner(*args, **kwargs)
        finally:
            self._in_forward = False
            self.leave(FORWARD)
            if self.passes.memory_probe is not None:
                self.passes.memory_probe.forward_ends()

    def _training_forward(self, module: Any, args: Any, kwargs: Any) -> None:
        try:
            self.roots.call(module)
            if not self._tally.uses_loader:
                samples = samples_passed(args, kwargs, module)
                self._tally.tell(
                    (CALLED, (id(module), module.training), samples, self.in_optimizer)
                )
            if self.passes.memory_probe is not None:
                self.passes.memory_probe.forward_begins()
        except Exception as problem:
            self.note("forward", problem)

    def gradient(self, plain: Any, tensors: Any, args: Any, kwargs: Any) -> Any:
        """torch.autograd.grad: a backward pass, but only where nothing else can be what trains."""
        if self.optimizers or self._calls_backward or self._in_backward or not trainable(args[3]):
            return plain(tensors, *args, **kwargs)
        self.steps_by_gradient = True

        def differentiate(*args: Any, **kwargs: Any) -> Any:
            gradients = plain(*args, **kwargs)
            self.passes.read_gradients(gradients)
            return gradients

        return self._pass_back(differentiate, tensors, args, kwargs)

    def backward(self, plain: Any, tensors: Any, args: Any, kwargs: Any) -> Any:
        if not (self._calls_backward or self._in_backward):
            self._calls_backward = True
            if self.steps_by_gradient:  # that was something else: start over with the real steps
                self.restart()
        return self._pass_back(plain, tensors, args, kwargs)

    def _pass_back(self, plain: Any, tensors: Any, args: Any, kwargs: Any) -> Any:
        if self._thread is None:
            self._thread = get_ident()
        if get_ident() != self._thread:
            return plain(tensors, *args, **kwargs)
        self._tally.tell((TRAINED, None, None, False))
        if self.laps is None or self.losses is not None:
            self._backward_begins(tensors)
        self._in_backward = True
        self.enter(BACKWARD)
        try:
            return plain(tensors, *args, **kwargs)
        finally:
            self._in_backward = False
            self.leave(BACKWARD)
            if self.laps is None:
                self._backward_ends()

    def _backward_ends(self) -> None:
        if self._owed:
            self._owed = False
            self._step_ended()
        if not self.optimizers.have_stepped:
            self._count_backward()

    def _backward_begins(self, tensors: Any) -> None:
        try:
            self.times.setdefault("first_backward", time.time())
            self._disturbed |= self.roots.find_once()
            self.roots.exchanges.passed_back(self.steps)
            self.uses.anomalies = self.torch.is_anomaly_enabled()
            if self.losses is not None and not self.finished:
                self.losses.keep(tensors)
            if self.passes.memory_probe is not None:
                self.passes.memory_probe.backward_begins()
        except Exception as problem:
            self.note("backward", problem)

    def _count_backward(self) -> None:
        """Steps are counted here where no optimizer steps: there is none, or it is compiled."""
        if self.in_optimizer:
            return
        self._backwards += 1
        patience = BACKWARDS_WITH_AN_OPTIMIZER if self.optimizers else BACKWARDS_WITHOUT_ONE
        if self._backwards >= patience:
            self.unit = "backward"
            self.passes.read_gradients()
            self._step_ended()

    def optimizer_begins(self, optimizer: Any) -> None:
        if self._thread is None:
            self._thread = get_ident()
        if get_ident() == self._thread:
            self.in_optimizer = True
            self.passes.read_gradients()
            self.enter(OPTIMIZER)

    def optimizer_ends(self, optimizer: Any) -> None:
        if not self.mine():
            return
        self.catch_up()
        if self.unit == "backward":  # they do step, only late: count them from here
            self.restart()
            self._thread = get_ident()
        self.leave(OPTIMIZER)
        if self.optimizers.is_inner(optimizer, early=self.steps < PLAIN_FROM):
            return
        self.in_optimizer = False
        if self.optimizers.stepped(optimizer) and self.steps:
            self._disturbed |= self.roots.search_again()
        late = self.rounds.only is None and self.schedule.is_over(time.perf_counter())
        if self.rounds.stepped(self.optimizers.roles.of(optimizer), late=late):
            if self._in_backward:  # stepping in a gradient hook: the step ends with the pass
                self._owed = self.steps_in_backward = True
            else:
                self._step_ended()
                self._look_ahead(optimizer)

    # Steps and windows ---------------------------------------------------------------------

    def _look_ahead(self, optimizer: Any) -> None:
        """Most steps of a window are like the one before and cannot end it."""
        if self.schedule.stage not in (BARE, PHASES) or self._disturbed or self.finished:
            return
        if self.rounds.only is None or self.steps_in_backward or self.optimizers.nest:
            return
        if self.steps < PLAIN_FROM:
            return
        steps, deadline = self.schedule.plain_steps()
        if self.laps is None:
            timeline = self.passes.timeline if self.timing else None
            events, capturing = self.passes.events, self._is_capturing
            self.laps = Laps(optimizer, get_ident(), self._tally, timeline, events, capturing)
        self.laps.go_on(steps, int(min(deadline / 1e-9, self._written + SECOND)))

    def catch_up(self) -> None:
        """Tells the schedule of the steps that were only kept; none of them can end a window."""
        laps, self.laps = self.laps, None
        only = self.rounds.only
        if laps is None or only is None:
            return
        self.passes.timeline.watching = True  # this step is not like the others
        for now, event, (samples, kind) in laps.take():
            self.rounds.stepped(only)
            self.steps += 1
            self.evaluations += kind == EVALUATION
            self.passes.ended_lap(now, event, samples, kind)
            seconds, counts = (now - self._last) * 1e-9, kind != EVALUATION
            self.schedule.advance(seconds, now=now * 1e-9, counts=counts)
            self._last = now

    def _step_ended(self) -> None:
        if self.finished or self.capturing():
            return
        try:
            self._boundary()
        except Exception as problem:
            self.note(f"stage {self.schedule.stage}", problem)
            with contextlib.suppress(Exception):
                self._finish()

    def _boundary(self) -> None:
        now = time.perf_counter_ns()
        self.steps += 1
        samples, kind = self._tally.close()
        if self.steps == 1:
            self._first_step()
            self._last = time.perf_counter_ns()
            return
        self.evaluations += kind in (EVALUATION, RESUMED)
        if kind == RESUMED:
            self._last = self.passes.part()
        disturbed = self.passes.ended_step(samples, kind, self._disturbed, now)
        seconds, counts = (now - self._last) * 1e-9, not disturbed and kind != EVALUATION
        self._last, self._disturbed = now, False
        if self.schedule.advance(seconds, now=now * 1e-9, counts=counts):
            self.schedule.turn(now * 1e-9, self.passes.close())
            if self.schedule.stage == DONE:
                self._finish()
                return
            self._save()
            self._tally.drop_pending()
            self.passes.open(self.schedule.stage)
            self._last, self._disturbed = time.perf_counter_ns(), True
        elif now - self._written > SECOND:
            self._written = now
            writing.progress(self.folder, self.pid, summary.progress(self))
        if self.passes.memory_probe is not None and not counts:
            self.passes.memory_probe.begin()
        if self.steps < 6:
            self.roots.descend_unless_called()

    def _first_step(self) -> None:
        self.times["first_step"] = time.time()
        trained = (self.optimizers.parameters(), self.roots.parameters())
        self.accelerator = accelerators.of(self.torch, *trained)
        self._is_capturing = self.accelerator.is_capturing() if self.accelerator else None
        self.passes.begin(self.accelerator, self._thread or get_ident())
        self._save()

    # The record ----------------------------------------------------------------------------

    def note(self, where: str, problem: Exception) -> None:
        if len(self.problems) < 20:
            self.problems.append(f"{where}: {type(problem).__name__}: {problem}"[:500])

    def _finish(self) -> None:
        self.finished = True
        try:
            self.passes.shut()
        finally:
            self._save(final=True)

    def at_exit(self) -> None:
        """The command ended before the measurement did: keep what there is."""
        if self.pid != writing.number() or not self.steps or self.finished:
            return
        try:
            self.catch_up()
            self.passes.keep_window()
        except Exception as problem:
            self.note("exit", problem)
        self._save(ended=True)

    def _save(self, *, final: bool = False, ended: bool = False) -> None:
        self._written = time.perf_counter_ns()
        writing.record(self.folder, self.pid, summary.of(self, complete=final, ended=ended))
        writing.progress(self.folder, self.pid, summary.progress(self))
