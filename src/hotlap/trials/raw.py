"""What each watched process writes, and reading it back: nothing in it is trusted unseen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from hotlap.records import Copy, Kernels, Line, Loader, Optimizer, Wait

Raw = dict[str, Any]


def read(folder: Path) -> list[Raw]:
    """The processes' own records; one that cannot be read is left out, never trusted."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            raw = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(raw, dict) and raw.get("schema") == 1 and _is_whole(raw):
            found.append(raw)
    return found


def _is_whole(raw: Raw) -> bool:
    """Whether everything a merge reads is there and of its kind: a record may be garbage."""
    try:
        msgspec.convert(raw, _Whole)
    except msgspec.ValidationError:
        return False
    return bool(raw["steps"] > 0)


class _Interval(msgspec.Struct):
    seconds: float
    samples: int | None
    kind: str
    disturbed: bool
    phases: dict[str, float] = {}
    resumed: _Interval | None = None  # what came after an evaluation: the start of an epoch


class _Window(msgspec.Struct):
    stage: str
    wall: tuple[float, float]
    intervals: list[_Interval]


class _InputCpu(msgspec.Struct):
    wait_cpu_share: float | None
    workers_cpu_share: float | None
    workers_making_share: float | None = None
    new_workers_making_seconds: float | None = None


class _Memory(msgspec.Struct):
    kind: str
    peak_bytes: int | None
    reserved_bytes: int | None
    parameters_bytes: int | None
    gradients_bytes: int | None
    optimizer_bytes: int | None
    activations_bytes: int | None


class _Whole(msgspec.Struct):
    """The shape of what a watched process writes (schema 1)."""

    pid: int
    rank: int | None
    world_size: int | None
    settled: bool
    unit: str
    steps: int
    times: dict[str, float]
    compile_seconds: float | None
    windows: list[_Window]
    losses: list[float | None]
    loaders: list[Loader]
    input_cpu: _InputCpu
    lines: dict[str, list[Line]]
    waits: list[Wait]
    copies: list[Copy]
    memory: _Memory | None
    kernels: Kernels | None
    optimizers: list[Optimizer]
    models: list[str]
    environment: dict[str, Any]
    diverted: list[str]
    problems: list[str]
    input_elsewhere: bool = False  # another thread fetches the batches
    elsewhere: bool = False  # another program started the process: srun's daemon, a container's
