"""Millions of paths in two tensors.

A list of strings is copied page by page into every forked worker, because reading a string writes
its reference count. Two tensors are only read: forked workers share them, and spawned ones get
them through shared memory.
"""

from __future__ import annotations

import operator
import os
from array import array
from collections.abc import Iterable
from typing import Any

import torch

ENCODING = "utf-8", "surrogateescape"  # as file names are


class Paths:
    """A sequence of strings that never change."""

    def __init__(self, paths: Iterable[Any]) -> None:
        if isinstance(paths, (str, bytes)):
            raise TypeError(f"paths is {paths!r}, a single one; it is a sequence of them")
        try:
            each = iter(paths)
        except TypeError:
            raise TypeError(f"paths is {paths!r}; it is a sequence of strings") from None
        text, ends = bytearray(), array("q", [0])
        for path in each:
            text += plain(path).encode(*ENCODING)
            ends.append(len(text))
        # frombuffer refuses what is empty, and keeps the whole bytearray with its spare room.
        self._text = torch.frombuffer(text or bytearray(1), dtype=torch.uint8).clone()
        self._ends = torch.frombuffer(ends, dtype=torch.int64).clone()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: Any) -> str:
        at, length = operator.index(index), len(self)
        if not -length <= at < length:
            raise IndexError(f"path {at} of {length}")
        start, stop = self._ends[at % length : at % length + 2].tolist()
        return bytes(self._text[start:stop].tolist()).decode(*ENCODING)


def plain(path: Any) -> str:
    """A string, or what os.PathLike says it is."""
    told = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(told, str):
        raise TypeError(f"{path!r} is a {type(path).__name__}; a path is a string")
    return told
