"""What torch.profiler's steps say of the others: how much of their times and counts is usual."""

from __future__ import annotations

from hotlap.records import Kernels, Record

PROFILER_SECONDS_PER_OPERATION = 5e-6  # that torch.profiler adds to it, at most
LONGER_FROM = 1.5  # times as long as usual, without what torch.profiler added: other steps were met


def scale(record: Record) -> float:
    """What a usual step takes of the time in a profiled one.

    The kernels pass may have met a quieter machine than the bare one; never a faster program. Where
    steps differ, as episodes do, it may have met longer ones than most.
    """
    kernels = record.kernels
    model = (record.phases["forward"].seconds or 0.0) + (record.phases["backward"].seconds or 0.0)
    if kernels is None:
        return 1.0
    seen = (kernels.profiled_model_seconds or 0.0) + kernels.operator_seconds.get("gap", 0.0)
    seen = _without_profiler(seen, in_model(kernels.operations))
    if kernels.profiled_model_seconds and seen > LONGER_FROM * model > 0:
        return model / seen
    return max(1.0, record.step.median_seconds / (kernels.profiled_step_seconds or 1e9))


def of_a_usual_step(kernels: Kernels, model_seconds: float) -> float:
    """The part of an operator's profiled time that it takes where the model takes these seconds.

    All of it, unless other, longer steps were profiled. Without the loss: what of that is torch's
    is asked here. On a device that cannot be told: the phases are its own, the profiled time not.
    """
    if kernels.device_busy_seconds is not None:
        return 1.0
    operations = in_model({**kernels.operations, "gap": 0.0})
    found = _without_profiler(kernels.profiled_model_seconds or 0.0, operations)
    return model_seconds / found if found > LONGER_FROM * model_seconds > 0 else 1.0


def _without_profiler(seconds: float, operations: float) -> float:
    """What they take by themselves, at least: watching takes no longer than what is watched."""
    return max(seconds - PROFILER_SECONDS_PER_OPERATION * operations, seconds / 2)


def in_model(found: dict[str, float]) -> float:
    return sum(found.get(name, 0.0) for name in ("forward", "gap", "backward"))
