"""The root modules: the outermost modules that are called to train what is optimized."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hotlap.probes.modules import DOOR

if TYPE_CHECKING:
    from hotlap.optimizations.training import Call, Training

MOST_ROOTS = 64
MOST_CALLS = 500  # that train, after the last root was found; what comes later is left as it is


def enclose(
    training: Training, module: Any, wraps: list[tuple[str, Callable[[Any, Call], Call]]]
) -> Way | None:
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
    if call is inner:
        return None
    module.__dict__[DOOR] = way = Way(call, inner)
    return way


class Way:
    """The changed call of a module. A copy or a pickle of the module does not carry it along."""

    def __init__(self, call: Call, plain: Call) -> None:
        self._call = call
        self._plain = plain

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def shut(self) -> None:
        """A module around this one has a way of its own."""
        self._call = self._plain

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


class Root:
    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module)
        self.way: Way | None = None


class Search:
    """Every call of any module passes here until all trained parameters have been seen in a root.

    While something trained is called, and after, torch's own `Module.__call__` is in its place.
    Modules that train nothing go straight on: exchanging a method of `Module` updates each of its
    many subclasses, and transforms of images are modules too. A new optimizer starts the search
    again.
    """

    def __init__(self, torch: Any, training: Training) -> None:
        self._torch = torch
        self._training = training
        self._plain: Any = None
        self._looking: Any = None
        self._roots: list[Root] = []
        self._lock = threading.Lock()
        self._over = False
        self._calls = 0
        self._untrained: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._held = 0  # parameters that were trained when those were seen

    def begin(self) -> None:
        if self._plain is None:
            self._plain = self._torch.nn.Module.__call__
            self._looking = self._make()
        self._over, self._calls = False, 0
        self._untrained.clear()
        self._exchange(self._plain, self._looking)

    def _make(self) -> Any:
        search, plain = self, self._plain
        is_compiling = self._torch.compiler.is_compiling
        worker = self._torch.utils.data.get_worker_info

        @functools.wraps(plain)
        def call(this: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return plain(this, *args, **kwargs)
            if worker() is not None:  # a process that loads data: nothing is trained here
                search._over = True
                search._exchange(call, plain)
            if search._over or not search._trains(this):
                return plain(this, *args, **kwargs)
            search._exchange(call, plain)
            try:
                search._look_at(this)
                return plain(this, *args, **kwargs)
            finally:
                if not search._over:
                    search._exchange(plain, call)

        return call

    def _exchange(self, there: Any, instead: Any) -> None:
        """Something else that was put there in the meantime stays."""
        if self._torch.nn.Module.__call__ is there:
            self._torch.nn.Module.__call__ = instead

    def _trains(self, module: Any) -> bool:
        """Whether this call can train something that an optimizer holds."""
        inside = module.__dict__
        if not inside.get("_parameters") and not inside.get("_modules"):
            return False
        if not module.training or not self._torch.is_grad_enabled():
            return False
        held = self._training.parameters()
        if len(held) != self._held:
            self._untrained.clear()
            self._held = len(held)
        if self._untrained.get(id(module)) is module:
            return False
        parameters = list(module.parameters())
        lazy = self._torch.nn.parameter.UninitializedTensorMixin
        if any(isinstance(one, lazy) for one in parameters):
            return False
        if held.isdisjoint(map(id, parameters)):
            self._untrained[id(module)] = module
            return False
        return True

    def _look_at(self, module: Any) -> None:
        held = self._training.parameters()
        found = self._new_root(module)
        if found is not None:
            found.way = self._training.begin(module)
        seen = {id(one) for root in self._modules() for one in root.parameters()}
        enough = len(self._roots) >= MOST_ROOTS or self._calls > MOST_CALLS
        self._over = enough or held <= seen

    def _new_root(self, module: Any) -> Root | None:
        with self._lock:  # another thread may be calling the same module
            self._calls += 1
            if any(module is part for root in self._modules() for part in root.modules()):
                return None
            self._calls = 0
            inner = {id(part) for part in module.modules()}
            for root in self._roots:
                if root.way is not None and id(root.module()) in inner:
                    root.way.shut()  # a part of this one that was called by itself before
            found = Root(module)
            self._roots.append(found)
            return found

    def _modules(self) -> list[Any]:
        return [one for one in (root.module() for root in self._roots) if one is not None]


def unwrap(torch: Any, module: Any) -> Any:
    """The module that a wrapper passes its calls to as they are."""
    single = isinstance(module, torch.nn.DataParallel) and len(module.device_ids) <= 1
    if single or isinstance(module, torch.nn.parallel.DistributedDataParallel):
        return module.module
    return module
