"""What this machine lets us use: cores within the cgroup's quota, memory, /dev/shm."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

_CGROUP = Path("/sys/fs/cgroup")


def quota(root: Path = _CGROUP) -> float | None:
    """Cores the cgroups grant: the tightest limit from our own group upwards, or version 1's."""
    limits = []
    for folder in _own_groups(root):
        try:
            limit, period = (folder / "cpu.max").read_text().split()
            limits += [int(limit) / int(period)] if limit != "max" else []
        except (OSError, ValueError, ZeroDivisionError):
            continue
    if limits:
        return min(limits)
    try:
        limit_v1 = int((root / "cpu/cpu.cfs_quota_us").read_text())
        period_v1 = int((root / "cpu/cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return limit_v1 / period_v1 if limit_v1 > 0 and period_v1 > 0 else None


def _own_groups(root: Path) -> list[Path]:
    try:
        line = next(
            line
            for line in Path("/proc/self/cgroup").read_text().splitlines()
            if line.startswith("0::")
        )
    except (OSError, StopIteration):
        return [root]
    own = root / line[3:].lstrip("/")
    return [own, *[parent for parent in own.parents if parent == root or root in parent.parents]]


def cores(root: Path = _CGROUP) -> float:
    try:
        available = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):
        available = float(os.cpu_count() or 1)
    granted = quota(root)
    return min(available, granted) if granted else available


def memory_limit(root: Path = _CGROUP) -> int | None:
    limits = []
    for folder in _own_groups(root):
        try:
            limits.append(int((folder / "memory.max").read_text()))
        except (OSError, ValueError):  # "max" is no number
            continue
    return min(limits, default=None)


def memory_left(root: Path = _CGROUP) -> int | None:
    """What the tightest cgroup still grants; files the kernel can drop at any time do not count."""
    left = []
    for folder in _own_groups(root):
        try:
            limit = int((folder / "memory.max").read_text())
            used = int((folder / "memory.current").read_text())
            lines = (folder / "memory.stat").read_text().splitlines()
        except (OSError, ValueError):
            continue
        known = dict(line.split(maxsplit=1) for line in lines if " " in line)
        left.append(max(0, limit - used + int(known.get("inactive_file", 0))))
    return min(left, default=None)


def shared_memory_bytes() -> int | None:
    try:
        state = os.statvfs("/dev/shm")
    except OSError:
        return None
    return state.f_frsize * state.f_blocks


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def meminfo(name: str, source: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes, by the kernel's name for them."""
    try:
        for line in source.read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def describe() -> dict[str, Any]:
    limit = memory_limit()
    total = meminfo("MemTotal") or 0
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor(),
        "cores": cores(),
        "memory_bytes": min(total, limit) if limit else total,
        "shared_memory_bytes": shared_memory_bytes(),
    }
