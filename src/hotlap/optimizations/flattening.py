"""Weights and gradients that a script takes apart with `view`, which channels-last weights refuse.

A copy in its place would be right to read and wrong to write to, so the layout stays torch's there.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import Any

from hotlap.optimizations import sources

WHY = "the script calls view on weights or gradients at {}; reshape or flatten would do"
WORDS = {
    *("weight", "weights", "param", "params", "parameter", "parameters", "named_parameters"),
    *("grad", "grads", "gradient", "gradients"),
}
SAFE = {"contiguous", "reshape", "flatten", "ravel", "size", "stride"}


def in_source() -> str | None:
    """Where the script, or a module of its own that is loaded, does so: a file and a line."""
    return sources.first(_line)


@functools.cache
def _line(path: str) -> int | None:
    tree = sources.parsed(path, holding=".view(")
    return min(_lines(tree), default=None) if tree else None


def _lines(tree: ast.AST) -> Iterator[int]:
    names = WORDS | _bound(tree, WORDS)
    names |= _bound(tree, names, loops_alone=True)
    for one in ast.walk(tree):
        if not isinstance(one, ast.Call) or not isinstance(one.func, ast.Attribute):
            continue
        if one.func.attr == "view" and not _as_type(one):
            words = set(_chain(one.func.value))
            if words & names and not words & SAFE:
                yield one.lineno


def _bound(tree: ast.AST, words: set[str], *, loops_alone: bool = False) -> set[str]:
    """Names that an assignment gives to what is called so, or a loop to what is in it."""
    found: set[str] = set()
    for one in ast.walk(tree):
        if isinstance(one, (ast.For, ast.comprehension)):
            targets = [one.target]
            called = {word for part in ast.walk(one.iter) for word in _words(part)}
        elif isinstance(one, ast.Assign) and not loops_alone:
            targets, called = one.targets, set(_chain(_inside(one.value)))
        else:
            continue
        if words & called:
            parts = (part for target in targets for part in ast.walk(target))
            found |= {part.id for part in parts if isinstance(part, ast.Name)}
    return found - {"self", "_"}


def _inside(value: ast.expr) -> ast.expr:
    """Of a list, what it is made of."""
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        return value.elt
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.args:
        return value.args[0] if value.func.id in ("list", "tuple") else value
    return value


def _chain(value: ast.AST) -> Iterator[str]:
    """`p`, `grad` and `clone` of `p.grad.clone()[0]`: what is called, not what it is given."""
    while True:
        yield from _words(value)
        inner: Any = getattr(value, "func", None) or getattr(value, "value", None)
        if not isinstance(inner, ast.AST):
            return
        value = inner


def _words(part: ast.AST) -> tuple[str, ...]:
    if isinstance(part, ast.Name):
        return (part.id,)
    return (part.attr,) if isinstance(part, ast.Attribute) else ()


def _as_type(call: ast.Call) -> bool:
    """`view(torch.int32)` takes nothing apart."""
    return len(call.args) == 1 and isinstance(call.args[0], ast.Attribute) and not call.keywords
