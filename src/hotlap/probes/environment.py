"""What this process runs on: versions, device, threads."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any


def describe(torch: Any, device: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "threads": torch.get_num_threads(),
        "device": "cpu",
        "device_name": None,
        "device_bytes": None,
        "devices": 0,
    }
    if device is not None:
        properties = torch.cuda.get_device_properties(device)
        found.update(
            device=str(device),
            device_name=properties.name,
            device_bytes=properties.total_memory,
            device_uuid=str(getattr(properties, "uuid", "")) or None,
            devices=torch.cuda.device_count(),
            cudnn=torch.backends.cudnn.version(),
            capability=[properties.major, properties.minor],
        )
    try:
        found["affinity"] = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        found["affinity"] = os.cpu_count()
    return found


def ranks() -> dict[str, int | None]:
    """Which rank of a distributed run this process is, as launchers tell it."""
    found: dict[str, int | None] = {}
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        value = os.environ.get(name, "")
        found[name.lower()] = int(value) if value.isdigit() else None
    return found


def compile_seconds() -> float | None:
    """What torch.compile has taken so far in this process; None where it was never used."""
    utilities = sys.modules.get("torch._dynamo.utils")
    metrics = getattr(utilities, "compilation_time_metrics", None)
    if not metrics:
        return None
    for name in ("_compile.compile_inner", "entire_frame_compile"):
        if metrics.get(name):
            return float(sum(metrics[name]))
    return None
