"""Whether this process is one that hotlap started, or another program did on the command's behalf.

`srun` asks a daemon to start the training, on this machine or another, and so do clients of
containers. Such a process carries our environment, but is neither covered by the overlay nor seen
by the telemetry. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def look(settings: dict[str, Any]) -> None:
    """Notes in the settings of a trial whether this process is elsewhere.

    It has no overlay then, so that whatever can be led away is.
    """
    above = Above(**{name: settings.get(name) for name in ("supervisor", "boot", "pids")})
    if elsewhere(above, settings.get("protected") or ()):
        settings["elsewhere"] = True
        settings["protected"] = []


@dataclass(frozen=True)
class Above:
    """The process that starts the command, and what its number means."""

    supervisor: int | None
    boot: str | None  # of its machine
    pids: str | None  # the namespace in which it has the number


def elsewhere(above: Above, protected: Sequence[str], *, proc: str = "/proc") -> bool:
    """Whether the process that starts the command is not among those above this one.

    Orphans come to that process as their new parent, so whatever it started has it above. In a
    namespace of its own a process cannot see it, but still sees the overlay it was started under.
    """
    if above.supervisor is None:
        return False
    if this_boot(proc) != above.boot:
        return True
    if these_pids(proc) != above.pids:
        return bool(protected) and not _overlaid(protected, proc)
    pid = os.getpid()
    while pid > 1:
        if pid == above.supervisor:
            return False
        try:
            fields = Path(proc, str(pid), "stat").read_text().rsplit(")", 1)[1].split()
            pid = int(fields[1])
        except (OSError, IndexError, ValueError):
            return False  # not known: as it is usually
    return True


def this_boot(proc: str = "/proc") -> str:
    """Differs from machine to machine, and from start to start of one."""
    try:
        return Path(proc, "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def these_pids(proc: str = "/proc") -> str:
    """The namespace of processes' numbers."""
    try:
        return os.readlink(f"{proc}/self/ns/pid")
    except OSError:
        return ""


def _overlaid(folders: Sequence[str], proc: str) -> bool:
    """Whether an overlay is over one of them."""
    try:
        lines = Path(proc, "self/mountinfo").read_text().splitlines()
    except OSError:
        return True
    mounts = [line.split() for line in lines if " - overlay " in line]
    return any(words[4] in {_escaped(folder) for folder in folders} for words in mounts)


def _escaped(path: str) -> str:
    """As the kernel writes it."""
    for character in "\\ \t\n":
        path = path.replace(character, f"\\{ord(character):03o}")
    return path
