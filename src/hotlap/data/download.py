"""One file from the web: resumed where it stopped, checked before it gets its name.

What has come is in `NAME.part` until all of it is there and has the right checksum. A cut
connection, a time-out and an error of the server are tried again, from where the file ends. Only
one process in a folder downloads; the others wait for it and then find the file.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from hotlap.data import budgets
from hotlap.data.progress import Progress, shown
from hotlap.errors import UsageError

CHUNK = 1 << 18
TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)  # what a server says that may be over soon
NOT_SATISFIABLE = 416
SCHEMES = ("https://", "http://", "ftp://", "file://")
FULL = (errno.ENOSPC, errno.EDQUOT)


class DownloadError(UsageError):
    """A file that could not be fetched; the message says why and what is kept."""


class _Cut(Exception):
    """The transfer ended early; it may go on another time."""


def fetch(
    url: str,
    target: Path,
    *,
    sha256: str,
    size: int,
    progress: Progress | None = None,
    timeout: float = 30.0,
    attempts: int = 3,
    wait: Callable[[float], None] = time.sleep,
) -> Path:
    """The file, checked. `attempts` are those in a row in which nothing came."""
    if not str(url).startswith(SCHEMES):
        raise DownloadError(f"{url!r} is not an address of the web; one begins with https://")
    _made(target.parent)
    with _alone(target.parent):
        if target.exists():
            if _sha256(target) != sha256:
                raise DownloadError(
                    f"{target} is there, but its checksum is not that of {url}. Move it away, and"
                    " it is fetched again."
                )
            return target
        part = target.with_name(target.name + ".part")
        for resumed in (_length(part) > 0, False):
            with shown(target.name) if progress is None else nullcontext(progress) as told:
                _transfer(url, part, size, told, timeout, attempts, wait)
            found = _sha256(part)
            if found == sha256:
                os.replace(part, target)
                return target
            part.unlink()
            if not resumed:  # else its beginning may have been another file's
                break
        raise DownloadError(
            f"{url} gave a file with the SHA-256 {found}, not {sha256}. Nothing was kept. If the"
            " file has changed on purpose, hotlap must be told; if not, try another network."
        )


def _transfer(
    url: str,
    part: Path,
    size: int,
    progress: Progress,
    timeout: float,
    attempts: int,
    wait: Callable[[float], None],
) -> None:
    failed = 0
    while _length(part) != size:
        before = _length(part)
        if before > size:
            part.unlink()
            before = 0
        if size - before > budgets.disk(part.parent):
            raise _full(part, f"{(size - before) / 1e6:.0f} MB are to come")
        try:
            _receive(url, part, size, progress, timeout)
        except _Cut as problem:
            failed = 0 if _length(part) > before else failed + 1
            if failed >= attempts:
                raise DownloadError(
                    f"{url} could not be fetched: {problem}. {_length(part) / 1e6:.0f} of"
                    f" {size / 1e6:.0f} MB are there; the next try goes on from them. Is there a"
                    " network, and a proxy to be set (https_proxy)?"
                ) from problem
            wait(min(2.0**failed, 30.0))


def _receive(url: str, part: Path, size: int, progress: Progress, timeout: float) -> None:
    """One request: from where the part ends, if the server can do that, else from the start."""
    have = _length(part)
    request = urllib.request.Request(url, headers={"User-Agent": "hotlap"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as problem:
        with problem:
            if problem.code == NOT_SATISFIABLE and have:
                part.unlink()
                raise _Cut("the server has less than is here already") from problem
            if problem.code in TRY_AGAIN:
                raise _Cut(f"the server says {problem.code} {problem.reason}") from problem
            raise DownloadError(
                f"{url} could not be fetched: the server says {problem.code} {problem.reason}."
            ) from problem
    except (OSError, http.client.HTTPException) as problem:
        raise _Cut(_reason(problem)) from problem
    with response:
        start = _start(response, have)
        length = response.headers.get("Content-Length", "")
        if length.isdigit() and start + int(length) != size:
            raise DownloadError(
                f"{url} has {start + int(length)} bytes, not {size}: it is another file. A login"
                " page of this network, perhaps?"
            )
        with part.open("ab" if start else "wb") as file:
            _append(file, part, response, start, size, progress)


def _start(response: Any, have: int) -> int:
    """Where in the file the answer begins; servers may ignore that only the rest was asked for."""
    if response.status != 206:
        return 0
    given = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if given is None or int(given[1]) != have:
        raise DownloadError(f"{response.url} sent another part of the file than was asked for.")
    return have


def _append(
    file: Any, part: Path, response: Any, start: int, size: int, progress: Progress
) -> None:
    done = start
    progress(done, size)
    while done < size:
        try:
            chunk = response.read(min(CHUNK, size - done))
        except (OSError, http.client.HTTPException) as problem:
            raise _Cut(_reason(problem)) from problem
        if not chunk:
            raise _Cut("the connection was cut")
        try:
            file.write(chunk)
            file.flush()
        except OSError as problem:
            if problem.errno in FULL:
                raise _full(part, f"{(size - done) / 1e6:.0f} MB are to come") from problem
            raise DownloadError(f"{part} cannot be written: {problem.strerror}.") from problem
        done += len(chunk)
        progress(done, size)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the folder itself: no lock file stays behind, and a killed process holds nothing."""
    held = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot; the checksum is still there
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise DownloadError(f"{folder} cannot be made: {problem.strerror}.") from problem


def _full(part: Path, more: str) -> DownloadError:
    return DownloadError(f"The disk of {part.parent} is full: {more}. Make room, or say another.")


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _reason(problem: BaseException) -> str:
    inner = getattr(problem, "reason", None)  # URLError wraps what happened
    told = inner if isinstance(inner, BaseException) else problem
    return str(told) or type(told).__name__
