"""The device that trains: what is asked of it, in the words of torch's module for its kind.

`torch.cuda` is the model that `torch.xpu`, `torch.npu`, `torch.hpu` and others follow, each as far
as it goes: what a kind does not offer is not measured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter
from typing import Any

from hotlap.probes.events import Events

CPU, CUDA = "cpu", "cuda"
NOWHERE = (CPU, "meta")
# Whoever has these counts what lies on the device; a kind without one of them is not asked.
COUNTERS = (
    "memory_allocated",
    "max_memory_allocated",
    "max_memory_reserved",
    "reset_peak_memory_stats",
)


def of(torch: Any, *tensors: Iterable[Any]) -> Accelerator | None:
    """Where these are; None where that is the CPU."""
    devices = (tensor.device for tensor in chain.from_iterable(tensors))
    found = next((device for device in devices if device.type not in NOWHERE), None)
    return Accelerator(torch, found) if found is not None else None


class Accelerator:
    def __init__(self, torch: Any, device: Any) -> None:
        self._torch = torch
        self.device = device
        self.kind = str(device.type)
        self.module: Any = getattr(torch, self.kind, None)

    def events(self) -> Events | None:
        """None where its events tell no time: then the host's clock is all there is."""
        if self.kind == CUDA:
            return Events(self._torch, self.device)
        try:
            events = Events(self._torch, self.device)
            first, last = events(), events()
            last.synchronize()
            told = first.elapsed_time(last)
        except Exception:  # each kind has errors of its own for what it cannot do
            return None
        events.release()
        return events if isinstance(told, float) else None

    def is_capturing(self) -> Callable[[], bool] | None:
        """Asked for every mark, so for CUDA it is torch's C function."""
        if self.kind == CUDA:
            known: Callable[[], bool] = self._torch._C._cuda_isCurrentStreamCapturing
            return known
        asked: Callable[[], bool] | None = None
        with contextlib.suppress(Exception):  # later it is asked in the midst of the script
            offered = self.module.is_current_stream_capturing
            offered()
            asked = offered
        return asked

    def holds(self) -> Callable[[Any], bool]:
        """What says of a tensor whether it lies there: `is_cuda` is the cheapest to ask."""
        name, kind = f"is_{self.kind}", self.kind
        if hasattr(self._torch.Tensor, name):
            return attrgetter(name)
        return lambda tensor: bool(tensor.device.type == kind)

    def counters(self) -> Any:
        """Who counts its memory; None where nobody does."""
        offered: tuple[Any, ...] = (self.module, getattr(self._torch, "accelerator", None))
        for module in offered:
            if all(hasattr(module, name) for name in COUNTERS):
                with contextlib.suppress(Exception):  # offered, and not there for this kind
                    module.memory_allocated(self.device)
                    return module
        return None

    def activity(self) -> Any:
        """What torch.profiler calls its work; None where it sees nothing of it."""
        activities = self._torch.profiler.ProfilerActivity
        found = getattr(activities, self.kind.upper(), None)
        return found if found in self._torch.profiler.supported_activities() else None

    def unseen(self) -> str:
        """What to say where torch.profiler has nothing of it to tell."""
        if self.kind == CUDA:
            return "torch.profiler saw nothing of the GPU; another profiler may be attached to it"
        return f"torch.profiler tells nothing of {self.kind} devices"

    def described(self) -> dict[str, Any]:
        """Its part of a record's environment."""
        found: dict[str, Any] = {"device": str(self.device), "device_name": self.kind}
        for told in (self._counted, self._properties):
            try:
                found.update(told())
            except Exception:
                if self.kind == CUDA:
                    raise  # the device is gone: the command failed
        return found

    def _counted(self) -> dict[str, Any]:
        return {"devices": self.module.device_count()}

    def _properties(self) -> dict[str, Any]:
        properties = self.module.get_device_properties(self.device)
        found = {
            "device_name": str(getattr(properties, "name", self.kind)),
            "device_bytes": getattr(properties, "total_memory", None),
            "device_uuid": str(getattr(properties, "uuid", "")) or None,
        }
        if self.kind == CUDA:
            found["capability"] = [properties.major, properties.minor]
            found["cudnn"] = self._torch.backends.cudnn.version()
        return found
