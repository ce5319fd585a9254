"""The machine in words: what it is, and how busy it was while the steps were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hotlap.records import Profile, Usage
from hotlap.reports import wording
from hotlap.reports.wording import finite

ENVIRONMENT = {
    "device_name": "GPU",
    "devices": "GPUs seen",
    "device": "trained on",
    "device_bytes": "GPU memory",
    "processor": "processor",
    "cores": "cores",
    "affinity": "cores the process may use",
    "threads": "torch threads",
    "memory_bytes": "memory",
    "shared_memory_bytes": "shared memory (/dev/shm)",
    "world_size": "training processes",
    "torch": "torch",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "capability": "compute capability",
    "device_uuid": "GPU id",
    "python": "Python",
    "system": "system",
}


def environment(profile: Profile) -> list[tuple[str, str]]:
    return described(profile.environment)


def described(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Known entries first and by name, then what else is plain enough to read."""
    names = [name for name in ENVIRONMENT if name in found]
    names += [name for name in found if name not in ENVIRONMENT]
    said = [
        (ENVIRONMENT.get(name, name.replace("_", " ")), _value(name, found[name])) for name in names
    ]
    return [(name, value) for name, value in said if value]


def _value(name: str, value: Any) -> str:
    """Empty where there is nothing to say."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        if finite(value) is None:
            return ""
        return (
            wording.size(value)
            if name.endswith("_bytes")
            else f"{value:g}"
            if value < 1e6
            else str(value)
        )
    if isinstance(value, (list, tuple)):
        joint = "." if name == "capability" else ", "
        return joint.join(filter(None, (_value("", one) for one in value)))
    return value if isinstance(value, str) else ""


def usage(profiles: Sequence[Profile]) -> list[tuple[str, tuple[str, ...]]]:
    """A line for each reading that any of the profiles has."""
    columns = [_readings(profile) for profile in profiles]
    names = list(dict.fromkeys(name for column in columns for name in column))
    lines = [
        (name, tuple(column.get(name, wording.NOTHING) for column in columns)) for name in names
    ]
    return [line for line in lines if set(line[1]) != {wording.NOTHING}]


def _readings(profile: Profile) -> dict[str, str]:
    one: Usage = profile.usage
    if not one.samples:
        return {}
    cores = finite(profile.environment.get("cores"))
    of = f" of {cores:g}" if cores else ""
    clock = finite(one.gpu_clock_hertz)
    disk = finite(one.read_bytes_per_second)
    return {
        "GPU busy": wording.share(one.gpu_busy),
        "GPU memory in use": wording.size(one.gpu_memory_bytes),
        "GPU clock": wording.NOTHING if clock is None else f"{clock / 1e9:.2f} GHz",
        "GPU slowed down by heat or power": wording.share(one.gpu_throttled_share),
        "other programs on the GPU": wording.count(one.foreign_gpu_processes),
        "CPU cores used by the training": _cores(one.cores, of),
        "CPU cores used by others": _cores(one.other_cores, of),
        "of these, kept by the host of this virtual machine": _stolen(one, of),
        "memory in use": wording.size(one.memory_bytes),
        "read from disk": wording.NOTHING if disk is None else f"{wording.size(disk)}/s",
    }


def _stolen(one: Usage, of: str) -> str:
    """Where there is any; elsewhere it would be a row about nothing."""
    known = finite(one.stolen_cores)
    return _cores(known, of) if known is not None and known >= 0.05 else wording.NOTHING


def _cores(value: float | None, of: str) -> str:
    known = finite(value)
    return wording.NOTHING if known is None else f"{known:.1f}{of}"
