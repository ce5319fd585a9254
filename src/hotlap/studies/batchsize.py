"""From which batch size on does a larger one stop paying?

## What it shows
Samples trained on per second, and the peak of memory, for batch sizes that double.

## How it is measured
`hotlap.workloads.cifar` trains under watch with each batch size until its step time has settled, in
a fresh process each time and in turns. Nothing else is changed: the learning rate stays, because
speed is asked for and not what is learned. The images are as many as all batches divide, so that
no step has a smaller one.

## How to read it
The knee is the smallest batch whose figure is within 5 % of the fastest one's. Below it the device
waits for work to be issued; beyond it only memory grows. Take the knee, and less where training
needs more updates to learn. Where runs differ by more than what lies between the knee and a smaller
batch, either may be the knee: the reading says so, and none is marked.

## When it misleads
Where the step waits for its input, the knee is that of the loader and not of the device: the
column says how much that is. On a CPU the memory is that of the whole process.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotlap import stats, units
from hotlap.answers import Axis, Column, Done, Picture, Row, Series, Timed, Value
from hotlap.studies import learning, standings, study
from hotlap.studies.study import Results, Setting

NAME = "batchsize"
QUESTION = "From which batch size on does a larger one stop paying?"
RATE = "samples_per_second"
COLUMNS: tuple[Column, ...] = (
    Column(name=RATE, title="samples/s", unit="rate", interval=True),
    Column(name="gain", title="of the smallest", unit="ratio", interval=True),
    Column(name="peak_bytes", title="memory", unit="bytes"),
    Column(name="step_seconds", title="step", unit="seconds"),
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
    return study.with_best(rows, proven(rows))


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


def knee(rows: Sequence[Row]) -> Row | None:
    """The smallest batch that is nearly as fast as the fastest.

    By the figures alone: intervals that are wide because the machine was busy must not make a
    slow batch look good enough. What they cannot tell apart is said in the reading.
    """
    found = standings.standing(rows, RATE, most=True)
    if found is None:
        return None
    enough = (found.first.number(RATE) or 0.0) / (1.0 + NEARLY)
    near = [one for one in found.others if (one.number(RATE) or 0.0) >= enough]
    return min([found.first, *near], key=_size)


def _size(row: Row) -> int:
    return _batch(row.name)


def proven(rows: Sequence[Row]) -> list[str]:
    """The knee, where no smaller batch may be as fast as it."""
    found = knee(rows)
    if found is None:
        return []
    others = [one for one in _known(rows) if one is not found]
    untold = any(standings.apart(one, found, RATE) is None for one in others)
    return [] if not others or untold or _doubted(found, rows) else [found.name]


def _known(rows: Sequence[Row]) -> list[Row]:
    return sorted((one for one in rows if one.good and one.number(RATE)), key=_size)


def _doubted(best: Row, rows: Sequence[Row]) -> list[Row]:
    """Smaller ones that are not proven to be slower."""
    smaller = [one for one in _known(rows) if _size(one) < _size(best)]
    return [one for one in smaller if standings.apart(one, best, RATE) is False]


def read(setting: Setting, rows: Sequence[Row]) -> str:
    best, good = knee(rows), _known(rows)
    if best is None:
        return study.nothing(rows)
    fastest = max(good, key=lambda one: one.number(RATE) or 0.0)
    said = _opening(best, fastest, rows) + _waiting(best, fastest)
    return f"{said}.{study.missing(rows)}"


def _opening(best: Row, fastest: Row, rows: Sequence[Row]) -> str:
    good, doubted = _known(rows), _doubted(best, rows)
    with_rate = f"{best.name} with {units.rate(best.number(RATE))}"
    if len(good) == 1:
        return f"Only one row was measured: {with_rate}"
    if proven(rows):
        return f"Best: {with_rate}{_beyond(best, fastest, good)}"
    share = units.share((best.number(RATE) or 0.0) / (fastest.number(RATE) or 1.0))
    of = "is the fastest" if best is fastest else f"has {share} of the fastest ({fastest.name})"
    if not doubted:
        return f"No row is proven to be the knee, without intervals: by its figure {with_rate} {of}"
    few = units.listed([one.name for one in doubted])
    of += "" if best is fastest else _memory(best, fastest)
    return (
        f"No row is proven to be the knee: {with_rate} {of}, but {few} cannot be told from it "
        "within the noise"
    )


def _beyond(best: Row, fastest: Row, good: Sequence[Row]) -> str:
    """What a larger batch than the knee would give."""
    if best is good[-1]:
        return "; a larger batch paid up to the largest that was measured"
    if best is fastest:
        return "; none of the larger ones is faster"
    share = (best.number(RATE) or 0.0) / (fastest.number(RATE) or 1.0)
    said = f", {units.share(share)} of the fastest ({fastest.name}){_memory(best, fastest)}"
    return f"{said}: beyond it a larger one stops paying"


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
    good, best = [one for one in rows if one.good], knee(rows)
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
            words="Samples a second by batch size, with 95 % intervals; "
            f"{best.name} is the smallest within 5 % of the fastest.",
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
