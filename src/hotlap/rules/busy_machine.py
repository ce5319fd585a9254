"""Something else was using the machine while the steps were measured.

## What it finds
Other processes burning more than a third of the cores there are (and at least half a core), foreign
processes on the GPU, or a GPU that lowered its clock.

## Why it matters
Times taken beside a busy neighbour say little about the program: they can be many times too long.
In a virtual machine the neighbour may be another one: then no process here burns anything, and the
finding says that the host took the cores.

## When it is wrong
Helpers of the command that detached themselves count as others. What a host takes is only seen
where it says so (`st` in `top`); two machines that share the halves of a core slow each other down
without it.

## What to do
Measure again when the machine is quiet, or read the figures as an upper bound. Against a host that
takes cores helps a machine with cores of its own.
"""

from __future__ import annotations

from hotlap import units
from hotlap.records import Finding, Record, Verdict

NAME = "busy-machine"
PROCESSES, HOST = "other processes", "the host of this virtual machine"
OF_ITS_OWN = "Measure again when it is quiet, or on a machine with cores of its own."
DID = {PROCESSES: "burned", HOST: "took"}


def crowded(others: float | None, cores: float) -> bool:
    """Whether others burned so many of the cores that times taken meanwhile say little."""
    return others is not None and others > max(0.5, cores / 3)


def takers(others: float, stolen: float | None, cores: float) -> dict[str, float]:
    """Who took the cores, and how many each; less than a tenth of them goes with the rest."""
    stolen = stolen or 0.0
    if stolen < cores / 10:
        return {PROCESSES: others}
    if others - stolen < cores / 10:
        return {HOST: others}
    return {PROCESSES: others - stolen, HOST: stolen}


def check(record: Record, verdict: Verdict) -> Finding | None:
    usage = record.usage
    cores = float(record.environment.get("cores") or 1)
    facts = []
    found: dict[str, float] = {}
    if usage.other_cores is not None and crowded(usage.other_cores, cores):
        found = takers(usage.other_cores, usage.stolen_cores, cores)
        facts += [
            f"{who} {DID[who]} {taken:.1f} of {cores:g} cores" for who, taken in found.items()
        ]
    if usage.foreign_gpu_processes is not None and usage.foreign_gpu_processes >= 1:
        facts.append(f"{usage.foreign_gpu_processes:.0f} foreign processes on the GPU")
    if usage.gpu_throttled_share is not None and usage.gpu_throttled_share > 0.3:
        facts.append(
            f"the GPU lowered its clock {units.share(usage.gpu_throttled_share)} of the time"
        )
    if not facts:
        return None
    return Finding(
        rule=NAME,
        summary="The machine was busy with something else: these times are too long.",
        evidence="; ".join(facts),
        advice=OF_ITS_OWN if list(found) == [HOST] else "Measure again when it is quiet.",
    )
