"""From what each training process wrote to one record of the trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hotlap import machine, stats
from hotlap.records import (
    PHASES,
    UNEVEN_FROM,
    Copy,
    Ending,
    Kernels,
    Line,
    Loader,
    Memory,
    Optimizer,
    Phase,
    Rank,
    Record,
    Startup,
    Step,
    Usage,
    Wait,
)
from hotlap.rules import profiled
from hotlap.trials.raw import Raw
from hotlap.trials.rows import counted, epoch_start, kept, starting, trained

MACHINE = ("cores", "other_cores", "stolen_cores", "memory_bytes", "read_bytes_per_second")
SLOWEST_COUNTS_FROM = 0.1  # of the step
FEWEST_SIZES, SIZES_DIFFER_FROM = 10, 1.5  # steps, and times, from where their samples differ


def merge(raws: Sequence[Raw], *, ending: Ending, telemetry: list[dict[str, Any]]) -> Record | None:
    """One record: rank 0's (or that of the process with most steps), with all ranks in it."""
    measured = [raw for raw in raws if counted(raw)]
    if not measured:
        return None
    distributed = _one_world(measured)
    if not distributed and len(measured) > 1:  # whatever each is called elsewhere
        measured = [{**raw, "rank": None} for raw in measured]
    ranks = tuple(_ranks(measured))
    main = _telling(measured)
    kernels = msgspec.convert(main["kernels"], Kernels) if main["kernels"] else None
    slowest = max(measured, key=lambda raw: _step(raw).median_seconds)
    step = _step(slowest if distributed else main)
    samples = _total_samples(measured, main, distributed=distributed)
    step = msgspec.structs.replace(step, samples=samples[0], samples_per_second=samples[1])
    return Record(
        step=step,
        phases=_phases(main, step.median_seconds, kernels),
        startup=_startup(main),
        memory=_memory(main),
        usage=Usage() if main.get("elsewhere") else _usage(main, telemetry),
        kernels=kernels,
        loaders=tuple(msgspec.convert(loader, Loader) for loader in main["loaders"]),
        epoch_start_seconds=epoch_start(main)[0],
        epoch_start_share=epoch_start(main)[1],
        starting_share=starting(main)[0],
        input_cpu_share=_input_cpu(main),
        input_making_share=main["input_cpu"].get("workers_making_share"),
        lines={
            phase: tuple(msgspec.convert(line, Line) for line in lines)
            for phase, lines in main["lines"].items()
        },
        waits=_waits(main, step),
        copies=tuple(msgspec.convert(copy, Copy) for copy in main["copies"]),
        optimizers=tuple(msgspec.convert(one, Optimizer) for one in main["optimizers"]),
        models=tuple(main["models"]),
        ranks=ranks,
        # Always of the same rank, so that two runs can be compared.
        losses=tuple(_first(measured)["losses"]),
        step_seconds=tuple(row["seconds"] for row in kept(main, "bare", "warmup")),
        environment={**_environment(main), "world_size": len(measured)},
        ending=ending,
        problems=tuple(main["problems"]),
    )


def _one_world(raws: Sequence[Raw]) -> bool:
    """Whether they are ranks of one distributed run, not processes that train side by side."""
    numbers = {raw["rank"] for raw in raws if (raw.get("world_size") or 1) > 1}
    return len(numbers - {None}) == len(raws)


def _first(raws: Sequence[Raw]) -> Raw:
    return min(raws, key=lambda raw: (_rank_order(raw), -raw["steps"], raw["pid"]))


def _telling(raws: Sequence[Raw]) -> Raw:
    """The process whose step explains the others': the slowest where one clearly is, else rank 0.

    Ranks wait for each other, so only the rank that keeps the others waiting shows what the time
    is spent on.
    """
    first = _first(raws)
    own = {rank.pid: rank.own_seconds for rank in _ranks(raws)}
    if len(raws) < 2 or any(seconds is None for seconds in own.values()):
        return first
    slowest = max(raws, key=lambda raw: own[raw["pid"]] or 0.0)
    others = [seconds or 0.0 for pid, seconds in own.items() if pid != slowest["pid"]]
    behind = (own[slowest["pid"]] or 0.0) - stats.median(others)
    return slowest if behind > SLOWEST_COUNTS_FROM * _step(slowest).whole_seconds else first


def complete(record: Record, raws: Sequence[Raw]) -> Record:
    """The record of a short command, with memory and kernels from a second run of it."""
    found = [raw for raw in raws if raw["kernels"] or raw["memory"]]
    if not found:
        return record
    second = min(found, key=_rank_order)
    kernels = msgspec.convert(second["kernels"], Kernels) if second["kernels"] else record.kernels
    memory = _memory(second) if second["memory"] else record.memory
    return msgspec.structs.replace(record, kernels=kernels, memory=memory)


def _rank_order(raw: Raw) -> int:
    rank = raw.get("rank")
    return rank if isinstance(rank, int) else 0


def _step(raw: Raw) -> Step:
    rows = counted(raw)
    seconds = [row["seconds"] for row in rows]
    watched = [row["seconds"] for row in counted(raw, "phases") if row.get("phases")]
    return Step(
        median_seconds=stats.median(seconds),
        mean_seconds=stats.mean(seconds),
        low_seconds=stats.quantile(seconds, 0.1),
        high_seconds=stats.quantile(seconds, 0.9),
        samples=None,
        samples_per_second=None,
        count=len(rows),
        seen=raw["steps"],
        unit=raw["unit"],
        settled=raw["settled"],
        watched_seconds=stats.median(watched) if watched else None,
    )


def _samples(raw: Raw) -> tuple[float | None, float | None]:
    """(in a step, in a second) of one process. The bare pass does not look into batches."""
    rows = trained(kept(raw, "warmup", "bare", "phases"))
    samples = [float(row["samples"]) for row in rows if row["samples"]]
    looked_into = [bool(row["samples"]) for row in counted(raw, "phases") if row.get("phases")]
    if not samples or 2 * sum(looked_into) < len(looked_into):  # only the first steps told
        return None, None
    seconds = [row["seconds"] for row in counted(raw)]
    told = [row for row in (*counted(raw), *counted(raw, "phases")) if row["samples"]]
    if _differ([row["samples"] for row in told]):
        rate = sum(row["samples"] for row in told) / sum(row["seconds"] for row in told)
        return float(max(1, round(rate * stats.median(seconds)))), rate
    mean = stats.mean(seconds)
    return stats.median(samples), stats.mean(samples) / mean if mean > 0 else None


def _differ(samples: Sequence[float]) -> bool:
    """Whether steps are of several sizes, as episodes are: other windows may have met others."""
    if len(samples) < FEWEST_SIZES:
        return False
    return stats.quantile(samples, 0.9) > SIZES_DIFFER_FROM * stats.quantile(samples, 0.1)


def _total_samples(
    raws: Sequence[Raw], main: Raw, *, distributed: bool
) -> tuple[float | None, float | None]:
    """In one step (of all ranks, or of the process that tells the record), and in a second."""
    each = [_samples(raw) for raw in raws]
    if any(samples is None for samples, _ in each):
        return None, None
    rate = sum(rate or 0.0 for _, rate in each)
    if distributed:
        return sum(samples or 0.0 for samples, _ in each), rate
    return _samples(main)[0], rate


def _phases(raw: Raw, step_seconds: float, kernels: Kernels | None) -> dict[str, Phase]:
    """Each phase's share of the time in the phases pass, laid over the bare step."""
    rows = _typical([row for row in counted(raw, "phases") if row.get("phases")])
    if not rows:
        return {name: Phase(seconds=None, share=None) for name in PHASES}
    sums: dict[str, float] = {}
    for row in rows:
        for name, seconds in row["phases"].items():
            sums[name] = sums.get(name, 0.0) + seconds
    whole = sum(sums.values())
    gap = sums.pop("gap", 0.0)
    loss = gap
    if kernels is not None and kernels.problem is None:
        # Between model and backward, torch's operators are the loss; the rest is the user's code.
        # A device works on it long after the host has issued it.
        model = (sums.get("forward", 0.0) + sums.get("backward", 0.0)) / len(rows)
        usual = profiled.of_a_usual_step(kernels, model)
        issued = usual * kernels.operator_seconds.get("gap", 0.0)
        loss = min(gap, max(issued, kernels.device_seconds.get("gap", 0.0)) * len(rows))
    sums["forward"] = sums.get("forward", 0.0) + loss
    sums["other"] = sums.get("other", 0.0) + gap - loss
    on_device = raw["environment"].get("device", "cpu") != "cpu"
    unknown = set()
    if not raw["loaders"] or raw.get("input_elsewhere"):
        unknown.add("input")
    if not on_device:
        unknown.add("transfer")
    if raw["unit"] == "backward":
        unknown.add("optimizer")
    for name in unknown:  # what was caught of it all the same (zero_grad) is no phase of its own
        sums["other"] += sums.pop(name, 0.0)
    phases = {}
    for name in PHASES:
        share = sums.get(name, 0.0) / whole if whole > 0 else None
        if name in unknown or share is None:
            phases[name] = Phase(seconds=None, share=None)
        else:
            phases[name] = Phase(seconds=share * step_seconds, share=share)
    return phases


def _typical(rows: Sequence[Raw]) -> Sequence[Raw]:
    """Without the fastest and slowest tenth, where steps are even: there those are the machine's.

    Where cost comes in bursts (a worker's batch every other step) the slow ones are the point.
    """
    seconds = [row["seconds"] for row in rows]
    if len(rows) < 10 or stats.mean(seconds) > UNEVEN_FROM * stats.median(seconds):
        return rows
    low, high = stats.quantile(seconds, 0.1), stats.quantile(seconds, 0.9)
    return [row for row in rows if low <= row["seconds"] <= high]


def _startup(raw: Raw) -> Startup:
    times: dict[str, float] = raw["times"]

    def between(first: str, *lasts: str) -> float | None:
        last = next((times[name] for name in lasts if name in times), None)
        return max(0.0, last - times[first]) if first in times and last is not None else None

    seconds = between("process", "first_iterator", "first_backward", "first_step")
    if seconds is not None and "first_iterator" not in times:  # then compiling comes before it
        seconds = max(0.0, seconds - (raw["compile_seconds"] or 0.0))
    return Startup(
        seconds=seconds,
        import_seconds=between("import_started", "imported"),
        first_batch_seconds=between("first_iterator", "first_batch"),
        first_step_seconds=between("process", "first_step"),
        compile_seconds=raw["compile_seconds"],
    )


def _memory(raw: Raw) -> Memory:
    found = raw["memory"] or {}
    names = ("parameters_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes")
    parts = {name: found.get(name) for name in names}
    peak = found.get("peak_bytes")
    known = sum(part or 0 for part in parts.values())
    device = raw["environment"].get("device", "cpu") != "cpu"
    return Memory(
        kind=found.get("kind", "device" if device else "process"),
        peak_bytes=peak,
        reserved_bytes=found.get("reserved_bytes"),
        rest_bytes=max(0, peak - known) if peak is not None else None,
        **parts,
    )


def _environment(raw: Raw) -> dict[str, Any]:
    """What it ran on; of a process that is elsewhere only it can tell."""
    own: dict[str, Any] = raw["environment"]
    return own if raw.get("elsewhere") else {**own, **machine.describe()}


def _usage(raw: Raw, samples: list[dict[str, Any]]) -> Usage:
    walls = [window["wall"] for window in raw["windows"]]
    if walls:
        first, last = min(wall[0] for wall in walls), max(wall[1] for wall in walls)
        samples = [s for s in samples if first <= s["time"] <= last + 0.5] or samples[-1:]
    if not samples:
        return Usage()

    def average(values: list[Any]) -> float | None:
        known = [float(value) for value in values if value is not None]
        return stats.mean(known) if known else None

    gpus = [gpu for sample in samples for gpu in _used_gpus(raw, sample)]
    return Usage(
        **{name: average([sample.get(name) for sample in samples]) for name in MACHINE},
        gpu_busy=average([gpu["busy"] for gpu in gpus]),
        gpu_memory_bytes=average([gpu["memory_bytes"] for gpu in gpus]),
        gpu_clock_hertz=average([gpu["clock_hertz"] for gpu in gpus]),
        gpu_throttled_share=average([gpu["throttled"] for gpu in gpus]),
        foreign_gpu_processes=average([gpu["foreign_processes"] for gpu in gpus]),
        samples=len(samples),
    )


def _used_gpus(raw: Raw, sample: dict[str, Any]) -> list[dict[str, Any]]:
    gpus: list[dict[str, Any]] = sample.get("gpus") or []
    device = str(raw["environment"].get("device", "cpu"))
    if not device.startswith("cuda"):
        return []
    uuid = str(raw["environment"].get("device_uuid") or "")
    same = [gpu for gpu in gpus if uuid and str(gpu.get("uuid") or "").endswith(uuid)]
    if same:
        return same
    number = device.partition(":")[2]
    index = int(number) if number.isdigit() else 0
    return [gpus[index]] if index < len(gpus) else gpus[:1]


def _waits(raw: Raw, step: Step) -> tuple[Wait, ...]:
    """Laid over the bare step, as phases are: hundreds of reads a step make watching them felt."""
    scale = min(1.0, step.median_seconds / step.watched_seconds) if step.watched_seconds else 1.0
    waits = [msgspec.convert(wait, Wait) for wait in raw["waits"]]
    return tuple(
        msgspec.structs.replace(wait, seconds_per_step=wait.seconds_per_step * scale)
        for wait in waits
    )


def _input_cpu(raw: Raw) -> float | None:
    if raw.get("input_elsewhere"):
        return None
    workers = raw["loaders"][0]["workers"] if raw["loaders"] else 0
    share = raw["input_cpu"]["workers_cpu_share" if workers else "wait_cpu_share"]
    return min(1.0, float(share)) if share is not None else None  # two clocks


def _ranks(raws: Sequence[Raw]) -> list[Rank]:
    """Of collectives only profiled steps tell: nothing where those of a rank were other steps."""
    usual = all(_profiled_share(raw) * profiled.LONGER_FROM >= 1.0 for raw in raws)
    return [_rank(raw, collectives=usual) for raw in sorted(raws, key=_rank_order)]


def _profiled_share(raw: Raw) -> float:
    """How long its usual steps are, the profiled ones being 1; those are never shorter."""
    profiled_seconds = (raw["kernels"] or {}).get("profiled_step_seconds")
    whole = _whole(raw)
    return min(1.0, whole / profiled_seconds) if whole and profiled_seconds else 1.0


def _whole(raw: Raw) -> float | None:
    """The mean step: what one rank does every few steps keeps the others waiting as well."""
    rows = _looked_into(raw)
    return stats.mean([sum(row.values()) for row in rows]) if rows else None


def _looked_into(raw: Raw) -> list[dict[str, float]]:
    return [row["phases"] for row in counted(raw, "phases") if row.get("phases")]


def _rank(raw: Raw, *, collectives: bool) -> Rank:
    whole, rows = _whole(raw), _looked_into(raw)
    backward = stats.mean([row.get("backward", 0.0) for row in rows]) if rows else 0.0
    # Ranks wait for each other in the backward pass; what it has no room for they wait elsewhere.
    found = float((raw["kernels"] or {}).get("communication_seconds") or 0.0)
    waited = max(backward, found * _profiled_share(raw) if collectives else 0.0)
    return Rank(
        rank=raw["rank"],
        pid=raw["pid"],
        steps=raw["steps"],
        median_seconds=_step(raw).median_seconds,
        own_seconds=max(0.0, whole - waited) if whole is not None else None,
    )
