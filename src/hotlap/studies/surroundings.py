"""What a study has to work with, found without importing torch: its version, a GPU, cores."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
from pathlib import Path
from typing import Any

from hotlap import machine
from hotlap.errors import UsageError
from hotlap.trials.telemetry import Gpu

DEVICES = ("cpu", "cuda")


def torch_here() -> tuple[str, str | None]:
    """Its version and that of the CUDA it was built for, from its own file."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "A study trains models of its own, and torch is not installed here. Install hotlap "
            "into the environment that trains."
        )
    try:
        text = (Path(spec.submodule_search_locations[0]) / "version.py").read_text()
    except OSError:
        return "unknown", None
    return _said(text, "__version__") or "unknown", _said(text, "cuda")


def _said(text: str, name: str) -> str | None:
    found = re.search(rf"^{name}\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found.group(1) if found else None


def device(asked: str | None, cuda: str | None, gpu: str | None) -> str:
    """The one that was asked for; else the GPU, where there is one that torch can use."""
    if asked is None:
        return "cuda" if cuda and gpu else "cpu"
    if asked not in DEVICES:
        raise UsageError(f"--device is {asked}; it is one of {', '.join(DEVICES)}.")
    if asked == "cuda" and not cuda:
        raise UsageError("--device is cuda, but the torch that is installed here has no CUDA.")
    if asked == "cuda" and gpu is None:
        raise UsageError("--device is cuda, but there is no NVIDIA GPU here.")
    return asked


def gpu_name() -> str | None:
    """Of the first GPU; None where there is none or CUDA_VISIBLE_DEVICES hides them all."""
    found = Gpu.open() if _shown() != 0 else None
    if found is None:
        return None
    try:
        return found.name()
    finally:
        found.close()


def gpus() -> int:
    """How many torch would see."""
    shown = _shown()
    found = Gpu.open() if shown != 0 else None
    if found is None:
        return 0
    try:
        return found.count if shown is None else min(found.count, shown)
    finally:
        found.close()


def _shown() -> int | None:
    """How many CUDA_VISIBLE_DEVICES leaves at most; None where it says nothing."""
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return None
    return 0 if asked in ("", "-1") else len(asked.split(","))


def describe(version: str, cuda: str | None, gpu: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {**machine.describe(), "torch": version}
    found["python"] = platform.python_version()
    if cuda:
        found["cuda"] = cuda
    if gpu:
        found["device_name"] = gpu
    return found
