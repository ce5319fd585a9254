"""Memory that all processes of a node share: packed samples, filled once, never evicted.

It is a file without a name (memfd), mapped by everyone. Workers made by fork have it already; those
made by spawn, and other ranks, open it through /proc of the process that made it. So /dev/shm and
its limits play no part, and after a kill nothing is left behind.

One table entry for each sample says where it lies. Space is given out under a lock that belongs to
the process (fcntl): the kernel lets go of it when its holder dies. A sample whose writer died is
never published, and comes from the source from then on.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ENTRY = struct.Struct("<qq")  # where, and how long: 0 is empty, below 0 is being written
HEAD = struct.Struct("<qq")  # used bytes, and whether filling is over
ALIGNED = 16
CLAIMED = -1


@dataclass(frozen=True, kw_only=True)
class Handle:
    """Where another process finds the same memory."""

    pid: int
    descriptor: int
    samples: int
    budget: int


class Arena:
    def __init__(self, samples: int, budget: int, *, handle: Handle | None = None) -> None:
        self.samples = samples
        self.budget = budget  # the table is paid from it
        self._start = table_bytes(samples)
        self._room = max(0, budget - self._start)
        size = self._start + self._room
        if handle is None:
            self._descriptor = os.memfd_create("hotlap-cache", os.MFD_CLOEXEC)
            os.ftruncate(self._descriptor, size)  # pages are taken when they are written
            self._owner = os.getpid(), self._descriptor
        else:
            path = f"/proc/{handle.pid}/fd/{handle.descriptor}"
            self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self._owner = handle.pid, handle.descriptor
        weakref.finalize(self, os.close, self._descriptor)
        if os.fstat(self._descriptor).st_size != size:
            raise ValueError("this memory was made for other samples")
        self._map = mmap.mmap(self._descriptor, size)
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def handle(self) -> Handle:
        pid, descriptor = self._owner
        return Handle(pid=pid, descriptor=descriptor, samples=self.samples, budget=self.budget)

    def __reduce__(self) -> tuple[Any, ...]:
        return attach, (self.handle,)

    # Reading ---------------------------------------------------------------------------------

    def get(self, index: int) -> memoryview | None:
        """The packed sample, to be read at once; None if it is not there."""
        where, length = ENTRY.unpack_from(self._map, self._entry(index))
        if length <= 0:
            return None
        return memoryview(self._map)[where : where + length]

    def packed(self, index: int) -> bytes | None:
        """The same, to be kept."""
        found = self.get(index)
        return None if found is None else bytes(found)

    def has_room(self, size: int) -> bool:
        used, closed = HEAD.unpack_from(self._map, 0)
        return not closed and used + aligned(size) <= self._room

    @property
    def used(self) -> int:
        return self._start + int(HEAD.unpack_from(self._map, 0)[0])

    @property
    def closed(self) -> bool:
        return bool(HEAD.unpack_from(self._map, 0)[1])

    def count(self) -> int:
        """Samples that are there."""
        table = self._map[HEAD.size : HEAD.size + ENTRY.size * self.samples]
        return sum(length > 0 for _, length in ENTRY.iter_unpack(table))

    # Filling ---------------------------------------------------------------------------------

    def put(self, index: int, packed: bytes | memoryview) -> bool:
        """Whether it was taken: there was room, and nobody else was writing it."""
        entry, size = self._entry(index), len(packed)
        if not size:
            return False
        with self._locked():
            used, closed = HEAD.unpack_from(self._map, 0)
            if ENTRY.unpack_from(self._map, entry)[1] or closed:
                return False
            if used + aligned(size) > self._room:
                return False
            HEAD.pack_into(self._map, 0, used + aligned(size), closed)
            where = self._start + used
            ENTRY.pack_into(self._map, entry, where, CLAIMED)
        self._map[where : where + size] = packed
        with self._locked():
            ENTRY.pack_into(self._map, entry, where, size)
        return True

    def close_filling(self) -> bool:
        """No more is taken, by anyone. Whether this is news."""
        with self._locked():
            used, closed = HEAD.unpack_from(self._map, 0)
            HEAD.pack_into(self._map, 0, used, 1)
        return not closed

    def clear(self) -> None:
        """Nobody finds a sample here any more, and none is taken."""
        with self._locked():
            used, _ = HEAD.unpack_from(self._map, 0)
            HEAD.pack_into(self._map, 0, used, 1)
            size = ENTRY.size * self.samples
            self._map[HEAD.size : HEAD.size + size] = bytes(size)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._pid != os.getpid():  # a thread of the parent may have held it when we were forked
            self._lock, self._pid = threading.Lock(), os.getpid()
        with self._lock:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _entry(self, index: int) -> int:
        if not 0 <= index < self.samples:
            raise IndexError(f"sample {index} of {self.samples}")
        return HEAD.size + ENTRY.size * index


def attach(handle: Handle, make: Callable[..., Arena] = Arena) -> Arena:
    try:
        return make(handle.samples, handle.budget, handle=handle)
    except OSError as problem:
        raise RuntimeError(
            f"the cache of process {handle.pid} cannot be reached: {problem}; it has to be alive "
            "while its workers start"
        ) from problem


def table_bytes(samples: int) -> int:
    """What is taken before there is a sample."""
    return aligned(HEAD.size + ENTRY.size * samples)


def aligned(size: int) -> int:
    """What a sample of this size takes."""
    return (size + ALIGNED - 1) // ALIGNED * ALIGNED
