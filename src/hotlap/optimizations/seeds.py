"""Other random numbers for a script that seeds itself: how much chance alone moves its loss.

Baseline runs with seeds of their own give the guard its band. A script that asks for seed 42 gets
42 plus the shift, wherever it asks: torch, random, numpy.
"""

from __future__ import annotations

import functools
import random
import sys
from typing import Any


def shift(torch: Any, by: int) -> None:
    for owner, name in ((torch, "manual_seed"), (torch.cuda, "manual_seed_all"), (random, "seed")):
        _replace(owner, name, by)
    _replace(torch.Generator, "manual_seed", by)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _replace(numpy.random, "seed", by)


def _replace(owner: Any, name: str, by: int) -> None:
    plain = getattr(owner, name, None)
    if plain is None:
        return

    @functools.wraps(plain)
    def seeded(*args: Any, **kwargs: Any) -> Any:
        args = tuple(value + by if type(value) is int else value for value in args)
        kwargs = {key: value + by if type(value) is int else value for key, value in kwargs.items()}
        return plain(*args, **kwargs)

    try:
        setattr(owner, name, seeded)
    except (AttributeError, TypeError):  # a type that cannot be changed keeps its seed
        return
