"""What does BatchNorm give, and what does it cost?

## What it shows
The same residual network with BatchNorm and without any normalisation: loss and accuracy on the
test images after each epoch, and how long an epoch takes.

## How it is measured
`hotlap.workloads.cifar` trains both for the same few epochs, once for every seed, in a fresh
process each time and in turns. On a GPU it is ResNet-18 with batches of 256 in bfloat16 and
channels last, on a CPU a narrow ResNet-10 on a part of the images; the images lie on the device.
Without BatchNorm the convolutions have biases, and every residual branch ends in a factor that
starts at zero (arXiv 2002.10444): it is the initialisation that lets such a network train at all.
SGD with momentum 0.9 and weight decay 0.0005 is used in both, with a learning rate that rises to
0.05 and falls again (one cycle).

## How to read it
Accuracies are means over seeds, their 95 % interval comes from the spread between seeds, pooled
over both rows. The time is that of the epochs after the first, without the test images; with
`--epochs 1` there is none. A run whose loss was no number any more has diverged; it counts with the
accuracy it ended with.

## When it misleads
Both have the same learning rate. BatchNorm allows larger ones, and without it a smaller one may
learn more. Deeper networks need it more than these. With few images for each process or small
batches its statistics are poor, and other normalisations do better.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotlap import units
from hotlap.answers import Column, Picture, Row, Trained
from hotlap.studies import learning, standings, study
from hotlap.studies.learning import ACCURACY, EPOCH
from hotlap.studies.study import Results, Setting

NAME = "batchnorm"
QUESTION = "What does BatchNorm give, and what does it cost?"
COLUMNS: tuple[Column, ...] = learning.COLUMNS
WITH, WITHOUT = "with BatchNorm", "without BatchNorm"
NORMS = {WITH: "batch", WITHOUT: "none"}
RATE = 0.05


def plan(setting: Setting) -> list[Trained]:
    options, recipe = learning.size(setting, "resnet18" if setting.device == "cuda" else "resnet10")
    cells = [
        Trained(
            row=name,
            words=setting.workload("cifar", *options, "--norm", norm, "--lr", RATE),
            recipe=recipe,
            variables=learning.threads(setting),
            limit_seconds=setting.pick(120.0, 900.0),
        )
        for name, norm in NORMS.items()
    ]
    return learning.seeded(cells, setting.seeds or setting.pick(2, 3))


def tabulate(setting: Setting, results: Results) -> list[Row]:
    return learning.tabulate(results, lambda name: {"learning_rate": RATE})


def proven(rows: Sequence[Row]) -> list[str]:
    return learning.proven(rows)


def read(setting: Setting, rows: Sequence[Row]) -> str:
    found = learning.standing(rows)
    if found is None:
        return study.nothing(rows)
    best, others = found.first, found.others
    epochs = units.plural(best.number("epochs") or 0, "epoch")
    right = units.accuracy(best.number(ACCURACY))
    if others and right == units.accuracy(others[0].number(ACCURACY)):
        said = f"{right} of the test images are right {best.name} and {others[0].name} "
        said += f"after {epochs}: no difference."
        return f"{said}{_time(rows)}{learning.troubles(rows)}{study.missing(rows)}"
    said = f"{learning.opening(found)}{best.name}, {right} of the test images right "
    said += f"after {epochs}{_against(best, others[0]) if others else ''}."
    return f"{said}{_time(rows)}{learning.troubles(rows)}{study.missing(rows)}"


def _against(best: Row, other: Row) -> str:
    said = f"; {other.name} {units.accuracy(other.number(ACCURACY))}, "
    said += learning.points(best, other)
    told = standings.apart(best, other, ACCURACY)
    if told is None:
        return f"{said} less, with one seed and so without a spread to compare with"
    if told:
        return f"{said} less and more than the {learning.seeds([best, other])} differ"
    return f"{said} less, which is within the spread of the {learning.seeds([best, other])}"


def _time(rows: Sequence[Row]) -> str:
    known = {one.name: one for one in rows if one.good and one.number(EPOCH)}
    if WITH not in known or WITHOUT not in known:
        return ""
    plain, normed = known[WITHOUT], known[WITH]
    ours, theirs = (one.number(EPOCH) or 0.0 for one in (normed, plain))
    found = standings.times(normed, plain, EPOCH)
    if found is None:
        both = f"{units.seconds(ours)} with it and {units.seconds(theirs)} without"
        return f" An epoch takes {both}; the noise of that is not known."
    said = f" An epoch with it takes {found.ratio:.2f} times as long"
    said += f" ({found.low:.2f} to {found.high:.2f})"
    if found.low <= 1.0 <= found.high:
        return f"{said}, which is within the noise."
    return f"{said}: {units.seconds(abs(ours - theirs))} {'more' if found.ratio > 1 else 'less'}."


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    return learning.draw(rows, results, "with and without BatchNorm")
