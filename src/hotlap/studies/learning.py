"""What trainings learned: loss and accuracy by epoch, over several seeds, and what an epoch took.

For studies whose rows are ways to train the same thing. Accuracies are compared by the spread
between seeds, pooled over the rows; times by the spread between runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from hotlap import stats, units
from hotlap.answers import Axis, Column, Done, Picture, Row, Series, Trained, Value
from hotlap.studies import standings, study
from hotlap.studies.estimates import Estimate, Means
from hotlap.studies.standings import Standing
from hotlap.studies.study import Results, Setting

ACCURACY, EPOCH, FIRST = "test_accuracy", "total_seconds", "first_seconds"
LEARNED = (ACCURACY, "train_accuracy", "loss")
COLUMNS: tuple[Column, ...] = (
    Column(name=ACCURACY, title="test accuracy", unit="accuracy", interval=True),
    Column(name="train_accuracy", title="train", unit="accuracy"),
    Column(name="loss", title="loss", unit="decimal"),
    Column(name=EPOCH, title="epoch", unit="seconds", interval=True),
    Column(name=FIRST, title="first", unit="seconds", spare=True),
)


QUICK = ("--width", 8, "--samples", 256, "--batch", 32)
ON_A_CPU = ("--width", 16, "--samples", 4096, "--batch", 128)
ON_A_GPU = ("--precision", "bf16", "--batch", 256)


def size(setting: Setting, model: str) -> tuple[tuple[object, ...], dict[str, dict[str, Any]]]:
    """Options of the workload and a recipe: an epoch of seconds, and no loader to wait for."""
    gpu = setting.device == "cuda"
    chosen = QUICK if setting.quick else ON_A_GPU if gpu else ON_A_CPU
    epochs = setting.epochs or setting.pick(2, 3)
    words = ("--model", model, *chosen, "--input", "device", "--epochs", epochs)
    return words, {"channels-last": {}} if gpu and not setting.quick else {}


def threads(setting: Setting) -> dict[str, str]:
    """A quick network is so small that threads would only wait for each other."""
    return {"OMP_NUM_THREADS": "1"} if setting.quick else {}


def seeded(cells: Sequence[Trained], seeds: int) -> list[Trained]:
    """All of them with each seed, in turns."""
    return [
        msgspec.structs.replace(one, words=(*one.words, "--seed", str(one.run)))
        for one in study.interleaved(cells, seeds)
    ]


def tabulate(results: Results, fixed: Callable[[str], Mapping[str, Value]]) -> list[Row]:
    """A row for each way, after its last epoch; the most accurate on the test images is best."""
    times = study.costs(results, _later)
    rows = [
        study.with_estimate(
            study.row(name, results, _values, fixed=fixed(name)), EPOCH, times.estimate(name)
        )
        for name in results.rows
    ]
    for column in LEARNED:
        found = Means({name: at_the_end(results.good(name), column) for name in results.rows})
        rows = [_with_mean(one, column, found) for one in rows]
    return study.with_best([with_trouble(one, results) for one in rows], proven(rows))


def _later(one: Done) -> float | None:
    """What an epoch took, where it had one after the first, in which libraries start."""
    found = study.epochs(one, EPOCH, first=True)[1:]
    return stats.mean(found) if found else None


def _values(done: list[Done]) -> dict[str, Value]:
    firsts = [whole[0] for one in done if (whole := study.epochs(one, EPOCH, first=True))]
    return {
        FIRST: stats.mean(firsts) if firsts else None,
        "epochs": max((len(study.epochs(one, ACCURACY, first=True)) for one in done), default=0),
        "diverged": sum(map(diverged, done)),
    }


def _with_mean(one: Row, column: str, found: Means) -> Row:
    estimate = possible(found.estimate(one.name), column)
    if estimate is None:
        return one
    made = study.with_values(one, **{column: estimate.value})
    if not found.degrees:  # one seed knows no spread; several that agree have one of nothing
        return made
    return msgspec.structs.replace(made, intervals={**made.intervals, column: estimate.interval})


def possible(found: Estimate | None, column: str) -> Estimate | None:
    """No interval goes below nothing, and none of an accuracy beyond all."""
    if found is None:
        return None
    most = math.inf if column == "loss" else 1.0
    return dataclasses.replace(found, low=max(0.0, found.low), high=min(most, found.high))


def with_trouble(one: Row, results: Results) -> Row:
    """A row some runs of which diverged says so."""
    count = one.number("diverged")
    if not count:
        return one
    runs = units.plural(len(trainings(results.good(one.name))), "run")
    said = f"{units.count(count)} of {runs} diverged: the loss was no number any more"
    return msgspec.structs.replace(one, reason="; ".join(filter(None, (one.reason, said))))


def standing(rows: Sequence[Row]) -> Standing | None:
    """By the test images."""
    return standings.standing(rows, ACCURACY, most=True)


def opening(found: Standing) -> str:
    """How the reading begins; by how much the first is ahead follows."""
    if not found.others:
        return "Only one row was measured: "
    return "Best: " if found.proven else "No row is proven best: first is "


def proven(rows: Sequence[Row]) -> list[str]:
    found = standing(rows)
    return found.names if found is not None else []


def by_epoch(done: Done, name: str) -> list[float | None]:
    """A figure of every epoch; None where it was no number."""
    found = [study.number_of(one, name) for one in done.figures.get("epochs") or ()]
    return [one if one is not None and math.isfinite(one) else None for one in found]


def at_the_end(done: Sequence[Done], name: str) -> list[float]:
    """A figure of each run's last epoch; a run that diverged has no loss there."""
    found = [by_epoch(one, name)[-1:] for one in done]
    return [value for values in found for value in values if value is not None]


def trainings(done: Sequence[Done]) -> list[Done]:
    """Those that logged epochs; a row may have runs that were only timed as well."""
    return [one for one in done if one.figures.get("epochs")]


def diverged(done: Done) -> bool:
    """Whether a loss was no number. A record has null for it, a log that was just read has nan."""
    losses = [one["loss"] for one in done.figures.get("epochs") or () if "loss" in one]
    return any(loss is None or not math.isfinite(loss) for loss in losses)


def points(one: Row, other: Row) -> str:
    """12.3 points: how far one is from the other on the test images, as both are shown."""
    shown = [round(100 * (row.number(ACCURACY) or 0.0), 1) for row in (one, other)]
    return f"{abs(shown[0] - shown[1]):.1f} points"


def seeds(rows: Sequence[Row]) -> str:
    return units.plural(max((one.runs for one in rows), default=0), "seed")


def troubles(rows: Sequence[Row]) -> str:
    """A sentence about runs that diverged; empty where none did."""
    bad = [
        f"{units.count(one.number('diverged') or 0)} of "
        f"{units.plural(one.number('trainings') or one.runs, 'run')} {study.quoted(one)}"
        for one in rows
        if one.good and one.number("diverged")
    ]
    return f" Diverged, the loss being no number any more: {units.listed(bad)}." if bad else ""


def draw(rows: Sequence[Row], results: Results, what: str) -> tuple[Picture, ...]:
    """Accuracy and loss over the epochs, a line with a band for each row."""
    found = standing(rows)
    if found is None:
        return ()
    best, good = found.first, [one for one in rows if one.good]
    top = units.accuracy(best.number(ACCURACY))
    right = f"Accuracy on the test images by epoch, {what}; {best.name} ends highest at {top}."
    least = [one for one in good if one.number("loss") is not None]
    axis = Axis(title="test accuracy", unit="share")
    pictures = [_over_epochs(good, results, ACCURACY, axis, right)]
    if least:
        low = min(least, key=lambda one: one.number("loss") or 0.0)
        lost = f"Loss on the training images by epoch, {what}; {low.name} ends lowest at "
        lost += f"{units.decimal(low.number('loss'))}."
        pictures.append(_over_epochs(good, results, "loss", Axis(title="training loss"), lost))
    return tuple(pictures)


def _over_epochs(
    rows: Sequence[Row], results: Results, column: str, axis: Axis, words: str
) -> Picture:
    lines = _curves(rows, results, column)
    return Picture(
        kind="bands",
        x=Axis(title="epoch"),
        y=axis,
        series=tuple(lines),
        words=f"{words} Bands are 95 % intervals." if any(one.low for one in lines) else words,
    )


def _curves(rows: Sequence[Row], results: Results, column: str) -> list[Series]:
    runs = {one.name: [by_epoch(run, column) for run in results.good(one.name)] for one in rows}
    length = {name: max(map(len, own), default=0) for name, own in runs.items()}
    at = [
        Means({name: _there(own, epoch) for name, own in runs.items()})
        for epoch in range(max(length.values(), default=0))
    ]
    known = any(one.degrees for one in at)
    made = []
    for name, count in length.items():
        found = [possible(at[epoch].estimate(name), column) for epoch in range(count)]
        made.append(
            Series(
                name=name,
                x=tuple(str(epoch + 1) for epoch in range(count)),
                y=tuple(one.value if one else None for one in found),
                low=tuple(one.low if one else None for one in found) if known else (),
                high=tuple(one.high if one else None for one in found) if known else (),
            )
        )
    return made


def _there(runs: Sequence[Sequence[float | None]], epoch: int) -> list[float]:
    found = [run[epoch] for run in runs if epoch < len(run)]
    return [value for value in found if value is not None]
