"""Which data sets a data set hands out the samples of: Subset, ConcatDataset, wrappers of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

INNER = ("dataset", "datasets")
DEEPEST = 8


def inside(dataset: Any) -> list[Any]:
    """Those directly inside it."""
    held = getattr(dataset, "__dict__", {})
    one, several = (held.get(name) for name in INNER)
    found = several if isinstance(several, (list, tuple)) else ()
    return [*([] if one is None else [one]), *found]


def all_of(dataset: Any, depth: int = 0) -> Iterator[Any]:
    """It, and all those inside it."""
    if not hasattr(dataset, "__dict__") or isinstance(dataset, type) or depth > DEEPEST:
        return
    yield dataset
    for one in inside(dataset):
        yield from all_of(one, depth + 1)
