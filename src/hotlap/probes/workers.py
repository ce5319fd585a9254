"""How long loader workers spend making batches; the rest they wait for orders or hand batches over.

A worker cannot be asked, so it writes it down: a slot for each in one small file that the training
process reads at the ends of its windows. A batch in the making counts up to that moment.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.probes.recorder import Recorder

SLOTS = 4096  # by process number
_SLOT = struct.Struct("qdd")  # the process, seconds of batches made, when the one now was begun
NAME = "workers"


class Notes:
    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._page: mmap.mmap | None = None
        self._pid = 0
        self._total = 0.0
        self._begun = 0.0

    def begin(self) -> None:
        """Called in the worker, as `end` is."""
        if self._pid != os.getpid():
            self._pid, self._total = os.getpid(), 0.0
            self._open()
        self._begun = time.perf_counter()
        self._write(self._begun)

    def end(self) -> None:
        self._total += time.perf_counter() - self._begun
        self._write(0.0)

    def _write(self, begun: float) -> None:
        if self._page is not None:
            offset = self._pid % SLOTS * _SLOT.size
            _SLOT.pack_into(self._page, offset, self._pid, self._total, begun)

    def _open(self) -> None:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(file, SLOTS * _SLOT.size)
                self._page = mmap.mmap(file, SLOTS * _SLOT.size)
            finally:
                os.close(file)
        except (OSError, ValueError):
            self._page = None

    def making(self, pids: Iterable[int], *, under_way: bool = True) -> dict[int, float]:
        """Seconds each of these workers has spent making batches, as far as it has told.

        `under_way`: with the batch it is at; one that may have ended is at none.
        """
        try:
            slots = self._path.read_bytes()
        except OSError:
            return {}
        now, found = time.perf_counter(), {}
        for pid in pids:
            known, total, begun = _SLOT.unpack_from(slots, pid % SLOTS * _SLOT.size)
            if known == pid:
                found[pid] = total + (now - begun if begun and under_way else 0.0)
        return found


def install(torch: Any, recorder: Recorder) -> None:
    worker_info = torch.utils.data.get_worker_info
    fetchers = torch.utils.data._utils.fetch
    for owner in (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher):
        owner.fetch = _noting(owner.fetch, worker_info, recorder.loaders.notes)


def _noting(plain: Any, worker_info: Any, notes: Notes | None) -> Any:
    @functools.wraps(plain)
    def fetch(self: Any, wanted: Any) -> Any:
        if notes is None or worker_info() is None:
            return plain(self, wanted)
        notes.begin()
        try:
            return plain(self, wanted)
        finally:
            notes.end()

    return fetch
