"""What makes a cache that of one data set and no other.

It has to come out the same in every rank, worker and restart, so nothing here depends on where
objects lie in memory or on the order of a set; and different for sets that differ anywhere, so the
values a data set holds are looked into: the indices of a subset, the paths of a folder, tensors,
the settings of its transforms. Files it will open later are not. That is what the content of a few
samples is for, which the cache adds.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import torch

from hotlap.data.packing import CannotPack, pack

DEEPEST = 6  # data sets within data sets
LONGEST = 200_000  # entries of a list that are read; evenly chosen ones of longer lists
LARGEST = 1 << 24  # bytes of a tensor that are read; of larger ones some of each dimension
EACH = 64
Known = dict[str, Any]


def attributes(dataset: Any, within: str = "", depth: int = 0) -> Known:
    """What a data set holds, by name: plain values as they are, others by their digest."""
    found: Known = {}
    if isinstance(dataset, (list, tuple, range, Mapping)):
        found[f"{within}[]"] = digest(dataset)
    for name, value in sorted(_held(dataset).items()):
        path = f"{within}.{name}" if within else name
        if _has_settings(value) and depth < DEEPEST:
            found |= {path: _kind(value), **attributes(value, path, depth + 1)}
        elif value is None or type(value) in (bool, int, float, str):
            found[path] = value
        else:
            found[path] = digest(value)
    return found


def _held(value: Any) -> dict[str, Any]:
    slots = [one for kind in type(value).__mro__ for one in _listed(kind.__dict__.get("__slots__"))]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**held, **getattr(value, "__dict__", {})}


def _listed(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots or ())


def unchanged(before: Known, after: Known) -> Known:
    """Without what making samples changes: counters, caches, files opened when first needed."""
    return {name: value for name, value in after.items() if before.get(name, after) == value}


def key(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def digest(value: Any) -> str | None:
    """None for what is not looked into, such as files: open or not, the data is the same."""
    try:
        text = json.dumps(_shortened(value), default=_told)
    except (TypeError, ValueError, RecursionError):  # keys of other kinds, or a ring
        text = _kind(value)
    if text == "null":
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _shortened(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and len(value) > LONGEST:
        return [len(value), *value[:: -(-len(value) // LONGEST)]]
    return value


def _told(value: Any) -> Any:
    """What json cannot say by itself, in terms of what it can."""
    library = type(value).__module__.partition(".")[0]
    if isinstance(value, torch.Tensor) or library == "numpy":
        return _content(value)
    if library == "pandas" and hasattr(value, "to_numpy"):
        return [_kind(value), list(map(str, getattr(value, "columns", ()))), _rows(value)]
    if isinstance(value, range):
        return ["range", value.start, value.stop, value.step]
    if isinstance(value, (set, frozenset)):
        return sorted(str(digest(one)) for one in value)
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, (PurePath, enum.Enum, torch.dtype, torch.device)):
        return str(value)
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return _kind(value)
    return None if not _has_settings(value) else [_kind(value), dict(sorted(_held(value).items()))]


def _has_settings(value: Any) -> bool:
    """Data sets and transforms. Loggers, locks, files and the like have nothing to say here."""
    if isinstance(value, (type, list, tuple, dict, torch.Tensor)):
        return False
    library = type(value).__module__.partition(".")[0]
    if library in ("numpy", "pandas", "builtins"):
        return False
    return hasattr(type(value), "__getitem__") or callable(value)


def _content(value: Any) -> Any:
    """Of a tensor or array: all of it, or every so many-th along each dimension."""
    try:
        shape = list(getattr(value, "shape", ()))
        if getattr(value, "nbytes", 0) > LARGEST:
            value = value[tuple(slice(None, None, -(-length // EACH) or 1) for length in shape)]
        return [shape, hashlib.sha256(pack(value)).hexdigest()]
    except (CannotPack, RuntimeError):  # sparse, nested, of objects
        return [_kind(value), str(getattr(value, "dtype", ""))]


def _rows(table: Any) -> Any:
    return _shortened(table.to_numpy().tolist())


def _kind(value: Any) -> str:
    kind = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
    return f"{getattr(kind, '__module__', '')}.{kind.__qualname__}"
