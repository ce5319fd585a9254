"""What a study has to work with, found without importing torch: its version, a GPU, cores."""

from __future__ import annotations

import importlib.util
import platform
import re
from pathlib import Path
from typing import Any

import msgspec

from hotlap import machine
from hotlap.errors import UsageError
from hotlap.trials.telemetry import Gpu

DEVICES = ("cpu", "cuda")


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that studies run on."""

    torch: str
    cuda: str | None = None  # that torch was built for
    gpu: str | None = None  # the first one's name
    gpus: int = 0
    machine: dict[str, Any] = {}

    @property
    def cores(self) -> float:
        return float(self.machine.get("cores") or 1)

    def described(self, device: str) -> dict[str, Any]:
        """As it stands in an answer; a GPU that is not used is not in it."""
        found = {**self.machine, "torch": self.torch}
        if self.cuda:
            found["cuda"] = self.cuda
        if self.gpu and device == "cuda":
            found["device_name"] = self.gpu
        return found


def here() -> Surroundings:
    version, cuda = torch_here()
    known = {**machine.describe(), "python": platform.python_version()}
    return Surroundings(torch=version, cuda=cuda, gpu=gpu_name(), gpus=gpus(), machine=known)


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


def device(asked: str | None, around: Surroundings) -> str:
    """The one that was asked for; else the GPU, where there is one that torch can use."""
    cuda, gpu = around.cuda, around.gpu
    if asked is None:
        return "cuda" if cuda and gpu else "cpu"
    known(asked)
    if asked == "cuda" and not cuda:
        raise UsageError("--device is cuda, but the torch that is installed here has no CUDA.")
    if asked == "cuda" and gpu is None:
        raise UsageError("--device is cuda, but there is no NVIDIA GPU here.")
    return asked


def known(asked: str | None) -> None:
    """Whether there is such a device at all, before anything is run to find out."""
    if asked is not None and asked not in DEVICES:
        raise UsageError(f"--device is {asked}; it is one of {', '.join(DEVICES)}.")


def gpu_name() -> str | None:
    """Of the first GPU; None where there is none or CUDA_VISIBLE_DEVICES hides them all."""
    found = Gpu.open()
    if found is None:
        return None
    try:
        return found.name() if found.count else None
    finally:
        found.close()


def gpus() -> int:
    """How many torch would see."""
    found = Gpu.open()
    if found is None:
        return 0
    try:
        return found.count
    finally:
        found.close()
