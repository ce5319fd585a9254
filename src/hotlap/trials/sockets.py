"""Sockets where Python's processes meet: one that is killed leaves its own in the temporary folder.

A loader's worker hands over its batches through such a socket, in a folder `pymp-...` of its own
which it removes when it ends by itself. Standard library only: the supervisor uses it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

_SOCKET = re.compile(r"/.*/pymp-[^/]+/listener-[^/]+")


def held_by(pids: Iterable[int]) -> list[Path]:
    """Those that these processes hold open."""
    known = _known()
    if not known:
        return []
    held = {inode for pid in pids for inode in _held(pid)}
    return sorted({place for inode, place in known.items() if inode in held})


def remove(places: Iterable[Path]) -> None:
    """Each with its folder, if that is empty then."""
    for place in places:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)
            place.parent.rmdir()


def _known() -> dict[str, Path]:
    """All of this machine, by inode."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return {}
    rows = [line.split(maxsplit=7) for line in lines]
    return {row[6]: Path(row[7]) for row in rows if len(row) == 8 and _SOCKET.fullmatch(row[7])}


def _held(pid: int) -> Iterable[str]:
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]
