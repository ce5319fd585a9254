"""Which phase or resource bounds the step: every candidate's seconds, and the largest of them."""

from __future__ import annotations

import msgspec

from hotlap import units
from hotlap.optimizations import reading
from hotlap.records import Finding, Kernels, Line, Record, Verdict, as_told
from hotlap.rules import profiled

# The host cannot reasonably spend more than this on issuing one operation; beyond it, what looks
# like framework overhead is the user's own Python (or a sleep) inside the model.
LAUNCH_SECONDS_PER_OPERATION = 40e-6
# The host waiting costs at most the overlap it destroys, half of a step at worst, so it competes
# with a handicap.
SYNC_IS_DOMINANT_FROM = 0.2
TOLD_FROM = 0.05  # of the step: the lesser of two places of the script's own code
FEWEST_SAMPLES = 5  # fewer blame no line
OFTEN_FROM = 0.2  # of the samples: less than half, but a line may still stand out
STANDS_OUT_FROM = 1.5  # times as often as the next line

OWN, OPERATORS = "the script's own code", "tensor operations"
_WORDS = {
    "input": "waiting for input",
    "transfer": "copying batches to the device",
    "launch": "issuing many small operations",
    "sync": "waiting for the device to finish",
    "compute": "computing",
    "optimizer": "updating parameters",
    "communication": "waiting for other ranks",
    "other": OWN,
}
BETWEEN, INSIDE = "between the phases", "inside the model"
# Where the samples of it were taken: a part of the gap between model and backward pass is the loss.
_PHASES = {BETWEEN: ("other", "gap"), INSIDE: ("forward", "gap", "backward")}

# What to do where a library runs the loop: its code is not the script's to change.
_LIBRARYS = {
    BETWEEN: (
        "Give {} less to do in each step: fewer callbacks, values logged every n steps, no "
        "progress bar; or larger batches."
    ),
    INSIDE: "This is the code of {}: larger batches make it a smaller part of the step.",
}


def judge(record: Record) -> Verdict:
    record = as_told(record)
    step = record.step.whole_seconds
    seconds = attribute(record)
    shares = {name: min(1.0, value / step) for name, value in seconds.items() if value > 0}
    if not shares:
        return Verdict(
            bottleneck="other",
            share=1.0,
            detail=None,
            sentence="Too few steps were seen to tell the phases of a step apart.",
            shares={},
        )
    bottleneck = max(shares, key=lambda name: shares[name])
    if bottleneck in ("compute", "launch") and shares.get("sync", 0) >= SYNC_IS_DOMINANT_FROM:
        bottleneck = "sync"
    detail = _detail(record) if bottleneck == "input" else None
    share = shares[bottleneck]
    return Verdict(
        bottleneck=bottleneck,
        share=share,
        detail=detail,
        sentence=_sentence(record, bottleneck, share, detail),
        shares=dict(sorted(shares.items(), key=lambda item: -item[1])),
    )


def attribute(record: Record) -> dict[str, float]:
    """Seconds of the step by what they are lost to. They add up to no more than the step."""
    phases = {name: phase.seconds or 0.0 for name, phase in record.phases.items()}
    if not any(phases.values()):
        return {}
    kernels = _looked_into(record)
    if kernels is None:
        return {
            "input": phases["input"],
            "transfer": phases["transfer"],
            "optimizer": phases["optimizer"],
            "compute": phases["forward"] + phases["backward"],
            "other": phases["other"],
        }
    if kernels.device_busy_seconds is None:
        return _on_cpu(record, phases)
    return _on_device(record, phases)


def _looked_into(record: Record) -> Kernels | None:
    """What tells computing from issuing operations; None where nothing does."""
    kernels = record.kernels
    return kernels if kernels is not None and kernels.problem is None else None


def own_code(record: Record) -> dict[str, float]:
    """Seconds of the script's own Python: between the phases, and inside the model."""
    lost = attribute(record).get("other", 0.0)
    between = (record.phases["other"].seconds or 0.0) - operators_between(record)
    between = min(lost, between)
    return {BETWEEN: between, INSIDE: lost - between}


def operators_between(record: Record) -> float:
    """Seconds of the phase `other` in torch's operators: work all the same.

    A compiled step is one such call; on a device it is what that was busy with.
    """
    kernels = _looked_into(record)
    if kernels is None:
        return 0.0
    if kernels.device_busy_seconds is None:
        seconds = profiled.scale(record) * kernels.big_seconds.get("other", 0.0)
    else:
        seconds = kernels.device_seconds.get("other", 0.0)
    return min(record.phases["other"].seconds or 0.0, seconds)


def operations(record: Record) -> float:
    """How many a usual step has in forward and backward; a slow machine makes no more of them."""
    if record.kernels is None:
        return 0.0
    return min(1.0, profiled.scale(record)) * profiled.in_model(record.kernels.operations)


def sampled(record: Record, where: str) -> tuple[list[Line], int]:
    """Its lines, the busiest first, and how many samples were taken there in all.

    A line inside the model counts as far as it runs by itself: what is in torch is the model's
    computing, whether the line calls a layer or the backward pass. So does one between model and
    backward pass: what is in torch there is the loss.
    """
    alone = [
        msgspec.structs.replace(one, samples=one.samples - one.in_torch * _is_model(where, name))
        for name in _PHASES[where]
        for one in record.lines.get(name, ())
    ]
    lines = _together([line for line in alone if line.samples > 0])
    taken = 0.0
    for name in _PHASES[where]:
        one = next((line for line in record.lines.get(name, ()) if line.share), None)
        taken += one.samples / one.share if one is not None else 0.0
    return sorted(lines, key=lambda line: -line.samples), round(taken)


def _is_model(where: str, phase: str) -> bool:
    """Whether what torch does in this phase is the model's computing, not the script's own."""
    return where == INSIDE or phase == "gap"


def _together(lines: list[Line]) -> list[Line]:
    """What was seen of a line in several phases, as one."""
    found: dict[tuple[str, int, str, str | None], Line] = {}
    for line in lines:
        place = (line.file, line.line, line.function, line.package)
        if place in found:
            line = msgspec.structs.replace(
                line,
                samples=line.samples + found[place].samples,
                in_torch=line.in_torch + found[place].in_torch,
            )
        found[place] = line
    return list(found.values())


def busiest(record: Record, where: str) -> tuple[Line, str] | None:
    """The line to name and the words for how often it runs; None where no line stands out."""
    lines, taken = sampled(record, where)
    models = [name for name in _PHASES[where] if _is_model(where, name)]
    taken -= sum(line.in_torch for name in models for line in record.lines.get(name, ()))
    if not lines or taken < FEWEST_SAMPLES:
        return None
    first = lines[0]
    if first.samples > taken / 2:
        return first, "mostly at"
    second = lines[1].samples if len(lines) > 1 else 0
    often = first.samples >= max(OFTEN_FROM * taken, STANDS_OUT_FROM * second)
    return (first, "most often at") if often else None


def busiest_in_update(record: Record) -> tuple[Line, int] | None:
    """Where torch's own optimizers mostly run other code: its line, of how many samples.

    What is registered with an optimizer runs in each of its steps.
    """
    if not all(one.torchs_own for one in record.optimizers):
        return None  # such an optimizer may be the script's own itself
    lines = [line for line in record.lines.get("optimizer", ()) if line.share]
    taken = round(lines[0].samples / lines[0].share) if lines else 0
    first = max(lines, key=lambda line: line.samples - line.in_torch, default=None)
    if first is None or taken < FEWEST_SAMPLES or first.samples - first.in_torch <= taken / 2:
        return None
    return first, taken


def own_code_found(
    rule: str, record: Record, where: str, seconds: float, *, advice: str, what: str = OWN
) -> Finding:
    """What is said of the script's own code in one place, with the line that stands out."""
    lines, taken = sampled(record, where)
    named = busiest(record, where)
    first = named[0] if named else None
    evidence = f"{units.seconds(seconds)} a step"
    if first is not None:
        evidence += f"; {running(first, taken)}"
    elif lines:
        evidence += f"; no line stands out in {units.plural(taken, 'sample')}"
    share = units.share(seconds / record.step.whole_seconds)
    library = _library(record, where)
    return Finding(
        rule=rule,
        summary=f"{share} of the step is {whose(library) if what == OWN else what} {where}.",
        evidence=evidence,
        advice=advice if library is None else _LIBRARYS[where].format(library),
        file=first.file if first else None,
        line=first.line if first else None,
    )


def running(line: Line, taken: int) -> str:
    """How often it was what ran, as words for the evidence."""
    if line.package is not None:
        who = f"{line.package}, which is called here,"
    else:
        who = "top-level code" if line.function == "<module>" else f"{line.function}()"
    return f"{who} was running in {line.samples} of {units.plural(taken, 'sample')}"


def _library(record: Record, where: str) -> str | None:
    """The library whose code it is, not the script's: by the line to name, else by all lines."""
    named = busiest(record, where)
    lines = [named[0]] if named is not None else sampled(record, where)[0]
    libraries = {line.package for line in lines}
    return libraries.pop() if len(libraries) == 1 else None


def whose(library: str | None) -> str:
    return OWN if library is None else f"the code of {library}"


def _on_cpu(record: Record, phases: dict[str, float]) -> dict[str, float]:
    kernels = record.kernels
    assert kernels is not None
    model = phases["forward"] + phases["backward"]
    communication = min(kernels.communication_seconds, phases["backward"])
    scale = profiled.scale(record)
    work = scale * profiled.in_model(kernels.big_seconds)
    lost = scale * profiled.in_model(kernels.lost_seconds)
    overhead = max(0.0, model - communication - work)
    launch = min(overhead, operations(record) * LAUNCH_SECONDS_PER_OPERATION + lost)
    # What operators took beyond their usual time they spent waiting for a core.
    beyond = scale * profiled.in_model(kernels.operator_seconds) - work
    own = min(overhead - min(overhead, max(launch, beyond)), _outside_torch(record))
    outside = operators_between(record)
    return {
        "input": phases["input"],
        "optimizer": phases["optimizer"],
        "communication": communication,
        "launch": launch,
        "compute": min(work, model - communication) + overhead - launch - own + outside,
        "other": phases["other"] - outside + own,
    }


def _on_device(record: Record, phases: dict[str, float]) -> dict[str, float]:
    """The device's idle time is shared out among its causes; its busy time is work."""
    kernels = record.kernels
    assert kernels is not None
    busy = {name: kernels.device_seconds.get(name, 0.0) for name in (*phases, "gap")}
    busy["forward"] += busy.pop("gap")
    model = phases["forward"] + phases["backward"]
    work = min(busy["forward"] + busy["backward"], model)
    update = min(busy["optimizer"], phases["optimizer"])
    communication = min(kernels.communication_seconds, model - work)
    idle_model = model - work - communication
    idle_update = phases["optimizer"] - update
    outside = operators_between(record)
    idle_other = phases["other"] - outside
    blocked = sum(wait.seconds_per_step for wait in record.waits)
    sync = min(blocked, idle_model + idle_update + idle_other)
    left = idle_model + idle_update + idle_other - sync
    cap = (kernels.kernels or 0.0) * LAUNCH_SECONDS_PER_OPERATION
    launch = min(left, idle_model + idle_update, cap)
    launch += max(0.0, left - launch - idle_other - _outside_torch(record))
    return {
        "input": phases["input"],
        "transfer": phases["transfer"],
        "launch": launch,
        "sync": sync,
        "compute": work + outside,
        "optimizer": update,
        "communication": communication,
        "other": max(0.0, left - launch),
    }


def _outside_torch(record: Record) -> float:
    """The most that the script's own code can have taken of forward and backward.

    Where a sample was taken in torch's own code, called from the script, it was not the script's.
    """
    seconds = 0.0
    for name in ("forward", "backward"):
        lines = [line for line in record.lines.get(name, ()) if line.samples]
        in_torch = sum(line.share * line.in_torch / line.samples for line in lines)
        seconds += max(0.0, 1.0 - in_torch) * (record.phases[name].seconds or 0.0)
    return seconds


def _detail(record: Record) -> str | None:
    if record.input_cpu_share is None:
        return None
    return "fetching" if reading.waits_on_storage(record) else "transforming"


def _sentence(record: Record, bottleneck: str, share: float, detail: str | None) -> str:
    words = _WORDS[bottleneck]
    if bottleneck == "input" and reading.hands_over(record):
        words += ", most of it for workers to hand batches over"
    elif detail == "fetching":
        words += ", most of it for storage"
    elif detail == "transforming":
        words += ", most of it CPU work on the samples"
    if bottleneck == "compute" and _looked_into(record) is None:
        why = record.kernels.problem if record.kernels else "it ended before the kernels pass"
        words = "forward and backward; whether to computing or to issuing many small operations "
        words += f"could not be told ({why})"
    if bottleneck == "launch":
        unit = "kernels" if record.kernels and record.kernels.kernels else "operations"
        words += f" (the host cannot issue {unit} fast enough)"
    if bottleneck == "optimizer" and (named := busiest_in_update(record)) is not None:
        words += f", most of it {whose(named[0].package)} at {_told(named[0])}"
    if bottleneck == "other":
        share, words = _places(record)
    length = units.seconds(record.step.whole_seconds)
    each = f"a step of {length} (mean)" if record.step.is_uneven else f"every {length} step"
    return f"{units.share(share)} of {each} goes to {words}."


def _places(record: Record) -> tuple[float, str]:
    """The share of code outside torch that is named, and where it is: one place or both."""
    step = record.step.whole_seconds
    own = {where: seconds / step for where, seconds in own_code(record).items()}
    first, second = sorted(own, key=lambda where: -own[where])
    if own[second] < TOLD_FROM:
        return own[first], f"{whose(_library(record, first))} {_place(record, first)}"
    told = [f"{units.share(own[where])} {_place(record, where)}" for where in (first, second)]
    owners = dict.fromkeys(whose(_library(record, where)) for where in (first, second))
    return min(1.0, own[first] + own[second]), f"{' and '.join(owners)}: {told[0]}; {told[1]}"


def _place(record: Record, where: str) -> str:
    named = busiest(record, where)
    if named is None:
        return where
    line, words = named
    return f"{where}, {words if line.package is None else 'called at'} {_told(line)}"


def _told(line: Line) -> str:
    return f"{line.file.rpartition('/')[2]}:{line.line}"
