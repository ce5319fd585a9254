"""Other random numbers for a script that seeds itself: how much chance alone moves its loss.

Baseline runs with seeds of their own give the guard its band. A script that asks for seed 42 gets
42 plus the shift, wherever it asks: torch, random, numpy. A `torch.Generator` keeps the seed it is
given: its type cannot be changed.
"""

from __future__ import annotations

import functools
import random
import sys
from numbers import Integral
from typing import Any


def shift(torch: Any, by: int) -> None:
    for owner in (torch, torch.random):
        _replace(owner, "manual_seed", by, below=2**64)
    for name in ("manual_seed", "manual_seed_all"):
        _replace(torch.cuda, name, by, below=2**64)
    _replace(random, "seed", by)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _replace(numpy.random, "seed", by, below=2**32)


def _replace(owner: Any, name: str, by: int, *, below: int | None = None) -> None:
    plain = getattr(owner, name, None)
    if plain is None:
        return

    def shifted(seed: Any) -> Any:
        if not isinstance(seed, Integral):  # None, or a text
            return seed
        moved = int(seed) + by
        return moved - below if below is not None and moved >= below else moved

    @functools.wraps(plain)
    def seeded(*args: Any, **kwargs: Any) -> Any:
        if args:
            return plain(shifted(args[0]), *args[1:], **kwargs)
        for key in {"seed", "a"} & kwargs.keys():
            kwargs[key] = shifted(kwargs[key])
        return plain(**kwargs)

    setattr(owner, name, seeded)
