"""How many threads one operation uses on the CPU.

## What it does
Sets the number of intra-op threads when torch is imported, and again when training starts, so that
it stands against a number the script sets.

## Why it helps
Small operations lose more by handing work to other threads than they win. On a machine shared with
loader workers or other jobs, fewer threads wait less for each other.

## When it does not help
Training on a GPU. Large operations on a quiet machine, where torch's default is right.

## By hand
One line at the start of the script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "threads"
NUMERICS = "close"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
SETTINGS: dict[str, Any] = {"threads": int}
REQUIRED = ("threads",)


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
    return f"torch.set_num_threads({settings.get('threads', 1)})"


def install(training: Training, settings: dict[str, Any]) -> None:
    number = int(settings.get("threads", 1))
    training.torch.set_num_threads(number)

    def again(module: Any) -> None:
        training.torch.set_num_threads(number)
        training.applied(NAME, f"{number} threads")

    training.when_training_starts(NAME, again)
