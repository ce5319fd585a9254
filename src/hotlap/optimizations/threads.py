"""How many threads one operation uses on the CPU, and in loader workers.

## What it does
Sets the number of intra-op threads when torch is imported, and again when training starts, so that
it stands against a number the script sets.

With `worker-threads`, which a recipe may add and no tuning tries, each loader worker is limited
after the script's own `worker_init_fn`: torch, OpenCV where it is imported, BLAS and OpenMP
libraries where threadpoolctl is installed, else those that are loaded later.

## Why it helps
Small operations lose more by handing work to other threads than they win. On a machine shared with
loader workers or other jobs, fewer threads wait less for each other. torch gives its workers one
thread, but OpenCV and numpy may take all cores in each of them.

## When it does not help
Training on a GPU. Large operations on a quiet machine, where torch's default is right.

## By hand
One line at the start of the script, and a `worker_init_fn` for the loader.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "threads"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"threads": int, "worker-threads": int}
REQUIRED = ("threads",)
UP_TO = {"threads": 1024, "worker-threads": 1024}  # with many more, OpenMP takes the process down
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def refusal(record: Record) -> str | None:
    if reading.on_device(record):
        return "training runs on a GPU"
    if not candidates(record):
        return "there is a single core"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    now, cores = int(record.environment.get("threads") or 1), reading.cores(record)
    contended = 0.1 if now > cores else 0.0
    # Threads that wait for work keep their cores busy: loader workers need some of them.
    beside = 0.25 * reading.share(verdict, "input") if now >= cores else 0.0
    return contended + beside + 0.1 * reading.share(verdict, "launch", "compute", "optimizer")


def candidates(record: Record) -> list[dict[str, Any]]:
    cores, now = reading.cores(record), int(record.environment.get("threads") or 1)
    useful = {1, cores // 2, cores} - {0, now}
    return [{"threads": number} for number in sorted(useful, reverse=True)]


def by_hand(settings: dict[str, Any]) -> str:
    lines = f"torch.set_num_threads({settings.get('threads', 1)})"
    if "worker-threads" in settings:
        limit = f"cv2.setNumThreads({settings['worker-threads']})"
        lines += f"\nDataLoader(dataset, ..., worker_init_fn=lambda worker: {limit})"
    return lines


def install(training: Training, settings: dict[str, Any]) -> None:
    number = int(settings.get("threads", 1))
    training.torch.set_num_threads(number)
    training.applied(NAME, "1 thread" if number == 1 else f"{number} threads")

    def again(module: Any) -> None:
        training.torch.set_num_threads(number)

    def change(arguments: dict[str, Any]) -> None:
        own = arguments.get("worker_init_fn")
        if not isinstance(own, InWorkers):
            arguments["worker_init_fn"] = InWorkers(own, int(settings["worker-threads"]))

    training.when_training_starts(NAME, again)
    if "worker-threads" in settings:
        training.change_loaders(NAME, change)


class InWorkers:
    """Begins a loader worker as the script wants it, and then limits its threads."""

    def __init__(self, own: Any, threads: int) -> None:
        self.own = own
        self._threads = threads

    def __call__(self, worker: int) -> None:
        if self.own is not None:
            self.own(worker)
        limit(self._threads)


def limit(threads: int) -> None:
    import torch

    os.environ.update(dict.fromkeys(VARIABLES, str(threads)))
    torch.set_num_threads(threads)
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(threads)
    with contextlib.suppress(ImportError):
        importlib.import_module("threadpoolctl").threadpool_limits(threads)
