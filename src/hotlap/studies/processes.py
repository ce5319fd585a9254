"""What this process and those it started take of memory, and what they have read of files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psutil


def own_and_children() -> list[psutil.Process]:
    this = psutil.Process(os.getpid())
    return [this, *this.children(recursive=True)]


def memory_bytes() -> int:
    """Memory that several share counts once in all: each is given its part of it.

    Without files that are mapped, such as libraries: their part depends on who else runs torch.
    """
    return sum(_of_one(one, _memory) for one in own_and_children())


def read_bytes() -> int:
    """Read from files so far, whether they came from the disk or from the kernel's memory."""
    return sum(_of_one(one, _read) for one in own_and_children())


def _memory(process: psutil.Process) -> int:
    try:
        parts = mapped(Path(f"/proc/{process.pid}/smaps_rollup").read_text())
    except OSError:
        parts = None
    return int(process.memory_full_info().uss) if parts is None else parts


def mapped(rollup: str) -> int | None:
    """Bytes of a process's own and of shared memory; None where the kernel does not tell."""
    found = {line.split()[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
    parts = [found.get(name) for name in ("Pss_Anon:", "Pss_Shmem:")]
    known = [one for one in parts if one is not None]
    return 1024 * sum(known) if len(known) == len(parts) else None


def _read(process: psutil.Process) -> int:
    return int(getattr(process.io_counters(), "read_chars", 0))


def _of_one(process: psutil.Process, what: Callable[[psutil.Process], int]) -> int:
    try:
        return what(process)
    except (psutil.Error, OSError, AttributeError):  # it has ended, or the system does not tell
        return 0
