"""Which library a type is of."""

from __future__ import annotations

from typing import Any


def module(kind: Any) -> str:
    """Cython's functions have types whose `__module__` is no name, but a way to read one."""
    name = getattr(kind, "__module__", None)
    return name if isinstance(name, str) else ""


def library(kind: Any) -> str:
    return module(kind).partition(".")[0]
