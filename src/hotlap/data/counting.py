"""Numbers that all processes of a loader count in: each has a row of its own, so nothing locks."""

from __future__ import annotations

import torch
from torch.utils.data import get_worker_info

MOST_WORKERS = 256


def rows(columns: int) -> torch.Tensor:
    """Shared with workers, however they are started."""
    return torch.zeros(1 + MOST_WORKERS, columns, dtype=torch.int64).share_memory_()


def own(table: torch.Tensor) -> torch.Tensor:
    worker = get_worker_info()
    return table[0 if worker is None else 1 + worker.id % MOST_WORKERS]
