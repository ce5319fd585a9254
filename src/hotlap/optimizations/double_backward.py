"""Gradients of gradients, as a gradient penalty takes them: a compiled model does not have them.

torch says so only at the second backward pass, when it is too late to go on without compiling.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable
from typing import Any

from hotlap.optimizations import functorch, sources

ARGUMENT = "create_graph"
WHY = "the script takes gradients of gradients{}, which compiled models do not have"


def in_source() -> str | None:
    """Where the script, or a module of its own that is loaded, asks for them: a file and a line."""
    return sources.first(_line)


@functools.cache
def _line(path: str) -> int | None:
    tree = sources.parsed(path, holding=ARGUMENT)
    given = (one for one in ast.walk(tree) if isinstance(one, ast.keyword)) if tree else ()
    lines = [one.value.lineno for one in given if one.arg == ARGUMENT and not _off(one.value)]
    return min(lines, default=None)


def _off(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def watch(torch: Any, told: Callable[[], None]) -> None:
    """`told` is called when a backward pass is asked to make a graph, before it does.

    Those of torch.func do not count: a model that is called inside of it is not compiled.
    """
    for name, place in (("backward", 3), ("grad", 4)):
        setattr(torch.autograd, name, _telling(getattr(torch.autograd, name), place, told))


def _telling(plain: Any, place: int, told: Callable[[], None]) -> Any:
    @functools.wraps(plain)
    def go_back(*args: Any, **kwargs: Any) -> Any:
        asked = kwargs.get(ARGUMENT) or (len(args) > place and args[place])
        if asked and not functorch.asks(sys._getframe(1)):
            told()
        return plain(*args, **kwargs)

    return go_back


def likely(torch: Any, args: Any, kwargs: Any) -> bool:
    """Whether a model is called with an input whose own gradient is taken: a penalty may follow."""
    return any(
        isinstance(one, torch.Tensor) and one.requires_grad and one.grad_fn is None
        for one in (*args, *kwargs.values())
    )
