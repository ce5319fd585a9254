"""What does it give to keep decoded images, and where should they be kept?

## What it shows
Epochs over JPEG files, the first one (cold) and those after it (warm): without a cache, with the
dict one writes first, and with `hotlap.data.Tiered` in memory, on disk, on the GPU, and with room
for half of the data. For super resolution (pieces of photographs) and for images as small as
CIFAR's. K is how many bytes of memory a byte on disk becomes.

## How it is measured
Each row is a process of its own that makes its files from a seed, in its own folder, and removes
them. It loads and trains nothing: an epoch takes as long as the loader takes, with crops, flips and
smaller copies made anew each time, above the cache. Of `--epochs N`, 2 at least, the first is cold.
The workers live on from epoch to epoch, which spares the dict from starting empty each time. Hits
are those of the warm epochs. Memory and bytes read are those of all processes, looked at between
epochs. What they share counts once; libraries do not count.

## How to read it
Gain is how much faster a warm epoch is than one of the same data without a cache. A cold epoch is
one without a cache, and filling it; small images take longer to keep than to decode. With w workers
a dict holds the data up to w times, and of an image it has seen, another worker has not: compare
its K and its hits with those of the shared tier. With room for half of the data, half of the
samples hit.

## When it misleads
The files have just been written, so the kernel has them in memory: what is saved here is decoding.
From a slow disk or a network the gain is larger. Training hides loading behind computing, so an
epoch of yours gains less than one that only loads.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import msgspec

from hotlap import stats, units
from hotlap.answers import Axis, Called, Column, Done, Picture, Row, Series, Value
from hotlap.errors import UsageError
from hotlap.studies import standings, study
from hotlap.studies.estimates import Costs
from hotlap.studies.standings import Standing
from hotlap.studies.study import Results, Setting

NAME = "cache"
QUESTION = "What does it give to keep decoded images, and where should they be kept?"
WARM = "warm_seconds"
COLUMNS: tuple[Column, ...] = (
    Column(name="cold_seconds", title="cold epoch", unit="seconds"),
    Column(name=WARM, title="warm epoch", unit="seconds", interval=True),
    Column(name="gain", title="gain", unit="ratio"),
    Column(name="hit_rate", title="hits", unit="share"),
    Column(name="ratio", title="K", unit="ratio"),
    Column(name="ram_bytes", title="in memory", unit="bytes"),
    Column(name="disk_bytes", title="on disk", unit="bytes"),
)
NONE, NAIVE, RAM = "no cache", "naive dict", "RAM"
GPU = "GPU"
# Room in each tier, in times the decoded data; a little more than one holds all of it.
WAYS: dict[str, dict[str, float]] = {
    NONE: {},
    NAIVE: {"naive": 1},
    RAM: {"ram": 1.2},
    "half in RAM": {"ram": 0.5},
    "half + disk": {"ram": 0.5, "disk": 1.2},
    "disk": {"disk": 1.2},
    GPU: {"device": 1.2},
}
FEW_WAYS = (NONE, NAIVE, RAM, "disk")
SUPERRES, CIFAR = "superres", "cifar"
DATA = {
    SUPERRES: {"count": 400, "size": 512, "batch": 8},
    CIFAR: {"count": 6_000, "size": 32, "batch": 64},
}
SMALL = {"count": 64, "size": 384, "batch": 8}


# What is run -----------------------------------------------------------------------------------


def plan(setting: Setting) -> list[Called]:
    cells = [_cell(setting, data, way) for data, way in asked(setting)]
    return study.interleaved(cells, setting.seeds or setting.pick(1, 2))


def asked(setting: Setting) -> list[tuple[str, str]]:
    if setting.quick:
        return [(SUPERRES, way) for way in FEW_WAYS]
    return [(data, way) for data in DATA for way in WAYS]


def name(data: str, way: str) -> str:
    return f"{data}, {way}"


def _cell(setting: Setting, data: str, way: str) -> Called:
    return Called(
        row=name(data, way),
        function="caching:measure",
        arguments={
            "data": data,
            "way": WAYS[way],
            **setting.pick(SMALL, DATA[data]),
            # What is on a GPU is only there for the process that trains.
            "workers": 0 if way == GPU else setting.pick(2, 4),
            "warm": _epochs(setting) - 1,
            "device": setting.device,
        },
        limit_seconds=300.0,
        skip=_skip(setting, way),
    )


def _epochs(setting: Setting) -> int:
    """Those that were asked for; with one alone there is nothing to compare."""
    if setting.epochs == 1:
        raise UsageError(
            "--epochs is 1; the study cache needs 2 at least, because the first one fills the "
            "cache and those after it show what that gives."
        )
    return setting.epochs or setting.pick(4, 3)


def _skip(setting: Setting, way: str) -> str:
    if importlib.util.find_spec("PIL") is None:
        return "Pillow is not installed, and it decodes the images"
    return "there is no GPU" if way == GPU and setting.device != "cuda" else ""


# What it comes to ------------------------------------------------------------------------------


def tabulate(setting: Setting, results: Results) -> list[Row]:
    known = {name(*one): one for one in asked(setting)}
    costs = _costs(results)
    rows = []
    for row in results.rows:
        data, way = known[row]
        made = study.row(row, results, _values, fixed={"data": data, "way": way})
        made = study.with_estimate(made, WARM, costs.estimate(row))
        plain = name(data, NONE)
        gain = costs.gain(row, over=plain) if row != plain else None
        rows.append(study.with_gain(made, "gain", gain))
    return study.with_best(rows, proven(rows))


def proven(rows: Sequence[Row]) -> list[str]:
    """Of each data set its own."""
    return [name for found in _standings(rows).values() for name in found.names]


def _standings(rows: Sequence[Row]) -> dict[str, Standing]:
    found = {data: standings.standing(_of(rows, data), WARM) for data in DATA}
    return {data: one for data, one in found.items() if one is not None}


def _costs(results: Results) -> Costs:
    return study.costs(results, lambda one: _number(one, WARM))


def _number(done: Done, figure: str) -> float | None:
    return study.number_of(done.figures, figure)


def _values(done: list[Done]) -> dict[str, Value]:
    def mean(figure: str) -> float | None:
        found = [one for one in (_number(run, figure) for run in done) if one is not None]
        return stats.mean(found) if found else None

    files, held = mean("file_bytes"), (mean("ram_bytes") or 0.0) + (mean("device_bytes") or 0.0)
    return {
        "cold_seconds": mean("cold_seconds"),
        "hit_rate": mean("hit_rate"),
        "ratio": held / files if files and held else None,
        "foreseen_ratio": mean("foreseen_ratio"),
        "ram_bytes": mean("ram_bytes") or None,
        "disk_bytes": mean("disk_bytes") or None,
        "device_bytes": mean("device_bytes") or None,
        "file_bytes": files,
    }


def _of(rows: Sequence[Row], data: str) -> list[Row]:
    return [one for one in rows if one.values.get("data") == data and one.number(WARM)]


# What it says ----------------------------------------------------------------------------------


def read(setting: Setting, rows: Sequence[Row]) -> str:
    found = _standings(rows)
    if not found:
        return study.nothing(rows)
    said = [f"{_told(rows, data)}." for data in found]
    said += list(filter(None, (_naive(rows, data) for data in DATA)))[:1]  # the others say the same
    said += [_losing(rows)] if _losing(rows) else []
    left = [one for one in rows if not one.good and one.status != "skipped"]
    return " ".join(said) + study.missing(left)


def _losing(rows: Sequence[Row]) -> str:
    """Caches that cost more than they give, beyond the noise."""
    lost = [one for one in rows if one.good and one.intervals.get("gain", (1.0, 1.0))[1] < 1.0]
    told = [f"{one.name} ({one.number('gain'):.2f} times as fast)" for one in lost]
    return f"Slower than without a cache: {units.listed(told)}." if told else ""


def _told(rows: Sequence[Row], data: str) -> str:
    """Of one data set, whose name the others there need not repeat."""
    own = [msgspec.structs.replace(one, name=str(one.values["way"])) for one in _of(rows, data)]
    found = standings.standing(own, WARM)
    assert found is not None
    best = found.first
    said = f", {units.seconds(best.number(WARM))} an epoch"
    if "gain" in best.intervals:
        gain, (low, _) = best.number("gain"), best.intervals["gain"]
        said += f", {gain:.1f} times as fast as without a cache"
        said += "" if low > 1.0 else ", which is within the noise"
    called = name(data, best.name) if found.proven or not found.others else best.name
    return standings.opening(found, said, name=called, word=f"fastest for {data}")


def _naive(rows: Sequence[Row], data: str) -> str:
    """The dict beside the shared tier: what each holds, and how often it hits."""
    known = {one.values["way"]: one for one in _of(rows, data)}
    naive, shared = known.get(NAIVE), known.get(RAM)
    if naive is None or shared is None or not (naive.number("ratio") and shared.number("ratio")):
        return ""
    held = [units.size(one.number("ram_bytes")) for one in (naive, shared)]
    hits = [units.share(one.number("hit_rate")) for one in (naive, shared)]
    times = [f"{one.number('ratio'):.2f} times" for one in (naive, shared)]
    foreseen = shared.number("foreseen_ratio")
    before = f" ({foreseen:.2f} foreseen)" if foreseen else ""
    return (
        f"For {data} a dict in each worker grew to {held[0]}, {times[0]} the size of the files "
        f"(K), and hit in {hits[0]} of all cases; what workers share took {held[1]}, "
        f"{times[1]}{before}, and hit in {hits[1]}."
    )


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    if not _standings(rows):
        return ()
    known = [one for one in rows if one.number(WARM)]
    names = [one.name for one in known]
    pictures = [
        Picture(
            kind="bars",
            x=Axis(title="cache"),
            y=Axis(title="seconds an epoch"),
            series=(
                study.series("cold", names, known, "cold_seconds"),
                study.series("warm", names, known, WARM),
            ),
            words="The first epoch, which fills the cache, and those after it.",
        )
    ]
    for data in DATA:
        own = _of(rows, data)
        if own:
            pictures += _over_time(own, results, data)
    return tuple(pictures)


def _over_time(rows: Sequence[Row], results: Results, data: str) -> list[Picture]:
    shown = {
        "memory_bytes": ("bytes of memory", f"Memory of all processes, between epochs, {data}."),
        "read_bytes": (
            "bytes read from files",
            f"Bytes read from files so far, between epochs, {data}.",
        ),
        "disk_bytes": ("bytes of cache on disk", f"The cache on disk, between epochs, {data}."),
    }
    pictures = []
    for figure, (title, words) in shown.items():
        lines = [_line(one, results, figure) for one in rows]
        series = tuple(one for one in lines if any(one.y))
        if series:
            y = Axis(title=title, unit="bytes")
            x = Axis(title="seconds since loading began")
            pictures.append(Picture(kind="lines", x=x, y=y, series=series, words=words))
    return pictures


def _line(row: Row, results: Results, figure: str) -> Series:
    """Of its first run."""
    timeline: list[dict[str, Any]] = results.good(row.name)[0].figures.get("timeline") or []
    at = [one for one in timeline if "seconds" in one]
    return Series(
        name=str(row.values["way"]),
        x=tuple(float(one["seconds"]) for one in at),
        y=tuple(study.number_of(one, figure) for one in at),
    )
