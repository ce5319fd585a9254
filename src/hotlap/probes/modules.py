"""The root modules: the outermost ones that hold what is being trained.

They are found once, by looking at the living objects at the first backward pass, and watched at
the same door `Module.compile` uses: an attribute of the instance, outside any compiled region and
left out of pickles and copies by torch itself.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from hotlap.probes.exchanges import Exchanges

if TYPE_CHECKING:
    from hotlap.probes.recorder import Recorder

DOOR = "_compiled_call_impl"
MOST_SEARCHES = 8
MOST_NAMES = 8
MOST_LAYERS = 40
OF_THE_COMPILER = "compile_subgraph_reason"  # what its graphs have; up to torch 2.4 weights as well


class Makeup(NamedTuple):
    """What the root modules are made of."""

    names: list[str]
    layers: dict[str, int]
    types: dict[str, int]  # of what is trained


def _makeup(roots: list[Any]) -> Makeup:
    layers: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for root in roots:
        layers.update(type(part).__name__ for part in root.modules())
        types.update(
            str(parameter.dtype).removeprefix("torch.")
            for parameter in root.parameters()
            if parameter.requires_grad
        )
    return Makeup(_names(roots), dict(layers.most_common(MOST_LAYERS)), dict(types))


def _names(roots: list[Any]) -> list[str]:
    return [type(root).__name__ for root in roots[:MOST_NAMES]]


class Roots:
    """The root modules of what is trained, found at the first backward pass."""

    def __init__(self, torch: Any, recorder: Recorder) -> None:
        self._torch = torch
        self._recorder = recorder
        self._searches = 0
        self._found_at = 0
        self._found: list[Any] = []  # weak references: a dropped model must be free to go
        self._makeup = Makeup([], {}, {})
        self.called = False
        self.exchanges = Exchanges(torch)

    @property
    def modules(self) -> list[Any]:
        return [
            module for module in (reference() for reference in self._found) if module is not None
        ]

    def call(self, module: Any) -> None:
        """One of them is called to train."""
        self.called = True
        self.exchanges.called(module, self._recorder.steps)

    def names(self) -> list[str]:
        return _names(self.modules) or self._makeup.names

    def makeup(self) -> Makeup:
        """What they are, or were: scripts let go of their model, or load another, at the end."""
        living = self.modules
        if living:
            self._makeup = _makeup(living)
        return self._makeup

    def in_training(self) -> bool:
        """Whether none is in evaluation mode."""
        return all(module.training for module in self.modules)

    def parameters(self) -> Iterable[Any]:
        for module in self.modules:
            yield from module.parameters()

    def concerns(self, module: Any) -> bool:
        """Whether a module is a root, has one below it, or is what a root merely wraps."""
        wrapped = [
            root.__dict__.get("_modules", {}).get(name)
            for root in self.modules
            for name in ("module", "_orig_mod")
        ]
        if any(module is one for one in (*self.modules, *wrapped)):
            return True
        return any(root is part for part in module.modules() for root in self.modules)

    def find_once(self) -> bool:
        """Looks for them, a few times at most: a script may build its model late.

        Returns whether it looked in place of a model that is gone: that takes a while.
        """
        if self._found and self._found[0]() is not None:  # most often; the rest takes longer
            return False
        if self.modules or self._searches >= MOST_SEARCHES:
            return False
        self._searches += 1
        self._found_at = self._recorder.steps
        had_one = bool(self._found)
        self._watch(outermost(holding(self._torch, self._trained()))[:64])
        return had_one

    def search_again(self) -> bool:
        """Another optimizer steps: it may train a model that is not known yet.

        Returns whether it looked.
        """
        known = {id(parameter) for parameter in self.parameters()}
        if self._trained() <= known or self._searches >= MOST_SEARCHES:
            return False
        self._searches += 1
        self._watch(outermost(holding(self._torch, self._trained()))[:64])
        return True

    def descend_unless_called(self) -> None:
        """A whole step without a call: these are mere containers, so their parts are watched."""
        if self.called or not self.modules or self._recorder.steps < self._found_at + 2:
            return
        below = children(self.modules, self._trained())[:256]
        if below:
            self._watch(below)

    def _trained(self) -> set[int]:
        return {id(parameter) for parameter in self._recorder.optimizers.parameters()}

    def _watch(self, modules: list[Any]) -> None:
        self._found = [weakref.ref(module) for module in modules]
        with contextlib.suppress(Exception):  # a model whose own code does not like to be asked
            self.makeup()
        if self._recorder.hooks.aside:  # they are watched when the hooks come back
            return
        for module in modules:
            watch(self._torch, module, self._recorder)


def holding(torch: Any, trained: set[int]) -> list[Any]:
    """Every living module that holds one of the trained parameters, directly or below."""
    found: dict[int, Any] = {}
    hidden = _in_sight() if gc.get_freeze_count() else []
    # Unpacked into a new list they would hold that list too, and live on with it as a cycle.
    for thing in chain(gc.get_objects(), hidden):
        try:
            if issubclass(type(thing), torch.nn.Module) and holds(thing, trained):
                found[id(thing)] = thing
        except Exception:  # a half-built object, or one whose own code does not like to be asked
            continue
    return list(found.values())


def _in_sight() -> list[Any]:
    """What the running functions and the main module hold: gc.freeze() hides it from gc.

    Not asked for without need: until Python 3.13 a function that was asked for its locals keeps
    them all until it ends, with a model that it has let go of.
    """
    things = list(vars(sys.modules["__main__"]).values())
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        things += frame.f_locals.values()
    return things


def holds(module: Any, trained: set[int]) -> bool:
    """Whether it has a trained parameter; without any optimizer, one that could be trained."""
    return any(
        id(parameter) in trained if trained else parameter.requires_grad
        for parameter in module.parameters()
    )


def outermost(modules: Iterable[Any]) -> list[Any]:
    """Those that are in no other one. A compiler's graph is none, nor what is only in there."""
    modules = list(modules)
    graphs = [module for module in modules if OF_THE_COMPILER in vars(module)]
    inner = {id(child) for module in modules for child in list(module.modules())[1:]}
    inner.update(map(id, graphs))
    found = [module for module in modules if id(module) not in inner]
    if found or not graphs:
        return found
    return outermost([module for module in modules if OF_THE_COMPILER not in vars(module)])


def children(modules: Iterable[Any], trained: set[int]) -> list[Any]:
    return [child for module in modules for child in module.children() if holds(child, trained)]


class Door:
    """Stands where a compiled call would: tells the recorder, then calls what was there.

    A copy or a pickle of the module must not carry it along (it would call the original): it
    becomes None there, which is what an unwatched module has.
    """

    def __init__(self, torch: Any, module: Any, recorder: Recorder) -> None:
        self.before = module.__dict__.get(DOOR)  # what `module.compile()` had put there
        self._inner = self.before or module._call_impl
        self._module = module
        self._recorder = recorder
        self._is_compiling = torch.compiler.is_compiling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_compiling() or not self._recorder.passes.timeline.watching:
            return self._inner(*args, **kwargs)
        return self._recorder.forward(self._module, self._inner, args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def unwatch(module: Any) -> None:
    door = module.__dict__.get(DOOR)
    if isinstance(door, Door):
        if door.before is None:
            del module.__dict__[DOOR]
        else:
            module.__dict__[DOOR] = door.before


def watch(torch: Any, module: Any, recorder: Recorder) -> None:
    if not isinstance(module.__dict__.get(DOOR), Door):
        module.__dict__[DOOR] = Door(torch, module, recorder)
