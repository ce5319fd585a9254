"""A script's own data set comes back into its loader when the script changes it.

An optimization puts another data set into a loader, made from the script's as it was. A script that
sets something on its data set between epochs means what is trained on: from the next epoch on it is
its own again. Workers that persist see no change without an optimization either.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training

Outdated = Callable[[], str | None]  # why it may not stay


class Originals:
    """The data sets that an optimization has replaced, by what stands in for them."""

    def __init__(self, training: Training, name: str) -> None:
        self._training, self._name = training, name
        self._known: dict[int, tuple[Any, Any, Outdated]] = {}  # by id: a data set may not hash
        loader = training.torch.utils.data.DataLoader
        plain = loader._get_iterator

        @functools.wraps(plain)
        def get_iterator(this: Any) -> Any:
            self._look(this)
            return plain(this)

        loader._get_iterator = get_iterator

    def replaced(self, own: Any, other: Any, outdated: Outdated) -> None:
        self._known[id(other)] = (own, other, outdated)

    def stands_in(self, other: Any) -> bool:
        return id(other) in self._known

    def _look(self, loader: Any) -> None:
        own, other, outdated = self._known.get(id(loader.dataset), (None, None, None))
        if other is None or other is not loader.dataset or outdated is None:
            return
        why = outdated()
        if why is None:
            return
        del self._known[id(other)]
        vars(loader)["dataset"] = own  # the loader itself lets nobody set it
        if getattr(loader.sampler, "data_source", None) is other:
            loader.sampler.data_source = own
        self._training.ended(self._name, why)


def changed(what: str, owner: str = "data set") -> str:
    return f"the script changes `{what}` of its {owner} while it trains"


def unseen(what: str) -> str:
    return f"`{what}` of the data set holds more than can be compared between epochs"
