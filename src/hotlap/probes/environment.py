"""What this process runs on: versions, device, threads."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.probes.accelerators import Accelerator

COMPILING = (  # what torch calls the time that compiling takes: now, in 2.4, and before
    "_compile.compile_inner",
    "_compile.<locals>.compile_inner",
    "entire_frame_compile",
)


def describe(torch: Any, accelerator: Accelerator | None) -> dict[str, Any]:
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
    if accelerator is not None:
        found |= accelerator.described()
    try:
        found["affinity"] = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        found["affinity"] = os.cpu_count()
    return found


class World:
    """Which rank of a distributed run this process is.

    torch.distributed knows, whoever started the process; a group it once had may be gone when the
    record is written, so what it said is kept. Before there is a group, launchers tell it.
    """

    def __init__(self) -> None:
        self._group: dict[str, int] = {}

    def ranks(self, torch: Any) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            value = os.environ.get(name, "")
            found[name.lower()] = int(value) if value.isdigit() else None
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            self._group["rank"] = distributed.get_rank()
            self._group["world_size"] = distributed.get_world_size()
        return found | self._group


def compile_seconds() -> float | None:
    """What torch.compile has taken so far in this process; None where it was never used."""
    utilities = sys.modules.get("torch._dynamo.utils")
    metrics = getattr(utilities, "compilation_time_metrics", None)
    if not metrics:
        return None
    return next((float(sum(metrics[name])) for name in COMPILING if metrics.get(name)), None)
