"""Saves that would land outside the protected folders are written into the trial's folder instead.

With an overlay only absolute paths outside the working directory and home are left to divert;
without one, every `torch.save` and TensorBoard writer is.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotlap.probes.detours import Detours

if TYPE_CHECKING:
    from hotlap.probes.recorder import Recorder

HARMLESS = ("/dev/", "/proc/", "/sys/")


class Diversions:
    """Where a path goes: as it is, or below the trial folder under its own absolute name."""

    def __init__(self, protected: list[str], target: Path) -> None:
        self._protected = tuple(os.path.realpath(path) for path in protected)
        self._target = target

    def of(self, path: Any) -> Path | None:
        if not isinstance(path, (str, os.PathLike)):
            return None
        real = os.path.realpath(os.fsdecode(path))
        if real.startswith(HARMLESS):
            return None
        inside = (*self._protected, str(self._target))
        if any(real == root or real.startswith(root.rstrip("/") + "/") for root in inside):
            return None
        return self._target / real.lstrip("/")


def install(torch: Any, recorder: Recorder, settings: dict[str, Any]) -> None:
    if settings.get("in_place"):
        return
    diversions = Diversions(settings["protected"], Path(settings["diverted"]))
    plain_save, plain_load = torch.save, torch.load

    def lead_away(path: Any) -> Path | None:
        elsewhere = diversions.of(path)
        if elsewhere is not None:
            elsewhere.parent.mkdir(parents=True, exist_ok=True)
            if str(path) not in recorder.diverted:
                recorder.diverted.append(str(path))
        return elsewhere

    detours = Detours(lead_away)

    @functools.wraps(plain_save)
    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        elsewhere = lead_away(f)
        if elsewhere is not None:
            detours.add(f, elsewhere)
            f = elsewhere
        return plain_save(obj, f, *args, **kwargs)

    @functools.wraps(plain_load)
    def load(f: Any, *args: Any, **kwargs: Any) -> Any:
        elsewhere = diversions.of(f)
        if elsewhere is not None and elsewhere.exists():
            f = elsewhere
        return plain_load(f, *args, **kwargs)

    torch.save, torch.load = save, load


def divert_tensorboard(recorder: Recorder, settings: dict[str, Any], module: Any) -> None:
    """Called when a TensorBoard writer module is imported (torch's own or tensorboardX)."""
    writer = getattr(module, "FileWriter", None)
    if writer is None or settings.get("in_place"):
        return
    diversions = Diversions(settings["protected"], Path(settings["diverted"]))
    plain = writer.__init__

    @functools.wraps(plain)
    def init(self: Any, log_dir: Any, *args: Any, **kwargs: Any) -> None:
        elsewhere = diversions.of(log_dir)
        if elsewhere is not None:
            elsewhere.mkdir(parents=True, exist_ok=True)
            recorder.diverted.append(str(log_dir))
            log_dir = str(elsewhere)
        plain(self, log_dir, *args, **kwargs)

    writer.__init__ = init
