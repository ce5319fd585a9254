"""How far a download is: a bar that is drawn over itself on a terminal, lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, int], None]  # bytes that are there, bytes in all

EVERY_SECONDS = 0.1  # a bar is drawn
KEPT = 50  # drawings that the speed is taken from
LEAST_WIDTH, MOST_WIDTH = 10, 40  # characters of the bar


@contextmanager
def shown(
    name: str, *, stream: Any = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Progress]:
    """On stderr, unless told otherwise."""
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield lines(name, stream)
        return
    bar = Bar(name, stream, clock)
    try:
        yield bar
    finally:
        bar.end()


def lines(name: str, stream: Any) -> Progress:
    """One for every tenth."""
    said = -1

    def tell(done: int, total: int) -> None:
        nonlocal said
        tenth = 10 * done // max(1, total)
        if tenth != said:
            said = tenth
            words = f"{name}: {done / 1e6:.0f} of {total / 1e6:.0f} MB ({10 * tenth} %)"
            print(words, file=stream, flush=True)

    return tell


class Bar:
    def __init__(self, name: str, stream: Any, clock: Callable[[], float]) -> None:
        self._name, self._stream, self._clock = name, stream, clock
        self._seen: deque[tuple[float, int]] = deque(maxlen=KEPT)

    def __call__(self, done: int, total: int) -> None:
        now = self._clock()
        if self._seen and done < total and now - self._seen[-1][0] < EVERY_SECONDS:
            return
        self._seen.append((now, done))
        columns = shutil.get_terminal_size().columns
        line = self._line(done, total, columns)
        self._stream.write("\r" + line[: columns - 1].ljust(columns - 1))
        self._stream.flush()

    def end(self) -> None:
        """What is written next begins a line."""
        if self._seen:
            self._stream.write("\n")
            self._stream.flush()

    def _line(self, done: int, total: int, columns: int) -> str:
        share = done / total if total else 1.0
        after = f"{done / 1e6:.1f}/{total / 1e6:.1f} MB{self._pace(total - done)}"
        free = columns - len(self._name) - len(after) - 11
        width = min(MOST_WIDTH, max(LEAST_WIDTH, free))
        bar = "#" * int(share * width)
        return f"{self._name} {share:4.0%} [{bar.ljust(width, '-')}] {after}"

    def _pace(self, missing: int) -> str:
        (first, before), (last, now) = self._seen[0], self._seen[-1]
        if last <= first or now <= before:
            return ""
        speed = (now - before) / (last - first)
        minutes, seconds = divmod(round(missing / speed), 60)
        return f" {speed / 1e6:.1f} MB/s {minutes}:{seconds:02} left"
