"""What is set on a data set, or on what it holds, each time it makes a sample.

A transform may keep what it has drawn for a sample on itself, and look at it again for the next
part of the same sample: a mask is flipped as its image was. Threads would find what another one has
put there. Values tell little of that, as the same is often drawn twice: so it is watched that
something is set, whatever it is.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hotlap import origins
from hotlap.data.reached import ASIDE, OURS, reached

SET = "__setattr__"
MADE_IN_PYTHON = 1 << 9  # of a class's flags
NOT_ASKED = frozenset((*sys.stdlib_module_names, *ASIDE, OURS, "numpy"))
Named = dict[int, tuple[str, Any]]  # the objects are kept alive: no other may get their number


@contextmanager
def noted(dataset: Any) -> Iterator[list[str]]:
    """The names of what is set inside the block, of all that can be reached from the data set."""
    objects: Named = {
        id(value): (where, value) for where, value in reached(dataset) if _is_asked(value)
    }
    found: list[str] = []
    kinds = dict.fromkeys(type(value) for _, value in objects.values())
    plain = {kind: getattr(kind, SET) for kind in kinds}
    before = {kind: vars(kind).get(SET) for kind in kinds}
    try:
        for kind in kinds:
            with contextlib.suppress(TypeError, AttributeError):  # a class that lets nobody do so
                setattr(kind, SET, _noting(plain[kind], objects, found))
        yield found
    finally:
        for kind, own in before.items():
            with contextlib.suppress(TypeError, AttributeError):
                if own is None:
                    delattr(kind, SET)
                else:
                    setattr(kind, SET, own)


def _is_asked(value: Any) -> bool:
    """Transforms and data sets: not tensors, tables, and what cannot be watched."""
    kind: Any = type(value)
    if isinstance(value, (type, types.FunctionType)) or origins.library(kind) in NOT_ASKED:
        return False
    return kind.__flags__ & MADE_IN_PYTHON != 0 and not hasattr(kind, "__array__")


def _noting(plain: Callable[..., None], objects: Named, found: list[str]) -> Callable[..., None]:
    @functools.wraps(plain)
    def put(this: Any, name: str, value: Any) -> None:
        if id(this) in objects:
            found.append(f"{objects[id(this)][0]}.{name}".lstrip("."))
        plain(this, name, value)

    return put
