"""CPU or GPU, and how many threads?

## What it shows
How long an epoch takes on the CPU with 1, 2, 4, ... threads up to the cores, and on the GPU.

## How it is measured
`hotlap.workloads.cifar` trains the same network with the same batch on each until its step time has
settled, in a fresh process each time. An epoch on a CPU can take an hour, so on each a part of one
is measured, some steps, and the time of the whole is computed from it; a column says how large
the part was. The threads are those of a single operation (`torch.set_num_threads`). On a CPU the
training process loads its images itself; on the GPU, which would wait for that, workers do.

## How to read it
`gain` is over a single thread, `of ideal` what share of that each thread is worth: at 50 % half of
the cores would do. The reading compares the GPU with the fastest row of the CPU.

## When it misleads
A small model leaves a large GPU idle and favours the CPU. Cores that are shared with others, or two
threads on one core, flatten the curve. Without a GPU its row is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hotlap import stats, units
from hotlap.answers import Axis, Column, Done, Picture, Row, Series, Timed, Value
from hotlap.studies import standings, study
from hotlap.studies.estimates import Costs, Estimate
from hotlap.studies.study import Results, Setting

NAME = "devices"
QUESTION = "CPU or GPU, and how many threads?"
EPOCH = "epoch_seconds"
COLUMNS: tuple[Column, ...] = (
    Column(name=EPOCH, title="a whole epoch", unit="seconds"),
    Column(name="gain", title="gain", unit="ratio", interval=True),
    Column(name="of_ideal", title="of ideal", unit="share"),
    Column(name="measured", title="measured part", unit="share", spare=True),
)
GPU = "GPU"
NO_GPU, NOT_ASKED = "there is no GPU that torch can use", "--device cpu was given"
MOST_WORKERS = 8


def plan(setting: Setting) -> list[Timed]:
    cpu = replace(setting, device="cpu")
    cells = [
        _cell(cpu, _name(count), 0, {"threads": {"threads": count}}) for count in counts(setting)
    ]
    workers = max(1, min(MOST_WORKERS, setting.cores - 1))
    skip = "" if setting.device == "cuda" else NOT_ASKED if setting.gpus else NO_GPU
    cells.append(_cell(replace(setting, device="cuda"), GPU, workers, {}, skip))
    return study.interleaved(cells, setting.seeds or setting.pick(1, 2))


def _cell(
    setting: Setting, name: str, workers: int, recipe: dict[str, dict[str, int]], skip: str = ""
) -> Timed:
    small = ("--model", "resnet10", "--width", 16, "--batch", 16)
    size = setting.pick(small, ("--model", "resnet18", "--batch", 64))
    count = ("--samples", images(setting), "--epochs", 1000, "--workers", workers)
    return Timed(
        row=name,
        words=setting.workload("cifar", *size, *count),
        recipe=recipe,
        seconds=setting.pick(1.0, 4.0),
        window_seconds=setting.pick(0.2, 0.5),
        limit_seconds=setting.pick(60.0, 300.0),
        skip=skip,
    )


def images(setting: Setting) -> int:
    """Of an epoch: those of CIFAR-10."""
    return setting.pick(2_048, 50_000)


def counts(setting: Setting) -> list[int]:
    """1, 2, 4, ... and as many as there are cores."""
    most = max(1, setting.cores)
    if setting.quick:
        return sorted({1, min(2, most)})
    return sorted({*(2**power for power in range(8) if 2**power <= most), most})


def _name(count: int) -> str:
    return f"CPU, {units.plural(count, 'thread')}"


def _threads(name: str) -> int | None:
    return None if name == GPU else int(name.split()[1].replace(",", ""))


# The table -----------------------------------------------------------------------------------


def tabulate(setting: Setting, results: Results) -> list[Row]:
    known, whole = study.sample_costs(results), images(setting)
    single = next(iter(results.rows))
    rows = []
    for name in results.rows:
        made = study.row(name, results, lambda done: _values(done, whole))
        made = study.with_values(made, threads=_threads(name))
        made = study.with_estimate(made, EPOCH, _scaled(known.estimate(name), whole))
        if name != single:
            made = study.with_gain(made, "gain", known.gain(name, over=single))
        rows.append(_with_ideal(made, known))
    return study.with_best(rows, proven(rows))


def proven(rows: Sequence[Row]) -> list[str]:
    found = standings.standing(rows, EPOCH)
    return found.names if found is not None else []


def _scaled(found: Estimate | None, whole: int) -> Estimate | None:
    if found is None:
        return None
    value, low, high = (whole * one for one in (found.value, found.low, found.high))
    return replace(found, value=value, low=low, high=high)


def _values(done: list[Done], whole: int) -> dict[str, Value]:
    seen = [
        (study.number_of(one.figures, "steps") or 0.0)
        * (study.number_of(one.figures, "samples") or 0.0)
        for one in done
    ]
    return {"measured": min(1.0, stats.mean(seen) / whole) if any(seen) else None}


def _with_ideal(one: Row, known: Costs) -> Row:
    """What a thread is worth beside a single one; of the GPU, its gain over the best of the CPU."""
    threads, gain = _threads(one.name), one.number("gain")
    if threads is not None:
        return study.with_values(one, of_ideal=gain / threads) if gain else one
    best = min(
        (name for name in known.measured if name != GPU),
        key=lambda name: found.value if (found := known.estimate(name)) else 0.0,
        default=None,
    )
    if best is None or not one.good:
        return one
    made = study.with_gain(one, "gain_over_cpu", known.gain(GPU, over=best))
    return study.with_values(made, best_cpu=best)


# What it says --------------------------------------------------------------------------------


def read(setting: Setting, rows: Sequence[Row]) -> str:
    found = standings.standing(rows, EPOCH)
    if found is None:
        return study.nothing(rows)
    said = standings.opening(found, f", {units.seconds(found.first.number(EPOCH))} for an epoch")
    gpu = next((one for one in rows if one.name == GPU and "gain_over_cpu" in one.intervals), None)
    if gpu is not None:
        said += f"; {_compared(gpu)}"
    return f"{said}. {_of_threads(rows)}".rstrip() + study.missing(rows)


def _compared(gpu: Row) -> str:
    low, high = gpu.intervals["gain_over_cpu"]
    ratio, other = gpu.number("gain_over_cpu") or 1.0, _prose(str(gpu.values["best_cpu"]))
    between = f"({low:.2f} to {high:.2f})"
    if low <= 1 <= high:
        said = f"GPU and the {other} cannot be told apart within the noise"
        return f"{said}, {ratio:.2f} times {between}"
    return f"the GPU is {ratio:.2f} times {between} as fast as the {other}"


def _prose(name: str) -> str:
    return name.replace(", ", " with ")


def _of_threads(rows: Sequence[Row]) -> str:
    """Where more threads stop paying: the figures of the CPU alone."""
    own = [one for one in rows if one.good and _threads(one.name) and one.number(EPOCH)]
    found = standings.standing(own, EPOCH)
    if found is None or not found.others or found.untold:
        return ""
    fastest = found.first
    count = _threads(fastest.name) or 1
    if count == 1:
        are = "are not proven to" if found.alike else "do not"
        return f"More threads than one {are} make the CPU faster."
    said = f"{units.plural(count, 'thread')} are {_beside_one(fastest)}"
    alike = [one for one in found.alike if (_threads(one.name) or 0) < count]
    if alike:
        few = units.plural(_threads(alike[0].name) or 1, "thread")
        said += f"; {few} cannot be told from them within the noise"
    elif fastest is not own[-1]:
        said += "; more do not help"
    elif len(own) > 2 and fastest.number("of_ideal") is not None:
        said += f", and each is worth {units.share(fastest.number('of_ideal'))} of a single one"
    return f"{said}."


def _beside_one(row: Row) -> str:
    gain = row.number("gain")
    if gain is None or "gain" not in row.intervals:
        return "the fastest of those that were measured, and one thread was not"
    low, high = row.intervals["gain"]
    return f"{gain:.2f} times ({low:.2f} to {high:.2f}) as fast as one"


# What it draws -------------------------------------------------------------------------------


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    good, found = [one for one in rows if one.number(EPOCH)], standings.standing(rows, EPOCH)
    if found is None:
        return ()
    least = _prose(found.first.name)
    epochs = Picture(
        kind="bars",
        x=Axis(title="device"),
        y=Axis(title="seconds an epoch", log=True),
        series=(study.series("epoch", [one.name for one in good], good, EPOCH),),
        words=f"An epoch on each device, with 95 % intervals; least on the {least}.",
    )
    return (epochs, *_scaling(good))


def _scaling(rows: Sequence[Row]) -> tuple[Picture, ...]:
    own = [one for one in rows if _threads(one.name) and one.number("gain")]
    if not own or rows[0].number("gain"):
        return ()
    at = (1.0, *(float(_threads(one.name) or 1) for one in own))
    gains = (1.0, *(one.number("gain") for one in own))
    picture = Picture(
        kind="lines",
        x=Axis(title="threads", log=True),
        y=Axis(title="times as fast as one thread"),
        series=(
            Series(name="measured", x=at, y=gains),
            Series(name="as many times as threads", x=at, y=at),
        ),
        words="What threads are worth on the CPU, beside each of them being worth a whole one.",
    )
    return (picture,)
