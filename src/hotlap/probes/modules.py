"""The root modules: the outermost ones that hold what is being trained.

They are found once, by looking at the living objects at the first backward pass, and watched at
the same door `Module.compile` uses: an attribute of the instance, outside any compiled region and
left out of pickles and copies by torch itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.probes.recorder import Recorder

DOOR = "_compiled_call_impl"


def holding(torch: Any, trained: set[int]) -> list[Any]:
    """Every living module that holds one of the trained parameters, directly or below."""
    found = []
    for thing in gc.get_objects():
        try:
            if not isinstance(thing, torch.nn.Module):
                continue
            parameters = list(thing.parameters())
        except Exception:  # a half-built object, or one whose own code does not like to be asked
            continue
        if any(
            id(parameter) in trained if trained else parameter.requires_grad
            for parameter in parameters
        ):
            found.append(thing)
    return found


def outermost(modules: Iterable[Any]) -> list[Any]:
    modules = list(modules)
    inner = {id(child) for module in modules for child in list(module.modules())[1:]}
    return [module for module in modules if id(module) not in inner]


def children(modules: Iterable[Any], trained: set[int]) -> list[Any]:
    return [
        child
        for module in modules
        for child in module.children()
        if any(
            id(parameter) in trained if trained else parameter.requires_grad
            for parameter in child.parameters()
        )
    ]


def watch(torch: Any, module: Any, recorder: Recorder) -> None:
    if getattr(module.__dict__.get(DOOR), "_hotlap", False):
        return
    inner = module.__dict__.get(DOOR) or module._call_impl
    is_compiling = torch.compiler.is_compiling

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return inner(*args, **kwargs)
        return recorder.forward(module, inner, args, kwargs)

    call._hotlap = True  # type: ignore[attr-defined]
    module.__dict__[DOOR] = call
