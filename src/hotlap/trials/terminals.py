"""Where the command reads and writes: a terminal of its own when we have one, else the log."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Terminal:
    stdin: int | None
    output: int
    is_terminal: bool
    hand_over: Callable[[], None]


@contextlib.contextmanager
def opened(log: Path) -> Iterator[Terminal]:
    ours = next((fd for fd in (0, 1, 2) if _is_terminal(fd)), None)
    if ours is None:
        with log.open("wb") as file:
            yield Terminal(None, file.fileno(), False, lambda: None)
        return
    master, slave = pty.openpty()
    size = _window_size(ours)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    copier = threading.Thread(target=_copy, args=(master, log), name="hotlap-output", daemon=True)
    copier.start()
    try:
        stdin = slave if _is_terminal(0) else None
        yield Terminal(stdin, slave, True, lambda: os.close(slave))
    finally:
        copier.join(timeout=10)
        os.close(master)


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _window_size(descriptor: int) -> tuple[int, int]:
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return 24, 80
    return (size.lines or 24, size.columns or 80)


def _copy(master: int, log: Path) -> None:
    with log.open("wb") as file:
        while True:
            try:
                received = os.read(master, 65536)
            except OSError:  # the last process on the other side has gone
                return
            if not received:
                return
            file.write(received)
            file.flush()
