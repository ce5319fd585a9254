"""The classic experiments on training: one file per study, and the list of them."""

from __future__ import annotations

import difflib

from hotlap.errors import UsageError
from hotlap.studies import (
    batchnorm,
    batchsize,
    cache,
    devices,
    ladder,
    memory,
    optimizers,
    scaling,
    storage,
    workers,
)
from hotlap.studies.study import Study

STUDIES: tuple[Study, ...] = (  # in the order --list shows them
    ladder,
    workers,
    devices,
    optimizers,
    batchnorm,
    memory,
    cache,
    storage,
    batchsize,
    scaling,
)


def named(name: str) -> Study:
    for study in STUDIES:
        if name == study.NAME:
            return study
    names = [study.NAME for study in STUDIES]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(names)}."
    raise UsageError(f"There is no study {name}. {hint}")
