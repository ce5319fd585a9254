"""A thread that looks, every few milliseconds, at which line of the user's code is running."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from hotlap.probes import places
from hotlap.probes.timeline import UNSEEN

INTERVAL_SECONDS = 0.02  # each wake-up costs the training thread a switch of the interpreter

# How long a waiting thread lets another one hold the interpreter. With Python's 5 ms a call into C
# that holds it for 4 ms is never seen: the sampler only gets its turn at the next torch call.
PATIENCE_SECONDS = 0.0005


class Sampler:
    """Samples one thread while switched on; counts lines by phase."""

    def __init__(self, thread: int, phase: Callable[[], str]) -> None:
        self._thread = thread
        self._phase = phase
        self._on = threading.Event()
        self._stop = False
        self.counts: Counter[tuple[str, str, int, str]] = Counter()
        self.totals: Counter[str] = Counter()
        self._worker: threading.Thread | None = None
        self._patience: float | None = None  # the script's own, while ours is set

    def start(self) -> None:
        if self._patience is None:
            self._patience = sys.getswitchinterval()
            sys.setswitchinterval(min(self._patience, PATIENCE_SECONDS))
        self._on.set()
        if self._worker is None:
            self._worker = threading.Thread(target=self._run, name="hotlap-sampler", daemon=True)
            self._worker.start()

    def pause(self) -> None:
        self._on.clear()
        self._restore()

    def finish(self) -> None:
        self._stop = True
        self._restore()
        self._on.set()

    def _restore(self) -> None:
        if self._patience is not None:
            sys.setswitchinterval(self._patience)
            self._patience = None

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._on.wait()
            if self._stop:
                return
            pause.wait(INTERVAL_SECONDS)
            if self._on.is_set() and not self._stop:
                self.sample()

    def sample(self) -> None:
        frame = sys._current_frames().get(self._thread)
        if frame is None:
            return
        phase = self._phase()
        if phase == UNSEEN:
            return
        place = places.of(frame)
        self.totals[phase] += 1
        if place is not None:
            self.counts[(phase, *place)] += 1

    def summary(self, most: int = 5) -> dict[str, list[dict[str, Any]]]:
        """For each phase its busiest lines, with their share of the phase's samples."""
        lines: dict[str, list[dict[str, Any]]] = {}
        for (phase, file, line, function), count in self.counts.most_common():
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
                    }
                )
        return lines
