"""What makes a cache that of one data set and no other.

It has to come out the same in every rank, worker and restart, so nothing here depends on where
objects lie in memory or on the order of a set; and different for sets that differ anywhere, so the
values a data set holds are looked into, all of them: the indices of a subset, the paths of a
folder, tensors, options, the settings of its transforms. Files it will open later are not. That is
what the content of a few samples is for, which the cache adds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from hotlap.data.telling import Telling, held, is_opaque, kind

DEEPEST = 6  # data sets within data sets
LONGEST = 200  # characters of a text, or bits of a number, that is told as it is
PIECE = 10_000  # entries of a list that are written down at once
Known = dict[str, Any]


def attributes(
    dataset: Any, within: str = "", depth: int = 0, outer: tuple[int, ...] = ()
) -> Known:
    """What a data set holds, by name: short values as they are, others by their digest."""
    found: Known = {}
    outer = (*outer, id(dataset))
    if isinstance(dataset, (list, tuple, range, Mapping)):
        found[f"{within}[]"] = digest(dataset)
    for name, value in sorted(held(dataset).items()):
        path = f"{within}.{name}" if within else name
        if id(value) in outer:
            found[path] = f"one that it is in: {kind(value)}"
        elif not is_opaque(value) and depth < DEEPEST:
            found |= {path: kind(value), **attributes(value, path, depth + 1, outer)}
        else:
            found[path] = value if _is_short(value) else digest(value)
    return found


def _is_short(value: Any) -> bool:
    if type(value) is str:
        return len(value) <= LONGEST
    if type(value) is int:
        return value.bit_length() <= LONGEST
    return value is None or type(value) in (bool, float)


def unchanged(before: Known, after: Known) -> Known:
    """Without what making samples changes: counters, caches, files opened when first needed."""
    return {name: value for name, value in after.items() if before.get(name, after) == value}


def key(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def digest(value: Any) -> str | None:
    """None for what is not looked into, such as files: open or not, the data is the same."""
    try:
        return _sum(_texts(value, Telling()))
    except TypeError:  # keys that json does not know
        tell = Telling()
        again = _texts(_keyed(value), lambda one: _keyed(tell(one)))
    except (ValueError, RecursionError):  # a ring, or a number of thousands of digits
        again = iter([kind(value)])
    try:
        return _sum(again)
    except (TypeError, ValueError, RecursionError):
        return _sum(iter([kind(value)]))


def _sum(texts: Iterator[str]) -> str | None:
    whole = hashlib.sha256()
    for text in texts:
        if text == "null":
            return None
        whole.update(text.encode("utf-8", "surrogatepass"))
    return whole.hexdigest()[:16]


def _texts(value: Any, tell: Any) -> Iterator[str]:
    """In pieces, where it is long. Rings are found by whoever tells."""
    if isinstance(value, tuple):  # json writes it as a list
        yield "tuple"
    if not isinstance(value, (list, tuple)) or len(value) <= PIECE:
        yield json.dumps(value, default=tell, check_circular=False)
        return
    plain: Any = list if isinstance(value, list) else tuple  # as one of its own may do anything
    for at in range(0, plain.__len__(value), PIECE):
        piece = plain.__getitem__(value, slice(at, at + PIECE))
        yield json.dumps(piece, default=tell, check_circular=False)


def _keyed(value: Any) -> Any:
    """With the keys of dicts as values: those may be anything."""
    if isinstance(value, dict):
        return ["dict", [[_keyed(name), _keyed(one)] for name, one in value.items()]]
    if isinstance(value, (list, tuple)):
        return [_keyed(one) for one in value]
    return value
