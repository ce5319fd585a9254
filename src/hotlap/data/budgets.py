"""How much memory or disk may be used: bytes, "2 GB" or "80%" of what is free, never more."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from hotlap import machine

UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12} | {
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}
SPARED = 0.1  # of the memory that is available, for whatever comes


def parse(budget: int | float | str, available: int) -> int:
    """Bytes; a share is one of what is available."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float, str)):
        raise TypeError(f"a budget is bytes, '2 GB' or '80%', not {type(budget).__name__}")
    size = _parse(budget, available) if isinstance(budget, str) else float(budget)
    if not 0 <= size < float("inf"):
        raise ValueError(f"a budget of {budget!r} is not a size; say bytes, '2 GB' or '80%'")
    return int(size)


def _parse(text: str, available: int) -> float:
    share = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text)
    if share is not None:
        if float(share[1]) > 100:
            raise ValueError(f"a budget of {text!r} is more than there is")
        return float(share[1]) / 100 * available
    size = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)\s*", text.upper())
    if size is None or (size[2] or "B") not in UNITS:
        raise ValueError(f"a budget of {text!r} is not a size; say bytes, '2 GB' or '80%'")
    return float(size[1]) * UNITS[size[2] or "B"]


def ram() -> int:
    """Bytes that can be taken without making the machine swap, or its cgroup run out."""
    free = [machine.meminfo("MemAvailable") or 0]
    left = machine.memory_left()
    if left is not None:
        free.append(left)
    return int(min(free) * (1 - SPARED))


def free_share() -> float:
    """Of the memory this process may use: what is still free."""
    free, total = [machine.meminfo("MemAvailable") or 0], [machine.meminfo("MemTotal") or 0]
    left, limit = machine.memory_left(), machine.memory_limit()
    if left is not None and limit is not None:
        free.append(left)
        total.append(limit)
    return min(one / most if most else 1.0 for one, most in zip(free, total, strict=True))


def disk(folder: Path) -> int:
    """Free bytes of the disk that a folder is on, or would be."""
    places = (folder.absolute(), *folder.absolute().parents)
    return shutil.disk_usage(next(one for one in places if one.exists())).free


def held(folder: Path) -> int:
    """Bytes of disk that the files of a folder take."""
    if not folder.is_dir():
        return 0
    return sum(one.stat().st_blocks * 512 for one in folder.iterdir())
