"""Hooks of modules that come and go while a model trains.

torch's compiler builds those in that are there when it compiles, and does not look again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
INLINES = "inline_inbuilt_nn_modules"  # how the compiler comes to see hooks of all modules


def changes(torch: Any) -> Callable[[], tuple[int, int]]:
    """Answers something else than before once any hook, of anything, was registered or removed."""
    handle = torch.utils.hooks.RemovableHandle
    plain, removed = handle.remove, 0

    @functools.wraps(plain)
    def remove(this: Any) -> None:
        nonlocal removed
        removed += 1
        plain(this)

    handle.remove = remove
    return lambda: (handle.next_id, removed)


def unseen(torch: Any) -> bool:
    """Whether there are hooks of all modules, and a compiler (torch 2.4's) leaves them out."""
    config = torch._dynamo.config
    out_of_use = getattr(getattr(config, "_config", {}).get(INLINES), "deprecated", False)
    if out_of_use or getattr(config, INLINES, True):  # reading it warns where it is out of use
        return False
    return any(getattr(torch.nn.modules.module, "_global" + kind) for kind in KINDS)


def of(torch: Any, module: Any) -> frozenset[int]:
    """The hooks that a call of the module runs, by the ids of their handles, which are unique."""
    everywhere = torch.nn.modules.module
    found = [getattr(everywhere, "_global" + kind) for kind in KINDS]
    found += [getattr(one, kind) for one in module.modules() for kind in KINDS]
    return frozenset(handle for hooks in found for handle in hooks)
