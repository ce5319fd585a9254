"""Whether two samples are the same bit for bit, also of kinds that no cache keeps."""

from __future__ import annotations

import pickle
from typing import Any

import torch

from hotlap.data.packing import CannotPack, pack


def alike(first: Any, second: Any) -> bool:
    """False also where it cannot be told."""
    if type(first) is not type(second):
        return False
    if isinstance(first, (list, tuple)):
        pairs = zip(first, second, strict=False)
        return len(first) == len(second) and all(alike(*pair) for pair in pairs)
    if isinstance(first, dict):
        return list(first) == list(second) and all(alike(first[key], second[key]) for key in first)
    try:
        return bool(_content(first) == _content(second))
    except Exception:  # there is no end to what a sample may be
        return False


def _content(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and type(value) is not torch.Tensor:
        # As torchvision's images and boxes, which say more about themselves beside.
        return _content(value.as_subclass(torch.Tensor)), pickle.dumps(vars(value))
    if isinstance(value, torch.Tensor) and value.requires_grad:
        return pack(value.detach()), "requires a gradient"
    try:
        return pack(value)
    except CannotPack:
        return pickle.dumps(value)
