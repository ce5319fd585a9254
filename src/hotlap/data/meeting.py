"""One cache for all ranks of a node: the first to come makes it, the others find it.

They meet at a small file in the temporary folder, named for the job and the cache. It holds the
process that made the memory; one that has ended is not believed. What is left of it after a kill
is these few bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import multiprocessing
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from hotlap.data.arena import Arena, Handle

JOB = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")


def arena(
    key: str,
    samples: int,
    budget: int,
    *,
    environment: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> Arena:
    """Of this process alone, unless it is one of several ranks on this node."""
    job = _job(environment)
    if job is None:
        return Arena(samples, budget)
    name = hashlib.sha256(json.dumps([key, *job]).encode()).hexdigest()[:24]
    try:
        return _met(_own_folder(folder) / name, samples, budget)
    except OSError:  # there is no place to meet at: share nothing
        return Arena(samples, budget)


def _job(environment: Mapping[str, str]) -> list[str] | None:
    """What ranks of one node have in common: a launcher's words, or the process that spawned them.

    None of a process that is no such rank. `mp.spawn` tells its processes nothing; that they are
    ranks is known once they are a group.
    """
    if int(environment.get("LOCAL_WORLD_SIZE") or 1) > 1:
        return [environment.get(name, "") for name in JOB]
    parent = multiprocessing.parent_process()
    if parent is None or parent.pid is None or not _in_a_group():
        return None
    return ["spawned by", str(parent.pid), started(parent.pid) or ""]


def _in_a_group() -> bool:
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return False
    return bool(distributed.get_world_size() > 1)


def _own_folder(folder: Path | None) -> Path:
    """Raises OSError where someone else made it first. By number: not every user has a name."""
    place = folder or Path(tempfile.gettempdir()) / f"hotlap-{os.getuid()}"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.stat().st_uid != os.getuid():
        raise PermissionError(f"{place} is someone else's")
    return place


def _met(place: Path, samples: int, budget: int) -> Arena:
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = _join(file.read(), samples, budget)
        if found is None:
            found = Arena(samples, budget)
            file.seek(0)
            file.truncate()
            file.write(json.dumps({**asdict(found.handle), "started": started(os.getpid())}))
        return found


def _join(text: str, samples: int, budget: int) -> Arena | None:
    try:
        content = json.loads(text)
        alive = content.pop("started") == started(content["pid"])
        handle = Handle(**content)
        if alive and handle.samples == samples:
            return Arena(samples, handle.budget, handle=handle)
    except (ValueError, TypeError, KeyError, OSError):
        pass
    return None


def started(pid: int) -> str | None:
    """When the process began, in the kernel's ticks: pids are used again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
