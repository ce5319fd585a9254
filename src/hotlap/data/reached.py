"""All that can be reached from a data set, to find what it must not share or must not move.

Attributes, containers, wrapped data sets, the functions it calls, what they remember and what they
take from the user's modules are looked at. Libraries are not imported: what they made is known by
the name of its module. What data sets of hotlap keep for themselves is left out: it is made for
threads and workers.
"""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import sys
import threading
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hotlap import origins

DEEPEST = 8
MOST, MOST_OF_ALL = 1000, 50_000  # entries of a container, and objects
# Clients of these are made for threads; the others are nothing that samples are read from.
CLIENTS = ("requests", "urllib3", "httpx", "aiohttp", "boto3", "botocore", "google", "fsspec")
ASIDE = (*CLIENTS, "logging", "asyncio", "threading", "_thread", "concurrent", "multiprocessing")
OURS, SOURCE = "hotlap", "_tiered_source"
KNOWN = frozenset((*sys.stdlib_module_names, *ASIDE, OURS, "torch", "torchvision", "numpy", "PIL"))
PLAIN = (str, bytes, bytearray, int, float, complex, type(None), range, types.ModuleType)
Named = Iterator[tuple[str, Any]]


def reached(dataset: Any) -> Named:
    """Each thing once, with the way to it; what is near comes first."""
    seen: dict[int, Any] = {}  # kept alive: another object must not get the same number
    coming = collections.deque([("", dataset, 0)])
    while coming and len(seen) < MOST_OF_ALL:
        where, value, depth = coming.popleft()
        if isinstance(value, PLAIN) or id(value) in seen:
            continue
        seen[id(value)] = value
        yield where.lstrip("."), value
        if depth < DEEPEST:
            inside = itertools.islice(_inside(value), MOST)
            coming += [(where + name, one, depth + 1) for name, one in inside]


def _inside(value: Any) -> Named:
    """What can be reached from it, by name."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", one) for key, one in value.items())
    elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        yield from ((f"[{at}]", one) for at, one in enumerate(value))
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield from (("", value.__self__), ("", value.__func__))
    elif isinstance(value, functools.partial):
        yield from (("", value.func), ("", value.args), ("", value.keywords))
    elif isinstance(value, (staticmethod, classmethod)):
        yield "", value.__func__
    elif isinstance(value, property):
        yield "", value.fget
    elif type(value).__name__ == "_lru_cache_wrapper":
        yield from (("", one) for one in gc.get_referents(value))
    elif (
        not isinstance(value, (type, threading.local)) and origins.library(type(value)) not in ASIDE
    ):
        yield from _of_object(value)


def _of_function(function: types.FunctionType) -> Named:
    if origins.library(function) in KNOWN:
        return
    code, known = function.__code__, function.__globals__
    names = dict.fromkeys(_names(code))
    yield from ((f".{name}", known[name]) for name in names if name in known)
    yield from _of_modules(names, known)
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    yield from ((f".{name}", one) for name, cell in cells for one in gc.get_referents(cell))
    yield from (("", one) for one in function.__defaults__ or ())


def _names(code: types.CodeType) -> Iterator[str]:
    """All that it takes from elsewhere; functions inside it and comprehensions have their own."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _names(one)


def _of_modules(names: Iterable[str], known: Mapping[str, Any], where: str = "") -> Named:
    """What code of these names takes from modules and classes of the user's own: `noise.source`."""
    for name in names:
        owner = known.get(name)
        if isinstance(owner, (types.ModuleType, type)) and is_the_users(owner):
            inside, there = vars(owner), f"{where}.{name}"
            yield from ((f"{there}.{one}", inside[one]) for one in names if one in inside)
            if not where:  # a module in a package, or a class in a module
                yield from _of_modules(names, inside, there)


def is_the_users(owner: types.ModuleType | type) -> bool:
    """Libraries are large, and what they keep is theirs."""
    name = origins.module(owner) if isinstance(owner, type) else owner.__name__
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    installed = any(folder in file for folder in ("site-packages", "dist-packages"))
    return not installed and name.partition(".")[0] not in KNOWN


def _of_object(value: Any) -> Named:
    if hasattr(type(value), "__array__"):  # mapped or not, an array is read from any place
        return
    own = origins.library(type(value)) == OURS
    for name, one in getattr(value, "__dict__", {}).items():
        if not own or not name.startswith("_") or name == SOURCE:
            yield f".{name}", one
    for kind in type(value).__mro__:
        if origins.library(kind) not in KNOWN:
            yield from ((f".{name}", getattr(value, name, None)) for name in _slots(kind))
            yield from ((f".{name}", one) for name, one in vars(kind).items())


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
