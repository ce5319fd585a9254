"""Where modules may draw random numbers from: what they hold, and what their code names."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import nn

from hotlap import origins
from hotlap.generators import Generator, generator, is_generator

DEPTH = 3  # of dicts and lists that are looked through
FURTHER = 4  # from a module's own code to what that calls, and on
FOREIGN = ("torch", "numpy", "random", "builtins")
WRAPPERS = (staticmethod, classmethod, types.MethodType)


def own_generators(modules: Iterable[nn.Module]) -> list[Generator]:
    """Those that modules hold, or that their code names; torch's own modules have none."""
    search = _Search()
    for module in modules:
        if not is_torchs(type(module)):
            search.module(module)
    return [generator(one) for one in search.found.values()]


def is_torchs(kind: Any) -> bool:
    return bool(origins.module(kind).startswith("torch.nn."))


class _Search:
    """Goes from values to the code behind them, and from code to the values it names."""

    def __init__(self) -> None:
        self.found: dict[int, Any] = {}
        self._kinds: dict[type, frozenset[str]] = {}
        self._seen: dict[int, Any] = {}

    def module(self, module: nn.Module) -> None:
        names = self._kind(type(module), FURTHER)
        for value in _flat(vars(module).values(), DEPTH):
            self._value(value, names, FURTHER)

    def _kind(self, kind: type, further: int) -> frozenset[str]:
        """The methods and attributes of a class; what its code names."""
        if kind not in self._kinds:
            own = _members(kind)
            names = self._kinds[kind] = _named_by(own)
            for value in _flat(own, DEPTH):
                self._value(value, names, further)
        return self._kinds[kind]

    def _value(self, value: Any, names: frozenset[str], further: int) -> None:
        """A value that code with these names can reach."""
        if is_generator(value):
            self.found[id(value)] = value
        elif (function := _function(value)) is not None:
            self._code(function, further)
        elif further and not isinstance(value, nn.Module):
            for one in _flat(_attributes(value, names), DEPTH):
                self._value(one, names, further - 1)

    def _code(self, function: types.FunctionType, further: int) -> None:
        if not further or id(function) in self._seen or _is_foreign(function.__module__):
            return
        self._seen[id(function)] = function
        names = _names(function.__code__)
        around = function.__globals__
        given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        values = [around[name] for name in names if name in around]
        for value in _flat((*values, *_enclosed(function), *given), DEPTH):
            self._value(value, names, further - 1)


def _flat(values: Iterable[Any], depth: int) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from _flat(value.values(), depth - 1) if depth else ()
        elif isinstance(value, (list, tuple, set)):
            yield from _flat(value, depth - 1) if depth else ()
        else:
            yield value


def _function(value: Any) -> types.FunctionType | None:
    """What a method, a property or a partial call runs."""
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, WRAPPERS):
        value = value.__func__
    return value if isinstance(value, types.FunctionType) else None


def _members(kind: type) -> list[Any]:
    return [one for base in kind.__mro__ if _is_own(base) for one in vars(base).values()]


def _named_by(members: Iterable[Any]) -> frozenset[str]:
    functions = (one for one in map(_function, members) if one is not None)
    return frozenset().union(*(_names(one.__code__) for one in functions))


def _attributes(value: Any, names: frozenset[str]) -> Iterator[Any]:
    """Those of an object, a class or a Python module, without running code of theirs."""
    places: tuple[Mapping[str, Any], ...]
    if isinstance(value, types.ModuleType):
        places = () if _is_foreign(value.__name__) else (vars(value),)
    else:
        kind = value if isinstance(value, type) else type(value)
        if _is_foreign(origins.module(kind)):
            return
        own = getattr(value, "__dict__", {}) if kind is not value else {}
        places = (own, *(vars(base) for base in kind.__mro__ if _is_own(base)))
        names |= _named_by(_members(kind))  # its methods may have it as self
    for place in places:
        yield from (place[name] for name in names if name in place)


def _enclosed(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue


def _is_own(kind: type) -> bool:
    return kind not in nn.Module.__mro__ and not is_torchs(kind)


def _is_foreign(name: str | None) -> bool:
    return (name or "").partition(".")[0] in FOREIGN


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> frozenset[str]:
    """Also those of the functions and comprehensions inside."""
    inside = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return frozenset(code.co_names).union(*map(_names, inside))
