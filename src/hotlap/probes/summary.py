"""The record of a process as it is written: everything the watcher knows, as plain data."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from hotlap import machine
from hotlap.probes import environment

if TYPE_CHECKING:
    from hotlap.probes.recorder import Recorder


def of(recorder: Recorder, *, complete: bool, ended: bool) -> dict[str, Any]:
    """`complete`: all passes are through; `ended`: the command came to its end before they were."""
    passes, sampler = recorder.passes, recorder.passes.sampler
    described = environment.describe(recorder.torch, recorder.accelerator)
    elsewhere = bool(recorder.settings.get("elsewhere"))
    if elsewhere:  # nobody else can tell what it runs on
        described |= machine.describe() | {"host": platform.node()}
    return {
        "schema": 1,
        "pid": recorder.pid,
        **recorder.world.ranks(recorder.torch),
        "complete": complete,
        "ended": ended,
        "settled": recorder.schedule.settled,
        "unit": recorder.unit,
        "steps": recorder.steps - recorder.rounds.early,
        "evaluations": recorder.evaluations,
        "stage": recorder.schedule.stage,
        "times": dict(recorder.times),
        "compile_seconds": environment.compile_seconds(),
        "windows": passes.windows,
        "losses": _losses(recorder) if complete or ended else [],
        "loaders": recorder.loaders.summary(),
        "input_cpu": recorder.loaders.split(),
        "input_elsewhere": recorder.loaders.feeds_from_elsewhere,
        "lines": sampler.summary() if sampler is not None else {},
        "waits": recorder.ledger.waits(),
        "copies": recorder.ledger.copies(),
        "memory": passes.memory,
        "kernels": passes.kernels,
        "optimizers": recorder.optimizers.summary(),
        "models": recorder.roots.names(),
        "environment": described | {"script": _uses(recorder)},
        "diverted": recorder.diverted[:50],
        "elsewhere": elsewhere,
        "problems": recorder.problems,
    }


def progress(recorder: Recorder) -> dict[str, Any]:
    """How far it is, for those who wait for it."""
    return {
        "stage": "done" if recorder.finished else recorder.schedule.stage,
        "steps": recorder.steps - recorder.rounds.early,
        "step_seconds": recorder.schedule.step_seconds,
    }


def _losses(recorder: Recorder) -> list[float | None]:
    try:
        return recorder.losses.values() if recorder.losses is not None else []
    except Exception as problem:  # the device may be gone when the command failed
        recorder.note("losses", problem)
        return []


def _uses(recorder: Recorder) -> dict[str, Any]:
    try:
        roots = recorder.roots
        return recorder.uses.summary(recorder.torch, roots.makeup(), roots.exchanges.summary())
    except Exception as problem:  # a model whose own code does not like to be asked
        recorder.note("uses", problem)
        return {}
