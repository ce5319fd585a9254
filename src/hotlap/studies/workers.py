"""How many processes should load and prepare the images?

## What it shows
The same training with more and more loader workers: how long an epoch waits for batches, how long
it computes, and how long it takes in all.

## How it is measured
`hotlap.workloads.cifar` trains for some epochs with each number of workers, in a fresh process each
time and in turns. The first epoch is left out where there are several: it starts libraries and
fills caches. With `--epochs 1` there is no other, and the reading says so. The counts go up to the
cores this process may use. Waiting is the time in which the loop had no batch; what workers do
while the model computes costs nothing there.

## How to read it
Total time decides. Where loading has become small, more workers cannot help. Where it is still
large with as many workers as there are cores, cores are what is missing: do less for each image.

## When it misleads
The images are in memory; from a disk or a network the waiting is another one. A smaller model
computes less, so more workers are needed to hide the same loading.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotlap import stats, units
from hotlap.answers import Axis, Column, Done, Picture, Row, Series, Trained, Value
from hotlap.studies import learning, study
from hotlap.studies.estimates import Costs
from hotlap.studies.study import Results, Setting

NAME = "workers"
QUESTION = "How many loader workers?"
COLUMNS: tuple[Column, ...] = (
    Column(name="loading_seconds", title="loading", unit="seconds"),
    Column(name="training_seconds", title="compute", unit="seconds"),
    Column(name="total_seconds", title="epoch in all", unit="seconds", interval=True),
)
COST = "total_seconds"
PARTS = ("loading_seconds", "training_seconds")
HIDDEN = 0.1  # a share of the epoch below which loading is not worth hiding any better


def plan(setting: Setting) -> list[Trained]:
    small = ("--model", "resnet10", "--width", 8, "--batch", 32, "--samples", 512)
    large = ("--model", "resnet18", "--batch", 128, "--samples", 16_384)
    epochs = setting.epochs or 2
    cells = [
        Trained(
            row=_name(count),
            words=setting.workload(
                "cifar", *setting.pick(small, large), "--epochs", epochs, "--workers", count
            ),
            variables=learning.threads(setting),
            limit_seconds=setting.pick(120.0, 900.0),
        )
        for count in counts(setting)
    ]
    return study.interleaved(cells, setting.seeds or setting.pick(1, 2))


def counts(setting: Setting) -> list[int]:
    """0, 1, 2, 4, ... and as many as there are cores."""
    if setting.quick:
        return [0, min(2, max(1, setting.cores))]
    doubling = [2**power for power in range(8) if 2**power <= setting.cores]
    return sorted({0, *doubling, max(1, setting.cores)})


def _name(count: int) -> str:
    return units.plural(count, "worker")


def _count(name: str) -> int:
    return int(name.split()[0].replace(",", ""))


def tabulate(setting: Setting, results: Results) -> list[Row]:
    rows = [
        study.row(name, results, _values, fixed={"workers": _count(name)}) for name in results.rows
    ]
    costs = _costs(results)
    rows = [study.with_estimate(one, COST, costs.estimate(one.name)) for one in rows]
    return study.with_best([_adding_up(one) for one in rows], costs.best)


def _adding_up(one: Row) -> Row:
    """Loading and computing as parts of the whole, which is no plain mean over the runs."""
    found = {name: one.number(name) for name in PARTS}
    total, sum_of_parts = one.number(COST), sum(value or 0.0 for value in found.values())
    if total is None or not sum_of_parts:
        return one
    parts = {name: (value or 0.0) * total / sum_of_parts for name, value in found.items()}
    return study.with_values(one, **parts)


def _costs(results: Results) -> Costs:
    return study.costs(results, lambda one: next(iter(study.epoch_means([one], COST)), None))


def _values(done: list[Done]) -> dict[str, Value]:
    found = {column.name: study.epoch_means(done, column.name) for column in COLUMNS}
    return {name: stats.mean(means) if means else None for name, means in found.items()}


def read(setting: Setting, rows: Sequence[Row]) -> str:
    best = study.best(rows)
    if best is None:
        return study.nothing(rows)
    good = [one for one in rows if one.good]
    alike = [one.name for one in good if one is not best and study.overlap(one, best, COST)]
    said = f"Best: {best.name}, {units.seconds(best.number(COST))} an epoch"
    said += f" ({units.listed(alike)} within the noise of it)" if alike else ""
    first = " This is the first epoch alone, in which libraries start." * (setting.epochs == 1)
    return f"{said}; {_why(setting, best, good)}.{first}{study.missing(rows)}"


def _why(setting: Setting, best: Row, rows: Sequence[Row]) -> str:
    """What the loading and the computing of the best row and its neighbours say."""
    loading, total = best.number("loading_seconds") or 0.0, best.number(COST) or 1.0
    share = units.share(loading / total)
    more = [one for one in rows if _count(one.name) > _count(best.name)]
    lost = [one for one in more if not study.overlap(one, best, COST)]
    if loading < HIDDEN * total and _count(best.name) == 0:
        words = f"workers cannot gain much, because loading is only {share} of the epoch"
    elif loading < HIDDEN * total and more:
        words = f"more cannot gain much, because loading is hidden but for {share} of the epoch"
    elif loading < HIDDEN * total:
        words = f"loading is hidden but for {share} of the epoch"
    elif more:
        words = f"more do not help, although the epoch still waits {share} of its time for images"
    else:
        cores = units.plural(setting.cores, "core")
        words = f"the epoch still waits {share} of its time for images, with {cores} to use"
    return words + (_slower(best, lost[-1]) if lost else "")


def _slower(best: Row, other: Row) -> str:
    """Where a row with more workers loses its time: in what grew most."""
    grown = {
        name: (other.number(column) or 0.0) - (best.number(column) or 0.0)
        for name, column in (("computing", "training_seconds"), ("loading", "loading_seconds"))
    }
    ratio = (other.number(COST) or 0.0) / (best.number(COST) or 1.0)
    most = max(grown, key=grown.__getitem__)
    return (
        f"; with {other.name} the epoch takes {ratio:.2f} times as long, and {most} "
        f"{units.seconds(max(0.0, grown[most]))} longer"
    )


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    good, best = [one for one in rows if one.good], study.best(rows)
    if best is None:
        return ()
    names = tuple(one.name for one in good)
    parts = {"loading": "loading_seconds", "compute": "training_seconds"}
    picture = Picture(
        kind="stacked",
        x=Axis(title="loader workers"),
        y=Axis(title="seconds an epoch"),
        series=tuple(
            Series(name=name, x=names, y=tuple(one.number(column) for one in good))
            for name, column in parts.items()
        ),
        words=f"Loading and computing of an epoch by loader workers; least with {best.name}.",
    )
    return (picture,)
