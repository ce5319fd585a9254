"""Numbers that all processes of a loader count in: each has a row of its own, so nothing locks."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch.utils.data import get_worker_info

MOST_WORKERS = 256


class Counts:
    """A table shared with workers, however they are started; copies of it are shared as well."""

    def __init__(self, columns: int) -> None:
        self.table = torch.zeros(1 + MOST_WORKERS, columns, dtype=torch.int64).share_memory_()
        self._row: tuple[int, Any] = (0, None)

    def own(self) -> torch.Tensor:
        return self.table[_number()]

    def add(self, column: int, count: int = 1) -> None:
        """To this process's own; a tensor's element would take ten microseconds."""
        columns = self.table.shape[1]
        address = self.table.data_ptr() + _number() * columns * 8
        if self._row[0] != address:
            self._row = address, (ctypes.c_int64 * columns).from_address(address)
        self._row[1][column] += count

    def share(self, column: int, value: int) -> None:
        """One value for all of them, in a column that nobody counts in."""
        self.table[0, column] = value

    def shared(self, column: int) -> int:
        place = self.table.data_ptr() + column * 8
        return ctypes.c_int64.from_address(place).value

    def __deepcopy__(self, memo: dict[int, Any]) -> Counts:
        made = Counts(self.table.shape[1])
        made.table.copy_(self.table)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """torch pickles shared memory as shared for its workers, and as plain memory otherwise."""
        self.table, self._row = state["table"], (0, None)
        if not self.table.is_shared():
            self.table.share_memory_()


def _number() -> int:
    """The row of this process."""
    worker = get_worker_info()
    return 0 if worker is None else 1 + worker.id % MOST_WORKERS
