"""The user's folders as the command sees them: readable as they are, writes landing elsewhere.

A mount namespace of the trial's own (inside a user namespace where there is no root) with an
overlay over each protected folder. Nothing is copied; the real files cannot be reached for writing.
Standard library only: the supervisor runs this before the user's command.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_BIND, _REC, _PRIVATE = 4096, 16384, 1 << 18
_DETACH = 2
# What holds no user files, so it is bound through as it is.
_PSEUDO = {
    *("proc", "sysfs", "devpts", "devtmpfs", "cgroup", "cgroup2", "mqueue", "securityfs"),
    *("debugfs", "tracefs", "autofs", "binfmt_misc", "configfs", "fusectl", "bpf", "pstore"),
    *("nsfs", "hugetlbfs", "efivarfs", "rpc_pipefs"),
}


class Refused(Exception):
    """This system does not let us mount; the message says what was refused."""


def roots(folders: list[str]) -> list[str]:
    """The folders to cover, real and outermost; never the root of the file system itself."""
    real = sorted({os.path.realpath(folder) for folder in folders})
    outer: list[str] = []
    for path in real:
        if path != "/" and Path(path).is_dir() and not any(inside(path, o) for o in outer):
            outer.append(path)
    return outer


def inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def cover(
    folders: list[str], *, uppers: list[str], trial: str, links: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """Puts this process into its own namespace with an overlay over each folder.

    `uppers` are the places writes may go to, tried in order; the one that worked is returned, with
    the folders that are covered. `trial` is the one folder below them that stays real. `links` are
    folders that links lead to: they are covered where that works.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    trial = os.path.realpath(trial)
    private = _enter_namespace(libc)
    reasons = []
    for upper in uppers:
        try:
            covered = _cover_all(
                libc, folders, links, upper=upper, trial=trial, user_namespace=private
            )
        except OSError as problem:
            reasons.append(f"{upper}: {problem.strerror or problem}")
        else:
            return upper, covered
    raise Refused("no overlay could be mounted (" + "; ".join(reasons) + ")")


def _enter_namespace(libc: Any) -> bool:
    """Returns whether a user namespace was needed."""
    uid, gid = os.geteuid(), os.getegid()
    user_namespace = False
    if libc.unshare(_NEWNS) != 0:
        if libc.unshare(_NEWUSER | _NEWNS) != 0:
            number = ctypes.get_errno()
            reason = "none are left" if number == errno.ENOSPC else os.strerror(number)
            raise Refused(f"user namespaces are refused here: {reason}")
        user_namespace = True
        try:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        except OSError as problem:
            raise Refused(f"the user cannot be mapped: {problem.strerror}") from problem
    if libc.mount(b"none", b"/", None, _REC | _PRIVATE, None) != 0:
        raise Refused(f"mounts cannot be made private: {os.strerror(ctypes.get_errno())}")
    return user_namespace


def _cover_all(
    libc: Any,
    folders: list[str],
    links: Sequence[str],
    *,
    upper: str,
    trial: str,
    user_namespace: bool,
) -> list[str]:
    mounts = _mounts()
    # By handle, since the path may soon lie below an overlay of its own.
    upper = f"/proc/self/fd/{os.open(upper, os.O_PATH | os.O_DIRECTORY)}"
    trial_file = os.open(trial, os.O_PATH | os.O_DIRECTORY)
    numbers = itertools.count()

    def overlaid(path: str, handle: int | None) -> None:
        _overlay(libc, path, handle, upper, next(numbers), user_namespace)

    covered: list[str] = []
    for folder in sorted({*folders, *links}):  # the outer ones come first
        if any(inside(folder, one) for one in covered):
            continue
        try:
            _cover_one(libc, folder, mounts, overlaid)
        except OSError:
            if folder in folders:
                raise
            continue
        covered.append(folder)
    if any(inside(trial, folder) for folder in covered):
        _mount(libc, f"/proc/self/fd/{trial_file}", trial, None, _BIND | _REC, None)
    os.chdir(os.getcwd())  # into the overlay: the old working directory is the real one
    return covered


def _cover_one(
    libc: Any,
    folder: str,
    mounts: list[tuple[str, str]],
    overlaid: Callable[[str, int | None], None],
) -> None:
    """With the file systems mounted below; where one of those fails, nothing is covered."""
    below = [mount for mount in mounts if mount[0] != folder and inside(mount[0], folder)]
    handles = [(path, kind, os.open(path, os.O_PATH)) for path, kind in below]
    overlaid(folder, None)
    try:
        for path, kind, handle in handles:
            if kind not in _PSEUDO and Path(path).is_dir():
                try:
                    overlaid(path, handle)
                    continue
                except OSError:
                    pass
            _mount(libc, f"/proc/self/fd/{handle}", path, None, _BIND | _REC, None)
    except OSError:
        libc.umount2(os.fsencode(folder), _DETACH)
        raise


def _overlay(
    libc: Any, path: str, handle: int | None, upper: str, number: int, user_namespace: bool
) -> None:
    if handle is None:
        handle = os.open(path, os.O_PATH | os.O_DIRECTORY)
    writes = Path(upper) / f"writes-{number}"
    scratch = Path(upper) / f"scratch-{number}"
    for folder in (writes, scratch):
        folder.mkdir(parents=True, exist_ok=True)
    (Path(upper) / f"writes-{number}.path").write_bytes(os.fsencode(path))
    # The covered folder's own mode and owner show through the top of the overlay.
    state = os.stat(path)
    writes.chmod(state.st_mode & 0o7777)
    here = [os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in (writes, scratch)]
    options = (
        f"lowerdir=/proc/self/fd/{handle},"
        f"upperdir=/proc/self/fd/{here[0]},workdir=/proc/self/fd/{here[1]}"
    )
    # With redirects a folder that was there can be renamed; user namespaces do not allow them.
    more = [",userxattr"] if user_namespace else [",redirect_dir=on", ""]
    try:
        for number, extra in enumerate(more):
            try:
                _mount(libc, "overlay", path, "overlay", 0, options + extra)
                break
            except OSError:
                if number + 1 == len(more):
                    raise
    finally:
        for file in here:
            os.close(file)


def _mount(
    libc: Any, source: str, path: str, kind: str | None, flags: int, options: str | None
) -> None:
    done = libc.mount(
        os.fsencode(source),
        os.fsencode(path),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        os.fsencode(options) if options else None,
    )
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


def _mounts() -> list[tuple[str, str]]:
    """(mount point, file system type), outer before inner."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = left.split()[4]
        for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
            point = point.replace(code, character)
        found[point] = right.split()[0]
    return sorted(found.items())


def probe(
    folders: list[str], *, uppers: list[str], trial: str, links: Sequence[str] = ()
) -> str | None:
    """Tries `cover` in a child process; the reason it was refused, or None where it works."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            cover(folders, uppers=uppers, trial=trial, links=links)
            status = 0
        except Exception as problem:
            os.write(write, str(problem).encode()[:2000])
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        reason = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return None if status == 0 else reason or "the attempt ended without a word"
