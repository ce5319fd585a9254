"""Folders for temporary files that do not outlive those who use them, even if they are killed.

A killed process removes nothing. So each folder is locked by the process that made it, and by what
it starts; the kernel lets go of the lock when the last of them has ended, and the next hotlap
removes what nobody holds. Process numbers would not do: containers that share the system's folder
for temporary files may number theirs anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

PREFIX = "hotlap-scratch-"
_held: dict[Path, int] = {}


def make() -> Path:
    """A new folder; what others left behind is removed on the way."""
    _clear()
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        handle = _lock(path)
        if handle is not None:
            _held[path] = handle
            return path


def remove(path: Path) -> None:
    remove_tree(path)
    handle = _held.pop(path, None)
    if handle is not None:
        os.close(handle)


def locks() -> tuple[int, ...]:
    """Descriptors to hand to a process that uses the folders and may live longer than this one."""
    return tuple(_held.values())


def _lock(path: Path) -> int | None:
    """None where another hotlap took the new folder for one that was left behind."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    with contextlib.suppress(OSError):  # a disk without locks: then nobody removes it either
        fcntl.flock(handle, fcntl.LOCK_EX)
    if path.exists():
        return handle
    os.close(handle)
    return None


def _clear() -> None:
    for path in Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        with contextlib.suppress(OSError):  # held by a living process, or gone meanwhile
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_tree(path)
            finally:
                os.close(handle)


def remove_tree(path: Path) -> None:
    """Like rmtree, also for the folder without permissions that overlayfs leaves behind."""
    if path.is_dir() and not path.is_symlink():
        for folder, _, _ in os.walk(path):
            try:
                os.chmod(folder, stat.S_IRWXU)
            except OSError:
                continue
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
