"""How many workers a loader should have, by arithmetic; none is an answer too.

A worker takes work off the training process, and adds some: each batch travels between processes.
Whether that pays is known beforehand from the time a sample takes, its size, the step and the
machine. The prices below are rounded from measurements on two cores (batches of 512 samples with
3 and 12 kB each, and numpy arrays of up to 6 MB). Other machines differ, hence the margins.
"""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass
from typing import Any

from hotlap import machine, units
from hotlap.data import budgets

MOST_WORKERS = 64
PREFETCH = (2, 1)  # batches each worker is ahead; one where there is no room for two
HEADROOM = 1.15  # workers are not all equally fast
MOSTLY_WAITING = 0.2  # of the time is computing, or less
WORTH = 1.1  # a process more must win this much
NEAR = 1.05  # of the best: fewer workers will do
WORKER_BYTES = 400 << 20  # what a forked worker that has imported torch comes to own
RAM_SHARE, SHARED_SHARE = 0.5, 0.8  # of what is free
HANDLED = 2  # batches besides those ahead: one being pinned, one in use


@dataclass(frozen=True, kw_only=True)
class Advice:
    workers: int
    prefetch_factor: int | None  # None without workers, as torch wants it
    pin_memory: bool
    reason: str

    @property
    def arguments(self) -> dict[str, Any]:
        """For a DataLoader: `DataLoader(dataset, ..., **advice.arguments)`."""
        found: dict[str, Any] = {"num_workers": self.workers, "pin_memory": self.pin_memory}
        if self.workers:
            found |= {"prefetch_factor": self.prefetch_factor, "persistent_workers": True}
        return found


@dataclass(frozen=True)
class Hop:
    """What it costs to get a batch out of another process: CPU time there and here."""

    seconds: float
    seconds_a_byte: float
    here_seconds: float
    here_seconds_a_byte: float


SHARED = Hop(3e-3, 0.6e-9, 0.5e-3, 0.2e-9)  # tensors: written once, into shared memory
PICKLED = Hop(0.5e-3, 1.5e-9, 0.2e-3, 1e-9)  # all else: through a pipe, and copied on both sides


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds for a batch, and the time of a step with so many workers."""

    step: float
    make: float
    cpu: float
    hop: float
    here: float
    cores: float

    def every(self, workers: int) -> float:
        """How often that many workers have a batch ready."""
        return HEADROOM * (max(self.make, self.cpu) + self.hop) / workers

    def period(self, workers: int) -> float:
        if not workers:
            return self.step + self.make
        all_cpu = self.step + self.here + self.cpu + self.hop
        return max(self.step + self.here, self.every(workers), all_cpu / self.cores)


def advise(
    *,
    step_seconds: float,
    sample_seconds: float,
    batch_size: int,
    sample_bytes: int,
    cpu_seconds: float | None = None,
    cores: float | None = None,
    ram: int | None = None,
    shm: int | None = None,
    pickled: bool = False,
    cuda: bool | None = None,
) -> Advice:
    """What to give a DataLoader.

    `step_seconds` is a training step without its input. `sample_seconds` is what one sample takes
    to make, `cpu_seconds` how much of that is computing: who waits for storage can have more
    workers than cores. `pickled` is for batches that are not tensors. Cores, memory and /dev/shm
    are those of this machine unless given, shared with the other ranks of torchrun.
    """
    check(step_seconds=step_seconds, batch_size=batch_size)
    if not (sample_seconds >= 0 and sample_bytes >= 0):
        raise ValueError(f"times and sizes are not negative: {sample_seconds=}, {sample_bytes=}")
    ranks = max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1))
    cores = max(0.1, machine.cores() / ranks if cores is None else cores)
    ram = budgets.ram() // ranks if ram is None else ram
    shm = _shared_room() // ranks if shm is None else shm
    size, hop = batch_size * sample_bytes, PICKLED if pickled else SHARED
    computing = sample_seconds if cpu_seconds is None else cpu_seconds
    costs = Costs(
        step=step_seconds,
        make=batch_size * sample_seconds,
        cpu=batch_size * computing,
        hop=hop.seconds + size * hop.seconds_a_byte,
        here=hop.here_seconds + size * hop.here_seconds_a_byte,
        cores=cores,
    )
    wanted = _best(costs)
    rooms = {number: _prefetch(number, size, ram, shm, pickled) for number in range(1, wanted + 1)}
    workers = max((number for number, room in rooms.items() if room), default=0)
    if not _worth(costs, workers):
        workers = 0
    reason = _reason(costs, workers, wanted)
    if workers < wanted:
        reason += " " + _shortage(wanted, size, ram, shm, pickled)
    return Advice(
        workers=workers,
        prefetch_factor=rooms[workers] if workers else None,
        pin_memory=bool(workers) and (_has_cuda() if cuda is None else cuda),
        reason=reason,
    )


def check(*, step_seconds: Any, batch_size: Any) -> None:
    """What a caller gives is looked at before anything is timed."""
    if isinstance(step_seconds, str) or not 0 <= float(step_seconds) < math.inf:
        raise ValueError(
            f"step_seconds is {step_seconds!r}; it is the time of a training step without its "
            "input, in seconds: 0.05"
        )
    if not hasattr(batch_size, "__index__") or batch_size < 1:
        raise ValueError(f"batch_size is {batch_size!r}; a batch has 1 sample or more")


def _most(costs: Costs) -> int:
    """Workers that can be at work at once: those that wait leave their core to others."""
    busy = min(1.0, costs.cpu / costs.make) if costs.make else 1.0
    return min(MOST_WORKERS, max(1, math.ceil(costs.cores / max(busy, 0.01))))


def _best(costs: Costs) -> int:
    """The fewest that come near the best, and none unless they are worth it."""
    periods = {number: costs.period(number) for number in range(1, _most(costs) + 1)}
    near = NEAR * min(periods.values())
    fewest = next(number for number, period in periods.items() if period <= near)
    return fewest if _worth(costs, fewest) else 0


def _worth(costs: Costs, workers: int) -> bool:
    return WORTH * costs.period(workers) <= costs.period(0)


def _prefetch(workers: int, size: int, ram: int, shm: int, pickled: bool) -> int | None:
    """As many batches ahead as there is room for; None if there is not even room for one."""
    for factor in PREFETCH:
        held = _held(workers, factor, size)
        fits = pickled or held <= SHARED_SHARE * shm
        if fits and workers * WORKER_BYTES + held <= RAM_SHARE * ram:
            return factor
    return None


def _held(workers: int, factor: int, size: int) -> int:
    return (workers * factor + HANDLED) * size


def _reason(costs: Costs, workers: int, wanted: int) -> str:
    making, step = units.seconds(costs.make), units.seconds(costs.step)
    alone = f"a batch takes {making} to make and the step {step}"
    if not workers and not wanted:
        number = min(range(1, _most(costs) + 1), key=costs.period)
        return (
            f"No workers: {alone}, {units.seconds(costs.period(0))} in all. Getting a batch from "
            f"another process costs {units.seconds(costs.hop + costs.here)}: with "
            f"{units.plural(number, 'worker')} it would be {units.seconds(costs.period(number))}."
        )
    if not workers:
        return f"No workers: {alone}, {units.seconds(costs.period(0))} in all."
    found = (
        f"{units.plural(workers, 'worker')}: {alone}; one is ready every "
        f"{units.seconds(costs.every(workers))} on {units.plural(costs.cores, 'core')}, "
        f"so a step takes {units.seconds(costs.period(workers))} instead of "
        f"{units.seconds(costs.period(0))}."
    )
    if costs.period(workers) > WORTH * (costs.step + costs.here):
        found += " The training still waits for input: samples must be made cheaper, or cached."
    if costs.cpu < MOSTLY_WAITING * costs.make:
        found += (
            " Making a sample is mostly waiting: hotlap.data.Concurrent fetches the samples of a "
            "batch at once, with fewer workers."
        )
    return found


def _shortage(wanted: int, size: int, ram: int, shm: int, pickled: bool) -> str:
    held = _held(wanted, 1, size)
    more = f"{units.plural(wanted, 'worker')} would be faster, but"
    if not pickled and held > SHARED_SHARE * shm:
        need = units.size(_held(wanted, PREFETCH[0], size) / SHARED_SHARE)
        return (
            f"{more} /dev/shm has room for {units.size(shm)} and their batches of "
            f"{units.size(size)} need {need}: they would die of a bus error. In a container, "
            "start it with a larger --shm-size."
        )
    need = units.size((wanted * WORKER_BYTES + held) / RAM_SHARE)
    return f"{more} that takes {need} of memory to be safe, and {units.size(ram)} are free."


def _shared_room() -> int:
    try:
        return shutil.disk_usage("/dev/shm").free
    except OSError:
        return 0


def _has_cuda() -> bool:
    import torch

    return bool(torch.cuda.is_available())
