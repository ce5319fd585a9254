"""Whether this process is one that hotlap started, or another program did on the command's behalf.

`srun` asks a daemon to start the training, on this machine or another, and so do clients of
containers. Such a process carries our environment, but is neither covered by the overlay nor seen
by the telemetry. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def look(settings: dict[str, Any]) -> None:
    """Notes in the settings of a trial whether this process is elsewhere.

    It has no overlay then, so that whatever can be led away is.
    """
    if elsewhere(settings.get("supervisor"), settings.get("boot")):
        settings["elsewhere"] = True
        settings["protected"] = []


def elsewhere(
    supervisor: int | None,
    boot: str | None,
    *,
    booted: Callable[[], str] = lambda: this_boot(),
    proc: str = "/proc",
) -> bool:
    """Whether the process that starts the command is not among those above this one.

    Orphans come to that process as their new parent, so whatever it started has it above.
    """
    if supervisor is None:
        return False
    if booted() != boot:
        return True
    pid = os.getpid()
    while pid > 1:
        if pid == supervisor:
            return False
        try:
            fields = Path(proc, str(pid), "stat").read_text().rsplit(")", 1)[1].split()
            pid = int(fields[1])
        except (OSError, IndexError, ValueError):
            return False  # not known: as it is usually
    return True


def this_boot() -> str:
    """Differs from machine to machine, and from start to start of one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
