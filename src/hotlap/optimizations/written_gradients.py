"""Gradients that a script writes to: scaled, clipped or set to zero by hand, or with noise added.

What is written through `.data` leaves no trace that could be seen while training.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import Any

from hotlap.optimizations import leaves, sources

WHY = "the script writes to gradients at {}"
Noted = tuple[Any, Any, int, float | None]  # a parameter, its gradient, and what tells a change
HARMLESS = {"detach_", "requires_grad_", "share_memory_"}


def noted(optimizers: list[Any], *, closely: bool = False) -> list[Noted]:
    trained = [one for one in leaves.held(optimizers).values() if one.grad is not None]
    return [
        (one, one.grad, one.grad._version, _norm(one.grad) if closely else None) for one in trained
    ]


def changed(parameter: Any, gradient: Any, version: int, norm: float | None) -> bool:
    replaced = parameter.grad is not None and parameter.grad is not gradient
    if replaced or gradient._version != version:
        return True
    return norm is not None and norm == norm and _norm(gradient) != norm


def _norm(gradient: Any) -> float:
    return float(gradient.detach().norm())


def in_source() -> str | None:
    """Where the script, or a module of its own that is loaded, does so: a file and a line."""
    return sources.first(_line)


@functools.cache
def _line(path: str) -> int | None:
    tree = sources.parsed(path, holding=".grad")
    return min(_lines(tree), default=None) if tree else None


def _lines(tree: ast.AST) -> Iterator[int]:
    held = set(_held(tree))
    for one in ast.walk(tree):
        if any(_is_gradients(written, held) for written in _written(one)):
            yield one.lineno  # type: ignore[attr-defined]


def _held(tree: ast.AST) -> Iterator[str]:
    """Names of gradients: `g` of `g = p.grad.data`."""
    for one in ast.walk(tree):
        if not isinstance(one, ast.Assign) or not isinstance(one.value, ast.Attribute):
            continue
        if _is_gradients(one.value, set()):
            yield from (target.id for target in one.targets if isinstance(target, ast.Name))


def _written(one: ast.AST) -> list[ast.AST]:
    """What a part of the source writes to in place."""
    if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
        name = one.func.attr
        in_place = name.endswith("_") and not name.endswith("__") and name not in HARMLESS
        return [one.func.value] if in_place else []
    if isinstance(one, ast.AugAssign):
        return [one.target]
    if not isinstance(one, ast.Assign) or _is_none(one.value):  # as `p.grad = None` clears them
        return []
    return [target for target in one.targets if not isinstance(target, ast.Name)]


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _is_gradients(value: Any, held: set[str]) -> bool:
    """Whether `grad` is in `p.grad.data[0]`, or a name that holds one."""
    while isinstance(value, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(value, ast.Attribute) and value.attr == "grad":
            return True
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Name) and value.id in held
