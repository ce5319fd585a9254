"""What the command wrote: in the overlay, or in place where there was none."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from hotlap.records import Written
from hotlap.trials.folder import HOME

MOST_FILES = 50_000
MOST_LISTED = 20
SKIPPED = {HOME, ".git", "__pycache__", ".venv", "node_modules"}

Snapshot = dict[str, tuple[int, int]]


def snapshot(folder: Path, *, without: Path) -> Snapshot:
    """(modified, size) of the files below a folder, as far as a bounded walk reaches.

    `without` is hotlap's own folder of runs.
    """
    found: Snapshot = {}
    for path in _walk(folder):
        if path.startswith(str(without) + os.sep):
            continue
        try:
            state = os.stat(path, follow_symlinks=False)
        except OSError:
            continue
        found[path] = (state.st_mtime_ns, state.st_size)
        if len(found) >= MOST_FILES:
            break
    return found


def changed(before: Snapshot, folder: Path, *, without: Path) -> tuple[str, ...]:
    """Files that are new, gone or differ from the snapshot, by their path below the folder."""
    after = snapshot(folder, without=without)
    paths = {path: "" for path, state in after.items() if before.get(path) != state}
    gone = (path for path in before if path not in after and not os.path.lexists(path))
    paths.update(dict.fromkeys(gone, " (deleted)"))
    listed = sorted(paths)[:MOST_LISTED]
    return tuple(os.path.relpath(path, folder) + paths[path] for path in listed)


def in_overlay(trial: Path) -> tuple[tuple[Written, ...], int]:
    """The largest files in the overlay's upper folders under their real paths, and the sum."""
    found: list[Written] = []
    for marker in sorted(trial.glob("writes-*.path")):
        real, upper = os.fsdecode(marker.read_bytes()), marker.with_suffix("")
        for path in _walk(upper, skip=set()):
            try:
                state = os.stat(path, follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(state.st_mode):
                name = os.path.join(real, os.path.relpath(path, upper))
                found.append(Written(path=name, bytes=state.st_size))
    found = [one for one in found if "/__pycache__/" not in one.path]
    found.sort(key=lambda one: -one.bytes)
    listed = tuple(
        Written(path=one.path, bytes=one.bytes, bytes_before=_size(one.path))
        for one in found[:MOST_LISTED]
    )
    return listed, sum(one.bytes for one in found)


def _size(path: str) -> int | None:
    """Of the real file, which the command has not touched."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _walk(folder: Path, skip: set[str] = SKIPPED) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in skip]
        for name in files:
            yield os.path.join(place, name)
