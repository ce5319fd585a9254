"""The machine bench/overhead.py ran on, and how busy others keep it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

from overhead_variants import SOURCE


def busy_seconds() -> float:
    """CPU seconds everything on this machine has burned, the hypervisor's share included."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def source_digest() -> str:
    """Which watcher was measured: a digest of the files that run in the training process."""
    digest = hashlib.sha256()
    for file in sorted((SOURCE / "hotlap" / "probes").glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def machine(device: str) -> dict[str, Any]:
    model = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((ln.partition(": ")[2] for ln in lines if ln.startswith("model name")), model)
    try:
        traceml: str | None = importlib.metadata.version("traceml-ai")
    except importlib.metadata.PackageNotFoundError:
        traceml = None
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "traceml": traceml,
        "probes": source_digest(),
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
