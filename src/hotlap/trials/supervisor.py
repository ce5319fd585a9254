"""The process between hotlap and the command: covers the folders, starts it, and leaves nothing.

It holds a pipe from hotlap. A word on it, or its end (hotlap was killed), stops the command and
everything it started, daemons included: orphans come to this process as their new parent. Until
then it holds the locks of hotlap's temporary folders, which the command may still be writing to.
Standard library only; started as `python -I -S -c ...`: it is there in milliseconds, and
imports no file of the working directory that has the name of a module it needs.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import termios
import time
from pathlib import Path
from typing import Any

from hotlap.trials import overlay, sockets

_SUBREAPER, _PDEATHSIG = 36, 1
GRACE_SECONDS = 3.0
# What holds something elsewhere has to give it back: a killed srun leaves its nodes allocated.
HOLDERS = ("srun", "salloc")
HOLDERS_SECONDS = 15.0


def main() -> None:
    control, status, request = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    _say(status, _cover(request))
    if not os.read(control, 1):
        return
    try:
        child = _start(request, libc, (control, status, *request["locks"]))
    except OSError as problem:
        _say(status, {"event": "refused", "reason": problem.strerror, "errno": problem.errno})
        return
    _say(status, {"event": "started", "pid": child})
    _say(status, {"event": "ended", **_watch(child, control)})


def _say(status: int, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # hotlap is gone; the pipe's end will tell
        os.write(status, json.dumps(message).encode() + b"\n")


def _cover(request: dict[str, Any]) -> dict[str, Any]:
    folders = overlay.roots(request["protect"])
    answer: dict[str, Any] = {"event": "covered", "protected": [], "upper": None, "reason": None}
    working = os.path.realpath(request["folder"])
    if request["protect"] and not any(overlay.inside(working, folder) for folder in folders):
        answer["reason"] = f"{working} is the root of the file system"
        return answer
    if not folders:
        return answer
    where = {name: request[name] for name in ("uppers", "trial", "links")}
    reason = overlay.probe(folders, **where)
    if reason is None:
        try:
            answer["upper"], answer["protected"] = overlay.cover(folders, **where)
        except (OSError, overlay.Refused) as problem:
            reason = str(problem)
    answer["reason"] = reason
    return answer


def _start(request: dict[str, Any], libc: Any, inherited: tuple[int, ...]) -> int:
    """Forks and executes the command; raises what `exec` raised."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            os.setsid()
            if request["terminal"]:
                fcntl.ioctl(1, termios.TIOCSCTTY, 0)
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGTTOU):
                signal.signal(number, signal.SIG_DFL)
            for descriptor in inherited:
                os.set_inheritable(descriptor, False)
            os.chdir(request["folder"])
            os.execvp(request["command"][0], request["command"])
        except OSError as problem:
            os.write(write, str(problem.errno or 5).encode())
        finally:
            os._exit(127)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        failed = pipe.read()
    if failed:
        os.waitpid(child, 0)
        raise OSError(int(failed), os.strerror(int(failed)))
    return child


def readable(*descriptors: int, seconds: float | None = None) -> list[int]:
    """Those that can be read, or are at their end. `select` knows only the first 1024."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [one for one, _ in poll.poll(None if seconds is None else max(0.0, seconds) * 1000)]


def _watch(child: int, control: int) -> dict[str, Any]:
    """Waits for the command's end or for hotlap's word, then clears away whatever still runs."""
    handle = os.pidfd_open(child)
    stopped = handle not in readable(handle, control)
    places = sockets.held_by(_descendants())
    if stopped:
        _signal_all(signal.SIGTERM)
        _let_end()
        left = []
    else:
        time.sleep(0.05)  # children that end with their parent are not left behind
        others = [pid for pid in _descendants() if pid != child]
        left = [_name(pid) for pid in others]
        if any(_program(pid) in HOLDERS for pid in others):
            _signal_all(signal.SIGTERM)
            _let_end()
    code = _clear_away(child)
    sockets.remove(places)
    return {
        "code": code if code is not None and code >= 0 else None,
        "signal": -code if code is not None and code < 0 else None,
        "stopped": stopped,
        "left_running": left[:20],
    }


def _let_end() -> None:
    """All of them have time to end by themselves, those that hold something elsewhere more."""
    asked = time.monotonic()
    while left := _descendants():
        passed = time.monotonic() - asked
        if passed > HOLDERS_SECONDS:
            return
        if passed > GRACE_SECONDS and not any(_program(pid) in HOLDERS for pid in left):
            return
        time.sleep(0.01)


def _clear_away(child: int) -> int | None:
    code: int | None = None
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
        elif pid == 0:
            _signal_all(signal.SIGKILL)
            time.sleep(0.01)
    return code


def _signal_all(number: int) -> None:
    for pid in _descendants():
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    queue = [os.getpid()]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _name(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except (OSError, UnicodeDecodeError):
        words = ""
    return words[:120] or str(pid)
