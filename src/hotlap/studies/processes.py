"""What this process and those it started take of memory, and what they have read of files."""

from __future__ import annotations

import os
from collections.abc import Callable

import psutil


def own_and_children() -> list[psutil.Process]:
    this = psutil.Process(os.getpid())
    return [this, *this.children(recursive=True)]


def memory_bytes() -> int:
    """Memory that several share counts once in all: each is given its part of it."""
    return sum(_of_one(one, _memory) for one in own_and_children())


def read_bytes() -> int:
    """Read from files so far, whether they came from the disk or from the kernel's memory."""
    return sum(_of_one(one, _read) for one in own_and_children())


def _memory(process: psutil.Process) -> int:
    found = process.memory_full_info()
    return int(getattr(found, "pss", found.uss))  # only Linux knows parts


def _read(process: psutil.Process) -> int:
    return int(getattr(process.io_counters(), "read_chars", 0))


def _of_one(process: psutil.Process, what: Callable[[psutil.Process], int]) -> int:
    try:
        return what(process)
    except (psutil.Error, OSError, AttributeError):  # it has ended, or the system does not tell
        return 0
