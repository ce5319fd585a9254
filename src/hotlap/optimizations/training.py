"""The training process as optimizations see it: moments to act at, and a list of what was done.

An optimization registers at the moments it needs when torch has just been imported. Nothing here
touches the script's own objects before the script uses them for training.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hotlap.optimizations.loading import shuffling
from hotlap.optimizations.roots import Search, Way, enclose
from hotlap.probes import writing

Call = Callable[..., Any]
Arguments = dict[str, Any]
APPLIED, REFUSED = "applied", "refused"
EXCEPT, UNTIL = "except", "until"  # applied, but not everywhere; not to the end
FOLDER = "applied"


class Training:
    """What one recipe does in one process."""

    def __init__(self, torch: Any, folder: Path | None, *, forgiving: bool = False) -> None:
        self.torch = torch
        self.folder = folder
        self.forgiving = forgiving  # training for real: what cannot be done is left out and said
        self.done: dict[str, dict[str, Any]] = {}
        self._places: Counter[str] = Counter()  # loaders, models, optimizers it is applied to
        self._loader_changes: list[tuple[str, Callable[[Arguments], None]]] = []
        self._optimizer_changes: list[tuple[str, Callable[[type, Arguments], None]]] = []
        self._made: list[Callable[[Any], None]] = []
        self._starts: list[tuple[str, Callable[[Any], None]]] = []
        self._wraps: list[tuple[str, Callable[[Any, Call], Call]]] = []
        self._stepped: list[Callable[[], None]] = []
        self._scales: list[Callable[[], None]] = []
        self.scales = False  # the script has made a GradScaler of its own
        self._optimizers: list[Any] = []
        self._making: set[int] = set()  # optimizers whose __init__ runs
        self._shuffles = False  # a loader that shuffles has been made: those that do not evaluate
        self._wrapped_loader = self._wrapped_optimizers = False
        self._search = Search(torch, self)

    # What was done ---------------------------------------------------------------------------

    def applied(self, name: str, detail: str = "") -> None:
        self._places[name] += 1
        self._say(name, APPLIED, detail)
        if UNTIL in self.done[name]:  # ended for one loader, and here is the next
            self._limit(name, EXCEPT, self.done[name].pop(UNTIL))

    def refused(self, name: str, why: str) -> None:
        self._say(name, REFUSED, why)

    def withdrawn(self, name: str, why: str) -> None:
        """It was applied, or would have been, and from here on it is not."""
        self.done[name] = {**self.done.get(name, {}), "status": REFUSED, "detail": why}
        self.write()

    def ended(self, name: str, why: str) -> None:
        """For one of those it was applied to; where that was the last one, it has ended."""
        self._places[name] -= 1
        self._limit(name, EXCEPT if self._places[name] > 0 else UNTIL, why)

    def count(self, name: str, what: str, number: int) -> None:
        """A figure that belongs to it: optimizer steps skipped, batches copied ahead."""
        self.done.setdefault(name, {"status": APPLIED, "detail": ""})[what] = number

    def _say(self, name: str, status: str, detail: str) -> None:
        before = self.done.get(name)
        if before is not None and (before["status"], before["detail"]) == (status, detail):
            return
        if before is not None and before["status"] == APPLIED and status == REFUSED:
            self._limit(name, EXCEPT, detail)
        else:
            self.done[name] = {**(before or {}), "status": status, "detail": detail}
            self.write()

    def _limit(self, name: str, limit: str, why: str) -> None:
        self.done.setdefault(name, {"status": APPLIED, "detail": ""}).setdefault(limit, why)
        self.write()

    def write(self) -> None:
        if self.folder is not None:
            writing.write(self.folder / FOLDER / f"{writing.number()}.json", self.done)

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

    def when_scaler_made(self, told: Callable[[], None]) -> None:
        """`told` is called when the script makes a GradScaler: it scales its loss by itself."""
        if not self._scales:
            self._wrap_scaler()
        self._scales.append(told)

    @property
    def optimizers(self) -> list[Any]:
        return [one for one in (reference() for reference in self._optimizers) if one is not None]

    def follow_optimizers(self) -> None:
        """From here on `device` is known as soon as an optimizer is made."""
        self._wrap_optimizers()

    @property
    def device(self) -> Any:
        """Where training takes place: the device of what was given to an optimizer last."""
        for optimizer in reversed(self.optimizers):
            for group in getattr(optimizer, "param_groups", ()):
                for parameter in group["params"]:
                    return parameter.device
        return None

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
            changes = self._change_loader(arguments)
            if not changes:
                plain(this, *args, **kwargs)
                return
            try:
                plain(this, **arguments)
            except (TypeError, ValueError, RuntimeError) as problem:
                for name in changes:
                    self.refused(name, f"the DataLoader does not take it: {problem}")
                plain(this, *args, **kwargs)
                return
            for name, difference in changes.items():
                self.applied(name, difference)

        loader.__init__ = init

    def _change_loader(self, arguments: Arguments) -> dict[str, str]:
        """A loader without shuffling, made after one with it, evaluates: it is left alone."""
        shuffles = shuffling(self.torch, arguments)
        if self._shuffles and not shuffles:
            return {}
        self._shuffles |= shuffles
        changes = {}
        for name, change in self._loader_changes:
            before = dict(arguments)
            change(arguments)
            if not _same(arguments, before):
                changes[name] = _difference(before, arguments)
        return changes

    # Scalers ---------------------------------------------------------------------------------

    def _wrap_scaler(self) -> None:
        scaler = self.torch.amp.GradScaler
        plain = scaler.__init__

        @functools.wraps(plain)
        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            plain(this, *args, **kwargs)
            if this.is_enabled():
                self.scaler_made()

        scaler.__init__ = init

    def scaler_made(self) -> None:
        self.scales = True
        for told in self._scales:
            told()

    # Optimizers ------------------------------------------------------------------------------

    def _wrap_optimizers(self) -> None:
        if self._wrapped_optimizers:
            return
        self._wrapped_optimizers = True
        optim = self.torch.optim
        plain = optim.Optimizer.__init__

        @functools.wraps(plain)
        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            plain(this, *args, **kwargs)
            if id(this) not in self._making:
                for name, _ in self._optimizer_changes:
                    self.refused(name, f"{type(this).__name__} is none of torch's optimizers")
            self.made(this)

        optim.Optimizer.__init__ = init
        for found in vars(optim).values():
            if isinstance(found, type) and issubclass(found, optim.Optimizer):
                self._wrap_optimizer(found)

    def made(self, optimizer: Any) -> None:
        """An optimizer is there: it may train a model that has not been seen yet."""
        known = [one for one in self.optimizers if one is not optimizer]
        self._optimizers = [weakref.ref(one) for one in (*known, optimizer)]
        for told in self._made:
            told(optimizer)
        if self._starts or self._wraps:
            self._look()

    def _wrap_optimizer(self, kind: Any) -> None:
        if kind is self.torch.optim.Optimizer or "__init__" not in vars(kind):
            return
        plain = kind.__init__
        signature = inspect.signature(plain)

        @functools.wraps(plain)
        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            if id(this) in self._making:  # AdamW is made as Adam is: it has been changed
                plain(this, *args, **kwargs)
                return
            self._making.add(id(this))
            try:
                make(this, *args, **kwargs)
            finally:
                self._making.discard(id(this))

        def make(this: Any, *args: Any, **kwargs: Any) -> None:
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
            groups = [(one, dict(one)) for one in _groups(params)]
            changed = dict(before)
            names = []
            for name, change in self._optimizer_changes:
                if own_step(this, kind):  # flags of torch's step would change nothing, or too much
                    self.refused(name, f"{type(this).__name__} has a step of its own")
                    continue
                known = dict(changed)
                change(kind, changed)
                if not _same(known, changed):
                    names.append(name)
            try:
                plain(this, **changed)
            except (TypeError, ValueError, RuntimeError) as problem:
                if not names:
                    raise
                for name in names:
                    self.refused(name, f"{kind.__name__} does not take it: {problem}")
                for group, content in groups:
                    _put_back(group, content)
                plain(this, **before)
                return
            if names:
                _keep(this, {key: changed.get(key) for key in _differing(before, changed)})
            for name in names:
                self.applied(name, kind.__name__)

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

    def begin(self, module: Any) -> Way | None:
        """The first training forward of a root module is about to run."""
        for name, act in self._starts:
            try:
                act(module)
            except Exception as problem:
                if not self.forgiving:
                    raise
                self.refused(name, f"{type(problem).__name__}: {problem}")
        return enclose(self, module, self._wraps)


def own_step(optimizer: Any, kind: Any) -> bool:
    """Whether it steps in another way than the class of torch's it builds on."""
    return inspect.unwrap(type(optimizer).step) is not inspect.unwrap(kind.step)


def _groups(params: Any) -> list[dict[str, Any]]:
    """The script's own dicts of parameters and settings: torch fills them in, and keeps them."""
    given = params if isinstance(params, (list, tuple)) else ()
    return [one for one in given if isinstance(one, dict)]


def _put_back(group: dict[str, Any], content: dict[str, Any]) -> None:
    """As the script gave it; but parameters out of a generator stay the list they have become."""
    for key in group.keys() - content.keys() - {"param_names"}:
        del group[key]
    group.update({key: value for key, value in content.items() if key != "params"})


def _keep(optimizer: Any, settings: Arguments) -> None:
    """A checkpoint that was written without them does not undo these settings of an optimizer."""

    def keep(optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
        groups = [
            {**group, **{key: value for key, value in settings.items() if key in group}}
            for group in state["param_groups"]
        ]
        return {**state, "param_groups": groups}

    optimizer.register_load_state_dict_pre_hook(keep)


def _same(first: Arguments, second: Arguments) -> bool:
    return not _differing(first, second)


def _differing(first: Arguments, second: Arguments) -> set[str]:
    missing = object()
    keys = first.keys() | second.keys()
    return {key for key in keys if first.get(key, missing) is not second.get(key, missing)}


def _difference(before: Arguments, after: Arguments) -> str:
    changed = {k: v for k, v in after.items() if k not in before or before[k] is not v}
    return ", ".join(f"{key}={_short(value)}" for key, value in changed.items())


def _short(value: Any) -> str:
    """Numbers and words as they are; of larger things the kind."""
    plain = value is None or isinstance(value, (bool, int, float, str))
    return repr(value) if plain else type(value).__name__
