"""A thread that looks, every few milliseconds, at which line of the user's code is running."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, repeat, starmap, takewhile
from operator import attrgetter, itemgetter
from typing import Any

from hotlap.probes import places
from hotlap.probes.drivers import DEEPEST, Driver, Frame
from hotlap.probes.timeline import UNSEEN

INTERVAL_SECONDS = 0.02  # each wake-up costs the training thread a switch of the interpreter

# How long a waiting thread lets another one hold the interpreter. With Python's 5 ms a call into C
# that holds it for 4 ms is never seen: the sampler only gets its turn at the next torch call.
PATIENCE_SECONDS = 0.0005

_OF_A_FRAME = attrgetter("f_code", "f_lineno")
_COLLECTS_ANYWHERE = sys.version_info < (3, 12)  # later ones only between two instructions
_holds_collection = False  # while the garbage collector of this process is off for our sake


def stack_of(thread: int) -> list[Frame]:
    """Code and line of each frame of a thread, the innermost first; empty where it has ended.

    Python 3.11 may crash when a thread runs on while another one holds its frames. So they are
    taken, read and let go within one call into C, in which the interpreter changes hands nowhere:
    not between two instructions, as there are none, and not in what a collection would finalize.
    """
    frame = map(itemgetter(thread), starmap(sys._current_frames, [()]))
    frames = accumulate(chain(frame, repeat("f_back", DEEPEST - 1)), getattr)
    pairs = map(_OF_A_FRAME, takewhile(bool, frames))
    global _holds_collection
    collects = _COLLECTS_ANYWHERE and gc.isenabled()
    if collects:
        _holds_collection = True
        gc.disable()
    try:
        return list(pairs)
    except KeyError:
        return []
    finally:
        if collects:  # by us, and not by another thread that is reading a stack as well
            _collect_again()


def _collect_again() -> None:
    global _holds_collection
    gc.enable()
    _holds_collection = False


Seen = tuple[str, str, int, str, str | None]  # phase, file, line, function, package


class Sampler:
    """Samples one thread while switched on; counts lines by phase."""

    def __init__(self, thread: int, phase: Callable[[], str]) -> None:
        self._thread = thread
        self._phase = phase
        self._on = threading.Event()
        self._stop = False
        self._fresh: list[tuple[int, str, list[Frame]]] = []  # of the window under way
        self._driver = Driver([])
        self.counts: Counter[Seen] = Counter()
        self._in_torch: Counter[Seen] = Counter()
        self.totals: Counter[str] = Counter()
        self._worker: threading.Thread | None = None
        self._process = os.getpid()
        self._patience: float | None = None  # the script's own, while ours is set

    def start(self) -> None:
        if self._patience is None:
            self._patience = sys.getswitchinterval()
            sys.setswitchinterval(min(self._patience, PATIENCE_SECONDS))
        self._driver = Driver(stack_of(self._thread))
        self._on.set()
        if self._worker is None:
            self._worker = threading.Thread(target=self._run, name="hotlap-sampler", daemon=True)
            self._worker.start()

    def pause(self) -> None:
        self._on.clear()
        self._restore()

    def finish(self) -> None:
        """Also in a forked child, where the thread is not.

        It may have been anywhere when the fork came: whoever waits there for a lock that it held
        waits for ever, and whatever it was about to put back is left to the child.
        """
        self._stop = True
        self._restore()
        if os.getpid() == self._process:
            self._on.set()
        elif _holds_collection:
            _collect_again()

    def _restore(self) -> None:
        if self._patience is not None:
            sys.setswitchinterval(self._patience)
            self._patience = None

    def _run(self) -> None:
        while True:
            self._on.wait()
            if self._stop:
                return
            time.sleep(INTERVAL_SECONDS)
            if self._on.is_set() and not self._stop:
                self.sample()

    def sample(self) -> None:
        """Keeps the stack as it is: what it means is worked out when nobody waits for us."""
        phase = self._phase()
        if phase == UNSEEN:
            return
        stack = stack_of(self._thread)
        if stack:
            self._fresh.append((time.perf_counter_ns(), phase, stack))

    def count(self, left_out: Sequence[tuple[int, int]] = ()) -> None:
        """Counts what was seen since the last time, except between these readings of the clock."""
        fresh, self._fresh = self._fresh, []
        for _, _, stack in fresh:
            self._driver.meet(stack)
        package, loop = self._driver.package() or (None, 0)
        for now, phase, stack in fresh:
            if any(first <= now < last for first, last in left_out):
                continue
            self.totals[phase] += 1
            place, height = places.among(stack)
            if place is not None:
                seen = (phase, *place, package if height < loop else None)
                self.counts[seen] += 1
                self._in_torch[seen] += places.is_torchs(stack[0][0].co_filename)

    def summary(self, most: int = 5) -> dict[str, list[dict[str, Any]]]:
        """For each phase its busiest lines, with their share of the phase's samples."""
        lines: dict[str, list[dict[str, Any]]] = {}
        for seen, count in self.counts.most_common():
            phase, file, line, function, package = seen
            found = lines.setdefault(phase, [])
            if len(found) < most:
                share = count / self.totals[phase]
                found.append(
                    {
                        "file": file,
                        "line": line,
                        "function": function,
                        "share": share,
                        "samples": count,
                        "in_torch": self._in_torch[seen],
                        "package": package,
                    }
                )
        return lines
