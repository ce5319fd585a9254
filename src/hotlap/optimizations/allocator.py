"""Another memory allocator: growing segments on a GPU, jemalloc or tcmalloc on a CPU.

## What it does
Sets the environment the command starts with: `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`
(or `PYTORCH_ALLOC_CONF`, where you use that), or `LD_PRELOAD` of an allocator that is installed on
this machine.

## Why it helps
On a GPU less memory is lost to fragments. On a CPU the system's allocator gives large blocks back
at once and asks for them again in the next step, page fault by page fault.

## When it does not help
Steps that allocate little; GPUs with memory to spare.

## By hand
One variable in front of the command.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotlap.optimizations import reading

if TYPE_CHECKING:
    from hotlap.optimizations.training import Training
    from hotlap.records import Record, Verdict

NAME = "allocator"
NUMERICS = "identical"
CONFLICTS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()
KINDS = ("expandable-segments", "jemalloc", "tcmalloc")
SETTINGS: dict[str, Any] = {"kind": KINDS}
_LIBRARIES = {
    "jemalloc": ("libjemalloc.so.2", "libjemalloc.so.1", "libjemalloc.so"),
    "tcmalloc": ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_minimal.so"),
}
_PLACES = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu")
_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")  # torch reads the first that is set
_PRELOAD = "LD_PRELOAD"


def find(kind: str) -> str | None:
    """The file of an installed allocator."""
    places = [Path(place) for place in (*_PLACES, "/usr/lib/aarch64-linux-gnu")]
    for name in _LIBRARIES.get(kind, ()):
        for place in places:
            if (place / name).exists():
                return str(place / name)
    return None


def refusal(record: Record) -> str | None:
    if reading.on_device(record):
        return reading.only_cuda(record)
    if not candidates(record):
        return "neither jemalloc nor tcmalloc is installed"
    return None


def promise(record: Record, verdict: Verdict) -> float:
    if reading.on_device(record):
        return 0.01
    return 0.15 * reading.share(verdict, "compute", "optimizer", "launch")


def candidates(record: Record) -> list[dict[str, Any]]:
    if reading.on_device(record):
        return [{"kind": "expandable-segments"}]
    return [{"kind": kind} for kind in ("jemalloc", "tcmalloc") if find(kind)]


def environment(settings: dict[str, Any], plain: dict[str, str]) -> dict[str, str]:
    kind = settings.get("kind", "expandable-segments")
    if kind == "expandable-segments":
        name = next((one for one in _VARIABLES if plain.get(one)), _VARIABLES[0])
        before = plain.get(name)
        return {name: f"{before},{_EXPANDABLE}" if before else _EXPANDABLE}
    library = find(kind)
    if library is None:
        return {}
    before = plain.get(_PRELOAD)
    return {_PRELOAD: f"{library}:{before}" if before else library}


_EXPANDABLE = "expandable_segments:True"


def by_hand(settings: dict[str, Any]) -> str:
    kind = settings.get("kind", "expandable-segments")
    made = environment(settings, {}) or {_PRELOAD: _LIBRARIES[kind][0]}
    return "\n".join(f"export {name}={value}" for name, value in made.items())


def install(training: Training, settings: dict[str, Any]) -> None:
    import os

    kind = settings.get("kind", "expandable-segments")
    wanted = next(iter(environment(settings, {}).values()), None)
    if wanted and any(wanted in os.environ.get(name, "") for name in (*_VARIABLES, _PRELOAD)):
        training.applied(NAME, kind)
    else:
        training.refused(NAME, f"{kind} is not installed here")
