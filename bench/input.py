"""How many samples a second the ways of feeding small images to a training give.

Claimed: on a CPU, `DeviceDataset` hands out cropped and mirrored uint8 at least 25 times as fast as
the stock DataLoader with Pillow transforms in its better setting, and normalised floats faster than
any other loader here.

Every variant crops (padding 4, zeros, before normalising), mirrors half of the images and, unless
it says uint8, normalises to float32: each image with random numbers of its own, batches shuffled.
The stock variants do what torchvision does to a Pillow image: written out here, because it need not
be installed, and leaner than torchvision's own, which has a row where it is. The peers do it in the
way that suits them best: batched where they can be, worker processes kept alive. Images are random
numbers of CIFAR-10's shape, in memory or, where a peer insists, in its own format on disk.

Each round runs every variant once, in an order that is drawn for one round and reversed for the
next. On a CPU each turn is a process of its own, because idle peers keep threads and workers that
disturb the others: one epoch to warm up, then whole epochs until `--seconds` have passed. A turn
during which other programs burned CPU is repeated, three times at most; if it stays so, it counts
only where no round was quiet. The figure is the median over the rounds that count. A peer that is
not installed is named with the reason; install them into an environment of their own:

    pip install torch pillow torchdata kornia spdl litdata mosaicml-streaming nvidia-dali-cuda120
    python bench/input.py --json bench/results/input-cpu.json

FFCV is built from its repository, with the headers of OpenCV and libturbojpeg.

    python bench/input.py --device cuda --json bench/results/input-h200.json

compares on a GPU with airbench's own loader, where a checkout of it is on PYTHONPATH, and with its
idea (a whole epoch is augmented at once, then sliced), timed by CUDA events around whole epochs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.metadata
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from input_peers import PEERS, variants
from input_ways import SIZE, STOCK, Batches, Given

OTHERS_CORES = 0.15  # what other programs may burn during a turn that counts
TRIES = 3

Round = dict[str, "Turn"]


# Measuring ---------------------------------------------------------------------------------------


def epoch(start: Callable[[], Batches], given: Given) -> int:
    """Runs through it; answers how many samples came, all of the right shape."""
    samples = 0
    for inputs, labels in start():
        if tuple(inputs.shape[1:]) != (3, SIZE, SIZE) or len(inputs) != len(labels):
            raise ValueError(f"a batch of shape {tuple(inputs.shape)} with {len(labels)} labels")
        samples += len(labels)
    if samples < len(given.images) - given.batch:
        raise ValueError(f"{samples} samples of {len(given.images)}")
    return samples


def rate(start: Callable[[], Batches], given: Given, seconds: float) -> float:
    """Samples a second over whole epochs that take at least so long."""
    if given.device == "cuda":
        return rate_on_device(start, given, seconds)
    samples, began = 0, time.perf_counter()
    while True:
        samples += epoch(start, given)
        passed = time.perf_counter() - began
        if passed >= seconds:
            return samples / passed


def rate_on_device(start: Callable[[], Batches], given: Given, seconds: float) -> float:
    samples, passed = 0, 0.0
    while passed < seconds:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        samples += epoch(start, given)
        end.record()
        end.synchronize()
        passed += begin.elapsed_time(end) / 1e3
    return samples / passed


class Turn(NamedTuple):
    rate: float | None  # samples a second; None: it cannot run here
    others: float  # cores that other programs kept busy meanwhile
    absent: str = ""


def in_this_process(name: str, given: Given, seconds: float) -> Turn:
    try:
        start = variants(given.device)[name](given)
        epoch(start, given)
    except ImportError as problem:
        return Turn(None, 0.0, f"not installed: {problem}")
    except Exception as problem:
        return Turn(None, 0.0, f"did not run: {type(problem).__name__}: {problem}".split("\n")[0])
    busy, own, began = machine_seconds(), session_seconds(), time.perf_counter()
    found = rate(start, given, seconds)
    passed = time.perf_counter() - began
    others = machine_seconds() - busy - (session_seconds() - own)
    return Turn(found, max(0.0, others / passed))


def in_a_process(name: str, options: argparse.Namespace) -> Turn:
    """The quietest of a few tries, each by a fresh interpreter."""
    tries: list[Turn] = []
    while len(tries) < TRIES and not any(one.others < OTHERS_CORES for one in tries):
        command = [sys.executable, __file__, "--turn", name, "--seconds", str(options.seconds)]
        for option in ("samples", "batch", "threads", "seed"):
            command += [f"--{option}", str(getattr(options, option))]
        done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no output"])[-1]
            return Turn(None, 0.0, f"ended with {done.returncode}: {why}")
        tries.append(Turn(*json.loads(done.stdout.strip().splitlines()[-1])))
    return min(tries, key=lambda one: one.others)


def machine_seconds() -> float:
    """CPU time that all programs of this machine have burned."""
    user, nice, system, _idle, _wait, irq, soft, *_ = Path("/proc/stat").read_text().split()[1:]
    return sum(map(int, (user, nice, system, irq, soft))) / os.sysconf("SC_CLK_TCK")


def session_seconds() -> float:
    """CPU time of this process and of those it started, ended ones too."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()
            if int(fields[3]) == os.getsid(0):
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(
    names: list[str], run: Callable[[str], Turn], rounds: int, seed: int
) -> Iterator[list[Round]]:
    """All rounds so far, after each of them."""
    chance, order = random.Random(seed), list(names)
    found: list[Round] = []
    for number in range(rounds):
        if number % 2:
            order.reverse()
        else:
            chance.shuffle(order)
        turns = {name: run(name) for name in order}
        order = [name for name in order if turns[name].rate is not None]
        found.append(turns)
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        yield found


def machine(device: str) -> dict[str, Any]:
    versions = {}
    for name in ("torch", "numpy", "pillow", *PEERS):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return {
        "cpu": next((ln.partition(": ")[2] for ln in lines if ln.startswith("model name")), None),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
        "python": platform.python_version(),
        "versions": versions,
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


# Telling -----------------------------------------------------------------------------------------


def sorted_out(rounds: list[Round]) -> tuple[dict[str, list[float]], dict[str, str]]:
    """What counts of the variants that ran in every round; and why the others did not."""
    absent = {name: one.absent for turns in rounds for name, one in turns.items() if one.absent}
    rates = {}
    for name in rounds[0]:
        if name not in absent:
            turns = [each[name] for each in rounds]
            quiet = [one for one in turns if one.others < OTHERS_CORES]
            rates[name] = [one.rate for one in quiet or turns if one.rate is not None]
    return rates, absent


def reported(
    options: argparse.Namespace, about: dict[str, Any], rounds: list[Round]
) -> dict[str, Any]:
    rates, absent = sorted_out(rounds)
    return {
        "device": options.device,
        "samples": options.samples,
        "batch": options.batch,
        "machine": about,
        "samples_per_second": {
            name: {
                "median": statistics.median(values),
                "counted": values,
                "rounds": [turns[name].rate for turns in rounds],
                "others_cores": [turns[name].others for turns in rounds],
            }
            for name, values in rates.items()
        },
        "absent": absent,
    }


def told(rates: dict[str, list[float]], absent: dict[str, str]) -> str:
    medians = {name: statistics.median(values) for name, values in rates.items()}
    beside = max((value for name, value in medians.items() if name.startswith(STOCK)), default=None)
    rows = [["variant", "samples/s", "lowest", "highest", "times stock"]]
    for name, median in sorted(medians.items(), key=lambda item: item[1]):
        times = "" if beside is None else f"{median / beside:.1f}"
        low, high = min(rates[name]), max(rates[name])
        rows.append([name, f"{median:,.0f}", f"{low:,.0f}", f"{high:,.0f}", times])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([*lines, *(f"{name}: {why}" for name, why in absent.items())])


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description="Samples a second of ways to feed small images.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="at least so long a turn")
    parser.add_argument("--threads", type=int, default=cores, help="of torch")
    parser.add_argument("--only", default="", help="variants with this in their name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write everything here")
    parser.add_argument("--turn", help=argparse.SUPPRESS)  # one turn of one variant
    options = parser.parse_args()
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")  # the peers' own
    with tempfile.TemporaryDirectory(prefix="hotlap-bench-", ignore_cleanup_errors=True) as folder:
        if options.turn is not None:
            given = Given(options, Path(folder))
            print(json.dumps(in_this_process(options.turn, given, options.seconds)), flush=True)
            return
        if options.device == "cuda":  # starting CUDA for each turn takes longer than the turn
            given = Given(options, Path(folder))
            run = functools.partial(in_this_process, given=given, seconds=options.seconds)
        else:
            run = functools.partial(in_a_process, options=options)
        about = machine(options.device)
        names = [name for name in variants(options.device) if options.only in name]
        for rounds in measured(names, run, options.rounds, options.seed):
            rates, absent = sorted_out(rounds)
            if options.json is not None:
                report = reported(options, about, rounds)
                options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(told(rates, absent))


if __name__ == "__main__":
    main()
