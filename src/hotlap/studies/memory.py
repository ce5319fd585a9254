"""How much memory do activations take, and what does it cost not to keep them?

## What it shows
ResNets of 18, 34 and 50 layers and RevNets of 3, 5, 9 and 18 units a stage, at a batch of 8: their
parameters, the bytes of activations kept for the backward pass, the bytes at the peak of a step,
and the time a batch takes. Each RevNet is trained in three ways: keeping all activations, keeping
the input of each unit (checkpointing), and reversibly, computing them back from the output. Then a
ResNet and a RevNet with as many parameters learn for one epoch.

## How it is measured
Each row is a process of its own; images are random, of 32 x 32 pixels. The ResNets have 32, 32, 64
and 112 channels, as the RevNets do. Activations are what is allocated when the forward pass has
ended and was not before it. The peak is the most that is allocated during a step, with parameters,
gradients, the optimizer's momentum and the batch. On a GPU its allocator tells, on a CPU torch's
profiler, in a step that is not timed. Time is measured over windows of steps without any of this,
on a CPU with one thread. The ratio to keeping all comes from windows of both in turns, in one
process; the times beside it come from all processes, and need not divide into it.
The epoch is one of `hotlap.workloads.cifar` with batches of 128, once for each seed, of a RevNet
and a ResNet-18 as narrow as it takes; on a CPU of 4,096 images.

## How to read it
What grows with depth in one way and stays flat in the other is what reversible blocks save. The
last ratio says what that costs in time. In arithmetic it is four units of work in place of three,
1.33, for reversible blocks and for checkpointing alike. A GPU took more at this batch, and most for
checkpointing: there operations are issued more slowly than they are computed, and each way issues
its own beside those of the second pass. Checkpointing works with any network, but what it keeps
still grows.

## When it misleads
At a batch of 8 parameters and gradients are a large part of the peak; with larger batches it is
nearly all activations. A GPU that waits for work to be issued at such a batch shows the cost of
issuing it, not of computing. Checkpointing runs BatchNorm twice, so its running statistics move
twice as fast; the reversible blocks count each batch once. One epoch says that both learn, not
which is better in the end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hotlap import stats, units
from hotlap.answers import NOT_RUN, Axis, Called, Column, Done, Picture, Row, Series, Trained, Value
from hotlap.studies import estimates, standings, study
from hotlap.studies.estimates import Costs, Estimate, Timing
from hotlap.studies.learning import at_the_end, diverged, possible, troubles, with_trouble
from hotlap.studies.networks import CHECKPOINTED, KEPT, REVERSIBLE, WAYS, build
from hotlap.studies.study import AnyCell, Results, Setting

NAME = "memory"
QUESTION = "How much memory do activations take, and what does it cost not to keep them?"
ACTIVATIONS, PEAK, TIME, LOSS = "activation_bytes", "peak_bytes", "batch_seconds", "final_loss"
COLUMNS: tuple[Column, ...] = (
    Column(name="parameters", title="parameters", unit="number", spare=True),
    Column(name=ACTIVATIONS, title="activations", unit="bytes"),
    Column(name=PEAK, title="peak", unit="bytes"),
    Column(name=TIME, title="time a batch", unit="seconds", interval=True),
    Column(name="ratio", title="of keeping all", unit="ratio"),
    Column(name="loss", title="loss", spare=True),
    Column(name="test_accuracy", title="accuracy", unit="share"),
)
NOT_QUICK = ("loss", "test_accuracy")
BATCH = 8
CPU_SAMPLES = 4_096  # an epoch of all images takes too long there
RESNETS, UNITS = (18, 34, 50), (3, 5, 9, 18)
ALIKE = "cannot be told from that of keeping all"
FLAT = 1.05  # activations that grow by no more than this over all depths do not grow
# As many parameters, within one per cent; (options, parameters).
LEARNING: dict[str, tuple[tuple[object, ...], int]] = {
    "learning ResNet-18": (("--model", "resnet18", "--width", 13), 463_707),
    "learning RevNet 3-3-3": (("--model", "revnet38"), 464_858),
}


# What is run -----------------------------------------------------------------------------------


def plan(setting: Setting) -> list[AnyCell]:
    timing = setting.pick(
        {"seconds": 0.4, "window_seconds": 0.1}, {"seconds": 1.5, "window_seconds": 0.2}
    )
    cells = [
        Called(
            row=name(**one),
            function="memory:measure",
            arguments={**one, "device": setting.device, **timing},
            limit_seconds=300.0,
        )
        for one in networks(setting)
    ]
    planned: list[AnyCell] = [*study.interleaved(cells, setting.seeds or 1)]
    return planned if setting.quick else [*planned, *learning(setting)]


def networks(setting: Setting) -> list[dict[str, Any]]:
    """Which network, how deep, trained in which way."""
    if setting.quick:
        few = ((3, REVERSIBLE), (5, REVERSIBLE), (5, KEPT))
        return [_network("resnet", 18, KEPT), *(_network("revnet", *one) for one in few)]
    plain = [_network("resnet", depth, KEPT) for depth in RESNETS]
    return plain + [_network("revnet", count, way) for count in UNITS for way in WAYS]


def _network(kind: str, size: int, way: str) -> dict[str, Any]:
    return {"kind": kind, "size": size, "way": way}


def learning(setting: Setting) -> list[Trained]:
    options = ("--batch", 128, "--epochs", setting.epochs or 1)
    fewer = () if setting.device == "cuda" else ("--samples", CPU_SAMPLES)
    workers = max(1, min(8, setting.cores - 1))
    cells = [
        Trained(
            row=row,
            words=setting.workload("cifar", *model, *options, *fewer, "--workers", workers),
            limit_seconds=900.0,
        )
        for row, (model, _) in LEARNING.items()
    ]
    return [_seeded(one) for one in study.interleaved(cells, setting.seeds or 2)]


def _seeded(cell: Trained) -> Trained:
    return Trained(
        row=cell.row,
        run=cell.run,
        words=(*cell.words, "--seed", str(cell.run)),
        limit_seconds=cell.limit_seconds,
    )


def name(kind: str, size: int, way: str) -> str:
    if kind == "resnet":
        return f"ResNet-{size}"
    stages = "-".join([str(size)] * 3)
    return f"RevNet {stages}" if way == REVERSIBLE else f"{stages} {way}"


def layers(kind: str, size: int) -> int:
    """A RevNet has three stages of units of four convolutions, one before and a layer after."""
    return size if kind == "resnet" else 12 * size + 2


def measure(
    *, kind: str, size: int, way: str, device: str, seconds: float, window_seconds: float
) -> dict[str, Any]:
    import torch

    from hotlap.studies import footprint

    torch.manual_seed(0)
    torch.set_num_threads(1)  # several that wait for each other are slower on a machine in use
    training = footprint.Training(build(kind, size, way), batch=BATCH, device=device)
    figures: dict[str, Any] = {"parameters": footprint.parameters(training.model)}
    figures.update(footprint.taken(training))
    trainings = [training]
    if way != KEPT:  # after the bytes were counted: it takes some itself
        trainings.append(footprint.Training(build(kind, size, KEPT), batch=BATCH, device=device))
    windows, *kept = footprint.timed(trainings, seconds, window=window_seconds)
    if kept:
        figures["ratios"] = [own / other for own, other in zip(windows, kept[0], strict=True)]
        figures["kept_seconds"], figures["kept_windows"] = stats.median(kept[0]), kept[0]
    return {**figures, TIME: stats.median(windows), "windows": windows}


# What it comes to ------------------------------------------------------------------------------


def tabulate(setting: Setting, results: Results) -> list[Row]:
    known = {name(**one): one for one in networks(setting)}
    costs = _costs(results, known, beside=not setting.quick)
    rows = []
    for row in results.rows:
        if row in known:
            rows.append(_measured(row, known[row], results, costs))
        else:
            fixed = {"parameters": float(LEARNING[row][1])}
            made = study.row(row, results, _learned, fixed=fixed)
            found = possible(estimates.mean(at_the_end(results.good(row), "loss")), "loss")
            rows.append(with_trouble(study.with_estimate(made, LOSS, found), results))
    return study.with_best(rows, proven(rows))


def _measured(row: str, network: dict[str, Any], results: Results, costs: Costs) -> Row:
    kind, size = network["kind"], network["size"]
    fixed: dict[str, Value] = {"layers": layers(kind, size), "kind": kind, "way": network["way"]}
    made = study.row(row, results, _values, fixed=fixed)
    made = study.with_estimate(made, TIME, costs.estimate(row))
    return study.with_estimate(made, "ratio", _ratio(results.good(row)))


def _ratio(done: list[Done]) -> Estimate | None:
    """Of the time of keeping all, from pairs of windows: the mean of their logarithms."""
    pairs = [float(one) for run in done for one in run.figures.get("ratios") or ()]
    found = estimates.mean([math.log(one) for one in pairs if one > 0])
    if found is None:
        return None
    value, low, high = (math.exp(one) for one in (found.value, found.low, found.high))
    return Estimate(value=value, low=low, high=high, runs=found.runs)


def _costs(results: Results, known: dict[str, dict[str, Any]], *, beside: bool) -> Costs:
    """Seconds a batch. Keeping all was timed beside the other ways as well: further runs of it,
    unless that is one pair alone, from which nothing is learned of the spread."""
    timings: dict[str, list[Timing]] = {row: [] for row in known}
    for row, network in known.items():
        kept = name(network["kind"], network["size"], KEPT)
        for done in results.good(row):
            for into, time, own in ((row, TIME, "windows"), (kept, "kept_seconds", "kept_windows")):
                found = study.number_of(done.figures, time)
                if found and into in known and (beside or into == row):
                    within = tuple(done.figures.get(own) or ())
                    timings[into].append(Timing(found, within, done.disturbed, done.busy))
    return Costs(timings)


def _values(done: list[Done]) -> dict[str, Value]:
    names = ("parameters", ACTIVATIONS, PEAK)
    return {one: max(_numbers(done, one), default=None) for one in names}


def _numbers(done: list[Done], figure: str) -> list[float]:
    found = [study.number_of(one.figures, figure) for one in done]
    return [one for one in found if one is not None]


def _learned(done: list[Done]) -> dict[str, Value]:
    losses, right = at_the_end(done, "loss"), at_the_end(done, "test_accuracy")
    return {
        "loss": f"{stats.mean(losses):.3f}" if losses else None,
        "test_accuracy": stats.mean(right) if right else None,
        "diverged": sum(map(diverged, done)),
    }


def proven(rows: Sequence[Row]) -> list[str]:
    """None: what keeps least takes longest, and which of both counts is for the reader to say."""
    return []


def _least(rows: Sequence[Row]) -> Row | None:
    """Of the ways to train the deepest network, the one that keeps least.

    Of a network that was tried in one way alone, such as a ResNet, nothing can be said.
    """
    tried = Counter(one.number("layers") for one in rows if one.status != NOT_RUN)
    known = [one for one in _known(rows) if tried[one.number("layers")] > 1]
    deepest = max((one.number("layers") or 0.0 for one in known), default=0.0)
    same = [one for one in known if one.number("layers") == deepest]
    return min(same, key=lambda one: one.number(ACTIVATIONS) or 0.0, default=None)


def _known(rows: Sequence[Row]) -> list[Row]:
    return [one for one in rows if one.good and one.number(ACTIVATIONS) is not None]


# What it says ----------------------------------------------------------------------------------


def read(setting: Setting, rows: Sequence[Row]) -> str:
    best = _least(rows)
    if best is None and any(one.good for one in rows):
        return f"{_apart(rows)}{_convergence(setting, rows)}{study.missing(rows)}"
    if best is None:
        return study.nothing(rows)
    said = f"{_ways(best, rows)} {units.size(best.number(ACTIVATIONS))} of activations"
    said += _growth(best, rows) + _cost(best, rows)
    return f"{said}.{_convergence(setting, rows)}{study.missing(rows)}"


def _ways(best: Row, rows: Sequence[Row]) -> str:
    layers = units.count(best.number("layers") or 0.0)
    same = [one for one in _known(rows) if one.number("layers") == best.number("layers")]
    if len(same) == 1:
        return f"Of the deepest network ({layers} layers) only {best.name} was measured and keeps"
    return f"Of the ways to train the deepest network ({layers} layers) {best.name} keeps least,"


def _apart(rows: Sequence[Row]) -> str:
    """Where no network was trained in two ways: what each keeps, which makes none the best."""
    kept = [f"{one.name} keeps {units.size(one.number(ACTIVATIONS))}" for one in _known(rows)]
    if not kept:
        return "No memory was measured."
    said = "No network was measured in two ways that could be compared"
    return f"{said}; {units.listed(kept[:3])} of activations."


def _way(rows: Sequence[Row], way: str, kind: str = "revnet") -> list[Row]:
    """Measured rows of one way, from shallow to deep."""
    found = [one for one in rows if one.values.get("way") == way and one.values["kind"] == kind]
    known = [one for one in found if one.number(ACTIVATIONS)]
    return sorted(known, key=lambda one: one.number("layers") or 0.0)


def _growth(best: Row, rows: Sequence[Row]) -> str:
    flat, grown = _way(rows, REVERSIBLE), _way(rows, KEPT)
    said = ""
    if len(flat) > 1:
        first, last = (one.number(ACTIVATIONS) or 0.0 for one in (flat[0], flat[-1]))
        span = f"from {flat[0].name} to {flat[-1].name}"
        grows = f"grows from {units.size(first)} to {units.size(last)}"
        grows = "stays the same" if last <= FLAT * first else grows
        said += f"; what reversible blocks keep {grows} {span}"
    if len(flat) > 1 and _ends(flat) == _ends(grown):
        ends = [units.size(one.number(ACTIVATIONS)) for one in (grown[0], grown[-1])]
        return f"{said}, while the same networks keeping all go from {ends[0]} to {ends[1]}"
    others = [one for one in (*grown[:1], *grown[1:][-1:]) if one is not best]
    told = [f"{one.name} takes {units.size(one.number(ACTIVATIONS))}" for one in others]
    return said + (f", while {units.listed(told)}" if told else "")


def _ends(rows: Sequence[Row]) -> list[float | None]:
    """How deep the first and the last are."""
    return [one.number("layers") for one in (*rows[:1], *rows[-1:])]


def _cost(best: Row, rows: Sequence[Row]) -> str:
    """In time, beside keeping all; and what checkpointing the same network comes to."""
    if best.number("ratio") is None:
        return ""
    takes = f"{best.name} takes {_times(best)}" if _told(best) else ""
    said = f". {takes or f'The time of {best.name} {ALIKE}'}"
    others = [one for one in _way(rows, CHECKPOINTED) if one is not best]
    same = [one for one in others if one.values["layers"] == best.values["layers"]]
    if same and same[0].number("ratio") is not None:
        kept = units.size(same[0].number(ACTIVATIONS))
        said += f"; checkpointing keeps {kept}"
        said += f" and takes {_times(same[0])}" if _told(same[0]) else f", and its time {ALIKE}"
    return said


def _told(row: Row) -> bool:
    """Whether its time differs from that of keeping all."""
    low, high = row.intervals.get("ratio", (1.0, 1.0))
    return not low <= 1.0 <= high


def _times(row: Row) -> str:
    ratio = row.number("ratio") or 0.0
    low, high = row.intervals["ratio"]
    return f"{ratio:.2f} times the time of keeping all ({low:.2f} to {high:.2f})"


def _convergence(setting: Setting, rows: Sequence[Row]) -> str:
    learned = [one for one in rows if one.number(LOSS) is not None]
    if len(learned) < 2:
        return troubles(rows)
    told = [f"{one.number(LOSS):.3f} ({one.name})" for one in learned]
    near = standings.apart(learned[0], learned[1], LOSS) is False
    noise = ", within the noise of the seeds" if near else ""
    after = units.plural(setting.epochs or 1, "epoch")
    said = f" After {after}, with as many parameters, the loss is {units.listed(told)}{noise}."
    return said + troubles(rows)


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    if not _known(rows):
        return ()
    words = "Bytes of activations after the forward pass, by depth; a batch of 8."
    more = "Bytes at the peak of a training step, by depth; a batch of 8."
    pictures = [
        _by_depth(rows, ACTIVATIONS, Axis(title="bytes of activations", unit="bytes"), words),
        _by_depth(rows, PEAK, Axis(title="bytes at the peak", unit="bytes"), more),
        _by_depth(rows, TIME, Axis(title="seconds a batch"), "Time of a batch of 8, by depth."),
    ]
    learned = [one for one in rows if one.number(LOSS) is not None]
    if learned:
        names = [one.name for one in learned]
        pictures.append(
            Picture(
                kind="bars",
                x=Axis(title="network"),
                y=Axis(title="loss"),
                series=(study.series("loss", names, learned, LOSS),),
                words="Mean training loss of the last epoch; networks with as many parameters.",
            )
        )
    return tuple(pictures)


def _by_depth(rows: Sequence[Row], column: str, axis: Axis, words: str) -> Picture:
    lines = {"ResNet": _way(rows, KEPT, "resnet")}
    lines |= {f"RevNet, {way}": _way(rows, way) for way in WAYS}
    series = [_line(label, found, column) for label, found in lines.items() if found]
    depth = Axis(title="layers")
    return Picture(kind="lines", x=depth, y=axis, series=tuple(series), words=words)


def _line(label: str, rows: Sequence[Row], column: str) -> Series:
    return study.series(label, [one.number("layers") or 0.0 for one in rows], rows, column)
