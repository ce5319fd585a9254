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
from hotlap.studies import learning, standings, study
from hotlap.studies.estimates import Costs
from hotlap.studies.standings import Standing
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
    rows = [_adding_up(one) for one in rows]
    return study.with_best(rows, proven(rows))


def proven(rows: Sequence[Row]) -> list[str]:
    found = standings.standing(rows, COST)
    return found.names if found is not None else []


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
    found = standings.standing(rows, COST)
    if found is None:
        return study.nothing(rows)
    said = standings.opening(found, f", {units.seconds(found.first.number(COST))} an epoch")
    why = [] if found.untold else _why(setting, found)
    first = ["This is the first epoch alone, in which libraries start"] * (setting.epochs == 1)
    return " ".join(f"{part}." for part in (said, *why, *first)) + study.missing(rows)


def _why(setting: Setting, found: Standing) -> list[str]:
    """What the loading and the computing of the first row and its neighbours say."""
    best = found.first
    loading, total = best.number("loading_seconds") or 0.0, best.number(COST) or 1.0
    share = units.share(loading / total)
    waits = f"With {best.name} {share} of an epoch is waiting for images"
    more = [one for one in found.others if _count(one.name) > _count(best.name)]
    lost = [one for one in more if one not in found.alike]
    slower = [_slower(best, lost[-1])] if lost else []
    if loading < HIDDEN * total and _count(best.name) == 0:
        return [f"Workers cannot gain much, because loading is only {share} of the epoch", *slower]
    if loading < HIDDEN * total and more:
        words = f"More cannot gain much, because loading is hidden but for {share} of the epoch"
        return [words, *slower]
    if loading < HIDDEN * total:
        return [f"Loading is hidden but for {share} of the epoch"]
    if slower:
        words = "More make it slower" if lost == more else "More do not help"
        return [f"{words}: {slower[0][0].lower()}{slower[0][1:]}", waits]
    return [waits if more else f"{waits}, and there are {units.plural(setting.cores, 'core')}"]


def _slower(best: Row, other: Row) -> str:
    """Where a row with more workers loses its time: in what grew most."""
    grown = {
        name: (other.number(column) or 0.0) - (best.number(column) or 0.0)
        for name, column in (("computing", "training_seconds"), ("loading", "loading_seconds"))
    }
    ratio = (other.number(COST) or 0.0) / (best.number(COST) or 1.0)
    most = max(grown, key=grown.__getitem__)
    return (
        f"With {other.name} an epoch takes {ratio:.2f} times as long, {most} "
        f"{units.seconds(max(0.0, grown[most]))} longer"
    )


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    good, found = [one for one in rows if one.good], standings.standing(rows, COST)
    if found is None:
        return ()
    names, least = tuple(one.name for one in good), found.first.name
    parts = {"loading": "loading_seconds", "compute": "training_seconds"}
    picture = Picture(
        kind="stacked",
        x=Axis(title="loader workers"),
        y=Axis(title="seconds an epoch"),
        series=tuple(
            Series(name=name, x=names, y=tuple(one.number(column) for one in good))
            for name, column in parts.items()
        ),
        words=f"Loading and computing of an epoch by loader workers; least with {least}.",
    )
    return (picture,)
