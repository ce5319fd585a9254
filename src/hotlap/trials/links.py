"""Links that lead out of the covered folders: what is written through them lands elsewhere.

The look is bounded, in entries and in time: a data set of millions of files must not delay a run.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from hotlap.trials.overlay import inside
from hotlap.trials.shared import is_shared, is_system
from hotlap.trials.writes import SKIPPED

MOST_ENTRIES = 10_000
MOST_IN_A_FOLDER = 2_000
MOST_SECONDS = 2.0
MOST_COVERED = 32  # each is a mount; a data set may be made of links
MOST_TOLD = 3


def leading_out(
    folders: Sequence[str], *, working: str, clock: Callable[[], float] = time.monotonic
) -> dict[str, str]:
    """Folders outside, each with a link that leads there.

    Looks at the working directory two levels deep, at the other folders and at what the links
    lead to one level.
    """
    ends = clock() + MOST_SECONDS
    left = MOST_ENTRIES
    known = [one for one in map(os.path.realpath, folders) if one != "/"]
    queue = deque((one, 2 if one == os.path.realpath(working) else 1) for one in known)
    found: dict[str, str] = {}
    while queue and left > 0 and clock() < ends:
        folder, depth = queue.popleft()
        for entry in _entries(folder, min(left, MOST_IN_A_FOLDER)):
            left -= 1
            if entry.is_symlink():
                target = _target(entry.path)
                if target is None or target in found or any(inside(target, one) for one in known):
                    continue
                found[target] = entry.path
                if not is_shared(target):
                    known.append(target)
                    queue.append((target, 1))
            elif depth > 1 and entry.name not in SKIPPED and entry.is_dir(follow_symlinks=False):
                queue.append((entry.path, depth - 1))
    return found


def _entries(folder: str, most: int) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(itertools.islice(entries, most))
    except OSError:
        return []


def _target(link: str) -> str | None:
    """The folder that is written to through the link; None for the system's programs and files."""
    real = os.path.realpath(link)
    if os.path.isdir(real):
        return real if os.access(real, os.W_OK) or not is_system(real) else None
    folder = os.path.dirname(real)
    return folder if os.path.isdir(folder) and not is_system(folder) else None


def to_cover(found: Mapping[str, str]) -> list[str]:
    return [folder for folder in found if not is_shared(folder)][:MOST_COVERED]


def warning(found: Mapping[str, str], covered: Sequence[str]) -> str | None:
    """Where writes through a link still land where it leads."""
    open_ones = [
        f"{link} leads to {folder}"
        for folder, link in found.items()
        if not any(inside(folder, one) for one in covered)
    ]
    if not open_ones:
        return None
    more = len(open_ones) - MOST_TOLD
    named = "; ".join(open_ones[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")
    return f"What the command writes through these links lands where they lead: {named}."
