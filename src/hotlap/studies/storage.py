"""How much does storage that answers late cost, and what helps against it?

## What it shows
Samples a second from a store that answers each request after 0, 5, 50 or 200 ms: with torch's
DataLoader as it is and more and more workers, and with `hotlap.data.Concurrent`, whose threads
fetch the samples of a batch at the same time.

## How it is measured
The store is simulated: a sample sleeps for the latency, then 48 KiB are made into floats, as
decoding would. Nothing comes from a network or a disk. Each loader is a process of its own that
goes through epochs at each latency, after one without any that starts workers and threads. A batch
has 32 samples (8 with `--quick`), and each worker gets the same number of batches. Memory is that
of the loader's processes in the end; what they share counts once, libraries do not count.

## How to read it
Who fetches one sample after the other gets no more than 1 / latency samples a second, whatever the
machine. Workers multiply that by their number, one process each; threads multiply it by theirs
within each process. The reading says from which latency on threads pay.

## When it misleads
Only waiting can be done at the same time: where samples take long to decode, threads take turns,
and workers help more. A real store has a limit to what it delivers at once; this one has none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hotlap import stats, units
from hotlap.answers import Axis, Called, Column, Done, Picture, Row, Series, Value
from hotlap.studies import standings, study
from hotlap.studies.estimates import Costs, Timing
from hotlap.studies.study import Results, Setting

NAME = "storage"
QUESTION = "How much does storage that answers late cost, and what helps against it?"
LATENCIES = (0, 5, 50, 200)  # milliseconds
RATES = {latency: f"rate_{latency}ms" for latency in LATENCIES}
LATEST = RATES[LATENCIES[-1]]
COLUMNS: tuple[Column, ...] = (
    *(Column(name=RATES[one], title=f"at {one} ms", unit="rate") for one in LATENCIES[:-1]),
    Column(name=LATEST, title=f"samples/s at {LATENCIES[-1]} ms", unit="rate", interval=True),
    Column(name="gain", title="of 0 workers", unit="ratio"),
    Column(name="memory_bytes", title="memory", unit="bytes", spare=True),
)
SAMPLE_BYTES = 3 * 128 * 128
SHORT_SECONDS = 0.1  # a batch that takes less is not worth an epoch of its own
MANY = 8  # batches for each worker where they are short
# Workers and threads; without threads it is torch's DataLoader as it is.
LOADERS = ((0, 0), (2, 0), (4, 0), (8, 0), (0, 8), (0, 32), (2, 32))
FEW_LOADERS = ((0, 0), (2, 0), (0, 8))


# What is run -----------------------------------------------------------------------------------


def plan(setting: Setting) -> list[Called]:
    cells = [
        Called(
            row=name(workers, threads),
            function="storage:measure",
            arguments={
                "workers": workers,
                "threads": threads,
                "batch": setting.pick(8, 32),
                "seconds": setting.pick(0.2, 1.0),
            },
            limit_seconds=setting.pick(60.0, 300.0),
        )
        for workers, threads in loaders(setting)
    ]
    return study.interleaved(cells, setting.seeds or setting.pick(1, 2))


def loaders(setting: Setting) -> tuple[tuple[int, int], ...]:
    return setting.pick(FEW_LOADERS, LOADERS)


def name(workers: int, threads: int) -> str:
    parts = [units.plural(threads, "thread")] if threads else []
    if workers or not threads:
        parts.append(units.plural(workers, "worker"))
    return ", ".join(parts)


class Late:
    """Samples that take `latency` milliseconds to come. It is shared: workers see it change."""

    def __init__(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        import torch

        self.latency = torch.zeros(1).share_memory_()
        self._sleep = sleep

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> Any:
        import torch

        milliseconds = float(self.latency)
        if milliseconds:
            self._sleep(milliseconds / 1e3)
        data = bytearray(SAMPLE_BYTES)  # what came
        return torch.frombuffer(data, dtype=torch.uint8).view(3, 128, 128).float() / 255


class Batches:
    """Which samples the next epoch has; the loader asks for it in its own process."""

    def __init__(self, size: int) -> None:
        self.size, self.count = size, 1

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[list[int]]:
        for at in range(self.count):
            yield list(range(at * self.size, (at + 1) * self.size))


def measure(*, workers: int, threads: int, batch: int, seconds: float) -> dict[str, Any]:
    import torch
    from torch.utils.data import DataLoader

    from hotlap.data import Concurrent
    from hotlap.studies import processes

    torch.set_num_threads(1)
    late, batches = Late(), Batches(batch)
    dataset = Concurrent(late, threads=threads) if threads else late
    loader = DataLoader(
        dataset, batch_sampler=batches, num_workers=workers, persistent_workers=workers > 0
    )
    batches.count = each = max(1, workers)
    epoch(loader)
    found = {}
    for latency in LATENCIES:
        late.latency[0] = latency
        waits = -(-batch // max(1, threads)) * latency / 1e3
        batches.count = each * (MANY if waits < SHORT_SECONDS else 1)
        windows = epochs(loader, batch * batches.count, seconds)
        found[str(latency)] = {"sample_seconds": stats.median(windows), "windows": windows}
    return {"latencies": found, "memory_bytes": processes.memory_bytes()}


def epochs(
    loader: Iterable[Any],
    samples: int,
    seconds: float,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Seconds a sample of each epoch, for about so long, and of one in any case."""
    windows: list[float] = []
    ends = clock() + seconds
    while not windows or clock() < ends:
        windows.append(epoch(loader, clock=clock) / samples)
    return windows


def epoch(loader: Iterable[Any], *, clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    for _ in loader:
        pass
    return clock() - began


# What it comes to ------------------------------------------------------------------------------


def tabulate(setting: Setting, results: Results) -> list[Row]:
    known = {latency: _costs(results, latency) for latency in LATENCIES}
    facts = {name(*one): one for one in loaders(setting)}
    first = results.rows[0]
    rows = []
    for row in results.rows:
        workers, threads = facts[row]
        fixed: dict[str, Value] = {"workers": workers, "threads": threads}
        made = study.row(row, results, _memory, fixed=fixed)
        for latency, costs in known.items():
            made = study.with_estimate(made, RATES[latency], costs.rate(row))
        gain = known[LATENCIES[-1]].gain(row, over=first) if row != first else None
        rows.append(study.with_gain(made, "gain", gain))
    return study.with_best(rows, proven(rows))


def proven(rows: Sequence[Row]) -> list[str]:
    found = standings.standing(rows, LATEST, most=True)
    return found.names if found is not None else []


def _costs(results: Results, latency: int) -> Costs:
    known: dict[str, list[Timing]] = {}
    for row in results.rows:
        told = [(one, _at(one, latency)) for one in results.good(row)]
        known[row] = [
            Timing(value, tuple(found.get("windows") or ()), one.disturbed, one.busy)
            for one, found in told
            if (value := study.number_of(found, "sample_seconds"))
        ]
    return Costs(known)


def _at(done: Done, latency: int) -> dict[str, Any]:
    found: dict[str, Any] = (done.figures.get("latencies") or {}).get(str(latency)) or {}
    return found


def _memory(done: list[Done]) -> dict[str, Value]:
    found = [study.number_of(one.figures, "memory_bytes") for one in done]
    return {"memory_bytes": max((one for one in found if one), default=None)}


# What it says ----------------------------------------------------------------------------------


def read(setting: Setting, rows: Sequence[Row]) -> str:
    found = standings.standing(rows, LATEST, most=True)
    if found is None:
        return study.nothing(rows)
    gain = found.first.number("gain")
    told = f", {units.rate(found.first.number(LATEST))} at {LATENCIES[-1]} ms"
    told += f", {units.count(gain)} times {rows[0].name}" if gain else ""
    said = standings.opening(found, told)
    return f"{said}. {_threads(rows)}".rstrip() + study.missing(rows)


def _threads(rows: Sequence[Row]) -> str:
    """From which latency on threads pay, and how much, beside the best of workers alone."""
    told, pay = [], None
    for latency in LATENCIES:
        plain, threaded = (_fastest(rows, latency, of) for of in (False, True))
        if plain is None or threaded is None:
            continue
        ratio = (threaded.number(RATES[latency]) or 0.0) / (plain.number(RATES[latency]) or 1.0)
        apart = standings.apart(plain, threaded, RATES[latency])
        if apart is None:
            return ""
        pay = (latency if pay is None else pay) if ratio > 1 and apart else None
        told.append((latency, ratio, apart))
    if not told:
        return ""
    if pay is None:
        at_the_longest = "workers alone at the longest of these latencies"
        if not told[-1][-1]:
            return f"Threads cannot be told from {at_the_longest}, within the noise."
        return f"Threads are no faster than {at_the_longest}."
    gains = [f"{_times(ratio)} ({latency} ms)" for latency, ratio, _ in told if latency >= pay]
    most = units.listed(gains)
    said = f"From {pay} ms on threads pay: they fetch {most} as much as workers alone"
    before = [(latency, ratio, apart) for latency, ratio, apart in told if latency < pay]
    return f"{said}.{_not_yet(before[-1])}" if before else f"{said}."


def _not_yet(told: tuple[int, float, bool]) -> str:
    latency, ratio, apart = told
    if not apart:
        return f" At {latency} ms there is no difference beyond the noise."
    return f" At {latency} ms they fetch {ratio:.2f} times as much."


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio < 10 else f"{ratio:,.0f} times"


def _fastest(rows: Sequence[Row], latency: int, threaded: bool) -> Row | None:
    known = [
        one
        for one in rows
        if one.number(RATES[latency]) and bool(one.number("threads")) == threaded
    ]
    return max(known, key=lambda one: one.number(RATES[latency]) or 0.0, default=None)


def draw(setting: Setting, rows: Sequence[Row], results: Results) -> tuple[Picture, ...]:
    found = standings.standing(rows, LATEST, most=True)
    good = [one for one in rows if one.number(LATEST)]
    if found is None:
        return ()
    at = [f"{latency} ms" for latency in LATENCIES]
    return (
        Picture(
            kind="lines",
            x=Axis(title="latency of the store"),
            y=Axis(title="samples/s", log=True),
            series=tuple(_line(one, at) for one in good),
            words=f"Samples a second by latency, with 95 % intervals; most at {at[-1]} "
            f"with {found.first.name}.",
        ),
        Picture(
            kind="bars",
            x=Axis(title="loader"),
            y=Axis(title="bytes of memory", unit="bytes"),
            series=(study.series("memory", [one.name for one in good], good, "memory_bytes"),),
            words="Memory of all processes of each loader; what they share counts once.",
        ),
    )


def _line(row: Row, at: Sequence[str]) -> Series:
    ends = [row.intervals.get(column, (None, None)) for column in RATES.values()]
    return Series(
        name=row.name,
        x=tuple(at),
        y=tuple(row.number(column) for column in RATES.values()),
        low=tuple(low for low, _ in ends),
        high=tuple(high for _, high in ends),
    )
