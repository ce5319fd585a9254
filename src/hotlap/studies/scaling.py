"""How much faster do several processes train than one?

## What it shows
Samples trained on per second by 1, 2, 4 and more processes together, with
`DistributedDataParallel`, and their efficiency: what they do beside as many times one process.

## How it is measured
`hotlap.workloads.cifar` trains under watch until its step time has settled, in fresh processes
each time and in turns. It is weak scaling: every process has the same batch, so the batch of a step
grows with them. One process trains plainly; more are started by `torch.distributed.run` on a free
port and average their gradients over NCCL with a GPU each, or over gloo on a CPU. The images lie on
each one's device, so that no loader is in the way. On a CPU every process has the same number of
threads in every row: the cores divided by the most processes that are tried. So one process does
not already use them all, and many do not take them from each other.

## How to read it
Efficiency is the rate of n processes over n times the rate of one: 100 % if nothing is lost. What
is lost is the time of averaging gradients that computing does not hide, and what processes take
from each other: memory bandwidth, caches, clock. The interval comes from the spread between runs.

## When it misleads
With the same batch for each process the steps are fewer and larger: what is learned in an epoch is
not the same. Larger networks compute more for each gradient on a GPU, and scale better. On a CPU
one process with all threads may well be faster than several: this is a study of scaling, not
a way to train there. With one GPU there is nothing to scale; `--device cpu` shows it on the cores.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotlap import stats, units
from hotlap.answers import Axis, Column, Done, Picture, Row, Series, Timed, Value
from hotlap.studies import standings, study
from hotlap.studies.standings import Standing
from hotlap.studies.study import Results, Setting
from hotlap.tunings import Speedup

NAME = "scaling"
QUESTION = "How much faster do several processes train than one?"
RATE, GAIN, EFFICIENCY = "samples_per_second", "gain", "efficiency"
COLUMNS: tuple[Column, ...] = (
    Column(name=RATE, title="samples/s", unit="rate", interval=True),
    Column(name=GAIN, title="of one", unit="ratio"),
    Column(name=EFFICIENCY, title="efficiency", unit="share", interval=True),
    Column(name="step_seconds", title="step", unit="seconds"),
)
MOST = 16  # processes; more belong to a cluster
QUICK = (32, ("--model", "resnet10", "--width", 16))  # the batch, and the other options
ON_A_CPU = (64, ("--model", "resnet10", "--width", 16))
ON_A_GPU = (256, ("--model", "resnet18", "--precision", "bf16"))
STEPS = 32  # of an epoch, for each process
LOGS = "ranks"  # in the folder of the cell; else torch leaves a folder where temporary files are
LAUNCHER = ("python", "-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost")


def plan(setting: Setting) -> list[Timed]:
    cells = [
        Timed(
            row=_name(count),
            words=words(setting, count),
            variables=variables(setting),
            skip=_skip(setting, count),
            seconds=setting.pick(1.0, 3.0),
            window_seconds=setting.pick(0.2, 0.4),
            limit_seconds=setting.pick(60.0, 120.0),
        )
        for count in counts(setting)
    ]
    return study.interleaved(cells, setting.seeds or setting.pick(1, 3))


def counts(setting: Setting) -> list[int]:
    """1, 2, 4, ... up to the GPUs or cores; 2 is asked for also where there are not so many."""
    if setting.quick:
        return [1, 2]
    most = min(MOST, _there_are(setting))
    doubling = [2**power for power in range(5) if 2**power <= most]
    return sorted({1, 2, *doubling, max(1, most)})


def _there_are(setting: Setting) -> int:
    return setting.gpus if setting.device == "cuda" else setting.cores


def _skip(setting: Setting, count: int) -> str:
    there = _there_are(setting)
    if count == 1 or count <= there:
        return ""
    what = "GPU" if setting.device == "cuda" else "core"
    return f"there is only {units.plural(max(1, there), what)} for them"


def words(setting: Setting, count: int) -> tuple[str, ...]:
    full = ON_A_GPU if setting.device == "cuda" else ON_A_CPU
    batch, options = setting.pick(QUICK, full)
    size = ("--batch", batch, "--samples", count * STEPS * batch, "--epochs", 1000)
    plain = setting.workload("cifar", *options, *size, "--input", "device")
    if count == 1:
        return plain
    # After -- the launcher looks for no options of its own among the script's.
    module = plain[plain.index("-m") + 1 :]
    return (*LAUNCHER, "--nproc-per-node", str(count), "--log-dir", LOGS, "-m", "--", *module)


def threads(setting: Setting) -> int:
    """Of each process, the same in every row."""
    tried = [count for count in counts(setting) if not _skip(setting, count)]
    return max(1, setting.cores // max(tried))


def variables(setting: Setting) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(threads(setting))}


def _name(count: int) -> str:
    return units.plural(count, "process", "processes")


def _count(row: Row | str) -> int:
    name = row if isinstance(row, str) else row.name
    return int(name.split()[0].replace(",", ""))


ALONE = _name(1)


def tabulate(setting: Setting, results: Results) -> list[Row]:
    known = study.sample_costs(results)
    rows = []
    for name in results.rows:
        fixed: dict[str, Value] = {"processes": _count(name), "threads": threads(setting)}
        made = study.row(name, results, _values, fixed=fixed)
        made = study.with_estimate(made, RATE, known.rate(name))
        rows.append(_efficient(made, known.gain(name, over=ALONE)))
    return study.with_best(rows, proven(rows))


def _standing(rows: Sequence[Row]) -> Standing | None:
    return standings.standing(rows, RATE, most=True)


def proven(rows: Sequence[Row]) -> list[str]:
    found = _standing(rows)
    return found.names if found is not None else []


def _figures(done: Sequence[Done], name: str) -> list[float]:
    return [found for one in done if (found := study.number_of(one.figures, name))]


def _values(done: list[Done]) -> dict[str, Value]:
    steps = _figures(done, "step_seconds")
    return {"step_seconds": stats.median(steps) if steps else None}


def _efficient(row: Row, gain: Speedup | None) -> Row:
    """The gain, and what of it falls to each process."""
    if row.name == ALONE and row.number(RATE):
        return study.with_values(row, **{GAIN: 1.0, EFFICIENCY: 1.0})
    if gain is None:
        return row
    count = _count(row)
    each = Speedup(ratio=gain.ratio / count, low=gain.low / count, high=gain.high / count)
    return study.with_gain(study.with_gain(row, GAIN, gain), EFFICIENCY, each)


def read(setting: Setting, rows: Sequence[Row]) -> str:
    found = _standing(rows)
    if found is None:
        return study.nothing(rows)
    best = found.first
    told = f" with {units.rate(best.number(RATE))}"
    if best.name != ALONE and GAIN in best.intervals:
        told += f", {_times(best)}"
    said = standings.opening(found, told)
    if best.name != ALONE:
        said += _gained(best) + _beyond(found)
    elif not found.others:
        why = next((one.reason for one in rows if not one.good and one.reason), "")
        said += f" ({why})" if why else ""
    elif found.proven:
        most = found.others[-1]
        said += f"; more are no faster: {most.name} train on {_times(most)}"
    return f"{said}.{study.missing(rows)}"


def _gained(best: Row) -> str:
    if best.number(EFFICIENCY) is None:
        return "; one process was not measured, so their efficiency is not known"
    if EFFICIENCY not in best.intervals:
        return ""
    low, high = best.intervals[EFFICIENCY]
    return (
        f"; each does {units.share(best.number(EFFICIENCY))} "
        f"({units.share(low)} to {units.share(high)}) of what one does alone, with the same batch"
    )


def _times(row: Row) -> str:
    return f"{row.number(GAIN) or 0.0:.2f} times as many as one"


def _beyond(found: Standing) -> str:
    more = [one for one in found.others if _count(one) > _count(found.first)]
    told = more and not found.untold and GAIN in more[-1].intervals
    return f"; {more[-1].name} train on {_times(more[-1])}" if told else ""


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    good, found = [one for one in rows if one.good], _standing(rows)
    if found is None:
        return ()
    at = tuple(float(_count(one)) for one in good)
    alone = next((one.number(RATE) for one in good if one.name == ALONE), None)
    axis = Axis(title="processes", log=True)
    lines = [study.series("measured", at, good, RATE)]
    if alone is not None:
        ideal = tuple(count * alone for count in at)
        lines.append(Series(name="if nothing were lost", x=at, y=ideal))
    rates = Picture(
        kind="lines",
        x=axis,
        y=Axis(title="samples/s"),
        series=tuple(lines),
        words=f"Samples a second by processes, with 95 % intervals; most with {found.first.name}.",
    )
    several = [one for one in good if one.number(EFFICIENCY) is not None]
    if len(several) < 2:  # one process is as efficient as itself
        return (rates,)
    least = min(several, key=lambda one: one.number(EFFICIENCY) or 0.0)
    count = tuple(float(_count(one)) for one in several)
    efficiency = Picture(
        kind="lines",
        x=axis,
        y=Axis(title="efficiency", unit="share"),
        series=(study.series("efficiency", count, several, EFFICIENCY),),
        words=f"Efficiency by processes, with 95 % intervals; least with {least.name}, "
        f"{units.share(least.number(EFFICIENCY))}.",
    )
    return (rates, efficiency)
