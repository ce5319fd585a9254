"""What runs in the closure of an optimizer is not its own work: it is told as in any other loop.

LBFGS calls it for each of its iterations, and Lightning runs the whole training step in it.
"""

from __future__ import annotations

import functools
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from hotlap.probes.timeline import OPTIMIZER, OTHER

if TYPE_CHECKING:
    from hotlap.probes.recorder import Recorder

# An object of another kind may be asked for more than to be called.
_PLAIN = (FunctionType, MethodType, functools.partial)

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def told_apart(recorder: Recorder, args: Any, kwargs: Any) -> Arguments | None:
    """The arguments of `step(optimizer, closure)` with a closure that leaves its phase; or None."""
    if len(args) > 1:
        if isinstance(args[1], _PLAIN):
            return (args[0], _outside(recorder, args[1]), *args[2:]), kwargs
    elif isinstance(kwargs.get("closure"), _PLAIN):
        return args, {**kwargs, "closure": _outside(recorder, kwargs["closure"])}
    return None


def _outside(recorder: Recorder, closure: Any) -> Any:
    @functools.wraps(closure)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder.enter(OTHER)
        try:
            result = closure(*args, **kwargs)
        except BaseException:
            recorder.leave(OTHER)
            recorder.leave(OPTIMIZER)  # it ends with its closure, and no hook is told
            raise
        recorder.leave(OTHER)
        return result

    return call
