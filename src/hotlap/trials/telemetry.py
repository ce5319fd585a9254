"""What the machine did while the command ran, read from outside: CPU, memory, disk, GPU."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

INTERVAL_SECONDS = 0.5


class Telemetry:
    """Samples the command's processes and the machine around them twice a second."""

    def __init__(self, pid: int, gpu: Gpu | None = None) -> None:
        self._root = pid
        self._gpu = gpu if gpu is not None else Gpu.open()
        self._stop = threading.Event()
        self._known: dict[int, psutil.Process] = {}
        self._burned: float | None = None  # by the command and all below it, until the last reading
        self._read: dict[int, int] = {}
        self._stolen: float | None = None  # until the last reading
        self.samples: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._run, name="hotlap-telemetry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> list[dict[str, Any]]:
        self._stop.set()
        self._thread.join(timeout=5)
        if self._gpu is not None:
            self._gpu.close()
        return self.samples

    def _run(self) -> None:
        before = time.perf_counter()
        psutil.cpu_percent()
        self._stolen = stolen_seconds()
        while not self._stop.wait(INTERVAL_SECONDS):
            now = time.perf_counter()
            with contextlib.suppress(psutil.Error):
                self.samples.append(self._sample(now - before))
            before = now

    def _sample(self, seconds: float) -> dict[str, Any]:
        total, memory, read = 0.0, 0, 0
        pids = set()
        for process in self._processes():
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    memory += process.memory_info().rss
                    disk = process.io_counters().read_bytes
            except (psutil.Error, OSError):
                continue
            pids.add(process.pid)
            # With what its ended children burned: loader workers come and go between two readings.
            total += times.user + times.system + times.children_user + times.children_system
            read += max(0, disk - self._read.get(process.pid, disk))
            self._read[process.pid] = disk
        burned = max(0.0, total - self._burned) if self._burned is not None else 0.0
        self._burned = total
        whole = psutil.cpu_percent() / 100 * (psutil.cpu_count() or 1)  # with what was stolen
        others = max(0.0, whole - burned / seconds)
        sample: dict[str, Any] = {
            "time": time.time(),
            "cores": burned / seconds,
            "other_cores": others,
            "stolen_cores": self._stolen_since(seconds, others),
            "memory_bytes": memory,
            "machine_memory_bytes": psutil.virtual_memory().used,
            "read_bytes_per_second": read / seconds,
        }
        if self._gpu is not None:
            sample["gpus"] = self._gpu.read(pids)
        return sample

    def _stolen_since(self, seconds: float, most: float) -> float | None:
        before, self._stolen = self._stolen, stolen_seconds()
        if before is None or self._stolen is None:
            return None
        return min(most, max(0.0, self._stolen - before) / seconds)

    def _processes(self) -> list[psutil.Process]:
        try:
            root = self._known.setdefault(self._root, psutil.Process(self._root))
            below = root.children(recursive=True)
        except psutil.Error:
            return []
        return [self._known.setdefault(process.pid, process) for process in (root, *below)]


def stolen_seconds() -> float | None:
    """What a virtual machine was ready to compute and its host did not let it, of all cores."""
    stolen: float | None = getattr(psutil.cpu_times(), "steal", None)
    return stolen


class Gpu:
    """NVML, where there is a driver. Never asked more often than every half second.

    It sees every GPU of the machine: those that CUDA shows to programs come first.
    """

    def __init__(self, nvml: Any, handles: list[Any], count: int | None = None) -> None:
        self._nvml = nvml
        self._handles = handles
        self.count = len(handles) if count is None else count  # of those that are shown

    @classmethod
    def open(cls) -> Gpu | None:
        try:
            import pynvml

            nvml: Any = pynvml
            nvml.nvmlInit()
            handles = [
                nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())
            ]
        except Exception:  # no driver, no library, no permission: there is no GPU to read
            return None
        first = shown(os.environ.get("CUDA_VISIBLE_DEVICES"), [_id(nvml, one) for one in handles])
        others = [at for at in range(len(handles)) if at not in first]
        return cls(nvml, [handles[at] for at in (*first, *others)], len(first)) if handles else None

    def close(self) -> None:
        try:
            self._nvml.nvmlShutdown()
        except Exception:
            return

    def name(self) -> str:
        """Of the first one."""
        try:
            return _text(self._nvml.nvmlDeviceGetName(self._handles[0]))
        except Exception:  # a card that does not answer is still there
            return "GPU"

    def read(self, pids: set[int]) -> list[dict[str, Any]]:
        return [self._read_one(handle, pids) for handle in self._handles]

    def _read_one(self, handle: Any, pids: set[int]) -> dict[str, Any]:
        nvml = self._nvml
        found: dict[str, Any] = {}
        readings: dict[str, Callable[[], Any]] = {
            "busy": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            "memory_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "clock_hertz": lambda: nvml.nvmlDeviceGetClockInfo(handle, 1) * 1_000_000,
            "watts": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "throttled": lambda: bool(
                nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) & ~(0x1 | 0x2 | 0x4)
            ),
            "foreign_processes": lambda: _foreign(
                {process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}, pids
            ),
            "uuid": lambda: _text(nvml.nvmlDeviceGetUUID(handle)),
        }
        for name, read in readings.items():
            try:
                found[name] = read()
            except Exception:  # not every card or container answers every question
                found[name] = None
        return found


def shown(asked: str | None, ids: list[str]) -> list[int]:
    """Which GPUs CUDA shows where CUDA_VISIBLE_DEVICES is this, as numbers of theirs, in order.

    It stops at the first word that names none. Slices of one (MIG) stand for the first GPU.
    """
    if asked is None:
        return list(range(len(ids)))
    found: list[int] = []
    for word in map(str.strip, asked.split(",")):
        if word.isdigit():
            at = int(word)
        elif word.startswith("MIG-"):
            at = 0
        elif word.startswith("GPU-"):  # the beginning of an id is enough
            at = next((at for at, one in enumerate(ids) if one.startswith(word)), len(ids))
        else:
            break
        if at >= len(ids) or at in found:
            break
        found.append(at)
    return found


def _id(nvml: Any, handle: Any) -> str:
    try:
        return _text(nvml.nvmlDeviceGetUUID(handle))
    except Exception:  # a card that does not answer is still there
        return ""


def _foreign(running: set[int], ours: set[int]) -> int | None:
    """Processes on the card that are not ours; unknown where the driver numbers them otherwise.

    In a container it may list the host's process numbers, among which ours cannot be found.
    """
    return len(running - ours) if not running or running & ours else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
