"""From which batch size on does a larger one stop paying?

## What it shows
Samples trained on per second, and the peak of memory, for batch sizes that double.

## How it is measured
`hotlap.workloads.cifar` trains under watch with each batch size until its step time has settled, in
a fresh process each time and in turns. Nothing else is changed: the learning rate stays, because
speed is asked for and not what is learned. The images are as many as all batches divide, so that
no step has a smaller one.

## How to read it
The knee is the smallest batch that trains nearly as fast as the fastest one. Below it the device
waits for work to be issued; beyond it only memory grows. Take the knee, and less where training
needs more updates to learn.

## When it misleads
Where the step waits for its input, the knee is that of the loader and not of the device: the
column says how much that is. On a CPU the memory is that of the whole process.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotlap import stats, units
from hotlap.answers import Axis, Column, Done, Picture, Row, Series, Timed, Value
from hotlap.studies import learning, study
from hotlap.studies.estimates import Costs
from hotlap.studies.study import Results, Setting

NAME = "batchsize"
QUESTION = "From which batch size on does a larger one stop paying?"
RATE = "samples_per_second"
COLUMNS: tuple[Column, ...] = (
    Column(name=RATE, title="samples/s", unit="rate", interval=True),
    Column(name="gain", title="of the smallest", unit="ratio", interval=True),
    Column(name="step_seconds", title="step", unit="seconds"),
    Column(name="peak_bytes", title="memory", unit="bytes"),
    Column(name="input", title="waits for input", unit="share", spare=True),
)
NOT_QUICK = ("input",)
BATCHES = (64, 128, 256, 512, 1024, 2048, 4096)
FEW_BATCHES = (8, 64)
NEARLY = 0.05  # as fast as the fastest, for all that memory is worth
FELT = 0.2  # a share of the step spent waiting for input from which on the loader decides


def plan(setting: Setting) -> list[Timed]:
    small = ("--model", "resnet10", "--width", 8, "--samples", 256, "--workers", 0)
    workers = max(1, min(8, setting.cores - 1))
    large = ("--model", "resnet18", "--samples", 12 * BATCHES[-1], "--workers", workers)
    cells = [
        Timed(
            row=_name(batch),
            words=setting.workload(
                "cifar", *setting.pick(small, large), "--batch", batch, "--epochs", 1000
            ),
            seconds=setting.pick(1.0, 3.0),
            window_seconds=setting.pick(0.2, 0.4),
            variables=learning.threads(setting),
            limit_seconds=setting.pick(60.0, 120.0),
        )
        for batch in setting.pick(FEW_BATCHES, BATCHES)
    ]
    planned = study.interleaved(cells, setting.seeds or setting.pick(1, 2))
    return planned if setting.quick else [study.with_phases(one) for one in planned]


def _name(batch: int) -> str:
    return f"batch {batch:,}"


def _batch(name: str) -> int:
    return int(name.split()[1].replace(",", ""))


def tabulate(setting: Setting, results: Results) -> list[Row]:
    known = study.sample_costs(results)
    smallest = next(iter(results.rows))
    rows = []
    for name in results.rows:
        made = study.row(name, results, _values, fixed={"batch": _batch(name)})
        made = study.with_estimate(made, RATE, known.rate(name))
        gain = known.gain(name, over=smallest) if name != smallest else None
        rows.append(study.with_gain(made, "gain", gain))
    return study.with_best(rows, knee(known))


def _values(done: list[Done]) -> dict[str, Value]:
    steps = [found for one in done if (found := study.number_of(one.figures, "step_seconds"))]
    peaks = [found for one in done if (found := study.number_of(one.figures, "peak_bytes"))]
    waits = [
        found
        for one in done
        if (found := study.number_of(one.figures.get("phases") or {}, "input")) is not None
    ]
    return {
        "step_seconds": stats.median(steps) if steps else None,
        "peak_bytes": max(peaks, default=None),
        "input": stats.mean(waits) if waits else None,
    }


def knee(known: Costs) -> str | None:
    """The smallest batch that is nearly as fast as the fastest.

    By the figures alone: intervals that are wide because the machine was busy must not make a
    slow batch look good enough. What they cannot tell apart is said in the reading.
    """
    best = known.best
    if best is None:
        return None
    return min([best, *known.near(best, within=NEARLY)], key=_batch)


def read(setting: Setting, rows: Sequence[Row]) -> str:
    best = study.best(rows)
    good = sorted((one for one in rows if one.good), key=lambda one: _batch(one.name))
    if best is None:
        return study.nothing(rows)
    fastest = max(good, key=lambda one: one.number(RATE) or 0.0)
    said = f"Best: {best.name} with {units.rate(best.number(RATE))}"
    if len(good) == 1:
        said += "; no other was measured that it could be compared with"
    elif best.name == good[-1].name:
        said += "; a larger batch paid up to the largest that was measured"
    elif best.name == fastest.name:
        said += "; none of the larger ones is faster"
    else:
        share = (best.number(RATE) or 0.0) / (fastest.number(RATE) or 1.0)
        said += f", {units.share(share)} of the fastest ({fastest.name})"
        said += _memory(best, fastest) + ": beyond it a larger one stops paying"
    said += _waiting(best, fastest)
    smaller = [one for one in good if _batch(one.name) < _batch(best.name)]
    alike = [one.name for one in smaller if study.overlap(one, best, RATE)]
    if alike:
        said += f". {units.listed(alike).capitalize()} cannot be told from it within the noise"
    return f"{said}.{study.missing(rows)}"


def _waiting(best: Row, fastest: Row) -> str:
    """Where it is the loader that is at its limit, rather than the device."""
    waits = fastest.number("input")
    if waits is not None and waits > FELT:
        said = f". There the step waits {units.share(waits)} of its time for input, so this is "
        return said + "the limit of the loader rather than of the device"
    waits = best.number("input")
    if waits is not None and waits > FELT:
        return f". With {best.name} the step waits {units.share(waits)} of its time for input"
    return ""


def _memory(best: Row, fastest: Row) -> str:
    mine, other = best.number("peak_bytes"), fastest.number("peak_bytes")
    return f" with {units.share(mine / other)} of its memory" if mine and other else ""


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    good = [one for one in rows if one.good]
    best = study.best(rows)
    if best is None:
        return ()
    at = tuple(float(_batch(one.name)) for one in good)
    axis = Axis(title="batch size", log=True)
    rates = study.series("samples/s", at, good, RATE)
    memory = Series(name="memory", x=at, y=tuple(one.number("peak_bytes") for one in good))
    return (
        Picture(
            kind="lines",
            x=axis,
            y=Axis(title="samples/s"),
            series=(rates,),
            words=f"Samples a second by batch size, with 95 % intervals; the knee is {best.name}.",
        ),
        Picture(
            kind="lines",
            x=axis,
            y=Axis(title="bytes at the peak", unit="bytes"),
            series=(memory,),
            words=f"Memory at the peak by batch size; {best.name} takes "
            f"{units.size(best.number('peak_bytes'))}.",
        ),
    )
