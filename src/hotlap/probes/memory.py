"""Where the memory of a training step is: parameters, gradients, optimizer state, activations.

On a CPU the activations come from the kernels pass, which sees every allocation: hooks on saved
tensors would break programs that use torch.func.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.probes.accelerators import Accelerator


def _bytes(tensor: Any) -> int:
    try:
        return int(tensor.untyped_storage().nbytes())
    except Exception:  # a tensor subclass without storage (a meta or functional tensor)
        return int(tensor.numel() * tensor.element_size())


def _unique(tensors: Iterable[Any]) -> int:
    seen: dict[Any, int] = {}
    for tensor in tensors:
        try:
            key = (str(tensor.device), tensor.untyped_storage().data_ptr())
        except Exception:
            key = (str(tensor.device), id(tensor))
        seen[key] = _bytes(tensor)
    return sum(seen.values())


def parameters_of(optimizers: Iterable[Any], modules: Iterable[Any]) -> list[Any]:
    found: dict[int, Any] = {}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                found[id(parameter)] = parameter
    for module in modules:
        for tensor in (*module.parameters(), *module.buffers()):
            found[id(tensor)] = tensor
    return list(found.values())


def state_bytes(torch: Any, optimizers: Iterable[Any]) -> int:
    def tensors(value: Any) -> Iterable[Any]:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, dict):
            for item in value.values():
                yield from tensors(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from tensors(item)

    return _unique(t for o in optimizers for t in tensors(dict(o.state)))


def reset_process_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # the peak then covers the whole run


def process_peak() -> int | None:
    return _status("VmHWM")


def process_now() -> int | None:
    return _status("VmRSS")


def _status(name: str) -> int | None:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def unshared(pids: Iterable[int]) -> int:
    """What these processes have for themselves: pages they share with others are counted there."""
    return sum(_unshared(pid) for pid in pids)


def _unshared(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended, or the kernel does not tell
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def kept_by_graphs(segments: list[dict[str, Any]], device: int) -> int:
    """What CUDA graphs hold on to between replays: nobody else can have it."""
    return sum(
        segment["total_size"] - segment["allocated_size"]
        for segment in segments
        if segment["device"] == device and tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)
    )


def _segments(counters: Any) -> list[dict[str, Any]]:
    if not hasattr(counters, "memory_snapshot"):
        return []
    try:
        return list(counters.memory_snapshot())
    except RuntimeError:  # torch's other allocator (backend:cudaMallocAsync) has none to tell of
        return []


class MemoryProbe:
    """Two full warm steps: reset the peak, let them run, read what they took.

    `workers` tells the loader's processes of the moment: on a CPU their memory is the training's.
    """

    def __init__(
        self,
        torch: Any,
        accelerator: Accelerator | None,
        optimizers: list[Any],
        modules: list[Any],
        workers: Callable[[], Iterable[int]] = lambda: (),
    ) -> None:
        self._torch = torch
        self._device: Any = accelerator.device if accelerator is not None else None
        self._counters: Any = accelerator.counters() if accelerator is not None else None
        self._optimizers = optimizers
        self._parameters = parameters_of(optimizers, modules)
        self._before_forward: int | None = None
        self._gradients = 0
        self._workers = workers
        self._in_workers = 0
        self.begin()

    def begin(self) -> None:
        """Also again, after a step that does not count: an evaluation may take more than training,
        and where it falls is chance."""
        self._activations: int | None = None
        if self._counters is not None:
            self._counters.reset_peak_memory_stats(self._device)
        elif self._device is None:
            reset_process_peak()

    def forward_begins(self) -> None:
        if self._counters is not None and self._before_forward is None:
            self._before_forward = self._counters.memory_allocated(self._device)

    def forward_ends(self) -> None:
        self._live()

    def _live(self) -> None:
        """What forward passes left allocated, whatever zero_grad() frees before backward."""
        if self._counters is not None and self._before_forward is not None:
            live = self._counters.memory_allocated(self._device) - self._before_forward
            self._activations = max(self._activations or 0, live)

    def backward_begins(self) -> None:
        self._live()
        self._before_forward = None
        if self._device is None:  # here they are alive; at the end of an epoch they may be gone
            self._in_workers = max(self._in_workers, unshared(self._workers()))

    def gradients_are_there(self, handed_out: Iterable[Any] = ()) -> None:
        """Those of the parameters, and those that the script was given instead."""
        kept = (getattr(parameter, "grad", None) for parameter in self._parameters)
        gradients = [gradient for gradient in (*kept, *handed_out) if gradient is not None]
        self._gradients = max(self._gradients, _unique(gradients))

    def finish(self) -> dict[str, Any]:
        reserved = peak = None
        kept = 0
        if self._counters is not None:
            reserved = self._counters.max_memory_reserved(self._device)
            if self._device.type == "cuda":  # others have segments of their own kind, or none
                kept = kept_by_graphs(_segments(self._counters), self._device.index or 0)
            peak = min(reserved, self._counters.max_memory_allocated(self._device) + kept)
        elif self._device is None:
            alone = process_peak()
            peak = alone + self._in_workers if alone is not None else None
        # A CUDA graph has its own pool: what it leaves for the backward pass is not to be seen.
        seen = (self._activations or 0) > kept
        return {
            "kind": "device" if self._device is not None else "process",
            "peak_bytes": peak,
            "reserved_bytes": reserved,
            "parameters_bytes": _unique(self._parameters),
            "gradients_bytes": self._gradients,
            "optimizer_bytes": state_bytes(self._torch, self._optimizers),
            "activations_bytes": self._activations if seen else None,
        }
