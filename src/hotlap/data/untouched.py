"""Looking at samples leaves the data set as it was.

A file that is opened with the first sample is opened so that every worker has its own. One that was
opened before the fork they would share, and read each other's data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hotlap.data.nesting import INNER, all_of

Before = list[tuple[Any, dict[str, Any]]]


@contextmanager
def left_as_it_was(dataset: Any) -> Iterator[Before]:
    """What looking at samples sets on it, or on data sets inside it, is not there afterwards."""
    before = [(one, dict(vars(one))) for one in all_of(dataset)]
    try:
        yield before
    finally:
        for one, attributes in before:
            vars(one).clear()
            vars(one).update(attributes)


def put_back(copy: Any, before: Before, *, but: tuple[str, ...]) -> None:
    """The same for a copy that was made to differ: only what was nothing before is so again.

    `but` are attributes that the copy may have on top.
    """
    for (one, attributes), other in zip(before, all_of(copy), strict=False):
        if other is one or type(other) is not type(one):
            continue
        for name in set(vars(other)).difference(but, INNER):
            if name not in attributes:
                del vars(other)[name]
            elif attributes[name] is None:
                vars(other)[name] = None
