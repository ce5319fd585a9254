"""What does each known optimization give, alone and together?

## What it shows
A plain training script, then the same script with one optimization at a time, then with more and
more of them: step time, samples a second, memory, and how many times as fast it has become.

## How it is measured
The stock row is `hotlap.workloads.cifar` as it is often written: ResNet-18, float32, batch 128, a
loader without workers, each image cropped, mirrored and normalised by itself. Every other row is
the same command under a recipe: optimizations are applied from outside, as `hotlap tune` does. A
name alone is that one over stock. A row that begins with `and` adds one to the row above it. There
are two ladders: workers, pinned memory and bytes make the loader faster; `device-input` replaces
the loader, and all else comes on top of it. The larger batch stands last and takes the learning
rate with it, because it changes what is learned.

Each row is timed in a fresh process until its steps have settled, in two rounds unless `--seeds`
says how many: first from the last row to stock, then back, so that a machine that drifts meanwhile
widens the intervals instead of favouring a row. With `--epochs N` every row also trains for N
epochs, between the first round and the others: what the first epoch took (it compiles), what the
others took, and how many images are told right.

## How to read it
`gain` is over stock, `step up` over the row above. An optimization that gives nothing alone may
give much once something else no longer stands in its way, and the other way round: compare both
places where it appears. A gain whose interval holds 1 is within the noise.

## When it misleads
The gains are those of a small network on small images. Its stock step mostly waits for its input
and for kernels to be launched; where the device computes all the time, bf16 and channels-last give
more and device-input nothing. How much loading there is to save depends on what one image costs:
here some 150 µs of one core, a little less than with torchvision's transforms. The last row learns
with another batch size: look at its accuracy too. Where there is no GPU, rows that need one are
left out and the others add up without them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotlap import stats, units
from hotlap.answers import Axis, Column, Done, Picture, Row, Series, Timed, Trained, Value
from hotlap.records import MEMORY_PARTS
from hotlap.studies import estimates, learning, rungs, standings, study
from hotlap.studies.study import AnyCell, Results, Setting

NAME = "ladder"
QUESTION = "What does each known optimization give, alone and together?"
RATE = "samples_per_second"
TOTAL = "total_seconds"  # of an epoch, without the test images
COLUMNS: tuple[Column, ...] = (
    Column(name="batch", title="batch", unit="number"),
    Column(name="peak_bytes", title="memory", unit="bytes", spare=True),
    Column(name="step_seconds", title="step", unit="seconds"),
    Column(name=RATE, title="samples/s", unit="rate"),
    Column(name="gain", title="gain", unit="ratio", interval=True),
    Column(name="step_up", title="step up", unit="ratio", spare=True),
    Column(name="first_epoch_seconds", title="1st epoch", unit="seconds", spare=True),
    Column(name="epoch_seconds", title="epoch", unit="seconds"),
    Column(name="train_accuracy", title="train", unit="accuracy"),
    Column(name="test_accuracy", title="test", unit="accuracy"),
)
WITH_EPOCHS = ("first_epoch_seconds", "epoch_seconds", "train_accuracy", "test_accuracy")
ROUNDS = 2  # one run of a row says nothing of the noise around it
SINGLE = {"OMP_NUM_THREADS": "1"}  # of a tiny network threads make chance on a busy machine


# The cells -----------------------------------------------------------------------------------


def plan(setting: Setting) -> list[AnyCell]:
    """A study that is cut off has every row trained before any is timed again."""
    listed = rungs.listed(setting)
    rounds = setting.seeds or setting.pick(1, ROUNDS)
    timed = study.interleaved([_timed(setting, rung) for rung in listed], rounds)
    first, again = timed[: len(listed)], timed[len(listed) :]
    trained = listed if setting.epochs else []
    return [*first, *(cell for rung in trained for cell in _trained(setting, rung, rounds)), *again]


def _words(setting: Setting, epochs: int, *more: object) -> tuple[str, ...]:
    small = ("--model", "resnet10", "--width", 8, "--samples", 512)
    size = setting.pick(small, ("--model", "resnet18"))
    usual = ("--batch", rungs.batch(setting), "--workers", 0, "--optimizer", "nesterov")
    return setting.workload("cifar", *size, *usual, "--epochs", epochs, *more)


def _timed(setting: Setting, rung: rungs.Rung) -> Timed:
    return Timed(
        row=rung.name,
        words=_words(setting, 1000),
        recipe=rung.recipe,
        seconds=setting.pick(1.0, 2.0),
        window_seconds=setting.pick(0.2, 0.3),
        limit_seconds=setting.pick(60.0, 240.0),
        variables=setting.pick(SINGLE, {}),
        skip=rung.skip,
    )


def _trained(setting: Setting, rung: rungs.Rung, number: int) -> list[Trained]:
    return [
        Trained(
            row=rung.name,
            run=number + seed,
            words=_words(setting, setting.epochs or 1, "--seed", seed),
            recipe=rung.recipe,
            limit_seconds=setting.pick(120.0, 1800.0),
            variables=setting.pick(SINGLE, {}),
            skip=rung.skip,
        )
        for seed in range(setting.seeds or 1)
    ]


# The table -----------------------------------------------------------------------------------


def tabulate(setting: Setting, results: Results) -> list[Row]:
    known = study.sample_costs(results)
    above = {rung.name: rung.above for rung in rungs.listed(setting)}
    rows = []
    for name in results.rows:
        made = study.row(name, results, _values)
        made = study.with_estimate(made, RATE, known.rate(name))
        if name != rungs.STOCK:
            made = study.with_gain(made, "gain", known.gain(name, over=rungs.STOCK))
        if above.get(name, rungs.STOCK) != rungs.STOCK:
            made = study.with_gain(made, "step_up", known.gain(name, over=above[name]))
        rows.append(learning.with_trouble(_with_accuracies(made, results), results))
    return study.with_best(rows, proven(rows))


def proven(rows: Sequence[Row]) -> list[str]:
    found = standings.standing(rows, RATE, most=True)
    return found.names if found is not None else []


def _values(done: list[Done]) -> dict[str, Value]:
    found = {
        name: [value for one in study.timed(done) if (value := study.number_of(one.figures, name))]
        for name in ("samples", "peak_bytes", "step_seconds")
    }
    logged = [study.epochs(one, TOTAL, first=True) for one in done]
    trained = learning.trainings(done)
    firsts = [one[0] for one in logged if one]
    later = [stats.mean(one[1:]) for one in logged if len(one) > 1]
    values: dict[str, Value] = {
        "batch": stats.median(found["samples"]) if found["samples"] else None,
        "peak_bytes": max(found["peak_bytes"], default=None),
        "step_seconds": stats.median(found["step_seconds"]) if found["step_seconds"] else None,
        "first_epoch_seconds": stats.mean(firsts) if firsts else None,
        "epoch_seconds": stats.mean(later) if later else None,
    }
    if trained:
        values["trainings"] = len(trained)
        values["diverged"] = sum(map(learning.diverged, trained))
    return values


def _with_accuracies(one: Row, results: Results) -> Row:
    """Of the last epoch, over the seeds."""
    for name in ("train_accuracy", "test_accuracy"):
        logged = [study.epochs(done, name) for done in results.good(one.name)]
        found = estimates.mean([values[-1] for values in logged if values])
        one = study.with_estimate(one, name, learning.possible(found, name))
    return one


# What it says --------------------------------------------------------------------------------


def read(setting: Setting, rows: Sequence[Row]) -> str:
    found = standings.standing(rows, RATE, most=True)
    if found is None:
        return study.nothing(rows)
    told = f", {units.rate(found.first.number(RATE))}"
    told += f", {_times(found.first, 'gain')} stock" if "gain" in found.first.intervals else ""
    first = standings.opening(found, told, name=_whole(setting, found.first))
    steps = [one for one in rows if one.number("step_up")]
    alone = [one for one in rows if one.number("gain") and one not in steps]
    above = {rung.name: _bare(rung.above) for rung in rungs.listed(setting)}
    under = above.get(steps[0].name, "others") if len(steps) == 1 else "others"
    compared = [
        _compared("By itself,", alone, "gain"),
        _compared(f"On top of {under},", steps, "step_up"),
    ]
    parts = [first, *compared, _learned(setting, rows)]
    said = " ".join(f"{part}." for part in parts if part)
    return said + learning.troubles(rows) + study.missing(rows)


def _whole(setting: Setting, one: Row) -> str:
    """A row with all that it adds to: device-input, bf16 and compile."""
    above = {rung.name: rung.above for rung in rungs.listed(setting)}
    below: list[str] = []
    at = above.get(one.name, rungs.STOCK)
    while at not in (rungs.STOCK, ""):
        below.insert(0, _bare(at))
        at = above[at]
    return f"{', '.join(below)} {one.name}".strip()


def _bare(name: str) -> str:
    return name.removeprefix(study.AND)


def _times(one: Row, column: str) -> str:
    """3.10 times (2.95 to 3.26)."""
    low, high = one.intervals[column]
    return f"{one.number(column):.2f} times ({low:.2f} to {high:.2f})"


def _compared(opening: str, rows: Sequence[Row], column: str) -> str:
    """Which one gives most; how many give nothing beyond the noise, and how many lose."""
    rows = [one for one in rows if column in one.intervals]
    faster = [one for one in rows if one.intervals[column][0] > 1]
    slower = [one for one in rows if one.intervals[column][1] < 1]
    even = len(rows) - len(faster) - len(slower)
    words = []
    if faster:
        most = max(faster, key=lambda one: one.number(column) or 0.0)
        times = f"{most.number(column):.2f} times"
        gives = f"gives {times}" if len(faster) == 1 else f"gives most ({times})"
        words.append(f"{_bare(most.name)} {gives}")
    if even:
        which = [_bare(one.name) for one in rows if one not in faster and one not in slower]
        few = which[0] if even == 1 else f"{even} of {len(rows)}"
        words.append(f"{few} {'makes' if even == 1 else 'make'} no provable difference")
    if slower:
        worst = min(slower, key=lambda one: one.number(column) or 0.0)
        times = f"{worst.number(column):.2f} times"
        is_slower = f"is slower ({times})" if len(slower) == 1 else f"loses most ({times})"
        words.append(f"{_bare(worst.name)} {is_slower}")
    return f"{opening} {units.listed(words)}" if words else ""


def _ends(rows: Sequence[Row]) -> list[Row]:
    """Stock and the row that has everything: what the whole ladder did to the learning."""
    return [rows[0], rows[-1]] if len(rows) > 1 else list(rows)


def _end(one: Row) -> str:
    return one.name if _bare(one.name) == one.name else f"all up to {_bare(one.name)}"


def _learned(setting: Setting, rows: Sequence[Row]) -> str:
    told = []
    for one in _ends(rows):
        right, first = one.number("test_accuracy"), one.number("first_epoch_seconds")
        if right is None or first is None:
            continue
        later = max(0, (setting.epochs or 1) - 1) * (one.number("epoch_seconds") or 0.0)
        spent = units.seconds(first + later)
        told.append(f"{_end(one)} has {100 * right:.1f} % test accuracy ({spent} of training)")
    epochs = units.plural(setting.epochs or 1, "epoch")
    others = _between(rows, "between them" if len(told) > 1 else "beside it")
    return f"After {epochs}, {units.listed(told)}{others}" if told else ""


def _between(rows: Sequence[Row], where: str) -> str:
    """What was learned in the rows that stand between the ends."""
    known = [value for one in rows[1:-1] if (value := one.number("test_accuracy")) is not None]
    if not known:
        return ""
    low, high = (units.accuracy(value) for value in (min(known), max(known)))
    others = "the row" if len(known) == 1 else f"the {len(known)} rows"
    return f"; {others} {where} {'has' if len(known) == 1 else 'have'} " + (
        low if low == high else f"{low.removesuffix(' %')} to {high}"
    )


# What it draws -------------------------------------------------------------------------------


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    good = [one for one in rows if one.number(RATE)]
    if not good:
        return ()
    names = [one.name for one in good]
    rates = Picture(
        kind="bars",
        x=Axis(title="optimization"),
        y=Axis(title="samples/s"),
        series=(study.series("samples/s", names, good, RATE),),
        words="Samples a second, with 95 % intervals; a row with 'and' adds to the one before it.",
    )
    return (rates, *_memory(good, results), *_curves(rows, results))


def _memory(rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    """What the memory is made of; a CPU's is not known."""
    parts = {one.name: _parts(results.good(one.name)) for one in rows}
    known = {name: found for name, found in parts.items() if any(found.values())}
    if not known:
        return ()
    series = tuple(
        Series(name=part, x=tuple(known), y=tuple(found.get(part) for found in known.values()))
        for part in MEMORY_PARTS
    )
    most = max(known, key=lambda name: sum(known[name].values()))
    picture = Picture(
        kind="stacked",
        x=Axis(title="optimization"),
        y=Axis(title="bytes at the peak", unit="bytes"),
        series=series,
        words=f"What the memory at the peak is made of; the row '{most}' takes most.",
    )
    return (picture,)


def _parts(done: Sequence[Done]) -> dict[str, float]:
    memory = next((one.figures.get("memory") for one in study.timed(done)), None) or {}
    return {name: study.number_of(memory, f"{name}_bytes") or 0.0 for name in MEMORY_PARTS}


def _curves(rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    """Accuracy over the seconds spent in training, at both ends of the ladder."""
    series = []
    for one in _ends(rows):
        for done in results.good(one.name):
            right = study.epochs(done, "test_accuracy", first=True)
            times = study.epochs(done, TOTAL, first=True)
            if right and len(right) == len(times):
                at = tuple(sum(times[: number + 1]) for number in range(len(times)))
                series.append(Series(name=_end(one), x=at, y=tuple(right)))
    if not series:
        return ()
    picture = Picture(
        kind="lines",
        x=Axis(title="seconds of training", log=True),
        y=Axis(title="test images told right", unit="share"),
        series=tuple(series),
        words="What is learned by when: a mark is an epoch, the first one with compiling.",
    )
    return (picture,)
