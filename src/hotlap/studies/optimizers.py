"""Which optimizer learns most in the same number of epochs, and what does it cost?

## What it shows
The same network trained with SGD, Nesterov's momentum, Adagrad, Adadelta, Adam and AdamW, the last
two also fused: accuracy on the test images and loss after each epoch, and how long an epoch took.

## How it is measured
`hotlap.workloads.cifar` trains for the same few epochs with each, once for every seed, in a fresh
process each time and in turns. On a GPU it is ResNet-10 with batches of 256 in bfloat16 and
channels last, on a CPU a narrow one on a part of the images. The images lie on the device, so
that no loader hides what an optimizer costs. The learning rate falls from its first value to zero
along a cosine. It is the usual one for each, in the table and in the JSON: 0.1 for SGD and Nesterov
(momentum 0.9, weight decay 0.0005), 0.01 for Adagrad, 1 for Adadelta, 0.001 for Adam and AdamW
(weight decay 0.01). Nothing else differs.

## How to read it
Accuracies are means over seeds; their 95 % interval comes from the spread between seeds, pooled
over all rows. What is closer than that is not a difference. The time is that of the epochs after
the first, without the test images; the first, in which libraries start, stands apart, and with
`--epochs 1` it is all there is. A fused optimizer computes the same in fewer kernels: it should
differ in time alone.

## When it misleads
A few epochs favour what learns fast at first; SGD often wins in the end. Each optimizer has one
learning rate here, and another one may suit it better. The larger the batch and the network, the
less an optimizer's own time counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotlap import units
from hotlap.answers import Column, Picture, Row, Trained
from hotlap.studies import learning, standings, study
from hotlap.studies.learning import ACCURACY, EPOCH
from hotlap.studies.study import Results, Setting

NAME = "optimizers"
QUESTION = "Which optimizer learns most in the same number of epochs?"
COLUMNS: tuple[Column, ...] = (
    Column(name="learning_rate", title="learning rate", unit="decimal", spare=True),
    *learning.COLUMNS,
)
RATES = {
    "SGD": 0.1,
    "Nesterov": 0.1,
    "Adagrad": 0.01,
    "Adadelta": 1.0,
    "Adam": 0.001,
    "Adam fused": 0.001,
    "AdamW": 0.001,
    "AdamW fused": 0.001,
}
FEW = ("SGD", "AdamW")
FUSED = " fused"
NOTICED = 1.02  # times as long: less is not worth a word even where it is certain


def plan(setting: Setting) -> list[Trained]:
    options, recipe = learning.size(setting, "resnet10")
    cells = [
        Trained(
            row=name,
            words=setting.workload("cifar", *options, *_own(name), "--schedule", "cosine"),
            variables=learning.threads(setting),
            recipe=recipe,
            limit_seconds=setting.pick(120.0, 900.0),
        )
        for name in setting.pick(FEW, tuple(RATES))
    ]
    return learning.seeded(cells, setting.seeds or 2)


def _own(name: str) -> tuple[object, ...]:
    return "--optimizer", name.lower().replace(" ", "-"), "--lr", RATES[name]


def tabulate(setting: Setting, results: Results) -> list[Row]:
    return learning.tabulate(results, lambda name: {"learning_rate": RATES[name]})


def proven(rows: Sequence[Row]) -> list[str]:
    return learning.proven(rows)


def read(setting: Setting, rows: Sequence[Row]) -> str:
    found = learning.standing(rows)
    if found is None:
        return study.nothing(rows)
    best, others = found.first, found.others
    epochs = units.plural(best.number("epochs") or 0, "epoch")
    said = learning.opening(found)
    said += f"{best.name} with {units.accuracy(best.number(ACCURACY))} on the test images "
    said += f"after {epochs}{_against(best, others)}.{_time(best, [best, *others])}"
    return f"{said}{learning.troubles(rows)}{study.missing(rows)}"


def _against(best: Row, others: Sequence[Row]) -> str:
    """Who cannot be told from the best, and how far the first is that can."""
    if not others:
        return ""
    known = {one.name: standings.apart(best, one, ACCURACY) for one in others}
    behind = [one for one in others if known[one.name] is not False]
    second = max(behind or others, key=lambda one: one.number(ACCURACY) or 0.0)
    if known[second.name] is None:
        level = units.accuracy(best.number(ACCURACY)) == units.accuracy(second.number(ACCURACY))
        ahead = "level with" if level else f"{learning.points(best, second)} before"
        said = f", {ahead} {second.name}; "
        return said + "with one seed the spread between seeds is not known"
    spread = f"the spread of {learning.seeds([best, *others])}"
    alike = [name for name, told in known.items() if told is False]
    said = f"; {units.listed(alike)} cannot be told from it within {spread}" if alike else ""
    if behind:
        beyond = "it" if alike else spread
        said += f", and {second.name}" if alike else f"; {second.name}"
        said += f" is {learning.points(best, second)} behind, beyond {beyond}"
    return said


def _time(best: Row, rows: Sequence[Row]) -> str:
    """What the best and the slowest cost beside the fastest, and whether fusing pays."""
    timed = [one for one in rows if one.number(EPOCH)]
    if len(timed) < 2:
        return ""
    fast = min(timed, key=lambda one: one.number(EPOCH) or 0.0)
    slow = max(timed, key=lambda one: one.number(EPOCH) or 0.0)
    if not _longer(slow, fast):
        return _alike(fast, slow)
    said = f" An epoch takes {units.seconds(fast.number(EPOCH))} with "
    between = [best] if best is not slow and _longer(best, fast) else []
    ratios = [f"{_ratio(one, fast)} times that with {one.name}" for one in (*between, slow)]
    return f"{said}{units.listed([fast.name, *ratios])}{_fused(timed)}."


def _alike(fast: Row, slow: Row) -> str:
    """What an epoch takes where nothing more is to be said of it."""
    least, most = (units.seconds(one.number(EPOCH)) for one in (fast, slow))
    told = standings.apart(slow, fast, EPOCH)
    if least == most:
        return f" An epoch takes {least} with any of them."
    if told is None:
        return f" An epoch takes {least} to {most}; the noise of that is not known."
    noise = ", which hardly differs" if told else ", a difference within the noise"
    return f" An epoch takes {least} to {most}{noise}."


def _longer(one: Row, other: Row) -> bool:
    ratio = (one.number(EPOCH) or 0.0) / (other.number(EPOCH) or 1.0)
    return bool(standings.apart(one, other, EPOCH)) and ratio > NOTICED


def _ratio(one: Row, other: Row) -> str:
    return f"{(one.number(EPOCH) or 0.0) / (other.number(EPOCH) or 1.0):.2f}"


def _fused(rows: Sequence[Row]) -> str:
    """Whether fusing paid, for those that were measured both ways."""
    known = {one.name: one for one in rows}
    told = []
    for name, plain in known.items():
        fused = known.get(name + FUSED)
        if fused is None:
            continue
        apart = standings.apart(plain, fused, EPOCH)
        alike = {True: "", False: " (within the noise)", None: " (its noise is not known)"}[apart]
        told.append(f"{name} takes {_ratio(fused, plain)} times as long{alike}")
    return f"; fused, {units.listed(told)}" if told else ""


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    return learning.draw(rows, results, "with each optimizer")
