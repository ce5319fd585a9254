"""Calls inside of torch.func's transforms, as vmap and grad for the gradients of each sample.

What they hand to a model are no plain tensors: not everything works on them, and compiling does
not. Such a call is left as the script has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def inside(torch: Any) -> Callable[[], bool]:
    """Whether such a transform is at work; it is asked in every forward pass."""
    innermost = torch._C._functorch.peek_interpreter_stack
    is_compiling = torch.compiler.is_compiling
    return lambda: not is_compiling() and innermost() is not None


def asks(frame: Any) -> bool:
    """Whether torch.func itself has called, which makes a graph for every gradient it takes."""
    return str(frame.f_globals.get("__name__", "")).startswith("torch._functorch.")
