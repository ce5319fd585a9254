"""Data sets whose samples change with the epoch: they look fixed as long as it does not change."""

from __future__ import annotations

import contextlib
from typing import Any

from hotlap.data.fitting import spread_out
from hotlap.data.nesting import all_of
from hotlap.data.order import Drawn
from hotlap.data.randomness import restored

ASKED = 2  # samples


class NotCacheable(ValueError):
    """The samples are not the same each time, and where that begins was not found."""

    def __init__(self, why: str, move: str) -> None:
        super().__init__(f"{why}; {move}")
        self.why = why


def refuse_epochs(dataset: Any) -> None:
    """A cache would keep the samples of the first epoch."""
    _refuse_set_epoch(dataset)
    for at in spread_out(len(dataset), ASKED):
        index = Watched(at)
        with restored(), contextlib.suppress(Exception):  # it is told when it is asked for
            dataset[index]
        if index.asked:
            _refuse(dataset, "asks its indices for their `epoch`")


class Watched(Drawn):
    """An index that sees whether it is asked for its epoch."""

    asked = False

    @property
    def epoch(self) -> int:  # type: ignore[override]
        self.asked = True
        return 0


def _refuse_set_epoch(dataset: Any) -> None:
    for one in (*reversed(list(all_of(dataset))), dataset):  # itself also where it has no __dict__
        if callable(getattr(one, "set_epoch", None)):
            _refuse(one, "has `set_epoch`")


def _refuse(dataset: Any, what: str) -> None:
    name = type(dataset).__name__
    raise NotCacheable(
        f"{name} {what}: its samples change with the epoch, and a cache would keep those of the "
        "first",
        f"put the cache around what {name} reads from, and {name} around the cache",
    )
