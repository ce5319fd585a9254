"""Numbers that all processes of a loader count in: each has a row of its own, so nothing locks."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import get_worker_info

MOST_WORKERS = 256


class Counts:
    """A table shared with workers, however they are started; copies of it are shared as well."""

    def __init__(self, columns: int) -> None:
        self.table = torch.zeros(1 + MOST_WORKERS, columns, dtype=torch.int64).share_memory_()

    def own(self) -> torch.Tensor:
        worker = get_worker_info()
        return self.table[0 if worker is None else 1 + worker.id % MOST_WORKERS]

    def __deepcopy__(self, memo: dict[int, Any]) -> Counts:
        made = Counts(self.table.shape[1])
        made.table.copy_(self.table)
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        """torch pickles shared memory as shared for its workers, and as plain memory otherwise."""
        self.table = state["table"]
        if not self.table.is_shared():
            self.table.share_memory_()
