"""The training process as optimizations see it: moments to act at, and a list of what was done.

An optimization registers at the moments it needs when torch has just been imported. Nothing here
touches the script's own objects before the script uses them for training.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hotlap.probes import writing
from hotlap.probes.modules import DOOR

Call = Callable[..., Any]
Arguments = dict[str, Any]
APPLIED, REFUSED = "applied", "refused"
FOLDER = "applied"
MOST_ROOTS = 64
MOST_CALLS = 500  # of modules that are looked at; what is called later still is left as it is


class Training:
    """What one recipe does in one process."""

    def __init__(self, torch: Any, folder: Path | None, *, forgiving: bool = False) -> None:
        self.torch = torch
        self.folder = folder
        self.forgiving = forgiving  # training for real: what cannot be done is left out and said
        self.done: dict[str, dict[str, Any]] = {}
        self._loader_changes: list[tuple[str, Callable[[Arguments], None]]] = []
        self._optimizer_changes: list[tuple[str, Callable[[type, Arguments], None]]] = []
        self._made: list[Callable[[Any], None]] = []
        self._starts: list[tuple[str, Callable[[Any], None]]] = []
        self._wraps: list[tuple[str, Callable[[Any, Call], Call]]] = []
        self._stepped: list[Callable[[], None]] = []
        self._optimizers: list[Any] = []
        self._shuffles = False  # a loader that shuffles has been made: those that do not evaluate
        self._wrapped_loader = self._wrapped_optimizers = False
        self._search = _Search(torch, self)

    # What was done ---------------------------------------------------------------------------

    def applied(self, name: str, detail: str = "") -> None:
        self._say(name, APPLIED, detail)

    def refused(self, name: str, why: str) -> None:
        self._say(name, REFUSED, why)

    def count(self, name: str, what: str, number: int) -> None:
        """A figure that belongs to it: optimizer steps skipped, batches copied ahead."""
        self.done.setdefault(name, {"status": APPLIED, "detail": ""})[what] = number

    def _say(self, name: str, status: str, detail: str) -> None:
        before = self.done.get(name)
        if before is not None and (before["status"], before["detail"]) == (status, detail):
            return
        if before is not None and before["status"] == APPLIED and status == REFUSED:
            before.setdefault("except", detail)  # applied somewhere, not everywhere
        else:
            self.done[name] = {**(before or {}), "status": status, "detail": detail}
        self.write()

    def write(self) -> None:
        if self.folder is not None:
            writing.write(self.folder / FOLDER / f"{os.getpid()}.json", self.done)

    # Moments ---------------------------------------------------------------------------------

    def change_loaders(self, name: str, change: Callable[[Arguments], None]) -> None:
        """`change` gets the arguments of each DataLoader that trains, before it is made."""
        self._loader_changes.append((name, change))
        if not self._wrapped_loader:
            self._wrapped_loader = True
            self._wrap_loader()

    def change_optimizers(self, name: str, change: Callable[[type, Arguments], None]) -> None:
        """`change` gets the class and the arguments of each of torch's own optimizers."""
        self._optimizer_changes.append((name, change))
        self._wrap_optimizers()

    def when_optimizer_made(self, told: Callable[[Any], None]) -> None:
        self._made.append(told)
        self._wrap_optimizers()

    def when_training_starts(self, name: str, act: Callable[[Any], None]) -> None:
        """`act` gets each root module at its first training forward, before it runs."""
        self._starts.append((name, act))
        self._look()

    def around_forward(self, name: str, wrap: Callable[[Any, Call], Call]) -> None:
        """`wrap` gets a root module and what its call runs, and answers what is to run instead."""
        self._wraps.append((name, wrap))
        self._look()

    def after_step(self, told: Callable[[], None]) -> None:
        """`told` is called when an optimizer has stepped."""
        if not self._stepped:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            def ended(optimizer: Any, args: Any, kwargs: Any) -> None:
                if not self.torch.compiler.is_compiling():
                    for one in self._stepped:
                        one()

            register_optimizer_step_post_hook(ended)
        self._stepped.append(told)

    @property
    def optimizers(self) -> list[Any]:
        return [one for one in (reference() for reference in self._optimizers) if one is not None]

    # Loaders ---------------------------------------------------------------------------------

    def _wrap_loader(self) -> None:
        loader = self.torch.utils.data.DataLoader
        plain = loader.__init__
        signature = inspect.signature(plain)

        @functools.wraps(plain)
        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            try:
                bound = signature.bind(this, *args, **kwargs)
            except TypeError:  # torch says it better
                plain(this, *args, **kwargs)
                return
            arguments = {key: value for key, value in bound.arguments.items() if key != "self"}
            before = dict(arguments)
            names = self._change_loader(arguments)
            if _same(arguments, before):
                plain(this, *args, **kwargs)
                return
            try:
                plain(this, **arguments)
            except (TypeError, ValueError, RuntimeError) as problem:
                for name in names:
                    self.refused(name, f"the DataLoader does not take it: {problem}")
                plain(this, *args, **kwargs)

        loader.__init__ = init

    def _change_loader(self, arguments: Arguments) -> list[str]:
        """A loader without shuffling, made after one with it, evaluates: it is left alone."""
        shuffles = bool(
            arguments.get("shuffle")
            or arguments.get("sampler") is not None
            or arguments.get("batch_sampler") is not None
        )
        if self._shuffles and not shuffles:
            return []
        self._shuffles |= shuffles
        names = []
        for name, change in self._loader_changes:
            before = dict(arguments)
            change(arguments)
            if not _same(arguments, before):
                names.append(name)
                self.applied(name, _difference(before, arguments))
        return names

    # Optimizers ------------------------------------------------------------------------------

    def _wrap_optimizers(self) -> None:
        if self._wrapped_optimizers:
            return
        self._wrapped_optimizers = True
        import weakref

        optim = self.torch.optim
        plain = optim.Optimizer.__init__

        @functools.wraps(plain)
        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            plain(this, *args, **kwargs)
            self._optimizers = [one for one in self._optimizers if one() is not None]
            self._optimizers.append(weakref.ref(this))
            for told in self._made:
                told(this)

        optim.Optimizer.__init__ = init
        for found in vars(optim).values():
            if isinstance(found, type) and issubclass(found, optim.Optimizer):
                self._wrap_optimizer(found)

    def _wrap_optimizer(self, kind: Any) -> None:
        if kind is self.torch.optim.Optimizer or "__init__" not in vars(kind):
            return
        plain = kind.__init__
        signature = inspect.signature(plain)

        @functools.wraps(plain)
        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            try:
                bound = signature.bind(this, *args, **kwargs)
            except TypeError:
                plain(this, *args, **kwargs)
                return
            arguments = {key: value for key, value in bound.arguments.items() if key != "self"}
            params = arguments.get("params")
            if params is not None and not isinstance(params, (list, tuple)):
                if hasattr(params, "__next__"):
                    params = list(params)  # read twice if torch does not take the change
                arguments["params"] = params
            extra = arguments.pop("kwargs", {})
            before = {**arguments, **extra}
            changed = dict(before)
            names = []
            for name, change in self._optimizer_changes:
                known = dict(changed)
                change(kind, changed)
                if not _same(known, changed):
                    names.append(name)
            try:
                plain(this, **changed)
                for name in names:
                    self.applied(name, kind.__name__)
            except (TypeError, ValueError, RuntimeError) as problem:
                if not names:
                    raise
                for name in names:
                    self.refused(name, f"{kind.__name__} does not take it: {problem}")
                plain(this, **before)

        kind.__init__ = init

    def parameters(self) -> set[int]:
        return {
            id(parameter)
            for optimizer in self.optimizers
            for group in getattr(optimizer, "param_groups", ())
            for parameter in group["params"]
        }

    # Models ----------------------------------------------------------------------------------

    def _look(self) -> None:
        self._wrap_optimizers()  # what is trained is what an optimizer holds
        self._search.begin()

    def begin(self, module: Any) -> None:
        """The first training forward of a root module is about to run."""
        for name, act in self._starts:
            try:
                act(module)
            except Exception as problem:
                if not self.forgiving:
                    raise
                self.refused(name, f"{type(problem).__name__}: {problem}")
        enclose(self, module, self._wraps)


def enclose(
    training: Training, module: Any, wraps: list[tuple[str, Callable[[Any, Call], Call]]]
) -> None:
    """Puts what the wraps make of the module's call at the door `Module.compile` uses."""
    inner = module.__dict__.get(DOOR) or module._call_impl
    call = inner
    for name, wrap in wraps:
        try:
            call = wrap(module, call)
        except Exception as problem:
            if not training.forgiving:
                raise
            training.refused(name, f"{type(problem).__name__}: {problem}")
    if call is not inner:
        module.__dict__[DOOR] = Way(call)


class Way:
    """The changed call of a module. A copy or a pickle of the module does not carry it along."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


class _Search:
    """Finds the root modules: the outermost modules that are called to train what is optimized.

    Every call of any module passes here until all trained parameters have been seen in one; while
    such a call runs, and ever after, torch's own `Module.__call__` is in its place.
    """

    def __init__(self, torch: Any, training: Training) -> None:
        self._torch = torch
        self._training = training
        self._plain: Any = None
        self._roots: list[int] = []
        self._seen: set[int] = set()
        self._calls = 0

    def begin(self) -> None:
        if self._plain is not None:
            return
        module = self._torch.nn.Module
        self._plain = module.__call__
        search = self

        @functools.wraps(self._plain)
        def call(this: Any, *args: Any, **kwargs: Any) -> Any:
            plain = search._plain
            module.__call__ = plain
            try:
                if search._trains(this):
                    search._found(this)
                return plain(this, *args, **kwargs)
            finally:
                if search._still_looking():
                    module.__call__ = call

        module.__call__ = call

    def _trains(self, module: Any) -> bool:
        torch = self._torch
        if not torch.is_grad_enabled() or not module.training or id(module) in self._roots:
            return False
        if torch.compiler.is_compiling():
            return False
        held = self._training.parameters()
        if not held:
            return False
        lazy = torch.nn.parameter.UninitializedTensorMixin
        trained = False
        for parameter in module.parameters():
            if isinstance(parameter, lazy):
                return False
            trained = trained or id(parameter) in held
        return trained

    def _found(self, module: Any) -> None:
        self._roots.append(id(module))
        self._seen.update(id(parameter) for parameter in module.parameters())
        self._training.begin(module)

    def _still_looking(self) -> bool:
        self._calls += 1
        if len(self._roots) >= MOST_ROOTS or (self._roots and self._calls > MOST_CALLS):
            return False
        return not self._roots or not self._training.parameters() <= self._seen


def unwrap(torch: Any, module: Any) -> Any:
    """The module a DataParallel on one device merely passes its calls to."""
    if isinstance(module, torch.nn.DataParallel) and len(module.device_ids) <= 1:
        return module.module
    return module


def _same(first: Arguments, second: Arguments) -> bool:
    return first.keys() == second.keys() and all(first[key] is second[key] for key in first)


def _difference(before: Arguments, after: Arguments) -> str:
    changed = {k: v for k, v in after.items() if k not in before or before[k] is not v}
    return ", ".join(f"{key}={value!r}" for key, value in changed.items())
